"""What is exported as JSON Schema is read again as the same schema; alternatives of any JSON Schema are read as one kind."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schema_examples import PHONE_SCHEMA
from tables import examples, for_each

import kbdisk
from kbdisk.errors import SchemaError
from kbdisk.schemas import library
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.exporters.jsonschema import export
from kbdisk.schemas.importers import jsonschema
from kbdisk.schemas.kinds import Boolean, Category, Link, Number, Set, Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema, of_one_class


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    path = tmp_path_factory.mktemp("json") / "some.schema.json"

    def read(told):
        path.write_text(json.dumps(told), encoding="utf-8")
        return jsonschema.read(path)

    return read


def plain(schema):
    """A schema whose properties leave out the spellings of gaps that the schema tells already."""
    classes = {}
    for one in schema.classes.values():
        properties = {
            path: replace(each, missing=tuple(text for text in each.missing if text not in schema.missing))
            for path, each in one.properties.items()
        }
        classes[one.name] = replace(one, properties=properties)
    return replace(schema, classes=classes)


def same(read, schema):
    imported = read(export(schema))
    assert imported.left_out == []
    assert imported.schema == plain(schema)


# ---------------------------------------------------------------- our own


@for_each("name", library.names())
def test_a_schema_of_the_library_comes_back_as_it_was(name, read):
    same(read, Schema.read(name))


@pytest.mark.parametrize("shared", [{}, {("x",): Property(Number(minimum=0), unique=True, iri="http://e/x")}])
def test_what_classes_share_comes_back_as_it_was(shared, read):
    classes = {
        name: Class(name, {("x",): Property(Number(minimum=low))}, superclasses=("Top", "http://e/All"))
        for name, low in (("A", 0), ("B", 1))
    }
    same(read, Schema(classes, prefixes={"e": "http://e/"}, properties=shared))
    same(read, Schema({"A": classes["A"]}, properties=shared))


def test_what_is_wrong_with_what_classes_share_is_named(read):
    told = export(Schema({"A": Class("A"), "B": Class("B")}, properties={}))
    told["x-kbdisk"]["schema"]["properties"] = {"x": {"kind": "number", "min": "low"}}
    with pytest.raises(
        SchemaError, match=r"some.schema.json: x-kbdisk.schema: properties.x.min: expected a number, got 'low'"
    ):
        read(told)


def test_every_kind_and_key_comes_back(read):
    same(read, PHONE_SCHEMA)


@pytest.mark.shared
@for_each(
    "name",
    ["json/countries.json", "json/nobel_laureates.json", "rdf/wikidata/Q42.ttl", "rdf/mondial/mondial-meta.n3"],
)
def test_an_inferred_schema_comes_back_as_it_was(name, read, data):
    same(read, kbdisk.infer(kbdisk.load(data / name)).schema)


def sayable(told):
    """A JSON Schema without the keyword that is ours alone."""
    if isinstance(told, dict):
        return {key: sayable(value) for key, value in told.items() if key != "x-kbdisk"}
    return [sayable(one) for one in told] if isinstance(told, list) else told


@for_each("name", library.names())
def test_without_our_keyword_the_kinds_are_the_same_but_for_links_and_what_is_told_of_learning(name, read):
    schema = Schema.read(name)
    imported = read(sayable(export(schema))).schema
    for before, after in zip(schema.classes.values(), imported.classes.values(), strict=True):
        assert list(after.properties) == list(before.properties)
        for path, one in before.properties.items():
            kind, told = one.kind, after.properties[path].kind
            if isinstance(kind, Number):
                assert (told.integer, told.minimum, told.maximum) == (kind.integer, kind.minimum, kind.maximum), path
            elif isinstance(kind, Quantity):
                assert (told.units(), told.value.minimum) == (kind.units(), kind.value.minimum), path
            elif isinstance(kind, Date):
                assert (type(told), told.minimum, told.maximum) == (Date, kind.minimum, kind.maximum), path
            elif isinstance(kind, Category) and kind.closed:
                assert set(told.values if isinstance(told, Category) else (True, False)) == set(kind.values), path
            elif not isinstance(kind, Link | Set | Listed):
                assert isinstance(told, type(kind)), path


def test_who_changes_the_json_schema_changes_what_is_read(read):
    told = export(of_one_class({("weight",): Property(Quantity("g", {"kg": 1000}, Number(minimum=0)))}))
    text = json.dumps(told).replace('"minimum": 0', '"minimum": 5').replace('"type": "number"', '"type": "integer"')
    found = read(json.loads(text)).schema.classes[""].properties["weight",].kind
    assert found == Quantity("g", {"kg": 1000}, Number(integer=True, minimum=5))


@for_each(
    ("told", "complaint"),
    [
        ({"kind": "lnik"}, r"properties.x.x-kbdisk: expected a kind, got 'lnik'"),
        ({"kind": "number", "decimals": "few"}, r"properties.x.x-kbdisk: "),
        ({"role": "star"}, r"properties.x.x-kbdisk: role: expected one of value, given, ignore, got 'star'"),
        ({"formula": "a +"}, r"properties.x.x-kbdisk: formula: "),
        ("link", r"properties.x.x-kbdisk: expected keys of a schema of ours, got 'link'"),
    ],
)
def test_a_keyword_of_ours_that_is_wrong_is_one_line_with_its_place(told, complaint, read):
    with pytest.raises(SchemaError, match=complaint) as caught:
        read({"properties": {"x": {"type": "number", "x-kbdisk": told}}})
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- any schema of ours

words = st.sampled_from(["a", "b c", "kind", "value", "unit", "year", "month", "lat", "lng", "key", 'É/~."x'])
labels = st.lists(
    st.sampled_from(["x", "y", "5", "", "nan", 1, 2.5, True, False]), min_size=1, max_size=4, unique_by=str
)
bound = st.none() | st.integers(-5, 5).map(float)
numbers = st.builds(
    Number,
    st.booleans(),
    st.none() | st.integers(-9, 0),
    st.none() | st.integers(1, 9),
    st.sampled_from(["auto", "log"]),
    st.none() | st.integers(0, 3),
)
categories = st.builds(Category, labels.map(tuple), st.booleans(), st.booleans()) | st.just(Category())
links = st.builds(Link, st.none() | st.just("City"), st.just(()) | st.just(("a", "b")))
units = st.dictionaries(st.sampled_from(["kg", "lb", "m/s (x)"]), st.none() | st.just(10.0), max_size=2)
quantities = st.builds(Quantity, st.none() | st.just("g"), units, numbers) | st.builds(
    lambda units, value, how: Quantity(
        "g", units, value, normal=how == "normal", any_unit=how == "any", comma=how == "comma"
    ),
    units,
    numbers,
    st.sampled_from(["", "normal", "any", "comma"]),
)
dates = st.builds(
    Date,
    st.sampled_from(["iso", "dmy", "mdy", "ymd"]),
    st.sampled_from([("year", "month", "day"), ("year",), ("month", "year")]),
    st.none() | st.just(1900),
    st.none() | st.just(2100),
    st.booleans(),
)
leaves = st.one_of(
    numbers,
    categories,
    st.just(Boolean()),
    st.builds(Text, st.none() | st.just("en"), st.none() | st.integers(5, 9), st.integers(0, 4)),
    links,
    st.builds(Set, categories | links, st.none() | st.integers(1, 4)),
    quantities,
    dates,
    st.builds(Coordinate, st.booleans()),
)


def nested(inner):
    fields = st.dictionaries(words, inner, min_size=1, max_size=3) | inner.map(lambda kind: {"": kind})
    most = st.none() | st.integers(1, 4)
    keys = st.just(Category()) | categories.filter(lambda one: all(isinstance(value, str) for value in one.values))
    return st.builds(Listed, fields, most) | st.builds(Mapped, fields, keys | links, most)


kinds = st.recursive(leaves, nested, max_leaves=4)
spellings = st.lists(st.sampled_from(["n/a", "-1", "?"]), max_size=2, unique=True).map(tuple)
properties = st.builds(
    Property,
    kinds,
    st.sampled_from(["value", "given", "ignore"]),
    st.booleans(),
    st.booleans(),
    st.just(""),
    spellings,
    st.sampled_from([(), ("none",), ("0000",)]),
    iri=st.none() | st.just("http://example.org/p"),
    label=st.sampled_from(["", "Label"]),
    description=st.sampled_from(["", "What it is."]),
)
one_of_several = st.builds(Property, numbers | categories | dates, many=st.sampled_from(["first", "latest", "median"]))
paths = st.lists(words, min_size=1, max_size=2).map(tuple)
of_class = st.dictionaries(paths, properties | one_of_several, min_size=1, max_size=3).filter(
    lambda found: not any((path[0],) in found for path in found if len(path) > 1)
)


@st.composite
def schemas(draw):
    classes = {}
    for name in draw(st.lists(st.sampled_from(["", "Phone", "big city"]), min_size=1, max_size=2, unique=True)):
        label, iri, id = draw(st.sampled_from([("", None, None), ("Label", "http://example.org/C", ("a", "id"))]))
        classes[name] = Class(name, draw(of_class), iri, id, label)
    return Schema(classes, draw(st.sampled_from(["", "All"])), "", draw(spellings))


@settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(schema=schemas())
def test_any_schema_comes_back_as_it_was(schema, read):
    same(read, schema)


# ---------------------------------------------------------------- alternatives of others

STRING, NUMBER, NULL = {"type": "string"}, {"type": "number"}, {"type": "null"}


def objects(**properties):
    return {"type": "object", "properties": properties}


MONEY = objects(value={"type": "number", "minimum": 0}, currency={"enum": ["EUR", "USD"]})


@for_each(
    ("choices", "kind"),
    [
        ([NUMBER, {"type": "string", "pattern": "^[0-9.]+$"}], Number()),
        ([{"type": "integer", "minimum": 1, "maximum": 3}, {"type": "integer", "minimum": 0, "maximum": 2}], Number(True, 0, 3)),
        ([NUMBER, STRING], Category()),
        ([NUMBER, NULL, {"const": "unknown"}], Number()),
        ([{"type": "string", "maxLength": 3}, {"type": "string", "maxLength": 7, "minLength": 1}], Text(max_length=7)),
        ([{"enum": ["red", "blue"]}, STRING], Category(("red", "blue"))),
        ([{"enum": ["red"]}, {"enum": [None, "blue"]}], Category(("red", "blue"), closed=True)),
        ([{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}, NULL], Date()),
        ([{"type": "string", "format": "date"}, {"type": "integer"}], Date()),
        ([{"type": "string", "format": "date"}, STRING], Text()),
        ([objects(year={"type": "integer"}, month={"type": "integer"}), {"type": "integer"}], Date(parts=("year", "month"))),
        ([NUMBER, MONEY], Quantity(None, {"EUR": None, "USD": None}, names=("value", "currency"))),
        ([MONEY, {"type": "string", "pattern": "EUR$"}], Quantity(None, {"EUR": None, "USD": None}, Number(minimum=0), names=("value", "currency"))),
        ([objects(lat=NUMBER, lng=NUMBER), {"type": "array", "items": NUMBER, "minItems": 2}], Coordinate()),
        ([NUMBER, {"type": "object", "additionalProperties": STRING}], None),
        ([objects(lat=NUMBER, lng=NUMBER), STRING], Coordinate()),
        ([STRING, {"type": "array", "items": STRING}], Set(Category())),
        ([{"enum": ["a"]}, {"type": "array", "items": {"enum": ["a"]}}], Set(Category(("a",), closed=True))),
        ([NUMBER, {"type": "array", "items": {"oneOf": [NUMBER, NULL]}}], Listed({"": Number()})),
        ([objects(n=STRING), {"type": "array", "items": objects(n=STRING)}], Listed({"n": Text()})),
        ([NUMBER, {"type": "array", "items": NUMBER, "maxItems": 1}], Number()),
        ([NUMBER, {"type": "array", "maxItems": 0}], Number()),
        ([{"anyOf": [NUMBER, NULL]}, {"anyOf": [NULL, {"type": "integer"}]}], Number()),
        ([{"type": "object", "additionalProperties": STRING}, NULL], Mapped({"": Text()})),
    ],
)  # fmt: skip
@for_each("word", ["anyOf", "oneOf"])
def test_alternatives_are_read_as_the_one_kind_that_takes_them(choices, kind, word, read):
    imported = read(objects(x={word: choices, "title": "X"}))
    found = imported.schema.classes[""].properties.get(("x",))
    assert (found and found.kind) == kind
    assert kind is not None or "x: its alternatives are of no one kind" in imported.left_out
    assert found is None or found.label == "X"


def test_words_beside_numbers_are_gaps_and_said_to_be(read):
    imported = read(objects(x={"anyOf": [NUMBER, {"enum": ["unknown", None]}]}))
    assert imported.schema.classes[""].properties["x",] == Property(Number(), missing=("unknown",))
    assert imported.left_out == ["x: 'unknown' is taken for a gap"]


def test_alternatives_of_parts_have_the_properties_of_all(read):
    cat = {**objects(kind={"const": "cat"}, name=STRING, lives={"type": "integer"}), "required": ["kind", "name"]}
    dog = {**objects(kind={"const": "dog"}, name=STRING), "required": ["kind", "name"]}
    imported = read({**objects(pet={"oneOf": [cat, dog, STRING]}), "required": ["pet"]})
    found = imported.schema.classes[""].properties
    assert {".".join(path): one.kind for path, one in found.items()} == {
        "pet.kind": Category(("cat", "dog"), closed=True),
        "pet.name": Text(),
        "pet.lives": Number(integer=True),
    }
    assert "pet: what is no part is left out" in imported.left_out


def test_alternatives_that_only_narrow_what_is_told_beside_them_are_left_out(read):
    imported = read(objects(x={**objects(a=STRING, b=STRING), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}))
    assert list(imported.schema.classes[""].properties) == [("x", "a"), ("x", "b")]
    assert imported.left_out == ["properties.x: anyOf is not checked"]
