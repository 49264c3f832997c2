"""What says how values are meant goes with those of a new part, where all others say the same."""

import pytest
from models import tiny_run

import kbdisk
from kbdisk.completion.siblings import FEW, Siblings
from kbdisk.entity import Entity, Filled, Link
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class

AMOUNT, CURRENCY = ("price", "amount"), ("price", "currency")
SCHEMA = of_one_class({AMOUNT: Property(Number()), CURRENCY: Property(Category(), "ignore")})


def beside(parts, tree=None, filled=(AMOUNT,), schema=SCHEMA, made=None, **choices):
    """What is filled of an entity among others with such prices."""
    siblings = Siblings(schema, **choices)
    for part in parts:
        siblings.see("", {"price": part})
    entity = Entity("new", tree or {}, made=made or {})
    found = siblings.beside("", entity, {path: Filled(1.5) for path in filled})
    return {path: one.value for path, one in found.items()}


EUROS = [{"@type": "Price", "amount": n, "currency": "EUR", "note": "x"} for n in range(FEW)]


def test_a_new_part_has_what_all_others_have_in_their_order():
    found = beside(EUROS)
    assert list(found.items()) == [(("price", "@type"), "Price"), (AMOUNT, 1.5), (CURRENCY, "EUR")]
    assert beside(EUROS, {"price": {"amount": None, "currency": None}}) == found
    unit = Link("http://qudt.org/vocab/unit/GM")
    assert beside([{"amount": 1, "unit": unit}] * FEW) == {AMOUNT: 1.5, ("price", "unit"): unit}


@pytest.mark.parametrize(
    "parts",
    [
        [*EUROS, {"amount": 9, "currency": "USD"}],
        [*EUROS, {"amount": 9}],
        EUROS[1:],
        [{"amount": n, "source": "census"} for n in range(FEW)],  # what a value is from is not what it is in
        [{"amount": n, "unit": 7} for n in range(FEW)],
        [{"amount": n, "currency": ["EUR"]} for n in range(FEW)],
    ],
)
def test_what_not_all_have_or_says_nothing_of_their_meaning_is_left_out(parts):
    assert CURRENCY not in beside(parts)
    assert ("price", "source") not in beside(parts)


def test_parts_without_a_value_count_for_nothing():
    assert beside([*EUROS, {"amount": None}, {"currency": None, "amount": None}, None])[CURRENCY] == "EUR"


def test_what_is_given_and_what_was_asked_for_decide():
    assert beside(EUROS, {"price": {"note": "odd"}}) == {AMOUNT: 1.5}
    assert beside(EUROS, only=(AMOUNT,)) == {AMOUNT: 1.5}
    assert CURRENCY in beside(EUROS, only=(("price",),))
    assert beside(EUROS, filled=(("size",),)) == {("size",): 1.5}
    assert beside(EUROS, made={("price", "note"): "made"}) == {AMOUNT: 1.5}  # of what a writer took apart


@pytest.mark.parametrize("role", ["given", "value"])
def test_what_the_model_has_a_say_in_is_not_shared(role):
    told = of_one_class({AMOUNT: Property(Number()), CURRENCY: Property(Category(), role)})
    assert CURRENCY not in beside(EUROS, schema=told)


def test_a_word_of_too_few_parts_is_left_out_as_unsure():
    assert CURRENCY in beside(EUROS, least=(FEW + 1) / (FEW + 2))
    assert CURRENCY not in beside(EUROS, least=0.9)
    assert CURRENCY in beside(EUROS * 2, least=0.9)


@pytest.mark.parametrize(
    "key",
    ["unit_code", "unitText", "unit of measure", "priceCurrency", "currency_id", "@type", "http://schema.org/unitCode"],
)
def test_keys_that_say_what_is_meant(key):
    assert ("price", key) in beside([{"amount": n, key: "X"} for n in range(FEW)])


@pytest.mark.parametrize("key", ["unitPrice", "community", "units_sold", "opportunity", "typeface", "concurrency"])
def test_keys_that_only_sound_like_it(key):
    assert ("price", key) not in beside([{"amount": n, key: "X"} for n in range(FEW)])


def test_parts_of_lists_are_told_from_each_other_by_their_list():
    schema = of_one_class({("offers", -1, "price"): Property(Number())})
    siblings = Siblings(schema)
    for n in range(FEW):
        siblings.see("", {"offers": [{"price": n, "currency": "EUR"}], "other": [{"price": n, "currency": "USD"}]})
    filled = {("offers", 0, "price"): Filled(1), ("offers", 1, "price"): Filled(2)}
    found = siblings.beside("", Entity("new", {}), filled)
    assert {path: one.value for path, one in found.items()} == {
        ("offers", 0, "price"): 1, ("offers", 0, "currency"): "EUR", ("offers", 1, "price"): 2, ("offers", 1, "currency"): "EUR",
    }  # fmt: skip


def test_a_price_that_is_filled_in_has_its_currency():
    rows = [
        {"id": str(n), "size": n % 9, "price": {"amount": 2 * (n % 9), "net": n % 9 / 2, "currency": "EUR"}}
        for n in range(80)
    ]
    rows[3] |= {"price": None}
    del rows[5]["price"]
    model = kbdisk.train(rows, run=tiny_run(), device="cpu")
    told = {one.entity.id: one for one in model.complete(rows, fill="all")}
    for id in ("3", "5"):
        assert told[id].tree()["price"].keys() == {"amount", "net", "currency"}
        assert told[id].tree()["price"]["currency"] == "EUR"
        assert told[id].filled[CURRENCY].belief.estimate == "shared"
    assert sum(CURRENCY in one.filled for one in told.values()) == 2
