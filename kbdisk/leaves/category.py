"""Categories: one label out of a slot's own. Booleans are categories of two.

A label is read as its vector, out of one table for all slots, and believed by its score against the row's vector;
`text` labels have the vectors of their text instead, so that labels can be added to a trained network (`lay`).
An open slot keeps some of its mass for labels that training never had: as much as labels met once had there
(Good and Turing), for nothing in training could teach it.

n rows   V labels, at most, of the rows' slots   D width
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.blocks import GLUBlock
from kbdisk.leaves.base import UNSEEN_LABEL, Rows, Setting
from kbdisk.leaves.columns import Columns, distinct
from kbdisk.leaves.labels import OTHER, Labels
from kbdisk.leaves.mixed import mixed
from kbdisk.leaves.ordinal import CumulativeScores
from kbdisk.leaves.reading import LearntLabels, TextLabels
from kbdisk.leaves.scoring import LearntScores, TextScores, named
from kbdisk.leaves.whole import Whole
from kbdisk.rng import thread_generator
from kbdisk.schemas.kinds import Boolean, Category, Label

READINGS: dict[str, type[LearntLabels | TextLabels]] = {"learnt": LearntLabels, "text": TextLabels}
SCORINGS: dict[str, type[LearntScores | TextScores]] = {"learnt": LearntScores, "text": TextScores}
LEAST = 1e-30  # of a chance, whose log is taken
ORDERS = ("softmax", "cumulative")


@dataclass(frozen=True)
class CategoryConfig:
    """How categories are read and believed."""

    labels: str = "learnt"  # or "text": labels mean what their text says, and more can be added later
    ordered: str = "softmax"  # or "cumulative": what ordered labels are believed by
    unread: float = 0.01  # of the labels read in training: as one never met, so that it means something

    def __post_init__(self) -> None:
        choose("labels", self.labels, READINGS)
        choose("ordered", self.ordered, ORDERS)
        if not 0 <= self.unread < 1:
            raise ValueError(f"expected a share of labels for unread, got {self.unread}")


def choose(name: str, choice: str, known: Iterable[str]) -> None:
    """ValueError where a choice is none of those there are."""
    if choice not in known:
        raise ValueError(f"expected one of {', '.join(known)} for {name}, got {choice!r}")


@dataclass(frozen=True)
class CategoryCodec:
    """The labels of one slot: codes (n,) count them from 0, -1 is a label that is none of them."""

    way: ClassVar[str] = UNSEEN_LABEL
    labels: Labels
    ordered: bool = False

    @classmethod
    def fit(cls, leaf: Category | Boolean, values: Sequence[Any], config: Any = None, words: Any = None) -> Self:
        """The labels that the leaf tells, and those met where others are allowed."""
        if isinstance(leaf, Boolean):
            return cls(Labels.learn((False, True), values, open=False))
        return cls(Labels.learn(leaf.values, values, open=not leaf.closed, sort=leaf.ordered), leaf.ordered)

    def encode(self, values: Sequence[Any]) -> Tensor:
        """(n,)"""
        return torch.from_numpy(self.labels.find(values))

    def decode(self, codes: Tensor) -> list[Any]:
        """Labels as they were met; None for one that is none of these."""
        values = self.labels.values
        return [values[code] if 0 <= code < len(values) else None for code in codes.tolist()]

    def unlike(self, value: Any) -> Sequence[Any]:
        """The label, if training never had it."""
        return self.labels.never_met((value,))

    def p_values(self, value: Any) -> Sequence[float]:
        """For each label how likely one is that training never had; 1 where it had this one."""
        return self.labels.p_values((value,))

    def learnt(self) -> dict[str, Any]:
        """How many labels training had."""
        return self.labels.learnt()

    def extended(self, more: Iterable[Label]) -> CategoryCodec:
        """Itself with labels that training never had; for a network whose labels are read by their text."""
        return replace(self, labels=self.labels.extended(more))

    def to_json(self) -> dict[str, Any]:
        """Itself as plain data."""
        return {**self.labels.to_json(), "ordered": self.ordered}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], words: Any = None) -> Self:
        """Itself again."""
        return cls(Labels.from_json(data), data["ordered"])


@dataclass(frozen=True)
class CategoryBelief(Whole):
    """How likely each label is: the softmax of logits, less the mass that is kept for labels never met."""

    logits: Tensor  # (n, V), -inf where a row's slot has fewer labels
    unseen: Tensor | None = None  # (n,) the mass kept for labels never met, code -1
    kernels: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.logits.dtype in (torch.bfloat16, torch.float16):
            object.__setattr__(self, "logits", self.logits.float())

    def __len__(self) -> int:
        return len(self.logits)

    @property
    def probs(self) -> Tensor:
        """(n, V); they add up to what labels never met leave."""
        probs = self.logits.softmax(-1)
        return probs if self.unseen is None else probs * (1 - self.unseen)[:, None]

    def log_prob(self, codes: Tensor) -> Tensor:
        """(n,)"""
        log_prob = -F.cross_entropy(self.logits, codes, ignore_index=-1, reduction="none")
        if self.unseen is None:
            return log_prob
        return torch.where(codes < 0, self.unseen.log(), log_prob + torch.log1p(-self.unseen))

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        """(n,) always a label that has a name."""
        if len(self.logits) == 0:
            return self.mode()
        return torch.multinomial((self.logits / temperature).softmax(-1), 1, generator=generator)[:, 0]

    def mode(self) -> Tensor:
        """(n,)"""
        return self.logits.argmax(-1)

    def entropy(self) -> Tensor:
        """(n,) labels never met count as one."""
        entropy = unsure(self.logits.softmax(-1)).sum(-1)
        if self.unseen is None:
            return entropy
        return entropy * (1 - self.unseen) + unsure(self.unseen) + unsure(1 - self.unseen)

    def top(self, k: int) -> tuple[Tensor, Tensor]:
        """(n, k) the likeliest labels, best first, and (n, k) their probabilities"""
        probs, codes = self.probs.topk(min(k, self.logits.shape[1]), 1)
        return codes.masked_fill(probs == 0, OTHER), probs

    def ranks(self, codes: Tensor) -> Tensor:
        """(n,) the place of each label among all of its slot, 1 the best"""
        return ranks(self.logits, codes)

    def recalled(self, codes: Tensor, weights: Tensor, said: Tensor | None = None) -> CategoryBelief:
        """Itself with some of its mass for the labels that others have: codes (n, K), weights (n, 1, K)."""
        weights = weights[:, 0].float()
        left = (1 - weights.sum(1)).clamp(min=0)  # (n,) sums are rounded
        known = self.probs * left[:, None]
        known = known.scatter_add(1, codes.clamp(min=0), weights.where(codes >= 0, 0))
        logits = known.clamp(min=LEAST).log().masked_fill(self.logits == -torch.inf, -torch.inf)
        if self.unseen is None:
            return CategoryBelief(logits)
        return CategoryBelief(logits, (self.unseen * left + weights.where(codes < 0, 0).sum(1)).clamp(max=1))

    def averaged(self, others: Sequence[CategoryBelief]) -> CategoryBelief:
        """The mean of all."""
        every = [self, *others]
        probs = torch.stack([one.probs for one in every]).mean(0)
        logits = probs.clamp(min=LEAST).log().masked_fill(self.logits == -torch.inf, -torch.inf)
        unseen = [one.unseen for one in every if one.unseen is not None]
        return CategoryBelief(logits, torch.stack(unseen).mean(0) if unseen else None)

    def pick(self, rows: Tensor) -> CategoryBelief:
        """Those of some rows."""
        return CategoryBelief(self.logits[rows], None if self.unseen is None else self.unseen[rows])


def unsure(chance: Tensor) -> Tensor:
    """What each chance adds to an entropy: - p log p, 0 for 0."""
    summand: Tensor = torch.special.entr(chance)
    return summand


def ranks(scores: Tensor, codes: Tensor) -> Tensor:
    """(n, V) scores -> (n,) the place of a code among all, 1 the best, ties in their middle; one never met is last"""
    own = scores.gather(1, codes.clamp(min=0)[:, None])  # (n, 1)
    place = (scores > own).sum(1) + ((scores == own).sum(1) + 1) / 2
    return torch.where(codes == OTHER, (scores > -torch.inf).sum(1) + 1, place)


class CategoryEncoder(nn.Module):
    """A label's vector, told whose it is by the path, through the residual blocks."""

    def __init__(self, codecs: Sequence[CategoryCodec], setting: Setting) -> None:
        super().__init__()
        self.unread = setting.config.unread if setting.dropout else 0.0
        self.columns = Columns(codecs)
        self.labels = READINGS[setting.config.labels]([codec.labels for codec in distinct(codecs)], setting)
        self.blocks = residual(setting)

    def lay(self, codecs: Sequence[CategoryCodec]) -> None:
        """Take codecs that have more labels than those of training."""
        self.labels.lay([codec.labels for codec in distinct(codecs)])

    def forward(self, codes: Tensor, rows: Rows) -> Tensor:
        """(n,) -> (n, D)"""
        if self.training and self.unread:
            codes = codes.masked_fill(
                torch.rand(codes.shape, generator=thread_generator(), device=codes.device) < self.unread, OTHER
            )
        x: Tensor = self.labels(codes, self.columns(rows.slot)) + rows.path  # (n, D)
        for block in self.blocks:
            x = block(x, rows.counts)
        return x


