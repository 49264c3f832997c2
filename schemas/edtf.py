"""EDTF, the Library of Congress's Extended Date/Time Format: levels 0 and 1.

    1985-04-12   1985-04-12T23:20:30Z   1964/2008   Y170000002   2001-21   1984?   201X   2004-XX   1985-XX-XX   ../1985   -1740

Unspecified digits of a year are a precision (`201X`: the decade that begins with 2010), an unspecified month or day is a
precision finer than the parts. An interval is a part {"start": Date, "end": Date}; an end that is open or not known is
left out, and written as open.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

from kbdisk.entity import Date
from kbdisk.schemas.calendars import date_of
from kbdisk.schemas.numerals import integer, show

Interval: TypeAlias = dict[str, Date]

CACHED = 1 << 14
SPANS: dict[int, str] = {1: "decade", 2: "century", 3: "millennium"}  # unspecified digits
DIGITS = {precision: digits for digits, precision in SPANS.items()}
OPEN = ("", "..")  # unknown; open

_CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
DATE = re.compile(
    "(?P<year>Y-?[1-9][0-9]{4,}|-?[0-9]{4}|-?(?=[0-9X]{4})[0-9]{1,3}(?P<X>X{1,3}))"
    "(?:-(?P<month>0[1-9]|1[0-2]|2[1-4]|XX)(?:-(?P<day>0[1-9]|[12][0-9]|3[01]|XX)"
    f"(?P<time>T{_CLOCK}(?:Z|[+-][0-9]{{2}}(?::[0-5][0-9])?)?)?)?)?"
    "(?P<note>[?~%]?)"
)


def read(text: str) -> Date | Interval:
    """The date or interval that an EDTF string says; ValueError where it says none."""
    if "/" not in text:
        return _read(text)
    ends = text.split("/")
    interval = {name: _read(end) for name, end in zip(("start", "end"), ends, strict=False) if end not in OPEN}
    if len(ends) != 2 or not interval or any(date.time for date in interval.values()):
        raise _wrong(text)
    return interval


def write(date: Date | Interval) -> str:
    """The EDTF string of a date or interval; ValueError where EDTF cannot hold all of it."""
    if isinstance(date, Date):
        text = _written(date)
    else:
        ends = [date.get(name) for name in ("start", "end")]
        text = "/".join(_written(end) if isinstance(end, Date) else ".." for end in ends)
    if read(text) != date:
        raise _wrong(text)
    return text


@lru_cache(CACHED)
def _read(text: str) -> Date:
    match = DATE.fullmatch(text)
    if match is None:
        raise _wrong(text)
    year, unspecified, month, day, time, note = match.group("year", "X", "month", "day", "time", "note")
    value = integer(year.lstrip("Y").replace("X", "0"))
    sloppy = year[0] == "-" and value == 0
    alone = month is None or (year[0] != "Y" and not unspecified)
    proper = alone and not (time and (note or "XX" in (month, day)))
    if sloppy or not proper or (month == "XX" and day not in (None, "XX")) or (month and "21" <= month <= "24" and day):
        raise _wrong(text)
    precision = SPANS[len(unspecified)] if unspecified else "day" if day == "XX" else "month" if month == "XX" else ""
    try:
        return date_of(value, _part(month), _part(day), precision, time or "", note)
    except ValueError:
        raise _wrong(text) from None


def _part(text: str | None) -> int | None:
    return int(text) if text and text != "XX" else None


def _written(date: Date) -> str:
    if date.year is None:
        raise ValueError("expected a date with a year, got one without")
    year = "-" * (date.year < 0) + show(abs(date.year)).zfill(4)
    if abs(date.year) > 9999:
        year = "Y" + year
    elif digits := DIGITS.get(date.precision, 0):
        year = year[:-digits] + "X" * digits
    finer = {"month": 1, "day": 2}.get(date.precision, 0)
    month = f"-{date.month:02}" if date.month is not None else "-XX" if finer else ""
    day = f"-{date.day:02}" if date.day is not None else "-XX" if finer == 2 else ""
    return year + month + day + date.time + date.note


def _wrong(text: str) -> ValueError:
    return ValueError(f"expected a date such as 1912-11-28, got {text!r}")
