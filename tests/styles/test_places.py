"""Every format writes a new value as the values at its place are written: one promise, and one way to write a number."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode
from tables import for_each

from kbdisk.entity import Date, Quantity
from kbdisk.loaders.rdf.styles import PredicateTemplates
from kbdisk.loaders.rdf.terms import XSD
from kbdisk.loaders.table.cells import Column
from kbdisk.schemas.composites import COMPOSITES, CompositeKind
from kbdisk.styles.habits import PlaceStyle, write_in_first_form
from kbdisk.styles.kinds import Examples, KindStyle
from kbdisk.styles.numbers import NumberFormat, NumberSpelling, Separators

PLACES = [Examples(), Column("weight"), PredicateTemplates()]


@for_each("place", PLACES, ids=lambda place: type(place).__name__)
def test_the_place_of_each_format_observes_and_writes(place):
    assert isinstance(place, PlaceStyle)


def test_a_quantity_is_text_among_texts_and_a_number_among_numbers():
    for neighbours, written in ([["133 g", "12 g"], "151 g"], [[133, 12], 151]):
        path = Examples()
        for raw in neighbours:
            path.observe(raw)
        assert path.write(Quantity(151, "g")) == written
    column = Column("weight")
    column.observe(Counter(["133 g", "12 g"]), frozenset())
    assert column.write(Quantity(151, "g")) == "151 g"
    predicate = PredicateTemplates()
    for number in (133, 12):
        predicate.observe(Literal(number), lambda node: None)
    assert predicate.write(Quantity(151, "g"), BlankNode) == (Literal(151), [])


def test_a_number_has_the_decimals_of_its_neighbours_in_each_format():
    spelling = NumberSpelling()
    column = Column("price", separators=Separators(comma=True))
    predicate = PredicateTemplates()
    for text in ("1.50", "12.25"):
        spelling.observe_text(text)
        column.observe({text.replace(".", ","): 1}, frozenset())
        predicate.observe(Literal(text, datatype=NamedNode(XSD + "decimal")), lambda node: None)
    assert spelling.text(7.5) == "7.50"
    assert column.write(7.5) == "7,50"
    assert predicate.write(7.5, BlankNode)[0].value == "7.50"


def test_what_no_example_has_a_form_for_is_refused():
    path = Examples()
    path.observe(True)
    with pytest.raises(ValueError, match="no form of the others"):
        path.write(Date(1845, 3))


def test_the_first_form_that_can_express_a_value_is_taken_and_else_the_first_reason_is_given():
    assert write_in_first_form(["x", "5", "6"], int) == 5
    with pytest.raises(ValueError, match="'x'"):
        write_in_first_form(["x", "y"], int)


class Money:
    """A kind from outside, whose values are of a type of their own."""


class Cents(int):
    """A value of such a kind."""


def test_a_kind_from_outside_adds_a_row(monkeypatch):
    row = KindStyle(
        observe=lambda kind, raw, habit: None,
        forms=lambda kind, value, habit: iter(()),
        write=lambda kind, form, value, habit: value,
        fill=lambda kind, raw, new, habit: {},
        types=(Cents,),
        resemble=lambda value, examples, lists: f"{value // 100}.{value % 100:02d}" if examples else None,
    )
    monkeypatch.setitem(COMPOSITES, "money", CompositeKind(Money, Money(), (), style=row))
    path = Examples()
    path.observe("1.50")
    assert path.write(Cents(725)) == "7.25"


# ---------------------------------------------------------------- one number as text


@for_each(
    ("format", "number", "text"),
    [
        (NumberFormat(), 5.0, "5"),
        (NumberFormat(), -0.0, "0"),
        (NumberFormat(2), Decimal("1.500"), "1.50"),
        (NumberFormat(2, keeps_zeros=True), Decimal("1.500"), "1.500"),
        (NumberFormat(0, 2), 1.005, "1"),
        (NumberFormat(1, 2), 1.25, "1.25"),
        (NumberFormat(0, 0), -0.25, "0"),
        (NumberFormat(min_digits=3), -9, "-009"),
        (NumberFormat(plus=True), 5, "+5"),
        (NumberFormat(1, exponent="e+00"), 1000, "1.0e+03"),
        (NumberFormat(thousands="."), 1234567, "1.234.567"),
        (NumberFormat(1, thousands=".", point=","), -98765.4, "-98.765,4"),
        (NumberFormat(), 1e21, "1" + "0" * 21),
    ],
)
def test_a_number_is_written_in_its_format(format, number, text):
    assert format.show(number) == text


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.decimals(-1e9, 1e9), st.integers(0, 4))
def test_without_a_maximum_no_digit_is_lost(number, decimals):
    for format in (NumberFormat(decimals), NumberFormat(decimals, keeps_zeros=True), NumberFormat(exponent="E")):
        shown = Decimal(format.show(number))
        assert shown == number or float(shown) == number