class CategoryDecoder(nn.Module):
    """Scores of the labels of each row's slot."""

    unseen: Tensor
    ordered: Tensor

    def __init__(self, codecs: Sequence[CategoryCodec], setting: Setting) -> None:
        super().__init__()
        self.columns, codecs = Columns(codecs), distinct(codecs)
        cumulative = setting.config.ordered == "cumulative"
        ordered = [codec.labels if cumulative and codec.ordered and len(codec.labels) > 1 else None for codec in codecs]
        self.register_buffer("ordered", torch.tensor([one is not None for one in ordered]), persistent=False)  # (C,)
        self.register_buffer("unseen", torch.tensor([codec.labels.unseen for codec in codecs]), persistent=False)
        self.open = any(codec.labels.open for codec in codecs)
        self.blocks = residual(setting)
        self.scores = SCORINGS[setting.config.labels](self._scored(codecs), setting)
        self.cumulative = CumulativeScores(ordered, setting.width) if any(ordered) else None

    def _scored(self, codecs: Sequence[CategoryCodec]) -> list[Labels]:
        """The labels of each column; none where their order scores them."""
        ordered = self.ordered.tolist()
        return [Labels((), ()) if own else named(codec.labels) for own, codec in zip(ordered, codecs, strict=True)]

    def lay(self, codecs: Sequence[CategoryCodec]) -> None:
        """Take codecs that have more labels than those of training."""
        self.scores.lay(self._scored(distinct(codecs)))

    def forward(self, h: Tensor, rows: Rows) -> Any:
        """(n, D) -> a CategoryBelief, or several where slots differ much in how many labels they have"""
        h = h + rows.path
        for block in self.blocks:
            h = block(h, rows.counts)
        h, rows, order = self.columns.arrange(h, rows)
        parts = [(part.rows, self._belief(part.values, rows.slot[part.rows])) for part in self.scores(h, rows)]
        if self.cumulative is not None:
            own = self.ordered[rows.slot].nonzero()[:, 0]
            parts.append((own, self._belief(self.cumulative(h[own], rows.slot[own]), rows.slot[own])))
        return mixed(parts or [(rows.slot, CategoryBelief(h[:, :1]))], order)

    def _belief(self, logits: Tensor, column: Tensor) -> CategoryBelief:
        return CategoryBelief(logits, self.unseen[column] if self.open else None)


def residual(setting: Setting) -> nn.ModuleList:
    """The residual blocks of one side of a kind."""
    one = (GLUBlock(setting.sets, setting.width, dropout=setting.dropout) for _ in range(setting.blocks))
    return nn.ModuleList(one)
