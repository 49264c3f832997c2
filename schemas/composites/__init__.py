"""COMPOSITES, the table of the kinds of values made of several leaves: quantity, date, coordinate, list, map.

A composite is a frozen dataclass with the methods of `Composite`. All parts of its row but an example have defaults.
docs/extending.md adds a composite from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kbdisk.entity import Coordinate as Place
from kbdisk.entity import Date as Day
from kbdisk.entity import Quantity as Amount
from kbdisk.plugins import Part, Table, load_part
from kbdisk.schemas.composites.base import EACH, Composite, Kind, Parts, leaves_of, show_pattern
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import CARRIED, NUMBERS, Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import UNIT_NAMES, VALUE_NAMES, Quantity
from kbdisk.schemas.kinds import KINDS, Category, KindRow, Number, Set

__all__ = [
    "COMPOSITES",
    "EACH",
    "Composite",
    "CompositeKind",
    "Kind",
    "Parts",
    "composite_of",
    "kind_rows",
    "leaves_of",
    "name_of",
    "quantity_of",
    "row_of",
    "show_pattern",
]

COORDINATE_NAMES = (frozenset({"lat", "latitude"}), frozenset({"lon", "long", "lng", "longitude"}))
COORDINATE_KEYS = [{latitude, longitude} for latitude in COORDINATE_NAMES[0] for longitude in COORDINATE_NAMES[1]]


@dataclass(frozen=True, eq=False)
class CompositeKind(KindRow):
    """A row of COMPOSITES."""

    of_fields: Part = None  # ({name: kind}) -> the composite that a part with these fields is, or None
    of_parts: Part = None  # (the statistics of parts) -> Decision of inference, or None; None: by `of_fields`


def kind_rows() -> dict[str, KindRow]:
    """The rows of all kinds by name: leaves, then composites."""
    return {**KINDS, **COMPOSITES}


def row_of(kind: Kind) -> KindRow | None:
    """The row of a kind; None where it has none."""
    return next((row for row in kind_rows().values() if row.type is type(kind)), None)


def name_of(kind: Kind) -> str:
    """The name of a kind; of one without a row that of its class."""
    return next((name for name, row in kind_rows().items() if row.type is type(kind)), type(kind).__name__.lower())


def kind_name(kind: Kind) -> str:
    """The name of a kind of leaf or composite: `set of link`, `list of date`."""
    name = name_of(kind)
    if isinstance(kind, Set):
        return f"set of {kind_name(kind.of)}"
    if isinstance(kind, Listed | Mapped):
        return f"{name} of {kind_name(kind.fields['']) if '' in kind.fields else 'parts'}"
    return name


def composite_of(fields: Mapping[str, Kind]) -> Kind | None:
    """The composite of a part with these fields, by their names and kinds; None where they make none."""
    for row in COMPOSITES.values():
        kind = load_part(row.of_fields)(fields) if row.of_fields is not None else None
        if kind is not None:
            return kind
    return None


def quantity_of_fields(fields: Mapping[str, Kind]) -> Quantity | None:
    """The quantity of a number and a unit, by their names."""
    value, unit = fields.keys() & VALUE_NAMES, fields.keys() & UNIT_NAMES
    if value and unit and value | unit == fields.keys():
        return quantity_of(fields[min(value)], [fields[name] for name in sorted(unit)])
    return None


def coordinate_of_fields(fields: Mapping[str, Kind]) -> Coordinate | None:
    """The coordinate of a latitude and a longitude, by their names."""
    if set(fields) not in (*COORDINATE_KEYS, frozenset().union(*COORDINATE_NAMES)):
        return None
    return Coordinate() if all(isinstance(kind, Number) for kind in fields.values()) else None


def date_of_fields(fields: Mapping[str, Kind]) -> Date | None:
    """The date of a year and more, by their names."""
    names = set(fields)
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


COMPOSITES: Table[CompositeKind] = Table(
    "kbdisk.kinds",
    {
        "quantity": CompositeKind(
            Quantity,
            Quantity(unit="g", factors={"kg": 1000.0}, value=Number(minimum=0)),
            (190.0, Amount(190.0, "g"), {"value": 0.19, "unit": "kg"}, "190 g", Amount(None, "kg")),
            keys="kbdisk.schemas.yaml.kind_keys:QuantityKeys",
            json_schema="kbdisk.schemas.exporters.jsonschema:of_quantity",
            merge="kbdisk.schemas.merging:merge_quantities",
            style="kbdisk.styles.kinds:QUANTITY_STYLE",
            of_fields=quantity_of_fields,
            of_parts="kbdisk.schemas.infer.paths:quantity_of_parts",
        ),
        "date": CompositeKind(
            Date,
            Date(),
            (Day(2019, 10, 15), {"year": 1999.0, "month": 3}, "1912-11-28", Day(-43, precision="century")),
            keys="kbdisk.schemas.yaml.kind_keys:DateKeys",
            json_schema="kbdisk.schemas.exporters.jsonschema:of_date",
            merge="kbdisk.schemas.merging:merge_dates",
            style="kbdisk.styles.kinds:DATE_STYLE",
            of_fields=date_of_fields,
            of_parts="kbdisk.schemas.infer.paths:date_of_parts",
        ),
        "coordinate": CompositeKind(
            Coordinate,
            Coordinate(),
            (Place(48.2, 16.37), {"lat": -33, "lng": 151.2}, [12.5, -69.97], "48.2, 16.37"),
            keys="kbdisk.schemas.yaml.kind_keys:CoordinateKeys",
            json_schema="kbdisk.schemas.exporters.jsonschema:of_coordinate",
            style="kbdisk.styles.kinds:COORDINATE_STYLE",
            of_fields=coordinate_of_fields,
            of_parts="kbdisk.schemas.infer.paths:place_of_parts",
        ),
        "list": CompositeKind(
            Listed,
            Listed({"year": Number(integer=True), "share": Category()}),
            ([{"year": 1901, "share": "1"}, {"year": 1911}], {"year": 1903}),
            keys="kbdisk.schemas.yaml.kind_keys:ListKeys",
            json_schema="kbdisk.schemas.exporters.jsonschema:list_of",
        ),
        "map": CompositeKind(
            Mapped,
            Mapped({"name": Category(), "symbol": Category()}),
            ({"EUR": {"name": "Euro", "symbol": "€"}},),
            keys="kbdisk.schemas.yaml.kind_keys:MapKeys",
            json_schema="kbdisk.schemas.exporters.jsonschema:of_map",
        ),
    },
    CompositeKind,
    KindRow,
)
