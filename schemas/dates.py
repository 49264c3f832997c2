"""Dates as text, and back: every XSD date type, EDTF levels 0 and 1, ISO strings. No `datetime`: a year is any whole number.

Year 0 is 1 BCE, as in XSD 1.1 and EDTF. `write` keeps every field or refuses: what it wrote reads as the same date.
Time of day and zone stay as they were written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias

from kbdisk.entity import Date
from kbdisk.schemas import edtf
from kbdisk.schemas.calendars import date_of
from kbdisk.schemas.edtf import Interval
from kbdisk.schemas.numerals import integer, show

Dated: TypeAlias = Date | Interval | str  # a time of day alone stays a string

CACHED = 1 << 14  # lexical forms remembered of each type

YEAR = "(?P<year>-?(?:[1-9][0-9]{4,}|[0-9]{4}))"
MONTH = "(?P<month>0[1-9]|1[0-2])"
DAY = "(?P<day>0[1-9]|[12][0-9]|3[01])"
ZONE = "(?:Z|[+-](?:(?:0[0-9]|1[0-3]):[0-5][0-9]|14:00))"
CLOCK = r"(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?|24:00:00(?:\.0+)?)"


class Form(NamedTuple):
    """How a datatype writes a date: how it is read, how it is put together, and what an error shows."""

    pattern: re.Pattern[str]
    layout: str
    example: str


def _form(pattern: str, layout: str, example: str) -> Form:
    return Form(re.compile(f"{pattern}(?P<time>{ZONE}?)" if "<time>" not in pattern else pattern), layout, example)


FORMS: dict[str, Form] = {
    "date": _form(f"{YEAR}-{MONTH}-{DAY}", "{year}-{month}-{day}", "a date such as 1912-11-28"),
    "dateTime": _form(
        f"{YEAR}-{MONTH}-{DAY}(?P<time>T{CLOCK}{ZONE}?)",
        "{year}-{month}-{day}",
        "a date and time such as 1912-11-28T12:00:00",
    ),
    "dateTimeStamp": _form(
        f"{YEAR}-{MONTH}-{DAY}(?P<time>T{CLOCK}{ZONE})",
        "{year}-{month}-{day}",
        "a date and time such as 1912-11-28T12:00:00Z",
    ),
    "gYear": _form(YEAR, "{year}", "a year such as 1912"),
    "gYearMonth": _form(f"{YEAR}-{MONTH}", "{year}-{month}", "a month such as 1912-11"),
    "gMonthDay": _form(f"--{MONTH}-{DAY}", "--{month}-{day}", "a day of the year such as --11-28"),
    "gMonth": _form(f"--{MONTH}", "--{month}", "a month such as --11"),
    "gDay": _form(f"---{DAY}", "---{day}", "a day of the month such as ---28"),
}
EDTF = ("EDTF", "EDTF-level0", "EDTF-level1")
NATURAL = {  # which of year, month and day there are -> the datatype that holds just these
    (True, True, True): "date",
    (True, True, False): "gYearMonth",
    (True, False, False): "gYear",
    (False, True, True): "gMonthDay",
    (False, True, False): "gMonth",
    (False, False, True): "gDay",
}
_TIME = re.compile(CLOCK + ZONE + "?")
ISO = re.compile(
    r"(?P<year>[0-9]{4}|\+[0-9]{4,}|-[0-9]{4,}|[1-9][0-9]{4,}(?=-))(?:-(?P<month>0[0-9]|1[0-2])"
    r"(?:-(?P<day>[0-2][0-9]|3[01])(?P<time>[Tt ](?:[01][0-9]|2[0-4]):[0-5][0-9](?::[0-6][0-9](?:[.,][0-9]+)?)?"
    r"(?: ?(?:[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?))?|Z|[+-][0-9]{2}:[0-9]{2})?)?)?"
)


def read(lexical: str, datatype: str) -> Dated:
    """The date that a lexical form of a datatype (by its local name) says; ValueError where it says none."""
    return READERS[datatype](lexical)


def write(date: Dated, datatype: str) -> str:
    """The lexical form of a date in a datatype; ValueError where the datatype cannot hold all of it."""
    example = "an EDTF date such as 1912-11-28" if datatype in EDTF else FORMS[datatype].example
    try:
        if datatype in EDTF and not isinstance(date, str):
            return edtf.write(date)
        if isinstance(date, Date):
            lexical = FORMS[datatype].layout.format(**_padded(date)) + date.time
            if read(lexical, datatype) == date:
                return lexical
    except ValueError:
        pass
    raise ValueError(f"expected {example}, got {_shown(date)}")


def natural_datatype(date: Date | Interval) -> str:
    """The local name of the datatype that holds a date just as it is; empty where none does."""
    if isinstance(date, Date):
        plain = NATURAL.get((date.year is not None, date.month is not None, date.day is not None), "EDTF")
        names: tuple[str, ...] = ("dateTime", "EDTF") if date.time.startswith("T") else (plain, "EDTF")
    else:
        names = ("EDTF",)
    return next((name for name in names if _holds(name, date)), "")


def read_iso(text: str) -> Date | Interval:
    """An ISO 8601 or EDTF string of plain data, as people write them: a space before the time, 00 for an unknown part."""
    match = ISO.fullmatch(text)
    if match is not None:
        year, month, day, time = match.group("year", "month", "day", "time")
        precision = "day" if day == "00" else "month" if month == "00" else ""
        if (year.strip("+-0") or month != "00") and not (month == "00" and day not in (None, "00")):
            try:
                return date_of(integer(year), int(month or 0) or None, int(day or 0) or None, precision, time or "")
            except ValueError:
                raise ValueError(f"expected a date such as 1912-11-28, got {text!r}") from None
    elif text.startswith("--"):
        return _read(FORMS["gMonthDay"], text)
    return edtf.read(text)


def write_iso(date: Date | Interval) -> str:
    """A date as a string that `read_iso` reads as the same date; ValueError where there is none."""
    if isinstance(date, Date) and date.day and date.time:  # a time of day as people write it: 2012-03-13 12:00
        written = ["{year}-{month}-{day}".format(**_padded(date)) + date.time]
    else:
        written = [write(date, name) for name in (natural_datatype(date), "EDTF") if name and _holds(name, date)]
    for lexical in written:
        with suppress(ValueError):
            if read_iso(lexical) == date:
                return lexical
    raise ValueError(f"expected a date that ISO 8601 can say, got {_shown(date)}")


def plain(date: Date) -> Date:
    """A date without a precision that its parts say already."""
    finest = "month" if date.day is None else "day"
    finest = "year" if date.month is None else "season" if date.month > 12 else finest
    said = date.year is not None and date.precision == finest
    return replace(date, precision="") if said or (date.time and date.precision == "second") else date


def _holds(name: str, date: Date | Interval) -> bool:
    try:
        write(date, name)
    except ValueError:
        return False
    return True


def _padded(date: Date) -> dict[str, str]:
    year = date.year or 0
    return {
        "year": "-" * (year < 0) + show(abs(year)).zfill(4),
        "month": f"{date.month or 0:02}",
        "day": f"{date.day or 0:02}",
    }


def _shown(date: Dated) -> str:
    if isinstance(date, Date):
        fields = ((name, getattr(date, name)) for name in Date.__slots__)
        return "a date of " + ", ".join(f"{name} {value}" for name, value in fields if value not in (None, ""))
    return repr(date) if isinstance(date, str) else "a stretch of time"


def _read(form: Form, lexical: str) -> Date:
    match = form.pattern.fullmatch(lexical)
    if match is not None:
        part = match.groupdict().get
        year, month, day = part("year"), part("month"), part("day")
        try:
            return date_of(year and integer(year), month and int(month), day and int(day), "", match["time"])  # type: ignore[arg-type]
        except ValueError:
            pass
    raise ValueError(f"expected {form.example}, got {lexical!r}")


def _time(lexical: str) -> str:
    if _TIME.fullmatch(lexical) is None:
        raise ValueError(f"expected a time of day such as 12:00:00, got {lexical!r}")
    return lexical


READERS: dict[str, Callable[[str], Dated]] = {
    **{name: lru_cache(CACHED)(partial(_read, form)) for name, form in FORMS.items()},
    **dict.fromkeys(EDTF, edtf.read),
    "time": _time,
}
