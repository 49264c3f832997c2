"""What is known of the plain values at one path: how many of each family, ranges, units, labels.

Values come a column at a time, all of one type. Kinds and ranges are of all values; labels, units of text, decimals and
lengths are of the columns that were looked at closely (all of the first entities, then every thirty-second).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from kbdisk.entity import Coordinate, Date, Known, Link, Quantity, Text
from kbdisk.schemas.inference.sketch import CUT, Budget, Labels, cut
from kbdisk.schemas.kinds import MAX_EXACT

WHOLE = 1 << 14  # values of a path that are all looked at closely

FAMILIES: dict[type, str] = {
    bool: "truth",
    int: "number",
    float: "number",
    Decimal: "number",
    str: "text",
    Text: "tagged",
    Date: "date",
    Quantity: "quantity",
    Coordinate: "coordinate",
    Link: "link",
}


class Facts:
    """The plain values at one path."""

    __slots__ = (
        "budget", "count", "dates", "gaps", "high", "known", "labels", "languages", "low", "true", "units", "whole",
    )  # fmt: skip

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.count: dict[str, int] = {}  # by family
        self.gaps = 0
        self.known = 0  # known to exist, or not to
        self.low: Any = None
        self.high: Any = None
        self.whole = True  # all numbers so far
        self.true = 0
        self.labels: dict[str, Labels] = {}  # by family
        self.units: Counter[str | None] | None = None
        self.languages: Counter[str] | None = None
        self.dates: Counter[str] | None = None  # which parts, which precisions

    @property
    def total(self) -> int:
        """How many values there are."""
        return sum(self.count.values())

    def take(self, kind: type, column: Sequence[Any], close: bool) -> None:
        """Take in values of one type."""
        if kind is type(None):
            self.gaps += len(column)
            return
        if kind is Known:
            self.known += len(column)
            return
        family = FAMILIES.get(kind, "other")
        before = self.count.get(family, 0)
        self.count[family] = before + len(column)
        taker = TAKERS.get(family)
        if taker is not None:
            taker(self, column, close or before < WHOLE)

    def labels_of(self, family: str) -> Labels:
        """The labels of a family; none where nothing was seen."""
        found = self.labels.get(family)
        if found is None:
            found = self.labels[family] = Labels(self.budget)
        return found

    def merge(self, other: Facts) -> None:
        """Take in what stands at another path."""
        for family, count in other.count.items():
            self.count[family] = self.count.get(family, 0) + count
        self.gaps += other.gaps
        self.known += other.known
        self.true += other.true
        for edge in (other.low, other.high):
            self._widen(edge, edge)
        self.whole = self.whole and other.whole
        for family, labels in other.labels.items():
            self.labels_of(family).merge(labels)
        self.units = _sum(self.units, other.units)
        self.languages = _sum(self.languages, other.languages)
        self.dates = _sum(self.dates, other.dates)

    def _widen(self, low: Any, high: Any) -> None:
        if low is not None and (self.low is None or low < self.low):
            self.low = low
        if high is not None and (self.high is None or high > self.high):
            self.high = high

    def numbers(self, column: Sequence[Any], close: bool) -> None:
        """Range and wholeness of all."""
        low, high = min(column), max(column)
        self._widen(low, high)
        kind = type(column[0])
        if self.whole and kind is float:
            self.whole = low > -MAX_EXACT and high < MAX_EXACT and all(map(float.is_integer, column))
        elif self.whole and kind is not int:
            self.whole = all(map(_is_whole, column))
        if close:
            self.labels_of("number").take(column)

    def truths(self, column: Sequence[Any], close: bool) -> None:
        """True and false."""
        self.true += sum(column)

    def strings(self, column: Sequence[str], close: bool, family: str = "text") -> None:
        """Labels, cut to size."""
        if close:
            if max(map(len, column)) > CUT:
                column = list(map(cut, column))
            self.labels_of(family).take(column)

    def tagged(self, column: Sequence[Text], close: bool) -> None:
        """Languages of all, and labels."""
        self.languages = _sum(self.languages, Counter(one.language for one in column))
        self.strings([one.text for one in column], close, "tagged")

    def day(self, column: Sequence[Date], close: bool) -> None:
        """Which parts dates have."""
        if close:
            shapes = Counter((one.month is not None, one.day is not None, one.precision) for one in column)
            self.dates = self.dates if self.dates is not None else Counter()
            for (month, day, precision), count in shapes.items():
                self.dates.update({"month": count * month, "day": count * day, f"precision {precision}": count})
            self.labels_of("date").take(column)

    def quantities(self, column: Sequence[Quantity], close: bool) -> None:
        """Units of all, and the numbers."""
        self.units = _sum(self.units, Counter(one.unit for one in column))
        numbers = [one.value for one in column if one.value is not None]
        self.gaps += len(column) - len(numbers)
        self.count["quantity"] -= len(column) - len(numbers)  # a unit alone asks for its number
        if numbers:
            self._quantified(numbers, close)

    def _quantified(self, numbers: Sequence[Any], close: bool) -> None:
        self._widen(min(numbers), max(numbers))
        self.whole = self.whole and all(map(_is_whole, numbers))
        if close:
            self.labels_of("number").take(numbers)

    def links(self, column: Sequence[Link], close: bool) -> None:
        """The ids."""
        if close:
            self.labels_of("link").take([one.id for one in column])

    def shares(self) -> Iterator[tuple[str, float]]:
        """Families by their share of the values, the largest first."""
        total = self.total
        ordered = sorted(self.count.items(), key=lambda one: (-one[1], one[0]))
        yield from ((family, count / total) for family, count in ordered if count)


TAKERS: dict[str, Callable[[Facts, Sequence[Any], bool], None]] = {
    "number": Facts.numbers,
    "truth": Facts.truths,
    "text": Facts.strings,
    "tagged": Facts.tagged,
    "date": Facts.day,
    "quantity": Facts.quantities,
    "link": Facts.links,
}


def _is_whole(value: Any) -> bool:
    kind = type(value)
    if kind is float:
        return value.is_integer() and abs(value) < MAX_EXACT  # type: ignore[no-any-return]
    return kind is int or value.as_tuple().exponent >= 0 or value == value.to_integral_value()


def _sum(mine: Counter[Any] | None, theirs: Counter[Any] | None) -> Counter[Any] | None:
    if mine is None or theirs is None:
        return mine if theirs is None else Counter(theirs)
    mine.update(theirs)
    return mine
