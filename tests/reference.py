"""DiSK by somebody who never heard of flat batches: dense, one module per property, a loop over properties.

Every property of the schema has a column; every value is encoded, then masked; every property is decoded, then masked.
Nothing is shared with kbdisk but the codecs' plain data. `counterparts` says which of our weights are which of its.

B entities   N properties of the schema   D width   K components   V labels
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class Dense:
    """A batch as columns."""

    classes: Tensor  # (B,)
    codes: list[Tensor]  # of each property (B, ...), blank where not known
    known: Tensor  # (B, N)
    visible: Tensor  # (B, N)


def dense(batch: Any, visible: Tensor, properties: int) -> Dense:
    """A flat batch, column by column."""
    kinds = {at: kind for kind, span in batch.spans.items() for at in range(*span)}
    known, seen = torch.zeros(2, batch.size, properties, dtype=torch.bool)
    codes: dict[int, Tensor] = {}
    for token, (entity, slot) in enumerate(zip(batch.entity.tolist(), batch.slot.tolist(), strict=True)):
        kind = kinds[token]
        code = batch.values[kind][token - batch.spans[kind][0]]
        codes.setdefault(slot, code.new_zeros(batch.size, *code.shape))[entity] = code
        known[entity, slot], seen[entity, slot] = batch.known[token], visible[token]
    columns = [codes.get(slot, torch.zeros(batch.size, dtype=torch.long)) for slot in range(properties)]
    return Dense(batch.classes, columns, known, seen)


class Block(nn.Module):
    """Widen, gate, narrow, gate, add, normalise."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.widen = nn.Linear(width, 8 * width)
        self.narrow = nn.Linear(4 * width, 2 * width)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + self.dropout(F.glu(self.narrow(F.glu(self.widen(x))))))


class Layer(nn.Module):
    """A transformer's layer: each place looks at the places whose keys are not padding."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float, scale: float) -> None:
        super().__init__()
        self.heads, self.scale = heads, scale
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.mix = (nn.Linear(width, width) for _ in range(4))
        self.widen, self.narrow = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        """(B, 1 + N, D), (B, 1 + N) -> (B, 1 + N, D)"""
        y = self.norm_1(x)
        q, k, v = (one(y).unflatten(2, (self.heads, -1)).transpose(1, 2) for one in (self.query, self.key, self.value))
        scores = (q @ k.transpose(2, 3) * self.scale).masked_fill(padding[:, None, None], -math.inf)
        y = (scores.softmax(3) @ v).transpose(1, 2).flatten(2)
        x = x + self.dropout(self.mix(y))
        return x + self.dropout(self.narrow(torch.relu(self.widen(self.norm_2(x)))))


def blocks(config: Any) -> nn.Sequential:
    """Residual blocks, one after the other."""
    return nn.Sequential(*(Block(config.width, config.dropout) for _ in range(config.blocks)))


class Waves(nn.Module):
    """Waves of the code, a linear map, a ReLU."""

    def __init__(self, frequencies: int, width: int) -> None:
        super().__init__()
        self.frequency = nn.Parameter(torch.randn(frequencies))
        self.linear = nn.Linear(2 * frequencies, width)

    def forward(self, z: Tensor, codec: Any) -> Tensor:
        """(B, 1) -> (B, D)"""
        angle = 2 * math.pi * z * self.frequency
        return torch.relu(self.linear(torch.cat([torch.sin(angle), torch.cos(angle)], 1)))


class Spiral(nn.Module):
    """DICE: an angle by where the code is between the least and the greatest, its polar coordinates, turned."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.turn = torch.linalg.qr(torch.randn(width, width, generator=torch.Generator().manual_seed(0)))[0]

    def forward(self, z: Tensor, codec: Any) -> Tensor:
        """(B, 1) -> (B, D)"""
        share = (z - codec.edges[0]) / (codec.edges[-1] - codec.edges[0])
        below, above = 0.05 / (1 - 18 * share.clamp(max=0)), 1 - 0.05 / (1 + 18 * (share.clamp(min=1) - 1))
        angle = math.pi * torch.where(share < 0, below, torch.where(share > 1, above, 0.05 + 0.9 * share))
        powers = [torch.sin(angle) ** place for place in range(len(self.turn))]
        spiral = torch.cat([*(one * torch.cos(angle) for one in powers[:-1]), powers[-1]], 1)
        return spiral @ self.turn.T.to(z.dtype)


