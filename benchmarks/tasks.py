"""Hidden values as tasks: one for each property, with its known values and the scale that errors are compared on.

The scale is the logarithm if the known values are positive and spread over more than a decade, else the values as they are.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from benchmarks.masking import Masked, Property, Scalar, Values, property_name
from kbdisk.entity import Date, Path
from kbdisk.leaves.number.codec import LARGEST_LOG, deciles_of, floor_of_logs

MIN_ROWS = 10  # known values of a property, from which on it is learnt
HELD_OUT = 10  # one of so many of them decides settings
MAX_LABELS = 60  # of a property that are told apart: the commonest

Answers = dict[int, Scalar]  # place of a cell -> value; a cell that is not there is answered by the constant


@dataclass(frozen=True)
class Scale:
    """The scale that a property of numbers is learnt and scored on."""

    smallest: float = 0.0  # that a logarithm is taken of: what is below counts as this; 0: none is taken
    is_whole: bool = False  # whether all known values are integers

    @classmethod
    def of(cls, known: Sequence[float], is_date: bool = False) -> Self:
        """The scale that suits the known values."""
        is_whole = all(value.is_integer() for value in known)
        smallest = 0.0 if is_date else floor_of_logs(min(known), deciles_of(sorted(known)), is_whole)
        return cls(smallest, is_whole)

    @property
    def is_log(self) -> bool:
        """Whether values are compared by their logarithm."""
        return self.smallest > 0

    def to(self, value: float) -> float:
        """A value on the scale."""
        return math.log(max(value, self.smallest)) if self.is_log else value

    def back(self, value: float) -> float:
        """A point on the scale as a value; a whole number where all known ones are."""
        value = math.exp(min(value, LARGEST_LOG)) if self.is_log else value
        return float(round(value)) if self.is_whole and math.isfinite(value) else value


@dataclass
class Task:
    """One property: its known values, and the cells that are asked for."""

    of: Property
    known: list[tuple[int, Path]] = field(default_factory=list)  # (entity, path)
    values: list[Scalar] = field(default_factory=list)  # of these
    cells: list[int] = field(default_factory=list)  # places among the hidden cells
    scale: Scale = Scale()

    @property
    def column(self) -> str:
        """The name of the property's column in the features of others."""
        return property_name(self.of) + ("" if self.of[2] == "number" else ", label")

    @property
    def constant(self) -> Scalar:
        """The median, or the commonest label."""
        if self.of[2] == "number":
            return float(statistics.median(self.values))
        return Counter(self.values).most_common(1)[0][0]


def tasks_of(masked: Masked, values: Values, train_count: int | None = None) -> list[Task]:
    """The properties of hidden cells that have a known value; cells of any other can't be scored.

    Known values are those of the first `train_count` entities, or of all.
    """
    by_property = {cell.property: Task(cell.property) for cell in masked.cells}
    dates: set[Property] = set()
    for place, entity in enumerate(masked.entities[:train_count]):
        for path, of, scalar in values.of(entity):
            if of in by_property:
                by_property[of].known.append((place, path))
                by_property[of].values.append(scalar)
                if of not in dates and _is_date(entity.tree, path):
                    dates.add(of)
    for place, cell in enumerate(masked.cells):
        by_property[cell.property].cells.append(place)
    tasks = [task for task in by_property.values() if task.values]
    for task in tasks:
        if task.of[2] == "number":
            task.scale = Scale.of(task.values, task.of in dates)
    return tasks


def _is_date(tree: Any, path: Path) -> bool:
    for key in path:
        tree = tree[key]
    return isinstance(tree, Date)
