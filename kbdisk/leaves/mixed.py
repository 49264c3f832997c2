"""A belief put together of others, each about some of the rows: slots of few labels beside one of many.

n rows
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from kbdisk.leaves.base import Averaging, Belief, Recalling
from kbdisk.leaves.whole import Whole


@dataclass(frozen=True)
class Mixed(Whole):
    """Several beliefs as one. Codes of different lengths are padded with -1."""

    places: Sequence[Tensor]  # which rows each belief is about; every row is in one
    parts: Sequence[Any]  # the beliefs

    def __len__(self) -> int:
        return sum(map(len, self.places))

    def log_prob(self, codes: Tensor) -> Tensor:
        """(n,)"""
        return self.each(lambda belief, place: belief.log_prob(codes[place]))

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        """(n, ...)"""
        return self.each(lambda belief, place: belief.sample(temperature, generator))

    def mode(self) -> Tensor:
        """(n, ...)"""
        return self.each(lambda belief, place: belief.mode())

    def entropy(self) -> Tensor:
        """(n,)"""
        return self.each(lambda belief, place: belief.entropy())

    @property
    def probs(self) -> Tensor:
        """(n, V), 0 beyond the labels of a row."""
        return self.each(lambda belief, place: belief.probs, 0)

    def top(self, k: int) -> tuple[Tensor, Tensor]:
        """(n, k) the likeliest codes, -1 where there are fewer, and (n, k) their probabilities"""
        best = [belief.top(k) for belief in self.parts]
        return self._ordered([codes for codes, _ in best]), self._ordered([probs for _, probs in best], 0)

    def ranks(self, codes: Tensor) -> Tensor:
        """(n,) the place of each code among all of its slot, 1 the best"""
        return self.each(lambda belief, place: belief.ranks(codes[place]))

    def member_logs(self, codes: Tensor) -> Tensor:
        """(n, M) how likely each member of sets is, if there is one alone; NaN for what is no label."""
        return self.each(lambda belief, place: belief.member_logs(codes[place]), torch.nan)

    def blended(self, codes: Tensor, mass: Tensor, weight: Tensor) -> Mixed:
        """Set beliefs mixed with masses (n, K) of labels."""
        each = zip(self.places, self.parts, strict=True)
        parts = [belief.blended(codes[place], mass[place], weight[place]) for place, belief in each]
        return replace(self, parts=parts)

    def pick(self, rows: Tensor) -> Belief:
        """Those of some rows; one belief alone where one alone is about them."""
        own = torch.empty(len(self), dtype=torch.long, device=rows.device)
        whose = torch.empty_like(own)
        for part, place in enumerate(self.places):
            own[place] = torch.arange(len(place), device=rows.device)
            whose[place] = part
        own, whose = own[rows], whose[rows]
        places = [(whose == part).nonzero()[:, 0] for part in range(len(self.parts))]
        picked = [(place, belief.pick(own[place])) for place, belief in zip(places, self.parts, strict=True)]
        some: Belief = mixed([(place, belief) for place, belief in picked if len(place)] or picked[:1])
        return some

    @property
    def kernels(self) -> int:
        """As many as the part has that has most."""
        return max((belief.kernels for belief in self.parts if isinstance(belief, Recalling)), default=0)

    def recalled(self, codes: Tensor, weights: Tensor, said: Tensor | None = None) -> Mixed:
        """Each with some of its mass for the values that others have, where it can."""
        parts = [
            belief.recalled(codes[place], weights[place]) if isinstance(belief, Recalling) else belief
            for belief, place in zip(self.parts, self.places, strict=True)
        ]
        return Mixed(self.places, parts)

    def averaged(self, others: Sequence[Mixed]) -> Mixed:
        """Each the mean of all, where it can be."""
        every = zip(self.parts, *(other.parts for other in others), strict=True)
        parts = [first.averaged(rest) if isinstance(first, Averaging) else first for first, *rest in every]
        return Mixed(self.places, parts)

    def each(self, ask: Callable[[Any, Tensor], Tensor], blank: float = -1) -> Tensor:
        """What every belief answers, in the order of the rows."""
        return self._ordered([ask(belief, place) for belief, place in zip(self.parts, self.places, strict=True)], blank)

    def _ordered(self, answers: list[Tensor], blank: float = -1) -> Tensor:
        if answers[0].dim() > 1:
            longest = max(answer.shape[1] for answer in answers)
            answers = [F.pad(answer, (0, longest - answer.shape[1]), value=blank) for answer in answers]
        order = torch.cat(list(self.places)).argsort()
        return torch.cat(answers)[order]


def mixed(parts: Sequence[tuple[Tensor, Any]], order: Tensor | None = None) -> Any:
    """One belief, of beliefs about some rows each; the one there is where it is about all, in order.

    `order`: where each of the rows came from, if they were arranged in another.
    """
    places = [place if order is None else order[place] for place, _ in parts]
    if len(parts) == 1 and bool((places[0][1:] > places[0][:-1]).all()):
        return parts[0][1]
    return Mixed(places, [belief for _, belief in parts])