class NumberReader(nn.Module):
    """The code's embedding; a vector for each atom; the residual blocks."""

    def __init__(self, numbers: Any, atoms: int, config: Any) -> None:
        super().__init__()
        width = config.width
        self.embedding = Spiral(width) if numbers.embedding == "dice" else Waves(numbers.frequencies, width)
        self.atoms = nn.Embedding(atoms, width)
        self.blocks = blocks(config)

    def forward(self, codes: Tensor, path: Tensor, codec: Any) -> Tensor:
        """(B, 4), (D,) -> (B, D)"""
        x = self.embedding(codes[:, :1], codec) + path
        if self.atoms.num_embeddings:
            atom = codes[:, 3].long()
            x = x + torch.where((atom >= 0)[:, None], self.atoms(atom.clamp(min=0)), torch.zeros_like(x))
        return self.blocks(x)


class NumberBeliever(nn.Module):
    """The residual blocks, a head for the curve, one for the atoms, and one for what has the least squared error."""

    def __init__(self, numbers: Any, outputs: int, atoms: int, config: Any) -> None:
        super().__init__()
        width = config.width
        self.blocks = blocks(config)
        self.curve = nn.Linear(width, outputs)
        self.atoms = nn.Linear(width, 1 + atoms) if atoms else None
        self.point, self.weight = nn.Linear(width, 1) if numbers.point else None, numbers.point
        self.density = {"mixture": self.mixture, "binned": self.binned}[numbers.belief]

    def forward(self, h: Tensor, codes: Tensor, path: Tensor, codec: Any, hidden: Tensor) -> Tensor:
        """(B, D), (B, 4), (D,) -> -log of the mass of a step, and what is off (B,); 0 where not hidden"""
        h = self.blocks(h + path)
        mass = (1 - 1e-6) * self.density(self.curve(h), codes, codec) + 1e-6 * self.far_out(codes, codec)
        if self.atoms is not None:
            prior = [max(1 - sum(codec.shares), 0) + 1 / (codec.count + 1), *codec.shares]
            logits = self.atoms(h)[:, : len(prior)] + torch.tensor(prior, dtype=h.dtype).log()
            shares = logits.softmax(1)
            atom = codes[:, 3:].long()
            met = shares.gather(1, (atom + 1).clamp(max=len(prior) - 1)) * (atom >= 0)
            mass = shares[:, 0] * mass + met[:, 0]
        nats = -torch.where(hidden, mass.clamp(min=1e-30), 1).log()
        return nats if self.point is None else nats + self.weight * torch.where(hidden, self.off(h, codes, codec), 0)

    def off(self, h: Tensor, codes: Tensor, codec: Any) -> Tensor:
        """Half the squared error in deviations, its slope no more than 3."""
        mean, deviation = codec.moments
        numbers = torch.tensor([float(one) for one in codec.decode(codes)], dtype=h.dtype)
        error = (self.point(h)[:, 0] - (numbers - mean) / deviation).abs()
        return torch.where(error < 3, error**2 / 2, 3 * (error - 1.5))

    def far_out(self, codes: Tensor, codec: Any) -> Tensor:
        """Student's distribution with two degrees of freedom, about the middle of the training values."""
        middle, scale = (codec.edges[-1] + codec.edges[0]) / 2, (codec.edges[-1] - codec.edges[0]) / 2
        low, high = ((codes[:, 0] + side - middle) / scale for side in (-codes[:, 1], codes[:, 2]))
        return (high / (2 + high * high).sqrt() - low / (2 + low * low).sqrt()) / 2

    def mixture(self, out: Tensor, codes: Tensor, codec: Any) -> Tensor:
        """The weighted sum of what each Gaussian has between the ends of the step."""
        logits, mean, std = out.chunk(3, 1)  # (B, K) each
        std = F.softplus(std) + codec.floor
        low, high = (codes[:, :1] - codes[:, 1:2] - mean) / std, (codes[:, :1] + codes[:, 2:3] - mean) / std
        return (logits.softmax(1) * (torch.special.ndtr(high) - torch.special.ndtr(low))).sum(1)

    def binned(self, out: Tensor, codes: Tensor, codec: Any) -> Tensor:
        """The difference of the distribution function at the ends of the step."""
        prior = torch.tensor([0.5 / (codec.count + 1)] * 2 + list(codec.weights), dtype=out.dtype)
        shares = (out[:, : len(prior)] + prior.log()).softmax(1)
        edges = torch.tensor(codec.edges, dtype=out.dtype)
        tail = 0.1 * (edges[-1] - edges[0])

        def below(z: Tensor) -> Tensor:
            under = torch.exp((z - edges[0]).clamp(max=0) / tail)
            over = 1 - torch.exp(-(z - edges[-1]).clamp(min=0) / tail)
            within = ((z - edges[:-1]) / edges.diff()).clamp(0, 1)
            return (shares * torch.cat([under, over, within], 1)).sum(1)

        return below(codes[:, :1] + codes[:, 2:3]) - below(codes[:, :1] - codes[:, 1:2])


