"""Our values in JSON, both ways."""

from __future__ import annotations

import json
from decimal import Decimal

import orjson
import pytest
from hypothesis import given
from strategies import dates, trees, values
from tables import for_each

from kbdisk.entity import NOVALUE, SOMEVALUE, Coordinate, Date, Link, Quantity, Text
from kbdisk.loaders.json import text
from kbdisk.loaders.values.tagged_json import decode, encode, read_float, read_int
from kbdisk.schemas.text.dates import show_day
from kbdisk.schemas.text.numerals import show_digits

FORMS = [  # a value, its JSON
    (Link("http://ex.org/ada"), {"@id": "http://ex.org/ada"}),
    (Text("Albanien", "de"), {"@value": "Albanien", "@language": "de"}),
    (Date(1912, 11, 28), {"@date": "1912-11-28"}),
    (Date(1912), {"@date": "1912"}),
    (Date(-43, 3), {"@date": "-0043-03"}),
    (Date(None, 12, 24), {"@date": "XXXX-12-24"}),
    (Date(1912, None, 5), {"@date": "1912-XX-05"}),
    (Date(170000002, precision="10ka"), {"@date": "170000002", "@precision": "10ka"}),
    (Date(1582, 10, 4, time="T12:00:00Z", calendar="julian", note="?"),
     {"@date": "1582-10-04", "@time": "T12:00:00Z", "@calendar": "julian", "@note": "?"}),
    (Quantity(133, "g"), {"@quantity": 133, "@unit": "g"}),
    (Quantity(None, "g"), {"@quantity": None, "@unit": "g"}),
    (Quantity(Decimal("1.50"), None), {"@quantity": {"@decimal": "1.50"}, "@unit": None}),
    (Coordinate(41.3, 19.8), {"@latitude": 41.3, "@longitude": 19.8}),
    (Coordinate(4, None, "Mars"), {"@latitude": 4, "@longitude": None, "@globe": "Mars"}),
    (SOMEVALUE, {"@known": "somevalue"}),
    (NOVALUE, {"@known": "novalue"}),
    (Decimal("1.50"), {"@decimal": "1.50"}),
    (Decimal("3"), {"@decimal": "3"}),
]  # fmt: skip


@for_each(("value", "form"), FORMS, ids=lambda value: str(value)[:40])
def test_every_value_has_its_form_both_ways(value, form):
    assert json.loads(orjson.dumps(encode(value))) == form
    (again,) = decode({"key": form}).values()
    assert (type(again), again) == (type(value), value)


def test_a_decimal_that_a_float_would_not_hold_is_a_bare_number():
    assert orjson.dumps(encode(Decimal("0.10000000000000000001"))) == b"0.10000000000000000001"


@for_each(
    "part",
    [
        {"@id": "x", "name": "Ada"},
        {"@id": 3},
        {"@value": "x"},
        {"@value": "x", "@language": None},
        {"@date": "soon"},
        {"@date": "1912", "@precision": "about"},
        {"@date": "1912", "@type": "gYear"},
        {"@quantity": "3", "@unit": "g"},
        {"@quantity": 3},
        {"@quantity": True, "@unit": "g"},
        {"@latitude": 1.0},
        {"@latitude": 1.0, "@longitude": "x"},
        {"@known": "perhaps"},
        {"@decimal": "x"},
        {"@decimal": "NaN"},
        {"@type": "Person"},
    ],
)
def test_any_other_part_stays_a_part(part):
    assert decode({"key": dict(part)}) == {"key": part}


def test_values_are_found_within_lists_and_parts():
    assert decode({"a": [{"b": {"@id": "x"}}, [{"@id": "y"}]]}) == {"a": [{"b": Link("x")}, [Link("y")]]}


@given(trees())
def test_any_tree_survives_its_json(tree):
    tree = {"tree": tree}
    again, notes = text.parse_object(orjson.dumps(encode(tree)))
    assert repr(again) == repr(tree)  # types, order, and the sign of zero, too
    assert notes == []


@given(values(dates()))
def test_all_fields_of_a_date_survive(value):
    assert decode({"key": encode(value)}) == {"key": value}


@for_each("value", [float("nan"), float("inf"), Decimal("NaN"), Decimal("-Infinity")])
def test_what_is_not_finite_is_refused(value):
    with pytest.raises(ValueError, match="expected a finite number"):
        encode({"a": [value]})


@pytest.mark.slow
def test_what_could_not_be_read_again_for_its_depth_is_refused():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="at most 200 parts"):
        encode(deep)


def test_integers_of_thousands_of_digits_are_exact():
    number = 7**9000
    text = show_digits(number)
    assert len(text) > 4300
    assert read_int(text) == number
    assert read_int("-" + text) == -number
    assert show_digits(-number) == "-" + text


def test_a_number_of_absurd_length_is_refused_at_once():
    with pytest.raises(ValueError, match="at most 100000 digits, got 1000000"):
        read_int("9" * 1_000_000)


@for_each(
    ("text", "value"),
    [
        ("1.50", 1.5),
        ("1E3", 1000.0),
        ("3.141592653589793", 3.141592653589793),
        ("0.30000000000000000000", 0.3),
        ("0.10000000000000000001", Decimal("0.10000000000000000001")),
        ("1e400", Decimal("1E+400")),
        ("1e-400", Decimal("1E-400")),
        ("0e-400", 0.0),
    ],
)
def test_a_float_where_it_holds_all_digits_else_a_decimal(text, value):
    assert (type(read_float(text)), read_float(text)) == (type(value), value)


def test_days_are_shown_as_far_as_they_are_known():
    assert [show_day(Date(1912, 11, 28)), show_day(Date(44, 3)), show_day(Date(-12000)), show_day(Date())] == [
        "1912-11-28",
        "0044-03",
        "-12000",
        "XXXX",
    ]
