"""A quantity: a number of some unit. Units are those that the schema knows, each with what one of it is in the main one."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kbdisk.entity import Path
from kbdisk.entity import Quantity as Amount
from kbdisk.schemas.composites.base import Parts
from kbdisk.schemas.leaf import Category, Number
from kbdisk.schemas.measures import measure
from kbdisk.schemas.numerals import is_number, number

THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
VALUE, UNIT = ("value",), ("unit",)
SWAP = str.maketrans(",.", ".,")


@dataclass(frozen=True)
class Quantity:
    """(value, unit). `unit` is what a bare number is in; `factors` are the other units, and how many of `unit` one of
    each is, where that is known. With `normal` all values become quantities of `unit`. Bounds are in `unit`; where
    nothing is known of how many of it another unit is, they do not hold."""

    unit: str | None = None
    factors: Mapping[str, float | None] = field(default_factory=dict)
    value: Number = Number()
    normal: bool = False
    any_unit: bool = False  # take units that the schema does not name
    comma: bool = False  # in text a comma is before decimals, and points part thousands: `6,9 kg`

    def units(self) -> tuple[str, ...]:
        """All units known here, the main one first."""
        return tuple(dict.fromkeys([*([self.unit] if self.unit else []), *self.factors]))

    def leaves(self) -> dict[Path, Any]:
        """The number, and the unit where there is more than one."""
        units = self.units()
        if (len(units) <= 1 and not self.any_unit) or self.normal:
            return {VALUE: self.value}
        unbounded = Number(transform=self.value.transform, decimals=self.value.decimals)  # bounds depend on the unit
        return {VALUE: unbounded if self.unit else self.value, UNIT: Category(units, closed=not self.any_unit)}

    def apply(self, value: Any) -> Amount:
        """A quantity, a bare number, a part with value and unit, or text such as `6.9 kg` or `$6.90`."""
        amount = self._read(value)
        unit = amount.unit if amount.unit is not None else self.unit
        if unit is not None and not self.any_unit and unit not in self.units():
            raise ValueError(f"expected a unit of {', '.join(self.units()) or 'none'}, got {unit!r}")
        foreign = self.unit is not None and unit != self.unit
        if foreign and amount.value is not None:
            converted = self._converted(amount.value, unit)
            if converted is not None:
                self._check_foreign(converted, amount)
            if self.normal:
                if converted is None:
                    raise ValueError(f"expected a unit that {self.unit} is known in, got {unit!r}")
                amount, unit, foreign = Amount(converted, self.unit), self.unit, False
        if amount.value is not None:
            (Number() if foreign else self.value).check(amount.value)
        elif self.normal:
            unit = self.unit  # what is filled in will be in that one
        return Amount(amount.value, unit)

    def pointed(self, digits: str) -> str:
        """The digits of a text with a point before decimals, for those of this kind; and the other way round."""
        return digits.translate(SWAP) if self.comma else digits

    def split(self, value: Amount) -> Parts:
        """What is known of it."""
        parts = {VALUE: value.value, UNIT: value.unit}
        return {path: part for path, part in parts.items() if part is not None}

    def join(self, parts: Mapping[Path, Any]) -> Amount:
        """A number of a unit; the main one where none is told."""
        return Amount(parts.get(VALUE), parts.get(UNIT, self.unit))

    def mended(self, parts: Mapping[str, Any], free: Collection[str]) -> dict[str, Any]:
        """A number within the bounds, whatever its unit: bounds are in the main one."""
        mended, unit = dict(parts), parts.get("unit", self.unit)
        factor = 1 if unit == self.unit else self.factors.get(unit or "")
        if "value" in free and parts.get("value") is not None and factor:
            for bound, side in (self.value.minimum, max), (self.value.maximum, min):
                if bound is not None:
                    mended["value"] = side(mended["value"], bound / factor)
            if self.value.integer and factor == 1:
                mended["value"] = round(mended["value"])
        return mended

    def _converted(self, value: Any, unit: str | None) -> float | None:
        """How many of the main unit it is; None where that is not known."""
        factor = self.factors.get(unit or "")
        Number().check(value)
        return None if factor is None else float(f"{float(value) * factor:.15g}")  # 1.1 kg are 1100 g, to the digit

    def _check_foreign(self, converted: float, amount: Amount) -> None:
        """The bounds, of what it is in the main unit."""
        try:
            replace(self.value, integer=False).check(converted)
        except ValueError as error:
            wanted = str(error).partition(", got ")[0]
            raise ValueError(f"{wanted} {self.unit}, got {amount.value} {amount.unit}") from None

    def _read(self, value: Any) -> Amount:
        if isinstance(value, Amount):
            return value
        if is_number(value):
            return Amount(value, None)
        if isinstance(value, dict) and {key for key in value if key[:1] != "@"} <= {"value", "unit"}:
            return Amount(value.get("value"), None if value.get("unit") == "" else value.get("unit"))
        spelt = measure(value) if isinstance(value, str) else None
        if spelt is None:
            raise ValueError(f"expected a quantity such as {self.pointed('6.9')} {self.unit or 'kg'}, got {value!r}")
        return Amount(self._number(spelt.number), spelt.unit or None)

    def _number(self, digits: str) -> Any:
        """A number with commas between thousands; 6,9 may be 6.9, and is refused rather than read as 69."""
        text = self.pointed(digits)
        if "," in text and THOUSANDS.fullmatch(text) is None:
            such, mark = (f"{self.pointed('6.9')} or {self.pointed('1,234.5')}", "comma" if self.comma else "point")
            raise ValueError(f"expected a number such as {such}, with a {mark} before decimals, got {digits!r}")
        return number(text.replace(",", ""))
