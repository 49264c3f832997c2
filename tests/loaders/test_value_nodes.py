"""Composites: every row of FORMS is recognised where nothing else is told, and is a part where something is."""

from __future__ import annotations

import pyoxigraph
import pytest
from pyoxigraph import RdfFormat
from tables import for_each

from kbdisk.entity import Coordinate, Date, Link, Quantity
from kbdisk.loaders.rdf.terms import LATITUDE, LONGITUDE, TYPE, value_of_term
from kbdisk.loaders.rdf.value_nodes import BY_CLASS, FORMS, recognise, recognise_pair
from kbdisk.schemas.text.calendars import JULIAN

PREFIXES = """
@prefix : <http://example.org/> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix unit: <http://qudt.org/vocab/unit/> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix qudt11: <http://qudt.org/1.1/schema/qudt#> .
@prefix qudt12: <http://qudt.org/schema/qudt#> .
@prefix s: <http://schema.org/> .
@prefix ss: <https://schema.org/> .
@prefix om: <http://www.ontology-of-units-of-measure.org/resource/om-2/> .
@prefix wikibase: <http://wikiba.se/ontology#> .
@prefix wd: <http://www.wikidata.org/entity/> .
@prefix time: <http://www.w3.org/2006/time#> .
@prefix geo: <http://www.w3.org/2003/01/geo/wgs84_pos#> .
@prefix gsp: <http://www.opengis.net/ont/geosparql#> .
@prefix sf: <http://www.opengis.net/ont/sf#> .
@prefix locn: <http://www.w3.org/ns/locn#> .
"""
KM, MARS = "http://qudt.org/vocab/unit/KiloM", "http://www.wikidata.org/entity/Q111"
TIME = "wikibase:timeTimezone 0 ; wikibase:timeCalendarModel wd:Q1985727"

