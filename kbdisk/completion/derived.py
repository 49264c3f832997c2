"""Properties with a formula: computed from what is given and what was filled in, never predicted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kbdisk.entity import Path, Quantity
from kbdisk.schemas.composites.quantity import Quantity as QuantityKind
from kbdisk.schemas.leaf import Number
from kbdisk.schemas.schema import Class, Property

DIGITS = 10  # of a result without decimals of its own: more would be noise


def computed(of: Class, leaves: Mapping[Path, Any]) -> Iterator[tuple[Path, Property, Any]]:
    """The derived properties that have no value, and what their formulas give; nothing of what lacks a part."""
    for path, one in of.properties.items():
        if one.formula is None or one.role == "ignore" or path in leaves or (*path, "value") in leaves:
            continue
        result = one.formula.of(leaves)
        if result is not None:
            yield path, one, _of_kind(one, result)


def _of_kind(one: Property, result: float | bool) -> Any:
    """The result as a value of the property."""
    kind = one.kind
    number = kind.value if isinstance(kind, QuantityKind) else kind
    if isinstance(number, Number) and not isinstance(result, bool):
        whole = number.integer or isinstance(result, int)
        result = round(result) if whole else _rounded(result, number.decimals)
    return Quantity(result, kind.unit) if isinstance(kind, QuantityKind) else result


def _rounded(result: float, decimals: int | None) -> float:
    return float(f"{result:.{DIGITS}g}") if decimals is None else round(result, decimals)
