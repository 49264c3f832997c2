"""Dates as text: the XSD date types, EDTF levels 0 and 1, ISO 8601 strings. No `datetime`: a year is any whole number.

Year 0 is 1 BCE, as in XSD 1.1 and EDTF. `write` keeps every field or raises: what it wrote is read as the same date.
Time of day and zone stay as they were written.

EDTF is the Library of Congress's Extended Date/Time Format:

    1985-04-12   1985-04-12T23:20:30Z   1964/2008   Y170000002   2001-21   1984?   201X   2004-XX   1985-XX-XX   ../1985   -1740

Unspecified digits of a year are a precision (`201X`: the decade that begins with 2010). An unspecified month or day is a
precision finer than the parts. An interval is a dictionary {"start": Date, "end": Date}. An end that is open or unknown has
no key, and is written as open.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias

from kbdisk.entity import Date
from kbdisk.schemas.text.calendars import date_of
from kbdisk.schemas.text.numerals import integer, show

Interval: TypeAlias = dict[str, Date]
Dated: TypeAlias = Date | Interval | str  # a time of day alone stays a string

MAX_CACHED_FORMS = 1 << 14  # lexical forms remembered of each type

YEAR_PATTERN = "(?P<year>-?(?:[1-9][0-9]{4,}|[0-9]{4}))"
MONTH_PATTERN = "(?P<month>0[1-9]|1[0-2])"
DAY_PATTERN = "(?P<day>0[1-9]|[12][0-9]|3[01])"
ZONE_PATTERN = "(?:Z|[+-](?:(?:0[0-9]|1[0-3]):[0-5][0-9]|14:00))"
CLOCK_PATTERN = r"(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?|24:00:00(?:\.0+)?)"


class Form(NamedTuple):
    """The lexical form of a datatype: its pattern, its layout for writing, and the example of error messages."""

    pattern: re.Pattern[str]
    layout: str
    example: str


def _form_of(pattern: str, layout: str, example: str) -> Form:
    return Form(
        re.compile(f"{pattern}(?P<time>{ZONE_PATTERN}?)" if "<time>" not in pattern else pattern), layout, example
    )


FORMS: dict[str, Form] = {
    "date": _form_of(
        f"{YEAR_PATTERN}-{MONTH_PATTERN}-{DAY_PATTERN}", "{year}-{month}-{day}", "a date such as 1912-11-28"
    ),
    "dateTime": _form_of(
        f"{YEAR_PATTERN}-{MONTH_PATTERN}-{DAY_PATTERN}(?P<time>T{CLOCK_PATTERN}{ZONE_PATTERN}?)",
        "{year}-{month}-{day}",
        "a date and time such as 1912-11-28T12:00:00",
    ),
    "dateTimeStamp": _form_of(
        f"{YEAR_PATTERN}-{MONTH_PATTERN}-{DAY_PATTERN}(?P<time>T{CLOCK_PATTERN}{ZONE_PATTERN})",
        "{year}-{month}-{day}",
        "a date and time such as 1912-11-28T12:00:00Z",
    ),
    "gYear": _form_of(YEAR_PATTERN, "{year}", "a year such as 1912"),
    "gYearMonth": _form_of(f"{YEAR_PATTERN}-{MONTH_PATTERN}", "{year}-{month}", "a month such as 1912-11"),
    "gMonthDay": _form_of(f"--{MONTH_PATTERN}-{DAY_PATTERN}", "--{month}-{day}", "a day of the year such as --11-28"),
    "gMonth": _form_of(f"--{MONTH_PATTERN}", "--{month}", "a month such as --11"),
    "gDay": _form_of(f"---{DAY_PATTERN}", "---{day}", "a day of the month such as ---28"),
}
EDTF = ("EDTF", "EDTF-level0", "EDTF-level1")
DATATYPE_OF_PARTS = {  # which of year, month and day there are -> the datatype that holds just these
    (True, True, True): "date",
    (True, True, False): "gYearMonth",
    (True, False, False): "gYear",
    (False, True, True): "gMonthDay",
    (False, True, False): "gMonth",
    (False, False, True): "gDay",
}
_TIME_OF_DAY = re.compile(CLOCK_PATTERN + ZONE_PATTERN + "?")
ISO = re.compile(
    r"(?P<year>[0-9]{4}|\+[0-9]{4,}|-[0-9]{4,}|[1-9][0-9]{4,}(?=-))(?:-(?P<month>0[0-9]|1[0-2])"
    r"(?:-(?P<day>[0-2][0-9]|3[01])(?P<time>[Tt ](?:[01][0-9]|2[0-4]):[0-5][0-9](?::[0-6][0-9](?:[.,][0-9]+)?)?"
    r"(?: ?(?:[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?))?|Z|[+-][0-9]{2}:[0-9]{2})?)?)?"
)


def read(lexical: str, datatype: str) -> Dated:
    """The date of a lexical form of a datatype, by the datatype's local name; ValueError where the form is not of it."""
    return READERS[datatype](lexical)


