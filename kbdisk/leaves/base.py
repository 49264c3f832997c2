"""The protocols of a kind of leaf: a codec (values <-> codes), an encoder (codes -> vectors), a decoder (vectors -> belief).

`belief.py` has the protocol of a belief, `registry.py` the table of kinds. The rows of one kind are flat: n of them, of any
entities, sorted by slot.

n rows   D width   G groups of properties that share weights   S slots: the properties of this kind
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from torch import Tensor, nn


class LeafCodec(Protocol):
    """The values of one property and their codes. Fitted to training data alone; plain data, JSON in and out."""

    @classmethod
    def fit(cls, leaf: Any, values: Sequence[Any], config: Any, tokenizer: Any) -> Self:
        """Learn from the values of training entities. `tokenizer`: of the text of the knowledge base, or None."""

    def encode(self, values: Sequence[Any]) -> Tensor:
        """The codes (n, ...) of values; ValueError `expected ..., got ...` for a value of another kind."""

    def decode(self, codes: Tensor) -> list[Any]:
        """The values of codes (n, ...): of the leaf's type, within its bounds."""

    def to_json(self) -> dict[str, Any]:
        """The codec as plain data."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any], tokenizer: Any) -> Self:
        """The codec of plain data."""


UNSEEN_LABEL, OUTSIDE_RANGE = "unseen label", "outside range"  # how a value differs from those of training


@runtime_checkable
class Comparing(Protocol):
    """A codec that recognises values unlike those of training."""

    difference: ClassVar[str]  # how such a value differs: UNSEEN_LABEL or OUTSIDE_RANGE

    def unlike(self, value: Any) -> Sequence[Any]:
        """The parts of a value that differ from training: labels that it never had, or a number far outside its range."""

    def p_values(self, value: Any) -> Sequence[float]:
        """For each number, label or member the probability that the next one is as far beyond training; 1 within."""

    def learnt(self) -> dict[str, Any]:
        """A summary of the training values, as plain data: {"labels": how many} or {"range": [least, greatest]}."""


@dataclass(frozen=True)
class Rows:
    """The slots and paths of the rows of one kind. Rows are sorted by slot, so that each group of slots is one slice."""

    slot: Tensor  # (n,) the number of each row's slot among those of the kind, ascending
    counts: Sequence[int]  # how many rows each group has, in order
    path: Tensor  # (n, D) the encoded path of each row

    def __len__(self) -> int:
        return len(self.slot)


@dataclass(frozen=True)
class Setting:
    """The sizes and choices that the encoder and the decoder of a kind are built with."""

    width: int
    groups: Sequence[int]  # the group of each slot, ascending: 0, 0, ... or 0, 1, 2, ...
    config: Any  # of the kind
    blocks: int = 1  # residual GLU blocks on either side
    dropout: float = 0.0
    tokenizer: Any = None  # of the text of the knowledge base, or None
    reader: nn.Module | None = None  # its text encoder: token ids (m, L) -> vectors (m, D); the network owns it
    base: int = 64  # the width at which learning rates were tuned (muP)

    @property
    def sets(self) -> int:
        """How many sets of weights there are: G."""
        return max(self.groups, default=-1) + 1


def check_choice(name: str, choice: str, known: Iterable[str]) -> None:
    """ValueError for a setting with an unknown choice."""
    if choice not in known:
        raise ValueError(f"expected one of {', '.join(known)} for {name}, got {choice!r}")
