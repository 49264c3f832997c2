"""The JSON Schema of the format and the reader agree: on what is right, and on every key that is missing, misspelt or wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from schema_examples import PHONE, PHONE_SCHEMA
from tables import examples, for_each

from kbdisk.errors import SchemaError
from kbdisk.schemas import library
from kbdisk.schemas.kinds import KINDS, LeafKind
from kbdisk.schemas.schema import Schema
from kbdisk.schemas.yaml import format_schema, loads
from kbdisk.schemas.yaml.file_keys import ClassKeys, ConstraintKeys, FileKeys, PropertyKeys, RuleKeys, WhereKeys
from kbdisk.schemas.yaml.kind_keys import keys_of, kinds

COMMON = {
    "role": "given",
    "required": True,
    "unique": True,
    "many": "latest",
    "missing": ["nan", ""],
    "novalue": ["0000"],
    "formula": "base * 2",
    "depends": ["base"],
    "iri": "ex:name",
    "label": "a label",
    "description": "a description",
}
BOUNDS = {
    "integer": True,
    "min": 1,
    "max": 9,
    "above": 0.5,
    "below": 10,
    "decimals": 0,
    "transform": "log",
    "tolerance": "5 %",
}
LABELS = {"values": ["a", 3, True], "closed": True, "ordered": True}
FULL = {  # each kind with all its keys
    "number": BOUNDS,
    "category": LABELS,
    "boolean": {},
    "text": {"language": "en", "max_length": 60, "min_length": 1, "given": True},
    "link": {"to": "City", "values": ["Paris"]},
    "set": {"of": "category", **LABELS, "most": 3},
    "quantity": {"unit": "g", "units": {"kg": 1000, "lb": None}, **BOUNDS, "normal": True, "any_unit": True, "comma": True, "value_key": "amount", "unit_key": "currency", "scales": {"g": [1], "kg": [1000, 0, 2]}},
    "date": {"order": "dmy", "parts": ["year", "month"], "min": 1900, "max": 2100, "coarse": True},
    "coordinate": {"longitude_first": True},
    "list": {"of": {"n": {"kind": "number", **BOUNDS}, "kind": {"kind": "text", "max_length": 3}, "s": "category"}, "most": 4},
    "map": {"of": {"kind": "category", **LABELS}, "key": {"kind": "category", **LABELS}, "most": 5},
}  # fmt: skip


def file_of(**properties):
    """A file with all its keys and those of its class."""
    thing = {"iri": "ex:Thing", "id": "meta.id", "label": "thing", "description": "a thing", "superclasses": ["Top"]}
    return {
        "kbdisk": 1,
        "label": "Everything",
        "description": "Every key there is",
        "missing": ["", "nan"],
        "prefixes": {"ex": "http://example.org/"},
        "classes": {"Thing": {**thing, "properties": {"base": "number", **properties}}},
    }


LINKS = {"kind": "set", "of": "link", "to": "City", "values": ["Paris"], "most": 3}
FILES = {name: file_of(**{f"a {name}": {"kind": name, **own, **COMMON}}) for name, own in FULL.items()}
RULES = [
    {"target": "base", "rule": "linear", "of": ["other"], "factor": 2.5, "offset": -3, "class": "Thing"},
    {"target": "other", "rule": "copy", "of": ["base"], "decimals": 2, "support": 5, "exceptions": 1},
    {"target": "name", "rule": "template", "of": ["base", "other"], "template": "{} of {}"},
    {"target": "name", "rule": "determined", "of": ["base"]},
]
SHARED = {"properties": {"area": {"kind": "number", "min": 0, "required": True}, "born": "date"}}
FILES |= {
    "set of links": file_of(links=LINKS),
    "file": file_of(other="number", name="text") | SHARED | {"rules": RULES},
}
FILES["file"]["classes"]["Thing"]["uses"] = ["born"]
WHERE = {
    "kind": "link", "classes": ["City"], "values": ["Paris", {"link": "Lyon"}, {"text": "Paris", "language": "fr"}, 3],
    "nodes": ["iri"], "pattern": "^P", "flags": "i", "min_length": 1, "max_length": 9, "languages": ["en"], "min": 1,
    "max": "1999-05-01", "above": 0.5, "below": 2000,
}  # fmt: skip
CONSTRAINTS = [
    "base < other",
    {"path": "name", "constraint": "count", "min": 1, "max": 3, "where": WHERE},
    {"path": "name", "constraint": "equals", "other": "base"},
    {
        "path": "name",
        "constraint": "has_value",
        "values": ["a", {"date": "1999-05"}, {"number": "0.12345678901234567891"}],
    },
    {"constraint": "closed", "allowed": ["base", "other"]},
    "name unique",
]
FILES["file"]["classes"]["Thing"]["constraints"] = CONSTRAINTS
FILES["changes"] = file_of(area={"min": 5, "max": 9, "required": False, "unique": True}) | SHARED
REQUIRED = {"kbdisk", "classes", "kind", "of"}
FREE = {"prefixes", "classes", "properties", "units", "scales"}  # mappings whose keys are names of the user's
TEXTS = {"label", "description", "to", "language", "unit", "iri", "id", "formula", "value_key", "unit_key"}
NULLABLE = {*TEXTS, "min", "max", "above", "below", "decimals", "tolerance", "max_length", "most"}
NEEDED_BY = {
    "values": "closed",
    "unit": "normal",
    "prefixes": "Thing.iri",
    "properties": "target",
    ("properties",): "uses",
    ("set of links", "of"): "to",
}  # or refused
WRONG = [["x"], {"x": ["y"]}, "soon", 2.25, [[]], [{}], None]
VALIDATOR = Draft202012Validator(format_schema())


def mappings(tree, place=()) -> Iterator[tuple[tuple, dict]]:
    """Every mapping whose keys are those of the format, with the keys to it."""
    fields = place and place[-1] == "of" and not isinstance(tree.get("kind"), str)
    if not (place and place[-1] in FREE) and not fields:
        yield place, tree
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from mappings(value, (*place, key))


def places(name) -> list[tuple]:
    """The keys to every key of the format in a file; what every file has is looked at in one."""
    found = [(*place, key) for place, tree in mappings(FILES[name]) for key in tree]
    return [place for place in found if (name == "file") == (len(place) <= 3)]


def at(tree, place):
    for key in place:
        tree = tree[key]
    return tree


def changed(name, place, change):
    """A file, with the mapping that holds a key changed."""
    tree = copy.deepcopy(FILES[name])
    change(at(tree, place[:-1]))
    return tree


def complaint(tree) -> SchemaError:
    with pytest.raises(SchemaError) as caught:
        loads(json.dumps(tree), "p.yaml")
    return caught.value


def named_by(error, key) -> bool:
    """Whether an error's place ends with a key (or within its value)."""
    last = error.where.rpartition(key)
    return bool(last[1]) and last[0][-1:] in ". " and last[2][:1] in ("", "[", ".")


