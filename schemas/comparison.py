"""Order and identity of values: numbers exactly, dates where the order is certain, quantities through their units.

    order(left, right)       LESS, EQUAL, GREATER, UNCERTAIN or INCOMPARABLE
    identity(value)          a hashable key: two values with the same key are the same RDF term, or the same amount

SHACL and SPARQL order numbers with numbers, strings without a language with each other, booleans with each other, and dates
with dates; all other pairs are incomparable. SPARQL does not order dates of different precision. Here they are ordered where
every moment of the first is before every moment of the second.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from kbdisk.entity import Coordinate, Date, Link, Quantity, Text
from kbdisk.schemas.composites.quantity import Quantity as QuantityKind
from kbdisk.schemas.text import calendars, dates, numerals
from kbdisk.schemas.text.calendars import day_number
from kbdisk.schemas.text.numerals import as_decimal
from kbdisk.schemas.text.units import unit_of

Instant: TypeAlias = Fraction  # seconds, by the proleptic Gregorian calendar

DAY_SECONDS = 86_400
MAX_ZONE_SECONDS = 14 * 3600  # the greatest offset of a time zone from UTC
YEAR_SECONDS = 366 * DAY_SECONDS  # the greatest difference of another calendar from the Gregorian
YEARS_OF_PRECISION = {
    "decade": 10, "century": 100, "millennium": 1000, "10ka": 10**4, "100ka": 10**5, "1Ma": 10**6, "10Ma": 10**7,
    "100Ma": 10**8, "1Ga": 10**9,
}  # fmt: skip
SECONDS_OF_PRECISION = {"hour": 3600, "minute": 60}
TIME = re.compile(
    r"(?:[Tt ](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?P<fraction>[.,]\d+)?)?)?"
    r"(?: ?(?P<zone>[Zz]|(?P<sign>[+-])(?P<hours>\d\d)(?::?(?P<minutes>\d\d))?))?"
)


class Order(Enum):
    """The order of a value and another."""

    LESS = "less"
    EQUAL = "equal"
    GREATER = "greater"
    UNCERTAIN = "uncertain"  # the order is not known, as that of 1990 and May 1990
    INCOMPARABLE = "incomparable"  # there is no order, as that of a number and a string


class Amount(NamedTuple):
    """A quantity in the base units of its dimension, or in its own unit where that is unknown."""

    measures: Hashable
    value: Fraction
    is_known: bool  # whether the unit is one of the table


@dataclass(frozen=True)
class Span:
    """The moments that a date may be: from `first`, up to but without `last`."""

    first: Instant
    last: Instant
    has_zone: bool = False


def order(left: Any, right: Any, left_kind: Any = None, right_kind: Any = None) -> Order:
    """The order of two values. Kinds have the factors of quantities."""
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        return _order_of_quantities(left, right, left_kind, right_kind)
    if isinstance(left, Quantity) and numerals.is_number(right):
        return Order.UNCERTAIN
    if isinstance(right, Quantity) and numerals.is_number(left):
        return Order.UNCERTAIN
    if isinstance(left, Date) and isinstance(right, Date):
        return _order_of_dates(left, right)
    comparable = (
        (numerals.is_number(left) and numerals.is_number(right))
        or (isinstance(left, bool) and isinstance(right, bool))
        or (isinstance(left, str) and isinstance(right, str))
    )
    if not comparable:
        return Order.INCOMPARABLE
    if numerals.is_number(left) and numerals.is_number(right):
        left, right = as_decimal(left), as_decimal(right)
    return _order_of(left, right)


def identity(value: Any, kind: Any = None) -> Hashable:
    """The key of a value. Equal numbers of any type have the same key; texts in different languages have different keys."""
    if isinstance(value, bool):
        return "boolean", value
    if numerals.is_number(value):
        return "number", as_decimal(value)
    if isinstance(value, str):
        return "text", value
    if isinstance(value, Text):
        return "text", value.text, value.language.lower()
    if isinstance(value, Link):
        return "link", value.id
    if isinstance(value, Date):
        return "date", dates.plain(value)
    if isinstance(value, Quantity):
        amount = amount_of(value, kind)
        return ("quantity", *amount[:2]) if amount is not None else ("quantity", value.value, value.unit)
    if isinstance(value, Coordinate):
        numbers = (None if part is None else as_decimal(part) for part in (value.latitude, value.longitude))
        return "coordinate", *numbers, value.globe
    if isinstance(value, dict) and isinstance(value.get("@id"), str):
        return "link", value["@id"]
    return type(value).__name__, repr(value)


def amount_of(quantity: Quantity, kind: Any = None) -> Amount | None:
    """A quantity in base units, by the factors of its kind, then by the table of units; None where it has no amount."""
    if quantity.value is None or not numerals.is_finite(quantity.value):
        return None
    value, unit = Fraction(as_decimal(quantity.value)), quantity.unit
    if isinstance(kind, QuantityKind):
        unit = kind.unit if unit is None else unit
        factor = kind.factors.get(unit) if unit is not None else None
        main = kind.unit or next((name for name, known in kind.factors.items() if known == 1), None)
        if factor and main is not None and unit != main:
            value, unit = value * Fraction(as_decimal(factor)), main
    known = None if unit is None else unit_of(unit)
    if known is None:
        return Amount(("unit", unit), value, False)
    return Amount(known.dimension, value * known.factor + known.offset, True)


def span_of(date: Date) -> Span | None:
    """The moments that a date may be; None where they are uncertain."""
    if date.year is None or date.note or date.calendar not in ("", calendars.GREGORIAN, calendars.JULIAN):
        return None
    time = TIME.fullmatch(date.time)
    if time is None:
        return None
    first, last = _days(date)
    start, end = Fraction(first * DAY_SECONDS), Fraction(last * DAY_SECONDS)
    if time["hour"] is not None and date.day is not None:
        seconds = int(time["hour"]) * 3600 + int(time["minute"]) * 60 + int(time["second"] or 0)
        start += seconds + Fraction("0" + (time["fraction"] or ".0").replace(",", "."))
        end = start + SECONDS_OF_PRECISION.get(date.precision, 0)
    if time["sign"]:
        offset = int(time["hours"]) * 3600 + int(time["minutes"] or 0) * 60
        offset = -offset if time["sign"] == "-" else offset
        start, end = start - offset, end - offset
    margin = YEAR_SECONDS if date.calendar == calendars.JULIAN else 0
    return Span(start - margin, end + margin, time["zone"] is not None)


def _days(date: Date) -> tuple[int, int]:
    """The numbers of the first day that a date may be, and of the day after the last."""
    year = date.year or 0
    if (
        date.precision in YEARS_OF_PRECISION
    ):  # some sources count a century from its first year, others name any year in it
        years = YEARS_OF_PRECISION[date.precision]
        return _day_number(year - years), _day_number(year + years)
    if date.month is None or date.month > 12:
        next_year = date.month is not None or date.precision == "season"  # a winter may end in the next year
        return _day_number(year), _day_number(year + 1 + next_year)
    if date.day is None:
        return _day_number(year, date.month), _day_number(year + date.month // 12, date.month % 12 + 1)
    first = _day_number(year, date.month, date.day)
    return first, first + 1


def _day_number(year: int, month: int = 1, day: int = 1) -> int:
    return day_number(Date(year, month, day)) or 0


def _order_of_dates(left: Date, right: Date) -> Order:
    left, right = dates.plain(left), dates.plain(right)
    spans = span_of(left), span_of(right)
    if spans[0] is None or spans[1] is None:
        return Order.UNCERTAIN
    if _datatype_key(left) == _datatype_key(right) is not None:
        return _order_of(spans[0].first, spans[1].first)
    gap = MAX_ZONE_SECONDS if spans[0].has_zone != spans[1].has_zone else 0
    if spans[0].last + gap <= spans[1].first:
        return Order.LESS
    return Order.GREATER if spans[1].last + gap <= spans[0].first else Order.UNCERTAIN


def _datatype_key(date: Date) -> Hashable | None:
    """The datatype of a date, within which dates are always ordered; None of a span of years or a season."""
    if date.precision not in ("", "day") or (date.month or 0) > 12:
        return None
    time = TIME.fullmatch(date.time)
    clock, zone = (time["hour"] is not None, time["zone"] is not None) if time else (False, False)
    return date.month is None, date.day is None, date.precision, clock, zone, date.calendar


def _order_of_quantities(left: Quantity, right: Quantity, left_kind: Any, right_kind: Any) -> Order:
    both = amount_of(left, left_kind), amount_of(right, right_kind)
    if both[0] is None or both[1] is None:
        return Order.UNCERTAIN
    if both[0].measures != both[1].measures:
        return Order.INCOMPARABLE if both[0].is_known and both[1].is_known else Order.UNCERTAIN
    return _order_of(both[0].value, both[1].value)


def _order_of(left: Any, right: Any) -> Order:
    return Order.LESS if left < right else Order.GREATER if left > right else Order.EQUAL


def number_as(value: int | float | Decimal, sample: Any, kind: Any = None) -> Any:
    """A bare number as a bound of a value: a year of a date, an amount of the kind's own unit of a quantity."""
    if isinstance(sample, Date) and numerals.is_whole(value):
        return Date(int(value))
    if isinstance(sample, Quantity):
        return Quantity(value, getattr(kind, "unit", None) or sample.unit)
    return value
