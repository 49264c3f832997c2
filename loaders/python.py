"""Python's, numpy's and pandas' values as ours. ValueError says which kind of value is not one."""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

from kbdisk.entity import Coordinate, Date, Known, Link, Quantity, Text, Tree
from kbdisk.loaders.arrow import INFINITE

Odd: TypeAlias = Callable[[str], None]

DEEPEST = 200  # parts within parts
OURS = (str, bool, int, Text, Date, Quantity, Coordinate, Link, Known)


def tree_of(part: Mapping[Any, Any], odd: Odd) -> Tree:
    """A copy of a dict with values of ours."""
    tree = value_of(part, odd)
    assert isinstance(tree, dict)
    return tree


def value_of(value: Any, odd: Odd, depth: int = 0) -> Any:
    """A value as one of ours; None where it is none. `odd` hears of what is read as something else."""
    kind = type(value)
    if kind in OURS or value is None:
        return value
    if kind is float:
        return _finite(value, odd)
    if depth > DEEPEST:
        raise ValueError(f"expected at most {DEEPEST} parts within parts, got more.")
    if isinstance(value, Mapping):
        if odd_key := next((key for key in value if not isinstance(key, str)), None):
            raise ValueError(f"expected strings as keys, got {odd_key!r}.")
        return {str(key): value_of(one, odd, depth + 1) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [value_of(one, odd, depth + 1) for one in value]
    if isinstance(value, set | frozenset):
        return [value_of(one, odd, depth + 1) for one in sorted(value, key=str)]
    return _foreign(value, odd, depth)


def _foreign(value: Any, odd: Odd, depth: int) -> Any:
    pandas, numpy = sys.modules.get("pandas"), sys.modules.get("numpy")
    if pandas is not None and (value is pandas.NA or value is pandas.NaT):
        return None
    if numpy is not None and isinstance(value, numpy.ndarray):
        return [value_of(one, odd, depth + 1) for one in value]
    if numpy is not None and isinstance(value, numpy.generic):
        return _numpy(value, odd, depth)
    if isinstance(value, OURS):  # a subclass, such as an enumeration of strings
        return (
            next(base(value) for base in (bool, int, str) if isinstance(value, base))
            if isinstance(value, str | int)
            else value
        )
    if isinstance(value, Decimal):
        return value if value.is_finite() else None if value.is_nan() else _finite(float(value), odd)
    if isinstance(value, float):
        return _finite(float(value), odd)
    if isinstance(value, datetime.date):
        return _date(value)
    if isinstance(value, datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return Quantity(_seconds(value), "s")
    raise ValueError(f"expected plain values, got a {type(value).__name__}: {str(value)[:60]!r}. Convert it first.")


def _numpy(value: Any, odd: Odd, depth: int) -> Any:
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
        return None if numpy.isnat(value) else _foreign(value.astype("timedelta64[us]").item(), odd, depth)
    if isinstance(value, numpy.floating):
        return _finite(float(str(value)), odd)  # the shortest decimal of a float32 is meant, not its 17 digits
    return value_of(value.item(), odd, depth)


def _finite(number: float, odd: Odd) -> float | str | None:
    if math.isinf(number):
        odd(INFINITE)
        return str(number)
    return None if math.isnan(number) else number


def _date(value: datetime.date) -> Date:
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
