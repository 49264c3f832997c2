"""Shapes: a new value looks like the values that its property has, and is read back as what it was."""

from __future__ import annotations

from decimal import Decimal
from itertools import count

import pyoxigraph
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, RdfFormat
from tables import for_each

from kbdisk.entity import NOVALUE, SOMEVALUE, Coordinate, Date, Link, Quantity, Text
from kbdisk.loaders.rdf.styles import PredicateTemplates, natural_term
from kbdisk.loaders.rdf.terms import value_of_term
from kbdisk.loaders.rdf.value_nodes import recognised
from kbdisk.schemas.text.calendars import JULIAN

PREFIXES = """
@prefix : <http://example.org/> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix unit: <http://qudt.org/vocab/unit/> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix s: <http://schema.org/> .
@prefix om: <http://www.ontology-of-units-of-measure.org/resource/om-2/> .
@prefix wikibase: <http://wikiba.se/ontology#> .
@prefix wd: <http://www.wikidata.org/entity/> .
@prefix time: <http://www.w3.org/2006/time#> .
@prefix geo: <http://www.w3.org/2003/01/geo/wgs84_pos#> .
@prefix gsp: <http://www.opengis.net/ont/geosparql#> .
@prefix dt: <http://dbpedia.org/datatype/> .
@prefix cdt: <https://w3id.org/cdt/> .
@prefix edtf: <http://id.loc.gov/datatypes/edtf/> .
"""
KM, M = "http://qudt.org/vocab/unit/KiloM", "http://qudt.org/vocab/unit/M"
NEW, OLD = '"2000-01-01T00:00:00Z"^^xsd:dateTime', '"1950-01-01T00:00:00Z"^^xsd:dateTime'
FULL = "wikibase:timeTimezone 0 ; wikibase:timeCalendarModel wd:Q1985727"


def graph_of(triples):
    """The fields of every node."""
    graph = {}
    for triple in triples:
        graph.setdefault(triple.subject, {}).setdefault(triple.predicate.value, []).append(triple.object)
    return graph


def shape_of(objects):
    """The shape of these objects, as Turtle has them after a predicate."""
    quads = list(pyoxigraph.parse(f"{PREFIXES} :it :has {objects} .", format=RdfFormat.TURTLE))
    graph = graph_of(quads)
    return PredicateTemplates.of(
        (quad.object, graph.get) for quad in quads if quad.predicate.value == "http://example.org/has"
    )


def fresh():
    numbers = count()
    return lambda: BlankNode(f"new{next(numbers)}")


def made(shape, value):
    """The triples of a new value, as text."""
    term, triples = shape.write(value, fresh())
    return [str(term), *sorted(str(triple) for triple in triples)]


def short(shape, value):
    """A new value that is one term, with namespaces cut off."""
    term, triples = shape.write(value, fresh())
    assert triples == []
    if not isinstance(term, pyoxigraph.Literal):
        return str(term)
    kind = term.language or term.datatype.value.replace("/", "#").rpartition("#")[2]
    return f"{term.value} {kind}"


def read_back(term, triples):
    """What a reader makes of a new value."""
    graph = graph_of(triples)
    fields = None if isinstance(term, pyoxigraph.Literal) else graph.get(term)
    return recognised(term, fields, graph.get) if fields else value_of_term(term)


