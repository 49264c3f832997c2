"""A schema gives values the one form of their kind, takes entities apart and puts them together, and says what does not fit."""

from __future__ import annotations

import copy
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st
from tables import examples, for_each

from kbdisk.entity import NOVALUE, SOMEVALUE, Coordinate, Date, Entity, Link, Quantity, Text
from kbdisk.schemas import kinds
from kbdisk.schemas.composites import COMPOSITES, EACH, leaves_of
from kbdisk.schemas.composites.coordinate import Coordinate as CoordinateKind
from kbdisk.schemas.composites.date import Date as DateKind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import Quantity as QuantityKind
from kbdisk.schemas.formula import Formula
from kbdisk.schemas.kinds import KINDS, Boolean, Category, Number, Set
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Misfit, Schema, names_of, of_one_class

CITY = "http://example.org/City"


def schema(**named_kinds):
    """A schema of one class from kinds or properties by name."""
    told = {(name,): kind if isinstance(kind, Property) else Property(kind) for name, kind in named_kinds.items()}
    return of_one_class(told)


def applied(kind, value, **told):
    """What a schema makes of one value."""
    return schema(x=Property(kind, **told)).apply(Entity("e", {"x": value})).tree["x"]


def problems(found, **tree):
    return [str(misfit) for misfit in found.check(Entity("e", tree))]


# ---------------------------------------------------------------- there and back

words = st.text("abc é.", max_size=3)
numbers = st.integers(-(10**6), 10**6) | st.floats(-1e6, 1e6)
days = st.dates().map(lambda day: Date(day.year, day.month, day.day)) | st.builds(Date, st.integers(-99, 2100))
amounts = st.builds(Quantity, numbers.map(lambda number: float(f"{number:.15g}")), st.sampled_from(["g", "kg"]))

EVERYTHING = {  # a path of each kind, some deep: its kind and values that fit
    ("number",): (Number(), numbers),
    ("deep", "category"): (Category(), words | st.booleans() | st.integers()),
    ("boolean",): (Boolean(), st.booleans()),
    ("deep", "text"): (kinds.Text(), words | st.builds(Text, words, st.just("de"))),
    ("link",): (kinds.Link(), st.builds(Link, words)),
    ("set",): (Set(Category()), st.lists(words, max_size=3)),
    ("quantity",): (QuantityKind("g", {"kg": 1000.0}), amounts),
    ("deep", "er", "date"): (DateKind(), days),
    ("coordinate",): (CoordinateKind(), st.builds(Coordinate, st.integers(-90, 90), st.floats(-180, 180))),
    ("list",): (
        Listed({"n": Number(), "when": DateKind(), "where": Listed({"": Number()})}),
        st.lists(st.fixed_dictionaries({}, optional={"n": numbers, "when": days, "where": st.lists(numbers, max_size=2)}), max_size=3),
    ),
    ("map",): (
        Mapped({"name": kinds.Text(), "weight": QuantityKind("g", {"kg": None})}),
        st.dictionaries(words, st.fixed_dictionaries({}, optional={"name": words, "weight": amounts}), max_size=3),
    ),
}  # fmt: skip
KNOWN_EVERYTHING = of_one_class({path: Property(kind) for path, (kind, _) in EVERYTHING.items()})


def nested(values):
    tree = {}
    for path, value in values.items():
        place = tree
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = value
    return tree


trees = st.fixed_dictionaries({}, optional={path: values for path, (_, values) in EVERYTHING.items()}).map(nested)


def test_the_example_has_every_kind_and_composite():
    types = {type(kind) for kind, _ in EVERYTHING.values()}
    assert types == {row.type for row in (*KINDS.values(), *COMPOSITES.values())}


@settings(max_examples=examples(60))
@given(trees)
def test_any_entity_taken_apart_and_put_together_is_the_same(tree):
    entity = Entity("e", tree)
    before = copy.deepcopy(tree)
    leaves = KNOWN_EVERYTHING.leaves(entity)
    assert KNOWN_EVERYTHING.tree(leaves) == tree == KNOWN_EVERYTHING.apply(entity).tree
    assert KNOWN_EVERYTHING.check(entity) == []
    assert not list(KNOWN_EVERYTHING.unknown(entity))
    assert entity.tree == before


@settings(max_examples=examples(30))
@given(trees)
def test_every_leaf_value_fits_a_leaf_of_the_class(tree):
    known = KNOWN_EVERYTHING.classes[""].leaves()
    for path, value in KNOWN_EVERYTHING.leaves(Entity("e", tree)).items():
        known[tuple(EACH if isinstance(key, int) else key for key in path)].check(value)


# ---------------------------------------------------------------- classes