EXAMPLES = [  # the properties of a blank node, and the value it is
    ("a qudt:QuantityValue ; qudt:numericValue 1.5 ; qudt:unit unit:KiloM", Quantity(1.5, KM)),
    ('qudt:value "1.5"^^xsd:double ; qudt:hasUnit unit:KiloM', Quantity(1.5, KM)),
    ("a qudt11:QuantityValue ; qudt11:numericValue 1.5 ; qudt11:unit unit:KiloM", Quantity(1.5, KM)),
    ("a qudt12:QuantityValue ; qudt12:numericValue 1.5 ; qudt12:unit unit:KiloM", Quantity(1.5, KM)),
    ("a qudt:QuantityValue ; qudt:numericValue 1.5", Quantity(1.5, None)),
    ("a qudt:QuantityValue ; qudt:unit unit:KiloM", Quantity(None, KM)),
    ("a qudt:QuantityValue", Quantity(None, None)),
    ('a s:QuantitativeValue ; s:value 140 ; s:unitCode "GRM"', Quantity(140, "GRM")),
    ('a ss:QuantitativeValue ; ss:value 140 ; ss:unitText "g"', Quantity(140, "g")),
    ('a s:QuantitativeValue ; s:value 140 ; s:unitText "g" ; s:unitCode "GRM"', Quantity(140, "GRM")),
    ('s:value 140 ; s:unitText "g"', Quantity(140, "g")),
    ('a s:MonetaryAmount ; s:value 9.99 ; s:currency "EUR"', Quantity(9.99, "EUR")),
    ('a ss:MonetaryAmount ; ss:value 9.99 ; ss:currency "EUR"', Quantity(9.99, "EUR")),
    ('a s:UnitPriceSpecification ; s:price 9.99 ; s:priceCurrency "EUR"', Quantity(9.99, "EUR")),
    ('a ss:PriceSpecification ; ss:price 9.99 ; ss:priceCurrency "EUR"', Quantity(9.99, "EUR")),
    (
        "a om:Measure ; om:hasNumericalValue 3 ; om:hasUnit om:kilometre",
        Quantity(3, "http://www.ontology-of-units-of-measure.org/resource/om-2/kilometre"),
    ),
    (
        "a wikibase:QuantityValue ; wikibase:quantityAmount +1.96 ; wikibase:quantityUnit wd:Q11573",
        Quantity(1.96, "http://www.wikidata.org/entity/Q11573"),
    ),
    ("a wikibase:QuantityValue ; wikibase:quantityAmount +19460 ; wikibase:quantityUnit wd:Q199", 19460),
    (
        "a wikibase:QuantityValue ; wikibase:quantityAmount +2 ; wikibase:quantityUnit wd:Q11573 ; "
        "wikibase:quantityLowerBound +1 ; wikibase:quantityUpperBound +3 ; wikibase:quantityNormalized :v",
        Quantity(2, "http://www.wikidata.org/entity/Q11573"),
    ),
    (
        f'a wikibase:TimeValue ; wikibase:timeValue "1952-03-11T00:00:00Z"^^xsd:dateTime ; wikibase:timePrecision 11 ; {TIME}',
        Date(1952, 3, 11),
    ),
    (
        f'a wikibase:TimeValue ; wikibase:timeValue "1952-03-01T00:00:00Z"^^xsd:dateTime ; wikibase:timePrecision 10 ; {TIME}',
        Date(1952, 3),
    ),
    (
        f'a wikibase:TimeValue ; wikibase:timeValue "-0199-01-01T00:00:00Z"^^xsd:dateTime ; wikibase:timePrecision 9 ; {TIME}',
        Date(-199),
    ),
    (
        f'a wikibase:TimeValue ; wikibase:timeValue "1950-01-01T00:00:00Z"^^xsd:dateTime ; wikibase:timePrecision 8 ; {TIME}',
        Date(1950, precision="decade"),
    ),
    (
        f'a wikibase:TimeValue ; wikibase:timeValue "-4500000000-01-01T00:00:00Z"^^xsd:dateTime ; wikibase:timePrecision 1 ; {TIME}',
        Date(-4500000000, precision="100Ma"),
    ),
    (
        'a wikibase:TimeValue ; wikibase:timeValue "2012-03-13T00:00:00Z"^^xsd:dateTime ; wikibase:timePrecision 11 ; '
        "wikibase:timeCalendarModel wd:Q1985786",
        Date(2012, 2, 29, calendar=JULIAN),
    ),
    (
        "a wikibase:GlobecoordinateValue ; wikibase:geoLatitude 12.125e0 ; wikibase:geoLongitude 67.25e0 ; "
        "wikibase:geoPrecision 0.0625e0 ; wikibase:geoGlobe wd:Q2",
        Coordinate(12.125, 67.25),
    ),
    (
        "a wikibase:GlobecoordinateValue ; wikibase:geoLatitude -4.6e0 ; wikibase:geoLongitude 137.4e0 ; wikibase:geoGlobe wd:Q111",
        Coordinate(-4.6, 137.4, MARS),
    ),
    ('a time:Instant ; time:inXSDDate "1912-11-28"^^xsd:date', Date(1912, 11, 28)),
    ('a time:Instant ; time:inXSDgYear "1912"^^xsd:gYear', Date(1912)),
    ('time:inXSDgYearMonth "1912-11"^^xsd:gYearMonth', Date(1912, 11)),
    (
        'a time:Instant ; time:inXSDDateTimeStamp "1912-11-28T12:00:00Z"^^xsd:dateTimeStamp',
        Date(1912, 11, 28, time="T12:00:00Z"),
    ),
    ('a time:Instant ; time:inXSDDateTime "1912-11-28T12:00:00"^^xsd:dateTime', Date(1912, 11, 28, time="T12:00:00")),
    (
        'a time:Instant ; time:inDateTime [ a time:DateTimeDescription ; time:unitType time:unitDay ; time:year "1912"^^xsd:gYear ; '
        'time:month "--11"^^xsd:gMonth ; time:day "---28"^^xsd:gDay ]',
        Date(1912, 11, 28),
    ),
    ("a time:GeneralDateTimeDescription ; time:year 1912 ; time:month 11", Date(1912, 11)),
    ("a s:GeoCoordinates ; s:latitude 41.3 ; s:longitude 19.8", Coordinate(41.3, 19.8)),
    ("a ss:GeoCoordinates ; ss:latitude 41.3", Coordinate(41.3, None)),
    ("a geo:Point ; geo:lat 41.3 ; geo:long 19.8", Coordinate(41.3, 19.8)),
    ("geo:lat 41.3 ; geo:long 19.8", Coordinate(41.3, 19.8)),
    ("a geo:SpatialThing ; geo:lat 41.3 ; geo:long 19.8", Coordinate(41.3, 19.8)),
    ("a locn:Geometry ; geo:lat 41.3 ; geo:long 19.8", Coordinate(41.3, 19.8)),
    ('a gsp:Geometry, sf:Point ; gsp:asWKT "POINT(19.8 41.3)"^^gsp:wktLiteral', Coordinate(41.3, 19.8)),
    ('a locn:Geometry ; gsp:asWKT "POINT(19.8 41.3)"^^gsp:wktLiteral', Coordinate(41.3, 19.8)),
]
PARTS = [
    "a :PopulationCount ; :year 1950 ; :value 1214489",
    "a qudt:QuantityValue ; qudt:numericValue 1.5 ; qudt:unit unit:KiloM ; :source :book",
    "a qudt:QuantityValue, :Estimate ; qudt:numericValue 1.5 ; qudt:unit unit:KiloM",
    "a qudt:QuantityValue ; qudt:numericValue 1.5, 1.6 ; qudt:unit unit:KiloM",
    "a qudt:QuantityValue ; qudt:numericValue 1.5 ; qudt:value 1.6 ; qudt:unit unit:KiloM",
    'a s:QuantitativeValue ; s:value "about ten" ; s:unitText "g"',
    'a s:QuantitativeValue ; s:value true ; s:unitText "g"',
    'a s:QuantitativeValue ; s:value 1 ; s:unitText "Gramm"@de',
    "a s:QuantitativeValue ; s:minValue 1 ; s:maxValue 2",
    "a s:PropertyValue ; s:value 140 ; s:unitText 'g'",
    "s:value 140",
    "qudt:numericValue 1.5",
    "geo:lat 41.3",
    "a geo:Point ; geo:lat 141.3 ; geo:long 19.8",
    "a geo:Point ; geo:lat 41.3 ; geo:long 19.8 ; geo:alt 110",
    "a time:Instant",
    'a time:Instant ; time:inXSDDate "1912-02-30"^^xsd:date',
    'a time:Instant ; time:inXSDDate "1912-11-28"^^xsd:date ; time:inXSDgYear "1913"^^xsd:gYear',
    "a time:DateTimeDescription ; time:year 1912 ; time:month 2 ; time:day 30",
    "a time:DateTimeDescription ; time:year 1912 ; time:month 13",
    "a time:DateTimeDescription ; time:year 1912 ; time:hour 12",
    'a wikibase:TimeValue ; wikibase:timeValue "+2012-02-31T00:00:00Z" ; wikibase:timePrecision 11',
    f'a wikibase:TimeValue ; wikibase:timeValue "1952-03-11T00:00:00Z"^^xsd:dateTime ; wikibase:timePrecision 15 ; {TIME}',
    'a gsp:Geometry ; gsp:asWKT "LINESTRING(1 2, 3 4)"^^gsp:wktLiteral',
]


