"""Entities as rows of features, as a careful person would make them for gradient boosting.

An entity's single values: numbers as numbers, dates as decimal years, labels and links as categories, units as
categories. Its classes, and the commonest members of its lists, as flags; how long its lists are. For a value within a
list, such as the year of a prize, the other fields of that part, too. Text is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kbdisk.bench.masking import ANY, Values, pattern, property_name
from kbdisk.entity import Entity, Link, Path, Quantity, Text, walk

if TYPE_CHECKING:
    import pandas

MAX_CLASSES = 100  # flags of classes
MAX_MEMBERS = 20  # flags of each list
MIN_KNOWN = 5  # rows of a column that have a value, or whose flag is set
MAX_COLUMNS = 400  # that one property is learnt from: the fullest
MIN_LABEL = 2  # of a label, from which on it is told from others

Row = dict[str, Any]


class Column(NamedTuple):
    """What is known of a column."""

    path: Path  # the pattern that it is made of; empty for classes
    is_number: bool


class Features:
    """The features of every entity, found once; `table` has those that suit a property."""

    def __init__(self, entities: Sequence[Entity], values: Values) -> None:
        self.entities, self.values = entities, values
        self.columns: dict[str, Column] = {}
        self.counts = self._count_labels()
        self.flags = self._flags()
        self.rows = [self._row(entity) for entity in entities]
        self._parts: dict[tuple[int, Path], Row] = {}

    def table(self, places: Sequence[tuple[int, Path]], path: Path, known: int) -> pandas.DataFrame:
        """A row for each (entity, path) whose value is asked for; columns with some values in the first `known` rows."""
        import pandas

        rows = [self._row_for(place, at) for place, at in places]
        counts = Counter(name for row in rows[:known] for name in row)
        names = [
            name
            for name, count in counts.most_common()
            if count >= min(MIN_KNOWN, known) and self.columns[name].path != path
        ][:MAX_COLUMNS]
        data: dict[str, Any] = {}
        for name in names:
            if self.columns[name].is_number:
                data[name] = pandas.Series([row.get(name) for row in rows], dtype="float64")
                if name[:1] in "=#":  # a flag or a length that is not there is 0
                    data[name] = data[name].fillna(0.0)
            else:
                data[name] = pandas.Series([row.get(name, "") for row in rows], dtype=object)
        table = pandas.DataFrame(data, index=range(len(rows)))
        return table.loc[:, table.iloc[:known].nunique(dropna=False) > 1]

    # ------------------------------------------------------------ rows

    def _row_for(self, place: int, path: Path) -> Row:
        at = max((i + 1 for i, key in enumerate(path) if isinstance(key, int)), default=0)
        return self.rows[place] if not at else self.rows[place] | self._part(place, path[:at])

    def _part(self, place: int, at: Path) -> Row:
        """The fields of one part of a list."""
        if (place, at) not in self._parts:
            part: Any = self.entities[place].tree
            for key in at:
                part = part[key]
            found: Row = {}
            for path, value in walk(part) if isinstance(part, dict) else ():
                if path and isinstance(path[-1], str) and value is not None:
                    self._add(found, (*at, *path), value, "here: ")
            self._parts[place, at] = found
        return self._parts[place, at]

    def _row(self, entity: Entity) -> Row:
        row: Row = {}
        for name in entity.classes:
            if name in self.flags.get((), ()):
                self._set(row, f"= {name}", Column((), True), 1.0)
        for path, value in walk(entity.tree):
            if value is None or not path:
                continue
            if isinstance(path[-1], int):
                of = pattern(path[:-1])
                label = _label(value)
                if label is not None and label in self.flags.get(of, ()):
                    self._set(row, f"= {property_name((of, '', 'label'))}: {label}", Column(of, True), 1.0)
                length = f"# {property_name((of, '', 'number'))}"
                self._set(row, length, Column(of, True), max(row.get(length, 0.0), path[-1] + 1.0))
            elif all(key == 0 for key in path if isinstance(key, int)):  # of lists of parts the first
                self._add(row, path, value, "")
                label = _label(value)
                if label is not None and label in self.flags.get(pattern(path), ()):
                    name = f"= {property_name((pattern(path), '', 'label'))}: {label}"
                    self._set(row, name, Column(pattern(path), True), 1.0)
        return row

    def _add(self, row: Row, path: Path, value: Any, prefix: str) -> None:
        of = pattern(path)
        for half, kind, scalar in self.values.scalars(of, value):
            if kind == "label" and self.counts.get((of, scalar), 0) < MIN_LABEL:
                continue
            name = prefix + property_name((of, half, kind))
            name += "" if kind == "number" else ", label"
            self._set(row, name, Column(of, kind == "number"), scalar if kind == "number" else f"={scalar!r}")
        if isinstance(value, Quantity) and value.unit is not None:
            self._set(
                row, f"{prefix}{property_name((of, '', 'label'))}, unit", Column((*of, "unit"), False), value.unit
            )

    def _set(self, row: Row, name: str, column: Column, value: Any) -> None:
        self.columns.setdefault(name, column)
        row[name] = value

    # ------------------------------------------------------------ what is common

    def _count_labels(self) -> Counter[tuple[Path, Any]]:
        counts: Counter[tuple[Path, Any]] = Counter()
        for entity in self.entities:
            counts.update((of[0], scalar) for _, of, scalar in self.values.of(entity) if of[2] == "label")
        return counts

    def _flags(self) -> dict[Path, set[str]]:
        """The commonest members of each list, and of what is a list in other entities; the classes under ()."""
        members: dict[Path, Counter[str]] = {(): Counter()}
        several: set[Path] = {()}
        for entity in self.entities:
            members[()].update(set(entity.classes))
            for path, value in walk(entity.tree):
                label = _label(value)
                if label is None or not path:
                    continue
                in_list = isinstance(path[-1], int)
                of = pattern(path[:-1] if in_list else path)
                if in_list:
                    several.add(of)
                members.setdefault(of, Counter())[label] += 1
        found = {}
        for of in several:
            common = members[of].most_common(MAX_MEMBERS if of else MAX_CLASSES)
            found[of] = {label for label, count in common if count >= MIN_KNOWN}
        return found


def _label(value: Any) -> str | None:
    """A link, a string or a truth as a label; None of anything else."""
    if isinstance(value, Link):
        return value.id
    if isinstance(value, bool | str):
        return str(value)
    return value.text if isinstance(value, Text) else None


__all__ = ["ANY", "Column", "Features"]
