"""DiSK, the network: what is visible of some entities in, a belief about every property asked for out.

    paths  ──> path encoder ──────────────┐
                                          + ──> entity encoder ──> one decoder per kind of leaf
    visible values ──> one encoder per kind

A property that is hidden or asked for is known to the network by its path alone: its value is never encoded, and
no row attends to it. Values are encoded only where visible, and decoded only where asked for.

B entities   T tokens   V of them visible   Q asked for   n of one kind, ascending   S slots   D width
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from kbdisk.data import Codec
from kbdisk.data.dataset import Batch
from kbdisk.data.slots import Slot
from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.layers import Readout, attention_scale
from kbdisk.leaves.registry import LEARNT_KINDS
from kbdisk.leaves.text import build_reader
from kbdisk.model.attention import EntityEncoder, build_layout
from kbdisk.model.beliefs import Asked, Beliefs, Memo
from kbdisk.model.paths import PATHS, Keys

MIN_PRESENCE = 0.01  # the prior probability of presence is between this and 1 - this


@dataclass(frozen=True)
class ModelConfig:
    """The sizes of the network, and how it encodes paths and presence."""

    width: int = 128  # D, the size of every vector in the network; 0: fitted to the size of the data
    layers: int = 2  # of the entity encoder
    heads: int = 4  # attention heads of a layer
    hidden: int = 4  # times the width: of a layer's two maps, and of a residual block
    blocks: int = 1  # residual blocks on either side, for each property or kind
    dropout: float = 0.1  # probability that a unit is dropped in training
    base: int = 64  # the width at which learning rates were tuned (muP)
    paths: str = "keys"  # how a path is encoded, one of PATHS
    usual: bool = True  # whether the prediction of presence starts from how often a property is recorded

    def __post_init__(self) -> None:
        if self.width < 0 or self.width % self.heads:
            raise ValueError(f"expected a width that {self.heads} heads divide, got {self.width}")
        if self.paths not in PATHS:
            raise ValueError(f"expected one of {', '.join(PATHS)} for paths, got {self.paths!r}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"expected 0 to below 1 for dropout, got {self.dropout}")
        for name in ("layers", "heads", "hidden", "base"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected at least 1 for {name}, got {getattr(self, name)}")


class DiSK(nn.Module):
    """The network for the slots of one codec."""

    presence_prior: Tensor  # (S,) the log odds that a property is recorded, by its frequency in training

    def __init__(self, codec: Codec, config: ModelConfig) -> None:
        super().__init__()
        D = config.width
        self.config, self.classes = config, len(codec.classes)
        self.reader = build_reader(setting_of(codec, "text", config)) if codec.tokenizer else None  # of all texts
        paths: list[Keys] = [(name,) for name in codec.classes] + [slot.keys for slot in codec.slots]
        self.paths = PATHS[config.paths](paths, D, codec.tokenizer, self.reader)
        self.kinds = KindModules(codec, config, self.reader)
        self.query = nn.Parameter(torch.randn(D))  # stands for the value of an asked property
        scale = attention_scale(D, config.heads, config.base)
        self.entity_encoder = EntityEncoder(D, config.layers, config.heads, config.hidden * D, config.dropout, scale)
        self.presence = nn.Linear(D, 1)
        fills = torch.tensor([slot.fill for slot in codec.slots]).clamp(MIN_PRESENCE, 1 - MIN_PRESENCE)
        self.register_buffer(
            "presence_prior", fills.logit() if config.usual else torch.zeros(len(fills)), persistent=False
        )
        if config.usual:
            nn.init.zeros_(self.presence.weight)
            nn.init.zeros_(self.presence.bias)

    def forward(self, batch: Batch, visible: Tensor, asked: Tensor, memo: Memo | None = None) -> Beliefs:
        """Beliefs about the asked tokens (T,), given the visible ones (T,); `memo` serves passes over one batch."""
        queries, paths = (asked | batch.absent).nonzero()[:, 0], self._paths(batch)
        path = paths[1][paths[2][queries]]  # (Q, D)
        if self._uses_vectors(batch, asked):
            h = self._encode_queries(batch, visible, queries, paths, memo)
        else:
            h = torch.zeros_like(path)
        has_value = asked[queries]  # of an absent property only presence is predicted
        beliefs = self.kinds.believe(batch, queries[has_value], h[has_value], path[has_value])
        presence = self.presence(h).float()[:, 0] + self.presence_prior[batch.slot[queries]]
        return Beliefs(beliefs, len(batch), {"tokens": queries, "logits": presence})

    def zero_readouts(self) -> None:
        """Set the readouts of all decoders to zero: beliefs no longer depend on visible values, and are near the marginals."""
        for module in self.kinds.decoders.modules():
            if isinstance(module, Readout):
                module.zero_weights()

    def _uses_vectors(self, batch: Batch, asked: Tensor) -> bool:
        """Whether beliefs depend on the vectors of queries. In a network without steps all readouts are zero: its vectors need not be computed."""
        if torch.is_grad_enabled() or bool(self.presence.weight.any()):
            return True
        kinds = [kind for kind, (start, end) in batch.spans.items() if bool(asked[start:end].any())]
        return any(map(self.kinds.uses_vectors, kinds))

    def encode_asked(self, batch: Batch, visible: Tensor, asked: Tensor) -> Tensor:
        """(q, D) the vectors of the asked tokens (T,), in their order, given the visible ones (T,)."""
        queries, h = self.encode_asked_and_absent(batch, visible, asked)
        return h[asked[queries]]

    def encode_asked_and_absent(self, batch: Batch, visible: Tensor, asked: Tensor) -> tuple[Tensor, Tensor]:
        """(Q,) the tokens that are asked for (T,) or absent, and (Q, D) their vectors, given the visible ones (T,)."""
        queries = (asked | batch.absent).nonzero()[:, 0]
        return queries, self._encode_queries(batch, visible, queries, self._paths(batch), None)

    def _encode_queries(
        self, batch: Batch, visible: Tensor, queries: Tensor, paths: tuple[Tensor, Tensor, Tensor], memo: Memo | None
    ) -> Tensor:
        """(Q, D) the vectors of the tokens that are asked for or absent (Q,), with the batch's `paths`."""
        seen = visible.nonzero()[:, 0]  # (V,)
        entity, path, place = paths  # (B, D), (U, D), (T,)
        values = self._values(batch, seen, path[place[seen]], memo)  # (V, D)
        x = torch.cat([entity, values + path[place[seen]], self.query + path[place[queries]]])  # (B + V + Q, D)
        entities = torch.arange(batch.size, device=seen.device)
        owner = torch.cat([entities, batch.entity[seen], batch.entity[queries]])  # (B + V + Q,)
        key_count = batch.size + len(seen)
        keys = owner[:key_count]
        all_rows, asked_rows = build_layout(owner, keys, batch.size), build_layout(owner[key_count:], keys, batch.size)
        h: Tensor = self.entity_encoder(x, key_count, all_rows, asked_rows)
        return h

    def embed(self, batch: Batch, visible: Tensor) -> Tensor:
        """(B, D) the embedding of each entity: the mean of its encoded rows, of its class and its visible tokens (T,)."""
        seen = visible.nonzero()[:, 0]
        entity, path, place = self._paths(batch)
        x = torch.cat([entity, self.kinds.read(batch, seen, path[place[seen]]) + path[place[seen]]])  # (B + V, D)
        owner = torch.cat([torch.arange(batch.size, device=seen.device), batch.entity[seen]])  # (B + V,)
        h = self.entity_encoder.encode_seen(x, build_layout(owner, owner, batch.size))  # (B + V, D)
        total = h.new_zeros(batch.size, h.shape[1]).index_add(0, owner, h)
        return total / owner.bincount(minlength=batch.size)[:, None]

    def _paths(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """(B, D) the class of each entity, (U, D) the paths that occur, (T,) the number of the path of each token."""
        slots, place = batch.slot.unique_consecutive(return_inverse=True)
        classes, class_row = batch.classes.unique(return_inverse=True)
        paths = self.paths(torch.cat([classes, slots + self.classes]))
        return paths[: len(classes)][class_row], paths[len(classes) :], place

    def _values(self, batch: Batch, seen: Tensor, path: Tensor, memo: Memo | None) -> Tensor:
        """(V, D) the encoded values of the visible tokens; those encoded in an earlier pass are taken from the memo."""
        if memo is None:
            return self.kinds.read(batch, seen, path)
        is_done = memo.get("done", torch.zeros_like(batch.known))
        table = memo.get("values", path.new_zeros(len(batch), path.shape[1]))
        is_new = ~is_done[seen]
        new = seen[is_new]
        memo["values"] = table.index_copy(0, new, self.kinds.read(batch, new, path[is_new]))
        memo["done"] = is_done.index_fill(0, new, True)
        values: Tensor = memo["values"][seen]
        return values


class KindModules(nn.Module):
    """The encoders and decoders of every kind of leaf that the codec has slots of."""

    group: Tensor

    def __init__(self, codec: Codec, config: ModelConfig, reader: nn.Module | None) -> None:
        super().__init__()
        slots_of: dict[str, list[Slot]] = {}
        for slot in codec.slots:
            slots_of.setdefault(slot.kind, []).append(slot)
        self.first = {kind: codec.slots.index(slots[0]) for kind, slots in slots_of.items()}
        self.sets = {kind: slots[-1].group + 1 for kind, slots in slots_of.items()}
        self.register_buffer("group", torch.tensor([slot.group for slot in codec.slots]), persistent=False)  # (S,)
        self.encoders, self.decoders = nn.ModuleDict(), nn.ModuleDict()
        for kind, slots in slots_of.items():
            setting = setting_of(codec, kind, config, reader)
            codecs = [slot.codec for slot in slots]
            self.encoders[kind] = LEARNT_KINDS[kind].encoder(codecs, setting)
            self.decoders[kind] = LEARNT_KINDS[kind].decoder(codecs, setting)

    def read(self, batch: Batch, tokens: Tensor, path: Tensor) -> Tensor:
        """(n,) visible tokens, (n, D) their paths -> (n, D) their encoded values."""
        parts = [
            self.encoders[kind](batch.values[kind][of_kind - start], rows)
            for kind, start, of_kind, rows in self._rows(batch, tokens, path)
        ]
        return torch.cat([part.to(path.dtype) for part in parts]) if parts else path

    def believe(self, batch: Batch, tokens: Tensor, h: Tensor, path: Tensor) -> dict[str, Asked]:
        """(n,) asked tokens, (n, D) their vectors, (n, D) their paths -> beliefs by kind."""
        beliefs, begin = {}, 0
        for kind, start, of_kind, rows in self._rows(batch, tokens, path):
            vectors = h[begin : begin + len(of_kind)]
            beliefs[kind] = Asked(of_kind - start, start, vectors, self.decoders[kind](vectors, rows))
            begin += len(of_kind)
        return beliefs

    def uses_vectors(self, kind: str) -> bool:
        """Whether beliefs of a kind depend on the vectors of queries: not where its decoder has readouts, and all of them are zero."""
        readouts = [module for module in self.decoders[kind].modules() if isinstance(module, Readout)]
        return not readouts or not all(readout.has_zero_weights() for readout in readouts)

    def _rows(self, batch: Batch, tokens: Tensor, path: Tensor) -> Iterator[tuple[str, int, Tensor, Rows]]:
        """By kind: where its tokens begin in the batch, those of `tokens` that are of the kind, and their rows."""
        begin = 0
        for kind, (start, stop) in batch.spans.items():
            end = int(torch.searchsorted(tokens, stop))
            if end > begin:
                of_kind = tokens[begin:end]
                slot = batch.slot[of_kind]
                counts = self.group[slot].bincount(minlength=self.sets[kind]).tolist()
                yield kind, start, of_kind, Rows(slot - self.first[kind], counts, path[begin:end])
            begin = end


def setting_of(codec: Codec, kind: str, config: ModelConfig, reader: nn.Module | None = None) -> Setting:
    """The setting that the encoder and the decoder of a kind are built with."""
    return Setting(
        width=config.width,
        groups=[slot.group for slot in codec.slots if slot.kind == kind],
        config=codec.config.kinds[kind],
        blocks=config.blocks,
        dropout=config.dropout,
        tokenizer=codec.tokenizer,
        reader=reader,
        base=config.base,
    )
