"""What is unlike what a model learnt from is found, each way with its count; what it learnt from is like itself."""

from __future__ import annotations

import json
import math
import random
import warnings
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import phones

import kbdisk
from kbdisk.data import Codec, CodecConfig
from kbdisk.data.parse import read
from kbdisk.entity import Entity, Link
from kbdisk.evaluation import drift as drifting
from kbdisk.evaluation.drift import LEVEL, MAX_EXAMPLES, MAX_FALSE_ALARMS, Drift, level_of
from kbdisk.schemas.infer import infer
from kbdisk.schemas.kinds import KINDS


def found(drift: Drift) -> dict[tuple[str, str], int]:
    return {(row.path, row.what): row.count for row in drift.rows()}


def a_brand(tree: dict[str, Any]) -> None:
    tree["brand"] = "No Such Brand"


def a_battery(tree: dict[str, Any]) -> None:
    tree["battery"] = {"value": 10**7, "unit": "mAh"}


def a_year(tree: dict[str, Any]) -> None:
    tree["launch"] = {"year": 2099}


def a_column(tree: dict[str, Any]) -> None:
    tree["colour"] = {"name": "black", "shade": 3}


def a_blank_column(tree: dict[str, Any]) -> None:
    tree["price"] = None


def a_member(tree: dict[str, Any]) -> None:
    tree["networks"] = ["GSM", "6G", "7G"]


def a_misfit(tree: dict[str, Any]) -> None:
    tree["camera"] = {"megapixels": "many"}


PLANTED = {  # what is done to an entity, and what it is found as
    a_brand: ("brand", "unseen label", 1),
    a_battery: ("battery.value", "outside range", 1),
    a_year: ("launch.year", "outside range", 1),
    a_column: ("colour", "unknown property", 1),
    a_blank_column: ("price", "unknown property", 1),
    a_member: ("networks", "unseen label", 2),
    a_misfit: ("camera.megapixels", "misfit", 1),
}


@cache
def learnt() -> tuple[Codec, list[Entity]]:
    """A codec, and the entities that it was fitted to."""
    schema, entities = phones()
    return Codec.fit(schema, entities), entities


@settings(max_examples=30)
@given(planted=st.lists(st.sets(st.sampled_from(list(PLANTED))), min_size=1, max_size=10))
def test_whatever_is_planted_is_found_with_its_count_and_nothing_else(planted):
    codec, entities = learnt()
    entities = [replace(one, tree=deepcopy(one.tree)) for one in entities[: len(planted) + 2]]
    for entity, ways in zip(entities, planted, strict=False):
        for plant in ways:
            plant(entity.tree)
    expected = Counter()
    for ways in planted:
        for plant in ways:
            path, what, count = PLANTED[plant]
            expected[path, what] += count
    drift = Drift.of(codec, entities)
    assert found(drift) == expected
    assert bool(drift) == bool(expected)
    assert all(row.examples[0].id in {one.id for one in entities} for row in drift.rows())
    assert all(0 < len(row.examples) <= MAX_EXAMPLES and row.count <= drift.total(row) for row in drift.rows())


def test_entities_of_an_unseen_class_are_counted_by_their_class():
    schema = kbdisk.Schema.read("kbdisk: 1\nclasses: {Phone: {properties: {x: number}}}\n")
    codec = Codec.fit(schema, [Entity(f"{n}", {"x": n}, ("Phone",)) for n in range(9)])
    more = [Entity("a", {"x": 1}, ("Tablet",)), Entity("b", {"y": 1}, ("Tablet",)), Entity("c", {"x": 1}, ("Phone",))]
    [row] = Drift.of(codec, more).to_json()
    assert (row["class"], row["path"], row["what"], row["count"], row["of"]) == ("Tablet", "", "unseen class", 2, 3)
    assert [one["id"] for one in row["examples"]] == ["a", "b"]
    assert not Drift.of(codec, more, classes=["Phone"])


