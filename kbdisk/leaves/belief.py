"""Beliefs: distributions over the value of each of n rows, in codes. The protocols of beliefs, and `JoinedBelief`.

Two protocols are optional: a belief may be averaged with those of other networks, and it may be interpolated with the
values of neighbours, as kNN language models are. `JoinedBelief` joins several beliefs, each about some of the rows.

n rows   P kernels: the ways in which a value may be near that of a neighbour   K neighbours   s steps
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional as F

MIN_MASS = 1e-12  # a lower bound of divisors


class Belief(Protocol):
    """A distribution over the value of each of n rows, in codes."""

    def log_prob(self, codes: Tensor) -> Tensor:
        """(n,) in nats; of a number: the mass of one step of its resolution."""

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        """Codes (n, ...), one draw each."""

    def mode(self) -> Tensor:
        """Codes (n, ...), the likeliest value of each."""

    def entropy(self) -> Tensor:
        """(n,) in nats, in the measure of `log_prob`."""

    def pick(self, rows: Tensor) -> Self:
        """The beliefs about some of the rows, by index."""


@runtime_checkable
class SupportsAveraging(Belief, Protocol):
    """A belief that can be averaged with others about the same rows."""

    def averaged(self, others: Sequence[Any]) -> Belief:
        """The mean of this belief and the others, with equal weights."""


@runtime_checkable
class SupportsInterpolation(Belief, Protocol):
    """A belief that can be interpolated with the values of neighbours: they get some of the mass."""

    @property
    def kernels(self) -> int:
        """P. The first kernel is that of equal values."""

    def interpolated(self, codes: Tensor, weights: Tensor, answer_weights: Tensor | None = None) -> Belief:
        """The belief with so much mass (n, P, K) of each row at its neighbours' values, codes (n, K, ...).

        `answer_weights` (n, 2 + K) are for numbers: the linear weights of the estimate with the least squared error.
        """

    def steps(self, codes: Tensor) -> Tensor:
        """(s,) log p of each step in which values are generated: the tokens of a text, else the value in one step."""

    def steps_interpolated(self, codes: Tensor, log_probs: Tensor, others: Tensor, weights: Tensor) -> Tensor:
        """(s,) the `log_probs` (s,) of steps interpolated with the values `others`. The rows of the belief do not matter."""


class SingleStep:
    """The steps of `SupportsInterpolation` for beliefs that generate a value at once."""

    def steps(self: SupportsInterpolation, codes: Tensor) -> Tensor:
        """(n,) log p of each value."""
        return self.log_prob(codes)

    def steps_interpolated(
        self: SupportsInterpolation, codes: Tensor, log_probs: Tensor, others: Tensor, weights: Tensor
    ) -> Tensor:
        """(n,) the `log_probs` (n,) interpolated with masses `weights` (n, P, K) at the values `others` (n, K, ...)."""
        mass = weights.sum((1, 2)).clamp(max=1)  # (n,)
        # all mass goes to the others, so the rows of the placeholder do not matter
        placeholder = self.pick(torch.zeros(len(codes), dtype=torch.long, device=codes.device))
        at_others = placeholder.interpolated(others, weights / mass.clamp(min=MIN_MASS)[:, None, None])
        return torch.logaddexp(log_probs + (1 - mass).log(), at_others.log_prob(codes) + mass.log())


@dataclass(frozen=True)
class JoinedBelief(SingleStep):
    """Several beliefs as one, each about some of the rows: slots of few labels beside one of many.

    Codes of different lengths are padded with -1.
    """

    rows: Sequence[Tensor]  # the rows of each part; every row is in exactly one
    parts: Sequence[Any]  # beliefs

    def __len__(self) -> int:
        return sum(map(len, self.rows))

    def log_prob(self, codes: Tensor) -> Tensor:
        """(n,)"""
        return self._gathered(lambda belief, rows: belief.log_prob(codes[rows]))

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        """(n, ...)"""
        return self._gathered(lambda belief, rows: belief.sample(temperature, generator))

    def mode(self) -> Tensor:
        """(n, ...)"""
        return self._gathered(lambda belief, rows: belief.mode())

    def entropy(self) -> Tensor:
        """(n,)"""
        return self._gathered(lambda belief, rows: belief.entropy())

    @property
    def probs(self) -> Tensor:
        """(n, V), 0 beyond the labels of a row."""
        return self._gathered(lambda belief, rows: belief.probs, 0)

    def top(self, k: int) -> tuple[Tensor, Tensor]:
        """(n, k) the likeliest codes, -1 where there are fewer, and (n, k) their probabilities"""
        best = [belief.top(k) for belief in self.parts]
        return self._in_order([codes for codes, _ in best]), self._in_order([probs for _, probs in best], 0)

    def ranks(self, codes: Tensor) -> Tensor:
        """(n,) the rank of each code among all of its slot, 1 the best"""
        return self._gathered(lambda belief, rows: belief.ranks(codes[rows]))

    def probs_of(self, codes: Tensor) -> Tensor:
        """(n, M) the probability of each code to be in a set, 0 for a code that is not a label"""
        return self._gathered(lambda belief, rows: belief.probs_of(codes[rows]), 0)

    def member_logs(self, codes: Tensor) -> Tensor:
        """(n, M) log p of each member of sets, given that it is the only one; NaN for a code that is not a label."""
        return self._gathered(lambda belief, rows: belief.member_logs(codes[rows]), torch.nan)

    def blended(self, codes: Tensor, mass: Tensor, weight: Tensor) -> JoinedBelief:
        """Set beliefs mixed with masses (n, K) of labels."""
        parts = [
            belief.blended(codes[rows], mass[rows], weight[rows])
            for rows, belief in zip(self.rows, self.parts, strict=True)
        ]
        return replace(self, parts=parts)

    def pick(self, rows: Tensor) -> Belief:
        """The beliefs about some rows; the part itself where all rows are of one."""
        part, within = (place[rows] for place in self._places)
        numbers = part.unique().tolist() or [0]
        if len(numbers) == 1:
            only: Belief = self.parts[numbers[0]].pick(within)
            return only
        places = [(part == number).nonzero()[:, 0] for number in numbers]
        picked = (self.parts[number].pick(within[place]) for number, place in zip(numbers, places, strict=True))
        joined: Belief = join_beliefs(list(zip(places, picked, strict=True)))
        return joined

    @cached_property
    def _places(self) -> tuple[Tensor, Tensor]:
        """(n,) the part that each row is in, and its place there"""
        part, within = torch.empty((2, len(self)), dtype=torch.long, device=self.rows[0].device)
        for number, rows in enumerate(self.rows):
            part[rows], within[rows] = number, torch.arange(len(rows), device=rows.device)
        return part, within

    @property
    def kernels(self) -> int:
        """The largest number of kernels of a part."""
        return max((belief.kernels for belief in self.parts if isinstance(belief, SupportsInterpolation)), default=0)

    def interpolated(self, codes: Tensor, weights: Tensor, answer_weights: Tensor | None = None) -> JoinedBelief:
        """The parts that can be interpolated, with some of their mass at the values of neighbours."""
        parts = [
            belief.interpolated(codes[rows], weights[rows]) if isinstance(belief, SupportsInterpolation) else belief
            for belief, rows in zip(self.parts, self.rows, strict=True)
        ]
        return JoinedBelief(self.rows, parts)

    def averaged(self, others: Sequence[JoinedBelief]) -> JoinedBelief:
        """The mean of each part that can be averaged."""
        joined_parts = zip(self.parts, *(other.parts for other in others), strict=True)
        parts = [
            first.averaged(rest) if isinstance(first, SupportsAveraging) else first for first, *rest in joined_parts
        ]
        return JoinedBelief(self.rows, parts)

    def _gathered(self, ask: Callable[[Any, Tensor], Tensor], fill: float = -1) -> Tensor:
        """The answers of all parts, in the order of the rows."""
        return self._in_order([ask(belief, rows) for belief, rows in zip(self.parts, self.rows, strict=True)], fill)

    def _in_order(self, answers: list[Tensor], fill: float = -1) -> Tensor:
        if answers[0].dim() > 1:
            longest = max(answer.shape[1] for answer in answers)
            answers = [F.pad(answer, (0, longest - answer.shape[1]), value=fill) for answer in answers]
        order = torch.cat(list(self.rows)).argsort()
        return torch.cat(answers)[order]


def join_beliefs(parts: Sequence[tuple[Tensor, Any]], order: Tensor | None = None) -> Any:
    """Join beliefs about some rows each; returns a single part as it is where it is about all rows, in order.

    `order` holds the original place of each row, if the rows were rearranged.
    """
    rows = [rows_of_part if order is None else order[rows_of_part] for rows_of_part, _ in parts]
    if len(parts) == 1 and bool((rows[0][1:] > rows[0][:-1]).all()):
        return parts[0][1]
    return JoinedBelief(rows, [belief for _, belief in parts])
