"""Entities as rows of features for gradient boosting, as a careful data scientist would make them.

Features are the single values of an entity: numbers as numbers, dates as decimal years, labels, links and units as categories;
its classes and the most frequent members of its lists as flags; the lengths of its lists. For a value within a list, such as the
year of a prize, the other fields of that part are features, too. Text and ids are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.masking import ANY, Values, pattern, property_name
from kbdisk.entity import Entity, Link, Path, Quantity, Text, walk

if TYPE_CHECKING:
    import pandas

MAX_CLASSES = 100  # flags of classes
MAX_MEMBERS = 20  # flags of each list
MIN_KNOWN = 5  # rows of a column that have a value, or whose flag is set
MAX_COLUMNS = 400  # that one property is learnt from: the fullest
MAX_LENGTH = 40  # characters of a property's strings on average; longer ones are text
MIN_LABEL = 2  # values of a label, from which on it has a category

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
        self.unused = self._find_unused()
        self.rows = [self._row(entity) for entity in entities]
        self._parts: dict[tuple[int, Path], Row] = {}
        self._lay_out()

    def table(self, places: Sequence[tuple[int, Path]], path: Path | None, known: int) -> pandas.DataFrame:
        """A row for each (entity, path); columns with some values in the first `known` rows, but for those of the property `path`."""
        import numpy as np
        import pandas

        rows = np.array([place for place, _ in places])
        counts = dict(zip(self._names, self._present[rows[:known]].sum(0).tolist(), strict=True))
        parts = [self._part_of(place, at) for place, at in places] if ANY in (path or ()) else []
        for part in parts[:known]:
            for name in part:
                counts[name] = counts.get(name, 0) + 1
        least = max(1, min(MIN_KNOWN, known))
        names = [name for name, count in counts.items() if count >= least and self.columns[name].path != path]
        names.sort(key=lambda name: -counts[name])
        data = {}
        for name in names[:MAX_COLUMNS]:
            if name in self._places:
                values = self._array(name)[rows]
            else:
                values = self._filled(name, [part.get(name) for part in parts])
            data[name] = pandas.Series(values, dtype=values.dtype)  # which keeps objects: strings are of another type
        table = pandas.DataFrame(data, index=range(len(rows)))
        return table.loc[:, table.iloc[:known].nunique(dropna=False) > 1]

    def _lay_out(self) -> None:
        """Which columns each entity has a value of."""
        import numpy as np

        self._names = list(self.columns)
        self._places = {name: place for place, name in enumerate(self._names)}
        self._present = np.zeros((len(self.rows), len(self._names)), dtype=bool)
        for place, row in enumerate(self.rows):
            self._present[place, [self._places[name] for name in row]] = True
        self._arrays: dict[str, Any] = {}

    def _array(self, name: str) -> Any:
        """A column of all entities."""
        if name not in self._arrays:
            self._arrays[name] = self._filled(name, [row.get(name) for row in self.rows])
        return self._arrays[name]

    def _filled(self, name: str, values: Sequence[Any]) -> Any:
        """Values as a column: a flag or a length that is not there is 0, a label that is not there is empty."""
        import numpy as np

        if not self.columns[name].is_number:
            return np.array(["" if value is None else value for value in values], dtype=object)
        missing = 0.0 if name[:1] in "=#" else np.nan
        return np.array([missing if value is None else value for value in values], dtype=np.float64)

    # ------------------------------------------------------------ rows

    def _part_of(self, place: int, path: Path) -> Row:
        """The other fields of the part of a list that a path leads into."""
        return self._part(place, path[: max((i + 1 for i, key in enumerate(path) if isinstance(key, int)), default=0)])

    def _part(self, place: int, at: Path) -> Row:
        """The fields of one part of a list."""
        if (place, at) not in self._parts:
            part: Any = self.entities[place].tree
            for key in at:
                part = part[key]
            row: Row = {}
            for path, value in walk(part) if isinstance(part, dict) else ():
                if path and isinstance(path[-1], str) and value is not None:
                    self._add(row, (*at, *path), value, "here: ")
            self._parts[place, at] = row
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
        if of in self.unused:
            return
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

    def _find_unused(self) -> set[Path]:
        """The properties of long strings, and of ids."""
        lengths: dict[Path, list[int]] = {}
        ids: Counter[Path] = Counter()
        for entity in self.entities:
            for path, value in walk(entity.tree):
                if isinstance(value, str | Text):
                    lengths.setdefault(pattern(path), []).append(len(value if isinstance(value, str) else value.text))
                if value is not None and str(value) == entity.id:
                    ids[pattern(path)] += 1
        texts = {path for path, of_path in lengths.items() if sum(of_path) > MAX_LENGTH * len(of_path)}
        return texts | {path for path, count in ids.items() if 2 * count > len(self.entities)}

    def _count_labels(self) -> Counter[tuple[Path, Any]]:
        counts: Counter[tuple[Path, Any]] = Counter()
        for entity in self.entities:
            counts.update((of[0], scalar) for _, of, scalar in self.values.of(entity) if of[2] == "label")
        return counts

    def _flags(self) -> dict[Path, set[str]]:
        """The commonest members of each list, and of what is a list in other entities; the classes under ()."""
        members: dict[Path, Counter[str]] = {(): Counter()}
        lists: set[Path] = {()}
        for entity in self.entities:
            members[()].update(set(entity.classes))
            for path, value in walk(entity.tree):
                label = _label(value)
                if label is None or not path:
                    continue
                in_list = isinstance(path[-1], int)
                of = pattern(path[:-1] if in_list else path)
                if in_list:
                    lists.add(of)
                members.setdefault(of, Counter())[label] += 1
        flags = {}
        for of in lists:
            common = members[of].most_common(MAX_MEMBERS if of else MAX_CLASSES)
            flags[of] = {label for label, count in common if count >= MIN_KNOWN}
        return flags


def _label(value: Any) -> str | None:
    """A link, a string or a truth as a label; None of anything else."""
    if isinstance(value, Link):
        return value.id
    if isinstance(value, bool | str):
        return str(value)
    return value.text if isinstance(value, Text) else None
