"""What tells one leaf by boosted trees: numbers, labels, the members of sets. TELLERS has how each kind is learnt.

Where all values are the same there is nothing to learn, and no teller.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kbdisk.baselines.base import Answer, Estimate
from kbdisk.baselines.boosting import said
from kbdisk.baselines.columns import common
from kbdisk.experts.target_scale import TargetScale
from kbdisk.metrics import label, members

if TYPE_CHECKING:
    import pandas
    from catboost import CatBoost

Boost: TypeAlias = "Callable[[Sequence[Any], str, int], CatBoost]"  # the truth, the loss, how many labels -> trees


class Teller(Protocol):
    """What tells one leaf."""

    def tell(self, table: pandas.DataFrame) -> list[Answer]:
        """What is said for each row."""


@dataclass(frozen=True)
class Constant:
    """The same for all."""

    answer: Answer

    def tell(self, table: pandas.DataFrame) -> list[Answer]:
        """The same for each row."""
        return [self.answer] * len(table)


@dataclass(frozen=True)
class Numbers:
    """Trees that tell a mean, and maybe others that tell a median."""

    scale: TargetScale
    mean: CatBoost
    median: CatBoost

    def tell(self, table: pandas.DataFrame) -> list[Answer]:
        """A number for each row."""
        means = self._told(self.mean, table)
        medians = means if self.median is self.mean else self._told(self.median, table)
        return list(map(Answer, medians, means))

    def _told(self, booster: CatBoost, table: pandas.DataFrame) -> list[float]:
        found: list[float] = self.scale.unscaled(said(booster, table, "RawFormulaVal")).tolist()
        return found


@dataclass(frozen=True)
class Labels:
    """Trees that tell one label of some."""

    booster: CatBoost
    labels: Sequence[Any]

    def tell(self, table: pandas.DataFrame) -> list[Answer]:
        """The likeliest label for each row."""
        probabilities = said(self.booster, table, "Probability")  # (rows, labels)
        return [Answer(self.labels[place]) for place in probabilities.argmax(1).tolist()]


@dataclass(frozen=True)
class Members:
    """Trees that tell how likely each member is in a set."""

    booster: CatBoost
    members: Sequence[Any]
    always: Sequence[Any]  # those that every set has

    def tell(self, table: pandas.DataFrame) -> list[Answer]:
        """The likeliest members for each row."""
        several = [*self.always, *self.members]
        probabilities = said(self.booster, table, "Probability")[:, -len(self.members) :]  # of one: no, yes
        rows = [[*[1.0] * len(self.always), *row] for row in probabilities.tolist()]
        return [Answer([several[place] for place in likely(row)]) for row in rows]


def likely(probabilities: Sequence[float]) -> list[int]:
    """The places of the likeliest members: as many of them as make the expected IoU, nearly, the largest."""
    order = sorted(range(len(probabilities)), key=lambda place: -probabilities[place])
    whole, within, most = sum(probabilities), 0.0, 0
    best = 1.0
    for one in probabilities:
        best *= 1 - one  # with none said: how likely it is that there is none
    for count, place in enumerate(order, 1):
        within += probabilities[place]
        iou = within / (count + whole - within)
        best, most = (iou, count) if iou > best else (best, most)
    return order[:most]


# ---------------------------------------------------------------- how each is learnt


def _numbers(boost: Boost, values: Sequence[Any], estimate: Estimate) -> Teller | None:
    numbers = [float(one) for one in values]
    scale = TargetScale.fit(numbers)
    if scale is None:
        return None
    truth = scale.scaled(numbers).tolist()
    mean = boost(truth, "RMSE", 1)
    return Numbers(scale, mean, boost(truth, "MAE", 1) if estimate == "median" else mean)


def _labels(boost: Boost, values: Sequence[Any], estimate: Estimate) -> Teller | None:
    first: dict[Hashable, Any] = {}
    for one in values:
        first.setdefault(label(one), one)
    if len(first) == 1:
        return None
    places = {one: place for place, one in enumerate(first)}
    loss = "Logloss" if len(first) == 2 else "MultiClass"
    return Labels(boost([places[label(one)] for one in values], loss, len(first)), list(first.values()))


def _sets(boost: Boost, values: Sequence[Any], estimate: Estimate) -> Teller | None:
    sets = [members(value) for value in values]
    first = {label(one): one for value in values for one in several(value)}
    told = [one for one in common(values) if not all(one in each for each in sets)]
    if not told:
        return None
    truth = [[int(one in each) for one in told] for each in sets]
    one = len(told) == 1
    booster = boost([row[0] for row in truth] if one else truth, "Logloss" if one else "MultiLogloss", len(told))
    return Members(booster, [first[each] for each in told], [first[each] for each in set.intersection(*map(set, sets))])


TELLERS: Mapping[str, Callable[[Boost, Sequence[Any], Estimate], Teller | None]] = {
    "number": _numbers,
    "category": _labels,
    "link": _labels,
    "set": _sets,
}


def several(value: Any) -> Sequence[Any]:
    """The members of a set as they are; one value alone is a set of one."""
    return list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