def nodes_of(turtle):
    """The nodes of a document as the reader has them: predicate -> values."""
    nodes = {}
    for quad in pyoxigraph.parse(PREFIXES + turtle, format=RdfFormat.TURTLE):
        id = value_of_term(quad.subject).id
        nodes.setdefault(id, {}).setdefault(quad.predicate.value, []).append(value_of_term(quad.object))
    return nodes


def read(properties, id="_:node"):
    nodes = nodes_of(f"{id if id.startswith('_:') else f'<{id}>'} {properties} .")
    return recognise(id, nodes[id], nodes.get)


@for_each(("properties", "value"), EXAMPLES)
def test_a_node_that_is_one_value_is_recognised(properties, value):
    assert read(properties) == value
    assert type(read(properties)) is type(value)


@for_each("properties", PARTS)
def test_a_node_that_holds_more_or_less_stays_a_part(properties):
    assert read(properties) is None


def test_every_form_has_an_example():
    told = {
        predicate
        for properties, _ in EXAMPLES
        for node in nodes_of(f"_:x {properties} .").values()
        for predicate in node
    }
    assert [form.classes[0] for form in FORMS if not told & form.parts.keys()] == []


@for_each("form", FORMS, ids=lambda form: form.classes[0])
def test_every_class_leads_to_its_form(form):
    assert all(form in BY_CLASS[name] for name in form.classes)


