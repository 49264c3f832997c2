"""Value nodes: nodes that are one quantity, date or coordinate, in the words of some ontology. FORMS is the table.

A node is such a value only where it holds nothing beyond what its form knows, so that nothing is lost; else it stays a part.
A node whose class belongs to the form may lack something (a value without its unit): the missing part is None, a gap that
can be asked for.

To add a form: one row, and an example in tests/loaders/test_value_nodes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

from pyoxigraph import BlankNode, NamedNode

from kbdisk.entity import Coordinate, Date, Link, Quantity
from kbdisk.loaders.rdf.terms import (
    EARTH,
    GEO,
    LATITUDE,
    LONGITUDE,
    TYPE,
    WIKIBASE,
    coordinate_of,
    value_of_term,
)
from kbdisk.loaders.wikibase import data_model
from kbdisk.schemas.text import calendars

# ---------------------------------------------------------------- the ontologies


Parts: TypeAlias = dict[str, Any]  # what a form's predicates hold, by what they are for

QUDT = ("http://qudt.org/schema/qudt/", "http://qudt.org/1.1/schema/qudt#", "http://qudt.org/schema/qudt#")
SCHEMA = ("http://schema.org/", "https://schema.org/")
OM = "http://www.ontology-of-units-of-measure.org/resource/om-2/"
TIME = "http://www.w3.org/2006/time#"
GEOSPARQL = "http://www.opengis.net/ont/geosparql#"
SIMPLE_FEATURES = "http://www.opengis.net/ont/sf#"
LOCN = "http://www.w3.org/ns/locn#"

NUMBERS = (int, float, Decimal)


@dataclass(frozen=True, eq=False)
class Form:
    """How an ontology writes one kind of value: the classes and predicates of its node."""

    kinds: tuple[type[Any], ...]  # of values
    classes: tuple[str, ...]  # the first is the usual one
    parts: Mapping[str, str]  # predicate -> what it is for; of several for one part, the first wins
    join: Callable[[Parts], Any]  # from parts to the value; ValueError where they make none
    split: Callable[[Any], Parts]  # the way back: `join(split(value)) == value`, or ValueError
    needed: frozenset[str]  # parts that identify the form where no class does
    extra: frozenset[str] = frozenset()  # predicates that are ignored
    wide: frozenset[str] = frozenset()  # classes that other nodes have, too
    implied: Mapping[str, Any] = field(default_factory=dict)  # values of parts that are left out


# ---------------------------------------------------------------- parts to values, and back


def number(value: Any) -> Any:
    if value is None or type(value) in NUMBERS:
        return value
    raise ValueError(f"expected a number, got {value!r}")


def _name_of(value: Any) -> str | None:
    """A unit or a globe: an IRI or a string."""
    if type(value) is Link and not value.id.startswith("_:"):
        return value.id
    if value is None or type(value) is str:
        return value
    raise ValueError(f"expected an IRI or a string, got {value!r}")


def _quantity(parts: Parts) -> Quantity:
    return Quantity(number(parts.get("value")), _name_of(parts.get("unit")))


def _parts_of_quantity(quantity: Quantity) -> Parts:
    return {"value": quantity.value, "unit": quantity.unit}


def _wikibase_quantity(parts: Parts) -> Any:
    """A Wikibase's quantity: a bare number where it has no unit."""
    value, unit = number(parts.get("value")), _name_of(parts.get("unit"))
    return Quantity(value, unit) if value is None or unit is None else data_model.quantity(value, unit)


def _parts_of_wikibase_quantity(value: Any) -> Parts:
    return _parts_of_quantity(value if isinstance(value, Quantity) else Quantity(value, data_model.NO_UNIT[-1]))


def _coordinate(parts: Parts) -> Coordinate:
    globe = _name_of(parts.get("globe")) or ""
    return coordinate_of(number(parts.get("latitude")), number(parts.get("longitude")), globe)


def _parts_of_coordinate(coordinate: Coordinate) -> Parts:
    if coordinate.globe:
        raise ValueError(f"expected a place on the Earth, got one on {coordinate.globe}")
    return {"latitude": coordinate.latitude, "longitude": coordinate.longitude}


def _parts_of_coordinate_on_globe(coordinate: Coordinate) -> Parts:
    return {
        "latitude": coordinate.latitude,
        "longitude": coordinate.longitude,
        "globe": coordinate.globe or EARTH,
    }