def write(date: Dated, datatype: str) -> str:
    """The lexical form of a date in a datatype; ValueError where the datatype cannot hold all of it."""
    example = "an EDTF date such as 1912-11-28" if datatype in EDTF else FORMS[datatype].example
    try:
        if datatype in EDTF and not isinstance(date, str):
            return write_edtf(date)
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
        datatype = DATATYPE_OF_PARTS.get((date.year is not None, date.month is not None, date.day is not None), "EDTF")
        names: tuple[str, ...] = ("dateTime", "EDTF") if date.time.startswith("T") else (datatype, "EDTF")
    else:
        names = ("EDTF",)
    return next((name for name in names if _holds(name, date)), "")


def read_iso(text: str) -> Date | Interval:
    """The date of an ISO 8601 or EDTF string as people write it: a space before the time, 00 for an unknown part."""
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
        return _read_form(FORMS["gMonthDay"], text)
    return read_edtf(text)


def write_iso(date: Date | Interval) -> str:
    """A string that `read_iso` reads as this date; ValueError where there is none."""
    if isinstance(date, Date) and date.day and date.time:  # a time of day as people write it: 2012-03-13 12:00
        candidates = ["{year}-{month}-{day}".format(**_padded(date)) + date.time]
    else:
        candidates = [write(date, name) for name in (natural_datatype(date), "EDTF") if name and _holds(name, date)]
    for lexical in candidates:
        with suppress(ValueError):
            if read_iso(lexical) == date:
                return lexical
    raise ValueError(f"expected a date that ISO 8601 can say, got {_shown(date)}")


def show_day(date: Date) -> str:
    """1912-11-28, 1912-11, 1912, -0043 for 44 BCE; XX for an unknown part before a known one."""
    year = "XXXX" if date.year is None else f"{date.year:05d}" if date.year < 0 else f"{date.year:04d}"
    if date.day is not None:
        return f"{year}-{_two_digits(date.month)}-{_two_digits(date.day)}"
    return year if date.month is None else f"{year}-{_two_digits(date.month)}"


def _two_digits(part: int | None) -> str:
    return "XX" if part is None else f"{part:02d}"


def plain(date: Date) -> Date:
    """A date without a precision that its parts imply."""
    implied = "month" if date.day is None else "day"
    implied = "year" if date.month is None else "season" if date.month > 12 else implied
    is_redundant = date.year is not None and date.precision == implied
    return replace(date, precision="") if is_redundant or (date.time and date.precision == "second") else date


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
    return repr(date) if isinstance(date, str) else "an interval"


def _read_form(form: Form, lexical: str) -> Date:
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
    if _TIME_OF_DAY.fullmatch(lexical) is None:
        raise ValueError(f"expected a time of day such as 12:00:00, got {lexical!r}")
    return lexical


# ---------------------------------------------------------------- EDTF


PRECISION_OF_DIGITS: dict[int, str] = {
    1: "decade",
    2: "century",
    3: "millennium",
}  # by the number of unspecified digits
DIGITS_OF_PRECISION = {precision: digits for digits, precision in PRECISION_OF_DIGITS.items()}
OPEN_ENDS = ("", "..")  # unknown; open

