"""A quantity: a number of some unit. Units are those that the schema knows, each with what one of it is in the main one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from kbdisk.entity import Path
from kbdisk.entity import Quantity as Amount
from kbdisk.schemas.composites.base import Parts
from kbdisk.schemas.leaf import Category, Number
from kbdisk.schemas.numerals import number

SPELT = re.compile(r"\s*([-+]?[\d.,]*\d(?:[eE][-+]?\d+)?)\s*([^\d\s.,].*?)?\s*")
THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
VALUE, UNIT = ("value",), ("unit",)


@dataclass(frozen=True)
class Quantity:
    """(value, unit). `unit` is what a bare number is in; `factors` are the other units, and how many of `unit` one of
    each is, where that is known. With `normal` all values become quantities of `unit`."""

    unit: str | None = None
    factors: Mapping[str, float | None] = field(default_factory=dict)
    value: Number = Number()
    normal: bool = False
    any_unit: bool = False  # take units that the schema does not name

    def units(self) -> tuple[str, ...]:
        """All units known here, the main one first."""
        return tuple(dict.fromkeys([*([self.unit] if self.unit else []), *self.factors]))

    def leaves(self) -> dict[Path, Any]:
        """The number, and the unit where there is more than one."""
        units = self.units()
        if (len(units) <= 1 and not self.any_unit) or self.normal:
            return {VALUE: self.value}
        return {VALUE: self.value, UNIT: Category(units, closed=not self.any_unit)}

    def apply(self, value: Any) -> Amount:
        """A quantity, a bare number, a part with value and unit, or text such as `6.9 kg`."""
        amount = self._read(value)
        unit = amount.unit if amount.unit is not None else self.unit
        if unit is not None and not self.any_unit and unit not in self.units():
            raise ValueError(f"expected a unit of {', '.join(self.units()) or 'none'}, got {unit!r}")
        factor = self.factors.get(unit or "")
        if self.normal and unit != self.unit and amount.value is not None:
            if factor is None:
                raise ValueError(f"expected a unit that {self.unit} is known in, got {unit!r}")
            exact = f"{float(amount.value) * factor:.15g}"  # 1.1 kg are 1100 g, not 1100.0000000000002
            amount, unit = Amount(float(exact), self.unit), self.unit
        if amount.value is not None:
            self.value.check(amount.value)
        return Amount(amount.value, unit)

    def split(self, value: Amount) -> Parts:
        """What is known of it."""
        parts = {VALUE: value.value, UNIT: value.unit}
        return {path: part for path, part in parts.items() if part is not None}

    def join(self, parts: Mapping[Path, Any]) -> Amount:
        """A number of a unit; the main one where none is told."""
        return Amount(parts.get(VALUE), parts.get(UNIT, self.unit))

    def _read(self, value: Any) -> Amount:
        if isinstance(value, Amount):
            return value
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            return Amount(value, None)
        if isinstance(value, dict) and {key for key in value if key[:1] != "@"} <= {"value", "unit"}:
            return Amount(value.get("value"), value.get("unit"))
        spelt = SPELT.fullmatch(value) if isinstance(value, str) else None
        if spelt is None:
            raise ValueError(f"expected a quantity such as 6.9 {self.unit or 'kg'}, got {value!r}")
        return Amount(_number(spelt[1]), spelt[2] or None)


def _number(text: str) -> Any:
    """A number with commas between thousands; 6,9 may be 6.9, and is refused rather than read as 69."""
    if "," in text and THOUSANDS.fullmatch(text) is None:
        raise ValueError(f"expected a number such as 6.9 or 1,234.5, with a point before decimals, got {text!r}")
    return number(text.replace(",", ""))