def test_a_renamed_property_is_recognised_by_what_is_absent():
    codec, entities = learnt()
    renamed = [replace(one, tree={k.replace("brand", "brnad"): v for k, v in one.tree.items()}) for one in entities]
    [row] = Drift.of(codec, renamed).rows()
    assert (row.path, row.what, row.count, row.learnt) == (
        "brnad",
        "unknown property",
        len(entities),
        {"near": "brand"},
    )


def test_links_units_and_longer_lists_are_compared_too():
    trees = [
        {"maker": Link(f"m{n % 3}"), "mass": f"{n + 10} kg", "parts": [{"x": n}, {"x": n + 1}], "end": "2001-02-03"}
        for n in range(30)
    ]
    entities = [Entity(f"e{n}", tree) for n, tree in enumerate(trees)]
    schema = kbdisk.Schema.read(
        "kbdisk: 1\nclasses: {'': {properties: {maker: link, mass: {kind: quantity, units: {kg: 1, t: 1000}},"
        " parts: {kind: list, of: {x: number}}, end: date}}}\n"
    )
    codec = Codec.fit(schema, entities)
    assert not Drift.of(codec, entities)
    odd = [
        Entity("a", {"maker": Link("m9"), "mass": "12 t", "parts": [{"x": n} for n in range(4)], "end": "2950"}),
        Entity("b", {"maker": Link("m1"), "mass": "12 kg", "parts": [], "end": "2001-02-04"}),
    ]
    told = found(Drift.of(codec, odd))
    assert told.pop(("parts[]", "outside range")) == 1
    assert told.pop(("parts.count", "outside range")) == 2  # all had two
    assert told.pop(("mass.value", "outside range")) == 1  # 12 t are 12,000 kg
    assert told == {("maker", "unseen label"): 1, ("mass.unit", "unseen label"): 1, ("end.year", "outside range"): 1}


@pytest.mark.parametrize("draw", ["gauss", "expovariate", "uniform"])
def test_more_of_the_same_distribution_is_not_outside_of_its_range(draw):
    dice = random.Random(1)
    numbers = {
        "gauss": lambda: dice.gauss(50, 9),
        "expovariate": lambda: dice.expovariate(1),
        "uniform": lambda: dice.uniform(-1, 3),
    }[draw]
    several = [Entity(f"{n}", {"x": numbers()}) for n in range(3000)]
    codec = Codec.fit(kbdisk.Schema.read("kbdisk: 1\nclasses: {'': {properties: {x: number}}}\n"), several[:200])
    drift = Drift.of(codec, several)
    assert sum(row.count for row in drift.rows()) <= 3
    far = [Entity("far", {"x": 1000 * max(abs(one.tree["x"]) for one in several)}), Entity("huge", {"x": 10**400})]
    assert sum(row.count for row in Drift.of(codec, far).rows()) == 2


def test_what_the_schema_leaves_out_in_training_is_no_news_later():
    entities = [Entity(f"{n}", {"x": n, "note": {"by": f"somebody {n}"}}) for n in range(20)]
    schema = kbdisk.Schema.read("kbdisk: 1\nclasses: {'': {properties: {x: number}}}\n")
    codec = Codec.fit(schema, entities[:15])
    again = Codec.from_json(json.loads(json.dumps(codec.to_json())), schema)
    assert not Drift.of(again, entities)
    held_out = [Entity("h", {"x": 1, "memo": "once"})]
    assert found(Drift.of(again, held_out)) == {("memo", "unknown property"): 1}
    assert not Drift.of(again.with_held_out(held_out), held_out)


