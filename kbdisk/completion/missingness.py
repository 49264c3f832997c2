"""A classification tree estimates which entities have a property, as values may be missing not at random.

A rule was found on entities that have its target, and is known to hold for entities like these. `unc_1 = unc_2` holds for nuclides
whose first branching ratio is below 100 %; the others have no `unc_1`. So the tree estimates the propensity score: the share of
entities alike that have the target. It is compared with the score that is usual among the entities that have the target. Where
values are missing at random, however many, both are the same.

The tree is grown as in CHAID (Kass 1980), with two branches. A condition is that a property is given, that it has one of its
frequent labels or numbers, or that a number is at most a quantile. A node gets the condition with the highest likelihood ratio, if
that is significant after Bonferroni's correction for the number of conditions. Without such a condition the tree is one leaf.

n entities   F conditions
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kbdisk.entity import Date, Path
from kbdisk.schemas.rules import Values, number_of, plain

Flags: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]

MIN_LEAF = 10  # entities
MAX_DEPTH = 3
MAX_P_VALUE = 0.001  # of the best condition, after the correction
MAX_LABELS = 16  # of a property: conditions are about its most frequent ones
BORDERS = 16  # of a number: quantiles
USUAL_QUANTILE = 0.25  # of the shares of the entities that have a property: the share that is usual among these

GIVEN, LABEL, AT_MOST = "given", "label", "at most"


class Condition(NamedTuple):
    """A condition on the value of a property."""

    path: Path
    kind: str
    value: Any = None

    def holds(self, values: Values) -> bool:
        """Whether the values of an entity fulfil the condition. A missing property fulfils none."""
        value = values.get(self.path)
        if value is None:
            return False
        if self.kind == AT_MOST:
            number = _number(value)
            return number is not None and number <= self.value
        return self.kind == GIVEN or self.value in _labels(value)


class Sample:
    """A sample of entities of a class, and which conditions each fulfils."""

    def __init__(self, entities: Sequence[Values]) -> None:
        self.entities = entities

    @cached_property
    def fulfilled(self) -> tuple[list[Condition], Flags]:
        """The conditions, and (n, F) whether each entity fulfils each."""
        conditions, columns = list[Condition](), list[Flags]()
        for path in dict.fromkeys(path for values in self.entities for path in values):
            for condition, column in _conditions_of(path, [values.get(path) for values in self.entities]):
                if MIN_LEAF <= column.sum() <= len(column) - MIN_LEAF:
                    conditions.append(condition)
                    columns.append(column)
        return conditions, np.stack(columns, 1) if columns else np.zeros((len(self.entities), 0), dtype=bool)

    def tree(
        self, applies: Callable[[Values], bool], has: Callable[[Values], bool], without: Collection[Path]
    ) -> MissingnessTree | None:
        """The tree of the entities that a rule `applies` to, by whether each `has` its target, and `without` some properties.

        None where the sample has too few of them.
        """
        chosen = np.array([applies(values) for values in self.entities], dtype=bool)
        having = np.array([has(values) for values in self.entities], dtype=bool)[chosen]
        if min(having.sum(), (~having).sum()) < 1 or len(having) < 2 * MIN_LEAF:
            return None
        conditions, fulfilled = self.fulfilled
        others = [
            column
            for column, condition in enumerate(conditions)
            if not any(_overlap(condition.path, path) for path in without)
        ]
        leaf_shares = np.zeros(len(having))
        root = _grown(
            [conditions[column] for column in others],
            fulfilled[chosen][:, others],
            having,
            np.arange(len(having)),
            leaf_shares,
            MAX_DEPTH,
        )
        return MissingnessTree(root, float(np.quantile(leaf_shares[having], USUAL_QUANTILE)))


@dataclass(frozen=True)
class _Leaf:
    share: float  # of the entities that have the property


@dataclass(frozen=True)
class _Node:
    condition: Condition
    yes: _Leaf | _Node
    no: _Leaf | _Node


@dataclass(frozen=True)
class MissingnessTree:
    """The share of entities that have a property, by their other values; `usual` is the share among those that have it."""

    root: _Leaf | _Node
    usual: float

    def share(self, values: Values) -> float:
        """The share of entities alike that have the property."""
        node = self.root
        while isinstance(node, _Node):
            node = node.yes if node.condition.holds(values) else node.no
        return node.share

    def presence(self, values: Values) -> float:
        """The share of entities alike, relative to the usual share; 1 where values are missing at random."""
        return min(self.share(values) / self.usual, 1.0)


def one_leaf(having: int, count: int) -> MissingnessTree:
    """The tree of entities that are all alike, by how many of them have the property."""
    share = (having + 1) / (count + 1)
    return MissingnessTree(_Leaf(share), share)


ALL_HAVE_IT = MissingnessTree(_Leaf(1.0), 1.0)


def _grown(
    conditions: Sequence[Condition],
    fulfilled: Flags,
    having: Flags,
    rows: npt.NDArray[np.int64],
    leaf_shares: Floats,
    depth: int,
) -> _Leaf | _Node:
    """The subtree of some rows, by the conditions that are `fulfilled` (n, F). Sets `leaf_shares` (n,)."""
    best = _best_condition(fulfilled[rows], having[rows]) if depth else None
    if best is None:
        share = float((having[rows].sum() + 1) / (len(rows) + 1))
        leaf_shares[rows] = share
        return _Leaf(share)
    yes = fulfilled[rows, best]
    return _Node(
        conditions[best],
        _grown(conditions, fulfilled, having, rows[yes], leaf_shares, depth - 1),
        _grown(conditions, fulfilled, having, rows[~yes], leaf_shares, depth - 1),
    )


def _best_condition(fulfilled: Flags, having: Flags) -> int | None:
    """The condition with the highest likelihood ratio, by those `fulfilled` (n, F) and `having` (n,); None: none is significant."""
    count, present = len(having), having.sum()
    yes, present_yes = fulfilled.sum(0), fulfilled[having].sum(0)  # (F,)
    is_valid = (yes >= MIN_LEAF) & (count - yes >= MIN_LEAF)
    if not is_valid.any() or present in (0, count):
        return None
    split = _log_likelihood(present_yes, yes) + _log_likelihood(present - present_yes, count - yes)
    ratio = np.where(is_valid, 2 * (split - _log_likelihood(present, np.array(count))), 0.0)
    best = int(ratio.argmax())
    p_value = math.erfc(math.sqrt(max(float(ratio[best]), 0.0) / 2))  # chi-squared with one degree of freedom
    return best if p_value * is_valid.sum() <= MAX_P_VALUE else None


def _log_likelihood(present: npt.NDArray[np.int64], count: npt.NDArray[np.int64]) -> Floats:
    """The log likelihood of counts under their own share."""
    absent = count - present
    share = present / np.maximum(count, 1)
    terms = present * np.log(np.where(present > 0, share, 1.0)) + absent * np.log(np.where(absent > 0, 1 - share, 1.0))
    return np.asarray(terms)


def _conditions_of(path: Path, values: Sequence[Any]) -> Iterable[tuple[Condition, Flags]]:
    """The conditions of a property, each with (n,) whether it is fulfilled by the values of entities."""
    yield Condition(path, GIVEN), np.array([value is not None for value in values], dtype=bool)
    labels = [frozenset[Hashable]() if value is None else _labels(value) for value in values]
    counts = Counter(label for of_entity in labels for label in of_entity)
    for label, count in counts.most_common(MAX_LABELS):
        if count >= MIN_LEAF:
            yield Condition(path, LABEL, label), np.array([label in of_entity for of_entity in labels], dtype=bool)
    numbers = np.array([math.nan if (number := _number(value)) is None else number for value in values])
    known = numbers[~np.isnan(numbers)]
    if len(known) >= 2 * MIN_LEAF:
        for border in np.unique(np.quantile(known, np.arange(1, BORDERS) / BORDERS, method="lower")):
            yield Condition(path, AT_MOST, float(border)), numbers <= border  # NaN: no


def _labels(value: Any) -> Collection[Hashable]:
    """The members of a set, or the one value, in the form by which values are compared."""
    comparable = plain(value)
    return comparable if isinstance(comparable, frozenset) else () if comparable is None else (comparable,)


def _number(value: Any) -> float | None:
    """A value as a number, a date by its year; None where it is none."""
    number = value.year if isinstance(value, Date) else number_of(value)
    if number is None or isinstance(number, bool):
        return None
    try:
        return float(number)
    except OverflowError:  # an integer of hundreds of digits
        return math.copysign(math.inf, number)


def _overlap(path: Path, other: Path) -> bool:
    shorter = min(len(path), len(other))
    return path[:shorter] == other[:shorter]
