"""Values as tagged JSON, both ways.

    Link("http://ex.org/ada")        {"@id": "http://ex.org/ada"}
    Text("Albanien", "de")           {"@value": "Albanien", "@language": "de"}
    Date(1912, 11, 28)               {"@date": "1912-11-28"}, XX for an unknown part before a known one;
                                     beside it "@precision", "@time", "@calendar", "@note" where there are any
    Quantity(133, "g")               {"@quantity": 133, "@unit": "g"}
    Coordinate(41.3, 19.8)           {"@latitude": 41.3, "@longitude": 19.8}, with "@globe" off the Earth
    SOMEVALUE, NOVALUE               {"@known": "somevalue"}
    Decimal("1.50")                  {"@decimal": "1.50"}; a bare number where that is read as the same Decimal

An object with exactly these keys, and fitting values, is such a value; any other object stays a nested part.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, get_args

import orjson

from kbdisk.entity import Coordinate, Date, Known, Link, Precision, Quantity, Text, Tree
from kbdisk.schemas.text import dates
from kbdisk.schemas.text.numerals import show_digits

MAX_DEPTH = 200  # levels of brackets, read or written

_INT_DIGITS = 4300  # digits that Python turns into an int by itself
_MAX_INT_DIGITS = 100_000  # digits that it turns into one within a second
_DATE = re.compile(r"(-?\d{4,}|XXXX)(?:-(\d\d|XX)(?:-(\d\d))?)?")
_DATE_KEYS = {"@date", "@precision", "@time", "@calendar", "@note"}
_PRECISIONS = {"", *get_args(Precision)}


# ---------------------------------------------------------------- numbers


def read_int(text: str) -> int:
    """A whole number, exactly."""
    if len(text) > _MAX_INT_DIGITS:
        raise ValueError(f"expected a number of at most {_MAX_INT_DIGITS} digits, got {len(text)}")
    return int(text) if len(text) <= _INT_DIGITS else int(Decimal(text))


def read_float(text: str) -> float | Decimal:
    """A number with a point or an exponent: a Decimal where a float would not hold all of it."""
    number = float(text)
    if repr(number) == text or (len(text) <= 15 and "e" not in text and "E" not in text):
        return number
    try:
        exact = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"expected a number with an exponent of at most 18 digits, got {text[:40]}") from None
    return number if math.isfinite(number) and Decimal(repr(number)) == exact else exact


# ---------------------------------------------------------------- reading


def decode(tree: Tree) -> Tree:
    """The tree with its tagged values decoded, changed in place."""
    for key, value in tree.items():
        if type(value) is dict or type(value) is list:
            tree[key] = _decoded(value)
    return tree


def _decoded(value: Any) -> Any:
    if type(value) is list:
        return [_decoded(item) for item in value]
    if type(value) is not dict:
        return value
    reader = next((READERS[key] for key in value if key in READERS), None)
    decoded = reader(value) if reader else None
    return decode(value) if decoded is None else decoded


def _link(part: Tree) -> Link | None:
    return Link(part["@id"]) if part.keys() == {"@id"} and type(part["@id"]) is str else None


def _text(part: Tree) -> Text | None:
    fits = part.keys() == {"@value", "@language"} and all(type(value) is str for value in part.values())
    return Text(part["@value"], part["@language"]) if fits else None


def _date(part: Tree) -> Date | None:
    if not part.keys() <= _DATE_KEYS or not all(type(value) is str for value in part.values()):
        return None
    match = _DATE.fullmatch(part["@date"])
    if match is None or part.get("@precision", "") not in _PRECISIONS:
        return None
    year, month, day = (None if piece is None or "X" in piece else read_int(piece) for piece in match.groups())
    rest = {key[1:]: value for key, value in part.items() if key != "@date"}
    return Date(year, month, day, **rest)


def _quantity(part: Tree) -> Quantity | None:
    if part.keys() != {"@quantity", "@unit"} or not isinstance(part["@unit"], str | None):
        return None
    value = _decoded(part["@quantity"])
    return Quantity(value, part["@unit"]) if _is_number(value) else None


def _coordinate(part: Tree) -> Coordinate | None:
    globe = part.get("@globe", "")
    if part.keys() - {"@globe"} != {"@latitude", "@longitude"} or type(globe) is not str:
        return None
    latitude, longitude = _decoded(part["@latitude"]), _decoded(part["@longitude"])
    return Coordinate(latitude, longitude, globe) if _is_number(latitude) and _is_number(longitude) else None


def _known(part: Tree) -> Known | None:
    return next((known for known in Known if part == {"@known": known.value}), None)


def _decimal(part: Tree) -> Decimal | None:
    if part.keys() != {"@decimal"} or type(part["@decimal"]) is not str:
        return None
    try:
        value = Decimal(part["@decimal"])
    except InvalidOperation:
        return None
    return value if value.is_finite() else None


def _is_number(value: Any) -> bool:
    return value is None or type(value) in (int, float, Decimal)


READERS: dict[str, Callable[[Tree], Any]] = {  # by the key that such an object has; None where it is no such value
    "@id": _link,
    "@value": _text,
    "@date": _date,
    "@quantity": _quantity,
    "@latitude": _coordinate,
    "@known": _known,
    "@decimal": _decimal,
}


# ---------------------------------------------------------------- writing


def encode(value: Any, depth: int = 1) -> Any:
    """The value as orjson can write it; ValueError where JSON cannot express it."""
    kind = type(value)
    if depth > MAX_DEPTH:
        raise ValueError(f"expected at most {MAX_DEPTH} parts within parts, got more")
    if kind is dict:
        return {key: encode(item, depth + 1) for key, item in value.items()}
    if kind is list:
        return [encode(item, depth + 1) for item in value]
    if kind is int and not -(1 << 63) <= value < 1 << 64:
        return orjson.Fragment(show_digits(value))
    if kind is float and not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {value}")
    writer = WRITERS.get(kind)
    return writer(value) if writer else value


def _date_part(date: Date) -> Tree:
    rest = {key: getattr(date, key[1:]) for key in ("@precision", "@time", "@calendar", "@note")}
    return {"@date": dates.show_day(date)} | {key: text for key, text in rest.items() if text}


def _coordinate_part(place: Coordinate) -> Tree:
    part = {"@latitude": encode(place.latitude), "@longitude": encode(place.longitude)}
    return part | {"@globe": place.globe} if place.globe else part


def _decimal_part(number: Decimal) -> Any:
    if not number.is_finite():
        raise ValueError(f"expected a finite number, got {number}")
    text = str(number)
    has_point = "." in text or "E" in text
    is_exact = has_point and type(again := read_float(text)) is Decimal and str(again) == text
    return orjson.Fragment(text) if is_exact else {"@decimal": text}


WRITERS: dict[type, Callable[[Any], Any]] = {
    Link: lambda link: {"@id": link.id},
    Text: lambda text: {"@value": text.text, "@language": text.language},
    Date: _date_part,
    Quantity: lambda quantity: {"@quantity": encode(quantity.value), "@unit": quantity.unit},
    Coordinate: _coordinate_part,
    Known: lambda known: {"@known": known.value},
    Decimal: _decimal_part,
}
