"""Sets of labels or links.

Read as the mean of its members' vectors and a vector for how many there are. Believed as

    counted   P(set) = P(how many) P(set | how many), the latter in proportion to the members' odds: one Bernoulli per
              label, conditioned on their number. Adds up to 1 over all subsets of the slot's labels
    free      one Bernoulli per label and no more, where there are more labels than `counted` allows: the number is
              what they make it; of a set with more members than the leaf allows the likeliest are drawn, and the
              likeliest set has one member at least where training had no empty set

times whether there are members that training never met, which are coded as one: -2.

n rows   M members, at most   V labels, at most, of the rows' slots   K counts   C columns   D width
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.blocks import looked_up
from kbdisk.entity import Link as LinkValue
from kbdisk.leaves.base import UNSEEN_LABEL, Rows, Setting
from kbdisk.leaves.category import READINGS, SCORINGS, choose, residual
from kbdisk.leaves.columns import Columns, distinct
from kbdisk.leaves.labels import Labels
from kbdisk.leaves.mixed import mixed
from kbdisk.leaves.scoring import LearntScores, dense, named
from kbdisk.leaves.setbelief import CountedSets, FreeSets
from kbdisk.rng import thread_generator
from kbdisk.schemas.kinds import Label, Link, Set

PADDING, UNMET = -1, -2


@dataclass(frozen=True)
class SetConfig:
    """How sets are read and believed."""

    labels: str = "learnt"  # or "text": labels mean what their text says, and more can be added later
    counted: int = 1024  # labels of a slot, at most, for a belief that is conditioned on the number of members
    sizes: int = 16  # numbers of members that are read as different
    unread: float = 0.01  # of the members read in training: as one never met, so that it means something

    def __post_init__(self) -> None:
        choose("labels", self.labels, READINGS)
        if self.sizes < 1:
            raise ValueError(f"expected at least 1 for sizes, got {self.sizes}")
        if not 0 <= self.unread < 1:
            raise ValueError(f"expected a share of labels for unread, got {self.unread}")


@dataclass(frozen=True)
class SetCodec:
    """The labels of one slot: codes (n, M) are a row's members, ascending; -2 for those never met, -1 fills up."""

    way: ClassVar[str] = UNSEEN_LABEL
    labels: Labels
    links: bool  # whether members are links, and labels their ids
    most: int | None
    sizes: tuple[int, ...]  # how many of training's sets had 0, 1, 2, ... members

    @classmethod
    def fit(cls, leaf: Set, values: Sequence[Any], config: Any = None, words: Any = None) -> Self:
        """The members that are told, those met where others are allowed, and how many there are at a time."""
        links = isinstance(leaf.of, Link)
        sets = [dict.fromkeys(_keys(value, links)) for value in values]
        open = not leaf.of.values if isinstance(leaf.of, Link) else not leaf.of.closed
        labels = Labels.learn(leaf.of.values, (label for own in sets for _, label in own), open)
        counts = Counter(map(len, sets))
        return cls(labels, links, leaf.most, tuple(counts[size] for size in range(max(counts, default=0) + 1)))

    def named(self, names: Mapping[str, str]) -> SetCodec:
        """Itself with what linked entities are called, by their ids."""
        return replace(self, labels=self.labels.named(names)) if self.links else self

    def extended(self, more: Iterable[Label]) -> SetCodec:
        """Itself with labels that training never had; for a network whose labels are read by their text."""
        return replace(self, labels=self.labels.extended(more))

    @property
    def unmet(self) -> float:
        """How likely a set is to have members that training never met: as likely as to have one met once."""
        return min((self.labels.counts.count(1) + 0.5) / (sum(self.sizes) + 1), 0.9) if self.labels.open else 0.0

    @property
    def top(self) -> int:
        """The largest number of members with a probability of its own."""
        return min(len(self.labels), len(self.sizes) - 1 if self.most is None else self.most)

    @property
    def least(self) -> int:
        """The smallest number of members: 0 where training had an empty set, or none at all, else 1."""
        return int(self.sizes[:1] == (0,) and self.most != 0)

    def encode(self, values: Sequence[Any]) -> Tensor:
        """(n, M)"""
        sets = [_members(value, self.links) for value in values]
        rows = np.repeat(np.arange(len(sets)), [len(own) for own in sets])
        found = self.labels.find(list(chain.from_iterable(sets)))
        found = np.where(found < 0, UNMET, found)
        span = len(self.labels) - UNMET
        pairs = np.unique(rows * span + found - UNMET)  # each member once, in order
        rows, found = pairs // span, pairs % span + UNMET
        counts = np.bincount(rows, minlength=len(sets))
        if self.most is not None and (counts > self.most).any():
            raise ValueError(f"expected at most {self.most} values, got {counts.max()}")
        codes = np.full((len(sets), counts.max(initial=1)), PADDING, np.int64)
        codes[rows, np.arange(len(rows)) - (counts.cumsum() - counts)[rows]] = found
        return torch.from_numpy(codes)

    def decode(self, codes: Tensor) -> list[list[Any]]:
        """Members in the order of the labels; those that have no name are left out."""
        values: Sequence[Any] = [LinkValue(str(id)) for id in self.labels.values] if self.links else self.labels.values
        return [[values[code] for code in row if 0 <= code < len(values)] for row in codes.tolist()]

    def unlike(self, value: Any) -> Sequence[Any]:
        """The members that training never had."""
        return self.labels.never_met(_members(value, self.links))

    def p_values(self, value: Any) -> Sequence[float]:
        """For each label how likely one is that training never had; 1 where it had this one."""
        return self.labels.p_values(_members(value, self.links))

    def learnt(self) -> dict[str, Any]:
        """How many members training had."""
        return self.labels.learnt()

    def to_json(self) -> dict[str, Any]:
        """Itself as plain data."""
        return {**self.labels.to_json(), "links": self.links, "most": self.most, "sizes": list(self.sizes)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], words: Any = None) -> Self:
        """Itself again."""
        return cls(Labels.from_json(data), data["links"], data["most"], tuple(data["sizes"]))