class CategoryReader(nn.Module):
    """A vector for each label; the first is for labels never met."""

    def __init__(self, labels: int, blocks: nn.Sequential, width: int) -> None:
        super().__init__()
        self.labels, self.blocks = nn.Embedding(1 + labels, width), blocks

    def forward(self, codes: Tensor, path: Tensor, codec: Any) -> Tensor:
        """(B,), (D,) -> (B, D)"""
        return self.blocks(self.labels(codes + 1) + path)


class CategoryBeliever(nn.Module):
    """A softmax over the labels; in an open set some mass is kept for those never met."""

    def __init__(self, labels: int, blocks: nn.Sequential, width: int) -> None:
        super().__init__()
        self.labels, self.blocks = nn.Linear(width, labels), blocks

    def forward(self, h: Tensor, codes: Tensor, path: Tensor, codec: Any, hidden: Tensor) -> Tensor:
        """(B, D), (B,), (D,) -> -log p (B,), 0 where not hidden"""
        log_p = self.labels(self.blocks(h + path)).log_softmax(1)
        log_p = log_p.gather(1, codes.clamp(min=0)[:, None])[:, 0]
        if codec.labels.open:
            counts = codec.labels.counts
            once = (sum(count == 1 for count in counts) + 0.5) / (sum(counts) + 1)
            log_p = torch.where(codes >= 0, math.log1p(-once) + log_p, math.log(once))
        return -torch.where(hidden, log_p, 0)