LITERALS = [  # what a property has, a new value, and how it is written
    ("1214489, 500", 77, "77 integer"),
    ("1214489, 500", 3.0, "3 integer"),
    ('"5"^^xsd:int', 3, "3 int"),
    ("13.19, 4.7, 12.05", 3.25, "3.25 decimal"),
    ("13.19, 4.78", 3.5, "3.50 decimal"),
    ("13.19, 4.78", 3, "3.00 decimal"),
    ("13.19, 4.78", 3.14159, "3.14159 decimal"),
    ('"5"^^xsd:decimal, 5.5', 3.0, "3 decimal"),
    ("1.5, 2.5", Decimal("3.14159265358979323846"), "3.14159265358979323846 decimal"),
    ('"+965.465"^^xsd:decimal, "+5.1"^^xsd:decimal', 7.25, "+7.25 decimal"),
    ('"+965.465"^^xsd:decimal, "+5.1"^^xsd:decimal', -7.25, "-7.25 decimal"),
    ('"+5"^^xsd:integer', 7, "+7 integer"),
    ("1.0E3, 2.5E-1", 965.465, "9.65465E2 double"),
    ("1E3, 25E-1", 300, "3E2 double"),
    ("1.0e+03, 2.5e-01", 0.000012, "1.2e-05 double"),
    ('"170.0"^^xsd:double, "1.5"^^xsd:double', 3, "3.0 double"),
    ('"170.0"^^xsd:double', 1e-7, "0.0000001 double"),
    ('"12.5"^^xsd:float, "INF"^^xsd:float', 0.5, "0.5 float"),
    ("5, 7, 5.5", 3, "3 integer"),
    ("5, 7, 5.5", 3.7, "3.7 decimal"),
    ("5, 5.5, 6.5", 3.0, "3.0 decimal"),
    ("true, false", True, "true boolean"),
    ('"1"^^xsd:boolean, "0"^^xsd:boolean', True, "1 boolean"),
    ('"1950"^^xsd:gYear', Date(1990), "1990 gYear"),
    ('"1950"^^xsd:gYear', Date(1990, precision="year"), "1990 gYear"),
    ('"1950"^^xsd:gYear', 1990, "1990 gYear"),
    ('"1950"^^xsd:gYear', Date(-43), "-0043 gYear"),
    ("1950, 1960", Date(1990), "1990 integer"),
    ('"1950-01-01"^^xsd:date, "1950-01-02"^^xsd:date, "1950"^^xsd:gYear', Date(1990), "1990 gYear"),
    ('"1950-01-01"^^xsd:date', Date(1990, 5, 3), "1990-05-03 date"),
    ('"1950-01-01Z"^^xsd:date, "1950-01-02Z"^^xsd:date', Date(1990, 5, 3), "1990-05-03Z date"),
    (f"{NEW}, {OLD}", Date(1990, 5, 3), "1990-05-03T00:00:00Z dateTime"),
    (f"{NEW}, {OLD}", Date(1990, 5, 3, time="T12:00:00"), "1990-05-03T12:00:00 dateTime"),
    ('"201X"^^edtf:EDTF', Date(1990, precision="decade", note="?"), "199X? EDTF"),
    ('"1964/2008"^^edtf:EDTF', {"start": Date(1990)}, "1990/.. EDTF"),
    ('"12:00:00"^^xsd:time', "13:30:00", "13:30:00 time"),
    ('"Albania"@en, "Albanien"@de, "Greece"@en', "Cyprus", "Cyprus en"),
    ('"Albania"@en, "Albanien"@de, "Greece"@en', Text("Zypern", "de"), "Zypern de"),
    ('"Albania"@en, "Albanien"@de, "Greece"@en', Text("Chypre", "fr"), "Chypre fr"),
    ('"Albania"@en, "Albanien"@de, "Greece"', "Cyprus", "Cyprus en"),
    ('"Albania", "Greece"', "Cyprus", "Cyprus string"),
    ('"Albania", "Greece"', Text("Cyprus", "en"), "Cyprus string"),
    ('"12.50", "3.00"', 7, "7.00 string"),
    ('"1912-11-28", "1950"', Date(1990, 5), "1990-05 string"),
    ('"true", "false"', False, "false string"),
    ('"AL"^^:code', "GR", "GR code"),
    ('"http://a.org/"^^xsd:anyURI', Link("http://b.org/"), "http://b.org/ anyURI"),
    (":Albania", Link("http://example.org/Greece"), "<http://example.org/Greece>"),
    (":Albania", "http://example.org/Greece", "<http://example.org/Greece>"),
    (":Albania, 'Greece'", "Cyprus", "Cyprus string"),
    ("[ :name 'Albania' ]", Link("_:greece"), "_:greece"),
    ('"POINT(1 2)"^^gsp:wktLiteral', Coordinate(41.3, 19.8), "POINT(19.8 41.3) wktLiteral"),
    ('"Point(1 2)"^^gsp:wktLiteral, "Point(3 4)"^^gsp:wktLiteral', Coordinate(41, 20), "Point(20 41) wktLiteral"),
    (
        '"<http://www.opengis.net/def/crs/EPSG/0/4326> POINT (2 1)"^^gsp:wktLiteral',
        Coordinate(41.3, 19.8),
        "<http://www.opengis.net/def/crs/EPSG/0/4326> POINT (41.3 19.8) wktLiteral",
    ),
    ('"Point(1 2)"^^gsp:wktLiteral', Coordinate(1, 2, "http://x/Mars"), "<http://x/Mars> POINT(2 1) wktLiteral"),
    ('"1.20 km"^^cdt:length', Quantity(7, "m"), "7.00 m length"),
    ('"70.5"^^dt:kilogram', Quantity(80, "kilogram"), "80.0 kilogram"),
    ('"70.5"^^dt:kilogram', Quantity(80, "gram"), "80.0 gram"),
    ('"70.5"^^dt:kilogram, "7"^^dt:gram', Quantity(80, "gram"), "80 gram"),
    ('"70.5"^^dt:kilogram', 80, "80.0 kilogram"),
    ("70, 80", Quantity(75, "kg"), "75 integer"),
    ("'a'", SOMEVALUE, "<urn:kbdisk:somevalue>"),
]


