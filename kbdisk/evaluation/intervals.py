"""Conformal intervals: the levels at which the intervals of numbers contain the truth as often as they state.

The rank of a hidden number is the share of its belief that lies below it, randomised within an atom. An interval around the
median at the level L contains the truth where |2 rank - 1| <= L. So the level to take is the quantile of |2 rank - 1| on
held-out values (split conformal). There is a level for each property and each third of the entities, by how many of their
values are given. The hidden values of the property in that third count together with those of all properties, which weigh as
much as `PRIOR_VALUES` values. Numbers within a list that lacks as a whole have levels of their own: in a series of populations
a single missing number is predicted from its neighbours, and a whole missing series is not.

Most entities that are completed were trained on. So where enough values were reserved within training entities, levels are
learnt from these alone: beliefs about held-out entities are wider, and more often wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kbdisk.data import Codec
from kbdisk.data.dataset import Batch
from kbdisk.model.estimates import INTERVAL_LEVEL

Key: TypeAlias = tuple[str, str]  # the class and the path of a property, as rows of an evaluation have them
Floats: TypeAlias = npt.NDArray[np.float64]

MAX_LEVEL = 0.995  # that is taken: beyond it an interval is the tail of a belief
MIN_VALUES = 30  # of a third of the entities, from which on it has a level of its own
MIN_RANKS = 10  # from which on any level is learnt
PRIOR_VALUES = 40.0
ENOUGH_RESERVED = 100  # reserved values, from which on held-out entities do not count


class Rank(NamedTuple):
    """The rank of a hidden number in its belief."""

    property: Key
    below: float  # the share of the belief that is below it
    given: int  # how many values of the entity were given
    weight: float = 1.0
    is_reserved: bool = False  # the entity was trained on without this value
    is_in_list: bool = False  # the list that it stands in was hidden as a whole


@dataclass(frozen=True)
class Levels:
    """The level of the interval of each property, by how many values of the entity are given."""

    bounds: tuple[float, float] = (
        0.0,
        0.0,
    )  # from which number of given values on the second and the last third begins
    of_all: tuple[float, ...] = (INTERVAL_LEVEL,) * 3  # of properties that have none of their own
    by_property: Mapping[Key, tuple[float, ...]] = field(default_factory=dict)
    in_lists: Mapping[Key, tuple[float, ...]] = field(default_factory=dict)  # of numbers in lists that lack as a whole

    def __call__(self, key: Key, given: int, *, is_in_list: bool = False) -> float:
        """The level at which the interval of a property has the truth in nine of ten cases."""
        third = int(given >= self.bounds[0]) + int(given >= self.bounds[1])
        levels = self.by_property.get(key, self.of_all)
        return (self.in_lists.get(key, levels) if is_in_list else levels)[third]

    @classmethod
    def fit(cls, ranks: Sequence[Rank]) -> Self:
        """Learn from the ranks of hidden numbers."""
        reserved = [rank for rank in ranks if rank.is_reserved]
        ranks = reserved if len(reserved) >= ENOUGH_RESERVED else ranks
        if len(ranks) < MIN_RANKS:
            return cls()
        first, second = (float(bound) for bound in np.quantile([rank.given for rank in ranks], [1 / 3, 2 / 3]))
        bounds = first, second
        of_all, by_property = _levels([rank for rank in ranks if not rank.is_in_list], bounds)
        return cls(bounds, of_all, by_property, _levels([rank for rank in ranks if rank.is_in_list], bounds)[1])

    def of_tokens(
        self, codec: Codec, batch: Batch, visible: Tensor, tokens: Tensor, in_lists: Collection[int] = ()
    ) -> Tensor:
        """(q,) the levels of some tokens, where the visible ones (T,) are given; of those `in_lists` the list lacks as a whole."""
        given, classes = given_counts(batch, visible), batch.classes.tolist()
        levels = []
        rows = zip(tokens.tolist(), batch.slot[tokens].tolist(), batch.entity[tokens].tolist(), strict=True)
        for token, slot, entity in rows:
            key = codec.learnt_as(codec.classes[classes[entity]], codec.slots[slot].path)
            levels.append(self(key, given[entity], is_in_list=token in in_lists))
        return torch.tensor(levels, dtype=torch.float64, device=tokens.device)

    def to_json(self) -> dict[str, Any]:
        """The levels as plain data."""
        return {
            "bounds": list(self.bounds),
            "of_all": list(self.of_all),
            "by_property": [[*key, *levels] for key, levels in self.by_property.items()],
            "in_lists": [[*key, *levels] for key, levels in self.in_lists.items()],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The levels of plain data."""
        first, second = data["bounds"]
        by_property, in_lists = (
            {(class_name, path): tuple(levels) for class_name, path, *levels in data[name]}
            for name in ("by_property", "in_lists")
        )
        return cls((first, second), tuple(data["of_all"]), by_property, in_lists)


def given_counts(batch: Batch, visible: Tensor) -> list[int]:
    """How many values of each entity are visible (T,)."""
    counts: list[int] = torch.bincount(batch.entity[visible], minlength=batch.size).tolist()
    return counts


def _levels(
    ranks: Sequence[Rank], bounds: tuple[float, float]
) -> tuple[tuple[float, ...], dict[Key, tuple[float, ...]]]:
    """The levels of all properties together, and of each, by thirds of the given values."""
    if not ranks:
        return (INTERVAL_LEVEL,) * 3, {}
    scores = np.array([abs(2 * rank.below - 1) for rank in ranks])
    weights = np.array([rank.weight for rank in ranks])
    given = np.array([rank.given for rank in ranks])
    third = (given >= bounds[0]).astype(int) + (given >= bounds[1])
    chosen = [third == number for number in range(3)]
    chosen = [which if which.sum() >= MIN_VALUES else np.ones(len(ranks), dtype=bool) for which in chosen]
    by_property = {}
    for key in dict.fromkeys(rank.property for rank in ranks):
        is_property = np.array([rank.property == key for rank in ranks])
        by_property[key] = tuple(_level(scores, weights, is_property, which) for which in chosen)
    nothing = np.zeros(len(ranks), dtype=bool)
    return tuple(_level(scores, weights, nothing, which) for which in chosen), by_property


def _level(scores: Floats, weights: Floats, of_property: Any, of_all: Any) -> float:
    """The quantile of the scores of a property (n,) and, as far as their prior counts, of all."""
    prior = weights * of_all
    prior = prior * min(PRIOR_VALUES / max(prior.sum(), 1e-9), 1.0)
    mass = weights * of_property + prior
    rising = np.argsort(scores)
    reached = np.cumsum(mass[rising])
    place = int(np.searchsorted(reached, INTERVAL_LEVEL * reached[-1] * (1 - 1e-9)))
    return MAX_LEVEL if place == len(scores) else round(min(float(scores[rising][place]), MAX_LEVEL), 6)
