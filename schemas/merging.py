"""The union of two kinds: the kind that takes the values of both, with the wider bounds, all labels, all parts of a date."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from kbdisk.schemas.composites.date import NUMBERS, Date
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.kinds import Category, Link, Number, Set, Text


def merged(first: Any, second: Any) -> Any:
    """The kind that takes the values of both; None where the kinds are too different."""
    if type(first) is not type(second) or not is_dataclass(first):
        return None
    if first == second:
        return first
    merge = MERGES.get(type(first), _merged_fields)
    return merge(first, second)


def _merged_numbers(first: Number, second: Number) -> Number | None:
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


def _merged_labels(first: Category, second: Category) -> Category | None:
    if first.ordered or second.ordered:
        return None
    return Category(tuple(dict.fromkeys((*first.values, *second.values))), first.closed and second.closed)


def _merged_links(first: Link, second: Link) -> Link | None:
    values = tuple(dict.fromkeys((*first.values, *second.values))) if first.values and second.values else ()
    return Link(first.to if first.to == second.to else None, values)


def _merged_sets(first: Set, second: Set) -> Set | None:
    of = merged(first.of, second.of)
    return None if of is None else Set(of, _widest(max, first.most, second.most))


def _merged_texts(first: Text, second: Text) -> Text | None:
    if first.language != second.language:
        return None
    return Text(
        first.language, _widest(max, first.max_length, second.max_length), min(first.min_length, second.min_length)
    )


def _merged_dates(first: Date, second: Date) -> Date | None:
    if (first.order, first.coarse) != (second.order, second.coarse):
        return None
    return replace(
        first,
        parts=tuple(name for name in NUMBERS if name in {*first.parts, *second.parts}),
        minimum=_widest(min, first.minimum, second.minimum),
        maximum=_widest(max, first.maximum, second.maximum),
    )


def _merged_quantities(first: Quantity, second: Quantity) -> Quantity | None:
    """The union of quantities that are learnt in the same unit and agree on the conversions of other units."""
    value = merged(first.value, second.value)
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


MERGES: Mapping[type[Any], Any] = {
    Number: _merged_numbers,
    Category: _merged_labels,
    Link: _merged_links,
    Set: _merged_sets,
    Text: _merged_texts,
    Date: _merged_dates,
    Quantity: _merged_quantities,
}


def _merged_fields(first: Any, second: Any) -> Any:
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
                else merged(first_value[key], second_value[key])
                for key in first_value
            }
            if any(merged_kinds[key] is None and first_value[key] is not None for key in first_value):
                return None
            changes[field.name] = merged_kinds
            continue
        kind = merged(first_value, second_value)
        if kind is None:
            return None
        changes[field.name] = kind
    return replace(first, **changes)


def _widest(choose: Any, first: Any, second: Any) -> Any:
    """The wider of two bounds; None (no bound) where either is None."""
    return None if first is None or second is None else choose(first, second)
