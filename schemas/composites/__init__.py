"""Composites, the kinds of values made of several leaves: quantity, date, coordinate, list, map.

To add a composite: a frozen dataclass with the methods of `Composite`, and one row in COMPOSITES with an example. Nothing
else has to change.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kbdisk.entity import Coordinate as Place
from kbdisk.entity import Date as Day
from kbdisk.entity import Quantity as Amount
from kbdisk.schemas.composites.base import EACH, Composite, Kind, Parts, leaves_of, show_pattern
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.kinds import Category, Number

__all__ = ["COMPOSITES", "EACH", "Composite", "Kind", "Parts", "leaves_of", "show_pattern"]


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
