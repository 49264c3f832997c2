"""Arrow's types to values and back, and new values in the gaps of Arrow columns.

    struct, list, map       a part, a list, a part (a list of key and value where keys are no strings)
    time                    text
    date, timestamp         Date; the time of day is left out at midnight without a zone, and is UTC with one
    duration                Quantity in seconds
    null, NaN               a gap that is asked for; an infinite number is text
    float32                 the shortest decimal that is the same float32
    binary and other types  left out, with a warning

No Python datetime is involved, so every year that Arrow can hold comes through.

A new value is cast to the type of its column; every other value stays as it was. A place is a row of a column, or a field
or an element within it. ValueError, with the reason, where the place has a value already or the new value does not fit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from kbdisk.entity import Date, Path, Quantity, walk
from kbdisk.loaders.values.columns import text_of
from kbdisk.schemas.text.numerals import has_int, is_number

if TYPE_CHECKING:
    import pyarrow


Read: TypeAlias = Callable[[Any], Any]

INFINITE = "a number that is not finite, read as text"
DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}  # of a second, in each of Arrow's units
DAY_SECONDS = 86_400


# ---------------------------------------------------------------- Arrow to values


def plain_type(kind: pyarrow.DataType) -> pyarrow.DataType | None:
    """The type to cast to before the values are read, so that every value has a Python form; None for a type that is not read."""
    import pyarrow as pa

    is_ = pa.types
    if is_.is_dictionary(kind):
        return plain_type(kind.value_type)
    if is_.is_date32(kind):
        return pa.int32()
    if is_.is_date64(kind) or is_.is_timestamp(kind) or is_.is_duration(kind):
        return pa.int64()
    if is_.is_time(kind) or is_.is_float16(kind) or is_.is_float32(kind):
        return pa.string()
    if is_.is_struct(kind):
        fields = [(field, plain_type(field.type)) for field in kind]
        return (
            pa.struct([field.with_type(to) for field, to in fields])
            if all(to is not None for _, to in fields)
            else None
        )
    if is_.is_map(kind):
        key, item = plain_type(kind.key_type), plain_type(kind.item_type)
        return pa.map_(key, item) if key is not None and item is not None else None
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        item = plain_type(kind.value_type)
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


def reader_of(kind: pyarrow.DataType, odd: Callable[[str], None]) -> Read:
    """The function from a value cast to its plain type to our value."""
    import pyarrow as pa

    is_ = pa.types
    if is_.is_dictionary(kind):
        return reader_of(kind.value_type, odd)
    if is_.is_date32(kind):
        return lambda days: Date(*_civil_date(days))
    if is_.is_date64(kind):
        return lambda milliseconds: Date(*_civil_date(milliseconds // (1000 * DAY_SECONDS)))
    if is_.is_timestamp(kind):
        return lambda ticks: _date_of_ticks(ticks, DIGITS[kind.unit], "Z" if kind.tz else "")
    if is_.is_time(kind):
        return lambda clock: clock.rstrip("0").removesuffix(".") if "." in clock else clock
    if is_.is_duration(kind):
        return lambda ticks: Quantity(_seconds_of(ticks, DIGITS[kind.unit]), "s")
    if is_.is_floating(kind):
        return lambda number: finite(float(number), odd)
    if is_.is_struct(kind):
        return _struct_reader({field.name: reader_of(field.type, odd) for field in kind})
    if is_.is_map(kind):
        return _map_reader(reader_of(kind.key_type, odd), reader_of(kind.item_type, odd))
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        read = reader_of(kind.value_type, odd)
        return lambda items: [None if item is None else read(item) for item in items]
    return lambda value: value


def finite(number: float, odd: Callable[[str], None]) -> float | str | None:
    if math.isinf(number):
        odd(INFINITE)
        return str(number)
    return None if math.isnan(number) else number


def _struct_reader(fields: dict[str, Read]) -> Read:
    return lambda part: {key: None if part[key] is None else read(part[key]) for key, read in fields.items()}


def _map_reader(key: Read, item: Read) -> Read:
    def read(pairs: Sequence[tuple[Any, Any]]) -> Any:
        items = [(key(name), None if value is None else item(value)) for name, value in pairs]
        if all(isinstance(name, str) for name, _ in items):
            return dict(items)
        return [{"key": name, "value": value} for name, value in items]

    return read


def _date_of_ticks(ticks: int, digits: int, zone: str) -> Date:
    seconds, fraction = divmod(ticks, 10**digits)
    days, clock = divmod(seconds, DAY_SECONDS)
    decimals = f".{fraction:0{digits}}".rstrip("0") if fraction else ""
    time = f"T{clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}{decimals}{zone}"
    return Date(*_civil_date(days), time=time if zone or clock or fraction else "")


def _seconds_of(ticks: int, digits: int) -> int | Decimal:
    seconds, fraction = divmod(ticks, 10**digits)
    return seconds if not fraction else Decimal(ticks).scaleb(-digits)


def _civil_date(days: int) -> tuple[int, int, int]:
    """Year, month and day of a count of days since 1970 (H. Hinnant's; years begin in March, eras of 400 years)."""
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    month = month + 3 if month < 10 else month - 9
    return year + 400 * era + (month <= 2), month, day


def days_of(date: Date) -> int:
    """Days since 1970; ValueError for a date with an unknown part, or one that the calendar does not have."""
    if date.year is None or not date.month or not date.day:
        raise ValueError("expected a date with year, month and day, got a part of one")
    year = date.year - (date.month <= 2)
    era, year = divmod(year, 400)
    of_year = (153 * (date.month - 3 if date.month > 2 else date.month + 9) + 2) // 5 + date.day - 1
    days = era * 146_097 + year * 365 + year // 4 - year // 100 + of_year - 719_468
    if _civil_date(days) != (date.year, date.month, date.day):
        raise ValueError(f"expected a day of the calendar, got month {date.month}, day {date.day}")
    return days


# ---------------------------------------------------------------- values in gaps of columns


_TIME_OF_DAY = re.compile(r"[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(Z?)")
TICKS_PER_SECOND = {0: 1, 3: 1_000, 6: 1_000_000, 9: 1_000_000_000}  # a second, by its digits


def fill_cell(cell: pyarrow.Array, path: Path, value: Any, missing: frozenset[str]) -> pyarrow.Array:
    """An array of one cell with a value put in, at a path within it."""
    import pyarrow as pa

    kind = cell.type
    if not path:
        if (given_value := read_cell(cell, missing)) is not None:
            raise ValueError(f"there is the value {given_value!r} already")
        return make_cell(value, kind)
    key = path[0]
    if isinstance(key, str) and pa.types.is_struct(kind):
        if kind.get_field_index(key) < 0:
            raise ValueError(f"{kind} has no field {key!r}")
        fields = [
            fill_cell(part, path[1:], value, missing) if field.name == key else part
            for field, part in zip(kind, cell.flatten(), strict=True)
        ]
        return pa.StructArray.from_arrays(fields, fields=list(kind))
    if isinstance(key, int) and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        elements = cell.flatten()
        if key >= len(elements):
            raise ValueError(f"the list has {len(elements)} elements")
        new = fill_cell(elements.slice(key, 1), path[1:], value, missing)
        elements = pa.concat_arrays([elements.slice(0, key), new, elements.slice(key + 1)])
        offsets = pa.array([0, len(elements)], pa.int32() if pa.types.is_list(kind) else pa.int64())
        return type(cell).from_arrays(offsets, elements, type=kind)
    raise ValueError(f"values of type {kind} have no part {key!r}")


def make_cell(value: Any, kind: pyarrow.DataType) -> pyarrow.Array:
    """An array of one value of a type; ValueError where it does not fit."""
    import pyarrow as pa

    is_ = pa.types
    if is_.is_dictionary(kind):
        return make_cell(value, kind.value_type).dictionary_encode().cast(kind)
    try:
        if is_.is_struct(kind) or is_.is_list(kind) or is_.is_large_list(kind):
            return pa.concat_arrays([_nested_array(value, kind)])
        if is_.is_temporal(kind):
            return pa.array([_ticks(value, kind)], pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
        return pa.array([_scalar_value(value, kind)], kind)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise ValueError(f"expected a value of type {kind}, got {value!r}") from error


def read_cell(cell: pyarrow.Array, missing: frozenset[str]) -> Any:
    """The value of a cell, or None where it is missing."""
    to = plain_type(cell.type)
    if to is None or not cell.is_valid()[0].as_py():
        return None if to is not None else "(not read)"
    value = reader_of(cell.type, lambda _: None)(cell.cast(to)[0].as_py())
    return None if isinstance(value, str) and value in missing else value


def empty_at(cell: pyarrow.Array, path: Path) -> tuple[Path, str | None]:
    """The first empty place on the way to a path within a cell, and its text that means missing; None instead of it for a null."""
    for length, key in enumerate(path):
        if not cell.is_valid()[0].as_py():
            return path[:length], None
        parts = cell.flatten()
        cell = parts[cell.type.get_field_index(key)] if isinstance(key, str) else parts.slice(key, 1)
    value = cell[0].as_py()
    return path, value if isinstance(value, str) else None


def is_empty_at(cell: pyarrow.Array, path: Path) -> bool:
    """Whether there is no value at or below a path within a cell."""
    for key in path:
        if not cell.is_valid()[0].as_py():
            return True
        parts = cell.flatten()
        cell = parts[cell.type.get_field_index(key)] if isinstance(key, str) else parts.slice(key, 1)
    return all(leaf is None for _, leaf in walk({"": cell.to_pylist()}))


def clear_cell(cell: pyarrow.Array, path: Path, before: str | None) -> pyarrow.Array:
    """An array of one cell with nothing at a path within it, or the text that means missing."""
    import pyarrow as pa

    kind = cell.type
    if not path:
        return pa.nulls(1, kind) if before is None else make_cell(before, kind)
    if not cell.is_valid()[0].as_py():
        return cell
    key = path[0]
    if isinstance(key, str) and pa.types.is_struct(kind):
        fields = [
            clear_cell(part, path[1:], before) if field.name == key else part
            for field, part in zip(kind, cell.flatten(), strict=True)
        ]
        return pa.StructArray.from_arrays(fields, fields=list(kind))
    elements = cell.flatten()
    if not isinstance(key, int) or key >= len(elements):
        raise ValueError(f"values of type {kind} have no part {key!r}")
    new = clear_cell(elements.slice(key, 1), path[1:], before)
    elements = pa.concat_arrays([elements.slice(0, key), new, elements.slice(key + 1)])
    offsets = pa.array([0, len(elements)], pa.int32() if pa.types.is_list(kind) else pa.int64())
    return type(cell).from_arrays(offsets, elements, type=kind)


def _nested_array(value: Any, kind: pyarrow.DataType) -> pyarrow.Array:
    import pyarrow as pa

    if pa.types.is_struct(kind) and isinstance(value, dict) and value.keys() <= {field.name for field in kind}:
        parts = [
            make_cell(value[field.name], field.type) if value.get(field.name) is not None else pa.nulls(1, field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind))
    if not pa.types.is_struct(kind) and isinstance(value, list):
        elements = [
            make_cell(item, kind.value_type) if item is not None else pa.nulls(1, kind.value_type) for item in value
        ]
        values = pa.concat_arrays(elements) if elements else pa.nulls(0, kind.value_type)
        offsets = pa.array([0, len(elements)], pa.int32() if pa.types.is_list(kind) else pa.int64())
        return (pa.ListArray if pa.types.is_list(kind) else pa.LargeListArray).from_arrays(offsets, values, type=kind)
    raise TypeError


def _scalar_value(value: Any, kind: pyarrow.DataType) -> Any:
    import pyarrow as pa

    is_ = pa.types
    if isinstance(value, Quantity) and not _is_text(kind):
        value = value.value
    if _is_text(kind):
        return text_of(value)
    number = is_number(value)
    if is_.is_integer(kind) and number and has_int(value):
        return int(value)
    if is_.is_floating(kind) and number:
        text_of(value)  # finite
        return float(value)
    if is_.is_decimal(kind) and number:
        return Decimal(text_of(value)).quantize(Decimal(1).scaleb(-kind.scale))
    if is_.is_boolean(kind) and isinstance(value, bool):
        return value
    raise TypeError


def _is_text(kind: pyarrow.DataType) -> bool:
    return str(kind) in ("string", "large_string", "string_view")


def _ticks(value: Any, kind: pyarrow.DataType) -> int:
    """A date or a length of time as Arrow counts it."""
    import pyarrow as pa

    if pa.types.is_duration(kind):
        if not isinstance(value, Quantity) or value.unit != "s" or value.value is None:
            raise TypeError
        ticks = Decimal(text_of(value.value)).scaleb(DIGITS[kind.unit])
        return int(ticks) if ticks == int(ticks) else _refuse()
    digits = 0 if pa.types.is_date(kind) else DIGITS[kind.unit]
    if pa.types.is_time(kind):
        clock = _TIME_OF_DAY.fullmatch(f"T{value}")
        return _refuse() if clock is None or clock[5] else _ticks_of_day(clock, digits)
    if not isinstance(value, Date):
        raise TypeError
    days = days_of(value)
    if pa.types.is_date32(kind):
        return days if not value.time else _refuse()
    if pa.types.is_date64(kind):
        return days * DAY_SECONDS * 1000 if not value.time else _refuse()
    clock = _TIME_OF_DAY.fullmatch(value.time or "T00:00:00" + "Z" * bool(kind.tz))
    if clock is None or bool(clock[5]) != bool(kind.tz):
        raise TypeError
    return days * DAY_SECONDS * TICKS_PER_SECOND[digits] + _ticks_of_day(clock, digits)


def _ticks_of_day(clock: re.Match[str], digits: int) -> int:
    seconds = int(clock[1]) * 3600 + int(clock[2]) * 60 + int(clock[3] or 0)
    return seconds * TICKS_PER_SECOND[digits] + int((clock[4] or "").ljust(digits, "0")[:digits] or 0)


def _refuse() -> int:
    raise TypeError
