"""Arrow's types to our values and back, for Parquet and whatever offers an Arrow stream.

    struct, list, map       a part, a list, a part (a list of key and value where keys are no strings)
    time                    text
    date, timestamp         Date; the time of day is left out at midnight without a zone, and is UTC with one
    duration                Quantity in seconds
    null, NaN               a gap that is asked for; an infinite number is text
    float32                 the shortest decimal that is the same float32
    binary and other types  left out, with a warning

Nothing here looks at a Python datetime, so every year that Arrow can hold comes through.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from kbdisk.entity import Date, Entity, Quantity, show
from kbdisk.errors import LoadError
from kbdisk.loaders.files import Source
from kbdisk.loaders.kb import KB, Options
from kbdisk.loaders.values.columns import INDEX, Index, Layout, index_of, paths_of

if TYPE_CHECKING:
    import pyarrow

Read: TypeAlias = Callable[[Any], Any]

INFINITE = "a number that is not finite, read as text"
DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}  # of a second, in each of Arrow's units
DAY = 86_400


class ArrowKB(KB):
    """Entities from the rows of Arrow record batches."""

    def __init__(self, origin: Source | str, format: str, options: Options, schema: pyarrow.Schema) -> None:
        super().__init__(origin, format, options)
        self.schema = schema
        self.shown = [i for i, field in enumerate(schema) if plain(field.type) is not None]  # columns that are read
        names = _names(schema)
        try:
            paths = paths_of([names[i] for i in self.shown])
            self.layout = Layout.from_columns(paths, options.id, self._is_complete, self._index)
        except ValueError as error:
            raise LoadError(self.name, str(error)) from None
        self.paths = paths
        self.layout.check_classes(options.classes, self.name)

    @abstractmethod
    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        """The rows, some at a time."""

    @abstractmethod
    def column(self, number: int) -> Iterator[pyarrow.ChunkedArray]:
        """The cells of one column."""

    def _is_complete(self, shown: int) -> bool:
        return all(some.null_count == 0 for some in self.column(self.shown[shown]))

    def _index(self, shown: int) -> Index:
        try:
            return index_of(cell for some in self.column(self.shown[shown]) for cell in some.to_pylist())
        except OverflowError:  # times that Python has none for, which name no entities
            return ""

    def read(self) -> Iterator[Entity]:
        """One entity for each row."""
        for i in set(range(len(self.schema))) - set(self.shown):
            field = self.schema.field(i)
            self.odd.note(f"column {field.name!r} is left out: values of type {field.type} are not read", self.name)
        if self.layout.doubt:
            self.odd.note(self.layout.doubt, self.name)
        readers = [self._reader(i, path) for i, path in zip(self.shown, self.paths, strict=True)]
        position = 1
        for batch in self.batches():
            columns = [read(batch.column(i)) for i, read in zip(self.shown, readers, strict=True)]
            for values in zip(*columns, strict=True):
                if entity := self.entity(position, values):
                    yield entity
                position += 1

    def entity(self, position: int, values: Sequence[Any]) -> Entity | None:
        """The entity of a row, if it is wanted and can be named."""
        layout, classes = self.layout, self.layout.classes_of(values)
        if self.options.classes and set(self.options.classes).isdisjoint(classes):
            return None
        id = str(position) if layout.id is None else values[layout.id]
        if id is None:
            self.skip(LoadError(self.name, f"expected an id in row {position}, got none. Fill it in."))
            return None
        tree, label, nameless = layout.tree(values), layout.label_of(values), layout.id is None
        return Entity(str(id), tree, classes, label, position=position, source=self, nameless=nameless)

    def _reader(self, column: int, path: tuple[str | int, ...]) -> Callable[[pyarrow.Array], list[Any]]:
        kind = self.schema.field(column).type
        target = plain(kind)
        read = reader(kind, lambda what: self.odd.note(what, f"{self.name}: {show(path)}"))
        missing, unit = self.options.missing, self.options.units.get(path)

        def cell(value: Any) -> Any:
            value = None if value is None else read(value)
            if unit is not None and type(value) in (int, float, Decimal):
                return Quantity(value, unit)
            return None if isinstance(value, str) and value in missing else value

        return lambda array: [cell(value) for value in (array if kind == target else array.cast(target)).to_pylist()]


def _names(schema: pyarrow.Schema) -> list[str]:
    """The columns' names; that in which pandas stored a nameless index is one."""
    index = [name for name in schema.names if name.startswith("__index_level_")]
    return [show(INDEX) if index == [name] else name for name in schema.names]


# ---------------------------------------------------------------- reading


