"""Entities that are drawn: which properties they have, with what they begin, and that their values are values."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from dataclasses import replace

import pytest
import torch
from models import tiny, tiny_run
from worlds import phones, world

import kbdisk
from kbdisk.api.model import Model
from kbdisk.completion import complete
from kbdisk.data import Codec
from kbdisk.data.fit import MAX_PATTERN_ENTITIES, PatternSample
from kbdisk.entity import Date, Entity, Quantity
from kbdisk.errors import ConfigError, KBDiskWarning, SchemaError
from kbdisk.evaluation.evaluate import Evaluation, Scope
from kbdisk.model.masking import Hiding
from kbdisk.sampling import drop_repeated_keys, maps, parse_given, sample
from kbdisk.schemas.schema import Schema
from kbdisk.training.train import train

FLAT = Schema.read("kbdisk: 1\nclasses:\n  T:\n    properties: {sort: category, a: number, b: number}\n")
NESTED = Schema.read(
    """
kbdisk: 1
classes:
  "":
    id: id
    properties:
      id: {kind: text, role: ignore, unique: true}
      size: number
      parts:
        kind: list
        of:
          name: category
          tools: {kind: list, of: {weight: number}}
      prices: {kind: map, key: category, of: number}
"""
)


@pytest.fixture(scope="module")
def made():
    """A model of phones with lists, quantities, dates and sets, and of their makers."""
    entities = phones(60)
    return tiny(kbdisk.infer(entities).schema, entities)


@pytest.fixture(scope="module")
def flat():
    """Two sorts of entities: x has an a, y has a b, and a third of all has both."""
    trees = [{"sort": "xyz"[i % 3], "a": i % 7, "b": i % 5} for i in range(90)]
    kept = {"x": ("sort", "a"), "y": ("sort", "b"), "z": ("sort", "a", "b")}
    return tiny(
        FLAT, [Entity(str(i), {key: tree[key] for key in kept[tree["sort"]]}, ("T",)) for i, tree in enumerate(trees)]
    )


def having(entities) -> Counter:
    return Counter(frozenset(one.tree) for one in entities)


# ---------------------------------------------------------------- which properties


def test_patterns_are_those_of_training_entities_and_as_frequent():
    entities = [Entity(str(i), {"a": 1} if i % 4 else {"a": 1, "b": 2}, ("T",)) for i in range(40)]
    codec = Codec.fit(FLAT, entities)
    a, b = codec.slot("T", ("a",)), codec.slot("T", ("b",))
    assert codec.patterns == {"T": {(a,): 30, tuple(sorted((a, b))): 10}}


def test_patterns_survive_the_codec_as_plain_data(made):
    again = Codec.from_json(made.codec.to_json(), made.schema, made.codec.tokenizer)
    assert again.patterns == made.codec.patterns


def test_of_many_entities_evenly_spread_patterns_are_kept_and_every_class_has_one():
    met = PatternSample()
    for number in range(5 * MAX_PATTERN_ENTITIES):
        met.add("A", [("a",)] if number % 2 else [("b",)])
    met.add("B", [("c",)])
    assert MAX_PATTERN_ENTITIES <= len(met.kept) < 2 * MAX_PATTERN_ENTITIES
    assert met.first["B"] == (("c",),)


def test_drawn_entities_have_the_properties_that_training_entities_have(flat):
    found = having(sample(flat, 300))
    assert set(found) == {frozenset({"sort", "a"}), frozenset({"sort", "b"}), frozenset({"sort", "a", "b"})}
    assert min(found.values()) > 60


def test_what_is_given_is_had_by_all_and_with_it_what_goes_along(flat):
    found = list(sample(flat, 60, {"a": 3}))
    assert {one.tree["a"] for one in found} == {3}
    assert set(having(found)) == {frozenset({"sort", "a"}), frozenset({"sort", "a", "b"})}


def test_classes_are_as_frequent_as_in_training(made):
    drawn = Counter(one.classes for one in sample(made, 400))
    assert drawn["Phone",] > 340
    assert 3 <= drawn["Maker",] < 60


def test_a_class_can_be_asked_for(made):
    drawn = list(sample(made, 20, class_name="Maker"))
    assert {one.classes for one in drawn} == {("Maker",)}
    assert {key for one in drawn for key in one.tree} <= {"name", "founded", "country"}


def test_what_is_given_tells_the_class(made):
    assert {one.classes for one in sample(made, 20, {"country": "FI"})} == {("Maker",)}


def test_free_text_is_drawn_only_where_it_is_wanted():
    entities = [Entity(str(i), {"a": i, "note": f"seen {i} times, as it was said"}) for i in range(40)]
    trained = tiny(Schema.read("kbdisk: 1\nclasses:\n  '':\n    properties: {a: number, note: text}\n"), entities)
    assert set(having(sample(trained, 10))) == {frozenset({"a"})}
    assert set(having(sample(trained, 10, text=True))) == {frozenset({"a", "note"})}


# ---------------------------------------------------------------- values


def test_what_is_drawn_fits_the_schema(made):
    for one in sample(made, 200, text=True):
        assert made.schema.check(one) == []


def test_values_are_whole(made):
    drawn = [one.tree for one in sample(made, 100, class_name="Phone")]
    assert all(
        one["weight"].value is not None and one["weight"].unit in ("g", "oz") for one in drawn if "weight" in one
    )
    assert all(type(one["launch"]) is Date and one["launch"].day for one in drawn if "launch" in one)


def test_no_number_is_beyond_all_that_training_had(flat):
    """After five steps of training beliefs are wider than that."""
    drawn = [one.tree for one in sample(flat, 600, seed=3)]
    for key, most in (("a", 6), ("b", 4)):
        own = [tree[key] for tree in drawn if key in tree]
        assert (min(own), max(own)) == (0, most)


@pytest.mark.parametrize("ordered", [0.0, 0.5])
def test_what_was_learnt_in_the_schema_s_order_is_drawn_in_it(ordered, monkeypatch):
    schema = Schema.read("kbdisk: 1\nclasses:\n  '':\n    properties: {b: number, c: category, a: number}\n")
    entities = [Entity(str(i), {"a": i, "b": -i, "c": "xyz"[i % 3]}) for i in range(40)]
    run = replace(tiny_run(), hiding=Hiding(ordered=ordered))
    trained = train(schema, entities, run, torch.device("cpu"), lambda progress: None)
    turns = []

    def watched(batch, visible, asked, memo=None):
        turns.append({trained.codec.slots[n].path[0] for n in batch.slot[asked].tolist()})
        return forward(batch, visible, asked, memo)

    forward = trained.network.forward
    monkeypatch.setattr(trained.network, "forward", watched)
    assert len(list(sample(trained, 30))) == 30
    assert turns == ([{"b"}, {"c"}, {"a"}] if ordered else [{"a", "b", "c"}] * 3)


@pytest.mark.slow
def test_what_is_given_after_what_is_drawn_is_warned_of_where_the_model_knows_one_order_alone():
    entities = [Entity(str(i), {"a": i, "b": -i, "sort": "xyz"[i % 3]}, ("T",)) for i in range(40)]
    run = replace(tiny_run(), hiding=Hiding(ordered=1.0))
    trained = train(FLAT, entities, run, torch.device("cpu"), lambda progress: None)
    told = r"and b comes after what is to be drawn\. Put it first in the schema"
    with pytest.warns(KBDiskWarning, match=told):
        drawn = list(sample(trained, 5, {"b": 3, "sort": "x"}))
    assert {one.tree["b"] for one in drawn} == {3}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(sample(trained, 5, {"sort": "x"}))
        list(sample(trained, 5))
    with pytest.warns(KBDiskWarning, match=r"not to complete any"):
        list(complete(trained, entities[:2]))
    with pytest.warns(KBDiskWarning, match=r"what comes after a value is not given with it"):
        exam = Evaluation.of(trained, entities[:5], None, Scope())
    place = exam.tokens.layout.order
    for one, visible in exam.batches():
        for entity in range(one.batch.size):
            own = one.batch.entity == entity
            hidden, seen = (place[one.batch.slot[own & which]].tolist() for which in (one.hidden, visible))
            assert sorted(seen) == list(range(min(hidden)))


def test_texts_come_last_and_are_not_seen_where_they_are_not_drawn(monkeypatch):
    told = "{t: text, parts: {kind: list, of: {size: number}}, a: number}"
    schema = Schema.read(f"kbdisk: 1\nclasses:\n  '':\n    properties: {told}\n")
    trees = [{"t": f"it is {i}", "parts": [{"size": i}] * (i % 3), "a": i} for i in range(40)]
    run = replace(tiny_run(), hiding=Hiding(ordered=1.0))
    known = [Entity(str(i), tree) for i, tree in enumerate(trees)]
    trained = train(schema, known, run, torch.device("cpu"), lambda progress: None)
    turns = []

    def watched(batch, visible, asked, memo=None):
        turns.append({trained.codec.slots[n].path[-1] for n in batch.slot[asked].tolist()})
        return forward(batch, visible, asked, memo)

    forward = trained.network.forward
    monkeypatch.setattr(trained.network, "forward", watched)
    list(sample(trained, 20, text=True))
    assert turns == [{"count"}, {"a"}, {"size"}, {"size"}, {"t"}]


@pytest.mark.slow
def test_how_likely_an_entity_is_is_told_in_the_order_that_was_learnt():
    entities = [Entity(str(i), {"a": i, "b": -i, "sort": "xyz"[i % 3]}, ("T",)) for i in range(40)]
    run = replace(tiny_run(members=2), hiding=Hiding(ordered=1.0))
    trained = train(FLAT, entities, run, torch.device("cpu"), lambda progress: None)
    found = Model(trained).log_prob(entities[:4])
    tokens = trained.encode(entities[:4])
    batch, place = tokens.batch(torch.arange(4)), tokens.layout.order
    several = []
    for one in trained.members:
        total = torch.zeros(4, dtype=torch.double)
        for turn in range(3):
            asked = place[batch.slot] == turn
            with torch.no_grad():
                logs = one.network(batch, place[batch.slot] < turn, asked).log_prob(batch)
            total.index_add_(0, batch.entity[asked], logs.double()[asked])
        several.append(total)
    assert torch.allclose(torch.from_numpy(found), torch.stack(several).logsumexp(0) - math.log(2))


def test_each_of_several_networks_draws_its_share(monkeypatch):
    entities = [Entity(str(i), {"a": i, "b": -i, "sort": "xyz"[i % 3]}, ("T",)) for i in range(60)]
    trained = tiny(FLAT, entities, members=3)
    drawn = [0, 0, 0]

    def counting(number, forward):
        def counted(batch, visible, asked, memo=None):
            drawn[number] += int(asked.sum())
            return forward(batch, visible, asked, memo)

        return counted

    for number, one in enumerate(trained.members):
        monkeypatch.setattr(one.network, "forward", counting(number, one.network.forward))
    assert len(list(sample(trained, 30))) == 30
    assert drawn == [30, 30, 30]
    monkeypatch.setattr("kbdisk.model.diffusion.MAX_ENTITIES_AT_ONCE", 7)
    assert len(list(sample(trained, 45))) == 45  # in parts of 5
    assert drawn == [75, 75, 75]
    assert len(list(sample(trained, 1))) == 1
    assert sorted(drawn) == [75, 75, 78]


def test_lists_have_as_many_places_as_are_drawn_and_each_its_fields(made):
    lists = [one.tree["cameras"] for one in sample(made, 200, class_name="Phone") if "cameras" in one.tree]
    assert {len(one) for one in lists} == {0, 1, 2, 3}
    assert all(set(part) == {"aperture", "kind"} for one in lists for part in one)


def nested(number: int) -> Entity:
    parts = [
        {"name": "pq"[place], "tools": [{"weight": number + place}] * (number % 3)} for place in range(number % 2 + 1)
    ]
    return Entity(
        f"n{number}", {"id": f"n{number}", "size": number, "parts": parts, "prices": {"EUR": number, "USD": 2}}
    )


@pytest.mark.slow
def test_lists_in_lists_and_maps_are_drawn_to_the_end():
    drawn = list(sample(tiny(NESTED, [nested(number) for number in range(48)]), 60))
    for one in drawn:
        assert NESTED.check(one) == []
        assert all(part["name"] for part in one.tree["parts"])
        assert set(one.tree["prices"]) <= {"EUR", "USD"}
    assert {len(part["tools"]) for one in drawn for part in one.tree["parts"] if "tools" in part} == {0, 1, 2}


def test_what_has_a_formula_is_what_that_gives_of_what_was_drawn():
    schema = Schema.read(
        "kbdisk: 1\nclasses:\n  T:\n    properties:\n      a: {kind: number, decimals: 2}\n      b: {kind: number}\n"
        "      double: {kind: quantity, unit: m, decimals: 2, formula: 2 * a}\n"
        "      four: {kind: number, decimals: 2, formula: 2 * double.value}\n"
    )
    trees = [{"a": i / 4, "b": i % 5, "double": i / 2, "four": float(i)} for i in range(60)]
    for i, tree in enumerate(trees):  # some do not have what others are computed of, some not what is computed
        tree.pop(["a", "double", "four", ""][i % 4], None)
    model = tiny(schema, [Entity(str(i), tree, ("T",)) for i, tree in enumerate(trees)])
    drawn = [one.tree for one in sample(model, 80, seed=2)]
    whole = [tree for tree in drawn if tree.keys() >= {"a", "double", "four"}]
    assert whole
    for tree in whole:
        assert tree["double"] == Quantity(round(2 * tree["a"], 2), "m")
        assert tree["four"] == round(2 * tree["double"].value, 2)
    assert any("double" in tree and "a" not in tree for tree in drawn)  # drawn, as it is not to be computed
    assert any("a" in tree and "double" not in tree for tree in drawn)
    for one in sample(model, 5, {"double": 3.0}, seed=2):
        assert one.tree["double"] == Quantity(3.0, "m")


def test_ids_stand_where_the_schema_has_them():
    drawn = list(sample(tiny(NESTED, [nested(number) for number in range(24)]), 3))
    assert [one.id for one in drawn] == [one.tree["id"] for one in drawn] == ["new-1", "new-2", "new-3"]


def test_entries_of_a_map_have_keys_of_their_own():
    leaves = {
        ("m", "count"): 3,
        ("m", 0, "key"): "a",
        ("m", 0, "v"): 1,
        ("m", 1, "key"): "a",
        ("m", 1, "v"): 2,
        ("m", 2, "v"): 3,
    }
    drop_repeated_keys(leaves, ("m",))
    assert leaves == {("m", "count"): 1, ("m", 0, "key"): "a", ("m", 0, "v"): 1}


def test_maps_are_found_where_they_are_and_nowhere_else():
    found = NESTED.classes[""]
    whole = {("size",): 1, ("parts", "count"): 1, ("parts", 0, "name"): "p", ("prices", "count"): 1}
    assert maps(found, whole) == {("prices",)}
    assert maps(found, {("size",): 1}) == set()


def test_links_lead_to_entities_that_there_are():
    entities = world() * 3
    entities = [Entity(f"{one.id}{i // 8 or ''}", one.tree, one.classes, one.label) for i, one in enumerate(entities)]
    trained = tiny(kbdisk.infer(entities).schema, entities)
    ids = {one.id for one in entities}
    drawn = list(sample(trained, 40))
    assert {one.tree["capital"].id for one in drawn if "capital" in one.tree} <= ids


# ---------------------------------------------------------------- the same again, and how many


def test_the_same_seed_draws_the_same_and_another_others(made):
    assert list(sample(made, 20, seed=5)) == list(sample(made, 20, seed=5))
    assert list(sample(made, 20, seed=5)) != list(sample(made, 20, seed=6))


@pytest.mark.parametrize("leap", [2, 100])
def test_several_properties_at_a_time_are_as_many(made, leap):
    for one in sample(made, 40, leap=leap):
        assert made.schema.check(one) == []


def test_any_number_is_drawn_and_told_of(made, monkeypatch):
    monkeypatch.setattr("kbdisk.model.diffusion.MAX_ENTITIES_AT_ONCE", 128)
    told = []
    assert list(sample(made, 0)) == []
    found = list(sample(made, 300, watch=lambda done, of: told.append((done, of))))
    assert [one.id for one in found] == [f"new-{i + 1}" for i in range(300)]
    assert told == [(100, 300), (200, 300), (300, 300)]


def test_nothing_is_left_to_draw_where_all_is_given(flat):
    [one] = sample(flat, 1, {"sort": "z", "a": 1, "b": 2})
    assert one.tree == {"sort": "z", "a": 1, "b": 2}


def test_what_no_training_entity_had_together_is_given_all_the_same():
    entities = [Entity(str(i), {"a": i} if i % 2 else {"b": i}, ("T",)) for i in range(40)]
    assert {frozenset(one.tree) for one in sample(tiny(FLAT, entities), 10, {"a": 1, "b": 2})} == {frozenset("ab")}


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (
            {"oem": "Nokia", "wieght": 3},
            "--given wieght: expected a property that the model knows. Did you mean 'weight'?",
        ),
        ({"launch.year": "soon"}, "--given launch.year: expected a number, got 'soon'."),
        ({"body.height": "tall"}, "--given body.height: expected a number, got 'tall'."),
    ],
)
def test_what_cannot_be_given_is_told(made, given, complaint):
    with pytest.raises(SchemaError) as error:
        sample(made, 1, given)
    assert str(error.value) == complaint


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            {"class_name": "Phoen"},
            "--class: the model has no class 'Phoen'; its classes are Phone, Maker. Did you mean 'Phone'?",
        ),
        ({"leap": 0}, "--leap: expected at least 1, got 0."),
        (
            {"given": {"a[": 1}},
            "--given: expected a path such as launch.year, prizes[0].share or \"odd (name)\", got 'a['.",
        ),
    ],
)
def test_wrong_options_are_told(made, options, complaint):
    with pytest.raises(ConfigError) as error:
        sample(made, 1, **options)
    assert str(error.value) == complaint


def test_a_command_line_spells_labels_numbers_and_truths(made):
    given = {"oem": "Nokia", "body.folds": "true", "launch.year": "2005", "weight": "150 g", "body.height": "1.5e2"}
    assert parse_given(made, given.items()) == {
        ("oem",): "Nokia",
        ("body", "folds"): True,
        ("launch", "year"): 2005,
        ("weight",): "150 g",
        ("body", "height"): 150.0,
    }
    [one] = sample(made, 1, parse_given(made, given.items()))
    assert one.tree["weight"] == Quantity(150, "g")
    assert one.tree["launch"].year == 2005