# ---------------------------------------------------------------- what is right


def test_the_json_schema_is_one():
    Draft202012Validator.check_schema(format_schema())
    json.dumps(format_schema())


def test_the_examples_have_every_key_of_every_kind():
    assert FULL.keys() == set(kinds())
    for name, own in FULL.items():
        assert {*own, *(["to"] if name == "set" else [])} == set(keys_of(name).names()), name
    assert set(COMMON) == set(PropertyKeys.names())
    assert set(FILES["file"]) == set(FileKeys.names())
    assert {key for rule in RULES for key in rule} == set(RuleKeys.names())
    assert set(FILES["file"]["classes"]["Thing"]) == set(ClassKeys.names())
    mappings_of = [one for one in CONSTRAINTS if isinstance(one, dict)]
    assert {key for one in mappings_of for key in one} == set(ConstraintKeys.names())
    assert set(WHERE) == set(WhereKeys.names())
    assert sum(len(places(name)) for name in FILES) > 200


@for_each("name", FILES)
def test_what_is_right_is_right_for_both(name):
    VALIDATOR.validate(FILES[name])
    read = loads(json.dumps(FILES[name]))
    assert loads(read.to_yaml()) == read


def test_the_example_of_the_format_is_right_for_both():
    VALIDATOR.validate(yaml.safe_load(PHONE))
    VALIDATOR.validate(yaml.safe_load(PHONE_SCHEMA.to_yaml()))


@for_each("stem", library.names())
def test_the_library_is_right_for_both_and_survives_writing(stem):
    VALIDATOR.validate(yaml.safe_load(library.find(stem).read_text(encoding="utf-8")))
    read = Schema.read(stem)
    assert loads(read.to_yaml()) == read
    VALIDATOR.validate(yaml.safe_load(read.to_yaml()))


