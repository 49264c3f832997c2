"""Categories: one label out of a slot's own. Booleans are categories of two.

A label is read as its vector, out of one table for all slots, and believed by its score against the row's vector.
An open slot keeps some of its mass for labels that training never had: as much as labels met once had there
(Good and Turing), for nothing in training could teach it.

n rows   V labels, at most, of the rows' slots   D width
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from kbdisk.leaves.labels import Labels
from kbdisk.schemas.leaf import Boolean, Category

HALVES = (torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class CategoryCodec:
    """The labels of one slot: codes (n,) count them from 0, -1 is a label that is none of them."""

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

    def to_json(self) -> dict[str, Any]:
        """Itself as plain data."""
        return {**self.labels.to_json(), "ordered": self.ordered}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], words: Any = None) -> Self:
        """Itself again."""
        return cls(Labels.from_json(data), data["ordered"])


@dataclass(frozen=True)
class CategoryBelief:
    """How likely each label is: the softmax of logits, less the mass that is kept for labels never met."""

    logits: Tensor  # (n, V), -inf where a row's slot has fewer labels
    unseen: Tensor | None = None  # (n,) the mass kept for labels never met, code -1

    def __post_init__(self) -> None:
        if self.logits.dtype in HALVES:
            object.__setattr__(self, "logits", self.logits.float())

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
        entropy = torch.special.entr(self.logits.softmax(-1)).sum(-1)
        if self.unseen is None:
            return entropy
        return entropy * (1 - self.unseen) + torch.special.entr(self.unseen) + torch.special.entr(1 - self.unseen)

    def pick(self, rows: Tensor) -> CategoryBelief:
        """Those of some rows."""
        return CategoryBelief(self.logits[rows], None if self.unseen is None else self.unseen[rows])
