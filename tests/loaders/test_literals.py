"""Literals: every datatype's lexical forms become values, exactly, and what does not fit is refused."""

from __future__ import annotations

from dataclasses import astuple
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import for_each

from kbdisk.entity import NOVALUE, SOMEVALUE, Coordinate, Date, Link, Quantity, Text
from kbdisk.loaders.rdf.terms import CONVERTERS, DBPEDIA, NAMED, RANGES, WKT, XSD, literal_of, value_of
from kbdisk.schemas.text import numerals

CDT = "https://w3id.org/cdt/"
CRS = "http://www.opengis.net/def/crs/"
MARS = "http://www.wikidata.org/entity/Q111"

VALUES = [
    ("5", XSD + "integer", 5),
    ("+007", XSD + "integer", 7),
    ("-0", XSD + "integer", 0),
    ("123456789012345678901234567890", XSD + "integer", 123456789012345678901234567890),
    ("255", XSD + "unsignedByte", 255),
    ("-128", XSD + "byte", -128),
    ("18446744073709551615", XSD + "unsignedLong", 2**64 - 1),
    ("5", XSD + "decimal", 5),
    ("7.48", XSD + "decimal", 7.48),
    ("+965.465", XSD + "decimal", 965.465),
    (".5", XSD + "decimal", 0.5),
    ("5.", XSD + "decimal", 5.0),
    ("-0.14544444444444", XSD + "decimal", -0.14544444444444),
    ("12.50000000000000000000", XSD + "decimal", 12.5),
    (
        "19.768000000000000682121026329696178436279296875",
        XSD + "decimal",
        Decimal("19.768000000000000682121026329696178436279296875"),
    ),
    ("1.5E3", XSD + "double", 1500.0),
    ("170.0", XSD + "float", 170.0),
    ("-1e-7", XSD + "double", -1e-7),
    ("5", XSD + "double", 5.0),
    ("true", XSD + "boolean", True),
    ("0", XSD + "boolean", False),
    ("a b", XSD + "string", "a b"),
    ("http://x/", XSD + "anyURI", "http://x/"),
    ("1912-11-28", XSD + "date", Date(1912, 11, 28)),
    ("12:00:00", XSD + "time", "12:00:00"),
    ("201X", "http://id.loc.gov/datatypes/edtf/EDTF", Date(2010, precision="decade")),
    ("1964/2008", "http://id.loc.gov/datatypes/edtf/EDTF-level0", {"start": Date(1964), "end": Date(2008)}),
    ("--11", "http://www.w3.org/2006/time#generalMonth", Date(None, 11)),
    ("POINT(19.8 41.3)", WKT, Coordinate(41.3, 19.8)),
    ("point ( 19.8  41 )", WKT, Coordinate(41, 19.8)),
    ("Point(-0.14544444444444 51.566527777778)", WKT, Coordinate(51.566527777778, -0.14544444444444)),
    ("POINT Z (19.8 41.3 110)", WKT, Coordinate(41.3, 19.8)),
    (f"<{CRS}OGC/1.3/CRS84> POINT(19.8 41.3)", WKT, Coordinate(41.3, 19.8)),
    (f"<{CRS}EPSG/0/4326> POINT(41.3 19.8)", WKT, Coordinate(41.3, 19.8)),
    (f"<{MARS}> Point(137.4 -4.6)", WKT, Coordinate(-4.6, 137.4, MARS)),
    ("LINESTRING(1 2, 3 4)", WKT, "LINESTRING(1 2, 3 4)"),
    ("POINT EMPTY", WKT, "POINT EMPTY"),
    (f"<{CRS}EPSG/0/3857> POINT(2200000 5000000)", WKT, f"<{CRS}EPSG/0/3857> POINT(2200000 5000000)"),
    ("1.2 km", CDT + "ucum", Quantity(1.2, "km")),
    ("-3e4 m.s-2", CDT + "acceleration", Quantity(-30000.0, "m.s-2")),
    ("5", CDT + "dimensionless", Quantity(5, "")),
    ("km", CDT + "ucumunit", "km"),
    ("70.5", DBPEDIA + "kilogram", Quantity(70.5, "kilogram")),
    ("1.0E9", DBPEDIA + "usDollar", Quantity(1e9, "usDollar")),
    ("V8", DBPEDIA + "engineConfiguration", "V8"),
    ("anything", "urn:some:datatype", "anything"),
]


@for_each(("lexical", "datatype", "value"), VALUES)
def test_a_literal_is_read_exactly(lexical, datatype, value):
    read = value_of(lexical, datatype)
    assert read == value
    assert type(read) is type(value)


def test_a_text_keeps_its_language():
    assert value_of("Albanien", "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString", "de") == Text("Albanien", "de")