def test_every_key_has_a_description_for_the_editor():
    made = format_schema()
    constraint = made["$defs"]["constraint"]["anyOf"][1]
    parts = [
        made,
        constraint,
        made["$defs"]["value shape"],
        *(made["$defs"][name] for name in [*kinds(), *(f"{name} property" for name in kinds())]),
    ]
    for part in parts:
        assert part["additionalProperties"] is False
        for key, told in part["properties"].items():
            assert told["description"], key
    assert [row["enum"] for row in made["$defs"]["property"]["anyOf"] if "enum" in row] == [kinds()]


def test_kinds_of_somebody_elses_are_in_the_json_schema(monkeypatch):
    @dataclass(frozen=True)
    class Colour:
        """A colour such as #ff8800."""

        bits: int = 8

        def check(self, value):
            assert value

    monkeypatch.setitem(KINDS, "colour", LeafKind(Colour, Colour(), ("#ff8800",)))
    validator = Draft202012Validator(format_schema())
    file = {"kbdisk": 1, "classes": {"A": {"properties": {"x": {"kind": "colour", "bits": 4, "role": "given"}}}}}
    assert validator.is_valid(file)
    assert not VALIDATOR.is_valid(file)
    file["classes"]["A"]["properties"]["x"]["bits"] = "many"
    assert not validator.is_valid(file)


# ---------------------------------------------------------------- what is wrong


@for_each("name", FILES)
def test_a_misspelt_key_is_named_and_the_right_one_suggested(name):
    for place in places(name):
        key = place[-1]
        wrong = f"{key}x"
        tree = changed(name, place, lambda holds, key=key, wrong=wrong: holds.update({wrong: holds.pop(key)}))
        error = complaint(tree)
        assert named_by(error, wrong) or (key in REQUIRED and named_by(error, key)), (place, str(error))
        assert key in REQUIRED or f"unknown key. Did you mean {key!r}?" in error.problem
        assert not VALIDATOR.is_valid(tree), place


@for_each("name", FILES)
def test_a_value_of_the_wrong_type_is_named(name):
    refused_of(name, 1)  # of seven: each key stands in several kinds, and each time another comes about


@pytest.mark.slow
@for_each("name", FILES)
def test_a_value_of_any_wrong_type_is_named(name):
    refused_of(name, 7)


def refused_of(name, some):
    """Both refuse wrong values in each place of a file, so many in each."""
    for number, place in enumerate(places(name), start=sum(map(ord, name))):
        key, right = place[-1], at(FILES[name], place)
        for wrong in [WRONG[(number + 3 * turn) % 7] for turn in range(some)]:
            if not fits(place, right, wrong):
                tree = changed(name, place, lambda holds, key=key, wrong=wrong: holds.update({key: wrong}))
                error = complaint(tree)
                assert named_by(error, key) or (key, wrong) == ("classes", {"x": ["y"]}), (place, wrong, str(error))
                assert not VALIDATOR.is_valid(tree), (place, wrong)


def fits(place, right, wrong) -> bool:
    """Whether another value is of a type that the key takes, too."""
    key = place[-1]
    if isinstance(right, list):
        return wrong == ["x"] and key != "parts"
    if wrong is None:
        return key in NULLABLE or "area" in place[3:]  # null leaves a key of a shared property out
    if key in TEXTS:
        return isinstance(wrong, str | float)
    return key in ("min", "max", "above", "below", "tolerance") and wrong == 2.25 and "a date" not in place


@for_each("name", FILES)
def test_a_missing_key_is_named_where_it_is_required(name):
    for place in places(name):
        key = place[-1]
        tree = changed(name, place, lambda holds, key=key: holds.pop(key))
        needed = NEEDED_BY.get(place) or NEEDED_BY.get((name, key)) or NEEDED_BY.get(key)
        if key in REQUIRED and name not in ("set", "set of links"):
            assert named_by(complaint(tree), key), place
            assert not VALIDATOR.is_valid(tree), place
        elif needed in at(FILES[name], place[:-1]) or needed in ("Thing.iri", "target", "uses"):
            assert named_by(complaint(tree), needed), place
        elif key != "kind":
            loads(json.dumps(tree))
            VALIDATOR.validate(tree)