def plain(kind: pyarrow.DataType) -> pyarrow.DataType | None:
    """The type to cast to, so that its Python values can be read whatever they are; None where it is not read."""
    import pyarrow as pa

    is_ = pa.types
    if is_.is_dictionary(kind):
        return plain(kind.value_type)
    if is_.is_date32(kind):
        return pa.int32()
    if is_.is_date64(kind) or is_.is_timestamp(kind) or is_.is_duration(kind):
        return pa.int64()
    if is_.is_time(kind) or is_.is_float16(kind) or is_.is_float32(kind):
        return pa.string()
    if is_.is_struct(kind):
        fields = [(field, plain(field.type)) for field in kind]
        return (
            pa.struct([field.with_type(to) for field, to in fields])
            if all(to is not None for _, to in fields)
            else None
        )
    if is_.is_map(kind):
        key, item = plain(kind.key_type), plain(kind.item_type)
        return pa.map_(key, item) if key is not None and item is not None else None
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        item = plain(kind.value_type)
        return pa.large_list(item) if item is not None else None
    known = (
        is_.is_integer,
        is_.is_boolean,
        is_.is_float64,
        is_.is_decimal,
        is_.is_string,
        is_.is_large_string,
        is_.is_null,
    )
    return kind if any(fits(kind) for fits in known) or str(kind) == "string_view" else None


def reader(kind: pyarrow.DataType, odd: Callable[[str], None]) -> Read:
    """What makes our value of one that was cast to its plain type."""
    import pyarrow as pa

    is_ = pa.types
    if is_.is_dictionary(kind):
        return reader(kind.value_type, odd)
    if is_.is_date32(kind):
        return lambda days: Date(*_civil(days))
    if is_.is_date64(kind):
        return lambda milliseconds: Date(*_civil(milliseconds // (1000 * DAY)))
    if is_.is_timestamp(kind):
        return lambda ticks: _moment(ticks, DIGITS[kind.unit], "Z" if kind.tz else "")
    if is_.is_time(kind):
        return lambda clock: clock.rstrip("0").removesuffix(".") if "." in clock else clock
    if is_.is_duration(kind):
        return lambda ticks: Quantity(_scaled(ticks, DIGITS[kind.unit]), "s")
    if is_.is_floating(kind):
        return lambda number: _finite(float(number), odd)
    if is_.is_struct(kind):
        return _part({field.name: reader(field.type, odd) for field in kind})
    if is_.is_map(kind):
        return _map(reader(kind.key_type, odd), reader(kind.item_type, odd))
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        read = reader(kind.value_type, odd)
        return lambda items: [None if item is None else read(item) for item in items]
    return lambda value: value


def _finite(number: float, odd: Callable[[str], None]) -> float | str | None:
    if math.isinf(number):
        odd(INFINITE)
        return str(number)
    return None if math.isnan(number) else number


def _part(fields: dict[str, Read]) -> Read:
    return lambda part: {key: None if part[key] is None else read(part[key]) for key, read in fields.items()}


def _map(key: Read, item: Read) -> Read:
    def read(pairs: Sequence[tuple[Any, Any]]) -> Any:
        found = [(key(name), None if value is None else item(value)) for name, value in pairs]
        if all(isinstance(name, str) for name, _ in found):
            return dict(found)
        return [{"key": name, "value": value} for name, value in found]

    return read


def _moment(ticks: int, digits: int, zone: str) -> Date:
    seconds, fraction = divmod(ticks, 10**digits)
    days, clock = divmod(seconds, DAY)
    decimals = f".{fraction:0{digits}}".rstrip("0") if fraction else ""
    time = f"T{clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}{decimals}{zone}"
    return Date(*_civil(days), time=time if zone or clock or fraction else "")


def _scaled(ticks: int, digits: int) -> int | Decimal:
    whole, rest = divmod(ticks, 10**digits)
    return whole if not rest else Decimal(ticks).scaleb(-digits)


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a count of days since 1970 (H. Hinnant's; years begin in March, eras of 400 years)."""
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    month = month + 3 if month < 10 else month - 9
    return year + 400 * era + (month <= 2), month, day


def days_of(date: Date) -> int:
    """Days since 1970; ValueError where the date is not a whole one, or none that the calendar has."""
    if date.year is None or not date.month or not date.day:
        raise ValueError("expected a date with year, month and day, got a part of one")
    year = date.year - (date.month <= 2)
    era, year = divmod(year, 400)
    of_year = (153 * (date.month - 3 if date.month > 2 else date.month + 9) + 2) // 5 + date.day - 1
    days = era * 146_097 + year * 365 + year // 4 - year // 100 + of_year - 719_468
    if _civil(days) != (date.year, date.month, date.day):
        raise ValueError(f"expected a day of the calendar, got month {date.month}, day {date.day}")
    return days
