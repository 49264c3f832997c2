"""Sources in memory: a list of dicts or of entities, a pandas frame, an Arrow stream, an rdflib graph, a TriplesFactory.

Values may be Python's, numpy's or pandas'; None, NaN, NaT and NA are gaps that are asked for. The source is never changed.
Nothing heavy is imported to recognise an object: the caller has imported its library.

The index of a frame holds the ids: rows go by its labels, also by those that pandas counts by default, from 0, where no
column is named as that of ids, so that a part of a frame has the ids of the frame. Where two rows have the same label,
rows count from 1 as in every format. Of a column index of several levels, the levels are the keys of the path.
"""

from __future__ import annotations

import datetime
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from kbdisk.entity import Completion, Coordinate, Date, Entity, Known, Link, Path, Quantity, Text, Tree, show
from kbdisk.errors import LoadError, WriteError
from kbdisk.loaders.arrow.cells import finite
from kbdisk.loaders.arrow.read import load_arrow
from kbdisk.loaders.kb import IN_MEMORY, KB, Options
from kbdisk.loaders.naming import UNNAMED, Naming, classes_of, label_of
from kbdisk.loaders.values.columns import Index, Layout, index_of, leaves_of, paths_of, table_of
from kbdisk.loaders.values.tagged_json import MAX_DEPTH
from kbdisk.schemas.text.dates import write_iso

if TYPE_CHECKING:
    import pandas


ACCEPTED = "a file's name, bytes, a list of dicts or entities, a pandas frame, an Arrow stream, an rdflib graph or a TriplesFactory"


def load(source: Any, options: Options) -> KB:
    """A knowledge base over something in memory."""
    if _is_instance(source, "rdflib", "Graph"):
        from kbdisk.loaders.rdf import load_graph

        return load_graph(source, options)
    if _is_instance(source, "pandas", "DataFrame"):
        return FrameKB(source, options)
    if hasattr(source, "__arrow_c_stream__"):
        return load_arrow(source, options)
    if all(hasattr(source, name) for name in ("mapped_triples", "entity_id_to_label", "relation_id_to_label")):
        from kbdisk.loaders.triples import load_factory

        return load_factory(source, options)
    if isinstance(source, Iterator):
        raise LoadError(IN_MEMORY, "expected data that can be read again, got a generator. Pass a list of it.")
    if isinstance(source, Iterable) and not isinstance(source, Mapping):
        return ListKB(source, options)
    raise LoadError(IN_MEMORY, f"expected {ACCEPTED}, got a {type(source).__name__}.")


class ListKB(KB):
    """Entities from dicts, or that are entities already."""

    def __init__(self, items: Iterable[Any], options: Options) -> None:
        super().__init__(IN_MEMORY, "memory", options)
        self.items = items

    def read(self) -> Iterator[Entity]:
        """One entity for each item."""
        naming = Naming(self.options.id)
        position = 0
        for position, item in enumerate(self.items, 1):
            try:
                entity = self._entity(item, position, naming)
            except ValueError as error:
                self.skip(LoadError(f"{self.name}, item {position}", str(error)))
                continue
            if not self.options.classes or not set(self.options.classes).isdisjoint(entity.classes):
                yield entity
        if position == 0:
            raise LoadError(self.name, "expected some entities, got none.")

    def _entity(self, item: Any, position: int, naming: Naming) -> Entity:
        if isinstance(item, Entity):
            return replace(item, position=position, source=self)
        if not isinstance(item, Mapping):
            raise ValueError(f"expected a dict or an entity, got a {type(item).__name__}.")
        tree: Tree = tree_of(item, lambda oddity: self.odd.note(oddity, f"{self.name}, item {position}"))
        naming.settle(tree)
        id = naming.id_of(tree)
        if id is None and naming.key is not None:
            self.odd.note(UNNAMED, f"{self.name}, item {position}")
        own_id, classes, label = id or str(position), classes_of(tree), label_of(tree)
        return Entity(own_id, tree, classes, label, position=position, source=self, nameless=not id)


def _is_instance(source: Any, module: str, kind: str) -> bool:
    """Whether an object is of a class in a module that is imported by now."""
    return module in sys.modules and isinstance(source, getattr(sys.modules[module], kind))


# ---------------------------------------------------------------- pandas frames


FRAME_NAME = "<frame>"
ROWS_PER_BATCH = 4096  # turned into entities together


