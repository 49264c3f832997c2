"""Numbers are propagated over chains of one link and two, and never come back to the entity that has them."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import for_each
from villages import OFFSET, SCHEMA, world

from kbdisk.data import Codec, CodecConfig, EvidenceConfig
from kbdisk.data.graph import Graph
from kbdisk.data.groups import grouped_medians
from kbdisk.data.pooling import Pools
from kbdisk.data.propagation import GRADES, UNLIMITED, ChainSearch, Propagation, Receiver, _combined
from kbdisk.entity import Entity, Link
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec.fit(SCHEMA, world())


def propagated(codec: Codec, entities: list[Entity], id: str, hidden: tuple = (), graph: Graph | None = None) -> dict:
    """The propagated numbers of an entity by their paths, with some of its paths hidden."""
    tokens = codec.encode(entities, graph=graph)
    batch = tokens.batch(torch.tensor([tokens.ids.index(id)]))
    slots = [codec.slots[slot] for slot in batch.slot.tolist()]
    visible = batch.seen(batch.known & torch.tensor([slot.path not in hidden for slot in slots]))
    wanted = torch.tensor([slot.over is not None and slot.over.aggregate in GRADES for slot in slots])
    return {path[1:]: value for path, value in codec.leaves(batch, visible & wanted)[0].items()}


def test_learning_chains_reports_each_number():
    reports: list[tuple[int, int]] = []
    Codec.fit(SCHEMA, world(), chain_search=ChainSearch(report=lambda done, total: reports.append((done, total))))
    total = reports[0][1]
    assert reports == [(done, total) for done in range(len(reports))]
    assert 2 <= len(reports) <= total


def test_with_few_groups_to_fit_to_no_chain_is_found_and_with_enough_the_same_ones():
    whole = Codec.fit(SCHEMA, world()).propagation
    assert Codec.fit(SCHEMA, world(), chain_search=ChainSearch(1 << 20)).propagation.to_json() == whole.to_json()
    assert not Codec.fit(SCHEMA, world(), chain_search=ChainSearch(10)).propagation.propagators


def test_what_a_trial_does_not_use_is_left_to_the_numbers_that_may_gain():
    search = ChainSearch(1000)
    assert search.groups_of_trial(10) == 25
    assert search.groups_of_fit(10, 5) == (1000 - 10 * 25) // 5
    assert UNLIMITED.groups_of_fit(10, 5) > UNLIMITED.groups_of_trial(10)


def test_a_number_comes_over_one_link_with_an_offset(codec):
    near = propagated(codec, world(), "v4.1")["east",]
    assert near == pytest.approx(400 + OFFSET + 0.5, abs=2)


def test_where_the_linked_entity_has_no_number_it_comes_over_two_links(codec):
    assert propagated(codec, world(), "v3.1")["east",] == pytest.approx(300 + OFFSET + 0.5, abs=2)
    assert propagated(codec, world(), "c3")["east",] == pytest.approx(300, abs=5)


def test_skewed_numbers_are_propagated_as_logarithms(codec):
    people = next(p for p in codec.propagation.propagators if p.number.path == ("people",))
    assert people.logarithmic
    truth = next(entity for entity in world() if entity.id == "v52.1").tree["people"]
    assert 0.4 < propagated(codec, world(), "v52.1")["people",] / truth < 2.5


def test_a_number_that_links_say_nothing_about_is_not_propagated(codec):
    assert {p.number.path for p in codec.propagation.propagators} == {("east",), ("people",)}
    assert not any(slot.path[-1] == "noise" for slot in codec.slots if slot.over and slot.over.aggregate in GRADES)


def test_an_integer_stays_one(codec):
    assert propagated(codec, world(), "v52.1")["people",] % 1 == 0


@for_each("id", ["v3.1", "v4.1", "c4"])
def test_a_number_never_comes_back_to_its_entity(codec, id):
    changed = world()
    next(entity for entity in changed if entity.id == id).tree["east"] = 5e5
    assert propagated(codec, changed, id)["east",] == propagated(codec, world(), id)["east",]


def test_no_entity_fits_its_own_chains_to_a_number_that_comes_back():
    """Were an entity's own number among the far ends, numbers without any order would seem to be propagated."""
    draw = random.Random(3)
    entities = [Entity(f"c{i}", {"east": draw.random()}, ("County",)) for i in range(40)]
    entities += [
        Entity(f"v{i}.{j}", {"county": Link(f"c{i}"), "east": draw.random()}, ("Village",))
        for i in range(40)
        for j in range(4)
    ]
    assert Codec.fit(SCHEMA, entities).propagation.propagators == ()


def test_a_hidden_link_takes_along_what_came_over_it(codec):
    both = propagated(codec, world(), "v4.1")
    assert ("east",) not in propagated(codec, world(), "v4.1", hidden=(("county",),))
    assert propagated(codec, world(), "v4.1", hidden=(("east",), ("people",))) == both