def _members(value: Any, links: bool) -> Sequence[Any]:
    """A set's members, links as their ids; one value alone is a set of one."""
    members = value if isinstance(value, list | tuple | set | frozenset) else (value,)
    if not links:
        return list(members)
    ids = [one.id if isinstance(one, LinkValue) else one for one in members]
    for one in ids:
        if not isinstance(one, str):
            raise ValueError(f"expected a link to an entity, got {one!r}")
    return ids


def _keys(value: Any, links: bool) -> list[tuple[bool, Any]]:
    return [(isinstance(one, bool), one) for one in _members(value, links)]


class SetEncoder(nn.Module):
    """The mean of the members' vectors, and one for how many they are, through the residual blocks."""

    groups: Tensor

    def __init__(self, codecs: Sequence[SetCodec], setting: Setting) -> None:
        super().__init__()
        self.unread = setting.config.unread if setting.dropout else 0.0
        self.columns = Columns(codecs)
        self.labels = READINGS[setting.config.labels]([codec.labels for codec in distinct(codecs)], setting)
        self.register_buffer("groups", torch.tensor(list(setting.groups)), persistent=False)  # (S,)
        self.sizes = setting.config.sizes
        self.count = looked_up(setting.sets * (self.sizes + 1), setting.width)  # (G (sizes + 1), D)
        self.blocks = residual(setting)

    def lay(self, codecs: Sequence[SetCodec]) -> None:
        """Take codecs that have more labels than those of training."""
        self.labels.lay([codec.labels for codec in distinct(codecs)])

    def forward(self, codes: Tensor, rows: Rows) -> Tensor:
        """(n, M) -> (n, D)"""
        row, place = (codes != PADDING).nonzero().unbind(1)  # (members,)
        member, counts = codes[row, place], (codes != PADDING).sum(1)  # (members,), (n,)
        if self.training and self.unread:
            member = member.masked_fill(
                torch.rand(member.shape, generator=thread_generator(), device=member.device) < self.unread, UNMET
            )
        vectors = self.labels(member, self.columns(rows.slot)[row])  # (members, D)
        pooled = vectors.new_zeros(len(codes), vectors.shape[1]).index_add(0, row, vectors)
        size = self.groups[rows.slot] * (self.sizes + 1) + counts.clamp(max=self.sizes)  # (n,)
        x: Tensor = pooled / counts.clamp(min=1)[:, None] + F.embedding(size, self.count) + rows.path  # (n, D)
        for block in self.blocks:
            x = block(x, rows.counts)
        return x


