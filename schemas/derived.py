"""Properties with a formula: computed from what is given and what was filled in, never predicted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from kbdisk.entity import Path, Quantity
from kbdisk.schemas.composites.base import split_kind
from kbdisk.schemas.composites.quantity import Quantity as QuantityKind
from kbdisk.schemas.kinds import Number
from kbdisk.schemas.schema import Class, Property

DIGITS = 10  # of a result without decimals of its own: more would be noise


def computed(
    of: Class, leaves: Mapping[Path, Any], closed: Collection[Path] = ()
) -> Iterator[tuple[Path, Property, Any]]:
    """The derived properties that have no value, and what their formulas give; nothing of what lacks a part.

    What is computed counts in the formulas of others. What is closed stays as it is, without a value.
    """
    known = dict(leaves)
    left = {
        path: (one, one.formula)
        for path, one in of.properties.items()
        if one.formula is not None and one.role != "ignore" and path not in closed and not _has(leaves, path)
    }
    while found := {path: result for path, (_, formula) in left.items() if (result := formula.of(known)) is not None}:
        for path, result in found.items():
            one, _ = left.pop(path)
            value = _of_kind(one, result)
            known |= {(*path, *within): leaf for within, leaf in split_kind(one.kind, value).items()}
            yield path, one, value


def _has(leaves: Mapping[Path, Any], path: Path) -> bool:
    return path in leaves or (*path, "value") in leaves


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
