"""Amounts as text: a number, and its unit behind it or, of money, before it. `6.9 kg`, `12%`, `-$1,234.50`."""

from __future__ import annotations

import re
from dataclasses import dataclass

UNSIGNED = r"[\d.,]*\d(?:[eE][-+]?\d+)?"
MONEY = r"[A-Z]{0,3}[$€£¥₹₽₩₺]"  # what may stand before a number
_BEHIND = re.compile(rf"\s*([-+]?{UNSIGNED})(\s*)([^\d\s.,].*?)?\s*")
_BEFORE = re.compile(rf"\s*([-+]?)({MONEY})(\s*)({UNSIGNED})\s*")


@dataclass(frozen=True, slots=True)
class Measure:
    """How an amount is spelt."""

    number: str
    unit: str = ""
    gap: str = ""  # between the two
    before: bool = False  # whether the unit comes first

    def like(self, number: str, unit: str) -> str:
        """Another amount, spelt as this one is."""
        if self.before and unit:
            sign = number[: number.startswith("-")]
            return f"{sign}{unit}{self.gap}{number.removeprefix(sign)}"
        return f"{number}{self.gap}{unit}" if unit else number


def measure(text: str) -> Measure | None:
    """How a text spells an amount, if it does."""
    if found := _BEFORE.fullmatch(text):
        sign, unit, gap, number = found.groups()
        return Measure(sign + number, unit, gap, before=True)
    if found := _BEHIND.fullmatch(text):
        return Measure(found[1], found[3] or "", found[2] if found[3] else "")
    return None