class SetDecoder(nn.Module):
    """Scores of the labels, and of how many members there are."""

    sizes: Tensor
    top: Tensor
    least: Tensor
    most: Tensor
    unmet: Tensor

    def __init__(self, codecs: Sequence[SetCodec], setting: Setting) -> None:
        super().__init__()
        self.columns, codecs = Columns(codecs), distinct(codecs)
        self.counted = setting.config.counted
        self.blocks = residual(setting)
        bias = torch.cat([torch.zeros(0), *map(_log_odds, codecs)])
        self.scores = SCORINGS[setting.config.labels]([named(codec.labels) for codec in codecs], setting, bias)
        self.counts = LearntScores([_counts(codec) for codec in codecs], setting)
        self.register_buffer("top", torch.tensor([codec.top for codec in codecs]), persistent=False)
        self.register_buffer("unmet", torch.tensor([codec.unmet for codec in codecs]), persistent=False)
        most = [len(codec.labels) if codec.most is None else codec.most for codec in codecs]
        self.register_buffer("most", torch.tensor(most), persistent=False)  # (C,)
        self.register_buffer("least", torch.tensor([codec.least for codec in codecs]), persistent=False)  # (C,)
        self.register_buffer("sizes", torch.tensor([len(codec.labels) for codec in codecs]), persistent=False)  # (C,)

    def lay(self, codecs: Sequence[SetCodec]) -> None:
        """Take codecs that have more labels than those of training; how many members there may be stays."""
        codecs = distinct(codecs)
        self.scores.lay([named(codec.labels) for codec in codecs])
        self.sizes = torch.tensor([len(codec.labels) for codec in codecs], device=self.sizes.device)

    def forward(self, h: Tensor, rows: Rows) -> Any:
        """(n, D) -> CountedSets, FreeSets, or several where slots differ much in how many labels they have"""
        h = h + rows.path
        for block in self.blocks:
            h = block(h, rows.counts)
        h, rows, order = self.columns.arrange(h, rows)
        counts = dense(self.counts(h, rows), len(rows)).log_softmax(1)  # (n, K)
        parts = []
        for part in self.scores(h, rows):
            few = self.sizes[rows.slot[part.rows]] <= self.counted
            for own, build in ((few, self._counted), (~few, self._free)):
                place = own.nonzero()[:, 0]
                if len(place):
                    whose = part.rows[place]
                    parts.append((whose, build(part.values[place], counts[whose], rows.slot[whose])))
        return mixed(parts or [(rows.slot, self._free(h[:, :1], counts, rows.slot))], order)

    def _counted(self, logits: Tensor, counts: Tensor, column: Tensor) -> CountedSets:
        return CountedSets(logits, counts, self.top[column], self.most[column], self.unmet[column])

    def _free(self, logits: Tensor, counts: Tensor, column: Tensor) -> FreeSets:
        return FreeSets(logits, self.least[column], self.most[column], self.unmet[column])


def _counts(codec: SetCodec) -> Labels:
    """How many members there may be: 0, 1, ... top, and more where more are allowed, with how often that was."""
    more = codec.most is None and codec.top < len(codec.labels)
    sizes = codec.sizes[: codec.top + 1] + (0,) * (codec.top + 1 - len(codec.sizes))
    return Labels(tuple(range(codec.top + 1 + more)), sizes + (0,) * more)


def _log_odds(codec: SetCodec) -> Tensor:
    """(V,) the log odds of each label to be in a set of training."""
    labels = named(codec.labels)
    return ((torch.tensor(labels.counts) + 0.5) / (sum(codec.sizes) + 1)).clamp(max=0.99).logit()
