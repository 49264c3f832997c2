"""Common units: their names, their factors, and amounts there and back."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.entity import Entity
from kbdisk.entity import Quantity as Amount
from kbdisk.schemas.composites.quantity import Quantity, Scale
from kbdisk.schemas.infer import infer
from kbdisk.schemas.text.units import conversion, is_currency, unit_of
from tests.tables import for_each

SAME = [  # names of one unit
    ("kg", "kilogram", "Kilograms", "KG", "kgs", "unit:KiloGM", "http://qudt.org/vocab/unit/KiloGM", "KGM", "Q11570",
     "http://www.wikidata.org/entity/Q11570", "http://dbpedia.org/datatype/kilogram"),
    ("g", "grams", "GRM", "unit:GM", "Q41803"), ("lb", "lbs", "pounds", "[lb_av]", "LBR", "unit:LB"),
    ("m", "metre", "meters", "MTR", "unit:M", "Q11573"), ("in", "inches", '"', "[in_i]", "unit:IN"),
    ("s", "sec", "seconds", "unit:SEC", "Q11574"), ("h", "hr", "hours", "unit:HR", "HUR"), ("min", "minutes", "unit:MIN"),
    ("°C", "Cel", "degrees Celsius", "unit:DEG_C", "CEL", "Q25267"), ("°F", "[degF]", "unit:DEG_F", "FAH"),
    ("B", "bytes", "unit:BYTE"), ("KB", "kB", "kilobytes"), ("MB", "megabyte", "Q79735"),
    ("km2", "km²", "square kilometres", "sq km", "unit:KiloM2", "http://dbpedia.org/datatype/squareKilometre"),
    ("km/h", "km.h-1", "kph", "kilometres per hour", "unit:KiloM-PER-HR"), ("kg/m3", "kg.m-3", "g/l", "unit:KiloGM-PER-M3"),
    ("kWh", "kW h", "kilowatt hours", "unit:KiloW-HR"), ("ml", "mL", "cm3", "millilitres", "unit:MilliL"),
]  # fmt: skip
FACTORS = [
    ("lb", "g", 453.59237), ("oz", "lb", 0.0625), ("in", "cm", 2.54), ("ft", "in", 12), ("h", "s", 3600), ("TB", "GB", 1000),
    ("GiB", "MiB", 1024), ("byte", "bit", 8), ("mph", "km/h", 1.609344), ("acres", "m2", 4046.8564224), ("kWh", "MJ", 3.6),
    ("atm", "Pa", 101325), ("mAh", "Ah", 0.001), ("°", "rad", math.pi / 180), ("%", "ppm", 10_000), ("gal", "l", 3.785411784),
]  # fmt: skip
SEVERAL = [
    ("kg", "lb", "g", "oz"),
    ("m", "ft", "in", "mm"),
    ("°C", "°F", "K"),
    ("GB", "KB", "TB"),
    ("h", "min", "s", "d"),
]


@for_each("names", [(names,) for names in SAME])
def test_a_unit_is_known_by_all_its_names(names):
    for name in names:
        assert conversion(name, names[0]) == (1, 0), name


@for_each(("one", "other", "factor"), FACTORS)
def test_common_units_know_their_factors(one, other, factor):
    found = conversion(one, other)
    assert found is not None
    assert found.factor == pytest.approx(factor, rel=1e-12)


def test_temperatures_have_an_offset():
    assert conversion("°C", "°F").of(100) == 212
    assert conversion("K", "°C").of(0) == -273.15
    assert conversion("°F", "K").back(273.15) == 32


@for_each(("one", "other"), [("m", "min"), ("kg", "EUR"), ("EUR", "USD"), ("ton", "kg"), ("gb", "MB"), ("M", "m"), ("pcs", "kg"), ("", "kg"), ("m/", "m")])  # fmt: skip
def test_what_is_not_known_for_certain_has_no_factor(one, other):
    assert conversion(one, other) is None


def test_currencies_are_known_without_factors():
    assert all(map(is_currency, ("EUR", "JPY", "$", "€", "http://qudt.org/vocab/currency/CCY_GBP".rpartition("/")[2])))
    assert not is_currency("kg")


@given(st.text(max_size=12))
def test_any_text_is_a_unit_or_none(name):
    unit = unit_of(name)
    assert unit is None or unit.factor > 0


@given(
    st.sampled_from(SEVERAL).flatmap(lambda units: st.tuples(st.sampled_from(units), st.sampled_from(units))),
    st.floats(-1e6, 1e6).map(lambda amount: round(amount, 6)) | st.integers(-(10**9), 10**9),
)
def test_there_and_back_is_the_identity(units, amount):
    assert conversion(*units).back(conversion(*units).of(amount)) == amount


@given(
    st.sampled_from(SEVERAL).flatmap(lambda units: st.tuples(st.just(units), st.sampled_from(units))),
    st.floats(0.001, 1e6).map(lambda amount: round(amount, 4)),
    st.sampled_from([None, 0.37]),
)
def test_an_amount_taken_apart_and_put_together_is_the_same_in_its_unit(units, amount, scale):
    """In units that are known, and in units whose factors training found."""
    several, unit = units
    scales = (
        {several[0]: Scale(), **{other: Scale(scale * n) for n, other in enumerate(several[1:], 1)}} if scale else {}
    )
    kind = Quantity(several[0], dict.fromkeys(several[1:]), scales=scales)
    assert kind.join(kind.split(kind.apply(Amount(amount, unit)))) == Amount(amount, unit)


def test_amounts_are_learnt_in_the_main_unit_or_that_of_factor_1():
    assert Quantity("kg", {"g": 0.001}).split(Amount(5, "g"))[("value",)] == 0.005
    assert Quantity(None, {"g": 0.001, "kg": 1.0}).split(Amount(5, "g"))[("value",)] == 0.005
    assert Quantity("kg", {"lb": None}).split(Amount(2, "lb"))[("value",)] == 0.90718474
    assert Quantity("box", {"crate": 12.0}).split(Amount(2, "crate"))[("value",)] == 24
    assert Quantity(None, {"kg": 1.0, "g": 0.001}).split(Amount(5, None)) == {
        ("bare",): 5
    }  # of which unit, nobody knows


def test_a_predicted_amount_has_no_more_digits_than_it_says_nor_than_its_unit():
    kind = Quantity(
        "kg", {"lb": None, "g": None}, scales={"kg": Scale(), "lb": Scale(0.45359237, 0, 1), "g": Scale(0.001)}
    )
    assert kind.resolved(kind.join({("value",): 5.0, ("unit",): "lb"})) == Amount(11.0, "lb")
    assert kind.resolved(kind.join({("value",): 0.57, ("unit",): "g"})) == Amount(570.0, "g")


def test_inference_knows_the_factors_of_common_units():
    rows = [
        Entity(str(n), {"weight": {"value": n + 1, "unit": ("g", "kg", "lb")[n % 3 if n % 2 else 0]}})
        for n in range(60)
    ]
    (kind,) = (one.kind for one in infer(rows).schema.classes[""].properties.values())
    assert kind.unit == "g"
    assert kind.factors == {"kg": 1000.0, "lb": pytest.approx(453.59237)}


def test_parts_of_an_amount_and_a_currency_are_a_quantity():
    rows = [Entity(str(n), {"price": {"amount": n + 1, "currency": ("EUR", "USD")[n % 2]}}) for n in range(60)]
    (kind,) = (one.kind for one in infer(rows).schema.classes[""].properties.values())
    assert (kind.names, set(kind.units())) == (("amount", "currency"), {"EUR", "USD"})
    assert kind.apply({"amount": 3, "currency": "USD"}) == Amount(3, "USD")
