"""Calendar arithmetic: days that exist, numbers of days, ages, the Julian and the Gregorian calendar, Wikibase's times.

Wikibase's RDF has the proleptic Gregorian day of every date, and the name of the date's own calendar beside it. A `Date`
has the day in its own calendar; its `calendar` is empty where that is the Gregorian one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from kbdisk.entity import Date, Precision

DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # of the months of a leap year
GREGORIAN = "http://www.wikidata.org/entity/Q1985727"
JULIAN = "http://www.wikidata.org/entity/Q1985786"
PRECISIONS: tuple[Precision, ...] = (  # Wikibase's numbers 0 to 14
    "1Ga", "100Ma", "10Ma", "1Ma", "100ka", "10ka", "millennium", "century", "decade", "year", "month", "day",
    "hour", "minute", "second",
)  # fmt: skip
YEAR, MONTH, DAY = 9, 10, 11
MIDNIGHT = "T00:00:00Z"


def date_of(
    year: int | None,
    month: int | None,
    day: int | None,
    precision: Precision | str = "",
    time: str = "",
    note: str = "",
) -> Date:
    """A Gregorian date; ValueError where no year has such a day."""
    is_29_february = month == 2 and day == 29
    too_late = day is not None and month is not None and day > DAYS[month - 1]
    if too_late or (is_29_february and year is not None and not is_leap(year)):
        raise ValueError(f"expected a day that exists, got day {day} of month {month}")
    return Date(year, month, day, precision, time, "", note)  # type: ignore[arg-type]


def is_leap(year: int) -> bool:
    """Whether a year of the Gregorian calendar has a 29 February."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


# ---------------------------------------------------------------- numbers of days


def day_number(value: Any) -> int | None:
    """The number of a day in the proleptic Gregorian calendar, 1 January of year 1 being 1; None of anything but a whole day."""
    if not isinstance(value, Date) or value.calendar or value.precision or value.time or value.note:
        return None
    if value.year is None or value.month is None or value.day is None or value.month > 12:
        return None
    before = value.year - 1
    days = before * 365 + before // 4 - before // 100 + before // 400
    days += sum(DAYS[: value.month - 1]) - (value.month > 2 and not is_leap(value.year))
    return days + value.day


def date_of_day_number(number: int) -> Date:
    """The day with a number."""
    year = math.floor((number - 1) / 365.2425) + 1
    while (first := day_number(Date(year, 1, 1)) or 0) > number:
        year -= 1
    while (following := day_number(Date(year + 1, 1, 1)) or 0) <= number:
        year, first = year + 1, following
    left = number - first
    for month, length in enumerate(DAYS, 1):
        length -= month == 2 and not is_leap(year)
        if left < length:
            return Date(year, month, left + 1)
        left -= length
    raise AssertionError("a year has no more days")


def whole_years(later: Any, earlier: Any) -> int | None:
    """The whole years between two days, as an age is counted."""
    if day_number(later) is None or day_number(earlier) is None:
        return None
    return int(later.year - earlier.year - ((later.month, later.day) < (earlier.month, earlier.day)))


# ---------------------------------------------------------------- Wikibase


def of_wikibase(gregorian: Date, precision: int, calendar: str = GREGORIAN, zone: int = 0) -> Date:
    """The date of a Wikibase time value: parts finer than its precision are dropped."""
    if gregorian.year is None or not 0 <= precision < len(PRECISIONS):
        raise ValueError(f"expected a year and a precision of 0 to 14, got precision {precision}")
    calendar = "" if calendar == GREGORIAN else calendar
    offset = f"{'-' if zone < 0 else '+'}{abs(zone) // 60:02}:{abs(zone) % 60:02}" if zone else ""
    if precision < YEAR:
        return Date(gregorian.year, precision=PRECISIONS[precision], time=offset, calendar=calendar)
    month = gregorian.month if precision >= MONTH else None
    if precision < DAY:
        return Date(gregorian.year, month, time=offset, calendar=calendar)
    if precision > DAY and zone:
        raise ValueError("expected a time of day in UTC, got a zone beside it")
    has_time = precision > DAY or gregorian.time != MIDNIGHT
    date_precision = PRECISIONS[precision] if precision > DAY else "day" if has_time else ""
    date = replace(
        gregorian, precision=date_precision, time=(gregorian.time if has_time else "") + offset, calendar=calendar
    )
    return _converted(date, to_julian=True) if calendar == JULIAN else date


def to_wikibase(date: Date) -> tuple[Date, int, str, int]:
    """The Gregorian moment, precision, calendar and zone of a date in a Wikibase: the inverse of `of_wikibase`."""
    if date.year is None or (date.month or 0) > 12 or date.note:
        raise ValueError("expected a year, a month of one or a day of one, got a date that a Wikibase cannot hold")
    if date.precision:
        precision = PRECISIONS.index(date.precision) if date.precision in PRECISIONS else -1
    else:
        precision = DAY if date.day else MONTH if date.month else YEAR
        precision = PRECISIONS.index("second") if date.time[:1] == "T" else precision
    bare = replace(date, precision="", calendar="", month=date.month or 1, day=date.day or 1)
    if date.calendar == JULIAN and precision >= DAY:
        bare = _converted(bare, to_julian=False)
    clock, zone = (date.time, "") if date.time[:1] == "T" else (MIDNIGHT, date.time)
    moment = replace(bare, time=clock)
    wikibase_time = (moment, precision, date.calendar or GREGORIAN, _minutes_of_zone(zone))
    again = of_wikibase(*wikibase_time)
    if again != date and replace(again, precision="") != replace(date, precision=""):
        raise ValueError("expected a date that a Wikibase can hold, got one with more to it")
    return wikibase_time


def _minutes_of_zone(zone: str) -> int:
    if zone in ("", "Z"):
        return 0
    hours, _, minutes = zone[1:].partition(":")
    if zone[0] not in "+-" or not (hours + minutes).isdecimal():
        raise ValueError(f"expected a zone such as +01:00, got {zone!r}")
    return (-1 if zone[0] == "-" else 1) * (int(hours) * 60 + int(minutes or 0))


def _converted(date: Date, *, to_julian: bool) -> Date:
    """A day of the Gregorian calendar as one of the Julian, or back. `//` rounds down, so years BCE come out right."""
    assert date.year is not None
    assert date.month is not None
    assert date.day is not None
    shift = (14 - date.month) // 12
    year, month = date.year + 4800 - shift, date.month + 12 * shift - 3
    number = date.day + (153 * month + 2) // 5 + 365 * year + year // 4
    number += year // 400 - year // 100 - 32045 if to_julian else -32083
    century = 0 if to_julian else (4 * (number + 32044) + 3) // 146097
    rest = number + 32082 if to_julian else number + 32044 - 146097 * century // 4
    years = (4 * rest + 3) // 1461
    rest -= 1461 * years // 4
    month = (5 * rest + 2) // 153
    year = 100 * century + years - 4800 + month // 10
    return replace(date, year=year, month=month + 3 - 12 * (month // 10), day=rest - (153 * month + 2) // 5 + 1)