@for_each(("properties", "value"), EXAMPLES)
def test_what_a_form_takes_apart_it_joins_again(properties, value):
    forms = [form for form in FORMS if type(value) in form.kinds]
    assert any(_joined(form, value) == value for form in forms)


def _joined(form, value):
    try:
        parts = {part: one for part, one in form.split(value).items() if one is not None}
        return form.join({part: Link(one) if part == "calendar" else one for part, one in parts.items()})
    except ValueError:
        return None


def test_a_value_node_with_an_iri_is_recognised_by_its_class_alone():
    typed = "a qudt:QuantityValue ; qudt:numericValue 1.5 ; qudt:unit unit:KiloM"
    assert read(typed, "http://example.org/weight") == Quantity(1.5, KM)
    assert read(typed.removeprefix("a qudt:QuantityValue ; "), "http://example.org/weight") is None


def test_a_place_that_has_nothing_but_a_position_stays_an_entity():
    assert read("a geo:SpatialThing ; geo:lat 41.3 ; geo:long 19.8", "http://example.org/Tirana") is None


def test_a_triple_told_twice_is_told_once():
    kind = [Link("http://www.w3.org/2003/01/geo/wgs84_pos#Point")]
    assert recognise("_:x", {TYPE: kind, LATITUDE: [41.3, 41.3], LONGITUDE: [19.8]}) == Coordinate(41.3, 19.8)


def test_the_position_of_a_thing_is_a_pair_of_single_numbers():
    assert recognise_pair({LATITUDE: [41.3], LONGITUDE: [19.8], "http://example.org/name": ["Tirana"]}) == Coordinate(
        41.3, 19.8
    )
    assert recognise_pair({LATITUDE: [41.3, 42], LONGITUDE: [19.8]}) is None
    assert recognise_pair({LATITUDE: [41.3]}) is None
    assert recognise_pair({LATITUDE: ["41.3 N"], LONGITUDE: [19.8]}) is None
    assert recognise_pair({LATITUDE: [241.3], LONGITUDE: [19.8]}) is None


def test_an_instant_whose_description_is_elsewhere_is_no_date():
    node = {
        TYPE: [Link("http://www.w3.org/2006/time#Instant")],
        "http://www.w3.org/2006/time#inDateTime": [Link("_:gone")],
    }
    assert recognise("_:x", node, {}.get) is None


@pytest.mark.shared
def test_every_value_node_of_wikidata_is_recognised(data):
    nodes = {}
    for quad in pyoxigraph.parse(path=str(data / "rdf" / "wikidata" / "Q42.ttl"), format=RdfFormat.TURTLE):
        id = value_of_term(quad.subject).id
        nodes.setdefault(id, {}).setdefault(quad.predicate.value, []).append(value_of_term(quad.object))
    ontology = "http://wikiba.se/ontology#"
    kinds = {ontology + name for name in ("QuantityValue", "TimeValue", "GlobecoordinateValue")}
    values = {id: node for id, node in nodes.items() if any(kind.id in kinds for kind in node.get(TYPE, ()))}
    assert len(values) > 50
    assert [id for id, node in values.items() if recognise(id, node, nodes.get) is None] == []
