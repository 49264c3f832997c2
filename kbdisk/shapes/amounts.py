"""Quantities: a part with value and unit, text such as 6.9 kg or $6.90, or bare numbers in the main unit. Coordinates: parts, pairs, text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kbdisk.entity import Coordinate, Path, Quantity
from kbdisk.schemas.composites import Kind, Parts
from kbdisk.schemas.composites.base import fields_of
from kbdisk.schemas.composites.coordinate import LATITUDE, LONGITUDE, NAMES, PAIR
from kbdisk.schemas.composites.coordinate import Coordinate as CoordinateKind
from kbdisk.schemas.composites.quantity import UNIT, VALUE, shortest
from kbdisk.schemas.composites.quantity import Quantity as QuantityKind
from kbdisk.schemas.text.numerals import Measure, measure
from kbdisk.shapes.habit import TYPED, Form, Habit
from kbdisk.shapes.scalars import given

BARE, DIGITS, PAIRED = Form("bare"), Form("digits"), Form("pair")


# ---------------------------------------------------------------- quantities


def see_quantity(kind: QuantityKind, raw: Any, habit: Habit) -> None:
    """A quantity that fits; a unit alone tells nothing."""
    unit: str | None = None
    if kind.apply(raw).value is None:
        return
    if isinstance(raw, Quantity):
        form, unit, number = TYPED, raw.unit, raw.value
    elif isinstance(raw, dict):
        number, unit = _number_and_unit(kind, raw)
        names = [key for key, part in zip(kind.names, (number, unit), strict=True) if part is not None]
        form = Form("part", " ".join(key for key in raw if key in names))
    elif isinstance(raw, str):
        spelt = measure(raw)
        assert spelt is not None
        habit.numbers.see_text(kind.pointed(spelt.number))
        unit, number = spelt.unit, None
        form = Form("price" if spelt.before else "text", spelt.gap) if unit else DIGITS
    else:
        form, number = BARE, raw
    if number is not None:
        habit.numbers.see(number)
    habit.saw(form, unit or kind.unit or "")


def quantity_ways(kind: QuantityKind, value: Quantity, habit: Habit) -> Iterator[Form]:
    """As quantities of the same unit are."""
    return habit.ways(value.unit or "")


def write_quantity(kind: QuantityKind, form: Form, value: Quantity, habit: Habit) -> Any:
    """A quantity in a form."""
    if form == TYPED:
        return value
    if value.value is None:
        raise ValueError("expected a number, got a unit alone")
    match form.name:
        case "part":
            parts = dict(zip(kind.names, (habit.numbers.typed(value.value), value.unit), strict=True))
            return {key: parts[key] for key in form.detail.split() if parts[key] is not None}
        case "text" | "price":
            spelt = Measure("", gap=form.detail, before=form.name == "price")
            return spelt.like(kind.pointed(habit.numbers.text(value.value)), str(value.unit))
        case "digits":
            return kind.pointed(habit.numbers.text(value.value))
    return habit.numbers.typed(value.value)


def fill_quantity(kind: QuantityKind, raw: Any, new: Parts, habit: Habit) -> dict[Path, Any]:
    """The number, or the unit, of one that has the other; the number is that of its unit."""
    if not isinstance(raw, Quantity | dict):
        raise given(raw)
    number, unit = (raw.value, raw.unit) if isinstance(raw, Quantity) else _number_and_unit(kind, raw)
    if number is not None:
        new = {path: part for path, part in new.items() if path != VALUE}
    elif VALUE in new and kind.normal and unit is not None:
        new = {**new, VALUE: _of_unit(kind, new[VALUE], unit)}
    elif VALUE in new:
        known: Parts = {UNIT: unit} if unit is not None else {}
        new = {**new, VALUE: kind.join({**new, **known}).value}
    if isinstance(raw, Quantity):
        return {(): replace(raw, **{str(path[0]): part for path, part in new.items()})}
    names: dict[Path, str] = {VALUE: kind.names[0], UNIT: kind.names[1]}
    return {(names[path],): habit.numbers.typed(part) if path == VALUE else part for path, part in new.items()}


def _number_and_unit(kind: QuantityKind, part: dict[str, Any]) -> tuple[Any, Any]:
    fields = fields_of(part)
    return fields.get(kind.names[0]), fields.get(kind.names[1])


def _of_unit(kind: QuantityKind, amount: Any, unit: str) -> Any:
    """An amount of the main unit in another."""
    found = kind.into_main(unit) if unit != kind.unit else None
    return amount if found is None else shortest(found.back(amount), found)


# ---------------------------------------------------------------- coordinates


def see_coordinate(kind: CoordinateKind, raw: Any, habit: Habit) -> None:
    """A place that fits."""
    form = TYPED
    place = kind.apply(raw)
    if isinstance(raw, dict):
        form = Form("part", " ".join(key for key in raw if key in NAMES))
    elif isinstance(raw, str):
        spelt = PAIR.fullmatch(raw)
        assert spelt is not None
        habit.numbers.see_text(spelt[1])
        habit.numbers.see_text(spelt[2])
        form = Form("text", raw[spelt.end(1) : spelt.start(2)])
    elif not isinstance(raw, Coordinate):
        form = PAIRED
    for degrees in (place.latitude, place.longitude) if not isinstance(raw, str) else ():
        if degrees is not None:
            habit.numbers.see(degrees)
    habit.saw(form)


def coordinate_ways(kind: CoordinateKind, value: Coordinate, habit: Habit) -> Iterator[Form]:
    """As the others are."""
    return habit.ways()


def write_coordinate(kind: CoordinateKind, form: Form, value: Coordinate, habit: Habit) -> Any:
    """A place in a form."""
    told = {name: degrees for name in ("latitude", "longitude") if (degrees := getattr(value, name)) is not None}
    match form.name:
        case "typed":
            return value
        case "part":
            named = {key: told.get(NAMES[key]) for key in form.detail.split()}
            return {key: habit.numbers.typed(degrees) for key, degrees in named.items() if degrees is not None}
    if len(told) < 2:
        raise ValueError("expected a latitude and a longitude, got one of them")
    pair = [told["latitude"], told["longitude"]]
    pair = pair[::-1] if kind.longitude_first else pair
    return form.detail.join(map(habit.numbers.text, pair)) if form.name == "text" else [*map(habit.numbers.typed, pair)]


def fill_coordinate(kind: CoordinateKind, raw: Any, new: Parts, habit: Habit) -> dict[Path, Any]:
    """The half that is missing."""
    if isinstance(raw, Coordinate):
        return {(): replace(raw, **{str(path[0]): part for path, part in new.items()})}
    degrees = {path: habit.numbers.typed(part) for path, part in new.items() if path in (LATITUDE, LONGITUDE)}
    if isinstance(raw, list) and len(raw) == 2:
        first = (LONGITUDE,) if kind.longitude_first else (LATITUDE,)
        return {(0 if path in first else 1,): part for path, part in degrees.items()}
    if isinstance(raw, dict):
        return {(_name(str(path[0]), raw, habit),): part for path, part in degrees.items()}
    raise given(raw)


def _name(half: str, raw: dict[str, Any], habit: Habit) -> str:
    """What latitude or longitude is called: in the part itself, or in the others."""
    usual = [key for form in habit.ways() if form.name == "part" for key in form.detail.split()]
    return next((key for key in [*raw, *usual] if NAMES.get(key) == half), half)


def loose(kind: Kind) -> bool:
    """Whether numbers are turned into others, so that what is read back is only near."""
    return isinstance(kind, QuantityKind) and kind.normal
