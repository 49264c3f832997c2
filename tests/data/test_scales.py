"""The scale of each unit as training entities show it."""

from __future__ import annotations

import math
import random

import pytest

from kbdisk.data.codec import Codec
from kbdisk.data.config import CodecConfig
from kbdisk.data.scales import scaled_schema, without_scales
from kbdisk.entity import Entity, Quantity
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.quantity import Quantity as QuantityKind
from kbdisk.schemas.formula import Formula
from kbdisk.schemas.kinds import Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema, of_one_class

RATES = {"EUR": 1.0, "USD": 1.1, "JPY": 160.0}


def prices(count=300, rates=RATES, spread=0.5):
    draw = random.Random(1)
    units = list(rates)
    return [
        Entity(
            str(n), {"price": Quantity(round(rates[units[n % 3]] * math.exp(draw.gauss(3, spread)), 2), units[n % 3])}
        )
        for n in range(count)
    ]


def kind_of(schema):
    return schema.classes[""].properties["price",].kind


PRICE = of_one_class({("price",): Property(QuantityKind(None, dict.fromkeys(RATES)))})


def test_each_currency_is_learnt_on_its_own_scale_where_its_amounts_say_so():
    scales = kind_of(scaled_schema(PRICE, prices())).scales
    error = 4 * math.sqrt(math.pi / 2) * 0.5 * math.sqrt(2 / 100)  # standard errors of a difference of medians
    assert abs(math.log(scales["EUR"].factor / scales["JPY"].factor / 160)) < error
    assert scales["USD"].factor == scales["EUR"].factor  # which differ by less than chance
    assert scales["EUR"].decimals == 2


def test_units_of_too_few_amounts_are_learnt_together():
    few = [Entity("a", {"price": Quantity(5, "EUR")}), Entity("b", {"price": Quantity(800, "JPY")})]
    assert {scale.factor for scale in kind_of(scaled_schema(PRICE, few)).scales.values()} == {1.0}


def test_what_is_known_of_a_unit_needs_no_amounts():
    schema = of_one_class({("price",): Property(QuantityKind("kg", {"lb": None, "°F": None}))})
    scales = kind_of(scaled_schema(schema, [])).scales
    assert scales["kg"].factor == 1
    assert scales["lb"].factor == 0.45359237


def test_classes_learn_in_one_unit_and_share_it():
    classes = {
        "A": Class("A", {("mass",): Property(QuantityKind("kg", {"g": None}, Number(minimum=0)))}),
        "B": Class("B", {("mass",): Property(QuantityKind("lb", {}, Number(minimum=0)))}),
    }
    entities = [Entity(f"a{n}", {"mass": Quantity(n + 1.0, "kg")}, ("A",)) for n in range(9)]
    entities += [Entity(f"b{n}", {"mass": Quantity(n + 1.0, "lb")}, ("B",)) for n in range(5)]
    schema = scaled_schema(Schema(classes), entities)
    assert schema.leaves(entities[0])["mass", "value"] == 1
    assert schema.leaves(entities[9])["mass", "value"] == 0.45359237
    codec = Codec.fit(schema, entities, CodecConfig(pooling=True))
    assert codec.pools.source("B", ("mass", "value")).class_name == "A"
    assert without_scales(schema) == Schema(classes)


def test_amounts_in_lists_have_their_scales_too():
    schema = of_one_class({("price",): Property(Listed({"": QuantityKind(None, {"EUR": None, "JPY": None})}))})
    entities = [
        Entity(str(n), {"price": [Quantity(1.0 + n % 7, "EUR"), Quantity(100.0 + 100 * (n % 7), "JPY")]})
        for n in range(40)
    ]
    found = scaled_schema(schema, entities)
    scales = found.classes[""].properties["price",].kind.fields[""].scales
    assert scales["EUR"].factor / scales["JPY"].factor == pytest.approx(100, rel=0.1)
    assert (
        found.classes[""].properties["price",].kind.split([Quantity(700.0, "JPY")])[0, "value"] != 700
        or scales["JPY"].factor == 1
    )


def test_what_a_formula_takes_stays_in_the_unit_of_its_class():
    bmi = Property(Number(), formula=Formula.read("mass.value / height ** 2"))
    classes = {
        name: Class(name, {("mass",): Property(QuantityKind(unit, {other: None})), ("height",): Property(Number()), ("bmi",): bmi})
        for name, unit, other in (("A", "kg", "g"), ("B", "lb", "oz"))
    }  # fmt: skip
    entities = [Entity(f"{name}{n}", {"mass": Quantity(n + 1.0, unit), "height": 2.0}, (name,)) for n in range(9) for name, unit in (("A", "kg"), ("B", "lb"))]  # fmt: skip
    found = scaled_schema(Schema(classes), entities)
    assert found.leaves(entities[1])["mass", "value"] == 1
