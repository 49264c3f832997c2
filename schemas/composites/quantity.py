"""Quantities: a number and a unit. The schema names the units, each with its factor to the main unit where that is known.

Amounts in several units are learnt in one: `split` converts them into `learnt_in`, and `join` converts them back into their
own unit. The conversion is that of the schema, else of the table of common units (`kbdisk.schemas.text.units`), else
(currencies and unknown units) one estimated from the data (`kbdisk.data.scales`).
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
from kbdisk.schemas.text.units import Conversion
from kbdisk.schemas.text.units import conversion as unit_conversion

THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
VALUE, UNIT = ("value",), ("unit",)
BARE = ("bare",)  # an amount whose unit is unknown: carried along, not learnt
NAMES = ("value", "unit")  # the keys of a part
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
MAX_CONVERTED_DIGITS = 12  # of a predicted amount that was converted
MAX_CONVERTED_ERROR = 1e-3  # the relative error of a predicted amount that was converted
SWAP_POINT_AND_COMMA = str.maketrans(",.", ".,")


class Scale(NamedTuple):
    """The scale of a unit, made by training: an amount times `factor`, plus `offset`, is learnt; and its decimals."""

    factor: float = 1.0
    offset: float = 0.0
    decimals: int | None = None


@dataclass(frozen=True)
class Quantity:
    """A quantity. `unit` is the main unit, that of a bare number. `factors` are the other units, and how many of the main
    unit one of each is, where that is known. With `normal` all values become quantities of the main unit. Bounds are in
    the main unit; they do not hold for a unit whose factor is unknown.
    """

    unit: str | None = None
    factors: Mapping[str, float | None] = field(default_factory=dict)
    value: Number = Number()
    normal: bool = False
    any_unit: bool = False  # whether units that the schema does not name are allowed
    comma: bool = False  # in text a comma is before decimals, and points part thousands: `6,9 kg`
    names: tuple[str, str] = NAMES  # the keys of a part, such as amount and currency
    scales: Mapping[str, Scale] = field(default_factory=dict)  # of each unit, made by training

    def units(self) -> tuple[str, ...]:
        """All units known here, the main one first."""
        return self._units

    @cached_property
    def _units(self) -> tuple[str, ...]:
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
        """The unit in which amounts are learnt: that of training; else the main unit, that of factor 1, or the first."""
        if self.scales:
            return next((unit for unit, scale in self.scales.items() if scale[:2] == (1.0, 0.0)), None)
        base_units = [unit for unit, factor in self.factors.items() if factor == 1]
        return next(iter([*([self.unit] if self.unit else []), *base_units, *self.factors]), None)

    def conversion(self, unit: str | None) -> Conversion | None:
        """The conversion from a unit to the unit in which amounts are learnt; None where it is unknown."""
        unit, main = self.unit if unit is None else unit, self.learnt_in
        if self.normal or unit == main or unit is None or main is None:
            return Conversion()
        if unit in self.scales:
            return Conversion(*self.scales[unit][:2])
        factors = {**self.factors, self.unit: 1.0} if self.unit else self.factors
        factor, of_main = factors.get(unit), factors.get(main)
        if factor and of_main:
            return Conversion(factor / of_main)
        return unit_conversion(unit, main)

    @cached_property
    def _learnt_number(self) -> Number:
        """The leaf of amounts of several units as they are learnt, with the bounds that hold in every unit."""
        conversions = {unit: self.conversion(unit) for unit in self.units()}
        if all(
            conversion is None or conversion.is_identity for conversion in conversions.values()
        ):  # nothing is converted
            decimals, bounded = self.value.decimals, self.value if self.unit is None else None
            return bounded or Number(transform=self.value.transform, decimals=decimals, tolerance=self.value.tolerance)
        minimum = self.value.minimum
        from_zero = (
            minimum is not None
            and minimum >= 0
            and not any(conversion and conversion.offset for conversion in conversions.values())
        )
        return Number(
            transform=self.value.transform, minimum=0 if from_zero else None, tolerance=self._tolerance_as_learnt
        )

    @property
    def _tolerance_as_learnt(self) -> Tolerance | None:
        """The tolerance, which is stated in the main unit, in the unit in which amounts are learnt."""
        conversion = self.conversion(self.unit)
        return (
            self.value.tolerance
            if self.value.tolerance is None or conversion is None
            else self.value.tolerance.times(conversion.factor)
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
            unit = self.unit  # the unit of an amount that will be filled in
        return Amount(amount.value, unit)

    def pointed(self, digits: str) -> str:
        """The digits of a text of this kind with a point before decimals; and back."""
        return digits.translate(SWAP_POINT_AND_COMMA) if self.comma else digits

    def split(self, value: Amount) -> Parts:
        """The known parts, the amount in the unit in which it is learnt."""
        parts: Parts = {} if value.unit is None else {UNIT: value.unit}
        if value.value is None:
            return parts
        if value.unit is None and self.unit is None and len(self.units()) > 1:
            return {BARE: value.value}
        conversion = self.conversion(value.unit)
        amount = value.value if conversion is None or conversion.is_identity else conversion.of(value.value)
        return {VALUE: amount, **parts} if math.isfinite(amount) else parts

    def join(self, parts: Mapping[Path, Any]) -> Amount:
        """A quantity. Without a unit among the parts it has the main one, or that in which amounts are learnt."""
        unit, amount = parts.get(UNIT, self.unit), parts.get(VALUE)
        if BARE in parts:
            return Amount(parts[BARE], unit)
        if unit is None and amount is not None and len(self.units()) > 1:
            unit = self.learnt_in
        conversion = self.conversion(unit)
        if amount is None or conversion is None or conversion.is_identity:
            return Amount(amount, unit)
        return Amount(conversion.back(amount), unit)

    def resolved(self, amount: Amount) -> Amount:
        """A predicted amount with no more digits than the prediction, and no more decimals than amounts of its unit."""
        conversion, value = self.conversion(amount.unit), amount.value
        if value is None or amount.unit is None or not self.converts:
            return amount
        if conversion is not None and not conversion.is_identity:
            value = shortest(float(value), conversion)
        decimals = self.scales[amount.unit].decimals if amount.unit in self.scales else None
        rounded = value if decimals is None else round(float(value), decimals)
        return Amount(rounded or value, amount.unit)

    @property
    def converts(self) -> bool:
        """Whether amounts of some unit are converted to be learnt, or rounded in their own way."""
        identities = [conversion.is_identity for unit in self.units() if (conversion := self.conversion(unit))]
        return not self.normal and (bool(self.scales) or not all(identities))

    def mended(self, parts: Mapping[str, Any], free: Collection[str]) -> dict[str, Any]:
        """Parts whose number, in the unit in which it is learnt, is within the bounds, which are in the main unit."""
        mended, unit = dict(parts), parts.get("unit", self.unit)
        from_unit, from_main = self.conversion(unit), self.conversion(self.unit)
        if "value" in free and parts.get("value") is not None and from_unit is not None and from_main is not None:
            for bound, side in (self.value.minimum, max), (self.value.maximum, min):
                if bound is not None and (self.unit is not None or from_unit.is_identity):
                    mended["value"] = side(mended["value"], bound if from_main.is_identity else from_main.of(bound))
            if self.value.integer and unit == self.unit and from_unit.is_identity:
                mended["value"] = round(mended["value"])
        return mended

    def _converted(self, value: Any, unit: str | None) -> float | None:
        """An amount in the main unit; None where the conversion is unknown."""
        Number().check(value)
        known = self.into_main(unit or "")
        return None if known is None else known.of(value)

    def into_main(self, unit: str) -> Conversion | None:
        """The conversion from a unit to the main unit; None where it is unknown."""
        factor = self.factors.get(unit)
        return Conversion(factor) if factor else unit_conversion(unit, self.unit or "")

    @cached_property
    def _number_with_decimals(self) -> Number:
        return replace(self.value, integer=False)

    def _check_foreign(self, converted: float, amount: Amount) -> None:
        """Check the bounds for an amount that was converted into the main unit."""
        try:
            self._number_with_decimals.check(converted)
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
        text_parts = measure(value) if isinstance(value, str) else None
        if text_parts is None:
            raise ValueError(f"expected a quantity such as {self.pointed('6.9')} {self.unit or 'kg'}, got {value!r}")
        return Amount(self._number(text_parts.number), text_parts.unit or None)

    def _number(self, digits: str) -> Any:
        """A number with commas between thousands. 6,9 is refused, as it may be 6.9 as well as 69."""
        text = self.pointed(digits)
        if "," in text and THOUSANDS.fullmatch(text) is None:
            such, mark = (f"{self.pointed('6.9')} or {self.pointed('1,234.5')}", "comma" if self.comma else "point")
            raise ValueError(f"expected a number such as {such}, with a {mark} before decimals, got {digits!r}")
        return number(text.replace(",", ""))


def shortest(amount: float, conversion: Conversion) -> float:
    """The amount with the fewest digits that equals a predicted amount to the digits of the prediction."""
    learnt = conversion.of(amount)
    step = 10.0 ** int(Decimal(f"{learnt:.12g}").normalize().as_tuple().exponent)
    for digits in range(1, MAX_CONVERTED_DIGITS + 1):
        short = float(f"{amount:.{digits}g}")
        error = abs(short * conversion.factor + conversion.offset - learnt)
        if error <= step / 2 and error <= MAX_CONVERTED_ERROR * abs(learnt):
            return short
    return amount