class Reference(nn.Module):
    """The whole network, and its loss. `sharing` is in the codec's slots: those of one group have the same modules."""

    def __init__(self, codec: Any, config: Any, field_mean: bool = False, recorded: float = 1.0) -> None:
        super().__init__()
        self.slots, self.config, D = codec.slots, config, config.width
        self.field_mean, self.recorded = field_mean, recorded  # the loss; what presence weighs in it
        self.paths = [(name,) for name in codec.classes] + [(slot.class_name, *slot.path) for slot in codec.slots]
        self.vocabulary = {str(key): 0 for path in self.paths for key in path}
        self.vocabulary = {key: place for place, key in enumerate(self.vocabulary)}
        self.keys, self.step = nn.Embedding(len(self.vocabulary), D), nn.Linear(D, D)
        self.query = nn.Parameter(torch.randn(D))
        self.classes = len(codec.classes)
        numbers = [slot.codec for slot in codec.slots if slot.kind == "number"]
        self.atoms = max((len(one.atoms) for one in numbers), default=0)
        self.bins = max((len(one.weights) for one in numbers), default=0)
        shared: dict[tuple[str, int], tuple[nn.Module, nn.Module]] = {}
        self.readers, self.believers = nn.ModuleList(), nn.ModuleList()
        for slot in codec.slots:
            if (slot.kind, slot.group) not in shared:
                pair = self._numbers(codec.config.kinds["number"]) if slot.kind == "number" else self._blocks()
                shared[slot.kind, slot.group] = pair
            reader, believer = shared[slot.kind, slot.group]
            if slot.kind == "category":
                labels = len(slot.codec.labels.values)
                reader, believer = CategoryReader(labels, reader, D), CategoryBeliever(labels, believer, D)
            self.readers.append(reader)
            self.believers.append(believer)
        scale = math.sqrt(config.base / config.heads) / (D / config.heads)
        self.layers = nn.ModuleList(
            Layer(D, config.heads, config.hidden * D, config.dropout, scale) for _ in range(config.layers)
        )
        self.norm, self.presence = nn.LayerNorm(D), nn.Linear(D, 1)
        fills = torch.tensor([slot.fill for slot in codec.slots]).clamp(0.01, 0.99)
        self.usual = (fills / (1 - fills)).log() if config.usual else torch.zeros(len(fills))

    def _numbers(self, numbers: Any) -> tuple[nn.Module, nn.Module]:
        outputs = {"mixture": 3 * numbers.components, "binned": 2 + self.bins}[numbers.belief]
        reader = NumberReader(numbers, self.atoms, self.config)
        return reader, NumberBeliever(numbers, outputs, self.atoms, self.config)

    def _blocks(self) -> tuple[nn.Module, nn.Module]:
        return blocks(self.config), blocks(self.config)

    def path(self, keys: tuple[Any, ...]) -> Tensor:
        """A recurrent network over the keys, its last state: (D,)"""
        state = None
        for key in keys:
            x = self.keys.weight[self.vocabulary[str(key)]]
            state = torch.tanh(x if state is None else x + self.step(state))
        return state

    def forward(self, batch: Dense) -> Tensor:
        """The loss: nats per entity, what is hidden weighed by D / M, and presence; or the mean of properties' means."""
        nats, presence = self.costs(batch)
        hidden = batch.known & ~batch.visible
        weight = batch.known.sum(1) / hidden.sum(1).clamp(min=1)
        recorded = (weight * presence.sum(1)).mean()
        if self.field_mean:
            means = [one.sum() / own.sum().clamp(min=1) for one, own in zip(nats.T, hidden.T, strict=True)]
            return torch.stack(means).sum() / hidden.any(0).sum() + self.recorded * recorded
        return (weight * nats.sum(1)).mean() + self.recorded * recorded

    def costs(self, batch: Dense) -> tuple[Tensor, Tensor]:
        """-log p of each property, and of its being recorded at all: (B, N) each, 0 where not hidden."""
        paths = [self.path(keys) for keys in self.paths]
        own = torch.stack(paths[: self.classes])[batch.classes]  # (B, D)
        paths = paths[self.classes :]
        columns = [own]
        for place, (path, codes) in enumerate(zip(paths, batch.codes, strict=True)):
            value = self.readers[place](codes, path, self.slots[place].codec)
            columns.append(path + torch.where(batch.visible[:, place, None], value, self.query))
        x = torch.stack(columns, 1)  # (B, 1 + N, D)

        padding = torch.cat([torch.zeros_like(batch.visible[:, :1]), ~batch.visible], 1)
        for layer in self.layers:
            x = layer(x, padding)
        h = self.norm(x)[:, 1:]

        hidden = batch.known & ~batch.visible
        nats = [
            self.believers[place](h[:, place], codes, path, self.slots[place].codec, hidden[:, place])
            for place, (path, codes) in enumerate(zip(paths, batch.codes, strict=True))
        ]
        return torch.stack(nats, 1), F.softplus(-self.presence(h)[..., 0] - self.usual).where(hidden, 0)


# ---------------------------------------------------------------- which of our weights are which of the reference's


def counterparts(reference: Reference, ours: nn.Module) -> Iterator[tuple[nn.Parameter, str, Any]]:
    """Each parameter of the reference, the name of ours, and where in ours it is."""
    every = slice(None)
    keys = ours.paths.key[ours.paths.line]  # which key of ours each path has at each place
    where = {str(key): int(keys[i, j]) for i, path in enumerate(reference.paths) for j, key in enumerate(path)}
    yield reference.keys.weight, "paths.names", [where[key] for key in reference.vocabulary]
    yield reference.query, "query", every
    for name in ("weight", "bias"):
        yield getattr(reference.step, name), f"paths.step.{name}", every
        yield getattr(reference.norm, name), f"entity_encoder.norm.{name}", every
        yield getattr(reference.presence, name), f"presence.{name}", every
        for place, layer in enumerate(reference.layers):
            yield from _layer(layer, f"entity_encoder.layers.{place}", name, reference.config.width)
    labels = {"read": sum(slot.kind == "category" for slot in reference.slots), "scored": 0}
    done: set[int] = set()
    for place, slot in enumerate(reference.slots):
        for side, module in (("encoders", reference.readers[place]), ("decoders", reference.believers[place])):
            prefix = f"kinds.{side}.{slot.kind}"
            if id(module.blocks) not in done:
                for number, block in enumerate(module.blocks):
                    yield from _block(block, f"{prefix}.blocks.{number}", slot.group)
                if slot.kind == "number":
                    yield from _number(module, prefix, slot.group)
                done.add(id(module.blocks))
        if slot.kind == "category":
            yield from _labels(reference, place, labels)


