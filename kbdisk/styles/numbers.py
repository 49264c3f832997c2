"""Numbers as text: decimals, signs and exponents of most samples, and the separators that the numbers of one column have.

A point is decimal. Where commas do not separate the cells, a comma may be the decimal separator of a whole column, and
points before groups of three digits are then thousands separators. `1.234` and `1,234` are ambiguous by themselves:
`1.234,5`, `1.234.567` and `0,5` decide, also for the other columns of a file. Apostrophes and unbreakable spaces between
groups of three digits are always thousands separators.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Context, Decimal

from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.numerals import Number

Samples = Sequence[str]


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How numbers are written: minimum decimals, a sign on positive numbers, and the exponent ("" for none)."""

    decimals: int = 0
    plus: bool = False
    exponent: str = ""  # `E`, or `e+` with as many zeros as its digits are padded to

    @classmethod
    def of(cls, samples: Samples) -> NumberFormat:
        """The format of most samples."""
        return cls._of(tuple(samples))

    @classmethod
    @functools.lru_cache(maxsize=512)
    def _of(cls, all_samples: tuple[str, ...]) -> NumberFormat:
        samples = [text for text in all_samples if text and not text.strip("0123456789+-.eE")]
        if not samples:
            return cls()
        positive = [text for text in samples if text[:1] != "-"]
        plus = bool(positive) and is_majority(text[:1] == "+" for text in positive)
        exponential = [text.replace("e", "E").partition("E") for text in samples if "e" in text.lower()]
        if 2 * len(exponential) <= len(samples):
            plain = [text for text in samples if "e" not in text.lower()]
            return cls(min(map(_decimals, plain)), plus)
        letter = "e" if is_majority("e" in text for text in samples) else "E"
        sign = "+" if any(power[:1] == "+" for _, _, power in exponential) else ""
        width = min(len(power.lstrip("+-")) for _, _, power in exponential)
        return cls(min(_decimals(mantissa) for mantissa, _, _ in exponential), plus, letter + sign + "0" * width)

    def show(self, value: Number) -> str:
        """A number, with every digit that it has."""
        text = self._exponential(value) if self.exponent else _padded(numerals.show(_bare(value)), self.decimals)
        return "+" + text if self.plus and not text.startswith("-") else text

    def _exponential(self, value: Number) -> str:
        sign, digits, _ = Decimal(repr(value) if isinstance(value, float) else value).as_tuple()
        power = Decimal(repr(value) if isinstance(value, float) else value).adjusted() if any(digits) else 0
        figures = "".join(map(str, digits)).rstrip("0") or "0"
        mantissa = _padded(figures[0] + ("." + figures[1:] if figures[1:] else ""), self.decimals)
        width = self.exponent.count("0")
        shown = ("-" if power < 0 else "+" if "+" in self.exponent else "") + str(abs(power)).zfill(width)
        return "-" * sign + mantissa + self.exponent[0] + shown


