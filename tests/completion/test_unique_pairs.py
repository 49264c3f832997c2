"""Pairs of labels that no two entities share are not filled in twice."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from models import tiny

from kbdisk.completion import complete, unique_pairs
from kbdisk.completion.unique_pairs import UniquePairs, likeliest, probability_of
from kbdisk.data.parse import read_all
from kbdisk.entity import Entity
from kbdisk.schemas.schema import Schema

CLUBS, PEOPLE = 8, 9
SCHEMA = """kbdisk: 1
classes:
  Seat:
    properties:
      club: category
      person: category
      rank: {kind: number, integer: true}
"""


def seats(without: dict[int, str] | None = None, again: bool = False) -> list[Entity]:
    """Everybody is in every club once; some seats lack their club or person; `again`: one seat is there twice."""
    trees = [{"club": f"c{i}", "person": f"p{j}", "rank": (i * 7 + j) % 5} for i in range(CLUBS) for j in range(PEOPLE)]
    if again:
        trees.append(dict(trees[0]))
    for number, path in (without or {}).items():
        del trees[number][path]
    return [Entity(str(number), classes=("Seat",), tree=tree) for number, tree in enumerate(trees)]


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    file = tmp_path_factory.mktemp("keys") / "seats.yaml"
    file.write_text(SCHEMA)
    return Schema.read(file)


@pytest.fixture(scope="module")
def model(schema):
    return tiny(schema, seats())


def learnt(model, entities) -> dict[tuple, set[tuple]]:
    keys = UniquePairs(model.codec, read_all(model.schema, entities))
    slots = model.codec.slots
    return {slots[slot].path: {slots[other].path for other in others} for slot, others in keys.partners.items()}


def test_two_labels_that_never_repeat_are_a_key_in_both_directions(model):
    assert learnt(model, seats()) == {("club",): {("person",)}, ("person",): {("club",)}}


def test_one_pair_that_repeats_or_too_few_entities_are_no_key(model):
    assert not learnt(model, seats(again=True))
    assert not learnt(model, seats()[:: PEOPLE - 1])


def test_entities_are_read_until_no_pair_can_be_a_key(model, monkeypatch):
    monkeypatch.setattr(unique_pairs, "ENTITIES_AT_ONCE", 20)
    repeated = Entity("repeated", classes=("Seat",), tree=dict(seats()[0].tree))
    readings = read_all(model.schema, [*seats()[:19], repeated, *seats()[19:]])
    assert not UniquePairs(model.codec, readings).partners
    assert next(iter(readings)).id == "19"
    readings = read_all(model.schema, [*seats(), repeated])  # not among the first
    assert not UniquePairs(model.codec, readings).partners
    assert not list(readings)


@pytest.mark.parametrize("path", ["club", "person"])
def test_what_is_missing_of_a_key_can_only_be_what_is_left(model, path):
    gaps = dict.fromkeys((0, 13, 32, 51), path)  # no two of one club, or of one person
    truth = {str(number): seats()[number].tree[path] for number in gaps}
    said = {one.entity.id: one.filled for one in complete(model, seats(gaps), fill="all")}
    assert {id: said[id][path,].value for id in truth} == truth
    assert all(said[id][path,].confidence > 0.5 for id in truth)  # the rest is for people never met


def test_gaps_of_one_club_are_filled_with_different_people(model):
    gaps = dict.fromkeys(range(5), "person")
    completions = list(complete(model, seats(gaps), fill="all"))
    assert Counter(one.tree()["person"] for one in completions[:PEOPLE]) == {f"p{j}": 1 for j in range(PEOPLE)}


def test_where_everything_is_taken_nothing_is_said_and_why(model):
    extra = Entity("extra", classes=("Seat",), tree={"club": "c0", "rank": 1})
    completing = complete(model, [*seats(), extra], fill="all", only=[("person",)])
    assert not list(completing)[-1].filled
    [row] = completing.summary.shown()
    assert list(row.held_back) == ["every label that is known is taken: no two entities have the same pair of them"]


def test_what_was_filled_in_is_said_again_where_nothing_else_is_left(model):
    """p0 is missing in the club c0 alone, by a seat without a person; and somewhere, by a seat without a club."""
    spare = Entity("spare", classes=("Seat",), tree={"person": "p0", "rank": 0})
    completions = complete(model, [*seats({0: "person"}), spare], fill="all", only=[("person",), ("club",)])
    said = {one.entity.id: one.tree() for one in completions}
    assert (said["0"]["person"], said["spare"]["club"]) == ("p0", "c0")


def test_without_a_key_the_likeliest_is_said_however_often(model):
    gaps = dict.fromkeys(range(1, 6), "person")
    said = [one.tree()["person"] for one in complete(model, seats(gaps, again=True), fill="all")][1:6]
    assert len(set(said)) < 5


def test_a_label_that_is_all_but_impossible_is_said_where_no_other_is_left():
    shares = torch.tensor([0.7, 0.3, 1e-12])
    assert likeliest(shares, {0, 1}) == 2
    assert probability_of(shares, 2, {0, 1}) == pytest.approx(1)
    assert likeliest(torch.tensor([0.5, 0.3, 0.1]), {0}) == 1
    assert probability_of(torch.tensor([0.5, 0.3, 0.1]), 1, {0}) == pytest.approx(0.6)
    assert likeliest(shares, {0, 1, 2}) is None


def test_labels_that_hardly_repeat_are_no_key(schema):
    """Everybody is of a town of their own, or nearly: that no town has two women says nothing."""
    trees = [{"club": f"c{i}", "person": f"p{i % 2}"} for i in range(CLUBS * PEOPLE)]
    entities = [Entity(str(i), classes=("Seat",), tree=tree) for i, tree in enumerate(trees)]
    model = tiny(schema, entities)
    assert not learnt(model, entities)


def test_an_entity_that_is_read_twice_is_not_in_its_own_way(model):
    again = Entity("0", classes=("Seat",), tree={"club": "c0", "rank": 1})
    said = list(complete(model, [*seats(), again], fill="all", only=[("person",)]))[-1]
    assert said.tree()["person"] == "p0"
    assert learnt(model, [*seats(), seats()[5]]) == learnt(model, seats())


def test_what_was_filled_in_earlier_is_taken_unless_nothing_else_is_left(model):
    gaps = dict.fromkeys(range(3), "person")
    earlier = seats(gaps)
    earlier[0].made = {("person",): "p2"}
    said = [one.tree().get("person") for one in complete(model, earlier, fill="all", only=[("person",)])][:3]
    assert sorted(said[1:]) == ["p0", "p1"]


def test_how_sure_a_value_is_does_not_come_from_another_that_was_filled_in(model):
    alone = list(complete(model, seats({0: "person", 1: "person"}), fill="all", only=[("person",)]))
    both = [one.filled["person",].confidence for one in alone[:2]]
    assert sum(both) == pytest.approx(1, abs=0.35)  # two people are left, and each is taken to be there once