def test_an_entity_is_of_the_class_that_its_name_or_iri_says():
    found = Schema({"Town": Class("Town", iri=CITY), "Person": Class("Person"), "": Class("")})
    assert found.class_of(Entity("e", classes=(CITY,))).name == "Town"
    assert found.class_of(Entity("e", classes=("Person",))).name == "Person"
    assert found.class_of(Entity("e", classes=("http://xmlns.com/foaf/0.1/Person",))).name == "Person"
    assert found.class_of(Entity("e", classes=("http://x/Other",))).name == ""
    assert found.class_of(Entity("e")).name == ""


def test_where_there_is_one_class_entities_without_any_are_of_it_and_others_are_not():
    found = Schema({"Person": Class("Person")})
    assert found.class_of(Entity("e")).name == "Person"
    other = Entity("e", {"x": 1}, classes=("Town",))
    assert found.class_of(other) is None
    assert found.apply(other) is other
    assert found.leaves(other) == {}
    assert [str(one) for one in found.check(other)] == [": expected a class of Person, got Town"]
    assert list(found.unknown(other)) == [("x",)]


def test_each_class_has_properties_of_its_own():
    found = Schema(
        {name: Class(name, {("x",): Property(kind)}) for name, kind in {"A": Number(), "B": kinds.Text()}.items()}
    )
    assert found.check(Entity("e", {"x": 1}, classes=("A",))) == []
    assert found.check(Entity("e", {"x": 1}, classes=("B",))) == [Misfit(("x",), "expected text, got 1")]


def test_names_of_a_schema_are_its_paths():
    assert list(names_of(KNOWN_EVERYTHING))[:2] == ["number", "deep.category"]


# ---------------------------------------------------------------- one form


def test_what_loaders_hand_over_takes_the_one_form_of_its_kind():
    assert applied(QuantityKind("g"), 190) == applied(QuantityKind("g"), "190 g") == Quantity(190, "g")
    assert applied(DateKind(), {"year": 2019.0, "month": 3}) == Date(2019, 3)
    assert applied(Set(Category()), "red") == ["red"]


def test_what_does_not_fit_stays_as_it_is_and_is_no_leaf():
    found = schema(x=Number(), y=Number())
    entity = Entity("e", {"x": "soon", "y": 1, "z": [1]})
    assert found.apply(entity).tree == entity.tree
    assert found.leaves(entity) == {("y",): 1}
    assert problems(found, **entity.tree) == ["x: expected a number, got 'soon'"]
    assert list(found.unknown(entity)) == [("z", 0)]


def test_what_is_ignored_is_no_leaf_and_is_checked_all_the_same():
    found = schema(x=Property(Number(), role="ignore"), y=Property(Number(), role="given"))
    assert list(found.classes[""].leaves()) == [("y",)]
    assert found.leaves(Entity("e", {"x": 1, "y": 2})) == {("y",): 2}
    assert problems(found, x="a") == ["x: expected a number, got 'a'"]


# ---------------------------------------------------------------- gaps


@for_each("gap", ["nan", "-1", -1, -1.0, Decimal(-1), "?"])
def test_a_gap_by_its_spelling_is_asked_for(gap):
    found = of_one_class({("x",): Property(Number(), missing=("?", "-1"))}, missing=("nan",))
    assert found.apply(Entity("e", {"x": gap})).tree == {"x": None}
    assert found.leaves(Entity("e", {"x": gap})) == {}
    assert found.check(Entity("e", {"x": gap})) == []


def test_numbers_of_any_size_are_no_gaps_and_break_nothing():
    for huge in (10**5000, Decimal("1E+400"), Decimal("1E-400"), 1e300):
        assert applied(Category(), huge, missing=("-1",)) == huge


@for_each("huge", [10**400, Decimal("1E+400"), "1E+400", 1.1e300, -1e308, float("inf")])
def test_numbers_beyond_what_can_be_computed_with_do_not_fit(huge):
    assert problems(schema(x=Number()), x=huge)[0].startswith("x: expected a number")


def test_numbers_in_strings_are_numbers():
    assert applied(Number(), " 12.50 ") == 12.5
    assert problems(schema(x=Number(integer=True)), x="1.5") == ["x: expected a whole number, got 1.5"]


def test_a_part_without_anything_known_keeps_its_gaps():
    tree = {"x": {"year": None, "month": None}}
    found = schema(x=Property(DateKind(), required=True))
    assert found.apply(Entity("e", tree)).tree == tree
    assert problems(found, **tree) == ["x: expected a value, got none"]