def _bare(value: Number) -> Number:
    """A whole float as an integer: the format decides how many decimals it shows."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _decimals(text: str) -> int:
    return len(text.partition(".")[2])


def _padded(text: str, decimals: int) -> str:
    whole, _, part = text.partition(".")
    return f"{whole}.{part.ljust(decimals, '0')}" if part or decimals else whole


def is_majority(conditions: Iterable[bool]) -> bool:
    """Whether more than half of the conditions are true."""
    flags = list(conditions)
    return 2 * sum(flags) > len(flags)


def round_decimals(number: str, min_decimals: int, max_decimals: int) -> str:
    """A number, rounded and padded to a range of decimals."""
    value = Decimal(number)
    exact = Context(prec=max(len(number), 50) + abs(value.adjusted()) + max_decimals)
    if -int(value.as_tuple().exponent) > max_decimals:
        value = value.quantize(Decimal(1).scaleb(-max_decimals), ROUND_HALF_EVEN, exact)
    whole, _, decimals = format(value, "f").partition(".")
    decimals = decimals.rstrip("0").ljust(min_decimals, "0")
    text = f"{whole}.{decimals}" if decimals else whole
    return text.removeprefix("-") if not value else text


# ---------------------------------------------------------------- separators of a column


NUMBER = re.compile(r"[ \t]*-?(?:(0|[1-9][0-9]*)(?:\.([0-9]*))?|\.([0-9]+))([eE][+-]?[0-9]{1,4})?[ \t]*")
AMBIGUOUS = re.compile(r"[ \t]*-?[1-9][0-9]{0,2}\.[0-9]{3}[ \t]*")  # what may be whole
WITH_THOUSANDS = re.compile(
    r"[ \t]*-?[1-9][0-9]{0,2}([.'\u2019\u00a0\u202f])[0-9]{3}(?:\1[0-9]{3})*(?:([.,])([0-9]+))?[ \t]*"
)
MAX_EXPONENT_SAMPLES = 20  # kept of numbers with exponents
MIN_DOUBTFUL_NUMBERS = 3  # numbers in groups of three digits that make one wonder


@dataclass(slots=True)
class Separators:
    """The decimal and thousands separators in the numbers of one column."""

    comma: bool = False  # whether a comma may be the decimal separator
    comma_is_decimal: bool = False  # whether other columns show that it is
    counts: Counter[str] = field(default_factory=Counter)  # numbers by their mark: a point, a comma, none
    ambiguous: Counter[str] = field(default_factory=Counter)  # of these, whole numbers with a separator, perhaps
    thousands: Counter[str] = field(default_factory=Counter)  # numbers by what certainly parts their thousands
    unseparated: int = 0  # numbers of a thousand or more with nothing between these
    exponents: int = 0  # numbers with one
    exponent_samples: list[str] = field(default_factory=list)  # some of these, with decimal points
    digits: dict[str, tuple[int, int]] = field(default_factory=dict)  # the fewest and the most after each mark

    def see(self, cell: str, count: int) -> bool:
        """Count a cell if it is a number; returns whether it is one."""
        pointed = self._pointed(cell)
        if match := NUMBER.fullmatch(pointed):
            whole, after, only, exponent = match.groups()
            mark = "" if "." not in pointed else "." if pointed == cell else ","
            self.ambiguous[mark] += count * bool(AMBIGUOUS.fullmatch(pointed))
            self.unseparated += count * (whole is not None and len(whole) > 3)
            if exponent is not None:
                self.exponents += count
                self.exponent_samples += [pointed.strip(" \t")] * (len(self.exponent_samples) < MAX_EXPONENT_SAMPLES)
        elif (match := WITH_THOUSANDS.fullmatch(cell)) and self._parts(match):
            group, mark, after = match[1], match[2] or "", match[3]
            only = exponent = None
            self.thousands[group] += count
        else:
            return False
        self.counts[mark] += count
        if exponent is None:
            decimals = len(after or only or "")
            fewest, is_majority = self.digits.get(mark, (decimals, decimals))
            self.digits[mark] = min(fewest, decimals), max(is_majority, decimals)
        return True

    @property
    def decimal(self) -> str | None:
        """The decimal separator; None where it is ambiguous or the numbers disagree."""
        sure = {mark for mark in ".," if self.counts[mark] > self.ambiguous[mark]}
        if self.comma_is_decimal or self.thousands["."]:
            sure.add(",")
        point = "," if "," in sure else "."
        if len(sure) > 1 or len(self._thousands_separators(point)) > 1:
            return None
        if point == "." and self.counts[","]:
            return None
        return None if point == "," and self.counts["."] and self.unseparated and not self.thousands["."] else point

    @property
    def has_commas(self) -> bool:
        """Whether any number has a comma."""
        return self.counts[","] > 0

    @property
    def tells_commas(self) -> bool:
        """Whether this column proves a decimal comma, for other columns too."""
        return self.decimal == "," and (self.counts[","] > self.ambiguous[","] or self.thousands["."] > 0)

    @property
    def tells_points(self) -> bool:
        """Whether this column proves a decimal point, for other columns too."""
        return self.counts["."] > self.ambiguous["."]

    @property
    def at_odds(self) -> bool:
        """Whether its points are ambiguous; commas alone leave the column as text."""
        return self.decimal is None and self.counts["."] > 0

    @property
    def doubtful(self) -> bool:
        """Whether points taken as decimal may separate thousands: each is followed by three digits, or there is none."""
        three = self.ambiguous["."] == self.counts["."] >= MIN_DOUBTFUL_NUMBERS and self.counts[""] > 0
        return self.comma and self.decimal == "." and three and not self.unseparated and not self.exponents

    @property
    def decimals(self) -> tuple[int, int] | None:
        """Minimum and maximum decimals of the numbers without exponent, if there are any."""
        point = self.decimal
        ranges = [fewest_most if mark == point else (0, 0) for mark, fewest_most in self.digits.items()]
        return (min(fewest for fewest, _ in ranges), max(is_majority for _, is_majority in ranges)) if ranges else None

    def reader(self) -> Callable[[str], Number]:
        """The function from a cell to its number; ValueError where it is no number like the others."""
        point = self.decimal
        separators = "".join(self._thousands_separators(point or "."))
        if not separators:
            return lambda cell: numerals.number(self._pointed(cell).strip())
        other = re.escape(point or ".")
        fitting = re.compile(
            rf"-?(?:[0-9]*|[0-9]{{1,3}}(?:{re.escape(separators)}[0-9]{{3}})+)(?:{other}[0-9]*)?(?:[eE].+)?"
        )

        def read(cell: str) -> Number:
            cell = cell.strip(" \t")
            if not fitting.fullmatch(cell):
                raise ValueError
            return numerals.number(cell.replace(separators, "").replace(",", "."))

        return read

    def spell(self, number: str) -> str:
        """A number with the separators, decimals and exponents of the column; thousands are separated if most here are."""
        if self.exponents * 2 > self.counts.total():
            number = NumberFormat.of(self.exponent_samples).show(numerals.number(number.strip()))
        elif not self.exponents and (decimals := self.decimals):
            number = round_decimals(number, *decimals)
        whole, dot, rest = number.partition(".")
        point = self.decimal or "."
        separators = self._thousands_separators(point)
        group = next(iter(separators), "")
        if separators[group] > self.unseparated and whole.removeprefix("-").isdigit():
            sign, digits = whole[: whole.startswith("-")], whole.removeprefix("-")
            first = (len(digits) - 1) % 3 + 1
            whole = sign + group.join([digits[:first], *(digits[n : n + 3] for n in range(first, len(digits), 3))])
        return whole + (point if dot else "") + rest

    def _pointed(self, cell: str) -> str:
        """A cell with its comma replaced by a point, where a comma may be decimal."""
        return cell.replace(",", ".") if self.comma and "." not in cell else cell

    def _parts(self, match: re.Match[str]) -> bool:
        """Whether the two separators of a number may be thousands and decimal separator."""
        group, mark, _ = match.groups()
        return group != mark and (self.comma or (mark != "," and group != "."))

    def _thousands_separators(self, point: str) -> Counter[str]:
        """Thousands separators and the count of their numbers, for a decimal separator."""
        between = +self.thousands
        if point == "," and self.ambiguous["."]:
            between["."] += self.ambiguous["."]
        return between
