"""The union of two kinds: the kind that takes the values of both, with the wider bounds, all labels, all parts of a date."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from kbdisk.plugins import load_part
from kbdisk.schemas.composites import row_of
from kbdisk.schemas.composites.date import NUMBERS, Date
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.kinds import Category, Link, Number, Set, Text


def merge_kinds(first: Any, second: Any) -> Any:
    """The kind that takes the values of both; None where the kinds are too different."""
    if type(first) is not type(second) or not is_dataclass(first):
        return None
    if first == second:
        return first
    row = row_of(first)
    merge = None if row is None else load_part(row.merge)
    return (merge or _merge_fields)(first, second)


def merge_numbers(first: Number, second: Number) -> Number | None:
    """The union of numbers: the wider bounds, the more decimals."""
    transforms = {first.transform, second.transform} - {"auto"}
    if len(transforms) > 1 or (first.above, first.below) != (second.above, second.below):
        return None
    integer = first.integer and second.integer
    return replace(
        first,
        transform=next(iter(transforms), "auto"),
        integer=integer,
        minimum=_widest(min, first.minimum, second.minimum),
        maximum=_widest(max, first.maximum, second.maximum),
        decimals=_widest(max, *((number.decimals if integer else _decimals(number)) for number in (first, second))),
    )


def _decimals(number: Number) -> int | None:
    """The number of decimals to which a number is rounded; None where it is not."""
    return 0 if number.integer and number.decimals is None else number.decimals


def merge_labels(first: Category, second: Category) -> Category | None:
    """The union of categories: all labels."""
    if first.ordered or second.ordered:
        return None
    return Category(tuple(dict.fromkeys((*first.values, *second.values))), first.closed and second.closed)


def merge_links(first: Link, second: Link) -> Link | None:
    """The union of links: all ids, and the class if both lead to it."""
    values = tuple(dict.fromkeys((*first.values, *second.values))) if first.values and second.values else ()
    return Link(first.to if first.to == second.to else None, values)


def merge_sets(first: Set, second: Set) -> Set | None:
    """The union of sets: that of their members."""
    members = merge_kinds(first.of, second.of)
    return None if members is None else Set(members, _widest(max, first.most, second.most))


def merge_texts(first: Text, second: Text) -> Text | None:
    """The union of texts in one language."""
    if first.language != second.language:
        return None
    return Text(
        first.language,
        _widest(max, first.max_length, second.max_length),
        min(first.min_length, second.min_length),
        first.given and second.given,
    )


def merge_dates(first: Date, second: Date) -> Date | None:
    """The union of dates: all parts, the wider bounds."""
    if (first.order, first.coarse) != (second.order, second.coarse):
        return None
    return replace(
        first,
        parts=tuple(name for name in NUMBERS if name in {*first.parts, *second.parts}),
        minimum=_widest(min, first.minimum, second.minimum),
        maximum=_widest(max, first.maximum, second.maximum),
    )


def merge_quantities(first: Quantity, second: Quantity) -> Quantity | None:
    """The union of quantities that are learnt in the same unit and agree on the conversions of other units."""
    value = merge_kinds(first.value, second.value)
    same_form = all(getattr(first, name) == getattr(second, name) for name in ("normal", "any_unit", "comma", "names"))
    units = dict.fromkeys((*first.units(), *second.units()))
    conversions = {unit: (first.conversion(unit), second.conversion(unit)) for unit in units}
    if value is None or not same_form or first.learnt_in != second.learnt_in:
        return None
    if any(
        first_conversion is not None and second_conversion is not None and first_conversion != second_conversion
        for first_conversion, second_conversion in conversions.values()
    ):
        return None
    unit = first.unit if first.unit == second.unit else None
    factors = {**second.factors, **first.factors}
    for main in (first.unit, second.unit) if unit is None else ():
        if main is not None:
            factors[main] = 1.0
    scales = {**first.scales, **second.scales}
    return replace(first, unit=unit, factors=factors, value=value, scales=scales)


def _merge_fields(first: Any, second: Any) -> Any:
    """The union of composites, field by field: kinds are merged, all other fields have to be equal."""
    changes: dict[str, Any] = {}
    for field in fields(first):
        first_value, second_value = getattr(first, field.name), getattr(second, field.name)
        if first_value == second_value:
            continue
        if field.name == "most":  # values of a list or a map that are learnt
            changes[field.name] = _widest(max, first_value, second_value)
            continue
        if (
            isinstance(first_value, Mapping)
            and isinstance(second_value, Mapping)
            and first_value.keys() == second_value.keys()
        ):
            merged_kinds = {
                key: first_value[key]
                if first_value[key] == second_value[key]
                else merge_kinds(first_value[key], second_value[key])
                for key in first_value
            }
            if any(merged_kinds[key] is None and first_value[key] is not None for key in first_value):
                return None
            changes[field.name] = merged_kinds
            continue
        kind = merge_kinds(first_value, second_value)
        if kind is None:
            return None
        changes[field.name] = kind
    return replace(first, **changes)


def _widest(choose: Any, first: Any, second: Any) -> Any:
    """The wider of two bounds; None (no bound) where either is None."""
    return None if first is None or second is None else choose(first, second)
