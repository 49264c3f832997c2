"""Entities of one class as a table that boosted trees can read: leaves as columns, missing as missing.

    number                     as it is; missing is NaN
    category, boolean, link    as a label; missing is a label of its own
    set                        a column for each common member: 1, 0, or NaN where there is no set
    text                       left out: trees cannot read

A table that is `filled` has the constants of training where something is missing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from kbdisk.data.parse import Reading
from kbdisk.entity import Path
from kbdisk.metrics import fit_constant, label, members

if TYPE_CHECKING:
    import pandas

MEMBERS = 50  # of a set that have a column, at most: the commonest
DTYPES = {"number": "float64", "set": "float64", "category": "object", "link": "object"}  # of the kinds that are shown
MISSING = "missing"  # no label of a value: those begin with =


@dataclass(frozen=True)
class Column:
    """A column: the leaf that it shows, and how."""

    path: Path
    kind: str
    missing: Any  # what stands where the leaf is not there
    member: Hashable = None  # of a set

    def of(self, reading: Reading) -> Any:
        """What stands there for an entity."""
        value = reading.leaves.get(self.path)
        if value is None:
            return self.missing
        if self.kind == "set":
            return float(self.member in members(value))
        return float(value) if self.kind == "number" else named(value)


@dataclass(frozen=True)
class Columns:
    """The columns of one class."""

    columns: tuple[Column, ...]

    @classmethod
    def fit(cls, kinds: Mapping[Path, str], readings: Sequence[Reading], filled: bool = False) -> Self:
        """Those of some leaves, as training entities have them."""
        values: dict[Path, list[Any]] = {path: [] for path in kinds}
        for one in readings:
            for path in one.leaves.keys() & kinds.keys():
                values[path].append(one.leaves[path])
        found: list[Column] = []
        for path, kind in kinds.items():
            if kind == "set":
                found += _of_set(path, values[path], filled)
            elif kind in DTYPES and values[path]:
                found.append(Column(path, kind, _missing(kind, values[path], filled)))
        return cls(tuple(found))

    def table(self, readings: Sequence[Reading], names: Sequence[str] | None = None) -> pandas.DataFrame:
        """Entities as rows; the columns, all or some, are called by their places."""
        import pandas

        shown = {
            name: self.columns[int(name)] for name in (map(str, range(len(self.columns))) if names is None else names)
        }
        data = {
            name: pandas.Series([column.of(one) for one in readings], dtype=DTYPES[column.kind])
            for name, column in shown.items()
        }
        return pandas.DataFrame(data, index=range(len(readings)))


def named(value: Any) -> str:
    """A label, or the id of a link, as text: true is not 1, nor "1"."""
    return f"={label(value)!r}"


def common(values: Sequence[Any]) -> list[Hashable]:
    """The commonest members of sets, in order."""
    counts = Counter(one for value in values for one in members(value))
    return sorted(counts, key=lambda one: (-counts[one], str(one)))[:MEMBERS]


def _of_set(path: Path, values: Sequence[Any], filled: bool) -> list[Column]:
    sets = [members(value) for value in values]
    found = []
    for one in common(values):
        share = sum(one in each for each in sets) / len(sets)
        found.append(Column(path, "set", float(share > 0.5) if filled else math.nan, one))
    return found


def _missing(kind: str, values: Sequence[Any], filled: bool) -> Any:
    if not filled:
        return math.nan if kind == "number" else MISSING
    constant = fit_constant(kind, values)
    return constant.mean if kind == "number" else named(constant.value)