EDTF_CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
EDTF_DATE = re.compile(
    "(?P<year>Y-?[1-9][0-9]{4,}|-?[0-9]{4}|-?(?=[0-9X]{4})[0-9]{1,3}(?P<X>X{1,3}))"
    "(?:-(?P<month>0[1-9]|1[0-2]|2[1-4]|XX)(?:-(?P<day>0[1-9]|[12][0-9]|3[01]|XX)"
    f"(?P<time>T{EDTF_CLOCK}(?:Z|[+-][0-9]{{2}}(?::[0-5][0-9])?)?)?)?)?"
    "(?P<note>[?~%]?)"
)


def read_edtf(text: str) -> Date | Interval:
    """The date or interval of an EDTF string; ValueError where it is none."""
    if "/" not in text:
        return _read_edtf(text)
    end_texts = text.split("/")
    interval = {
        name: _read_edtf(end) for name, end in zip(("start", "end"), end_texts, strict=False) if end not in OPEN_ENDS
    }
    if len(end_texts) != 2 or not interval or any(date.time for date in interval.values()):
        raise _no_date(text)
    return interval


def write_edtf(date: Date | Interval) -> str:
    """The EDTF string of a date or interval; ValueError where EDTF cannot hold all of it."""
    if isinstance(date, Date):
        text = _edtf_of(date)
    else:
        ends = [date.get(name) for name in ("start", "end")]
        text = "/".join(_edtf_of(end) if isinstance(end, Date) else ".." for end in ends)
    if read_edtf(text) != date:
        raise _no_date(text)
    return text


@lru_cache(MAX_CACHED_FORMS)
def _read_edtf(text: str) -> Date:
    match = EDTF_DATE.fullmatch(text)
    if match is None:
        raise _no_date(text)
    year, unspecified, month, day, time, note = match.group("year", "X", "month", "day", "time", "note")
    value = integer(year.lstrip("Y").replace("X", "0"))
    negative_zero = year[0] == "-" and value == 0
    may_have_month = month is None or (year[0] != "Y" and not unspecified)
    well_formed = may_have_month and not (time and (note or "XX" in (month, day)))
    if (
        negative_zero
        or not well_formed
        or (month == "XX" and day not in (None, "XX"))
        or (month and "21" <= month <= "24" and day)
    ):
        raise _no_date(text)
    precision = (
        PRECISION_OF_DIGITS[len(unspecified)]
        if unspecified
        else "day"
        if day == "XX"
        else "month"
        if month == "XX"
        else ""
    )
    try:
        return date_of(value, _month_or_day(month), _month_or_day(day), precision, time or "", note)
    except ValueError:
        raise _no_date(text) from None


def _month_or_day(text: str | None) -> int | None:
    return int(text) if text and text != "XX" else None


def _edtf_of(date: Date) -> str:
    if date.year is None:
        raise ValueError("expected a date with a year, got one without")
    year = "-" * (date.year < 0) + show(abs(date.year)).zfill(4)
    if abs(date.year) > 9999:
        year = "Y" + year
    elif digits := DIGITS_OF_PRECISION.get(date.precision, 0):
        year = year[:-digits] + "X" * digits
    finer = {"month": 1, "day": 2}.get(date.precision, 0)
    month = f"-{date.month:02}" if date.month is not None else "-XX" if finer else ""
    day = f"-{date.day:02}" if date.day is not None else "-XX" if finer == 2 else ""
    return year + month + day + date.time + date.note


def _no_date(text: str) -> ValueError:
    return ValueError(f"expected a date such as 1912-11-28, got {text!r}")


READERS: dict[str, Callable[[str], Dated]] = {
    **{name: lru_cache(MAX_CACHED_FORMS)(partial(_read_form, form)) for name, form in FORMS.items()},
    **dict.fromkeys(EDTF, read_edtf),
    "time": _time,
}
