"""How a source in JSON writes its values, so that a new value is written as its neighbours are.

JSON has no dates, quantities or links: one source writes "1912-11-28", another 1912, or {"value": 3, "unit": "g"}. The
first values at a path, without indices in lists, decide; where there is none yet, a value is written tagged
(values/tagged_json.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import orjson

from kbdisk.entity import Coordinate, Date, Link, Path, Quantity, Text, Tree
from kbdisk.loaders.values import tagged_json
from kbdisk.schemas.text.numerals import has_int, is_finite, show_digits
from kbdisk.styles.numbers import measured_as

MAX_SAMPLES_PER_PATH = 20  # values kept of each path

_FIRST_COLON = re.compile(rb'\s*\{\s*"(?:[^"\\]|\\.)*+"([ \t]*:[ \t]*)', re.DOTALL)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_LAYOUTS = {  # how a full day is written, by what it looks like
    re.compile(r"\d{8}"): "{year:04d}{month:02d}{day:02d}",
    re.compile(r"\d{4}/\d\d/\d\d"): "{year:04d}/{month:02d}/{day:02d}",
    re.compile(r"\d\d\.\d\d\.\d{4}"): "{day:02d}.{month:02d}.{year:04d}",
}
_VALUE_KEYS = ("value", "amount", "quantity", "number", "magnitude")
_UNIT_KEYS = ("unit", "units", "unitText", "unitCode", "currency")
_COORDINATE_KEYS = (("latitude", "longitude"), ("lat", "lon"), ("lat", "lng"), ("lat", "long"))
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[A-Za-z0-9]+)*")
_NUMBERS = (int, float, Decimal)


class JsonStyle:
    """The style of a source: samples of its values by path, and how its text escapes and spaces."""

    def __init__(self) -> None:
        self.samples: dict[tuple[str, ...], list[Any]] = {}
        self.has_raw_unicode = False  # some characters beyond ASCII are written as themselves
        self.has_escapes = False  # some are escaped as \u00e9
        self.colon = b""  # between the first key and its value

    def add(self, tree: Tree, text: bytes) -> None:
        """Take in an entity."""
        self.has_raw_unicode = self.has_raw_unicode or not text.isascii()
        self.has_escapes = self.has_escapes or b"\\u" in text
        if not self.colon and (first := _FIRST_COLON.match(text)):
            self.colon = first[1]
        stack: list[tuple[tuple[str, ...], Any]] = [((), tree)]
        while stack:
            names, value = stack.pop()
            if type(value) is dict:
                stack.extend(((*names, key), item) for key, item in value.items())
            elif type(value) is list:
                stack.extend((names, item) for item in value)
                names = (*names, "[]")
            samples = self.samples.setdefault(names, [])
            if value is not None and len(samples) < MAX_SAMPLES_PER_PATH:
                samples.append(value)

    @property
    def ascii(self) -> bool:
        """Whether characters beyond ASCII are escaped."""
        return self.has_escapes and not self.has_raw_unicode

    def spell(self, path: Path, value: Any) -> Any:
        """The value in the style of its path, as orjson can write it."""
        if type(value) is dict:
            return {key: self.spell((*path, key), item) for key, item in value.items()}
        if type(value) is list:
            return [self.spell((*path, i), item) for i, item in enumerate(value)]
        names = tuple(key for key in path if isinstance(key, str))
        shaper = _SHAPERS.get(type(value))
        shaped = (
            shaper(value, _of_most_frequent_kind(self.samples.get(names, [])), self.samples.get((*names, "[]"), []))
            if shaper
            else None
        )
        return tagged_json.encode(value if shaped is None else shaped)


def _of_most_frequent_kind(seen: list[Any]) -> list[Any]:
    """The values of the most frequent kind."""
    kinds = Counter(map(_kind_of, seen))
    return [value for value in seen if _kind_of(value) == kinds.most_common(1)[0][0]]


def _kind_of(value: Any) -> type:
    return float if type(value) in _NUMBERS else type(value)


def _all(pattern: re.Pattern[str], seen: list[Any]) -> bool:
    return bool(seen) and all(type(value) is str and pattern.fullmatch(value) for value in seen)


def _shape_number(number: int | float | Decimal, seen: list[Any], _: list[Any]) -> Any:
    if not is_finite(number):
        return None
    if _all(_NUMBER, seen):
        return _digits(number)
    is_whole = bool(seen) and all(type(value) is int for value in seen) and has_int(number)
    return int(number) if is_whole else _json_number(number)


def _json_number(number: int | float | Decimal | None) -> Any:
    """A number as JSON writes one."""
    return orjson.Fragment(str(number)) if type(number) is Decimal and number.is_finite() else number


def _digits(number: int | float | Decimal) -> str:
    return show_digits(number) if type(number) is int else str(number)


def _shape_date(date: Date, seen: list[Any], _: list[Any]) -> Any:
    first = seen[0] if seen else None
    if type(first) is str:
        return _spell_day(date, seen) + date.time
    if type(first) is int and date.year is not None:
        return date.year
    if type(first) is dict and "year" in first:
        parts = {key: getattr(date, key) for key in ("year", "month", "day")}
        return {key: part for key, part in parts.items() if part is not None}
    return None


def _spell_day(date: Date, seen: list[Any]) -> str:
    if date.year is not None and date.month is not None and date.day is not None:
        for pattern, layout in _LAYOUTS.items():
            if _all(pattern, seen):
                return layout.format(year=date.year, month=date.month, day=date.day)
    return tagged_json.show_day(date)


def _shape_quantity(quantity: Quantity, seen: list[Any], _: list[Any]) -> Any:
    first = seen[0] if seen else None
    if type(first) in _NUMBERS:
        return _json_number(quantity.value)
    if type(first) is str and quantity.value is not None and is_finite(quantity.value):
        spelt = measured_as([sample for sample in seen if type(sample) is str], quantity.unit)
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
                for key, part in ((value, _json_number(quantity.value)), (unit_key, quantity.unit))
                if part is not None
            }
    return None


def _shape_coordinate(place: Coordinate, seen: list[Any], lists: list[Any]) -> Any:
    first = seen[0] if seen else None
    latitude, longitude = _json_number(place.latitude), _json_number(place.longitude)
    if type(first) is dict:
        names = next((names for names in _COORDINATE_KEYS if all(name in first for name in names)), None)
        return dict(zip(names, (latitude, longitude), strict=True)) if names else None
    if lists and all(len(pair) == 2 and all(type(part) in _NUMBERS for part in pair) for pair in lists):
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
    if type(first) is dict and all(
        _LANGUAGE.fullmatch(key) and type(text_part) is str for key, text_part in first.items()
    ):
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