def test_what_a_number_and_a_unit_are_called_may_be_null_which_is_the_default():
    kind = {"kind": "quantity", "unit": "g"}
    files = [
        {"kbdisk": 1, "classes": {"T": {"properties": {"w": kind | more}}}}
        for more in ({}, {"value_key": None, "unit_key": None})
    ]
    assert loads(json.dumps(files[1])) == loads(json.dumps(files[0]))
    VALIDATOR.validate(files[1])


def constrained(*constraints):
    """The file with these constraints."""
    tree = copy.deepcopy(FILES["file"])
    tree["classes"]["Thing"]["constraints"] = list(constraints)
    return tree


@for_each(
    ("place", "wrong"),
    [
        *((key, key) for one in CONSTRAINTS if isinstance(one, dict) for key in one),
        *((f"where.{key}", key) for key in WHERE),
    ],
)
def test_a_misspelt_key_of_a_constraint_is_named(place, wrong):
    constraint = copy.deepcopy(next(one for one in CONSTRAINTS if place.split(".")[0] in one and isinstance(one, dict)))
    holds = constraint["where"] if "." in place else constraint
    holds[f"{wrong}x"] = holds.pop(wrong)
    error = complaint(constrained(constraint))
    assert f"Thing.constraints[0].{place}x" in error.where or wrong == "constraint"
    assert not VALIDATOR.is_valid(constrained(constraint))


@for_each(
    ("constraint", "problem"),
    [
        ("base > ", "expected a constraint such as born <= died"),
        ("base <= other <= name", "got one that can be read in two ways, 'base <= other <= name'"),
        ("base <= othr", "no property has the path othr. Did you mean 'other'?"),
        ("base < base", "expected a constraint such as"),
        (
            {"path": "base", "constraint": "less_than"},
            "expected other for a constraint of the kind less_than, got none",
        ),
        ({"path": "base", "constraint": "unique", "min": 1}, "expected no least for a constraint of the kind unique"),
        ({"path": "base", "constraint": "count"}, "expected a least or a most number of values, got neither"),
        ({"path": "base", "constraint": "count", "min": 3, "max": 2}, "expected a max of at least the min, 3, got 2"),
        ({"path": "base", "constraint": "values", "where": {"pattern": "("}}, "expected a regular expression, got '('"),
        ({"path": "base", "constraint": "values", "where": {"flags": "q"}}, "expected flags of i s m x, got 'q'"),
        ({"path": "base", "constraint": "values", "where": {"kind": "list"}}, "expected a value, got none"),
        ({"path": "base", "constraint": "values", "where": {"min": "soon"}}, "expected a number or a date such as"),
        ({"path": "base[1]", "constraint": "unique"}, "expected names alone, got 'base[1]'"),
        (
            {"path": "base", "constraint": "has_value", "values": [{"lnk": "x"}]},
            "expected a label, or a mapping with link",
        ),
        (5, "expected a constraint such as born <= died"),
        ([], "expected a constraint such as born <= died, or a mapping with constraint, got a list"),
    ],
)
def test_a_wrong_constraint_is_one_line_with_its_place(constraint, problem):
    error = complaint(constrained("name unique", constraint))
    assert "Thing.constraints[1]" in error.where
    assert problem in error.problem
    assert "\n" not in str(error)


def test_null_is_no_name_for_either():
    tree = changed(
        next(name for name in FILES if ("classes", "Thing", "superclasses") in places(name)),
        ("classes", "Thing", "superclasses"),
        lambda holds: holds.update({"superclasses": [None]}),
    )
    with pytest.raises(SchemaError, match="nothing"):
        loads(json.dumps(tree))
    assert not VALIDATOR.is_valid(tree)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "text", "year", "log"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["kind", "of", "min", "x", ""]), inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(max_examples=examples(50))
@given(st.data(), json_values)
def test_what_the_json_schema_refuses_is_refused_and_nothing_is_a_traceback(data, value):
    name = data.draw(st.sampled_from(list(FILES)))
    place = data.draw(st.sampled_from(places(name)))
    tree = changed(name, place, lambda holds: holds.update({place[-1]: value}))
    with suppress(SchemaError):
        loads(json.dumps(tree))
        VALIDATOR.validate(tree)