def test_an_entity_that_the_graph_does_not_know_gets_a_number_by_its_links(codec):
    new = Entity("new", {"county": Link("c6")}, ("Village",))
    graph = Graph.read(SCHEMA, world())
    assert propagated(codec, [new], "new", graph=graph)["east",] == pytest.approx(600 + OFFSET + 0.5, abs=2)


def test_the_order_of_entities_changes_nothing(codec):
    backwards = world()[::-1]
    for id in ("v4.1", "c3", "v52.1"):
        assert propagated(codec, backwards, id) == propagated(codec, world(), id)


def test_classes_that_share_a_number_share_its_estimate():
    codec = Codec.fit(SCHEMA, world(), CodecConfig(pooling=True))
    assert propagated(codec, world(), "v4.1")["east",] == pytest.approx(400 + OFFSET + 0.5, abs=4)
    slots = [slot for slot in codec.slots if slot.over and slot.over.aggregate in GRADES and slot.path[-1] == "east"]
    assert {slot.class_name for slot in slots} == {""}


def test_chains_can_be_left_out():
    codec = Codec.fit(SCHEMA, world(), CodecConfig(evidence=EvidenceConfig(chains=False)))
    assert codec.propagation == Propagation()
    assert not any(slot.over and slot.over.aggregate in GRADES for slot in codec.slots)


def test_a_codec_with_chains_survives_the_way_to_json_and_back(codec):
    again = Codec.from_json(json.loads(json.dumps(codec.to_json())), SCHEMA)
    for id in ("v4.1", "v3.1", "c3", "v52.1"):
        assert propagated(again, world(), id) == propagated(codec, world(), id)


@for_each(
    "damage",
    [
        lambda number: number["first"].__setitem__(0, 99),
        lambda number: number["offset"].pop(),
        lambda number: number["error"].__setitem__(0, -1.0),
        lambda number: number["coefficients"].pop(),
        lambda number: number.update(path=["nowhere"]),
    ],
)
def test_chains_that_do_not_fit_are_refused(codec, damage):
    data = json.loads(json.dumps(codec.propagation.to_json()))
    damage(data["numbers"][0])
    with pytest.raises(ValueError, match="expected"):
        Propagation.from_json(data, Pools.of(SCHEMA, False))


def test_a_graph_without_the_relations_of_the_chains_brings_nothing(codec):
    lone = [Entity("v1", {"east": 3.0}, ("Village",)), Entity("v2", {"people": 4}, ("Village",))]
    graph = Graph.read(SCHEMA, lone)
    receivers = [Receiver(entity.id, "Village", {}) for entity in lone]
    relations = codec.propagation.relations_of(graph, codec.pools)
    assert list(codec.propagation.estimates(relations, codec.pools, graph.links_of(receivers))) == []
    assert list(codec.propagation.estimates(relations, codec.pools, graph.links_of([]))) == []


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-1e6, 1e6)), min_size=1))
def test_medians_of_groups_are_those_of_numpy(pairs):
    keys, values = np.array([key for key, _ in pairs]), np.array([value for _, value in pairs])
    distinct, medians, counts, _ = grouped_medians(keys, values)
    for key, median, count in zip(distinct.tolist(), medians.tolist(), counts.tolist(), strict=True):
        assert median == pytest.approx(np.median(values[keys == key]))
        assert count == (keys == key).sum()
    assert set(distinct.tolist()) == set(keys.tolist())


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-100, 100), st.floats(-5, 5)), min_size=1))
def test_a_combined_estimate_has_half_of_the_weight_on_either_side(messages):
    row = np.array([row for row, _, _ in messages])
    values, log_errors = np.array([message[1:] for message in messages]).T
    rows, estimates, least = _combined(row, values, log_errors)
    assert rows.tolist() == sorted(set(row.tolist()))
    for of_row, estimate, error in zip(rows.tolist(), estimates.tolist(), least.tolist(), strict=True):
        mine = row == of_row
        weights = np.exp(-2 * (log_errors[mine] - log_errors[mine].min()))
        assert estimate in values[mine]
        assert weights[values[mine] < estimate].sum() <= weights.sum() / 2 * (1 + 1e-6)
        assert weights[values[mine] > estimate].sum() <= weights.sum() / 2 * (1 + 1e-6)
        assert error == log_errors[mine].min()


def test_a_leaf_that_is_no_number_takes_no_part():
    schema = replace(
        SCHEMA, classes={**SCHEMA.classes, "County": Class("County", {("east",): Property(LinkLeaf("Village"))})}
    )
    entities = [entity for entity in world() if entity.classes != ("County",)]
    assert {p.number.class_name for p in Codec.fit(schema, entities).propagation.propagators} <= {"Village"}
