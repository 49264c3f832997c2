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
from kbdisk.data.batch import Batch
from kbdisk.data.slots import BY_NAME, Slot
from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.layers import Readout, attention_scale
from kbdisk.leaves.text import build_reader
from kbdisk.model.attention import EntityEncoder, arrange
from kbdisk.model.beliefs import Asked, Beliefs, Memo
from kbdisk.model.paths import PATHS, Keys

NEVER = 0.01  # how likely it is at least that what nobody or everybody has is recorded, or is not


@dataclass(frozen=True)
class ModelConfig:
    """The network's sizes."""

    width: int = 128  # D, the size of every vector in the network; 0 until it is fitted to the data
    layers: int = 2  # of the entity encoder
    heads: int = 4
    hidden: int = 4  # times the width: of a layer's two maps, and of a residual block
    blocks: int = 1  # residual blocks on either side, for each property or kind
    dropout: float = 0.1
    base: int = 64  # the width at which learning rates were tuned (muP)
    paths: str = "keys"  # a row of PATHS: what a property is known by
    usual: bool = True  # whether how likely a property is to be recorded begins at how often it is

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

    usual: Tensor  # (S,) the log odds that a property is recorded, where nothing else is known

    def __init__(self, codec: Codec, config: ModelConfig) -> None:
        super().__init__()
        D = config.width
        self.config, self.classes = config, len(codec.classes)
        self.reader = build_reader(setting_of(codec, "text", config)) if codec.words else None  # of all text there is
        known: list[Keys] = [(one,) for one in codec.classes] + [slot.keys for slot in codec.slots]
        self.paths = PATHS[config.paths](known, D, codec.words, self.reader)
        self.kinds = KindModules(codec, config, self.reader)
        self.query = nn.Parameter(torch.randn(D))  # in the place of the value of what is asked for
        scale = attention_scale(D, config.heads, config.base)
        self.entity_encoder = EntityEncoder(D, config.layers, config.heads, config.hidden * D, config.dropout, scale)
        self.presence = nn.Linear(D, 1)
        fills = torch.tensor([slot.fill for slot in codec.slots]).clamp(NEVER, 1 - NEVER)
        self.register_buffer("usual", fills.logit() if config.usual else torch.zeros(len(fills)), persistent=False)
        if config.usual:
            nn.init.zeros_(self.presence.weight)
            nn.init.zeros_(self.presence.bias)

    def forward(self, batch: Batch, visible: Tensor, asked: Tensor, memo: Memo | None = None) -> Beliefs:
        """Beliefs about the asked tokens (T,), given the visible ones (T,); `memo` serves passes over one batch."""
        queries, h, path = self._queried(batch, visible, asked, memo)
        decoded = asked[queries]  # an absent property has no value to believe anything of
        beliefs = self.kinds.believe(batch, queries[decoded], h[decoded], path[decoded])
        presence = self.presence(h).float()[:, 0] + self.usual[batch.slot[queries]]
        return Beliefs(beliefs, len(batch), {"tokens": queries, "logits": presence})

    def silence(self) -> None:
        """Let beliefs about values no longer depend on what is visible: they are about the marginals, where they began."""
        for module in self.kinds.decoders.modules():
            if isinstance(module, Readout):
                module.zero_weights()

    def vectors(self, batch: Batch, visible: Tensor, asked: Tensor) -> Tensor:
        """(q, D) what the network makes of what is visible (T,), for each of the asked tokens (T,), in their order."""
        queries, h = self.queried(batch, visible, asked)
        return h[asked[queries]]

    def queried(self, batch: Batch, visible: Tensor, asked: Tensor) -> tuple[Tensor, Tensor]:
        """(Q,) the tokens that are asked for (T,) or absent, and (Q, D) what the network makes of the rest for each."""
        queries, h, _ = self._queried(batch, visible, asked, None)
        return queries, h

    def _queried(
        self, batch: Batch, visible: Tensor, asked: Tensor, memo: Memo | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(Q,) the tokens that are asked for or absent, (Q, D) what is made of them, (Q, D) their paths."""
        seen, queries = visible.nonzero()[:, 0], (asked | batch.absent).nonzero()[:, 0]  # (V,), (Q,)
        entity, path, place = self._paths(batch)  # (B, D), (U, D), (T,)
        values = self._values(batch, seen, path[place[seen]], memo)  # (V, D)
        x = torch.cat([entity, values + path[place[seen]], self.query + path[place[queries]]])  # (B + V + Q, D)
        of = torch.cat([torch.arange(batch.size, device=seen.device), batch.entity[seen], batch.entity[queries]])
        known = batch.size + len(seen)
        whole, last = arrange(of, of[:known], batch.size), arrange(of[known:], of[:known], batch.size)
        return queries, self.entity_encoder(x, known, whole, last), path[place[queries]]

    def embed(self, batch: Batch, visible: Tensor) -> Tensor:
        """(B, D) a vector for each entity: the mean of what there is to look at of it, its class among that."""
        seen = visible.nonzero()[:, 0]
        entity, path, place = self._paths(batch)
        x = torch.cat([entity, self.kinds.read(batch, seen, path[place[seen]]) + path[place[seen]]])  # (B + V, D)
        of = torch.cat([torch.arange(batch.size, device=seen.device), batch.entity[seen]])
        h = self.entity_encoder.looked_at(x, arrange(of, of, batch.size))  # (B + V, D)
        total = h.new_zeros(batch.size, h.shape[1]).index_add(0, of, h)
        return total / of.bincount(minlength=batch.size)[:, None]

    def _paths(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """(B, D) the class of each entity, (U, D) the paths that occur, (T,) which of these each token has."""
        slots, place = batch.slot.unique_consecutive(return_inverse=True)
        classes, whose = batch.classes.unique(return_inverse=True)
        paths = self.paths(torch.cat([classes, slots + self.classes]))
        return paths[: len(classes)][whose], paths[len(classes) :], place

    def _values(self, batch: Batch, seen: Tensor, path: Tensor, memo: Memo | None) -> Tensor:
        """(V, D) of the visible values; those that were read in an earlier pass are not read again."""
        if memo is None:
            return self.kinds.read(batch, seen, path)
        done = memo.get("done", torch.zeros_like(batch.known))
        table = memo.get("values", path.new_zeros(len(batch), path.shape[1]))
        fresh = ~done[seen]
        new = seen[fresh]
        memo["values"] = table.index_copy(0, new, self.kinds.read(batch, new, path[fresh]))
        memo["done"] = done.index_fill(0, new, True)
        values: Tensor = memo["values"][seen]
        return values


class KindModules(nn.Module):
    """Values in, vectors out; vectors in, beliefs out; each kind by its own modules."""

    group: Tensor

    def __init__(self, codec: Codec, config: ModelConfig, reader: nn.Module | None) -> None:
        super().__init__()
        own: dict[str, list[Slot]] = {}
        for slot in codec.slots:
            own.setdefault(slot.kind, []).append(slot)
        self.first = {kind: codec.slots.index(slots[0]) for kind, slots in own.items()}
        self.sets = {kind: slots[-1].group + 1 for kind, slots in own.items()}
        self.register_buffer("group", torch.tensor([slot.group for slot in codec.slots]), persistent=False)  # (S,)
        self.encoders, self.decoders = nn.ModuleDict(), nn.ModuleDict()
        for kind, slots in own.items():
            setting = setting_of(codec, kind, config, reader)
            codecs = [slot.codec for slot in slots]
            self.encoders[kind] = BY_NAME[kind].encoder(codecs, setting)
            self.decoders[kind] = BY_NAME[kind].decoder(codecs, setting)

    def read(self, batch: Batch, tokens: Tensor, path: Tensor) -> Tensor:
        """(n,) visible tokens, (n, D) their paths -> (n, D) what their values mean."""
        parts = [
            self.encoders[kind](batch.values[kind][own - start], rows)
            for kind, start, own, rows in self._rows(batch, tokens, path)
        ]
        return torch.cat([part.to(path.dtype) for part in parts]) if parts else path

    def believe(self, batch: Batch, tokens: Tensor, h: Tensor, path: Tensor) -> dict[str, Asked]:
        """(n,) asked tokens, (n, D) what the network makes of them, (n, D) their paths -> beliefs by kind."""
        beliefs, begin = {}, 0
        for kind, start, own, rows in self._rows(batch, tokens, path):
            vectors = h[begin : begin + len(own)]
            beliefs[kind] = Asked(own - start, start, vectors, self.decoders[kind](vectors, rows))
            begin += len(own)
        return beliefs

    def _rows(self, batch: Batch, tokens: Tensor, path: Tensor) -> Iterator[tuple[str, int, Tensor, Rows]]:
        """Kind by kind: where the batch's tokens of it begin, those of these tokens that are of it, whose they are."""
        begin = 0
        for kind, (start, stop) in batch.spans.items():
            end = int(torch.searchsorted(tokens, stop))
            if end > begin:
                own = tokens[begin:end]
                slot = batch.slot[own]
                counts = self.group[slot].bincount(minlength=self.sets[kind]).tolist()
                yield kind, start, own, Rows(slot - self.first[kind], counts, path[begin:end])
            begin = end


def setting_of(codec: Codec, kind: str, config: ModelConfig, reader: nn.Module | None = None) -> Setting:
    """What the encoder and decoder of a kind are built for."""
    return Setting(
        width=config.width,
        groups=[slot.group for slot in codec.slots if slot.kind == kind],
        config=codec.config.kinds[kind],
        blocks=config.blocks,
        dropout=config.dropout,
        tokenizer=codec.words,
        reader=reader,
        base=config.base,
    )