class FrameKB(KB):
    """Entities from the rows of a frame."""

    def __init__(self, frame: pandas.DataFrame, options: Options) -> None:
        super().__init__(FRAME_NAME, "memory", options)
        if not len(frame) or not len(frame.columns):
            raise LoadError(self.name, "expected some rows and columns, got an empty frame.")
        self.frame = frame
        is_named_index = options.id == (frame.index.name,)
        self.index = _name_of_row(frame) if is_named_index or (options.id is None and frame.index.is_unique) else None
        self.repeated = not frame.index.is_unique  # so it names no rows
        try:
            self.paths = _column_paths(frame)
            id = None if self.index is not None else options.id
            self.layout = Layout.from_columns(self.paths, id, lambda i: not frame.iloc[:, i].isna().any(), self._index)
        except ValueError as error:
            raise LoadError(self.name, str(error)) from None
        self.layout.check_classes(options.classes, self.name)

    def _index(self, column: int) -> Index:
        return index_of(self._values(self.frame.iloc[:, column], self.paths[column]))

    def read(self) -> Iterator[Entity]:
        """One entity for each row."""
        if self.layout.doubt:
            self.odd.note(self.layout.doubt, self.name)
        wanted_classes = set(self.options.classes)
        for start in range(0, len(self.frame), ROWS_PER_BATCH):
            part = self.frame.iloc[start : start + ROWS_PER_BATCH]
            columns = [self._values(part.iloc[:, i], path) for i, path in enumerate(self.paths)]
            for position, values in enumerate(zip(*columns, strict=True), start + 1):
                classes = self.layout.classes_of(values)
                id = self._id(position, values)
                if id is None:
                    self.skip(LoadError(f"{self.name}, row {position}", "expected an id, got none. Fill it in."))
                elif not wanted_classes or not wanted_classes.isdisjoint(classes):
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
                value = value_of(raw, lambda oddity: self.odd.note(oddity, place))
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
    source = next((item.entity.source for item in items if isinstance(item, Completion)), None)
    if like is None and isinstance(source, FrameKB):
        like = source.frame
    if like is None:
        return _frame_of(items)
    filled = like.copy()
    paths = {path: i for i, path in enumerate(_column_paths(like))}
    new: dict[int, dict[int, Any]] = defaultdict(dict)  # column, row: value
    for item in items:
        if not isinstance(item, Completion):
            continue
        for path, filled_value in item.filled.items():
            for column, value in [(path, filled_value.value)] if path in paths else leaves_of(path, filled_value.value):
                if column not in paths:
                    raise WriteError(show(path), "the frame has no such column. Add it before.")
                new[paths[column]][item.entity.position - 1] = value
    for i, values in new.items():
        filled.isetitem(i, _fill_column(filled.iloc[:, i], values))
    return filled


def _fill_column(column: pandas.Series[Any], values: dict[int, Any]) -> pandas.Series[Any]:
    """The column with values in its gaps; its type changes only where they do not fit."""
    import pandas

    column = column.copy()
    for row, value in values.items():
        given_value = value_of(column.iloc[row], lambda _: None)
        if given_value is not None and not (isinstance(given_value, str) and given_value in Options.missing):
            raise WriteError(f"{column.name}[{row}]", f"there is the value {given_value!r} already.")
        plain = _frame_value(value, column.dtype)
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


def _frame_value(value: Any, dtype: Any) -> Any:
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
            is_whole_day = value.month and value.day and getattr(dtype, "kind", "") == "M"
            return pandas.Timestamp(write_iso(value)) if is_whole_day else write_iso(value)
        case Decimal() if getattr(dtype, "kind", "") == "f":
            return float(value)
    return value


def _frame_of(items: list[Entity | Completion]) -> pandas.DataFrame:
    import pandas

    table = table_of(items, only_new=False)
    rows = [{name: row.get(path) for path, name in table.columns.items() if path != ("@id",)} for row in table.rows]
    made = pandas.DataFrame(rows, index=pandas.Index(table.ids, name="@id"))
    return made.map(lambda value: write_iso(value) if isinstance(value, Date) else value)


def _name_of_row(frame: pandas.DataFrame) -> Callable[[int], str] | None:
    """The function from a row to its id, where the index is more than a count."""
    import pandas

    index = frame.index
    if isinstance(index, pandas.RangeIndex) and index.start == 0 and index.step == 1:
        return None
    if isinstance(index, pandas.MultiIndex):
        return lambda row: "/".join(map(str, index[row]))
    return lambda row: str(index[row])


