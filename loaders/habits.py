"""How a knowledge base in JSON writes its values, so that a new value takes the shape of its neighbours.

JSON has no dates, quantities or links: one source writes "1912-11-28", another 1912, or {"value": 3, "unit": "g"}.
The first values at a path (places in lists left out) tell; where nothing stands yet, a value is written tagged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import orjson

from kbdisk.entity import Coordinate, Date, Link, Path, Quantity, Text, Tree
from kbdisk.loaders import tagged
from kbdisk.schemas.text.numerals import has_int, is_finite, measured_as, show_digits

SAMPLES = 20  # values kept of each path

_FIRST_COLON = re.compile(rb'\s*\{\s*"(?:[^"\\]|\\.)*+"([ \t]*:[ \t]*)', re.DOTALL)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_LAYOUTS = {  # how a full day is written, by what it looks like
    re.compile(r"\d{8}"): "{year:04d}{month:02d}{day:02d}",
    re.compile(r"\d{4}/\d\d/\d\d"): "{year:04d}/{month:02d}/{day:02d}",
    re.compile(r"\d\d\.\d\d\.\d{4}"): "{day:02d}.{month:02d}.{year:04d}",
}
_VALUE_KEYS = ("value", "amount", "quantity", "number", "magnitude")
_UNIT_KEYS = ("unit", "units", "unitText", "unitCode", "currency")
_PLACES = (("latitude", "longitude"), ("lat", "lon"), ("lat", "lng"), ("lat", "long"))
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[A-Za-z0-9]+)*")
_NUMBERS = (int, float, Decimal)


class Habits:
    """What the values of a source look like, path by path."""

    def __init__(self) -> None:
        self.samples: dict[tuple[str, ...], list[Any]] = {}
        self.wide = False  # a character beyond ASCII stands as itself
        self.escaped = False  # one stands as \u00e9
        self.colon = b""  # between the first key and its value

    def see(self, tree: Tree, text: bytes) -> None:
        """Look at an entity."""
        self.wide = self.wide or not text.isascii()
        self.escaped = self.escaped or b"\\u" in text
        if not self.colon and (first := _FIRST_COLON.match(text)):
            self.colon = first[1]
        stack: list[tuple[tuple[str, ...], Any]] = [((), tree)]
        while stack:
            names, value = stack.pop()
            if type(value) is dict:
                stack.extend(((*names, key), one) for key, one in value.items())
            elif type(value) is list:
                stack.extend((names, one) for one in value)
                names = (*names, "[]")
            seen = self.samples.setdefault(names, [])
            if value is not None and len(seen) < SAMPLES:
                seen.append(value)

    @property
    def ascii(self) -> bool:
        """Whether characters beyond ASCII are escaped here."""
        return self.escaped and not self.wide

    def plain(self, path: Path, value: Any) -> Any:
        """The value as it would stand at the path, ready for orjson."""
        if type(value) is dict:
            return {key: self.plain((*path, key), one) for key, one in value.items()}
        if type(value) is list:
            return [self.plain((*path, i), one) for i, one in enumerate(value)]
        names = tuple(key for key in path if isinstance(key, str))
        shaper = _SHAPERS.get(type(value))
        shaped = (
            shaper(value, _usual(self.samples.get(names, [])), self.samples.get((*names, "[]"), [])) if shaper else None
        )
        return tagged.encode(value if shaped is None else shaped)


def _usual(seen: list[Any]) -> list[Any]:
    """Those values that are of the most frequent kind."""
    kinds = Counter(map(_kind, seen))
    return [value for value in seen if _kind(value) == kinds.most_common(1)[0][0]]


def _kind(value: Any) -> type:
    return float if type(value) in _NUMBERS else type(value)


def _all(pattern: re.Pattern[str], seen: list[Any]) -> bool:
    return bool(seen) and all(type(value) is str and pattern.fullmatch(value) for value in seen)


def _shape_number(number: int | float | Decimal, seen: list[Any], _: list[Any]) -> Any:
    if not is_finite(number):
        return None
    if _all(_NUMBER, seen):
        return _digits(number)
    whole = bool(seen) and all(type(value) is int for value in seen) and has_int(number)
    return int(number) if whole else _bare(number)


def _bare(number: int | float | Decimal | None) -> Any:
    """A number as JSON writes one."""
    return orjson.Fragment(str(number)) if type(number) is Decimal and number.is_finite() else number


def _digits(number: int | float | Decimal) -> str:
    return show_digits(number) if type(number) is int else str(number)


def _shape_date(date: Date, seen: list[Any], _: list[Any]) -> Any:
    first = seen[0] if seen else None
    if type(first) is str:
        return _day(date, seen) + date.time
    if type(first) is int and date.year is not None:
        return date.year
    if type(first) is dict and "year" in first:
        parts = {key: getattr(date, key) for key in ("year", "month", "day")}
        return {key: part for key, part in parts.items() if part is not None}
    return None


def _day(date: Date, seen: list[Any]) -> str:
    if date.year is not None and date.month is not None and date.day is not None:
        for pattern, layout in _LAYOUTS.items():
            if _all(pattern, seen):
                return layout.format(year=date.year, month=date.month, day=date.day)
    return tagged.show_day(date)


def _shape_quantity(quantity: Quantity, seen: list[Any], _: list[Any]) -> Any:
    first = seen[0] if seen else None
    if type(first) in _NUMBERS:
        return _bare(quantity.value)
    if type(first) is str and quantity.value is not None and is_finite(quantity.value):
        spelt = measured_as([one for one in seen if type(one) is str], quantity.unit)
        if spelt is not None:
            return spelt.like(_digits(quantity.value), quantity.unit or "")
        return _digits(quantity.value) if _all(_NUMBER, seen) else None
    if type(first) is dict:
        keys = {key for part in seen for key in part}
        value = next((key for key in _VALUE_KEYS if key in keys), None)
        unit_key = next((key for key in _UNIT_KEYS if key in keys), None)
        if value and unit_key:
            return {
                key: part
                for key, part in ((value, _bare(quantity.value)), (unit_key, quantity.unit))
                if part is not None
            }
    return None


def _shape_coordinate(place: Coordinate, seen: list[Any], lists: list[Any]) -> Any:
    first = seen[0] if seen else None
    latitude, longitude = _bare(place.latitude), _bare(place.longitude)
    if type(first) is dict:
        names = next((names for names in _PLACES if all(name in first for name in names)), None)
        return dict(zip(names, (latitude, longitude), strict=True)) if names else None
    if lists and all(len(one) == 2 and all(type(part) in _NUMBERS for part in one) for one in lists):
        return [latitude, longitude]
    if type(first) is str:
        return f"{place.latitude},{' ' if ', ' in first else ''}{place.longitude}"
    return None


def _shape_link(link: Link, seen: list[Any], _: list[Any]) -> Any:
    first = seen[0] if seen else None
    if type(first) is str:
        return link.id
    if type(first) is int and link.id.isdecimal():
        return int(link.id)
    key = next((key for key in ("@id", "id") if type(first) is dict and key in first), None)
    return {key: link.id} if key else None


def _shape_text(text: Text, seen: list[Any], _: list[Any]) -> Any:
    first = seen[0] if seen else None
    if type(first) is str:
        return text.text
    if type(first) is dict and all(_LANGUAGE.fullmatch(key) and type(one) is str for key, one in first.items()):
        return {text.language: text.text}
    return None


_SHAPERS: dict[type, Callable[[Any, list[Any], list[Any]], Any]] = {
    int: _shape_number,
    float: _shape_number,
    Decimal: _shape_number,
    Date: _shape_date,
    Quantity: _shape_quantity,
    Coordinate: _shape_coordinate,
    Link: _shape_link,
    Text: _shape_text,
}
