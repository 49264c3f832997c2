"""Amounts as text: a number, and its unit behind it or, of money, before it. `6.9 kg`, `12%`, `-$1,234.50`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

UNSIGNED = r"[0-9.,]*[0-9](?:[eE][-+]?[0-9]+)?"
MONEY = r"[A-Z]{0,3}[$€£¥₹₽₩₺]"  # what may stand before a number
_BEHIND = re.compile(rf"\s*([-+]?{UNSIGNED})(\s*+)([^\d\s.,](?:.*\S)?)?\s*")
_BEFORE = re.compile(rf"\s*([-+]?)({MONEY})(\s*)({UNSIGNED})\s*")


@dataclass(frozen=True, slots=True)
class Measure:
    """How an amount is spelt."""

    number: str
    unit: str = ""
    gap: str = ""  # between the two
    before: bool = False  # whether the unit comes first

    def like(self, number: str, unit: str) -> str:
        """Another amount, spelt as this one is; what is no money stands behind the number all the same."""
        if not unit:
            return number
        if not self.before:
            return f"{number}{self.gap}{unit}"
        if not re.fullmatch(MONEY, unit):
            return f"{number} {unit}"
        sign = number[: number.startswith("-")]
        return f"{sign}{unit}{self.gap}{number.removeprefix(sign)}"


def measure(text: str) -> Measure | None:
    """How a text spells an amount, if it does."""
    if found := _BEFORE.fullmatch(text):
        sign, unit, gap, number = found.groups()
        return Measure(sign + number, unit, gap, before=True)
    if found := _BEHIND.fullmatch(text):
        return Measure(found[1], found[3] or "", found[2] if found[3] else "")
    return None


def measured_as(examples: Iterable[str], unit: str | None) -> Measure | None:
    """How an amount of a unit is spelt where others stand: as one of the same unit, or as any of some unit."""
    found = [one for text in examples if (one := measure(text)) and one.unit]
    return next((one for one in found if one.unit == unit), found[0] if found else None)
