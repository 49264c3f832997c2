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


class NumberReader(nn.Module):
    """Waves of the code, a linear map, a ReLU; a vector for each atom; the residual block."""

    def __init__(self, config: Any, atoms: int, width: int, dropout: float) -> None:
        super().__init__()
        self.frequency = nn.Parameter(torch.randn(config.frequencies))
        self.linear = nn.Linear(2 * config.frequencies, width)
        self.atoms = nn.Embedding(atoms, width)
        self.block = Block(width, dropout)

    def forward(self, codes: Tensor, path: Tensor) -> Tensor:
        """(B, 4), (D,) -> (B, D)"""
        angle = 2 * math.pi * codes[:, :1] * self.frequency
        x = torch.relu(self.linear(torch.cat([torch.sin(angle), torch.cos(angle)], 1))) + path
        if self.atoms.num_embeddings:
            atom = codes[:, 3].long()
            x = x + torch.where((atom >= 0)[:, None], self.atoms(atom.clamp(min=0)), torch.zeros_like(x))
        return self.block(x)


class NumberBeliever(nn.Module):
    """The residual block, a head for the curve, one for the atoms, and one for what has the least squared error."""

    def __init__(self, config: Any, outputs: int, atoms: int, width: int, dropout: float) -> None:
        super().__init__()
        self.block = Block(width, dropout)
        self.curve = nn.Linear(width, outputs)
        self.atoms = nn.Linear(width, 1 + atoms) if atoms else None
        self.point, self.weight = nn.Linear(width, 1), config.point
        self.density = {"mixture": self.mixture, "binned": self.binned}[config.belief]

    def forward(self, h: Tensor, codes: Tensor, path: Tensor, codec: Any, hidden: Tensor) -> Tensor:
        """(B, D), (B, 4), (D,) -> -log of the mass of a step, and what is off (B,); 0 where not hidden"""
        h = self.block(h + path)
        mass = (1 - 1e-6) * self.density(self.curve(h), codes, codec) + 1e-6 * self.far_out(codes, codec)
        if self.atoms is not None:
            prior = [max(1 - sum(codec.shares), 0) + 1 / (codec.count + 1), *codec.shares]
            logits = self.atoms(h)[:, : len(prior)] + torch.tensor(prior, dtype=h.dtype).log()
            shares = logits.softmax(1)
            atom = codes[:, 3:].long()
            met = shares.gather(1, (atom + 1).clamp(max=len(prior) - 1)) * (atom >= 0)
            mass = shares[:, 0] * mass + met[:, 0]
        off = torch.where(hidden, self.off(h, codes, codec), 0)
        return self.weight * off - torch.where(hidden, mass.clamp(min=1e-30), 1).log()

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

    def __init__(self, labels: int, block: Block) -> None:
        super().__init__()
        self.labels, self.block = nn.Embedding(1 + labels, block.norm.normalized_shape[0]), block

    def forward(self, codes: Tensor, path: Tensor) -> Tensor:
        """(B,), (D,) -> (B, D)"""
        return self.block(self.labels(codes + 1) + path)


class CategoryBeliever(nn.Module):
    """A softmax over the labels; in an open set some mass is kept for those never met."""

    def __init__(self, labels: int, block: Block) -> None:
        super().__init__()
        self.labels, self.block = nn.Linear(block.norm.normalized_shape[0], labels), block

    def forward(self, h: Tensor, codes: Tensor, path: Tensor, codec: Any, hidden: Tensor) -> Tensor:
        """(B, D), (B,), (D,) -> -log p (B,), 0 where not hidden"""
        log_p = self.labels(self.block(h + path)).log_softmax(1)
        log_p = log_p.gather(1, codes.clamp(min=0)[:, None])[:, 0]
        if codec.labels.open:
            counts = codec.labels.counts
            once = (sum(count == 1 for count in counts) + 0.5) / (sum(counts) + 1)
            log_p = torch.where(codes >= 0, math.log1p(-once) + log_p, math.log(once))
        return -torch.where(hidden, log_p, 0)


class Reference(nn.Module):
    """The whole network, and its loss. `sharing` is in the codec's slots: those of one group have the same modules."""

    def __init__(self, codec: Any, config: Any) -> None:
        super().__init__()
        self.slots, self.config, D = codec.slots, config, config.width
        self.paths = [(name,) for name in codec.classes] + [(slot.of, *slot.path) for slot in codec.slots]
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
                make = self._numbers if slot.kind == "number" else self._blocks
                shared[slot.kind, slot.group] = make(codec.config.kinds[slot.kind])
            reader, believer = shared[slot.kind, slot.group]
            if slot.kind == "category":
                labels = len(slot.codec.labels.values)
                reader, believer = CategoryReader(labels, reader), CategoryBeliever(labels, believer)
            self.readers.append(reader)
            self.believers.append(believer)
        scale = math.sqrt(config.base / config.heads) / (D / config.heads)
        self.layers = nn.ModuleList(
            Layer(D, config.heads, config.hidden * D, config.dropout, scale) for _ in range(config.layers)
        )
        self.norm, self.presence = nn.LayerNorm(D), nn.Linear(D, 1)

    def _numbers(self, config: Any) -> tuple[nn.Module, nn.Module]:
        outputs = {"mixture": 3 * config.components, "binned": 2 + self.bins}[config.belief]
        D, dropout = self.config.width, self.config.dropout
        return NumberReader(config, self.atoms, D, dropout), NumberBeliever(config, outputs, self.atoms, D, dropout)

    def _blocks(self, config: Any) -> tuple[nn.Module, nn.Module]:
        return Block(self.config.width, self.config.dropout), Block(self.config.width, self.config.dropout)

    def path(self, keys: tuple[Any, ...]) -> Tensor:
        """A recurrent network over the keys, its last state: (D,)"""
        state = None
        for key in keys:
            x = self.keys.weight[self.vocabulary[str(key)]]
            state = torch.tanh(x if state is None else x + self.step(state))
        return state

    def forward(self, batch: Dense) -> Tensor:
        """The loss: nats per entity, what is hidden weighed by D / M, and presence."""
        paths = [self.path(keys) for keys in self.paths]
        own = torch.stack(paths[: self.classes])[batch.classes]  # (B, D)
        paths = paths[self.classes :]
        columns = [own]
        for place, (path, codes) in enumerate(zip(paths, batch.codes, strict=True)):
            value = self.readers[place](codes, path)
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
        weight = batch.known.sum(1) / hidden.sum(1).clamp(min=1)
        recorded = F.softplus(-self.presence(h)[..., 0])[hidden].sum()
        return ((weight * torch.stack(nats, 1).sum(1)).sum() + recorded) / len(weight)


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
            if id(module.block) not in done:
                yield from _block(module.block, f"{prefix}.blocks.0", slot.group)
                if slot.kind == "number":
                    yield from _number(module, prefix, slot.group)
                done.add(id(module.block))
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
    reads = isinstance(module, NumberReader)
    linear = (
        {"linear": "embedding.linear"} if reads else {name: f"{name}.linear" for name in ("curve", "atoms", "point")}
    )
    for own, name in linear.items():
        if getattr(module, own) is not None:
            yield getattr(module, own).weight, f"{prefix}.{name}.weight", group
            yield getattr(module, own).bias, f"{prefix}.{name}.bias", group
    if reads:
        yield module.frequency, f"{prefix}.embedding.frequency", group
        atoms = module.atoms.num_embeddings
        if atoms:  # row 0 of ours is for what is no atom
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
