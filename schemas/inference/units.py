"""The quantity that amounts in some units are: which unit is the main one, and what the others are in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kbdisk.entity import Path
from kbdisk.schemas.composites.quantity import NAMES, Quantity
from kbdisk.schemas.kinds import Number
from kbdisk.schemas.schema import Schema
from kbdisk.schemas.text.units import conversion, is_currency


def quantity_in(
    units: Counter[str], number: Number, bare: bool, names: tuple[str, str] = NAMES, comma: bool = False
) -> Quantity:
    """A quantity whose main unit is the most frequent; where amounts have none at times, no unit is that of bare numbers.

    Factors are in the most frequent unit: those of common units. Where a unit needs an offset, or nobody knows it, the
    factor stays open.
    """
    ordered = [unit for unit, _ in units.most_common()]
    if not ordered:
        return Quantity(value=number, comma=comma, names=names)
    main, *others = ordered
    factors = {unit: factor_of(unit, main) for unit in others}
    if not bare:
        return Quantity(main, factors, number, comma=comma, names=names)
    factors = {main: 1.0, **factors} if any(factors.values()) else dict.fromkeys(ordered)
    return Quantity(None, factors, number, comma=comma, names=names)


def factor_of(unit: str, main: str) -> float | None:
    """How many of one unit another is; None where that is not known, or no factor alone says it."""
    found = conversion(unit, main)
    return None if found is None or found.offset else found.factor


def remark(factors: Mapping[str, float | None], main: str | None) -> str:
    """What is said of units whose factors are not known."""
    open_ones = [
        unit for unit, factor in factors.items() if factor is None and (main is None or not conversion(unit, main))
    ]
    if not open_ones or (main is None and len(factors) == 1):
        return ""
    money = all(map(is_currency, open_ones))
    return (
        ", which training compares by their amounts"
        if money
        else f"; what {', '.join(open_ones)} are is left to training"
    )


def in_one_unit(schema: Schema, counts: Mapping[tuple[str, Path], int]) -> Schema:
    """The schema whose classes have the same main unit of a property: that of most values, where each becomes the other."""
    votes: dict[Path, Counter[str]] = {}
    for name, of in schema.classes.items():
        for path, one in of.properties.items():
            if isinstance(one.kind, Quantity) and one.kind.learnt_in is not None:
                votes.setdefault(path, Counter())[one.kind.learnt_in] += counts.get((name, path), 0)
    mains = {path: max(sorted(units), key=units.__getitem__) for path, units in votes.items() if len(units) > 1}
    classes = {}
    for name, of in schema.classes.items():
        properties = {
            path: replace(one, kind=_with_main(one.kind, mains[path])) if path in mains else one
            for path, one in of.properties.items()
        }
        classes[name] = replace(of, properties=properties)
    return replace(schema, classes=classes) if mains else schema


def _with_main(kind: Any, main: str) -> Any:
    """A quantity with another main unit; as it is where its own has no factor to that."""
    if not isinstance(kind, Quantity) or kind.learnt_in in (None, main):
        return kind
    units = dict.fromkeys((main, *kind.units()))
    factors = {unit: factor_of(unit, main) for unit in units}
    own = factor_of(str(kind.learnt_in), main)
    money = not any(factor for unit, factor in factors.items() if unit != main)  # nothing is known of any
    if own is None and not money:
        return kind
    if kind.unit is None:
        return replace(kind, factors=dict.fromkeys(units) if money else {**factors, main: 1.0})
    least = kind.value.minimum
    value = replace(kind.value, integer=False, decimals=None, minimum=0 if least is not None and least >= 0 else None, maximum=None)  # fmt: skip
    return replace(
        kind, unit=main, factors={unit: factor for unit, factor in factors.items() if unit != main}, value=value
    )