def _column_paths(frame: pandas.DataFrame) -> list[Path]:
    """The paths of the columns; a name that is no string is one key."""
    import pandas

    if isinstance(frame.columns, pandas.MultiIndex):
        paths = [tuple(str(key) for key in keys if str(key)) for keys in frame.columns]
        return paths_of([show(path) for path in paths])
    return paths_of([str(name) for name in frame.columns])


# ---------------------------------------------------------------- Python's, numpy's and pandas' values


Odd: TypeAlias = Callable[[str], None]
VALUE_TYPES = (str, bool, int, Text, Date, Quantity, Coordinate, Link, Known)


def tree_of(part: Mapping[Any, Any], odd: Odd) -> Tree:
    """A copy of a dict with its values as ours."""
    tree = value_of(part, odd)
    assert isinstance(tree, dict)
    return tree


def value_of(value: Any, odd: Odd, depth: int = 0) -> Any:
    """A Python, numpy or pandas value as one of ours, None for a missing one; ValueError for other kinds. `odd` is called
    where a value is read as something else.
    """
    kind = type(value)
    if kind in VALUE_TYPES or value is None:
        return value
    if kind is float:
        return finite(value, odd)
    if depth > MAX_DEPTH:
        raise ValueError(f"expected at most {MAX_DEPTH} parts within parts, got more.")
    if isinstance(value, Mapping):
        if odd_key := next((key for key in value if not isinstance(key, str)), None):
            raise ValueError(f"expected strings as keys, got {odd_key!r}.")
        return {str(key): value_of(item, odd, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [value_of(item, odd, depth + 1) for item in value]
    if isinstance(value, set | frozenset):
        return [value_of(item, odd, depth + 1) for item in sorted(value, key=str)]
    return _foreign_value(value, odd, depth)


def _foreign_value(value: Any, odd: Odd, depth: int) -> Any:
    pandas, numpy = sys.modules.get("pandas"), sys.modules.get("numpy")
    if pandas is not None and (value is pandas.NA or value is pandas.NaT):
        return None
    if numpy is not None and isinstance(value, numpy.ndarray):
        return [value_of(item, odd, depth + 1) for item in value]
    if numpy is not None and isinstance(value, numpy.generic):
        return _numpy_value(value, odd, depth)
    if isinstance(value, VALUE_TYPES):  # a subclass, such as an enumeration of strings
        return (
            next(base(value) for base in (bool, int, str) if isinstance(value, base))
            if isinstance(value, str | int)
            else value
        )
    if isinstance(value, Decimal):
        return value if value.is_finite() else None if value.is_nan() else finite(float(value), odd)
    if isinstance(value, float):
        return finite(float(value), odd)
    if isinstance(value, datetime.date):
        return _date_of(value)
    if isinstance(value, datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return Quantity(_seconds(value), "s")
    raise ValueError(f"expected plain values, got a {type(value).__name__}: {str(value)[:60]!r}. Convert it first.")


def _numpy_value(value: Any, odd: Odd, depth: int) -> Any:
    import numpy

    if isinstance(value, numpy.datetime64):
        if numpy.isnat(value):
            return None
        day = value.astype("datetime64[D]")
        text = str(value)
        year, month, date = map(int, str(day).rsplit("-", 2))
        precision = len(text.lstrip("-").split("T")[0].split("-"))
        time = _clock("T" + text.partition("T")[2])
        return Date(year, month if precision > 1 else None, date if precision > 2 else None, time=time)
    if isinstance(value, numpy.timedelta64):
        return None if numpy.isnat(value) else _foreign_value(value.astype("timedelta64[us]").item(), odd, depth)
    if isinstance(value, numpy.floating):
        return finite(float(str(value)), odd)  # the shortest decimal of a float32 is meant, not its 17 digits
    return value_of(value.item(), odd, depth)


def _date_of(value: datetime.date) -> Date:
    if not isinstance(value, datetime.datetime):
        return Date(value.year, value.month, value.day)
    zone = ""
    if value.tzinfo is not None:
        value, zone = value.astimezone(datetime.UTC).replace(tzinfo=None), "Z"
    return Date(value.year, value.month, value.day, time=_clock("T" + value.isoformat().partition("T")[2] + zone))


def _clock(time: str) -> str:
    """A time of day without the zeros at its end; none at all at midnight without a zone."""
    clock, zone = time.removesuffix("Z"), "Z" * time.endswith("Z")
    clock = clock.rstrip("0").removesuffix(".") if "." in clock else clock
    return "" if not zone and not clock.strip("T0:") else clock + zone


def _seconds(length: datetime.timedelta) -> int | float:
    seconds = length.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds
