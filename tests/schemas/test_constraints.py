"""Constraints between properties: how values compare, what violates each kind, and what `kbdisk schema check` says of it."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import for_each

import kbdisk
from kbdisk.entity import NOVALUE, SOMEVALUE, Coordinate, Date, Entity, Link, Quantity, Text, read_path
from kbdisk.inspection import check
from kbdisk.schemas.comparison import Order, identity, order
from kbdisk.schemas.composites.date import Date as DateKind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import Quantity as QuantityKind
from kbdisk.schemas.constraints import KINDS, Constraint, ValueShape, read_short
from kbdisk.schemas.exporters.jsonschema import export
from kbdisk.schemas.importers import jsonschema, shacl
from kbdisk.schemas.kinds import Boolean, Category, Number, Set
from kbdisk.schemas.kinds import Link as LinkKind
from kbdisk.schemas.kinds import Text as TextKind
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema

LESS, EQUAL, GREATER, UNCERTAIN, INCOMPARABLE = Order


def schema_of(*constraints, **kinds):
    told = tuple(read_short(one) if isinstance(one, str) else one for one in constraints)
    properties = {
        read_path(name.replace("__", ".")): kind if isinstance(kind, Property) else Property(kind)
        for name, kind in kinds.items()
    }
    return Schema({"Thing": Class("Thing", properties, constraints=told)})


def problems(schema, tree):
    return [f"{misfit}" for misfit in schema.check(Entity("x", tree, ("Thing",)))]


# ---------------------------------------------------------------- how values compare


@for_each(
    ("one", "other", "expected"),
    [
        (1, 2, LESS),
        (Decimal("0.1"), 0.1, EQUAL),
        (10**30, 10**30 + 1, LESS),
        (2, Decimal("1.99999999999999999999"), GREATER),
        ("B", "a", LESS),
        (False, True, LESS),
        (True, 1, INCOMPARABLE),
        (1, "1", INCOMPARABLE),
        ("a", Text("b", "en"), INCOMPARABLE),
        (Text("a", "en"), Text("b", "en"), INCOMPARABLE),
        (Link("a"), Link("b"), INCOMPARABLE),
        (Coordinate(1, 2), Coordinate(2, 3), INCOMPARABLE),
        (Date(1990), 1991, INCOMPARABLE),
        (Date(1990, 5, 1), Date(1990, 5, 2), LESS),
        (Date(-44, 3, 15), Date(1, 1, 1), LESS),
        (Date(170000002), Date(170000003), LESS),
        (Date(1990), Date(1990), EQUAL),
        (Date(1990), Date(1990, 5), UNCERTAIN),
        (Date(1990), Date(1991, 1, 1), LESS),
        (Date(1991, 1, 1), Date(1990), GREATER),
        (Date(1990, precision="decade"), Date(1995), UNCERTAIN),
        (Date(1990, precision="decade"), Date(2010), LESS),
        (Date(1900, precision="century"), Date(1900, precision="century"), UNCERTAIN),
        (Date(1900, precision="century"), Date(1950), UNCERTAIN),
        (Date(1900, note="?"), Date(1950), UNCERTAIN),
        (Date(2001, 21), Date(2001, 8), UNCERTAIN),
        (Date(2001, 21), Date(2004), LESS),
        (Date(None, 5, 1), Date(None, 5, 2), UNCERTAIN),
        (Date(1990, 5, 1, "day"), Date(1990, 5, 1), EQUAL),
        (Date(1990, 5, 1, time="T10:00:00Z"), Date(1990, 5, 1, time="T11:30:00+02:00"), GREATER),
        (Date(1990, 5, 1, time="T10:00:00Z"), Date(1990, 5, 1, time="T11:00:00"), UNCERTAIN),
        (Date(1990, 5, 1, time="T10:00:00Z"), Date(1990, 5, 3, time="T11:00:00"), LESS),
        (Date(1700, 1, 1, calendar="http://www.wikidata.org/entity/Q1985786"), Date(1700, 1, 5), UNCERTAIN),
        (Date(1700, 1, 1, calendar="http://www.wikidata.org/entity/Q1985786"), Date(1705, 1, 5), LESS),
        (Date(1420, 1, 1, calendar="another"), Date(2005, 1, 5), UNCERTAIN),
        (Quantity(999, "g"), Quantity(1, "kg"), LESS),
        (Quantity(Decimal("0.45359237"), "kg"), Quantity(1, "lb"), EQUAL),
        (Quantity(0, "°C"), Quantity(Decimal("273.15"), "K"), EQUAL),
        (Quantity(1, "m"), Quantity(1, "kg"), INCOMPARABLE),
        (Quantity(1, "EUR"), Quantity(2, "EUR"), LESS),
        (Quantity(1, "EUR"), Quantity(2, "USD"), UNCERTAIN),
        (Quantity(1, "kg"), 2, UNCERTAIN),
        (Quantity(None, "kg"), Quantity(1, "kg"), UNCERTAIN),
    ],
)
def test_values_compare_as_sparql_has_it_and_only_where_the_order_is_certain(one, other, expected):
    turned = {LESS: GREATER, GREATER: LESS}
    assert order(one, other) is expected
    assert order(other, one) is turned.get(expected, expected)


def test_quantities_compare_by_the_factors_of_their_kind():
    kind = QuantityKind("box", {"piece": 0.1, "EUR": None})
    assert order(Quantity(9, "piece"), Quantity(1, "box"), kind, kind) is LESS
    assert identity(Quantity(10, "piece"), kind) == identity(Quantity(1, "box"), kind)
    assert order(Quantity(9, "EUR"), Quantity(1, "box"), kind, kind) is UNCERTAIN


@given(*[st.builds(Date, st.integers(-9999, 9999), st.none() | st.integers(1, 12), st.sampled_from([None, 1, 28]))] * 3)
def test_the_order_of_dates_is_transitive(one, other, third):
    if order(one, other) is LESS and order(other, third) is LESS:
        assert order(one, third) is LESS


@given(*[st.integers() | st.decimals(allow_nan=False, allow_infinity=False) | st.floats(-1e300, 1e300)] * 2)
def test_equal_numbers_have_one_identity_whatever_their_type(one, other):
    assert (identity(one) == identity(other)) == (order(one, other) is EQUAL)


# ---------------------------------------------------------------- what violates them


@for_each(
    ("constraint", "tree", "expected"),
    [
        ("a < b", {"a": 1, "b": 1}, ["a: expected a < b, got 1 and 1"]),
        ("a < b", {"a": [1, 3], "b": [2, 5]}, ["a: expected a < b, got 3 and 2"]),
        ("a < b", {"a": 1, "b": "x"}, ["a: expected a < b, got 1 and 'x', which have no order"]),
        ("a < b", {"a": 1}, []),
        ("a < b", {"a": 9, "b": SOMEVALUE}, []),
        ("a < b", {"a": 9, "b": None}, []),
        ("a <= b", {"a": 1, "b": 1}, []),
        ("b >= a", {"a": 2, "b": 1}, ["a: expected a <= b, got 2 and 1"]),
        ("a = b", {"a": [1, 2], "b": [2, 1]}, []),
        ("a = b", {"a": 1}, ["a: expected a = b, got 1, which is not at b"]),
        ("a = b", {"a": 1, "b": SOMEVALUE}, []),
        (Constraint("has_value", ("a",), values=("x",)), {"a": SOMEVALUE}, []),
        ("a disjoint b", {"a": [1, 2], "b": 2}, ["a: expected a disjoint b, got 2 at both"]),
        ("a disjoint b", {"a": Text("x", "en"), "b": "x"}, []),
        (Constraint("count", ("a",), most=1), {"a": [1, 2]}, ["a: expected at most 1 value at a, got 2"]),
        (Constraint("count", ("a",), most=1), {"a": [1, 1, None]}, []),
        (Constraint("count", ("a",), least=2), {"a": [1, NOVALUE]}, ["a: expected at least 2 values at a, got 1"]),
        (Constraint("count", ("a",), least=1), {"a": SOMEVALUE}, []),
        (Constraint("count", ("z",), most=0), {"z": 1}, ["z: expected at most 0 values at z, got 1"]),
        (
            Constraint("count", ("a",), least=1, where=ValueShape(kind=Number(integer=True))),
            {"a": [1.5, "5"]},
            ["a: expected at least 1 value at a that are number, got 0"],
        ),
        (Constraint("has_value", ("a",), values=("x",)), {"a": ["x", "y"]}, []),
        (Constraint("has_value", ("a",), values=("x",)), {}, ["a: expected 'x' at a, got none"]),
        (Constraint("values", ("a",), where=ValueShape(values=(1, Text("x", "de"), Date(1990)))), {"a": [1, Text("x", "DE"), Date(1990)]}, []),
        (Constraint("values", ("a",), where=ValueShape(nodes=("iri",))), {"a": [Link("http://x"), SOMEVALUE]}, []),
        (Constraint("values", ("a",), where=ValueShape(pattern="^a", flags="i")), {"a": ["Ab", Text("a", "en")]}, []),
        (
            Constraint("values", ("a",), where=ValueShape(minimum=Date(1990, 5, 1))),
            {"a": [Date(1990), Date(1990, 4, 30)]},
            ["a: expected values at a that are at least 1990-05-01, got 1990-04-30"],
        ),
        ("a unique_language", {"a": [Text("x", "en"), Text("y", "EN"), "z"]}, ["a: expected one text for each language at a, got 2 in en"]),
        ("closed", {"a": 1, "z": 2, "w": None, "@type": "T"}, ["z: expected no property but those of the class, got z"]),
        (Constraint("closed", allowed=(("a",),)), {"a": 1, "b": 1}, ["b: expected no property but a, got b"]),
    ],
)  # fmt: skip
def test_a_violation_is_told_with_the_values(constraint, tree, expected):
    free = Property(Listed({"": Category()}))
    schema = schema_of(constraint, a=free, b=free)
    found = [line for line in problems(schema, tree) if "expected a label" not in line]
    assert found == expected


def test_values_are_read_by_the_kinds_of_their_properties():
    schema = schema_of(
        "a < b", a=DateKind("dmy"), b=DateKind(), c=QuantityKind("g", {"kg": 1000.0}), d=QuantityKind("kg")
    )
    assert problems(schema, {"a": "28/11/1912", "b": "1912-11-28"}) == [
        "a: expected a < b, got 1912-11-28 and 1912-11-28"
    ]
    schema = schema_of("c < d", c=QuantityKind("g", {"kg": 1000.0}), d=QuantityKind("kg"))
    assert problems(schema, {"c": "999 g", "d": 1}) == []
    assert problems(schema, {"c": "1 kg", "d": {"value": 1, "unit": "kg"}}) == ["c: expected c < d, got 1 kg and 1 kg"]
    schema = schema_of("a < b", a=Property(Number(), missing=("-1",)), b=Number())
    assert problems(schema, {"a": -1, "b": -5}) == []


def test_a_link_is_the_same_whether_it_is_an_id_or_a_link():
    schema = schema_of("a disjoint b", a=LinkKind(), b=Set(LinkKind()))
    assert problems(schema, {"a": "p", "b": [Link("p")]}) == ["a: expected a disjoint b, got p at both"]


def test_constraints_within_a_list_of_parts_are_about_each_part():
    part = Listed({"start": Number(), "end": Number(), "name": Set(Category())})
    schema = schema_of("terms.start <= terms.end", Constraint("count", ("terms", "start"), least=1), terms=part)
    assert problems(schema, {"terms": [{"start": 1, "end": 5}, {"start": 6, "end": 7}]}) == []
    assert problems(schema, {"terms": [{"start": 6, "end": 5}, {"end": 9}]}) == [
        "terms.start: expected terms.start <= terms.end, got 6 and 5",
        "terms.start: expected at least 1 value at terms.start, got 0",
    ]
    schema = schema_of("limit <= terms.end", terms=part, limit=Number())
    assert problems(schema, {"limit": 3, "terms": [{"end": 5}, {"end": 2}]}) == [
        "limit: expected limit <= terms.end, got 3 and 2"
    ]
    schema = schema_of("stock.low < stock.high", stock=Mapped({"low": Number(), "high": Number()}))
    assert problems(schema, {"stock": {"a": {"low": 1, "high": 2}, "b": {"low": 3, "high": 2}}}) == [
        "stock.low: expected stock.low < stock.high, got 3 and 2"
    ]


def test_a_least_number_within_a_part_holds_where_the_part_is_there():
    street = Constraint("count", ("address", "street"), least=1)
    schema = schema_of(street, address__street=TextKind(), address__city=TextKind())
    assert problems(schema, {}) == []
    assert problems(schema, {"address": {"city": "Bonn"}}) == [
        "address.street: expected at least 1 value at address.street, got 0"
    ]


def test_parts_of_dates_and_quantities_have_paths():
    schema = schema_of("launch.year < end", launch=DateKind(), end=Number())
    assert problems(schema, {"launch": "2001-05-06", "end": 2001}) == [
        "launch.year: expected launch.year < end, got 2001 and 2001"
    ]


# ---------------------------------------------------------------- entities together


@pytest.fixture
def found(tmp_path):
    """Check some JSON objects against a schema."""

    def found(schema, *lines):
        file = tmp_path / "kb.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        misfits = check(schema, kbdisk.load(file)).misfits
        return [(one.path, one.problem, one.count, [example.id for example in one.examples]) for one in misfits]

    return found


def test_a_value_that_another_entity_has_is_no_value_of_its_own(found):
    schema = schema_of("tags unique", tags=Set(Category()))
    lines = [
        {"@id": id, "@type": "Thing", "tags": tags} for id, tags in (("a", ["x", "y"]), ("b", ["z"]), ("c", ["y"]))
    ]
    assert found(schema, *lines) == [("tags", "expected values of its own at tags", 1, ["c"])]


def test_links_are_returned_where_the_other_entity_links_at_all(found):
    schema = schema_of("parent inverse child", parent=LinkKind(), child=Set(LinkKind()))
    trees = {"a": {"parent": "b"}, "b": {"child": ["a"]}, "c": {"parent": "b"}, "d": {"parent": "e"}, "e": {}, "f": {"parent": "out"}}  # fmt: skip
    lines = [{"@id": id, "@type": "Thing", **tree} for id, tree in trees.items()]
    assert found(schema, *lines) == [("parent", "expected parent inverse child", 1, ["c"])]


def test_linked_entities_count_by_their_class_where_the_source_has_them(found):
    limits = Constraint("count", ("member",), most=1, where=ValueShape(classes=("Person",)))
    schema = schema_of(limits, member=Set(LinkKind()))
    lines = [{"@id": id, "@type": "Person"} for id in "pq"] + [{"@id": "t", "@type": "Town"}]
    teams = {"one": ["p", "t", "out"], "two": ["p", "q"], "three": ["p", "out", "far"]}
    lines += [{"@id": id, "@type": "Thing", "member": members} for id, members in teams.items()]
    assert found(schema, *lines) == [("member", f"expected {limits.text}", 1, ["two"])]


# ---------------------------------------------------------------- files


def test_each_kind_is_a_row_with_a_description_and_a_text():
    shape = ValueShape(
        kind=Boolean(), classes=("A",), values=(1,), nodes=("iri",), pattern="a", min_length=1, minimum=3
    )
    for name, row in KINDS.items():
        own = {"path": ("a",), "other": ("b",), "values": ("x",), "where": shape, "least": 1, "allowed": (("a",),)}
        one = Constraint(name, **{key: value for key, value in own.items() if key in (*row.needs, *row.takes)})
        assert row.description.endswith(".")
        assert one.text
        assert one.short is None or read_short(one.short) == one


def test_the_example_in_the_docs_is_a_schema_and_every_kind_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "your-files.md").read_text(encoding="utf-8")
    section = page.partition("## Constraints between properties")[2]
    example = section.partition("```yaml\n")[2].partition("```")[0]
    (person,) = Schema.read("kbdisk: 1\n" + example).classes.values()
    assert len(person.constraints) == 4
    assert not [name for name in KINDS if f"`{name}`" not in section]


def test_schema_show_and_check_tell_constraints(run, tmp_path):
    schema = tmp_path / "s.yaml"
    schema.write_text(
        "kbdisk: 1\nclasses:\n  Person:\n    properties:\n      born: date\n      died: date\n    constraints:\n"
        "      - born <= died\n      - {path: born, constraint: values, where: {min: 1500}}\n"
    )
    status, out, err = run("schema", "show", schema)
    assert (status, err) == (0, "")
    assert "born <= died" in out
    assert "values at born that are at least 1500" in out
    (tmp_path / "p.jsonl").write_text('{"@type": "Person", "born": "1990-01-01", "died": "1980"}\n' * 2)
    status, out, _ = run("schema", "check", schema, tmp_path / "p.jsonl")
    assert status == 1
    assert "2 misfits" in out
    assert "born  expected born <= died  2" in out
    assert "p.jsonl:1" in out
    assert "got 1990-01-01 and 1980" in out


def test_constraints_survive_an_export_as_json_schema(tmp_path):
    schema = schema_of("a < b", Constraint("count", ("a",), most=2), a=Number(), b=Number())
    file = tmp_path / "s.json"
    file.write_text(json.dumps(export(schema)))
    assert jsonschema.read(file).schema == schema
    file.write_text(file.read_text().replace("a < b", "a near b"))
    with pytest.raises(kbdisk.errors.SchemaError, match="expected a constraint such as born <= died") as caught:
        jsonschema.read(file)
    assert "\n" not in str(caught.value)


OWL = """
@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix owl: <http://www.w3.org/2002/07/owl#> . @prefix ex: <http://example.org/> .
@prefix dash: <http://datashapes.org/dash#> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
ex:S a sh:NodeShape ; sh:targetClass ex:Person ;
    sh:property [ sh:path ex:mother ; sh:nodeKind sh:IRI ] , [ sh:path ex:child ; sh:nodeKind sh:BlankNodeOrIRI ] ,
        [ sh:path ex:spouse ; sh:nodeKind sh:BlankNodeOrIRI ] , [ sh:path ex:email ; sh:datatype xsd:string ] ,
        [ sh:path ex:code ; sh:datatype xsd:string ; sh:maxCount 1 ; dash:uniqueValueForClass ex:Person ] .
ex:mother a owl:FunctionalProperty ; owl:inverseOf ex:child . ex:spouse a owl:SymmetricProperty .
ex:email a owl:InverseFunctionalProperty . ex:child owl:inverseOf ex:unknown . ex:part a owl:TransitiveProperty .
"""


def test_functional_inverse_and_unique_properties_of_a_shapes_file_are_read(tmp_path):
    (tmp_path / "s.ttl").write_text(OWL)
    imported = shacl.read(tmp_path / "s.ttl")
    person = imported.schema.classes["Person"]
    assert person.properties[("mother",)].kind == LinkKind()
    assert {one.text for one in person.constraints} == {
        "mother inverse child", "child inverse mother", "spouse inverse spouse", "values of its own at email",
        "values of its own at code", "values at mother that are iri",
    }  # fmt: skip
    assert "Person.child: owl:inverseOf unknown is not checked" in imported.left_out
    assert any("owl:TransitiveProperty" in line for line in imported.left_out)


@for_each(
    ("pattern", "is_read"),
    [
        ("^[A-Z]+$", True), ("a-[0-9]", True), (r"\[a-[b]", True), ("[a-z-[aeiou]]", False), (r"\p{L}", False),
        (r"[\i]", False), ("(", False), ("[[a]", False), ("[a--b]", False),
    ],
)  # fmt: skip
def test_patterns_that_mean_something_else_in_python_are_refused(pattern, is_read):
    if is_read:
        assert ValueShape(pattern=pattern).pattern == pattern
    else:
        with pytest.raises(ValueError, match="expected a regular expression"):
            ValueShape(pattern=pattern)


def test_the_id_of_a_closed_class_is_no_other_property():
    of = Class("Thing", {("a",): Property(Number())}, id=("code",), constraints=(read_short("closed"),))
    assert problems(Schema({"Thing": of}), {"a": 1, "code": "x"}) == []


def test_values_qualify_as_quantities(tmp_path):
    told = "sh:qualifiedMinCount 1 ; sh:qualifiedValueShape [ sh:datatype <https://w3id.org/cdt/length> ]"
    (tmp_path / "s.ttl").write_text(
        "@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix ex: <http://example.org/> . "
        f"ex:S a sh:NodeShape ; sh:targetClass ex:Thing ; sh:property [ sh:path ex:x ; {told} ] ."
    )
    schema = shacl.read(tmp_path / "s.ttl").schema
    assert Schema.read(schema.to_yaml()) == schema
    assert problems(schema, {"x": Quantity(1, "km")}) == []
    assert "expected at least 1 value at x that are quantity, got 0" in problems(schema, {"x": "long"})[-1]


def test_a_shape_that_any_value_has_restricts_nothing():
    assert Constraint("count", ("a",), least=2, where=ValueShape()) == Constraint("count", ("a",), least=2)
    with pytest.raises(ValueError, match="expected where for a constraint of the kind values, got none"):
        Constraint("values", ("a",), where=ValueShape())
