"""JSON Schema becomes a schema, and a schema the JSON Schema of its data: valid where nothing is a misfit."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import for_each

import kbdisk
from kbdisk.entity import Entity
from kbdisk.errors import SchemaError
from kbdisk.schemas.composites import COMPOSITES
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.exporters.jsonschema import export
from kbdisk.schemas.formula import Formula
from kbdisk.schemas.importers import jsonschema
from kbdisk.schemas.kinds import KINDS, Boolean, Category, Link, Number, Set, Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema, of_one_class


@pytest.fixture
def read(tmp_path):
    def read(told):
        path = tmp_path / "phone.schema.json"
        path.write_text(told if isinstance(told, str) else json.dumps(told), encoding="utf-8")
        return jsonschema.read(path)

    return read


def objects(**properties):
    return {"type": "object", "properties": properties}


def kinds(imported):
    (found,) = imported.schema.classes.values()
    return {".".join(path): one.kind for path, one in found.properties.items()}


# ---------------------------------------------------------------- reading


@for_each(
    ("told", "kind"),
    [
        ({"type": "number", "minimum": 0, "exclusiveMaximum": 10.5}, Number(minimum=0, below=10.5)),
        ({"type": "integer", "exclusiveMinimum": 0, "maximum": 9}, Number(integer=True, above=0, maximum=9)),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, Number(above=0)),
        ({"type": ["integer", "number", "null"]}, Number()),
        ({"type": "number", "multipleOf": 0.01}, Number(decimals=2)),
        ({"type": "number", "multipleOf": 1}, Number(integer=True)),
        ({"minimum": 3}, Number(minimum=3)),
        ({"type": "boolean"}, Boolean()),
        ({"enum": [True, False, None]}, Boolean()),
        ({"type": "string"}, Text()),
        ({"type": ["null", "string"], "minLength": 1, "maxLength": 60}, Text(min_length=1, max_length=60)),
        ({"type": "string", "format": "date"}, Date()),
        ({"type": "string", "format": "date-time"}, Date()),
        ({"type": "string", "format": "uri"}, Text()),
        ({"enum": ["No", "3G", None]}, Category(("No", "3G"), closed=True)),
        ({"const": 5}, Category((5,), closed=True)),
        ({"type": ["string", "integer"]}, Category()),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, Number(integer=True)),
        ({"oneOf": [{"const": "a", "title": "A"}, {"enum": ["b"]}]}, Category(("a", "b"), closed=True)),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, Number()),
        (
            {"allOf": [{"type": "number", "minimum": 1}, {"type": "integer", "minimum": 3}]},
            Number(integer=True, minimum=3),
        ),
        ({"allOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}]}, Category(("b",), closed=True)),
        ({"$ref": "#/$defs/n", "maximum": 5}, Number(minimum=1, maximum=5)),
        ({"$ref": "#number"}, Number(minimum=1)),
        ({"$ref": "https://example.org/phone.json#/$defs/n"}, Number(minimum=1)),
        ({"$ref": "inner.json"}, Boolean()),
        ({"type": "array", "items": {"enum": ["red", "blue"]}}, Set(Category(("red", "blue"), closed=True))),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 3}, Set(Category(), most=3)),
        ({"type": ["array", "string"], "items": {"type": "string"}}, Set(Category())),
        ({"type": "array", "items": {"type": "number"}, "maxItems": 3}, Listed({"": Number()}, 3)),
        ({"type": "array", "items": objects(n={"type": "string"})}, Listed({"n": Text()})),
        ({"type": "array", "items": objects(n=objects(m={"type": "string"}))}, Listed({"n": Listed({"m": Text()}, 1)})),
        ({"type": "object", "additionalProperties": {"type": "string"}}, Mapped({"": Text()})),
        (
            {
                "type": "object",
                "patternProperties": {"^[A-Z]+$": objects(name={"type": "string"})},
                "propertyNames": {"enum": ["EUR"]},
            },
            Mapped({"name": Text()}, Category(("EUR",), closed=True)),
        ),
        (objects(value={"type": "number", "minimum": 0}, unit={"const": "g"}), Quantity("g", value=Number(minimum=0))),
        (objects(value={"type": "number"}, unit={"enum": ["g", "kg"]}), Quantity(None, {"g": None, "kg": None})),
        (objects(value={"type": "number"}, unit={"type": "string"}), Quantity(any_unit=True)),
        (objects(lat={"type": "number"}, lng={"type": "number"}), Coordinate()),
        (
            objects(year={"type": "integer", "minimum": 1983}, month={"type": "integer"}),
            Date(parts=("year", "month"), minimum=1983),
        ),
    ],
)
def test_a_value_is_of_the_kind_that_its_schema_tells(read, told, kind):
    definitions = {
        "n": {"$anchor": "number", "type": "number", "minimum": 1},
        "inner": {"$id": "inner.json", "type": "boolean"},
    }
    whole = {"$id": "https://example.org/phone.json", "$defs": definitions, **objects(x=told)}
    assert kinds(read(whole)).get("x") == kind


def test_an_object_within_an_object_has_dotted_paths_and_is_required_only_where_all_of_it_is(read):
    name = {**objects(common={"type": "string"}, official={"type": "string"}), "required": ["common"]}
    imported = read({**objects(name=name, other=name), "required": ["name", "unheard"]})
    (found,) = imported.schema.classes.values()
    assert kinds(imported) == dict.fromkeys(("name.common", "name.official", "other.common", "other.official"), Text())
    assert [path for path, one in found.properties.items() if one.required] == [("name", "common")]
    assert "other.common: required where the part is there, which is left out" in imported.left_out
    assert "unheard: required, but without a schema: left out" in imported.left_out


def test_titles_and_descriptions_are_kept(read):
    told = {
        "title": "Phone",
        "description": "A telephone.",
        **objects(n={"type": "string", "title": "Name", "description": "of it"}),
    }
    found = read(told).schema.classes["Phone"]
    assert (found.description, found.properties["n",].label, found.properties["n",].description) == (
        "A telephone.",
        "Name",
        "of it",
    )
    assert read({**told, "title": "All the phones"}).schema.classes[""].label == "All the phones"


def test_the_root_may_be_an_array_or_a_reference_or_definitions_alone(read):
    phone = objects(n={"type": "string"})
    assert kinds(read({"type": "array", "items": phone})) == {"n": Text()}
    assert kinds(read({"$ref": "#/definitions/phone", "definitions": {"phone": phone}})) == {"n": Text()}
    assert list(read({"$defs": {"Phone": phone, "City": phone, "word": {"type": "string"}}}).schema.classes) == [
        "Phone",
        "City",
    ]


def test_a_schema_within_itself_is_cut(read):
    person = objects(
        name={"type": "string"},
        father={"$ref": "#/$defs/Person"},
        friends={"type": "array", "items": {"$ref": "#/$defs/Person"}},
    )
    imported = read({"$ref": "#/$defs/Person", "$defs": {"Person": person}})
    assert kinds(imported) == {"name": Text()}
    assert "$defs.Person.properties.father: #/$defs/Person within itself: cut here" in imported.left_out
    assert read({**objects(x={"$ref": "#/properties/x"}), "required": ["x"]}).left_out


def test_two_that_refer_to_the_same_are_no_circle(read):
    told = {
        "$defs": {"n": {"type": "string"}},
        **objects(x={"allOf": [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n"}]}, y={"$ref": "#/$defs/n"}),
    }
    assert kinds(read(told)) == {"x": Text(), "y": Text()}


@for_each(
    ("told", "note"),
    [
        ({"type": "string", "pattern": "^a"}, "x: pattern is not checked"),
        ({"type": "string", "format": "email"}, "x: format email is not checked"),
        ({"type": "integer", "multipleOf": 5}, "x: multipleOf 5 is not checked"),
        ({"type": "number", "multipleOf": 0.1}, "x: multipleOf 0.1 is how many decimals are written, and not checked"),
        ({"anyOf": [{"type": "string"}, objects()]}, "x: one of its alternatives is of no kind that is known here"),
        ({"type": "string", "not": {"const": "a"}}, "x: not is not checked"),
        ({"type": ["string", "number"]}, "x: number or string: any label fits"),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, "x: uniqueItems is not checked"),
        (
            {"type": "array", "items": {"type": "number"}, "maxItems": 4},
            "x: maxItems 4 is how many are learnt, and not checked",
        ),
        ({"type": "array"}, "x: the kind of its values is not determined: left out"),
        ({"type": "object"}, "x: the kind of its values is not determined: left out"),
        (True, "x: the kind of its values is not determined: left out"),
        (False, "x: no value fits: left out"),
        ({"enum": [[1], {}]}, "x: values that are objects or arrays are left out"),
        (
            {**objects(a={"type": "string"}), "additionalProperties": False},
            "x: additionalProperties: other properties are",
        ),
        (
            {**objects(a={"type": "string"}), "additionalProperties": {"type": "string"}},
            "x: other properties beside those",
        ),
        (
            {"type": "array", "items": {**objects(a={"type": "string"}), "required": ["a"]}},
            "x: a: that they are required",
        ),
    ],
)
def test_what_a_schema_cannot_say_is_listed(read, told, note):
    assert any(line.startswith(note) for line in read(objects(x=told)).left_out)


@for_each(
    ("told", "complaint"),
    [
        ("{", r"phone.schema.json:1: expected JSON, but"),
        ('{"a": NaN}', "expected JSON in UTF-8, but NaN is no number"),
        ("[" * 100_000, "nested too deep"),
        ([1], r"expected a schema, got \[1\]"),
        ({"type": "string"}, "expected a schema of objects with properties, got none"),
        ({"properties": 5}, "properties: expected schemas by the names of properties, got 5"),
        (objects(x=7), "properties.x: expected a schema, got 7"),
        (objects(x={"type": "text"}), "properties.x.type: expected one of null, boolean, .*, got 'text'"),
        (objects(x={"type": [["string"]]}), "properties.x.type: expected one of null"),
        (objects(x={"type": "number", "minimum": "0"}), "properties.x.minimum: expected a number, got '0'"),
        (objects(x={"type": "number", "minimum": True}), "properties.x.minimum: expected a number, got True"),
        (objects(x={"type": "string", "maxLength": 1.5}), "properties.x.maxLength: expected a whole number, got 1.5"),
        (objects(x={"enum": "a"}), "properties.x.enum: expected a list of values, got 'a'"),
        ({**objects(x={}), "required": [5]}, "required: expected names of properties, got 5"),
        (objects(x={"allOf": [{"type": "string"}, 3]}), r"properties.x.allOf\[1\]: expected a schema, got 3"),
        (objects(x={"$ref": "#/$defs/gone"}), "properties.x: '#/\\$defs/gone' names nothing in this file"),
        (objects(x={"$ref": "#gone"}), "properties.x: '#gone' names nothing in this file"),
        (
            objects(x={"$ref": "https://example.org/a.json"}),
            "properties.x: 'https://example.org/a.json' is in another file",
        ),
        (
            objects(x={"$ref": "other.json#/a"}),
            "properties.x: 'other.json#/a' is in another file, and none is ever fetched",
        ),
        ({"$defs": 5}, "defs: expected schemas by their names, got 5"),
    ],
)
def test_a_broken_file_is_one_line_with_its_place(read, told, complaint):
    with pytest.raises(SchemaError, match=complaint) as caught:
        read(told)
    assert "\n" not in str(caught.value)


def test_a_schema_that_is_nested_too_deep_is_one_line(read):
    told: dict = {"type": "string"}
    for _ in range(100):
        told = objects(x=told)
    with pytest.raises(SchemaError, match="nested deeper than 60 schemas"):
        read(told)


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(SchemaError, match=r"gone.json: cannot be read: No such file"):
        jsonschema.read(tmp_path / "gone.json")


WELL = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Phone",
    "$defs": {"n": {"type": "number", "minimum": 0}},
    **objects(
        a={"$ref": "#/$defs/n"},
        b={"type": ["string", "null"], "maxLength": 3},
        c={"type": "array", "items": {"enum": ["x"]}, "maxItems": 2},
        d={"anyOf": [{"const": 1}, {"type": "null"}]},
        e={"type": "object", "patternProperties": {"^a": {"type": "string"}}, "propertyNames": {"enum": ["a"]}},
        f={**objects(g={"type": "number", "multipleOf": 0.1, "exclusiveMinimum": 1}), "required": ["g"]},
    ),
    "required": ["a"],
}
ODD = [
    None,
    True,
    False,
    0,
    -1,
    1.5,
    10**400,
    1e308,
    "",
    "a",
    "#",
    "#/x",
    [],
    [[]],
    [None],
    {},
    {"a": 1},
    {"$ref": "#"},
]


def places(value, path=()):
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def test_it_survives_as_yaml(read):
    schema = read(WELL).schema
    assert Schema.read(schema.to_yaml()) == schema


@pytest.mark.parametrize("some", [1, pytest.param(len(ODD), marks=pytest.mark.slow)])
def test_whatever_is_wrong_in_a_file_is_a_schema_or_an_error_and_never_a_traceback(read, some):
    for number, path in enumerate(places(WELL)):
        for odd in [ODD[(number + turn) % len(ODD)] for turn in range(some)]:
            told = copy.deepcopy(WELL)
            if not path:
                told = odd
            else:
                inner = told
                for key in path[:-1]:
                    inner = inner[key]
                inner[path[-1]] = odd
            with contextlib.suppress(SchemaError):
                export(read(told).schema)


# ---------------------------------------------------------------- writing


def valid(schema, tree):
    return validator(json.dumps(export(schema))).is_valid(tree)


@cache
def validator(told):
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(json.loads(told))
    return Draft202012Validator(json.loads(told))


def agree(schema, tree, classes=()):
    misfits = schema.check(Entity("x", tree, classes))
    assert valid(schema, tree) == (not misfits), (tree, list(map(str, misfits)))
    return not misfits


CASES = [
    (Number(), [1, 1.5, -3, "5", " -.5e3 "], ["five", "5 g", "", ".", "1_0", True, [], {}, [1, 2], {"a": 1}]),
    (Number(True), ["5", "5.0", "+7"], ["5.5", "e5"]),
    (Number(True, 0, 10), [0, 5.0, 10, [7]], [1.5, -1, 11, [11], ["a"]]),
    (Number(above=0, below=1), [0.5], [0, 1]),
    (Category(), ["a", 5, True, ["a"]], [["a", "b"], {"a": 1}]),
    (Category(("a", 1), closed=True), ["a", 1], ["b", True, 2]),
    (Boolean(), [True, False], [1, "true"]),
    (Text("en", 3, 1), ["abc"], ["", "abcd", 5]),
    (Link(), ["Q1"], [1]),
    (Link(values=("a",)), ["a"], ["b"]),
    (Set(Category(("a", "b", "c"), closed=True), most=2), ["a", ["a", "b"], [], [None], ["a", None, "n/a", "b"]], [["a", "d"], "d", ["a", "b", "c"]]),
    (Quantity("g"), [5, {"value": 5, "unit": "g"}, "5 g", "5", "1,234.5g", "-.5e3 g"], ["5 kg", "g", "0,125 g", {"value": 5, "unit": "kg"}, {"weight": 5}, {"value": "5"}]),
    (Quantity("$", {"US$": 1.0}), ["$5", "-US$ 1,234.5", "5$", "5"], ["€5", "$5$", "$-5", "g5", "$"]),
    (Quantity("g", {"kg": 1000.0}, Number(minimum=0, maximum=5000)), [{"value": 5, "unit": "kg"}, {"unit": "kg"}, "5 kg"], [-1, {"value": 5001}, {"value": 6, "unit": "kg"}]),
    (Quantity("g", {"kg": 1000.0}, Number(maximum=5000), normal=True), [{"value": 5, "unit": "kg"}], [{"value": 6, "unit": "kg"}]),
    (Quantity("g", comma=True), ["1.234,5 g", "1,5", ",5g", "5 g", 1.5, "0,125 g"], ["1.5 g", "1,234,567 g", "0.125 g"]),
    (Quantity(any_unit=True), ["5 whatever", "€5", {"value": 5, "unit": "x"}, 5], ["five", "x5"]),
    (Date(), ["1912-11-28", "1912", "1912-11", "--11-28", "-0044-03-15", "198X", "1984?", 1912, {"year": 1912, "month": 3}, "2012-03-13 12:00"], ["soon", "1912-13-01", "1912-02-30", 1912.5, {"year": "1912"}, {"y": 1}, {"month": 15, "year": 1}, True, "1912/1913"]),
    (Date("dmy", minimum=1900), ["28/11/1912", "1. 2. 1999", 1900], ["11/28/1912", "1912-11-28", 1899, {"year": 1899}]),
    (Coordinate(), [[48.2, 16.4], {"lat": 48.2, "lng": 16.4}, "48.2, 16.4", [[48.2, 16.4]]], [[148.2, 16.4], {"lat": 48, "x": 1}, "here", 5, [1, 2, 3]]),
    (Coordinate(longitude_first=True), [[148.2, 16.4]], [[16.4, 148.2]]),
    (Listed({"year": Number(True), "of": Category()}), [[{"year": 1901}, {}], {"year": 1901, "x": 5}, [{"year": None}], [[], None], []], [[{"year": "x"}], [5], "x"]),
    (Listed({"": Number()}), [[1, 2], 3, [None]], [["x"], "x"]),
    (Mapped({"name": Text()}), [{"EUR": {"name": "Euro", "x": 1}}, {}, {"EUR": {}}, {"EUR": None}], [{"EUR": "Euro"}, {"EUR": {"name": 5}}, [], "x"]),
    (Mapped({"": Text()}, Category(("a",), closed=True)), [{"a": "x"}, {"a": None}], [{"b": "x"}, {"a": 5}]),
]  # fmt: skip


@for_each("required", [False, True])
@for_each(("kind", "good", "bad"), CASES)
def test_what_fits_is_valid_and_what_does_not_is_not(kind, good, bad, required):
    schema = of_one_class({("x",): Property(kind, required=required)}, missing=("n/a", "-999"))
    for value in good:
        assert agree(schema, {"x": value}), value
    for value in bad:
        assert not agree(schema, {"x": value}) or value in ([], {}), value
    for gap in ({}, {"x": None}, {"x": "n/a"}, {"x": -999}, {"x": -999.0}):
        assert agree(schema, gap) != required


def test_every_kind_can_be_said():
    from jsonschema import Draft202012Validator

    for row in (*KINDS.values(), *COMPOSITES.values()):
        told = export(of_one_class({("x",): Property(row.example)}))
        Draft202012Validator.check_schema(told)
        assert "not said here: kind" not in json.dumps(told)


@for_each("many", ["", "first", "latest", "median"])
def test_one_of_several_is_valid_where_it_is_told_which_counts(many):
    schema = of_one_class({("x",): Property(Number(), many=many, novalue=("none",))})
    for value in ([1, 2], [1, None], [1], [], [None], ["a"], [1, "a"], ["none", 1], ["none"], "none"):
        agree(schema, {"x": value})
    assert valid(schema, {"x": [1, 2]}) == bool(many)


def test_nested_paths_and_what_is_required_within():
    schema = of_one_class(
        {
            ("name", "common"): Property(Text(), required=True, label="Common name", iri="http://example.org/name"),
            ("name", "native"): Property(Mapped({"": Text()})),
            ("bmi",): Property(Number(), formula=Formula.read("weight / 2")),
            ("size", "cm"): Property(Number()),
        }
    )
    for tree in ({}, {"name": {}}, {"name": 5}, {"name": {"common": "x"}}, {"name": {"common": "x", "native": 5}}):
        agree(schema, tree)
    assert agree(schema, {"name": {"common": "x"}, "size": "large"})
    told = export(schema)["properties"]["name"]["properties"]["common"]
    assert (told["title"], told["x-kbdisk"]) == ("Common name", {"iri": "http://example.org/name"})


def test_names_of_classes_and_units_may_have_any_characters():
    classes = {name: Class(name, {("x",): Property(Quantity("m/s (a-b)~"))}) for name in ("", "a/b ~%#ü", "any")}
    for name in classes:
        assert agree(Schema(classes), {"x": "5 m/s (a-b)~", "@type": name}, (name,))
        assert not agree(Schema(classes), {"x": "5 m/s", "@type": name}, (name,))
    assert not agree(Schema({}), {})


def test_classes_are_told_apart_by_their_type():
    phone = Class("Phone", {("x",): Property(Number())}, "http://example.org/P")
    city = Class("City", {("x",): Property(Text())})
    for others in ({}, {"": Class("", {("x",): Property(Boolean())})}):
        schema = Schema({"Phone": phone, "City": city, **others})
        for kind in ("Phone", "City", "http://example.org/P", "http://elsewhere.org/City", "Capital City", "", None):
            for value in (5, "five", True):
                for told in (kind, [kind, "Other"]):
                    classes = () if kind is None else tuple([told] if isinstance(told, str) else told)
                    agree(schema, {"x": value, **({} if kind is None else {"@type": told})}, classes)
    only = Schema({"Phone": phone})
    for classes in ((), ("Phone",), ("City",)):
        agree(only, {"x": 5, **({"@type": [*classes]} if classes else {})}, classes)


COUNTRY = of_one_class(
    {
        ("name", "common"): Property(Text(max_length=45), required=True),
        ("name", "native"): Property(Mapped({"official": Text(), "common": Text()})),
        ("cca2",): Property(Text(max_length=2), required=True),
        ("independent",): Property(Boolean()),
        ("unMember",): Property(Boolean()),
        ("currencies",): Property(Mapped({"name": Text(), "symbol": Category()})),
        ("idd", "suffixes"): Property(Set(Category())),
        ("capital",): Property(Text(), many="first"),
        ("region",): Property(Category(("Africa", "Americas", "Asia", "Europe", "Oceania", "Antarctic"), closed=True)),
        ("languages",): Property(Mapped({"": Text()})),
        ("latlng",): Property(Coordinate()),
        ("landlocked",): Property(Boolean()),
        ("borders",): Property(Set(Link("Country"))),
        ("area",): Property(Quantity("km2", value=Number(minimum=0)), missing=("-1",)),
        ("flag",): Property(Text(max_length=10)),
    },
    missing=("",),
)


@pytest.mark.shared
def test_real_countries_are_valid_and_spoilt_ones_where_they_fit(data):
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(export(COUNTRY))
    entities = list(kbdisk.load(data / "json" / "countries.json"))[::4]
    verdicts = []
    for entity in entities:
        assert not COUNTRY.check(entity)
        assert validator.is_valid(entity.tree)
        for path in random.sample(list(COUNTRY.classes[""].properties), 4):
            spoilt = copy.deepcopy(entity.tree)
            inner = spoilt
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = random.choice(
                [None, "", 5, -1, "x" * 50, True, [], {}, ["a"], [1, 2], {"a": "b"}, {"a": {}}]
            )
            fits = not COUNTRY.check(Entity("x", spoilt))
            assert validator.is_valid(spoilt) == fits, (path, inner[path[-1]])
            verdicts.append(fits)
    assert 0.2 < sum(verdicts) / len(verdicts) < 0.8


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-20, 20)
    | st.sampled_from([0.5, "a", "b", "n/a", "5 g", "1912-11-28", "1912"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "year", "value", "unit", "lat"]), inner, max_size=3)
    ),
    max_leaves=5,
)
EXAMPLES = [kind for kind, *_ in CASES if not (isinstance(kind, Quantity | Date) and kind != Quantity("g"))]


@given(st.sampled_from(EXAMPLES), st.booleans(), st.sampled_from(["", "first"]), plain)
def test_whatever_fits_is_valid(kind, required, many, value):
    schema = of_one_class({("x",): Property(kind, required=required, many=many, missing=("n/a",))})
    lists_in_lists = isinstance(value, list) and any(isinstance(one, list) for one in value)
    if not schema.check(Entity("x", {"x": value})) and not lists_in_lists:
        assert valid(schema, {"x": value})


def test_what_was_exported_can_be_read_again(tmp_path):
    path = tmp_path / "out.json"
    path.write_text(json.dumps(export(COUNTRY)), encoding="utf-8")
    assert jsonschema.read(path).schema.classes
