"""Schemas written as YAML: short, with comments, and read as the same schema again, whatever it is."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from schema_examples import PHONE_SCHEMA
from tables import examples

from kbdisk.entity import Date as Day
from kbdisk.entity import Link as LinkValue
from kbdisk.entity import Text as TextValue
from kbdisk.errors import SchemaError
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.constraints import Constraint, ValueShape
from kbdisk.schemas.formula import Formula
from kbdisk.schemas.kinds import Boolean, Category, Link, Number, Set, Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema, of_one_class
from kbdisk.schemas.yaml import loads, parse

# ---------------------------------------------------------------- writing


def test_the_example_is_written_in_short_forms_with_comments_beside():
    comments = {
        ("Phone", ()): "10679 entities",
        ("Phone", ("oem",)): "97 % filled; 12 labels",
        ("Phone", ("weight",)): "a comment that is much too long to stand at the end of the line " * 2,
        ("Phone", ("launch",)): "two\nlines",
    }
    written = PHONE_SCHEMA.to_yaml(comments, "Inferred.\n\nEdit it.").splitlines()
    assert written[:4] == ["# Inferred.", "#", "# Edit it.", "kbdisk: 1"]
    assert "  Phone:  # 10679 entities" in written
    assert "      oem: category  # 97 % filled; 12 labels" in written
    place = written.index("      launch: {kind: date, order: dmy, parts: [year, month], min: 1983}")
    assert written[place - 2 : place] == ["      # two", "      # lines"]
    assert written[place - 5].startswith("      # a comment that is much too long")
    assert """      '"a.b".c d': boolean""" in written
    assert '      born: {kind: date, novalue: ["0000-00-00"], iri: schema:birthDate, label: born}' in written
    assert max(map(len, written)) <= 120


def test_labels_keep_their_type_and_bounds_are_short():
    written = of_one_class({("x",): Property(Category((1, 1.0, True, "1")))}).to_yaml()
    assert 'values: [1, 1.0, true, "1"]' in written
    assert "{kind: number, min: 5, max: 1e+30}" in of_one_class({("x",): Property(Number(False, 5.0, 1e30))}).to_yaml()


def test_a_field_called_kind_is_told_from_a_kind():
    found = of_one_class({("x",): Property(Listed({"kind": Text(), "of": Number()}))})
    assert "of: {kind: {kind: text}, of: number}" in found.to_yaml()
    assert loads(found.to_yaml()) == found


def test_iris_are_written_by_their_prefix_and_in_brackets_where_they_could_be_taken_for_another():
    prefixes = {"s": "http://s/", "sx": "http://s/x/", "urn": "http://u/"}
    told = {"A": "http://s/x/y", "B": "urn:isbn:1", "C": "http://other/z"}
    found = Schema({name: Class(name, iri=iri) for name, iri in told.items()}, prefixes=prefixes)
    written = found.to_yaml()
    for line in ("iri: sx:y", 'iri: "<urn:isbn:1>"', "iri: http://other/z"):
        assert line in written
    assert loads(written) == found


def test_other_readers_of_yaml_see_the_same_scalars():
    values = (
        "no",
        "NO",
        "3",
        "1e3",
        "true",
        "12:30",
        "~",
        "null",
        "0x1F",
        "1_000",
        "2001-01-01",
        " a ",
        "",
        "a: b",
        "a #b",
        "- a",
        "Österreich",
    )
    written = of_one_class({("x",): Property(Category(values))}).to_yaml()
    assert tuple(yaml.safe_load(written)["classes"][""]["properties"]["x"]["values"]) == values


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (Category(closed=True), "closed: expected values that there can be"),
        (
            Listed({"0": Boolean()}, 10**18),
            "most: expected a whole number of at most 18 digits, got 1000000000000000000",
        ),
    ],
)
def test_a_schema_that_could_not_be_read_again_is_not_written(kind, problem):
    with pytest.raises(SchemaError, match=f'^schema: "".properties.x.{problem}'):
        of_one_class({("x",): Property(kind)}).to_yaml()


# ---------------------------------------------------------------- any schema

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["no", "kind", "3", "true", "null", "~", "a.b", "x" * 1100]
)
some_words = words.filter(bool)
maybe = st.none() | some_words
reals = st.none() | st.floats(-1e9, 1e9) | st.integers(-9, 9)
bounds = st.tuples(reals, reals).map(lambda pair: sorted(pair) if None not in pair else pair)
counts = st.none() | st.integers(1, 10**18 - 1)  # of at most 18 digits
labels = st.lists(words | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False), max_size=4, unique_by=lambda one: (type(one), one)).map(tuple)  # fmt: skip
transforms = st.sampled_from(["auto", "none", "log", "quantile", "standard"])
iris = st.sampled_from(
    ["http://example.org/a", "http://s/x", "http://s/#x y".replace(" ", "%20"), "urn:x:1", "http://s/", "tag:a,b:c"]
)
prefixes = st.dictionaries(
    st.sampled_from(["s", "", "urn", "http", "no"]), st.sampled_from(["http://s/", "http://s/#", "urn:x:", "http:"])
)


@st.composite
def numbers(draw):
    low, high = draw(bounds)
    above, below = draw(bounds)
    if above == below:
        above = None
    return Number(draw(st.booleans()), low, high, draw(transforms), draw(st.none() | st.integers(0, 9)), above, below)


@st.composite
def categories(draw):
    values = draw(labels)
    return Category(values, bool(values) and draw(st.booleans()), draw(st.booleans()))


@st.composite
def texts(draw):
    longest = draw(counts)
    return Text(draw(maybe), longest, draw(st.integers(0, longest or 9)))


@st.composite
def quantities(draw):
    unit = draw(maybe)
    factors = draw(st.dictionaries(some_words, st.none() | st.floats(1e-9, 1e9), max_size=3))
    return Quantity(unit, factors, draw(numbers()), unit is not None and draw(st.booleans()), draw(st.booleans()))


def dates():
    parts = st.lists(st.sampled_from(["year", "month", "day"]), min_size=1, unique=True).map(tuple)
    years = st.tuples(st.integers(-(10**6), 0), st.integers(1, 10**6))
    orders = st.sampled_from(["iso", "dmy", "mdy", "ymd"])
    return st.builds(lambda order, parts, years, coarse: Date(order, parts, *years, coarse), orders, parts, years, st.booleans())  # fmt: skip


links = st.builds(Link, maybe, st.lists(words, max_size=3, unique=True).map(tuple))
plain = st.one_of(numbers(), categories(), st.just(Boolean()), texts(), links, st.builds(Set, categories() | links, counts), quantities(), dates(), st.builds(Coordinate, st.booleans()))  # fmt: skip


def inner_fields(inner):
    return st.dictionaries(some_words, inner, min_size=1, max_size=3) | inner.map(lambda kind: {"": kind})


kinds = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.builds(Listed, inner_fields(inner), counts), st.builds(Mapped, inner_fields(inner), plain, counts)
    ),
    max_leaves=4,
)


spellings = st.lists(words, max_size=2).map(tuple)
property_ = st.builds(
    Property, kinds, st.sampled_from(["value", "given", "ignore"]), st.booleans(), st.booleans(),
    st.sampled_from(["", "latest", "first", "median", "all"]), spellings, spellings,
    st.sampled_from([None, Formula.read("base.value * 2 if base.value > 0 else 1")]),
    st.sampled_from([(), (("base",),), (("base",), ("base", "value"))]), st.none() | iris, words, words,
)  # fmt: skip
paths = st.lists(words.filter(lambda name: name != "base"), min_size=1, max_size=3).map(tuple)


days = st.builds(Day, st.integers(-9999, 9999), st.none() | st.integers(1, 12)) | st.builds(
    Day, st.integers(1, 9999), st.integers(1, 12), st.integers(1, 28)
)
exact = st.decimals(-(10**6), 10**6, places=25).filter(lambda one: Decimal(repr(float(one))) != one)
values = st.one_of(
    words, st.booleans(), st.integers(-(10**9), 10**9), st.floats(-1e9, 1e9), exact, days,
    st.builds(LinkValue, some_words), st.builds(TextValue, words, some_words),
)  # fmt: skip
several_words = st.lists(some_words, max_size=2).map(tuple)
limits = st.none() | st.integers(-99, 99) | st.floats(-1e9, 1e9) | exact | days
value_shapes = st.builds(
    ValueShape, st.none() | plain.filter(lambda kind: not isinstance(kind, Set)), several_words,
    st.lists(values, max_size=3).map(tuple),
    st.lists(st.sampled_from(["iri", "blank", "literal"]), max_size=2).map(tuple), words.map(re.escape),
    st.sampled_from(["", "i", "sm"]), st.integers(0, 3), st.none() | st.integers(3, 10**17), several_words,
    limits, limits, limits, limits,
)  # fmt: skip


def constraints_of(own):
    """Constraints on properties of a class."""
    some = st.sampled_from(own)
    counts_of = st.tuples(st.integers(0, 5), st.none() | st.integers(5, 10**17)).filter(lambda pair: any(pair))
    others = ("less_than", "less_than_or_equals", "equals", "disjoint", "inverse")
    pairs = st.tuples(st.sampled_from(others), some, some).filter(lambda one: one[1] != one[2])
    return st.one_of(
        pairs.map(lambda one: Constraint(*one)),
        st.builds(lambda kind, path: Constraint(kind, path), st.sampled_from(["unique", "unique_language"]), some),
        st.builds(lambda path, number, where: Constraint("count", path, (), *number, where), some, counts_of, st.none() | value_shapes),
        st.builds(lambda path, where: Constraint("values", path, where=where), some, value_shapes.filter(lambda shape: shape != ValueShape())),
        st.builds(lambda path, several: Constraint("has_value", path, values=tuple(several)), some, st.lists(values, min_size=1, max_size=3)),
        st.builds(lambda allowed: Constraint("closed", allowed=tuple(allowed)), st.lists(some, max_size=2)),
    )  # fmt: skip


@st.composite
def one_class(draw, name, told, iri, id, label, description):
    apart = {path: one for path, one in told.items() if not any(path[:n] in told for n in range(1, len(path)))}
    properties = {("base",): Property(Quantity("g")), **apart}
    constraints = tuple(draw(st.lists(constraints_of([*properties]), max_size=3)))
    return Class(name, properties, iri, id, label, description, (label, "Top"), constraints)


@st.composite
def used(draw, shared):
    """Shared properties as a class has them: some as they are, some changed, some of other kinds."""
    properties = {}
    for path in draw(st.lists(st.sampled_from(sorted(shared, key=repr)), unique=True)) if shared else ():
        changed = replace(shared[path], required=draw(st.booleans()), label=draw(words), novalue=draw(spellings))
        properties[path] = draw(st.sampled_from([shared[path], changed]) | property_)
    return properties


@st.composite
def schemas(draw):
    names = draw(st.lists(words, max_size=2, unique=True))
    shared = draw(st.none() | st.dictionaries(paths, property_, max_size=3))
    told = st.builds(
        lambda ours, own: {**ours, **own}, used(shared or {}), st.dictionaries(paths, property_, max_size=2)
    )
    classes = {name: draw(one_class(name, draw(told), *map(draw, (st.none() | iris, st.none() | paths, words, words)))) for name in names}  # fmt: skip
    return Schema(classes, draw(words), draw(words), draw(spellings), draw(prefixes), properties=shared)


@settings(max_examples=examples(40))
@given(schemas(), words, words)
@example(of_one_class({("",): Property(Listed({"0": Boolean()}, 10**18 - 1))}), "", "")
def test_any_schema_is_read_as_it_was_written(schema, comment, head):
    comments = {(name, path): comment for name, one in schema.classes.items() for path in [(), *one.properties]}
    comments |= {(None, path): comment for path in schema.properties or ()}
    written = schema.to_yaml(comments, head)
    read = loads(written)
    assert read == schema
    assert [list(one.properties) for one in read.classes.values()] == [
        list(one.properties) for one in schema.classes.values()
    ]
    assert [types(one) for one in read.classes.values()] == [types(one) for one in schema.classes.values()]


def types(one):
    """To Python, True is 1 and 1.0: to a schema it is not."""
    return [
        [type(value) for value in held.kind.values] for held in one.properties.values() if type(held.kind) is Category
    ]


def test_python_reads_what_libyaml_does(monkeypatch):
    monkeypatch.setattr(parse, "LOADER", yaml.SafeLoader)
    odd = of_one_class(
        {("x" * 1100, 'a"b'): Property(Category(("\x85\u2028\ufeff\x7f\U0001f4f1", "\t\n\r")))}, "\u2029", label="# no"
    )
    assert loads(odd.to_yaml({("\u2029", ("x" * 1100, 'a"b')): "\x85x\u2028"})) == odd
