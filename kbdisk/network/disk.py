"""DiSK: what is visible of some entities in, a belief about every property asked for out.

    paths  ──> path encoder ──────────────┐
                                          + ──> entity encoder ──> one decoder per kind of leaf
    visible values ──> one encoder per kind

A property that is hidden or asked for is known to the network by its path alone: its value is never encoded, and
nothing looks at it. Values are encoded only where visible, and decoded only where asked for.

B entities   T tokens   V of them visible   Q asked for   S slots   D width
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from kbdisk.batch import Batch
from kbdisk.codec import Codec
from kbdisk.network.beliefs import Beliefs
from kbdisk.network.encoder import EntityEncoder
from kbdisk.network.kinds import KindModules
from kbdisk.network.layout import arrange
from kbdisk.network.paths import PathEncoder

Memo = dict[str, Tensor]  # what stays the same from pass to pass over one batch


@dataclass(frozen=True)
class ModelConfig:
    """The network's sizes."""

    width: int = 128  # D, the size of every vector in the network
    layers: int = 2  # of the entity encoder
    heads: int = 4
    hidden: int = 4  # times the width: of a layer's two maps, and of a residual block
    blocks: int = 1  # residual blocks on either side, for each property or kind
    dropout: float = 0.1
    base: int = 64  # the width at which learning rates were tuned (muP)

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"expected a width that {self.heads} heads divide, got {self.width}")
        for name in ("width", "layers", "heads", "hidden", "base"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected at least 1 for {name}, got {getattr(self, name)}")


class DiSK(nn.Module):
    """The network for the slots of one codec."""

    def __init__(self, codec: Codec, config: ModelConfig) -> None:
        super().__init__()
        D = config.width
        self.config, self.classes = config, len(codec.classes)
        self.paths = PathEncoder([(one,) for one in codec.classes] + [slot.keys for slot in codec.slots], D)
        self.kinds = KindModules(codec, D, config.blocks, config.dropout, None)
        self.query = nn.Parameter(torch.randn(D))  # in the place of the value of what is asked for
        scale = (config.base / config.heads) ** 0.5 / (D / config.heads)  # muP: 1 / d, as usual at the base width
        self.entity_encoder = EntityEncoder(D, config.layers, config.heads, config.hidden * D, config.dropout, scale)
        self.presence = nn.Linear(D, 1)

    def forward(self, batch: Batch, visible: Tensor, asked: Tensor, memo: Memo | None = None) -> Beliefs:
        """Beliefs about the asked tokens (T,), given the visible ones (T,); `memo` serves passes over one batch."""
        seen, queries = visible.nonzero()[:, 0], (asked | batch.absent).nonzero()[:, 0]  # (V,), (Q,)
        slots, place = batch.slot.unique_consecutive(return_inverse=True)
        classes, whose = batch.classes.unique(return_inverse=True)
        paths = self.paths(torch.cat([classes, slots + self.classes]))
        entity, path = paths[: len(classes)][whose], paths[len(classes) :]  # (B, D), (U, D)

        values = self._values(batch, seen, path[place[seen]], memo)  # (V, D)
        x = torch.cat([entity, values + path[place[seen]], self.query + path[place[queries]]])  # (B + V + Q, D)
        of = torch.cat([torch.arange(batch.size, device=seen.device), batch.entity[seen], batch.entity[queries]])
        known = batch.size + len(seen)
        whole, last = arrange(of, of[:known], batch.size), arrange(of[known:], of[:known], batch.size)
        h = self.entity_encoder(x, known, whole, last)  # (Q, D)

        decoded = asked[queries]  # an absent property has no value to believe anything of
        beliefs = self.kinds.believe(batch, queries[decoded], h[decoded], path[place[queries[decoded]]])
        return Beliefs(beliefs, len(batch), {"tokens": queries, "logits": self.presence(h).float()[:, 0]})

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
        return memo["values"][seen]
