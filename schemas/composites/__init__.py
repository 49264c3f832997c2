"""Composites, the kinds of values made of several leaves: quantity, date, coordinate, list, map.

To add a composite: a frozen dataclass with the methods of `Composite`, and one row in COMPOSITES with an example. Nothing
else has to change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kbdisk.entity import Coordinate as Place
from kbdisk.entity import Date as Day
from kbdisk.entity import Quantity as Amount
from kbdisk.schemas.composites.base import EACH, Composite, Kind, Parts, leaves_of, show_pattern
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import CARRIED, NUMBERS, Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import UNIT_NAMES, VALUE_NAMES, Quantity
from kbdisk.schemas.kinds import Category, Number, Set

__all__ = [
    "COMPOSITES",
    "EACH",
    "Composite",
    "Kind",
    "Parts",
    "composite_of",
    "leaves_of",
    "quantity_of",
    "show_pattern",
]

COORDINATE_NAMES = (frozenset({"lat", "latitude"}), frozenset({"lon", "long", "lng", "longitude"}))
COORDINATE_KEYS = [{latitude, longitude} for latitude in COORDINATE_NAMES[0] for longitude in COORDINATE_NAMES[1]]


class Row(NamedTuple):
    """A row of COMPOSITES: the dataclass, an example, and values from loaders that fit the example."""

    composite: type[Any]
    example: Any
    values: tuple[Any, ...]


COMPOSITES: dict[str, Row] = {
    "quantity": Row(
        Quantity,
        Quantity(unit="g", factors={"kg": 1000.0}, value=Number(minimum=0)),
        (190.0, Amount(190.0, "g"), {"value": 0.19, "unit": "kg"}, "190 g", Amount(None, "kg")),
    ),
    "date": Row(
        Date, Date(), (Day(2019, 10, 15), {"year": 1999.0, "month": 3}, "1912-11-28", Day(-43, precision="century"))
    ),
    "coordinate": Row(
        Coordinate, Coordinate(), (Place(48.2, 16.37), {"lat": -33, "lng": 151.2}, [12.5, -69.97], "48.2, 16.37")
    ),
    "list": Row(
        Listed,
        Listed({"year": Number(integer=True), "share": Category()}),
        ([{"year": 1901, "share": "1"}, {"year": 1911}], {"year": 1903}),
    ),
    "map": Row(Mapped, Mapped({"name": Category(), "symbol": Category()}), ({"EUR": {"name": "Euro", "symbol": "€"}},)),
}


def composite_of(fields: Mapping[str, Kind]) -> Kind | None:
    """The quantity, coordinate or date that a part with these fields is, by their names and kinds; None where it is none."""
    names = set(fields)
    value, unit = names & VALUE_NAMES, names & UNIT_NAMES
    if value and unit and value | unit == names:
        return quantity_of(fields[min(value)], [fields[name] for name in sorted(unit)])
    if names in (*COORDINATE_KEYS, frozenset().union(*COORDINATE_NAMES)):
        return Coordinate() if all(isinstance(kind, Number) for kind in fields.values()) else None
    if {"year"} < names <= {*NUMBERS} or names == {*NUMBERS, *CARRIED}:
        year = fields["year"]
        if isinstance(year, Number) and all(isinstance(fields[name], Number) for name in names & {*NUMBERS}):
            parts = tuple(name for name in NUMBERS if name in names)
            return Date(parts=parts, minimum=_whole_bound(year.minimum), maximum=_whole_bound(year.maximum))
    return None


def quantity_of(value: Kind | None, units: Iterable[Kind]) -> Quantity | None:
    """The quantity of a number and the kinds of its unit; None where the value is no number."""
    if value is not None and not isinstance(value, Number):
        return None
    known: dict[str, None] = {}
    for unit in units:
        closed = unit.of if isinstance(unit, Set) else unit
        known |= dict.fromkeys(map(str, getattr(closed, "values", ())))
    number = value if isinstance(value, Number) else Number()
    if len(known) == 1:
        return Quantity(next(iter(known)), value=number)
    return Quantity(None, known, number, any_unit=not known)


def _whole_bound(bound: float | None) -> int | None:
    return None if bound is None else int(bound)
