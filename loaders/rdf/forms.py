"""How ontologies spell quantities, dates and coordinates as nodes: one table, FORMS, a row for each.

To add a form: one row, and an example in tests/loaders/test_composites.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

from kbdisk.entity import Coordinate, Date, Link, Quantity
from kbdisk.loaders import wikibase
from kbdisk.loaders.rdf import places
from kbdisk.loaders.rdf.vocabulary import GEO, LATITUDE, LONGITUDE
from kbdisk.schemas.text import calendars

Parts: TypeAlias = dict[str, Any]  # what a form's predicates hold, by what they are for

QUDT = ("http://qudt.org/schema/qudt/", "http://qudt.org/1.1/schema/qudt#", "http://qudt.org/schema/qudt#")
SCHEMA = ("http://schema.org/", "https://schema.org/")
OM = "http://www.ontology-of-units-of-measure.org/resource/om-2/"
WIKIBASE = "http://wikiba.se/ontology#"
TIME = "http://www.w3.org/2006/time#"
GEOSPARQL = "http://www.opengis.net/ont/geosparql#"
SIMPLE_FEATURES = "http://www.opengis.net/ont/sf#"
LOCN = "http://www.w3.org/ns/locn#"

NUMBERS = (int, float, Decimal)


@dataclass(frozen=True, eq=False)
class Form:
    """How an ontology spells one kind of value: the classes and predicates of its node."""

    kinds: tuple[type[Any], ...]  # of values
    classes: tuple[str, ...]  # the first is the usual one
    parts: Mapping[str, str]  # predicate -> what it is for; of several for one part, the first wins
    join: Callable[[Parts], Any]  # ValueError where the parts make no value
    split: Callable[[Any], Parts]  # the way back: `join(split(value)) == value`, or ValueError
    needed: frozenset[str]  # parts that tell the form where no class does
    extra: frozenset[str] = frozenset()  # predicates that add nothing we know
    wide: frozenset[str] = frozenset()  # classes that things of any kind have too
    implied: Mapping[str, Any] = field(default_factory=dict)  # what a part is that nothing tells


# ---------------------------------------------------------------- parts to values, and back


def number(value: Any) -> Any:
    if value is None or type(value) in NUMBERS:
        return value
    raise ValueError(f"expected a number, got {value!r}")


def _name(value: Any) -> str | None:
    """A unit or a globe: an IRI or a string."""
    if type(value) is Link and not value.id.startswith("_:"):
        return value.id
    if value is None or type(value) is str:
        return value
    raise ValueError(f"expected an IRI or a string, got {value!r}")


def _quantity(parts: Parts) -> Quantity:
    return Quantity(number(parts.get("value")), _name(parts.get("unit")))


def _of_quantity(quantity: Quantity) -> Parts:
    return {"value": quantity.value, "unit": quantity.unit}


def _measured(parts: Parts) -> Any:
    """A Wikibase's quantity: a bare number where it is of no unit."""
    value, unit = number(parts.get("value")), _name(parts.get("unit"))
    return Quantity(value, unit) if value is None or unit is None else wikibase.quantity(value, unit)


def _of_measured(value: Any) -> Parts:
    return _of_quantity(value if isinstance(value, Quantity) else Quantity(value, wikibase.NO_UNIT[-1]))


def _place(parts: Parts) -> Coordinate:
    globe = _name(parts.get("globe")) or ""
    return places.place(number(parts.get("latitude")), number(parts.get("longitude")), globe)


def _of_place(place: Coordinate) -> Parts:
    if place.globe:
        raise ValueError(f"expected a place on the Earth, got one on {place.globe}")
    return {"latitude": place.latitude, "longitude": place.longitude}


def _of_place_on(place: Coordinate) -> Parts:
    return {"latitude": place.latitude, "longitude": place.longitude, "globe": place.globe or places.EARTH}


def _geometry(parts: Parts) -> Coordinate:
    place = parts.get("point")
    if not isinstance(place, Coordinate):
        raise ValueError(f"expected a point, got {place!r}")
    return place


def _instant(parts: Parts) -> Date:
    date = parts.get("date")
    if not isinstance(date, Date):
        raise ValueError(f"expected a date, got {date!r}")
    return date


def _described(parts: Parts) -> Date:
    """Year, month and day, each as its own XSD type or as a whole number."""
    known = {name: _described_part(name, parts[name]) for name in ("year", "month", "day") if name in parts}
    if not known:
        raise ValueError("expected a year, a month or a day, got none")
    return calendars.date_of(known.get("year"), known.get("month"), known.get("day"))


def _described_part(name: str, value: Any) -> int:
    number = (
        getattr(value, name) if isinstance(value, Date) and value == Date(**{name: getattr(value, name)}) else value
    )
    if (
        type(number) is not int
        or (name == "month" and not 1 <= number <= 12)
        or (name == "day" and not 1 <= number <= 31)
    ):
        raise ValueError(f"expected a {name}, got {value!r}")
    return number


def _of_described(date: Date) -> Parts:
    known = {name: getattr(date, name) for name in ("year", "month", "day") if getattr(date, name) is not None}
    if date != Date(**known):
        raise ValueError("expected a year, a month and a day, got a date with more to it")
    return {name: Date(**{name: number}) for name, number in known.items()}