def test_known_not_to_exist_is_neither_gap_nor_leaf():
    found = schema(x=Property(DateKind(), novalue=("0000-00-00",), required=True))
    assert found.apply(Entity("e", {"x": "0000-00-00"})).tree == {"x": NOVALUE}
    for value in ("0000-00-00", NOVALUE, SOMEVALUE):
        assert found.leaves(Entity("e", {"x": value})) == {}
        assert found.check(Entity("e", {"x": value})) == []


def test_what_is_required_is_missed():
    found = schema(x=Property(Number(), required=True))
    assert problems(found) == problems(found, x=None) == ["x: expected a value, got none"]
    assert problems(found, x="soon") == ["x: expected a number, got 'soon'"]


# ---------------------------------------------------------------- several values


@for_each(
    ("many", "kind", "values", "chosen"),
    [
        ("first", Number(), [3, 1, 2], 3),
        ("latest", Number(), [3, 9, 2], 9),
        ("median", Number(), [3, 1, 2, 9], 2),
        ("all", Number(), [3, 1], [3, 1]),
        ("latest", DateKind(), ["1999", "2001-05", "2001"], Date(2001, 5)),
        ("median", DateKind(), ["2005", "1999", "2001"], Date(2001)),
        ("median", QuantityKind("g"), [9, "1 g", 3], Quantity(3, "g")),
        ("latest", QuantityKind("g"), [1, "7 g", 3], Quantity(7, "g")),
        ("first", Category(), ["nan", "a", "b"], "a"),
    ],
)
def test_of_several_values_the_one_counts_that_many_says(many, kind, values, chosen):
    assert applied(kind, values, many=many, missing=("nan",)) == chosen


def test_several_values_where_one_is_expected_do_not_fit_unless_one_is_left():
    assert problems(schema(x=Number()), x=[1, 2]) == [
        "x: expected one value, got 2. Say many: first, latest, median or all"
    ]
    assert applied(Number(), [5]) == applied(Number(), [None, 5]) == 5
    assert applied(CoordinateKind(), [1, 2]) == Coordinate(1, 2)


# ---------------------------------------------------------------- formulas

BODY = schema(
    weight=QuantityKind("kg"), height=Number(), bmi=Property(Number(), formula=Formula.read("weight.value / height ** 2"))
)  # fmt: skip


def test_a_derived_value_has_to_be_what_its_formula_gives():
    assert problems(BODY, weight=80, height=2.0, bmi=20) == []
    assert problems(BODY, weight=80, height=2.0, bmi=25) == ["bmi: expected 20 by weight.value / height ** 2, got 25"]


@for_each("height", [None, 0, "tall"])
def test_a_formula_without_a_result_says_nothing(height):
    assert not [problem for problem in problems(BODY, weight=80, height=height, bmi=25) if problem.startswith("bmi")]


def test_a_formula_gives_a_quantity_in_its_unit():
    found = schema(a=Number(), b=Property(QuantityKind("m"), formula=Formula.read("a * 2")))
    assert problems(found, a=2, b="4 m") == []
    assert problems(found, a=2, b="5 m") == ["b: expected 4 by a * 2, got 5"]


def test_leaves_of_composites_in_composites_are_those_of_the_class():
    kind = EVERYTHING[("list",)][0]
    known = KNOWN_EVERYTHING.classes[""].leaves()
    assert {path: one for path, one in known.items() if path[0] == "list"} == dict(leaves_of(("list",), kind))


@for_each(
    ("kind", "whole", "values", "kept"),
    [
        (Number(), Listed({"": Number()}), [3, "nan", "1", 3], [3, None, 1, 3]),
        (DateKind(), Listed({"": DateKind()}), ["2001-05", "1999"], [Date(2001, 5), Date(1999)]),
        (Category(), Set(Category()), ["b", "nan", "a"], ["b", "a"]),
        (kinds.Link("City"), Set(kinds.Link("City")), ["b", "a"], ["b", "a"]),
        (Set(Category()), Set(Category()), ["b"], ["b"]),
    ],
)
def test_a_property_of_which_all_values_count_is_a_set_or_a_list_of_them(kind, whole, values, kept):
    one = Property(kind, many="all", missing=("nan",))
    assert one == Property(whole, missing=("nan",))
    told = of_one_class({("x",): one})
    assert Schema.read(told.to_yaml()) == told
    entity = Entity("e", {"x": values})
    assert told.check(entity) == []
    assert told.apply(entity).tree == {"x": kept}
    assert told.tree(told.leaves(entity)) == {"x": kept}


def test_a_file_may_say_that_all_values_count():
    told = Schema.read("kbdisk: 1\nclasses: {P: {properties: {x: {kind: number, many: all}}}}")
    assert told.classes["P"].properties["x",] == Property(Listed({"": Number()}))
