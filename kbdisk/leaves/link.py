"""Links to other entities: categories over ids where there are few targets, pointers into a table of entities where many.

Codes (n,) count a slot's targets from 0; -1 is one that training never had. Whatever they are believed by, links are
read out of one table of entities, the same entity as the same vector whichever property leads to it.

n rows   V targets of a slot   D width
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.blocks import looked_up
from kbdisk.entity import Link as LinkValue
from kbdisk.leaves.base import UNSEEN_LABEL, Rows, Setting
from kbdisk.leaves.category import CategoryBelief, choose, residual
from kbdisk.leaves.columns import Columns, distinct
from kbdisk.leaves.labels import OTHER, Labels
from kbdisk.leaves.mixed import mixed
from kbdisk.leaves.pointer import DRAWS, Entities, Pointers
from kbdisk.leaves.scoring import LearntScores, named
from kbdisk.rng import thread_generator
from kbdisk.schemas.kinds import Link


@dataclass(frozen=True)
class LinkConfig:
    """How links are read and believed."""

    few: int = 128  # targets, at most, that are categories
    text: bool = True  # whether entities are told by their names, too, where the network reads text
    negatives: int = 512  # targets, about, that a training step scores of each slot, beside the right ones
    draw: str = "unigram"  # or "uniform": how those are drawn
    unread: float = 0.01  # of the links read in training: as to one never met, so that it means something

    def __post_init__(self) -> None:
        choose("draw", self.draw, DRAWS)
        if self.negatives < 1:
            raise ValueError(f"expected at least 1 for negatives, got {self.negatives}")
        if not 0 <= self.unread < 1:
            raise ValueError(f"expected a share of links for unread, got {self.unread}")


@dataclass(frozen=True)
class LinkCodec:
    """The targets of one slot: codes (n,) count them from 0, -1 is an entity that is none of them."""

    way: ClassVar[str] = UNSEEN_LABEL
    targets: Labels  # ids
    many: bool  # whether they are pointed at; else they are categories

    @classmethod
    def fit(cls, leaf: Link, values: Sequence[Any], config: LinkConfig | None = None, words: Any = None) -> Self:
        """The targets that are told, or those met."""
        targets = Labels.learn(leaf.values, ids_of(values), open=not leaf.values)
        return cls(targets, not leaf.values and len(targets) > (config or LinkConfig()).few)

    def named(self, names: Mapping[str, str]) -> LinkCodec:
        """Itself with what its targets are called, by their ids."""
        return replace(self, targets=self.targets.named(names))

    def encode(self, values: Sequence[Any]) -> Tensor:
        """(n,)"""
        return torch.from_numpy(self.targets.find(ids_of(values)))

    def decode(self, codes: Tensor) -> list[Any]:
        """Links; None for one that is none of these."""
        ids = self.targets.values
        return [LinkValue(str(ids[code])) if 0 <= code < len(ids) else None for code in codes.tolist()]

    def unlike(self, value: Any) -> Sequence[Any]:
        """The id of the entity that is linked to, if training never linked to it."""
        return self.targets.never_met(ids_of((value,)))

    def p_values(self, value: Any) -> Sequence[float]:
        """For each label how likely one is that training never had; 1 where it had this one."""
        return self.targets.p_values(ids_of((value,)))

    def learnt(self) -> dict[str, Any]:
        """How many entities training linked to."""
        return self.targets.learnt()

    def to_json(self) -> dict[str, Any]:
        """Itself as plain data."""
        return {**self.targets.to_json(), "many": self.many}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], words: Any = None) -> Self:
        """Itself again."""
        return cls(Labels.from_json(data), data["many"])


def ids_of(values: Sequence[Any]) -> list[str]:
    """The ids of links; ValueError where one is none."""
    ids = [one.id if isinstance(one, LinkValue) else one for one in values]
    for one in ids:
        if not isinstance(one, str):
            raise ValueError(f"expected a link to an entity, got {one!r}")
    return ids


class LinkEncoder(nn.Module):
    """The vector of the entity that is linked to, told whose link it is by the path, through the residual blocks."""

    def __init__(self, codecs: Sequence[LinkCodec], setting: Setting) -> None:
        super().__init__()
        self.unread = setting.config.unread if setting.dropout else 0.0
        self.columns, codecs = Columns(codecs), distinct(codecs)
        self.entities = Entities([codec.targets for codec in codecs], setting, looked_up)
        self.unknown = looked_up(len(codecs), setting.width)  # (C, D)
        self.blocks = residual(setting)

    def forward(self, codes: Tensor, rows: Rows) -> Tensor:
        """(n,) -> (n, D)"""
        if self.training and self.unread:
            codes = codes.masked_fill(
                torch.rand(codes.shape, generator=thread_generator(), device=codes.device) < self.unread, OTHER
            )
        known = (codes >= 0).nonzero()[:, 0]
        column = self.columns(rows.slot)
        x = F.embedding(column, self.unknown)  # (n, D)
        vectors = self.entities(self.entities.starts[column[known]] + codes[known])
        x = x.index_copy(0, known, vectors.to(x.dtype)) + rows.path
        for block in self.blocks:
            x = block(x, rows.counts)
        return x


class LinkDecoder(nn.Module):
    """Scores of the targets of each row's slot."""

    unseen: Tensor

    def __init__(self, codecs: Sequence[LinkCodec], setting: Setting) -> None:
        super().__init__()
        self.columns, codecs = Columns(codecs), distinct(codecs)
        self.blocks = residual(setting)
        few = [Labels((), ()) if codec.many else named(codec.targets) for codec in codecs]
        self.scores = LearntScores(few, setting)
        self.register_buffer("unseen", torch.tensor([codec.targets.unseen for codec in codecs]), persistent=False)
        many = {column: codec.targets for column, codec in enumerate(codecs) if codec.many}
        self.pointers = Pointers(many, setting) if many else None

    def forward(self, h: Tensor, rows: Rows) -> Any:
        """(n, D) -> a CategoryBelief, a PointerBelief, or several where slots differ in how many targets they have"""
        h = h + rows.path
        for block in self.blocks:
            h = block(h, rows.counts)
        h, rows, order = self.columns.arrange(h, rows)
        parts: list[tuple[Tensor, Any]] = [
            (part.rows, CategoryBelief(part.values, self.unseen[rows.slot[part.rows]])) for part in self.scores(h, rows)
        ]
        if self.pointers is not None:
            parts.extend(self.pointers(h, rows))
        return mixed(parts or [(rows.slot, CategoryBelief(h[:, :1]))], order)