def test_a_new_name_where_every_value_is_one_is_no_news():
    entities = [Entity(f"{n}", {"code": f"A{n}", "x": n, "kind": "ab"[n % 2]}) for n in range(40)]
    schema = kbdisk.Schema.read("kbdisk: 1\nclasses: {'': {properties: {code: category, x: number, kind: category}}}\n")
    codec = Codec.fit(schema, entities[:30])
    assert not Drift.of(codec, entities)
    assert found(Drift.of(codec, [Entity("n", {"code": "new", "kind": "c"})])) == {("kind", "unseen label"): 1}


def test_a_label_that_only_the_schema_tells_is_unseen():
    schema = kbdisk.Schema.read(
        "kbdisk: 1\nclasses: {'': {properties: {size: {kind: category, values: [S, M, L], closed: true}, new: boolean}}}\n"
    )
    codec = Codec.fit(schema, [Entity(f"{n}", {"size": "SM"[n % 2], "new": True}) for n in range(9)])
    told = found(Drift.of(codec, [Entity("a", {"size": "L", "new": False}), Entity("b", {"size": "S", "new": True})]))
    assert told == {("size", "unseen label"): 1, ("new", "unseen label"): 1}


def test_a_property_that_no_training_entity_had_is_unknown():
    schema = kbdisk.Schema.read("kbdisk: 1\nclasses: {'': {properties: {x: number, day: date}}}\n")
    codec = Codec.fit(schema, [Entity(f"{n}", {"x": n}) for n in range(9)])
    assert found(Drift.of(codec, [Entity("a", {"day": "2020-01-02"})])) == {("day", "unknown property"): 1}


def test_memory_is_bounded_whatever_the_keys_are(monkeypatch):
    monkeypatch.setattr(drifting, "MAX_ROWS", 5)
    codec, _ = learnt()
    drift = Drift.of(codec, [Entity(f"{n}", {f"key {n}": n}) for n in range(50)])
    assert len(drift.rows()) == 6
    assert sum(row.count for row in drift.rows()) == 50
    assert drift.rows()[0].path == drifting.OTHER_PROPERTIES


def test_a_kind_of_leaf_that_compares_nothing_is_left_alone(monkeypatch):
    from counts import COUNT, Count

    from kbdisk.schemas.property import Property
    from kbdisk.schemas.schema import of_one_class

    monkeypatch.setitem(KINDS, "count", COUNT)
    schema = of_one_class({("n",): Property(Count())})
    codec = Codec.fit(schema, [Entity(f"{n}", {"n": n}) for n in range(5)], CodecConfig())
    assert not Drift.of(codec, [Entity("a", {"n": 30})])


def test_inferred_schemas_find_no_drift_in_what_they_are_inferred_from():
    entities = list(kbdisk.load(str(Path(__file__).parents[2] / "examples/phones.jsonl")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        codec = Codec.fit(infer(entities).schema, entities)
    assert Drift.of(codec, entities).to_json() == []


# ---------------------------------------------------------------- entities

WORLD = (
    "kbdisk: 1\nclasses: {Thing: {properties: {size: number, wait: number, price: number, year: {kind: number, integer: true},"
    " maker: category, tags: {kind: set, of: category}}}}\n"
)


def drawn(count: int, seed: int) -> list[Entity]:
    """Entities of one distribution: numbers with and without tails, skewed and whole ones, labels of which some are rare."""
    dice = random.Random(seed)
    return [
        Entity(
            f"{seed}-{n}",
            {
                "size": dice.gauss(50, 9),
                "wait": dice.expovariate(1),
                "price": math.exp(dice.gauss(5, 2)),
                "year": dice.randint(1990, 2012),
                "maker": f"m{min(int(dice.expovariate(0.2)), 30)}",
                "tags": dice.sample("abcde", 2),
            },
            ("Thing",),
        )
        for n in range(count)
    ]


@cache
def drawn_codec(count: int) -> Codec:
    return Codec.fit(kbdisk.Schema.read(WORLD), drawn(count, 0))


def unlike(drift: Drift, entity: Entity) -> tuple[str, ...]:
    return drift.unlike(entity, read(drift.schema, entity))


@pytest.mark.parametrize("count", [60, 600])
def test_entities_of_the_same_distribution_are_hardly_ever_unlike_it(count):
    codec = drawn_codec(count)
    drift = Drift(codec.schema, codec, level_of(codec.schema, codec, drawn(200, 1)))
    others = drawn(2000, 2)
    share = sum(bool(unlike(drift, entity)) for entity in others) / len(others)
    assert share <= MAX_FALSE_ALARMS + 3 * math.sqrt(MAX_FALSE_ALARMS / 200)  # a level of 200 entities is no surer
    assert not any(unlike(drift, entity) for entity in drawn(count, 0))


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("year", 2020, "year above 2012"),
        ("year", 1901, "year below 1990"),
        ("size", 200.0, "size above "),
        ("price", 1e9, "price above "),
        ("tags", ["a", "z"], "unseen tags"),
    ],
)
@settings(max_examples=10)
@given(number=st.integers(0, 99))
def test_a_value_beyond_all_of_training_makes_an_entity_unlike(key, value, reason, number):
    codec = drawn_codec(600)
    drift = Drift(codec.schema, codec, level_of(codec.schema, codec, drawn(200, 1)))
    entity = drawn(100, 0)[number]
    [found] = unlike(drift, replace(entity, tree={**entity.tree, key: value}))
    assert found.startswith(reason)


