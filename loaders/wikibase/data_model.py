"""The Wikibase data model: times, quantities, places and labels, whichever format they come in.

Its JSON gives a day in the calendar that it is meant in, and counts years BCE from 1 (-0044 is 44 BCE, our -43). Its RDF
gives the proleptic Gregorian day, and counts years as we do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kbdisk.entity import Coordinate, Date, Quantity, Text
from kbdisk.schemas.text.calendars import DAY, DAYS, GREGORIAN, JULIAN, MONTH, date_of, of_wikibase

# Every Wikibase writes these, whatever its own base IRI.
EARTH = ("", "http://www.wikidata.org/entity/Q2")
NO_UNIT = ("1", "http://www.wikidata.org/entity/Q199")

INSTANCE_OF = "P31"  # unless the knowledge base calls another property so
INSTANCE_OF_LABEL = "instance of"

_TIME = re.compile(r"([+-])([0-9]+)-([0-9]{2})-([0-9]{2})(T[0-9]{2}:[0-9]{2}:[0-9]{2}Z?)")


def is_time(text: str) -> bool:
    """Whether a text is a time as a Wikibase writes it, valid or not."""
    return _TIME.fullmatch(text) is not None


def time(text: str, precision: int, calendar: str, zone: int = 0) -> Date:
    """The date of `+1952-03-11T00:00:00Z`, no finer than its precision; ValueError where there is no such day."""
    parts = _TIME.fullmatch(text)
    if parts is None:
        raise ValueError(f"expected a date such as +1952-03-11T00:00:00Z, got {text!r}")
    year, month, day = int(parts[2]), int(parts[3]), int(parts[4])
    if year == 0:
        raise ValueError(f"expected a year, got 0 in {text!r}")
    year = year if parts[1] == "+" else 1 - year
    if precision >= MONTH and not 1 <= month <= 12:
        raise ValueError(f"expected a month from 1 to 12, got {month}")
    if precision >= DAY:
        _check_day(year, month, day, calendar)
    date = of_wikibase(Date(year, month, day, time=parts[5]), precision, GREGORIAN, zone)
    return date if calendar == GREGORIAN else replace(date, calendar=calendar)


def _check_day(year: int, month: int, day: int, calendar: str) -> None:
    if not 1 <= day <= DAYS[month - 1]:
        raise ValueError(f"expected a day that exists, got day {day} of month {month}")
    if not (calendar == JULIAN and year % 4 == 0):
        date_of(year, month, day)


def quantity(amount: Any, unit: str) -> Any:
    """A number with its unit, or the number alone where it has none."""
    return amount if unit in NO_UNIT else Quantity(amount, unit)


def coordinate(latitude: Any, longitude: Any, globe: str) -> Coordinate:
    """A place; the Earth needs no name."""
    return Coordinate(latitude, longitude, "" if globe in EARTH else globe)


def one_or_list(values: Iterable[Any]) -> Any:
    """Each value once; one alone stands for itself."""
    distinct = list({repr(value): value for value in values}.values())
    return distinct[0] if len(distinct) == 1 else distinct


def best_label(labels: Iterable[Any], language: str) -> str:
    """The label in the wanted language, else in a wider one (de for de-at), in none, in all (mul), in English, in any."""
    texts: dict[str, str] = {}
    for label in labels:
        if isinstance(label, Text):
            texts.setdefault(label.language, label.text)
        elif isinstance(label, str):
            texts.setdefault("", label)
    tags = (language, language.split("-")[0], "", "mul", "en", *texts)
    return next((texts[tag] for tag in tags if tag in texts), "")
