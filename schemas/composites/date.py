"""Dates: year, month and day, of which any may be unknown. A date that does not exist (30 February) does not fit."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from kbdisk.entity import Date as Day
from kbdisk.entity import Path
from kbdisk.schemas.composites.base import Parts, fields_of
from kbdisk.schemas.kinds import EXACT_NUMBER, Category, Number
from kbdisk.schemas.text import dates
from kbdisk.schemas.text.calendars import DAYS, is_leap

NUMBERS = ("year", "month", "day")
CARRIED = ("precision", "time", "calendar", "note")
COARSE = ("decade", "century", "millennium")
_SEPARATOR = r"(?:\s*+[-/.]\s*+|[^\S ]*+ \s*+)"  # a mark among white space, or white space with a blank in it
NUMERIC_DATE = re.compile(rf"\s*+(\d{{1,4}}){_SEPARATOR}(\d{{1,4}}){_SEPARATOR}(\d{{1,4}})\s*+")


@dataclass(frozen=True)
class Date:
    """A date. `order` is that of strings such as 28/11/1912; with `coarse` decades and centuries are learnt, too."""

    order: Literal["iso", "dmy", "mdy", "ymd"] = "iso"
    parts: tuple[str, ...] = NUMBERS
    minimum: int | None = None  # years
    maximum: int | None = None
    coarse: bool = False

    def leaves(self) -> dict[Path, Any]:
        """Year, month and day; and the precision, where decades and centuries are learnt."""
        bounds = {"year": (self.minimum, self.maximum), "month": (1, 12), "day": (1, 31)}
        leaves: dict[Path, Any] = {
            (name,): Number(True, *bounds[name], tolerance=EXACT_NUMBER) for name in NUMBERS if name in self.parts
        }
        return leaves | ({("precision",): Category(("", *COARSE), closed=True)} if self.coarse else {})

    def apply(self, value: Any) -> Day:
        """A date, a part with year, month and day, a year, or text in the one order."""
        day = self._read(value)
        check(day)
        if day.year is not None:
            self._year.check(day.year)
        return day

    @cached_property
    def _year(self) -> Number:
        return Number(True, self.minimum, self.maximum)

    def split(self, value: Day) -> Parts:
        """The numbers that are known, and the texts that are carried along."""
        numbers = {(name,): number for name in NUMBERS if (number := getattr(value, name)) is not None}
        return numbers | {(name,): part for name in CARRIED if (part := getattr(value, name))}

    def join(self, parts: Mapping[Path, Any]) -> Day:
        """A date that exists; ValueError where the parts make none."""
        numbers: dict[str, Any] = {
            name: None if (number := parts.get((name,))) is None else int(number) for name in NUMBERS
        }
        day = Day(**numbers, **{name: parts.get((name,), "") for name in CARRIED})
        check(day)
        return day

    def mended(self, parts: Mapping[str, Any], free: Collection[str]) -> dict[str, Any]:
        """The nearest date that exists to parts drawn independently of each other; only free parts change."""
        parsed = Day(parts.get("year"), parts.get("month"), parts.get("day"), calendar=parts.get("calendar", ""))
        day = nearest(parsed, free, self.minimum, self.maximum)
        numbers = {name: number for name in NUMBERS if (number := getattr(day, name)) is not None}
        return {**{name: part for name, part in parts.items() if name not in NUMBERS}, **numbers}

    def _read(self, value: Any) -> Day:
        if isinstance(value, Day):
            return value
        if isinstance(value, dict):
            return _of_part(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return Day(value)
        if isinstance(value, float) and value.is_integer():
            return Day(int(value))
        if isinstance(value, str):
            return self._of_text(value)
        raise ValueError(f"expected a date such as 1912-11-28, got {value!r}")

    def _of_text(self, text: str) -> Day:
        if self.order == "iso":
            day = dates.read_iso(text)
            if isinstance(day, Day):
                return day
            raise ValueError(f"expected one date, got the interval {text!r}")
        match = NUMERIC_DATE.fullmatch(text)
        if match is None:
            raise ValueError(f"expected a date in the order {self.order}, got {text!r}")
        if len(match[1 + self.order.index("y")]) < 3:
            raise ValueError(f"expected a date in the order {self.order} with its whole year, got {text!r}")
        numbers = dict(zip(self.order, map(int, match.groups()), strict=True))
        return Day(numbers["y"], numbers["m"], numbers["d"])


def check(day: Day) -> None:
    """Refuse a date that does not exist. A month alone, or a day without a year, has to exist in some year."""
    if day.month is not None and not (1 <= day.month <= 12 or 21 <= day.month <= 24):
        raise ValueError(f"expected a month from 1 to 12, got {day.month}")
    if day.day is None:
        return
    longest = 31 if day.month is None else DAYS[day.month - 1] if day.month <= 12 else 0
    leap = day.year is None or is_leap(day.year) or day.calendar
    if not 1 <= day.day <= (28 if day.month == 2 and not leap else longest):
        raise ValueError(f"expected a day that there is, got {day.day} of month {day.month} in {day.year}")


def nearest(day: Day, free: Collection[str], minimum: int | None = None, maximum: int | None = None) -> Day:
    """The nearest date that exists, where only the free parts may change; the date itself where there is none.

    Parts of a date are drawn independently of each other, such as 30 and February.
    """
    if _exists(day):
        return day
    low, high = -math.inf if minimum is None else minimum, math.inf if maximum is None else maximum
    others: list[Day] = []
    if "day" in free and day.day is not None:
        others = [replace(day, day=earlier) for earlier in range(min(day.day, 31), 27, -1)] + [replace(day, day=None)]
    elif "month" in free and day.month is not None:
        others = [replace(day, month=day.month % 12 + 1)]  # no two months that follow each other are short
    elif "year" in free and day.year is not None:
        years = [day.year + sign * distance for distance in range(1, 9) for sign in (-1, 1)]
        others = [replace(day, year=year) for year in years if low <= year <= high]
    return next((other for other in others if _exists(other)), day)


def _exists(day: Day) -> bool:
    try:
        check(day)
    except ValueError:
        return False
    return True


def _of_part(part: Mapping[str, Any]) -> Day:
    fields = {key: value for key, value in fields_of(part).items() if value is not None}
    if not fields.keys() <= {*NUMBERS, *CARRIED}:
        raise ValueError(f"expected year, month and day, got {', '.join(fields)}")
    for name in NUMBERS:
        if name in fields:
            Number(integer=True).check(fields[name])
            fields[name] = int(fields[name])
    return Day(**fields)
