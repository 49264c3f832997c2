"""Every composite keeps the same promises: what it takes apart it puts together again. A new one needs a row and an example."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import for_each

from kbdisk.entity import Coordinate as Place
from kbdisk.entity import Date as Day
from kbdisk.entity import Quantity as Amount
from kbdisk.schemas.composites import COMPOSITES, EACH, Composite, CompositeKind, leaves_of, show_pattern
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import Date, check
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.kinds import KINDS, Category, Number, Text


@pytest.fixture(params=COMPOSITES, ids=str)
def row(request):
    return COMPOSITES[request.param]


def test_its_example_does_what_a_composite_does(row):
    assert isinstance(row.example, row.type)
    assert isinstance(row.example, Composite)


def test_it_is_made_of_leaves_alone(row):
    leaves = dict(leaves_of(("here",), row.example))
    assert leaves
    assert {type(leaf) for leaf in leaves.values()} <= {kind.type for kind in KINDS.values()}


def test_a_value_taken_apart_and_put_together_is_the_same(row):
    for value in row.values:
        whole = row.example.apply(value)
        assert row.example.join(row.example.split(whole)) == whole
        assert row.example.apply(whole) == whole


def test_its_parts_fit_the_leaves_it_says_it_has(row):
    leaves = row.example.leaves()
    for value in row.values:
        for path, part in row.example.split(row.example.apply(value)).items():
            pattern = tuple(EACH if isinstance(key, int) else key for key in path)
            if pattern in leaves:
                leaves[pattern].check(part)


# ---------------------------------------------------------------- quantity


def amounts():
    """Numbers of 15 digits at most."""
    return st.floats(0, 1e6).map(lambda number: float(f"{number:.15g}")) | st.integers(0, 10**15)


@given(st.none() | amounts(), st.sampled_from(["g", "kg"]))
def test_any_quantity_survives(value, unit):
    kind = COMPOSITES["quantity"].example
    whole = kind.apply(Amount(value, unit))
    assert kind.join(kind.split(whole)) == whole == Amount(value, unit)


@for_each(
    ("value", "amount"),
    [
        (190, Amount(190, "g")),
        ("190 g", Amount(190, "g")),
        ("6.9kg", Amount(6.9, "kg")),
        ("1,234 g", Amount(1234, "g")),
        ({"value": 3, "unit": "kg"}, Amount(3, "kg")),
        ({"@id": "_:b0", "value": 3}, Amount(3, "g")),
    ],
)
def test_quantities_are_read_from_what_loaders_hand_over(value, amount):
    assert COMPOSITES["quantity"].example.apply(value) == amount


@for_each("text", ["0,123 g", "0,123", "010,100 g"])
def test_no_comma_parts_thousands_behind_a_zero(text):
    with pytest.raises(ValueError, match="with a point before decimals"):
        COMPOSITES["quantity"].example.apply(text)


def test_the_unit_of_money_may_stand_before_the_number():
    price = Quantity("$", {"US$": 1.0})
    assert price.apply("$1,234.50") == price.apply(" $ 1234.5 ") == price.apply("1234.50 $") == Amount(1234.5, "$")
    assert price.apply("-US$5") == Amount(-5, "US$")
    for text in ("kg 5", "$5 US$", "$-5", "€5", "$", "-$"):
        with pytest.raises(ValueError, match="expected a"):
            price.apply(text)


def test_a_unit_that_the_schema_does_not_know_is_refused():
    with pytest.raises(ValueError, match="expected a unit of g, kg, got 'lb'"):
        COMPOSITES["quantity"].example.apply(Amount(3, "lb"))
    assert Quantity(any_unit=True).apply(Amount(3, "lb")) == Amount(3, "lb")


@for_each("text", ["6,9 kg", "1.234,5 kg", "1,23,456 g", "1 000 kg", "10-20 kg"])
def test_a_number_that_may_be_meant_otherwise_is_refused_rather_than_read_as_another(text):
    with pytest.raises(ValueError, match="expected a"):
        COMPOSITES["quantity"].example.apply(text)


def test_a_comma_is_before_decimals_where_a_quantity_says_so():
    price = Quantity("€", {"kg": None}, comma=True)
    assert price.apply("6,9 €") == price.apply("€6,9") == Amount(6.9, "€")
    assert price.apply("-1.234.567,25") == Amount(-1234567.25, "€")
    assert price.apply("1.234 kg") == Amount(1234, "kg")
    assert price.apply({"value": 6.9}) == price.apply(6.9) == Amount(6.9, "€")
    with pytest.raises(ValueError, match=re.escape("such as 6,9 or 1.234,5, with a comma before decimals, got '6.9'")):
        price.apply("6.9 €")
    with pytest.raises(ValueError, match="expected a quantity such as 6,9 €, got 'x'"):
        price.apply("x")


@for_each("text", ["1 000 kg", "5 .6 kg"])
def test_a_unit_begins_with_no_digit_where_any_unit_is_taken(text):
    with pytest.raises(ValueError, match="expected a quantity"):
        Quantity(any_unit=True).apply(text)


def test_quantities_are_normalised_where_that_is_asked_for():
    kind = Quantity(unit="g", factors={"kg": 1000.0, "bushel": None}, normal=True)
    assert kind.apply("0.5 kg") == Amount(500.0, "g")
    assert kind.apply("1.1 kg") == Amount(1100.0, "g")
    assert list(kind.leaves()) == [("value",)]
    with pytest.raises(ValueError, match="expected a unit that g is known in, got 'bushel'"):
        kind.apply("1 bushel")


def test_one_unit_is_no_leaf_and_two_are():
    assert list(Quantity(unit="g").leaves()) == [("value",)]
    assert Quantity(unit="g", factors={"kg": None}).leaves()[("unit",)] == Category(("g", "kg"), closed=True)


# ---------------------------------------------------------------- date


@for_each("order", ["dmy", "mdy", "ymd"])
def test_a_year_of_two_digits_is_not_the_year_12(order):
    with pytest.raises(ValueError, match=f"in the order {order} with its whole year, got '11/10/12'"):
        Date(order=order).apply("11/10/12")


@for_each("value", [math.inf, -math.inf, math.nan, 1999.5])
def test_a_number_that_is_no_year_is_refused(value):
    with pytest.raises(ValueError, match="expected a date such as 1912-11-28"):
        Date().apply(value)


def days():
    """Dates that there are, in any year, in part too."""
    whole = st.dates().map(lambda day: Day(day.year, day.month, day.day))
    years = st.integers(-(10**9), 10**9)
    months = st.builds(Day, years, st.integers(1, 12))
    coarse = st.builds(Day, years, precision=st.sampled_from(["decade", "century"]))
    return (
        whole
        | st.builds(Day, years)
        | months
        | coarse
        | st.builds(Day, day=st.integers(1, 31))
        | st.just(Day(-44, 3, 15))
    )


@given(days())
def test_any_date_survives(day):
    assert Date().join(Date().split(Date().apply(day))) == day


@given(st.integers(-5000, 5000), st.integers(1, 12), st.integers(1, 31))
def test_impossible_days_never_come_out(year, month, day):
    lengths = [
        31,
        29 if year % 4 == 0 and (year % 100 or year % 400 == 0) else 28,
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ]
    parts = {("year",): year, ("month",): month, ("day",): day}
    if day <= lengths[month - 1]:
        assert Date().join(parts) == Day(year, month, day)
    else:
        with pytest.raises(ValueError, match="expected a day that there is"):
            Date().join(parts)


def test_leap_years_are_those_of_the_calendar():
    check(Day(2000, 2, 29))
    check(Day(None, 2, 29))
    check(Day(-4, 2, 29))
    check(Day(1900, 2, 29, calendar="http://www.wikidata.org/entity/Q1985786"))
    for year in (1900, 2023, 2100):
        with pytest.raises(ValueError, match="got 29 of month 2"):
            check(Day(year, 2, 29))
    with pytest.raises(ValueError, match="expected a month from 1 to 12, got 13"):
        check(Day(2000, 13))


@for_each(
    ("order", "text", "day"),
    [
        ("iso", "1912-11-28", Day(1912, 11, 28)),
        ("iso", "1912", Day(1912)),
        ("dmy", "28/11/1912", Day(1912, 11, 28)),
        ("mdy", "11/28/1912", Day(1912, 11, 28)),
        ("dmy", "1.2.2003", Day(2003, 2, 1)),
    ],
)
def test_dates_in_strings_are_read_in_the_one_order(order, text, day):
    assert Date(order=order).apply(text) == day


def test_a_date_as_a_part_may_have_floats_as_csv_has_them():
    assert Date().apply({"year": 1999.0, "month": None, "day": 5.0}) == Day(1999, None, 5)
    with pytest.raises(ValueError, match=r"expected a whole number, got 1999\.5"):
        Date().apply({"year": 1999.5})
    with pytest.raises(ValueError, match="expected year, month and day, got yaer"):
        Date().apply({"yaer": 1999})


def test_years_have_bounds_where_the_schema_says_so():
    with pytest.raises(ValueError, match="expected a number of at least 1983, got 1930"):
        Date(minimum=1983).apply(Day(1930))


# ---------------------------------------------------------------- coordinate


@given(st.none() | st.floats(-90, 90), st.none() | st.floats(-180, 180), st.sampled_from(["", "http://x/Moon"]))
def test_any_place_survives(latitude, longitude, globe):
    place = Place(latitude, longitude, globe)
    assert Coordinate().join(Coordinate().split(Coordinate().apply(place))) == place


def test_places_are_read_however_their_halves_are_named_or_ordered():
    assert Coordinate().apply({"lat": 1, "lon": 2}) == Place(1, 2)
    assert Coordinate().apply({"longitude": 2}) == Place(None, 2)
    assert Coordinate().apply([12.5, -69.97]) == Place(12.5, -69.97)
    assert Coordinate(longitude_first=True).apply([-69.97, 12.5]) == Place(12.5, -69.97)


@for_each("value", [Place(91, 0), [0, 400], {"lat": 1, "town": "x"}, "here", [1, 2, 3], {"lat": 1, "latitude": 2}])
def test_what_is_no_place_is_refused(value):
    with pytest.raises(ValueError, match="expected"):
        Coordinate().apply(value)


# ---------------------------------------------------------------- lists and maps


def parts():
    fields = {"year": st.integers(1800, 2100), "share": st.sampled_from("123"), "other": st.text(max_size=3)}
    return st.lists(st.fixed_dictionaries({}, optional=fields), max_size=4)


@given(parts())
def test_any_list_of_parts_survives(value):
    kind = Listed({"year": Number(integer=True), "share": Category()})
    assert kind.join(kind.split(kind.apply(value))) == value


@given(st.lists(st.floats(0, 10), max_size=4))
def test_any_list_of_numbers_survives(value):
    kind = Listed({"": Number()})
    assert kind.join(kind.split(kind.apply(value))) == value


@given(st.dictionaries(st.sampled_from(["EUR", "USD", "key", "a.b"]), st.fixed_dictionaries({}, optional={
    "name": st.text(max_size=3), "key": st.text(max_size=3), "key_": st.text(max_size=3), "when": st.just(Day(1999)),
})))  # fmt: skip
def test_any_map_survives(value):
    kind = Mapped({"name": Text(), "key": Text(), "when": Date()})
    assert kind.join(kind.split(kind.apply(value))) == value


@given(st.dictionaries(st.text(min_size=1, max_size=3).filter(lambda key: key[0] != "@"), st.text(max_size=3)))
def test_any_map_of_plain_values_survives(value):
    kind = Mapped({"": Text()})
    assert kind.join(kind.split(kind.apply(value))) == value


def test_a_map_has_its_keys_as_labels():
    kind = Mapped({"name": Text()})
    assert kind.split({"EUR": {"name": "Euro"}}) == {("count",): 1, (0, "key"): "EUR", (0, "name"): "Euro"}
    assert [show_pattern(path) for path, _ in leaves_of(("currencies",), kind)] == [
        "currencies.count", "currencies[].key", "currencies[].name",
    ]  # fmt: skip


def test_composites_stand_within_composites():
    kind = Listed({"when": Date(), "height": Quantity(unit="m")})
    whole = kind.apply([{"when": "1999-05", "height": "2.5 m"}])
    assert whole == [{"when": Day(1999, 5), "height": Amount(2.5, "m")}]
    assert kind.split(whole)[(0, "when", "month")] == 5
    assert kind.join(kind.split(whole)) == whole
    assert ("x", EACH, "when", "day") in dict(leaves_of(("x",), kind))


def test_a_field_that_does_not_fit_is_named():
    with pytest.raises(ValueError, match="when: expected a date"):
        Listed({"when": Date()}).apply([{"when": "soon"}])


def test_a_composite_of_somebody_elses_is_one_dataclass_and_one_row(monkeypatch):
    @dataclass(frozen=True)
    class Ratio:
        """3:4, as two numbers."""

        def leaves(self):
            return {("a",): Number(), ("b",): Number()}

        def apply(self, value):
            return value

        def split(self, value):
            a, b = value.split(":")
            return {("a",): int(a), ("b",): int(b)}

        def join(self, parts):
            return f"{parts[('a',)]}:{parts[('b',)]}"

    monkeypatch.setitem(COMPOSITES, "ratio", CompositeKind(Ratio, Ratio(), ("3:4",)))
    listed = Listed({"shape": Ratio()})
    assert listed.join(listed.split(listed.apply([{"shape": "3:4"}]))) == [{"shape": "3:4"}]
    assert math.isclose(listed.split([{"shape": "3:4"}])[(0, "shape", "b")], 4)