def _layer(layer: Layer, prefix: str, name: str, width: int) -> Iterator[tuple[nn.Parameter, str, Any]]:
    ours = {"norm_1": "before_attention", "norm_2": "before_map", "key": "key_value", "value": "key_value"}
    parts = {"key": slice(width), "value": slice(width, None)}
    for own in ("norm_1", "norm_2", "query", "key", "value", "mix", "widen", "narrow"):
        yield getattr(getattr(layer, own), name), f"{prefix}.{ours.get(own, own)}.{name}", parts.get(own, slice(None))


def _block(block: Block, prefix: str, group: int) -> Iterator[tuple[nn.Parameter, str, Any]]:
    for own in ("widen", "narrow"):
        for name in ("weight", "bias"):
            yield getattr(getattr(block, own), name), f"{prefix}.{own}.{name}", group
    yield block.norm.weight, f"{prefix}.gain", group
    yield block.norm.bias, f"{prefix}.shift", group


def _number(module: Any, prefix: str, group: int) -> Iterator[tuple[nn.Parameter, str, Any]]:
    heads = {
        f"{name}.linear": getattr(module, name) for name in ("curve", "atoms", "point") if hasattr(module, "curve")
    }
    if isinstance(getattr(module, "embedding", None), Waves):
        heads = {"embedding.linear": module.embedding.linear}
        yield module.embedding.frequency, f"{prefix}.embedding.frequency", group
    for name, head in heads.items():
        if head is not None:
            yield head.weight, f"{prefix}.{name}.weight", group
            yield head.bias, f"{prefix}.{name}.bias", group
    if isinstance(module, NumberReader) and (atoms := module.atoms.num_embeddings):
        # row 0 of ours is for what is no atom
        yield module.atoms.weight, f"{prefix}.atoms.weight", slice(1 + group * atoms, 1 + (group + 1) * atoms)


def _labels(reference: Reference, place: int, begin: dict[str, int]) -> Iterator[tuple[nn.Parameter, str, Any]]:
    """Tables of ours are for all properties: first the labels never met of each, then the labels of each."""
    before = sum(slot.kind == "category" for slot in reference.slots[:place])
    scores = reference.believers[place].labels
    read, scored = (range(begin[each], begin[each] + scores.out_features) for each in ("read", "scored"))
    yield reference.readers[place].labels.weight, "kinds.encoders.category.labels.table", [before, *read]
    yield scores.weight, "kinds.decoders.category.scores.table", list(scored)
    yield scores.bias, "kinds.decoders.category.scores.bias", list(scored)
    begin["read"], begin["scored"] = read.stop, scored.stop


@torch.no_grad()
def take_weights(reference: Reference, ours: nn.Module) -> None:
    """Give the reference our weights."""
    own = dict(ours.named_parameters())
    for parameter, name, where in counterparts(reference, ours):
        parameter.copy_(own[name][where])


def gradients(reference: Reference, ours: nn.Module) -> dict[str, Tensor]:
    """The reference's gradients as ours stand, NaN where it says nothing; by the names of ours."""
    whole = {name: torch.full_like(parameter, torch.nan) for name, parameter in ours.named_parameters()}
    for name in whole:
        if name.endswith("encoders.number.atoms.weight"):
            whole[name][0] = 0  # of what is no atom: never learnt
    for parameter, name, where in counterparts(reference, ours):
        whole[name][where] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    return whole


@torch.no_grad()
def give_weights(reference: Reference, ours: nn.Module) -> None:
    """Give our network the reference's weights."""
    own = dict(ours.named_parameters())
    for parameter, name, where in counterparts(reference, ours):
        own[name][where] = parameter
