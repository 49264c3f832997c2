"""New values in the gaps of Arrow columns: cast to the column's type, every other value as it was.

A place is a row of a column, or a field or an element within it. ValueError, with the reason, where it
has a value already or the new one does not fit its type.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from kbdisk.entity import Date, Path, Quantity, walk
from kbdisk.loaders.arrow import DAY, DIGITS, days_of, plain, reader
from kbdisk.loaders.flat import text_of
from kbdisk.schemas.text.numerals import has_int, is_number

if TYPE_CHECKING:
    import pyarrow

CLOCK = re.compile(r"[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(Z?)")
TICKS = {0: 1, 3: 1_000, 6: 1_000_000, 9: 1_000_000_000}  # a second, by its digits


def filled(cell: pyarrow.Array, path: Path, value: Any, missing: frozenset[str]) -> pyarrow.Array:
    """An array of one cell with a value put in, at a path within it."""
    import pyarrow as pa

    kind = cell.type
    if not path:
        if (told := given(cell, missing)) is not None:
            raise ValueError(f"there is the value {told!r} already")
        return fitted(value, kind)
    key = path[0]
    if isinstance(key, str) and pa.types.is_struct(kind):
        if kind.get_field_index(key) < 0:
            raise ValueError(f"{kind} has no field {key!r}")
        fields = [
            filled(part, path[1:], value, missing) if field.name == key else part
            for field, part in zip(kind, cell.flatten(), strict=True)
        ]
        return pa.StructArray.from_arrays(fields, fields=list(kind))
    if isinstance(key, int) and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        elements = cell.flatten()
        if key >= len(elements):
            raise ValueError(f"the list has {len(elements)} elements")
        new = filled(elements.slice(key, 1), path[1:], value, missing)
        elements = pa.concat_arrays([elements.slice(0, key), new, elements.slice(key + 1)])
        offsets = pa.array([0, len(elements)], pa.int32() if pa.types.is_list(kind) else pa.int64())
        return type(cell).from_arrays(offsets, elements, type=kind)
    raise ValueError(f"values of type {kind} have no part {key!r}")


def fitted(value: Any, kind: pyarrow.DataType) -> pyarrow.Array:
    """An array of one value of a type; ValueError where it does not fit."""
    import pyarrow as pa

    is_ = pa.types
    if is_.is_dictionary(kind):
        return fitted(value, kind.value_type).dictionary_encode().cast(kind)
    try:
        if is_.is_struct(kind) or is_.is_list(kind) or is_.is_large_list(kind):
            return pa.concat_arrays([_nested(value, kind)])
        if is_.is_temporal(kind):
            return pa.array([_ticks(value, kind)], pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
        return pa.array([_scalar(value, kind)], kind)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise ValueError(f"expected a value of type {kind}, got {value!r}") from error


def given(cell: pyarrow.Array, missing: frozenset[str]) -> Any:
    """What stands in a cell, or None where that is nothing."""
    to = plain(cell.type)
    if to is None or not cell.is_valid()[0].as_py():
        return None if to is not None else "(not read)"
    value = reader(cell.type, lambda _: None)(cell.cast(to)[0].as_py())
    return None if isinstance(value, str) and value in missing else value


def empty_at(cell: pyarrow.Array, path: Path) -> tuple[Path, str | None]:
    """Where on the way to a path within a cell there is nothing, and the text that says so there; None for a null."""
    for length, key in enumerate(path):
        if not cell.is_valid()[0].as_py():
            return path[:length], None
        parts = cell.flatten()
        cell = parts[cell.type.get_field_index(key)] if isinstance(key, str) else parts.slice(key, 1)
    value = cell[0].as_py()
    return path, value if isinstance(value, str) else None


def is_empty_at(cell: pyarrow.Array, path: Path) -> bool:
    """Whether there is nothing at a path within a cell, or in any part of what is there."""
    for key in path:
        if not cell.is_valid()[0].as_py():
            return True
        parts = cell.flatten()
        cell = parts[cell.type.get_field_index(key)] if isinstance(key, str) else parts.slice(key, 1)
    return all(leaf is None for _, leaf in walk({"": cell.to_pylist()}))


def emptied(cell: pyarrow.Array, path: Path, before: str | None) -> pyarrow.Array:
    """An array of one cell with nothing at a path within it, or the text that says so there."""
    import pyarrow as pa

    kind = cell.type
    if not path:
        return pa.nulls(1, kind) if before is None else fitted(before, kind)
    if not cell.is_valid()[0].as_py():
        return cell
    key = path[0]
    if isinstance(key, str) and pa.types.is_struct(kind):
        fields = [
            emptied(part, path[1:], before) if field.name == key else part
            for field, part in zip(kind, cell.flatten(), strict=True)
        ]
        return pa.StructArray.from_arrays(fields, fields=list(kind))
    elements = cell.flatten()
    if not isinstance(key, int) or key >= len(elements):
        raise ValueError(f"values of type {kind} have no part {key!r}")
    new = emptied(elements.slice(key, 1), path[1:], before)
    elements = pa.concat_arrays([elements.slice(0, key), new, elements.slice(key + 1)])
    offsets = pa.array([0, len(elements)], pa.int32() if pa.types.is_list(kind) else pa.int64())
    return type(cell).from_arrays(offsets, elements, type=kind)


def _nested(value: Any, kind: pyarrow.DataType) -> pyarrow.Array:
    import pyarrow as pa

    if pa.types.is_struct(kind) and isinstance(value, dict) and value.keys() <= {field.name for field in kind}:
        parts = [
            fitted(value[field.name], field.type) if value.get(field.name) is not None else pa.nulls(1, field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind))
    if not pa.types.is_struct(kind) and isinstance(value, list):
        elements = [
            fitted(item, kind.value_type) if item is not None else pa.nulls(1, kind.value_type) for item in value
        ]
        values = pa.concat_arrays(elements) if elements else pa.nulls(0, kind.value_type)
        offsets = pa.array([0, len(elements)], pa.int32() if pa.types.is_list(kind) else pa.int64())
        return (pa.ListArray if pa.types.is_list(kind) else pa.LargeListArray).from_arrays(offsets, values, type=kind)
    raise TypeError


def _scalar(value: Any, kind: pyarrow.DataType) -> Any:
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
        clock = CLOCK.fullmatch(f"T{value}")
        return _refuse() if clock is None or clock[5] else _of_day(clock, digits)
    if not isinstance(value, Date):
        raise TypeError
    days = days_of(value)
    if pa.types.is_date32(kind):
        return days if not value.time else _refuse()
    if pa.types.is_date64(kind):
        return days * DAY * 1000 if not value.time else _refuse()
    clock = CLOCK.fullmatch(value.time or "T00:00:00" + "Z" * bool(kind.tz))
    if clock is None or bool(clock[5]) != bool(kind.tz):
        raise TypeError
    return days * DAY * TICKS[digits] + _of_day(clock, digits)


def _of_day(clock: re.Match[str], digits: int) -> int:
    seconds = int(clock[1]) * 3600 + int(clock[2]) * 60 + int(clock[3] or 0)
    return seconds * TICKS[digits] + int((clock[4] or "").ljust(digits, "0")[:digits] or 0)


def _refuse() -> int:
    raise TypeError
