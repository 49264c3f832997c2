"""Numerals: numbers as text, and back, exactly; amounts with their units as text. `6.9 kg`, `12%`, `-$1,234.50`.

Numbers have the grammars of XSD, and no other spellings (no `1_000`, no ` 5 `, no `inf`). A number with a point is a float
where fifteen digits or the float's own shortest form are the whole of it, and a Decimal where a float would lose digits.
Numbers may have any length: the interpreter's limit on digits does not hold here.
"""

from __future__ import annotations

import contextlib
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TypeAlias, TypeGuard

Number: TypeAlias = int | float | Decimal

NUMBER_TYPES = (int, float, Decimal)  # a check for a tuple is faster than for a union, which is made anew each time
MAX_FLOAT_CHARACTERS = 16  # of a decimal with its point: 15 digits, which a float always keeps
MAX_DIGITS = 4300  # digits that int() reads and str() writes


def is_number(value: object) -> TypeGuard[Number]:
    """Whether a value is a number, and no boolean."""
    return isinstance(value, NUMBER_TYPES) and not isinstance(value, bool)


def integer(text: str) -> int:
    """A whole number: `5`, `-12`, `+007`."""
    if text.strip("0123456789+-"):  # a stray character stops the strip: what is left is ASCII digits and signs
        raise _wrong("a whole number", text)
    try:
        return int(text) if len(text) < MAX_DIGITS else _long(text)
    except ValueError:
        raise _wrong("a whole number", text) from None


def decimal(text: str) -> Number:
    """A number without exponent; a whole number where it has no point."""
    if "." not in text:
        return integer(text)
    if text.strip("0123456789+-."):
        raise _wrong("a number such as 7.48", text)
    try:
        value = float(text)
    except ValueError:
        raise _wrong("a number such as 7.48", text) from None
    if len(text) <= MAX_FLOAT_CHARACTERS or repr(value) == text:
        return value + 0.0  # decimals know no negative zero
    return _exact(text, value)


def double(text: str) -> float:
    """A floating-point number, such as `1.5E3`; finite."""
    if text.strip("0123456789+-.eE"):
        raise _wrong("a finite number", text)
    try:
        value = float(text)
    except ValueError:
        raise _wrong("a finite number", text) from None
    if not math.isfinite(value):
        raise _wrong("a finite number", text)
    return value


def number(text: str) -> Number:
    """A number in any of these spellings."""
    if "e" not in text and "E" not in text:
        return decimal(text)
    if text.strip("0123456789+-.eE"):
        raise _wrong("a number", text)
    try:
        return _exact(text, float(text))
    except (ValueError, InvalidOperation):
        raise _wrong("a number", text) from None


def is_finite(value: Number) -> bool:
    """Whether a number is neither infinite nor NaN. `math.isfinite` asks the float, which is infinite beyond 1.8e308."""
    if isinstance(value, Decimal):
        return value.is_finite()
    return isinstance(value, int) or math.isfinite(value)


def is_whole(value: Number) -> bool:
    """Whether a finite number has no decimals. `int()` is no test of it: of 1E+999999999 it takes all memory."""
    if isinstance(value, Decimal):
        return value.is_finite() and value == value.to_integral_value()
    return isinstance(value, int) or value.is_integer()


def has_int(value: Number) -> bool:
    """Whether a number is a whole one that `int()` can take: a Decimal may stand for more digits than memory holds."""
    if isinstance(value, Decimal):
        return value.is_finite() and value.adjusted() < MAX_DIGITS and is_whole(value)
    return is_finite(value) and is_whole(value)


def as_float(value: Number) -> float:
    """The float nearest to a number; infinite where there is none."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def as_decimal(value: Number) -> Decimal:
    """A number as the decimal that it is written as."""
    return value if isinstance(value, Decimal) else Decimal(repr(value))


def show_digits(value: int) -> str:
    """All digits of a whole number."""
    return str(value) if value.bit_length() < 3 * MAX_DIGITS else f"{Decimal(value):f}"


def show(value: Number) -> str:
    """A number in full, without exponent: every digit that it has, and `.0` on a float that is whole."""
    if isinstance(value, int):
        return show_digits(value)
    if isinstance(value, Decimal) and max(abs(value.adjusted()), -int(value.as_tuple().exponent)) > MAX_DIGITS:
        raise ValueError(f"expected a number that can be written without exponent, got {value}")
    text = format(Decimal(repr(value)) if isinstance(value, float) else value, "f")
    return text if "." in text or isinstance(value, Decimal) else text + ".0"


@contextlib.contextmanager
def of_any_length() -> Iterator[None]:
    """Within this context str(), repr() and int() take whole numbers of any length, wherever they are called."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)


def _exact(text: str, value: float) -> float | Decimal:
    exact = Decimal(text)
    return value if math.isfinite(value) and Decimal(repr(value)) == exact else exact


def _long(text: str) -> int:
    """A Decimal of digits alone is exact, however many they are."""
    if not text.lstrip("+-").isdigit() or len(text) - len(text.lstrip("+-")) > 1:
        raise ValueError
    return int(Decimal(text))


def _wrong(expected: str, text: str) -> ValueError:
    shown = text if len(text) <= 60 else text[:60] + "..."
    return ValueError(f"expected {expected}, got {shown!r}")


# ---------------------------------------------------------------- amounts with their units


UNSIGNED = r"[0-9.,]*[0-9](?:[eE][-+]?[0-9]+)?"
MONEY = r"[A-Z]{0,3}[$€£¥₹₽₩₺]"  # what may stand before a number
_UNIT_LAST = re.compile(rf"\s*([-+]?{UNSIGNED})(\s*+)([^\d\s.,](?:.*\S)?)?\s*")
_UNIT_FIRST = re.compile(rf"\s*([-+]?)({MONEY})(\s*)({UNSIGNED})\s*")


@dataclass(frozen=True, slots=True)
class Measure:
    """An amount as text: its number, its unit, and how they stand beside each other."""

    number: str
    unit: str = ""
    gap: str = ""  # between the two
    before: bool = False  # whether the unit comes first

    def like(self, number: str, unit: str) -> str:
        """The text of another amount in the form of this one. Only the signs of money stand before the number."""
        if not unit:
            return number
        if not self.before:
            return f"{number}{self.gap}{unit}"
        if not re.fullmatch(MONEY, unit):
            return f"{number} {unit}"
        sign = number[: number.startswith("-")]
        return f"{sign}{unit}{self.gap}{number.removeprefix(sign)}"


def measure(text: str) -> Measure | None:
    """The number and unit of a text; None where it is no amount."""
    if match := _UNIT_FIRST.fullmatch(text):
        sign, unit, gap, digits = match.groups()
        return Measure(sign + digits, unit, gap, before=True)
    if match := _UNIT_LAST.fullmatch(text):
        return Measure(match[1], match[3] or "", match[2] if match[3] else "")
    return None
