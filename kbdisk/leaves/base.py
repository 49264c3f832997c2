"""What each kind of leaf offers: a codec (values <-> codes), an encoder (codes -> vectors), a decoder (vectors -> belief).

The rows of one kind are flat: n of them, of any entities, sorted by property. `Rows` says whose each is.

n rows   D width   G groups of properties that share weights   S slots, the properties of this kind
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import torch
from torch import Tensor, nn


class LeafCodec(Protocol):
    """One property's values and their codes. Fitted to training data alone; plain data, JSON in and out."""

    @classmethod
    def fit(cls, leaf: Any, values: Sequence[Any], config: Any, words: Any) -> Self:
        """Learn from the values that training entities have. `words`: the tokenizer of the KB's text, or None."""

    def encode(self, values: Sequence[Any]) -> Tensor:
        """The codes (n, ...) of values; ValueError `expected ..., got ...` where one is none of this kind."""

    def decode(self, codes: Tensor) -> list[Any]:
        """The values that codes (n, ...) stand for: of the leaf's type, within its bounds."""

    def to_json(self) -> dict[str, Any]:
        """Itself as plain data."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any], words: Any) -> Self:
        """Itself again."""


@dataclass(frozen=True)
class Rows:
    """Whose the rows of one kind are, sorted by slot, so that each group of slots is one slice."""

    slot: Tensor  # (n,) which of the kind's properties, ascending
    counts: Sequence[int]  # how many rows each group has, in order
    path: Tensor  # (n, D) what the path encoder makes of each row's path

    def __len__(self) -> int:
        return len(self.slot)


@dataclass(frozen=True)
class Setting:
    """What a kind's encoder and decoder are built for."""

    width: int
    groups: Sequence[int]  # the group of each slot, ascending: 0, 0, ... or 0, 1, 2, ...
    config: Any  # the kind's own
    blocks: int = 1  # residual GLU blocks on either side
    dropout: float = 0.0
    words: Any = None  # the tokenizer of the KB's text, or None
    reader: nn.Module | None = None  # the KB's text encoder: token ids (m, L) -> vectors (m, D); owned by the network
    base: int = 64  # the width at which learning rates were tuned (muP)

    @property
    def sets(self) -> int:
        """How many sets of weights there are: G."""
        return max(self.groups, default=-1) + 1


class Belief(Protocol):
    """A distribution over the value of each of n rows, in codes."""

    def log_prob(self, codes: Tensor) -> Tensor:
        """(n,) in nats; of a number: the mass of one step of its resolution."""

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        """Codes (n, ...), one draw each."""

    def mode(self) -> Tensor:
        """Codes (n, ...), the likeliest value of each."""

    def entropy(self) -> Tensor:
        """(n,) in nats, in the measure of `log_prob`: how unsure."""

    def pick(self, rows: Tensor) -> Self:
        """The beliefs about some of the rows, by index."""


@runtime_checkable
class Recalling(Belief, Protocol):
    """A belief that can give some of its mass to values that others have."""

    @property
    def kernels(self) -> int:
        """P: in how many ways a value may be like another's, the first of which is to be the same."""

    def recalled(self, codes: Tensor, weights: Tensor, said: Tensor | None = None) -> Belief:
        """Of each row so much (n, P, K) of the mass to each of K values, codes (n, K, ...); the rest stays."""

    def steps(self, codes: Tensor) -> Tensor:
        """(s,) log p of each step in which values are told: a text's tokens, one after the other, else a whole value."""

    def steps_recalled(self, codes: Tensor, own: Tensor, others: Tensor, weights: Tensor) -> Tensor:
        """(s,) the same if it was `own` (s,) until so much of the mass went to others; of any rows' belief."""


@runtime_checkable
class Averaging(Belief, Protocol):
    """A belief that can be made one with others about the same rows."""

    def averaged(self, others: Sequence[Any]) -> Belief:
        """The mean of all, each as much as the others."""


UNSEEN_LABEL, OUTSIDE_RANGE = "unseen label", "outside range"  # ways in which a value is unlike those of training


@runtime_checkable
class Comparing(Protocol):
    """A codec that tells which values are unlike those of training."""

    way: ClassVar[str]  # in which they are: UNSEEN_LABEL or OUTSIDE_RANGE

    def unlike(self, value: Any) -> Sequence[Any]:
        """What of a value training had nothing like: labels that it never had, or a number far outside its range."""

    def p_values(self, value: Any) -> Sequence[float]:
        """For each number, label or member: how likely the next one is to be as far beyond all training values; 1 within."""

    def learnt(self) -> dict[str, Any]:
        """What training had, as plain data: {"labels": how many} or {"range": [least, greatest]}."""


class LeafKind(NamedTuple):
    """A row of the table: how one kind of leaf becomes tensors and back."""

    name: str
    codec: type[Any]  # a LeafCodec
    encoder: type[nn.Module]  # (codecs, Setting); forward(codes (n, ...), Rows) -> vectors (n, D)
    decoder: type[nn.Module]  # (codecs, Setting); forward(vectors (n, D), Rows) -> Belief
    config: type[Any]  # a frozen dataclass of plain values, all with defaults
