"""How numbers are spelt as text: decimals, signs, exponents; so that a new one is spelt as most samples are."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal

from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.numerals import Number

Samples = Sequence[str]


@dataclass(frozen=True, slots=True)
class NumberHabit:
    """How numbers are spelt: decimals at least, a sign on positive ones, and the exponent ("" where there is none)."""

    decimals: int = 0
    plus: bool = False
    exponent: str = ""  # `E`, or `e+` with as many zeros as its digits are padded to

    @classmethod
    def of(cls, samples: Samples) -> NumberHabit:
        """The habit of most samples."""
        return cls._of(tuple(samples))

    @classmethod
    @functools.lru_cache(maxsize=512)
    def _of(cls, all_samples: tuple[str, ...]) -> NumberHabit:
        samples = [text for text in all_samples if text and not text.strip("0123456789+-.eE")]
        if not samples:
            return cls()
        positive = [text for text in samples if text[:1] != "-"]
        plus = bool(positive) and most(text[:1] == "+" for text in positive)
        exponential = [text.replace("e", "E").partition("E") for text in samples if "e" in text.lower()]
        if 2 * len(exponential) <= len(samples):
            plain = [text for text in samples if "e" not in text.lower()]
            return cls(min(map(_decimals, plain)), plus)
        letter = "e" if most("e" in text for text in samples) else "E"
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
    """A whole float as an integer: how many decimals it shows is a matter of habit."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _decimals(text: str) -> int:
    return len(text.partition(".")[2])


def _padded(text: str, decimals: int) -> str:
    whole, _, part = text.partition(".")
    return f"{whole}.{part.ljust(decimals, '0')}" if part or decimals else whole


def most(truths: Iterable[bool]) -> bool:
    """Whether more than half are true."""
    told = list(truths)
    return 2 * sum(told) > len(told)


def rounded(number: str, fewest: int, most: int) -> str:
    """A number with no fewer and no more decimals than that."""
    value = Decimal(number)
    exact = Context(prec=max(len(number), 50) + abs(value.adjusted()) + most)
    if -int(value.as_tuple().exponent) > most:
        value = value.quantize(Decimal(1).scaleb(-most), ROUND_HALF_EVEN, exact)
    whole, _, decimals = format(value, "f").partition(".")
    decimals = decimals.rstrip("0").ljust(fewest, "0")
    text = f"{whole}.{decimals}" if decimals else whole
    return text.removeprefix("-") if not value else text