@for_each(
    ("lexical", "datatype"),
    [
        *(
            (text, XSD + "integer")
            for text in ("", "1,234", " 5", "5\n", "1_000", "5.0", "5e3", "+-5", "-", "٥", "0x1F", "9" * 5000 + "-")
        ),
        *(
            (text, XSD + "decimal")
            for text in ("", ".", "5e3", "1.2.3", "INF", " 1.5", "1_0.5", "+-1.5", "1.5\n", "٥.٥")
        ),
        *(
            (text, XSD + "double")
            for text in ("", "INF", "-INF", "NaN", "nan", "infinity", "1e400", "1e", "e5", " 1.5", "1_0.5")
        ),
        ("300", XSD + "byte"),
        ("-5", XSD + "nonNegativeInteger"),
        ("0", XSD + "positiveInteger"),
        ("yes", XSD + "boolean"),
        ("True", XSD + "boolean"),
        ("1912-02-30", XSD + "date"),
        ("somewhere", WKT),
        ("POINT(19.8 141.3)", WKT),
        ("POINT(1.2.3 4)", WKT),
        ("12 light years", CDT + "length"),
        ("heavy", DBPEDIA + "kilogram"),
        ("year", "urn:kbdisk:date"),
        ("day=soon", "urn:kbdisk:date"),
        ("x", "urn:kbdisk:decimal"),
        ("NaN", "urn:kbdisk:decimal"),
        ("x", "urn:kbdisk:text"),
    ],
)
def test_a_lexical_form_that_its_datatype_does_not_allow_is_refused(lexical, datatype):
    with pytest.raises(ValueError, match=r"^expected .*, got "):
        value_of(lexical, datatype)


@for_each("name", RANGES)
def test_derived_integers_keep_their_limits(name):
    low, high = RANGES[name]
    for limit, beyond in ((low, -1), (high, 1)):
        if limit is not None:
            assert value_of(str(limit), XSD + name) == limit
            with pytest.raises(ValueError, match=r"^expected a whole number"):
                value_of(str(limit + beyond), XSD + name)


def test_numbers_of_any_length_are_exact():
    assert value_of("-" + "7" * 5000, XSD + "integer") == -7 * (10**5000 - 1) // 9
    assert literal_of(10**5000).lexical == "1" + "0" * 5000


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30))
def test_a_decimal_loses_no_digit(number):
    read = numerals.decimal(format(number, "f"))
    assert (Decimal(repr(read)) if isinstance(read, float) else Decimal(read)) == number


def test_the_table_has_no_reader_for_what_is_its_own_value():
    assert CONVERTERS.get("urn:some:datatype") is None
    assert CONVERTERS[XSD + "string"] is None
    assert CONVERTERS.get(DBPEDIA + "metre")("5") == Quantity(5, "metre")


def test_known_and_asked_have_their_iris():
    assert NAMED == {"urn:kbdisk:somevalue": SOMEVALUE, "urn:kbdisk:novalue": NOVALUE, "urn:kbdisk:asked": None}


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
floats = st.floats(allow_nan=False, allow_infinity=False)
long_decimals = st.decimals(allow_nan=False, allow_infinity=False).filter(
    lambda value: Decimal(repr(float(value))) != value
)
numbers = st.integers() | floats | long_decimals
precisions = st.sampled_from(["", "second", "day", "month", "season", "year", "decade", "century", "1Ga"])
every_date = st.builds(
    Date,
    *(st.none() | st.integers() | st.integers(1, 28) for _ in range(3)),
    precisions,
    *(text | st.just("Z") for _ in range(3)),
)
likely_dates = st.builds(Date, st.integers(-3000, 12000), st.integers(1, 12), st.integers(1, 31), precisions)
coordinates = st.builds(Coordinate, st.none() | numbers, st.none() | numbers, text | st.just(MARS)) | st.builds(
    Coordinate, st.floats(-90, 90), st.floats(-180, 180), st.just("") | st.just(MARS)
)
texts = st.builds(Text, text, st.sampled_from(["en", "de-at", "", "no language", "x", "é"]))
atoms = numbers | st.booleans() | text | texts | every_date | likely_dates | coordinates


def same(one, other):
    """Equal, and of the same type all through: 5 is not 5.0. (A whole Decimal is read as an integer.)"""
    if one != other:
        return False
    if hasattr(one, "__dataclass_fields__"):
        return type(one) is type(other) and all(map(same, astuple(one), astuple(other)))
    return type(one) is type(other) or (type(other) is Decimal and type(one) is int)


@given(atoms)
def test_any_value_that_a_literal_can_say_is_read_back_as_it_was(value):
    assert same(value_of(*literal_of(value)), value)


@for_each(
    ("value", "lexical", "datatype"),
    [
        (5, "5", "integer"),
        (7.48, "7.48", "decimal"),
        (3.0, "3.0", "decimal"),
        (1e22, "1.0E22", "double"),
        (Decimal("3.14159265358979323846"), "3.14159265358979323846", "decimal"),
        (True, "true", "boolean"),
        ("x", "x", "string"),
        (Date(1990), "1990", "gYear"),
        (Date(1990, 5, 3, time="T12:00:00Z"), "1990-05-03T12:00:00Z", "dateTime"),
    ],
)
def test_a_value_has_a_natural_literal(value, lexical, datatype):
    assert literal_of(value)[:2] == (lexical, XSD + datatype)


def test_what_no_datatype_of_others_holds_has_one_of_ours():
    assert literal_of(Date(2012, precision="year", calendar="a;b=c"))[:2] == (
        "year=2012;precision=year;calendar=a%3Bb%3Dc",
        "urn:kbdisk:date",
    )
    assert literal_of(Coordinate(None, 5))[:2] == ("longitude=5", "urn:kbdisk:coordinate")
    assert literal_of(Decimal("1E-99999"))[:2] == ("1E-99999", "urn:kbdisk:decimal")


@for_each("value", [None, SOMEVALUE, Link("http://x/"), Quantity(5, "km"), [1], {"a": 1}])
def test_what_no_literal_can_say_is_refused(value):
    with pytest.raises(ValueError, match=r"^expected a value that one literal can say, got "):
        literal_of(value)
