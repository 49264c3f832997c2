"""pandas frames: a row is an entity, a column a path; and completions as such a frame again.

The index holds the ids: rows go by its labels, also by those that pandas counts by default, from 0, where no column is
named as that of ids, so that a part of a frame has the ids of the whole. Where two rows have the same label, rows count
from 1 as in every format. Of a column index of several levels, the levels are the path's keys.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from kbdisk.entity import Completion, Coordinate, Date, Entity, Link, Path, Quantity, Text, show
from kbdisk.errors import LoadError, WriteError
from kbdisk.loaders.columns import Index, Layout, index_of, paths_of
from kbdisk.loaders.flat import leaves_of, table_of
from kbdisk.loaders.kb import KB
from kbdisk.loaders.options import Options
from kbdisk.loaders.python import value_of
from kbdisk.schemas.text.dates import write_iso

if TYPE_CHECKING:
    import pandas

NAME = "<frame>"
ROWS = 4096  # turned into entities together


def load_frame(frame: pandas.DataFrame, options: Options) -> KB:
    """A knowledge base over a frame."""
    return FrameKB(frame, options)


class FrameKB(KB):
    """Entities from the rows of a frame."""

    def __init__(self, frame: pandas.DataFrame, options: Options) -> None:
        super().__init__(NAME, "memory", options)
        if not len(frame) or not len(frame.columns):
            raise LoadError(self.name, "expected some rows and columns, got an empty frame.")
        self.frame = frame
        told = options.id == (frame.index.name,)
        self.index = _named(frame) if told or (options.id is None and frame.index.is_unique) else None
        self.repeated = not frame.index.is_unique  # so it names no rows
        try:
            self.paths = _paths(frame)
            id = None if self.index is not None else options.id
            self.layout = Layout.of(self.paths, id, lambda i: not frame.iloc[:, i].isna().any(), self._index)
        except ValueError as error:
            raise LoadError(self.name, str(error)) from None
        self.layout.check_classes(options.classes, self.name)

    def _index(self, column: int) -> Index:
        return index_of(self._values(self.frame.iloc[:, column], self.paths[column]))

    def read(self) -> Iterator[Entity]:
        """One entity for each row."""
        if self.layout.doubt:
            self.odd.note(self.layout.doubt, self.name)
        wanted = set(self.options.classes)
        for start in range(0, len(self.frame), ROWS):
            some = self.frame.iloc[start : start + ROWS]
            columns = [self._values(some.iloc[:, i], path) for i, path in enumerate(self.paths)]
            for position, values in enumerate(zip(*columns, strict=True), start + 1):
                classes = self.layout.classes_of(values)
                id = self._id(position, values)
                if id is None:
                    self.skip(LoadError(f"{self.name}, row {position}", "expected an id, got none. Fill it in."))
                elif not wanted or not wanted.isdisjoint(classes):
                    tree, label = self.layout.tree(values), self.layout.label_of(values)
                    nameless = self.index is None and self.layout.id is None
                    yield Entity(id, tree, classes, label, position=position, source=self, nameless=nameless)

    def _id(self, position: int, values: Sequence[Any]) -> str | None:
        if self.index is not None:
            return self.index(position - 1)
        if self.layout.id is None:
            return str(position if self.repeated else position - 1)
        return None if values[self.layout.id] is None else str(values[self.layout.id])

    def _values(self, column: pandas.Series[Any], path: Path) -> list[Any]:
        missing, unit = self.options.missing, self.options.units.get(path)
        place = f"{self.name}: {show(path)}"
        float32 = getattr(column.dtype, "kind", "") == "f" and column.dtype != "float64"
        values = []
        for raw in column.array if float32 else column.tolist():
            try:
                value = value_of(raw, lambda what: self.odd.note(what, place))
            except ValueError as error:
                raise LoadError(place, str(error)) from None
            if unit is not None and type(value) in (int, float, Decimal):
                value = Quantity(value, unit)
            values.append(None if isinstance(value, str) and value in missing else value)
        return values


def frame(items: Iterable[Entity | Completion], like: pandas.DataFrame | None = None) -> pandas.DataFrame:
    """Completions as a copy of the frame they were read from (or `like`), with the new values in its gaps.

    The columns stay, and their types where the new values allow. WriteError where a value has no place.
    Where there is no such frame, a new one: ids as the index, a column for each path.
    """
    items = list(items)
    source = next((one.entity.source for one in items if isinstance(one, Completion)), None)
    if like is None and isinstance(source, FrameKB):
        like = source.frame
    if like is None:
        return _new(items)
    filled = like.copy()
    paths = {path: i for i, path in enumerate(_paths(like))}
    new: dict[int, dict[int, Any]] = defaultdict(dict)  # column, row: value
    for item in (one for one in items if isinstance(one, Completion)):
        for path, one in item.filled.items():
            for at, value in [(path, one.value)] if path in paths else leaves_of(path, one.value):
                if at not in paths:
                    raise WriteError(show(path), "the frame has no such column. Add it before.")
                new[paths[at]][item.entity.position - 1] = value
    for i, values in new.items():
        filled.isetitem(i, _with(filled.iloc[:, i], values))
    return filled


def _with(column: pandas.Series[Any], values: dict[int, Any]) -> pandas.Series[Any]:
    """The column with values in its gaps; of another type only where they do not fit its own."""
    import pandas

    column = column.copy()
    for row, value in values.items():
        given = value_of(column.iloc[row], lambda _: None)
        if given is not None and not (isinstance(given, str) and given in Options.missing):
            raise WriteError(f"{column.name}[{row}]", f"there is the value {given!r} already.")
        plain = _plain(value, column.dtype)
        if isinstance(column.dtype, pandas.CategoricalDtype) and plain not in column.cat.categories:
            column = column.cat.add_categories([plain])
        if isinstance(plain, str) and getattr(column.dtype, "kind", "") == "M":
            column = column.astype(object)  # pandas would make 1999-05 the first of May
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", FutureWarning)  # pandas 2 only warns of what pandas 3 refuses
                column.iloc[row] = plain
        except (TypeError, ValueError, FutureWarning):
            column = column.astype(object)
            column.iloc[row] = plain
    return column


def _plain(value: Any, dtype: Any) -> Any:
    """A value as a frame holds it."""
    import pandas

    match value:
        case Quantity():
            return value.value
        case Link():
            return value.id
        case Text():
            return value.text
        case Coordinate():
            return (value.latitude, value.longitude)
        case Date():
            whole = value.month and value.day and getattr(dtype, "kind", "") == "M"
            return pandas.Timestamp(write_iso(value)) if whole else write_iso(value)
        case Decimal() if getattr(dtype, "kind", "") == "f":
            return float(value)
    return value


def _new(items: list[Entity | Completion]) -> pandas.DataFrame:
    import pandas

    table = table_of(items, only_new=False)
    rows = [{name: row.get(path) for path, name in table.columns.items() if path != ("@id",)} for row in table.rows]
    made = pandas.DataFrame(rows, index=pandas.Index(table.ids, name="@id"))
    return made.map(lambda value: write_iso(value) if isinstance(value, Date) else value)


def _named(frame: pandas.DataFrame) -> Callable[[int], str] | None:
    """What names a row, where the index is not just a count."""
    import pandas

    index = frame.index
    if isinstance(index, pandas.RangeIndex) and index.start == 0 and index.step == 1:
        return None
    if isinstance(index, pandas.MultiIndex):
        return lambda row: "/".join(map(str, index[row]))
    return lambda row: str(index[row])


def _paths(frame: pandas.DataFrame) -> list[Path]:
    """The columns' paths; a name that is no string is one key."""
    import pandas

    if isinstance(frame.columns, pandas.MultiIndex):
        paths = [tuple(str(key) for key in keys if str(key)) for keys in frame.columns]
        return paths_of([show(path) for path in paths])
    return paths_of([str(name) for name in frame.columns])
