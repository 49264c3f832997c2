"""Rules of a schema: read and written, refused with their place, and exact in what they give."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import for_each

from kbdisk.entity import Date, Link, Quantity
from kbdisk.errors import SchemaError
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.rules import KINDS, Rule, evaluate, plain
from kbdisk.schemas.schema import Class, Schema
from kbdisk.schemas.yaml import loads

PATHS = [("a",), ("b",), ("c d", "e.f"), ("ä",)]
PROPERTIES = {path: Property(Number()) for path in PATHS} | {("t",): Property(Category())}
SCHEMA = Schema({"Thing": Class("Thing", PROPERTIES), "Other": Class("Other", PROPERTIES)})


@st.composite
def rules(draw):
    kind = draw(st.sampled_from(list(KINDS)))
    row = KINDS[kind]
    count = draw(st.integers(row.least, min(row.most, len(PATHS))))
    of = tuple(draw(st.permutations(PATHS))[:count])
    numbers = st.floats(allow_nan=False, allow_infinity=False).filter(bool)
    settings = {key: draw(numbers) for key in row.keys if key != "template"}
    if kind == "template":
        text = st.text("ab €'\"#:,x\\", max_size=3)
        settings["template"] = draw(text) + "".join("{}" + draw(text) for _ in of)
    return Rule(
        ("t",),
        kind,
        of,
        decimals=draw(st.none() | st.integers(0, 9)),
        class_name=draw(st.sampled_from([None, "Thing", "Other"])),
        support=draw(st.integers(0, 10**9)),
        exceptions=draw(st.integers(0, 10**9)),
        **settings,
    )


@given(st.none() | st.lists(rules(), max_size=4).map(tuple))
def test_rules_are_read_as_they_were_written(several):
    schema = replace(SCHEMA, rules=several)
    assert loads(schema.to_yaml(rule_notes=["not of x\ny"] * 4)) == schema


def test_a_rule_has_its_formula_as_a_comment():
    rule = Rule(("a",), "ratio", (("b",), ("c d", "e.f")), factor=100.0, support=12, exceptions=1)
    written = replace(SCHEMA, rules=(rule,)).to_yaml(rule_notes=["not of x"])
    assert written.endswith(
        'rules:\n  # a = 100 * b / c d."e.f"; not of x\n'
        "  - {target: a, rule: ratio, of: [b, 'c d.\"e.f\"'], factor: 100, support: 12, exceptions: 1}\n"
    )


WRONG = {
    "{target: z, rule: copy, of: [a]}": "rules[0].target: no property has the path z.",
    "{target: a, rule: copy, of: [bb]}": "rules[0].of[0]: no property has the path bb. Did you mean 'b'?",
    "{target: a, rule: copy, of: [a]}": "rules[0]: expected paths of other properties, got a.",
    "{target: a, rule: sum, of: [b]}": "rules[0]: expected 2 to 8 paths for a rule of the kind sum, got 1.",
    "{target: a, rule: copy, of: [b], factor: 2}": "rules[0]: expected no factor for a rule of the kind copy, got one.",
    "{target: t, rule: template, of: [b], template: x}": "rules[0]: expected a template with 1 times {}, got 'x'.",
    "{target: t, rule: template, of: [b], template: '{b}'}": "rules[0]: expected a template with plain {} alone, got '{b}'.",
    "{target: a, rule: copy, of: [b], class: Thin}": "rules[0].class: no class is called 'Thin'. Did you mean 'Thing'?",
    "{target: a, rule: copied, of: [b]}": "rules[0].rule: expected one of copy,",
    "{target: a, rule: copy, of: [b], support: -1}": "rules[0].support: expected a whole number of at least 0, got -1.",
}


@for_each("rule", WRONG)
def test_a_rule_that_cannot_be_is_refused_with_its_place(rule):
    with pytest.raises(SchemaError) as caught:
        loads(SCHEMA.to_yaml() + f"rules:\n  - {rule}\n", "s.yaml")
    assert WRONG[rule] in str(caught.value)


def test_the_rules_of_a_schema_are_none_where_it_says_none_and_open_where_it_says_nothing():
    assert loads(SCHEMA.to_yaml() + "rules: []\n").rules == ()
    assert loads(SCHEMA.to_yaml()).rules is None


# ---------------------------------------------------------------- what a rule gives

numerals = st.decimals(-(10**6), 10**6, places=2).map(lambda number: float(number) if number % 1 else int(number))


@given(numerals, numerals, st.sampled_from(["sum", "difference", "product"]))
def test_arithmetic_is_exact_to_the_last_digit(u, v, kind):
    found = evaluate(Rule(("a",), kind, (("u",), ("v",))), {("u",): u, ("v",): v})
    x, y = Fraction(str(u)), Fraction(str(v))
    assert Fraction(Decimal(repr(found))) == {"sum": x + y, "difference": x - y, "product": x * y}[kind]


def test_a_whole_result_is_an_int_and_a_rounded_one_has_its_decimals():
    values = {("u",): 0.1, ("v",): 0.2, ("w",): Quantity(2.5, "kg")}
    of = (("u",), ("v",))
    assert evaluate(Rule(("a",), "sum", of), values) == 0.3
    assert evaluate(Rule(("a",), "ratio", of, decimals=1), values) == 0.5
    whole = evaluate(Rule(("a",), "linear", (("w",),), factor=1000.0), values)
    assert (whole, type(whole)) == (2500, int)
    assert evaluate(Rule(("a",), "ratio", (("u",), ("z",))), values) is None
    assert evaluate(Rule(("a",), "ratio", (("u",), ("n",))), {**values, ("n",): 0}) is None


def test_dates_give_ages_and_days_and_days_give_dates():
    born, died = Date(1879, 3, 14), Date(1955, 3, 13)
    values = {("born",): born, ("died",): died, ("days",): 27_757}
    assert evaluate(Rule(("a",), "years", (("died",), ("born",))), values) == 75
    assert evaluate(Rule(("a",), "days", (("died",), ("born",))), values) == 27_757
    assert evaluate(Rule(("a",), "later", (("born",), ("days",))), values) == died
    assert evaluate(Rule(("a",), "shifted", (("born",),), offset=-13.0), values) == Date(1879, 3, 1)
    assert evaluate(Rule(("a",), "earlier", (("died",), ("days",))), values) == born
    assert evaluate(Rule(("a",), "years", (("died",), ("born",))), {**values, ("born",): Date(1879)}) is None


def test_a_series_gives_its_latest_greatest_and_first_value_but_none_of_two_on_one_date():
    parts = [{"year": 2001, "n": 9}, {"year": 2011, "n": 7}, {"year": 2006, "n": 8}]
    n, year = ("p", "n"), ("p", "year")
    given = {
        ("latest", (n, year)): 7,
        ("earliest", (n, year)): 9,
        ("greatest", (n,)): 9,
        ("least", (n,)): 7,
        ("first", (n,)): 9,
        ("last", (n,)): 8,
        ("total", (n,)): 24,
        ("count", (("p",),)): 3,
    }
    for (kind, of), value in given.items():
        assert evaluate(Rule(("a",), kind, of), {("p",): parts}) == value, kind
    assert evaluate(Rule(("a",), "latest", (n, year)), {("p",): [*parts, {"year": 2011, "n": 1}]}) is None


def test_a_series_with_a_part_that_lacks_its_value_or_date_gives_nothing():
    n, year = ("p", "n"), ("p", "year")
    for parts in ([{"year": 2001, "n": 9}, {"n": 7}], [{"year": 2001, "n": 9}, {"year": 2011}]):
        for kind, of in (("latest", (n, year)), ("total", (n,)), ("greatest", (year,)), ("last", (n,))):
            found = evaluate(Rule(("a",), kind, of), {("p",): parts})
            assert found is None or all(of[0][1] in part for part in parts), (kind, parts)
    assert evaluate(Rule(("a",), "count", (("p",),)), {("p",): parts}) == 2


def test_a_template_takes_numbers_and_strings_but_no_links():
    rule = Rule(("a",), "template", (("n",), ("u",)), template="{} {}")
    assert evaluate(rule, {("n",): 2205.0, ("u",): "€"}) == "2205 €"
    assert evaluate(rule, {("n",): 2205.0, ("u",): Link("x")}) is None


def test_numbers_are_compared_by_their_amount_whatever_their_type():
    for equal in [(5, 5.0, Decimal("5.00")), (0.1, Decimal("0.10")), (10**20, 1e20, Decimal("1E+20"))]:
        assert len(set(map(plain, equal))) == 1
    assert len(set(map(plain, [0.1, Decimal("0.1000000000000000055"), True, 1, "1", Decimal("1E-400"), 0]))) == 7
