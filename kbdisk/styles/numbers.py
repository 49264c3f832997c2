"""Numbers as text, as the other numbers at their place are written. NumberFormat renders; three learners find the format.

    NumberFormat.of(samples)     of some texts: decimals, plus signs, exponents
    NumberSpelling               counts, which a model keeps: decimals, commas, leading zeros; integers or floats
    Separators                   all cells of a column: decimals, exponents, decimal and thousands separators

In a column a point is decimal. Where commas do not separate the cells, a comma may be the decimal separator of a whole column,
and points before groups of three digits are then thousands separators. `1.234` and `1,234` are ambiguous by themselves:
`1.234,5`, `1.234.567` and `0,5` decide, also for the other columns of a file. Apostrophes and unbreakable spaces between
groups of three digits are always thousands separators.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any, Self

from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.numerals import Measure, Number, as_decimal, has_int, measure

Samples = Sequence[str]


# ---------------------------------------------------------------- one number as text


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """The format of a number as text."""

    min_decimals: int = 0
    max_decimals: int | None = None  # it is rounded to these
    keeps_zeros: bool = False  # the zeros at the end of a Decimal
    min_digits: int = 1  # before the point
    plus: bool = False  # a sign on positive numbers
    exponent: str = ""  # `E`, or `e+` with as many zeros as its digits are padded to; empty for none
    thousands: str = ""  # between groups of three digits
    point: str = "."

    @classmethod
    def of(cls, samples: Samples) -> NumberFormat:
        """The format of most samples, in which no digit of a number is lost."""
        return cls._of(tuple(samples))

    @classmethod
    @functools.lru_cache(maxsize=512)
    def _of(cls, all_samples: tuple[str, ...]) -> NumberFormat:
        samples = [text for text in all_samples if text and not text.strip("0123456789+-.eE")]
        if not samples:
            return cls(keeps_zeros=True)
        positive = [text for text in samples if text[:1] != "-"]
        plus = bool(positive) and is_majority(text[:1] == "+" for text in positive)
        exponential = [text.replace("e", "E").partition("E") for text in samples if "e" in text.lower()]
        if 2 * len(exponential) <= len(samples):
            plain = [text for text in samples if "e" not in text.lower()]
            return cls(min(map(_decimals, plain)), keeps_zeros=True, plus=plus)
        letter = "e" if is_majority("e" in text for text in samples) else "E"
        sign = "+" if any(power[:1] == "+" for _, _, power in exponential) else ""
        width = min(len(power.lstrip("+-")) for _, _, power in exponential)
        exponent = letter + sign + "0" * width
        decimals = min(_decimals(mantissa) for mantissa, _, _ in exponential)
        return cls(decimals, keeps_zeros=True, plus=plus, exponent=exponent)

    def show(self, value: Number) -> str:
        """A number as text; ValueError where it would have too many digits."""
        text = self._exponential(value) if self.exponent else self._plain(value)
        return self.separate("+" + text if self.plus and not text.startswith("-") else text)

    def separate(self, text: str) -> str:
        """A number with a point before its decimals, with the separators of this format."""
        integer_part, point, decimals = text.partition(".")
        if self.thousands and (digits := integer_part.removeprefix("-")).isdigit():
            first = (len(digits) - 1) % 3 + 1
            groups = [digits[:first], *(digits[n : n + 3] for n in range(first, len(digits), 3))]
            integer_part = integer_part[: integer_part.startswith("-")] + self.thousands.join(groups)
        return integer_part + (self.point if point else "") + decimals

    def _plain(self, value: Number) -> str:
        text = numerals.show(int(value) if isinstance(value, float) and value.is_integer() else value)
        if self.max_decimals is not None:
            text = _rounded(text, self.max_decimals)
        sign, (integer_part, _, decimals) = "-" * text.startswith("-"), text.removeprefix("-").partition(".")
        decimals = decimals if self.keeps_zeros else decimals.rstrip("0")
        sign = sign if self.keeps_zeros or decimals or integer_part.strip("0") else ""  # 0, not -0
        return sign + integer_part.zfill(self.min_digits) + self._point_and(decimals)

    def _exponential(self, value: Number) -> str:
        exact = as_decimal(value)
        sign, digits, _ = exact.as_tuple()
        power = exact.adjusted() if any(digits) else 0
        figures = "".join(map(str, digits)).rstrip("0") or "0"
        width = self.exponent.count("0")
        shown = ("-" if power < 0 else "+" if "+" in self.exponent else "") + str(abs(power)).zfill(width)
        return "-" * sign + figures[0] + self._point_and(figures[1:]) + self.exponent[0] + shown

    def _point_and(self, decimals: str) -> str:
        decimals = decimals.ljust(self.min_decimals, "0")
        return "." + decimals if decimals else ""


def _rounded(number: str, decimals: int) -> str:
    """A number, rounded to some decimals."""
    value = Decimal(number)
    if -int(value.as_tuple().exponent) <= decimals:
        return number
    exact = Context(prec=max(len(number), 50) + abs(value.adjusted()) + decimals)
    return format(value.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_EVEN, exact), "f")


def _decimals(text: str) -> int:
    return len(text.partition(".")[2])


def is_majority(conditions: Iterable[bool]) -> bool:
    """Whether more than half of the conditions are true."""
    flags = list(conditions)
    return 2 * sum(flags) > len(flags)


# ---------------------------------------------------------------- an amount with its unit as text


def measured_as(examples: Iterable[str], unit: str | None) -> Measure | None:
    """The form for an amount of a unit among examples: that of the first example with the unit, else with any unit."""
    measures = [amount for text in examples if (amount := measure(text)) and amount.unit]
    return next((amount for amount in measures if amount.unit == unit), measures[0] if measures else None)


# ---------------------------------------------------------------- the numbers at one path


@dataclass(slots=True)
class NumberSpelling:
    """The spelling of the numbers at a path: 5 or 5.0, and the decimals, commas and zeros of texts."""

    whole: int = 0  # whole numbers that are integers
    pointed: int = 0  # whole numbers that are floats: 5.0
    fewest: int | None = None  # decimals of texts
    commas: int = 0  # texts of a thousand or more with commas, less those without
    shortest: int = 0  # digits of texts before the point
    longest: int = 0
    zeros: bool = False  # whether a text has a leading zero

    def observe(self, value: Number) -> None:
        """Count a number that is stored as a number."""
        if isinstance(value, int):
            self.whole += 1
        elif has_int(value):
            self.pointed += 1

    def observe_text(self, text: str) -> None:
        """Count a number that is stored as text."""
        before, _, decimals = text.strip().lstrip("+-").partition(".")
        if "e" in text or "E" in text:
            return
        digits = before.replace(",", "")
        self.fewest = len(decimals) if self.fewest is None else min(self.fewest, len(decimals))
        self.shortest = min(self.shortest, len(digits)) if self.longest else len(digits)
        self.longest = max(self.longest, len(digits))
        self.zeros = self.zeros or (len(digits) > 1 and digits[0] == "0")
        if len(digits) > 3:
            self.commas += 1 if "," in before else -1

    def typed(self, value: Any) -> Any:
        """A number as an integer or a float, as the observed ones are."""
        if isinstance(value, bool) or not has_int(value):
            return value
        if not isinstance(value, int):
            return int(value) if self.whole > self.pointed else value
        return float(value) if self.pointed > self.whole and abs(value) < 1 << 53 else value

    @property
    def format(self) -> NumberFormat:
        """The format of the observed texts."""
        is_padded = self.zeros and self.shortest == self.longest and self.commas <= 0
        return NumberFormat(
            self.fewest or 0, min_digits=self.longest if is_padded else 1, thousands="," if self.commas > 0 else ""
        )

    def text(self, value: Any) -> str:
        """A number as text, spelt as the observed ones are."""
        return self.format.show(value)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The number spelling of plain data."""
        counts = {name: int(data[name]) for name in ("whole", "pointed", "commas", "shortest", "longest")}
        fewest = None if data["fewest"] is None else int(data["fewest"])
        return cls(**counts, fewest=fewest, zeros=bool(data["zeros"]))


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

    def observe(self, cell: str, count: int) -> bool:
        """Count a cell if it is a number; returns whether it is one."""
        pointed = self._pointed(cell)
        if match := NUMBER.fullmatch(pointed):
            integer_part, after, only, exponent = match.groups()
            mark = "" if "." not in pointed else "." if pointed == cell else ","
            self.ambiguous[mark] += count * bool(AMBIGUOUS.fullmatch(pointed))
            self.unseparated += count * (integer_part is not None and len(integer_part) > 3)
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
            fewest, maximum = self.digits.get(mark, (decimals, decimals))
            self.digits[mark] = min(fewest, decimals), max(maximum, decimals)
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
        ranges = [decimal_range if mark == point else (0, 0) for mark, decimal_range in self.digits.items()]
        return (min(fewest for fewest, _ in ranges), max(most for _, most in ranges)) if ranges else None

    def reader(self) -> Callable[[str], Number]:
        """The function from a cell to its number; ValueError where it is no number like the others."""
        point = self.decimal
        separators = "".join(self._thousands_separators(point or "."))
        if not separators:
            return lambda cell: numerals.number(self._pointed(cell).strip())
        point_pattern = re.escape(point or ".")
        fitting = re.compile(
            rf"-?(?:[0-9]*|[0-9]{{1,3}}(?:{re.escape(separators)}[0-9]{{3}})+)(?:{point_pattern}[0-9]*)?(?:[eE].+)?"
        )

        def read(cell: str) -> Number:
            cell = cell.strip(" \t")
            if not fitting.fullmatch(cell):
                raise ValueError
            return numerals.number(cell.replace(separators, "").replace(",", "."))

        return read

    def write(self, number: str) -> str:
        """A number with the separators, decimals and exponents of the column; thousands are separated if most here are."""
        point = self.decimal or "."
        separator, count = next(iter(self._thousands_separators(point).items()), ("", 0))
        thousands = separator if count > self.unseparated else ""
        if self.exponents * 2 > self.counts.total():
            format = replace(NumberFormat.of(self.exponent_samples), thousands=thousands, point=point)
        elif self.exponents or (decimals := self.decimals) is None:
            return NumberFormat(thousands=thousands, point=point).separate(number)
        else:
            format = NumberFormat(*decimals, thousands=thousands, point=point)
        return format.show(numerals.number(number.strip()))

    def _pointed(self, cell: str) -> str:
        """A cell with its comma replaced by a point, where a comma may be decimal."""
        return cell.replace(",", ".") if self.comma and "." not in cell else cell

    def _parts(self, match: re.Match[str]) -> bool:
        """Whether the two separators of a number may be thousands and decimal separator."""
        group, mark, _ = match.groups()
        return group != mark and (self.comma or (mark != "," and group != "."))

    def _thousands_separators(self, point: str) -> Counter[str]:
        """Thousands separators and the count of their numbers, for a decimal separator."""
        separators = +self.thousands
        if point == "," and self.ambiguous["."]:
            separators["."] += self.ambiguous["."]
        return separators