def _point_geometry(parts: Parts) -> Coordinate:
    coordinate = parts.get("point")
    if not isinstance(coordinate, Coordinate):
        raise ValueError(f"expected a point, got {coordinate!r}")
    return coordinate


def _instant(parts: Parts) -> Date:
    date = parts.get("date")
    if not isinstance(date, Date):
        raise ValueError(f"expected a date, got {date!r}")
    return date


def _description(parts: Parts) -> Date:
    """Year, month and day, each as its own XSD type or as a whole number."""
    known = {name: _description_part(name, parts[name]) for name in ("year", "month", "day") if name in parts}
    if not known:
        raise ValueError("expected a year, a month or a day, got none")
    return calendars.date_of(known.get("year"), known.get("month"), known.get("day"))


def _description_part(name: str, value: Any) -> int:
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


def _parts_of_description(date: Date) -> Parts:
    known = {name: getattr(date, name) for name in ("year", "month", "day") if getattr(date, name) is not None}
    if date != Date(**known):
        raise ValueError("expected a year, a month and a day, got a date with more to it")
    return {name: Date(**{name: number}) for name, number in known.items()}


def _wikibase_time(parts: Parts) -> Date:
    """A Wikibase's time, no finer than its precision."""
    moment, precision, zone = parts.get("moment"), parts.get("precision", calendars.DAY), parts.get("zone", 0)
    if not isinstance(moment, Date) or type(precision) is not int or type(zone) is not int:
        raise ValueError(f"expected a time and a precision, got {moment!r}")
    return calendars.of_wikibase(moment, precision, _name_of(parts.get("calendar")) or calendars.GREGORIAN, zone)


def _parts_of_wikibase_time(date: Date) -> Parts:
    moment, precision, calendar, zone = calendars.to_wikibase(date)
    return {"moment": moment, "precision": precision, "calendar": calendar, "zone": zone}


# ---------------------------------------------------------------- the table


def _all(names: str, part: str, space: str) -> dict[str, str]:
    return {space + name: part for name in names.split()}


def _names(names: str, space: str) -> tuple[str, ...]:
    return tuple(space + name for name in names.split())


_VALUE_AND_UNIT = frozenset({"value", "unit"})
_LATITUDE_AND_LONGITUDE = frozenset({"latitude", "longitude"})
_QUANTITY = (_quantity, _parts_of_quantity, _VALUE_AND_UNIT)
IN_DATE_TIME = TIME + "inDateTime"
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
        _wikibase_quantity,
        _parts_of_wikibase_quantity,
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
        _wikibase_time,
        _parts_of_wikibase_time,
        frozenset({"moment", "precision"}),
        implied={"zone": 0, "calendar": calendars.GREGORIAN},
    ),
    Form(
        (Coordinate,),
        (WIKIBASE + "GlobecoordinateValue",),
        {WIKIBASE + "geoLatitude": "latitude", WIKIBASE + "geoLongitude": "longitude", WIKIBASE + "geoGlobe": "globe"},
        _coordinate,
        _parts_of_coordinate_on_globe,
        _LATITUDE_AND_LONGITUDE,
        frozenset({WIKIBASE + "geoPrecision"}),
        implied={"globe": EARTH},
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
        _description,
        _parts_of_description,
        frozenset({"year"}),
        frozenset({TIME + "unitType"}),
    ),
    *(
        Form(
            (Coordinate,),
            _names("GeoCoordinates", space),
            {space + "latitude": "latitude", space + "longitude": "longitude"},
            _coordinate,
            _parts_of_coordinate,
            _LATITUDE_AND_LONGITUDE,
        )
        for space in SCHEMA
    ),
    Form(
        (Coordinate,),
        (GEO + "Point",),
        {LATITUDE: "latitude", LONGITUDE: "longitude"},
        _coordinate,
        _parts_of_coordinate,
        _LATITUDE_AND_LONGITUDE,
        wide=frozenset({GEO + "SpatialThing", LOCN + "Geometry"}),
    ),
    Form(
        (Coordinate,),
        (GEOSPARQL + "Geometry", SIMPLE_FEATURES + "Point", SIMPLE_FEATURES + "Geometry"),
        {GEOSPARQL + "asWKT": "point"},
        _point_geometry,
        lambda coordinate: {"point": coordinate},
        frozenset({"point"}),
        wide=frozenset({LOCN + "Geometry"}),
    ),
)


