"""A quantity: a number of some unit. Units are those that the schema knows, each with what one of it is in the main one.

Amounts in several units are learnt in one: `split` converts them into `learnt_in`, and `join` converts them back into
their own unit. What one unit is in another is said by the schema, else by the table of common units, else (currencies,
and what nobody knows) by the data: see `kbdisk.data.scales`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

from kbdisk.entity import Path
from kbdisk.entity import Quantity as Amount
from kbdisk.schemas.composites.base import Parts, fields_of
from kbdisk.schemas.kinds import Category, Number, Tolerance
from kbdisk.schemas.text.numerals import is_number, measure, number
from kbdisk.schemas.text.units import Conversion, conversion

THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
VALUE, UNIT = ("value",), ("unit",)
BARE = ("bare",)  # an amount of which nobody knows the unit: carried along, not learnt
NAMES = ("value", "unit")  # of the keys of a part
VALUE_NAMES = frozenset(
    ["value", "numericValue", "hasNumericalValue", "quantityAmount", "amount", "price", "has_numeric_value"]
)
UNIT_NAMES = frozenset(
    [
        "unit",
        "hasUnit",
        "unitCode",
        "unitText",
        "currency",
        "priceCurrency",
        "currencyCode",
        "quantityUnit",
        "has_unit",
        "uom",
    ]
)
MOST_DIGITS = 12  # of a predicted amount that was converted
NEAR = 1e-3  # how far off a predicted amount may be that had to be converted
SWAP = str.maketrans(",.", ".,")


class Scale(NamedTuple):
    """What training found of a unit: an amount times `factor`, plus `offset`, is what is learnt; and its decimals."""

    factor: float = 1.0
    offset: float = 0.0
    decimals: int | None = None


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
    names: tuple[str, str] = NAMES  # what the keys of a part are called, such as amount and currency
    scales: Mapping[str, Scale] = field(default_factory=dict)  # of each unit, made by training

    def units(self) -> tuple[str, ...]:
        """All units known here, the main one first."""
        return tuple(dict.fromkeys([*([self.unit] if self.unit else []), *self.factors]))

    def leaves(self) -> dict[Path, Any]:
        """The number, and the unit where there is more than one."""
        units = self.units()
        if self.normal:
            return {VALUE: self.value}
        if len(units) <= 1 and not self.any_unit:
            return {VALUE: self._learnt_number if self.converts else self.value}
        return {VALUE: self._learnt_number, UNIT: Category(units, closed=not self.any_unit)}

    @cached_property
    def learnt_in(self) -> str | None:
        """The unit in which amounts are learnt: that of training; else the main one, that of factor 1, or the first."""
        if self.scales:
            return next((unit for unit, scale in self.scales.items() if scale[:2] == (1.0, 0.0)), None)
        ones = [unit for unit, factor in self.factors.items() if factor == 1]
        return next(iter([*([self.unit] if self.unit else []), *ones, *self.factors]), None)

    def conversion(self, unit: str | None) -> Conversion | None:
        """How amounts of a unit become amounts as they are learnt; None where nothing is known of it."""
        unit, main = self.unit if unit is None else unit, self.learnt_in
        if self.normal or unit == main or unit is None or main is None:
            return Conversion()
        if unit in self.scales:
            return Conversion(*self.scales[unit][:2])
        factors = {**self.factors, self.unit: 1.0} if self.unit else self.factors
        factor, of_main = factors.get(unit), factors.get(main)
        if factor and of_main:
            return Conversion(factor / of_main)
        return conversion(unit, main)

    @cached_property
    def _learnt_number(self) -> Number:
        """What amounts of several units are as they are learnt, with such bounds as hold in whatever unit."""
        known = {unit: self.conversion(unit) for unit in self.units()}
        if all(found is None or found.is_identity for found in known.values()):  # nothing is converted
            decimals, bounded = self.value.decimals, self.value if self.unit is None else None
            return bounded or Number(transform=self.value.transform, decimals=decimals, tolerance=self.value.tolerance)
        least = self.value.minimum
        zero = least is not None and least >= 0 and not any(found and found.offset for found in known.values())
        return Number(transform=self.value.transform, minimum=0 if zero else None, tolerance=self._tolerance_as_learnt)

    @property
    def _tolerance_as_learnt(self) -> Tolerance | None:
        """The tolerance, which is stated in the main unit, in the unit that amounts are learnt in."""
        found = self.conversion(self.unit)
        return (
            self.value.tolerance
            if self.value.tolerance is None or found is None
            else self.value.tolerance.times(found.factor)
        )

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
        """What is known of it, the amount as it is learnt."""
        parts: Parts = {} if value.unit is None else {UNIT: value.unit}
        if value.value is None:
            return parts
        if value.unit is None and self.unit is None and len(self.units()) > 1:
            return {BARE: value.value}
        found = self.conversion(value.unit)
        amount = value.value if found is None or found.is_identity else found.of(value.value)
        return {VALUE: amount, **parts} if math.isfinite(amount) else parts

    def join(self, parts: Mapping[Path, Any]) -> Amount:
        """A number of a unit: the main one where none is told, or that in which amounts are learnt."""
        unit, amount = parts.get(UNIT, self.unit), parts.get(VALUE)
        if BARE in parts:
            return Amount(parts[BARE], unit)
        if unit is None and amount is not None and len(self.units()) > 1:
            unit = self.learnt_in
        found = self.conversion(unit)
        if amount is None or found is None or found.is_identity:
            return Amount(amount, unit)
        return Amount(found.back(amount), unit)

    def resolved(self, amount: Amount) -> Amount:
        """An amount that was predicted, with no more digits than the prediction has, nor decimals than others of its unit."""
        found, value = self.conversion(amount.unit), amount.value
        if value is None or amount.unit is None or not self.converts:
            return amount
        if found is not None and not found.is_identity:
            value = shortest(float(value), found)
        decimals = self.scales[amount.unit].decimals if amount.unit in self.scales else None
        short = value if decimals is None else round(float(value), decimals)
        return Amount(short or value, amount.unit)

    @property
    def converts(self) -> bool:
        """Whether amounts of any unit are learnt as something else than they are, or are rounded in their own way."""
        identities = [found.is_identity for unit in self.units() if (found := self.conversion(unit))]
        return not self.normal and (bool(self.scales) or not all(identities))

    def mended(self, parts: Mapping[str, Any], free: Collection[str]) -> dict[str, Any]:
        """A number, as it is learnt, within the bounds, which are in the main unit."""
        mended, unit = dict(parts), parts.get("unit", self.unit)
        known, main = self.conversion(unit), self.conversion(self.unit)
        if "value" in free and parts.get("value") is not None and known is not None and main is not None:
            for bound, side in (self.value.minimum, max), (self.value.maximum, min):
                if bound is not None and (self.unit is not None or known.is_identity):
                    mended["value"] = side(mended["value"], bound if main.is_identity else main.of(bound))
            if self.value.integer and unit == self.unit and known.is_identity:
                mended["value"] = round(mended["value"])
        return mended

    def _converted(self, value: Any, unit: str | None) -> float | None:
        """How many of the main unit it is; None where that is not known."""
        Number().check(value)
        found = self.into_main(unit or "")
        return None if found is None else found.of(value)

    def into_main(self, unit: str) -> Conversion | None:
        """How amounts of a unit become amounts of the main one; None where that is not known."""
        factor = self.factors.get(unit)
        return Conversion(factor) if factor else conversion(unit, self.unit or "")

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
        if isinstance(value, dict) and (fields := fields_of(value)).keys() <= set(self.names):
            amount, unit = (fields.get(name) for name in self.names)
            return Amount(amount, None if unit == "" else unit)
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


def shortest(amount: float, found: Conversion) -> float:
    """An amount of a unit with the fewest digits that say what was predicted, to the digits that this has."""
    learnt = found.of(amount)
    step = 10.0 ** int(Decimal(f"{learnt:.12g}").normalize().as_tuple().exponent)
    for digits in range(1, MOST_DIGITS + 1):
        short = float(f"{amount:.{digits}g}")
        off = abs(short * found.factor + found.offset - learnt)
        if off <= step / 2 and off <= NEAR * abs(learnt):
            return short
    return amount