@for_each(("objects", "value", "written"), LITERALS)
def test_a_new_value_is_spelt_as_its_property_is(objects, value, written):
    assert short(shape_of(objects), value) == written


@for_each(
    ("objects", "value", "reason"),
    [
        ("5, 7", 3.7, "expected a whole number, got 3.7"),
        ("5, 7", "many", "expected a number, got 'many'"),
        ("5, 7", True, "expected a number, got True"),
        ('"5"^^xsd:byte', 300, "expected a whole number from -128 to 127, got '300'"),
        ("1.5", Quantity(None, "kg"), "expected a number, got None"),
        ('"1E1"^^xsd:double', 10**400, "expected a finite number"),
        ("true", 1, "expected true or false, got 1"),
        ('"1950-01-01"^^xsd:date', Date(1990), "expected a date such as 1912-11-28, got a date of year 1990"),
        ('"1950-01-01"^^xsd:date', "soon", "expected a date such as 1912-11-28, got"),
        ('"1950"^^xsd:gYear', Date(1990, 5), "expected a year such as 1912, got a date of year 1990, month 5"),
        (
            '"1950-01-01T10:00:00"^^xsd:dateTime, "1950-01-01T11:00:00"^^xsd:dateTime',
            Date(1990, 5, 3),
            "expected a date and time",
        ),
        (":Albania", "Greece", "expected a link to an entity, got 'Greece'"),
        (":Albania", 5, "expected a link to an entity, got 5"),
        (":Albania", Link("_:[0]"), "expected a node with a label, got the anonymous"),
        ("'Albania'", Link("http://x/"), "expected a string, got a link to <http://x/>"),
        ("'Albania'", 5, "expected a string, got 5"),
        ("'Albania'", Date(1990), "expected a string, got"),
        ("'Albania'", {"a": 1}, "expected a string, got a part"),
        ("'Albania'", "\ud800", "expected text that can be written as UTF-8"),
        ('"POINT(1 2)"^^gsp:wktLiteral', Coordinate(1, None), "expected a latitude and a longitude, got one of them"),
        ('"POINT(1 2)"^^gsp:wktLiteral', Coordinate(100, 1), "expected a latitude from -90 to 90, got 100"),
        ('"1.20 km"^^cdt:length', Quantity(7, None), "expected a number with its unit"),
        ('"1.20 km"^^cdt:length', Quantity(7, "light years"), "expected a number"),
        ('"70.5"^^dt:kilogram', Quantity(7, "light years"), "expected a quantity in kilogram, got one in light years"),
        (
            "[ a s:GeoCoordinates ; s:latitude 1 ; s:longitude 2 ]",
            Coordinate(1, 2, "http://x/Mars"),
            "expected a place on the Earth",
        ),
        ("[ a s:QuantitativeValue ; s:value 1 ; s:unitCode 'KGM' ]", 5, "expected a quantity, got 5"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_a_reason(objects, value, reason):
    with pytest.raises(ValueError, match=rf"^{reason.replace('(', '.').replace('[', '.')}"):
        shape_of(objects).write(value, fresh())


NODES = [  # what a property has, and new values
    (
        "[ a qudt:QuantityValue ; qudt:numericValue 1.5 ; qudt:unit unit:KiloM ]",
        [Quantity(2.5, KM), Quantity(2, M), Quantity(3.25, None)],
    ),
    ("[ qudt:value 1.5e0 ; qudt:hasUnit unit:KiloM ]", [Quantity(2.5, KM)]),
    ("[ a s:QuantitativeValue ; s:value 140 ; s:unitCode 'GRM' ]", [Quantity(150, "GRM"), Quantity(1, "KGM")]),
    ("[ a s:QuantitativeValue ; s:value 140 ; s:unitText 'g' ]", [Quantity(150, "g")]),
    ("[ a s:MonetaryAmount ; s:value 9.99 ; s:currency 'EUR' ]", [Quantity(10.5, "USD")]),
    ("[ a s:PriceSpecification ; s:price '9.99'^^xsd:float ; s:priceCurrency 'EUR' ]", [Quantity(10.5, "EUR")]),
    ("[ a om:Measure ; om:hasNumericalValue 3 ; om:hasUnit om:metre ]", [Quantity(4, "http://x/mile")]),
    (
        "[ a wikibase:QuantityValue ; wikibase:quantityAmount '+1.96'^^xsd:decimal ; wikibase:quantityUnit wd:Q11573 ; "
        "wikibase:quantityUpperBound '+2'^^xsd:decimal ]",
        [Quantity(2.5, "http://www.wikidata.org/entity/Q11573"), 7],
    ),
    (
        f"[ a wikibase:TimeValue ; wikibase:timeValue {NEW} ; wikibase:timePrecision 11 ; {FULL} ]",
        [
            Date(1952, 3, 11),
            Date(1952, 3),
            Date(-43),
            Date(1950, precision="decade"),
            Date(2012, 2, 29, calendar=JULIAN),
        ],
    ),
    (f"[ a wikibase:TimeValue ; wikibase:timeValue {NEW} ; wikibase:timePrecision 11 ]", [Date(1952, 3, 11)]),
    (
        "[ a wikibase:GlobecoordinateValue ; wikibase:geoLatitude 1.5e0 ; wikibase:geoLongitude 2.5e0 ; wikibase:geoGlobe wd:Q2 ]",
        [Coordinate(41.3, 19.8), Coordinate(1.5, 2.5, "http://www.wikidata.org/entity/Q111")],
    ),
    (
        "[ a time:Instant ; time:inXSDDate '1950-01-01'^^xsd:date ] , [ a time:Instant ; time:inXSDgYear '1950'^^xsd:gYear ]",
        [Date(1990, 5, 3), Date(1990)],
    ),
    (
        "[ a time:Instant ; time:inDateTime [ a time:DateTimeDescription ; time:year '1950'^^xsd:gYear ; "
        "time:month '--01'^^xsd:gMonth ; time:day '---01'^^xsd:gDay ] ]",
        [Date(1990, 5, 3), Date(1990)],
    ),
    ("[ a time:GeneralDateTimeDescription ; time:year 1950 ]", [Date(1990)]),
    ("[ a s:GeoCoordinates ; s:latitude 1.5 ; s:longitude 2.5 ]", [Coordinate(41.3, 19.8), Coordinate(None, 19.8)]),
    ("[ geo:lat '1.5'^^xsd:float ; geo:long '2.5'^^xsd:float ]", [Coordinate(41.3, 19.8)]),
    ("[ a gsp:Geometry ; gsp:asWKT 'Point(1 2)'^^gsp:wktLiteral ]", [Coordinate(41.3, 19.8)]),
]


@for_each(("objects", "values"), NODES)
def test_a_node_of_any_form_is_read_back_as_the_value_it_was_made_of(objects, values):
    shape = shape_of(objects)
    for value in values:
        term, triples = shape.write(value, fresh())
        assert isinstance(term, BlankNode)
        assert read_back(term, triples) == value


def test_a_new_node_has_the_classes_predicates_and_spellings_of_the_others():
    shape = shape_of("[ a qudt:QuantityValue ; qudt:value '1.50'^^xsd:double ; qudt:hasUnit unit:KiloM ]")
    assert made(shape, Quantity(2.5, M)) == [
        "_:new0",
        f"_:new0 <http://qudt.org/schema/qudt/hasUnit> <{M}>",
        '_:new0 <http://qudt.org/schema/qudt/value> "2.50"^^<http://www.w3.org/2001/XMLSchema#double>',
        "_:new0 <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://qudt.org/schema/qudt/QuantityValue>",
    ]


def test_a_unit_that_is_told_twice_is_told_twice_again():
    shape = shape_of("[ a s:QuantitativeValue ; s:value 140 ; s:unitCode 'GRM' ; s:unitText 'g'@en ]")
    triples = made(shape, Quantity(150, "GRM"))
    assert '_:new0 <http://schema.org/unitCode> "GRM"' in triples
    assert '_:new0 <http://schema.org/unitText> "g"@en' in triples
    assert not any("unitText" in triple for triple in made(shape, Quantity(150, "KGM")))


def test_value_nodes_with_iris_are_learnt_from_and_a_new_one_is_blank():
    quads = f"{PREFIXES} :it :has :v1 . :v1 a qudt:QuantityValue ; qudt:numericValue 1.5 ; qudt:unit unit:KiloM ."
    graph = graph_of(pyoxigraph.parse(quads, format=RdfFormat.TURTLE))
    node = pyoxigraph.NamedNode("http://example.org/v1")
    for found in (graph.get, graph[node]):
        term, triples = PredicateTemplates.of([(node, found)]).write(Quantity(2.5, KM), fresh())
        assert isinstance(term, BlankNode)
        assert len(triples) == 3


def test_what_a_node_lacks_is_added_to_it_and_nothing_else():
    shape = shape_of(
        "[ a qudt:QuantityValue ; qudt:numericValue 1.5 ; qudt:hasUnit unit:KiloM ] , [ a qudt:QuantityValue ; qudt:numericValue 1 ]"
    )
    node = BlankNode("mine")
    quads = pyoxigraph.parse(
        f"{PREFIXES} _:mine a qudt:QuantityValue ; qudt:numericValue 7.5 .", format=RdfFormat.TURTLE
    )
    fields = next(iter(graph_of(quads).values()))
    added = shape.missing(node, fields, Quantity(7.5, M), fresh())
    assert [str(triple) for triple in added] == [f"_:mine <http://qudt.org/schema/qudt/hasUnit> <{M}>"]
    lonely = PredicateTemplates().missing(node, fields, Quantity(7.5, M), fresh())
    assert [str(triple) for triple in lonely] == [f"_:mine <http://qudt.org/schema/qudt/unit> <{M}>"]


def test_a_property_without_values_takes_natural_ones():
    assert made(PredicateTemplates(), Quantity(5, "km")) == [
        "_:new0",
        '_:new0 <http://schema.org/unitText> "km"',
        '_:new0 <http://schema.org/value> "5"^^<http://www.w3.org/2001/XMLSchema#integer>',
        "_:new0 <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://schema.org/QuantitativeValue>",
    ]
    assert short(PredicateTemplates(), Coordinate(41.3, 19.8)) == "POINT(19.8 41.3) wktLiteral"
    assert short(PredicateTemplates(), Link("Nokia")) == "<urn:kbdisk:id:Nokia>"
    assert short(PredicateTemplates(), None) == "<urn:kbdisk:asked>"


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
floats = st.floats(allow_nan=False, allow_infinity=False)
numbers = st.integers() | floats
long_decimals = st.decimals(allow_nan=False, allow_infinity=False).filter(
    lambda value: Decimal(repr(float(value))) != value
)
fields = [st.none() | st.integers() | st.integers(1, 28) for _ in range(3)]
precisions = st.sampled_from(["", "day", "month", "season", "year", "decade", "century", "1Ga"])
iris = st.sampled_from(["http://x/km", "urn:kbdisk:asked", "urn:kbdisk:id:x", "_:b0", "Nokia", "a b"])
values = st.one_of(
    numbers,
    long_decimals,
    text,
    st.booleans(),
    st.none(),
    st.sampled_from([SOMEVALUE, NOVALUE]),
    st.builds(Text, text, st.sampled_from(["en", "de-at", "", "no language"])),
    st.builds(Date, *fields, precisions, text, text, text),
    st.builds(Date, st.integers(-9999, 9999), st.integers(1, 12), st.integers(1, 28), precisions),
    st.fixed_dictionaries({"start": st.builds(Date, st.integers(-9999, 99999)), "end": st.just(Date(2000, 1))}),
    st.builds(Quantity, st.none() | numbers | long_decimals, st.none() | text | iris),
    st.builds(Coordinate, st.none() | numbers, st.none() | numbers, text),
    st.builds(Coordinate, st.floats(-90, 90), st.floats(-180, 180)),
    st.builds(Link, iris | text.filter(lambda id: not id.startswith("_:"))),
)


@given(values)
def test_any_value_is_read_back_from_its_natural_terms(value):
    read = read_back(*natural_term(value, fresh()))
    assert read == value
    assert type(read) is type(value) or type(value) is Decimal  # a whole one is read as an integer


@given(st.lists(floats, min_size=1, max_size=5), floats, st.sampled_from(["decimal", "double", "float"]))
def test_no_habit_changes_a_number(seen, number, datatype):
    objects = ", ".join(f'"{one}"^^xsd:{datatype}' for one in seen)
    term, _ = shape_of(objects).write(number, fresh())
    assert value_of_term(term) == number


@for_each("value", [[1, 2], {"a": 1}, {}, {"start": 5}])
def test_a_list_or_a_part_is_no_single_value(value):
    with pytest.raises(ValueError, match=r"^expected "):
        natural_term(value, fresh())


@pytest.mark.shared
def test_mondial_keeps_its_years_as_gyears_and_its_areas_as_numbers(data):
    quads = list(pyoxigraph.parse(path=str(data / "rdf" / "mondial" / "mondial-europe.n3"), format=RdfFormat.TURTLE))
    graph = graph_of(quads)

    def observed(name):
        return PredicateTemplates.of(
            (quad.object, graph.get) for quad in quads if quad.predicate.value.endswith("#" + name)
        )

    assert short(observed("year"), Date(1990)) == "1990 gYear"
    assert short(observed("independenceDate"), Date(1990, 5, 3)) == "1990-05-03 date"
    assert short(observed("population"), 5000) == "5000 integer"
    assert short(observed("unemployment"), 4.5) == "4.5 decimal"
    with pytest.raises(ValueError, match=r"^expected a date such as"):
        observed("independenceDate").write(Date(1990), fresh())