def test_an_unseen_class_makes_an_entity_unlike_and_the_level_of_a_model_counts():
    codec = drawn_codec(600)
    drift = Drift(codec.schema, codec)
    assert unlike(drift, Entity("a", {"size": 50.0}, ("Tablet",))) == ("unseen class Tablet",)
    entity = Entity("b", {"year": 2020}, ("Thing",))
    assert unlike(drift, entity) == ("year above 2012",)
    assert not unlike(Drift(codec.schema, codec, 1e-30), entity)


def test_further_beyond_the_training_values_is_more_surprising_at_either_end():
    codecs = {slot.path[0]: slot.codec for slot in drawn_codec(600).slots}
    for name in ("size", "wait", "price", "year"):
        codec = codecs[name]
        least, greatest = codec.training_range
        spread = greatest - least
        beyond = [codec.p_values(greatest + spread * share)[0] for share in (0.001, 0.1, 1.0, 10.0)]
        assert 1 > beyond[0] > beyond[1] > beyond[2] > beyond[3] >= 0
        assert codec.p_values(least) == codec.p_values(greatest) == (1.0,)
        assert codec.p_values(least - spread)[0] <= codec.p_values(least - spread / 100)[0] <= 2 / 601


def test_the_level_leaves_out_as_few_held_out_entities_as_it_says():
    codec = drawn_codec(600)
    held_out = [
        replace(one, tree={**one.tree, "year": 2013 + n}) if n < 30 else one for n, one in enumerate(drawn(200, 3))
    ]
    level = level_of(codec.schema, codec, held_out)
    assert level < LEVEL
    drift = Drift(codec.schema, codec, level)
    assert sum(bool(unlike(drift, entity)) for entity in held_out) <= MAX_FALSE_ALARMS * len(held_out)
    assert level_of(codec.schema, codec, []) == LEVEL


def test_a_class_that_no_training_entity_had_beside_its_own_makes_an_entity_unlike():
    schema = kbdisk.Schema.read("kbdisk: 1\nclasses: {Phone: {properties: {x: number}}}\n")
    entities = [Entity(f"{n}", {"x": n}, ("Phone", ("Old", "New")[n % 2])) for n in range(300)]
    codec = Codec.fit(schema, entities, CodecConfig(pooling=True))
    drift = Drift(schema, codec)
    assert not unlike(drift, Entity("a", {"x": 5}, ("Phone", "Old")))
    assert unlike(drift, Entity("b", {"x": 5}, ("Phone", "Folding"))) == ("unseen class Folding",)