# ---------------------------------------------------------------- recognition


Node: TypeAlias = Mapping[str, Sequence[Any]]  # predicate IRI -> values; IRIs and blank nodes are Links
Resolve: TypeAlias = Callable[[str], Node | None]  # a node by its id


def _index(names_of: Callable[[Form], Sequence[str]]) -> dict[str, tuple[Form, ...]]:
    index: dict[str, tuple[Form, ...]] = {}
    for form in FORMS:
        for name in names_of(form):
            index[name] = (*index.get(name, ()), form)
    return index


BY_CLASS = _index(lambda form: (*form.classes, *sorted(form.wide)))
BY_PREDICATE = _index(lambda form: tuple(form.parts))
MAX_PREDICATES = max(len(form.parts) + len(form.extra) for form in FORMS) + 1  # of a value node


def recognise(id: str, node: Node, resolve: Resolve | None = None) -> Any:
    """The value that a node is, or None. `resolve` finds nodes within it, by id."""
    form = _form_of(id, node)
    if form is None:
        return None
    parts: Parts = {}
    for predicate, part in form.parts.items():
        values = node.get(predicate)
        if values is None:
            continue
        value = values[0]
        if any(other != value for other in values) or (part in parts and part != "unit"):
            return None
        parts.setdefault(part, _inner_date(value, resolve) if predicate == IN_DATE_TIME else value)
    try:
        return form.join(parts)
    except ValueError:
        return None


def form_of(classes: Sequence[str], predicates: Sequence[str]) -> Form | None:
    """The form of these classes, or else of these predicates, whatever else there is."""
    forms = [form for name in classes for form in BY_CLASS.get(name, ())] or [
        form for name in predicates for form in BY_PREDICATE.get(name, ())
    ]
    return max(forms, key=lambda form: sum(name in form.parts for name in predicates), default=None)


def recognise_pair(node: Node) -> Coordinate | None:
    """The coordinate of a node's geo:lat and geo:long, where each is one number."""
    latitude, longitude = node.get(LATITUDE, ()), node.get(LONGITUDE, ())
    if len(latitude) != 1 or len(longitude) != 1:
        return None
    try:
        return coordinate_of(number(latitude[0]), number(longitude[0]))
    except ValueError:
        return None


def _form_of(id: str, node: Node) -> Form | None:
    """The form of a node that holds nothing else; a node with an IRI is an entity unless its class belongs to a form."""
    kinds = node.get(TYPE, ())
    classes = [kind.id for kind in kinds if type(kind) is Link and kind.id in BY_CLASS]
    if len(classes) != len(kinds) or len(node) > MAX_PREDICATES or (not classes and id[:2] != "_:"):
        return None
    predicates = [predicate for predicate in node if predicate != TYPE]
    form = form_of(classes, predicates)
    if form is None or any(name not in form.parts and name not in form.extra for name in predicates):
        return None
    if all(name in form.wide for name in classes):  # true where there is no class, too
        parts = {form.parts.get(name) for name in predicates}
        return form if id[:2] == "_:" and form.needed <= parts else None
    return form if all(name in form.classes or name in form.wide for name in classes) else None


def _inner_date(value: Any, resolve: Resolve | None) -> Any:
    """The date of a description within an instant: already a value, or still a node."""
    if type(value) is not Link or resolve is None:
        return value
    node = resolve(value.id)
    return None if node is None else recognise(value.id, node)


Fields: TypeAlias = Mapping[str, Sequence[Any]]  # predicate IRI -> object terms
FieldsOf: TypeAlias = Callable[[Any], Fields | None]  # the fields of a node


def recognised(term: NamedNode | BlankNode, fields: Fields, fields_of: FieldsOf) -> Any:
    """The value that a node of terms is, or None."""
    inner = {node.value: node for terms in fields.values() for node in terms if isinstance(node, NamedNode | BlankNode)}

    def resolve(id: str) -> Any:
        fields = fields_of(inner[id.removeprefix("_:")])
        return None if fields is None else _values_of(fields)

    id = term.value if isinstance(term, NamedNode) else f"_:{term.value}"
    return recognise(id, _values_of(fields), resolve)


def _values_of(fields: Fields) -> dict[str, list[Any]]:
    return {predicate: [value_of_term(term) for term in terms] for predicate, terms in fields.items()}


PARTS = {Quantity: ("value", "unit"), Coordinate: ("latitude", "longitude")}