def _told(parts: Parts) -> Date:
    """A Wikibase's time: no more of the moment than its precision says."""
    moment, precision, zone = parts.get("moment"), parts.get("precision", calendars.DAY), parts.get("zone", 0)
    if not isinstance(moment, Date) or type(precision) is not int or type(zone) is not int:
        raise ValueError(f"expected a time and a precision, got {moment!r}")
    return calendars.of_wikibase(moment, precision, _name(parts.get("calendar")) or calendars.GREGORIAN, zone)


def _of_told(date: Date) -> Parts:
    moment, precision, calendar, zone = calendars.to_wikibase(date)
    return {"moment": moment, "precision": precision, "calendar": calendar, "zone": zone}


# ---------------------------------------------------------------- the table


def _all(names: str, part: str, space: str) -> dict[str, str]:
    return {space + name: part for name in names.split()}


def _names(names: str, space: str) -> tuple[str, ...]:
    return tuple(space + name for name in names.split())


_VALUE_AND_UNIT = frozenset({"value", "unit"})
_BOTH = frozenset({"latitude", "longitude"})
_QUANTITY = (_quantity, _of_quantity, _VALUE_AND_UNIT)
INSIDE = TIME + "inDateTime"
_INSTANT = "inXSDDate inXSDDateTimeStamp inXSDDateTime inXSDgYearMonth inXSDgYear inDateTime"

FORMS: tuple[Form, ...] = (
    *(
        Form(
            (Quantity,),
            _names("QuantityValue", space),
            _all("numericValue value", "value", space) | _all("unit hasUnit", "unit", space),
            *_QUANTITY,
        )
        for space in QUDT
    ),
    *(
        Form(
            (Quantity,),
            _names("QuantitativeValue MonetaryAmount", space),
            _all("value", "value", space) | _all("unitCode unitText currency", "unit", space),
            *_QUANTITY,
        )
        for space in SCHEMA
    ),
    *(
        Form(
            (Quantity,),
            _names("PriceSpecification UnitPriceSpecification", space),
            _all("price", "value", space) | _all("priceCurrency", "unit", space),
            *_QUANTITY,
        )
        for space in SCHEMA
    ),
    Form(
        (Quantity,),
        (OM + "Measure",),
        {OM + "hasNumericalValue": "value", OM + "hasUnit": "unit"},
        *_QUANTITY,
    ),
    Form(
        (Quantity, *NUMBERS),
        (WIKIBASE + "QuantityValue",),
        {WIKIBASE + "quantityAmount": "value", WIKIBASE + "quantityUnit": "unit"},
        _measured,
        _of_measured,
        _VALUE_AND_UNIT,
        frozenset(_names("quantityLowerBound quantityUpperBound quantityNormalized", WIKIBASE)),
    ),
    Form(
        (Date,),
        (WIKIBASE + "TimeValue",),
        {
            WIKIBASE + "timeValue": "moment",
            WIKIBASE + "timePrecision": "precision",
            WIKIBASE + "timeTimezone": "zone",
            WIKIBASE + "timeCalendarModel": "calendar",
        },
        _told,
        _of_told,
        frozenset({"moment", "precision"}),
        implied={"zone": 0, "calendar": calendars.GREGORIAN},
    ),
    Form(
        (Coordinate,),
        (WIKIBASE + "GlobecoordinateValue",),
        {WIKIBASE + "geoLatitude": "latitude", WIKIBASE + "geoLongitude": "longitude", WIKIBASE + "geoGlobe": "globe"},
        _place,
        _of_place_on,
        _BOTH,
        frozenset({WIKIBASE + "geoPrecision"}),
        implied={"globe": places.EARTH},
    ),
    Form(
        (Date,),
        (TIME + "Instant",),
        _all(_INSTANT, "date", TIME),
        _instant,
        lambda date: {"date": date},
        frozenset({"date"}),
    ),
    Form(
        (Date,),
        _names("DateTimeDescription GeneralDateTimeDescription", TIME),
        {TIME + name: name for name in ("year", "month", "day")},
        _described,
        _of_described,
        frozenset({"year"}),
        frozenset({TIME + "unitType"}),
    ),
    *(
        Form(
            (Coordinate,),
            _names("GeoCoordinates", space),
            {space + "latitude": "latitude", space + "longitude": "longitude"},
            _place,
            _of_place,
            _BOTH,
        )
        for space in SCHEMA
    ),
    Form(
        (Coordinate,),
        (GEO + "Point",),
        {LATITUDE: "latitude", LONGITUDE: "longitude"},
        _place,
        _of_place,
        _BOTH,
        wide=frozenset({GEO + "SpatialThing", LOCN + "Geometry"}),
    ),
    Form(
        (Coordinate,),
        (GEOSPARQL + "Geometry", SIMPLE_FEATURES + "Point", SIMPLE_FEATURES + "Geometry"),
        {GEOSPARQL + "asWKT": "point"},
        _geometry,
        lambda place: {"point": place},
        frozenset({"point"}),
        wide=frozenset({LOCN + "Geometry"}),
    ),
)
