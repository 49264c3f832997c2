"""Labels are drawn as often as training had them, whatever a network had rather say."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from models import tiny_run
from worlds import WORLD, world

from kbdisk.data import CodecConfig
from kbdisk.entity import Entity
from kbdisk.leaves.category import CategoryBelief, CategoryConfig
from kbdisk.model.beliefs import Asked
from kbdisk.model.masking import Hiding
from kbdisk.model.network import DiSK
from kbdisk.sampling import sample
from kbdisk.schemas.kinds import Category, Number, Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema, of_one_class
from kbdisk.training import Trained, label_frequencies
from kbdisk.training.label_frequencies import PRIOR_COUNT, Biases, DrawnFrequencies, biases, match_label_frequencies
from kbdisk.training.train import train

CPU = torch.device("cpu")
ENOUGH = 1 << 30  # values that may be read: as many as it takes
TABLE = """
kbdisk: 1
classes:
  '':
    properties:
      x: number
      size: {kind: category, values: [s, m, l], ordered: true}
      kind: category
      marks: {kind: list, of: category}
      good: boolean
"""
ATOMS = {0: 3.0, 1: 5.0}
KNOWN = [
    Entity(
        str(n),
        {
            "x": ATOMS.get(n % 5, n / 7),
            "size": "sml"[n % 3],
            "kind": "abbb"[n % 4],
            "marks": ["u", "u", "v"][: n % 4],
            "good": n % 5 > 0,
        },
    )
    for n in range(60)
]


class Enough(Exception):
    """Ends what has told all that is asked."""


def trained(in_order: float = 1.0, seen: list[Any] | None = None, **category: Any) -> Trained:
    run = replace(tiny_run(validation=0.0), hiding=Hiding(ordered=in_order))
    run = replace(
        run, codec=CodecConfig(sharing="disjoint", kinds={**run.codec.kinds, "category": CategoryConfig(**category)})
    )
    return train(
        Schema.read(TABLE), KNOWN, run, CPU, lambda progress: seen.append(progress) if seen is not None else None
    )


@pytest.fixture(scope="module")
def shared() -> Trained:
    """A model that has drawn a first time; read it, never change it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(label_frequencies, "DRAWN_ENTITIES", 1)
        return trained()


@pytest.fixture
def model(shared) -> Trained:
    """The same, to be changed."""
    return replace(shared, network=deepcopy(shared.network))


@pytest.fixture
def once(monkeypatch) -> None:
    """Draw once alone, where it is no matter how near that comes to what is common."""
    monkeypatch.setattr(label_frequencies, "DRAWN_ENTITIES", 1)


def biases_of(model: Trained, kind: str = "category") -> Biases:
    found = biases(model.network, model.codec, model.encode(KNOWN))
    return next(one for one in found if one.kind == kind)


def slot_of(model: Trained, *path: Any) -> int:
    return next(number for number, one in enumerate(model.codec.slots) if one.path == path)


def test_how_common_a_label_is_is_counted_over_all_places_of_a_list(model):
    found = biases_of(model)
    told = [0.2, 0.8], [0.75, 0.25], [5 / 6, 1 / 6], [1 / 3] * 3  # good, kind, marks, size: as labels are numbered
    assert found.frequency.tolist() == pytest.approx([share for own in told for share in own])
    paths = ("good",), ("kind",), ("marks", 0), ("marks", 2), ("size",), ("x",)
    assert [int(found.start[slot_of(model, *path)]) for path in paths] == [0, 2, 4, 4, 6, -1]


def test_what_is_common_of_a_number_is_each_of_its_atoms_and_all_else(model):
    found, slot = biases_of(model, "number"), slot_of(model, "x")
    assert model.codec.slots[slot].codec.atoms == (3.0, 5.0)
    start = int(found.start[slot])
    assert found.frequency[start : start + 3].tolist() == pytest.approx([0.6, 0.2, 0.2])


def test_a_step_is_newton_s_and_less_of_what_is_rare(model):
    believed, slot = DrawnFrequencies(biases_of(model)), slot_of(model, "kind")
    logits = torch.tensor([[0.3, 0.7]]).log().expand(100, 2)
    told = CategoryBelief(logits, unseen=torch.full((100,), 0.1))  # what was never met is not drawn either
    rows = torch.arange(100)
    believed.add(Asked(rows, 0, rows, told), torch.full((100,), slot))
    step, lacking, unsure = believed.step(), 100 * (0.75 - 0.3), 100 * 0.3 * 0.7
    assert step[2:4].tolist() == pytest.approx(
        [0.5 * lacking / (unsure + PRIOR_COUNT), -0.5 * lacking / (unsure + PRIOR_COUNT)]
    )
    assert not torch.cat([step[:2], step[4:]]).any()  # nothing was believed of others


@pytest.mark.parametrize("in_order", [0.5, pytest.param(1.0, marks=pytest.mark.slow)])
def test_what_is_drawn_too_seldom_is_drawn_as_often_as_it_was_met(in_order, once, monkeypatch):
    model = trained(in_order)
    found = biases_of(model)
    with torch.no_grad():
        found.bias.add_(torch.tensor([0.0, 2.0, 0.0, 1.0, -1.5, 0.0, 1.0, 0.0, -1.0]))
        own, start = biases_of(model, "number"), slot_of(model, "x")
        own.bias[int(own.start[start]) :][:3].add_(torch.tensor([0.0, 1.0, -1.0]))
    assert abs(sum(one.tree["kind"] == "b" for one in sample(model, 1000)) / 1000 - 0.75) > 0.1
    turns: list[tuple[int, int]] = []
    monkeypatch.undo()
    match_label_frequencies(
        model.network, model.codec, model.encode(KNOWN), 0, ENOUGH, lambda done, of: turns.append((done, of))
    )
    assert turns == [(turn, 16) for turn in range(1, 17)]
    drawn = [one.tree for one in sample(model, 2000)]
    for path, share in ("good", {False: 0.2}), ("kind", {"b": 0.75}), ("size", {"s": 1 / 3, "m": 1 / 3}):
        count = Counter(tree[path] for tree in drawn)
        assert all(count[label] / 2000 == pytest.approx(wanted, abs=0.045) for label, wanted in share.items())
    marks = Counter(mark for tree in drawn for mark in tree.get("marks") or ())
    assert marks["u"] / marks.total() == pytest.approx(5 / 6, abs=0.045)
    numbers = Counter(tree["x"] for tree in drawn)
    assert [numbers[one] / 2000 for one in (3.0, 5.0)] == pytest.approx([0.2, 0.2], abs=0.045)


def test_an_atom_is_also_drawn_where_the_curve_is_rounded_to_it_and_its_bias_changes_its_own_part_alone(model):
    curve, bias = torch.tensor([0.3, 0.05]).double(), torch.tensor([0.2, -1.0, 0.4]).double()

    def drawn(bias: torch.Tensor) -> torch.Tensor:
        own = bias.softmax(0)
        atoms = own[1:] + own[0] * curve
        return torch.cat([1 - atoms.sum(0, keepdim=True), atoms])

    belief = SimpleNamespace(shares=bias.log_softmax(0)[None], atom_probabilities=lambda: drawn(bias)[None, 1:])
    shares, slope = biases_of(model, "number").shares(belief)
    assert torch.allclose(shares[0], drawn(bias))
    assert torch.allclose(slope[0], torch.autograd.functional.jacobian(drawn, bias).diagonal())


def drawn_by(kind: Any, path: str, known: list[Entity], in_order: float, steps: int, **others: Any) -> list[Any]:
    """What is drawn of a property by a network that has learnt for so long."""
    run = replace(tiny_run(validation=0.0, steps=steps, batch=128), hiding=Hiding(ordered=in_order))
    schema = of_one_class({(name,): Property(leaf) for name, leaf in {**others, path: kind}.items()})
    return [one.tree[path] for one in sample(train(schema, known, run, CPU, lambda progress: None), 4000)]


@pytest.mark.slow
def test_a_number_that_is_drawn_of_the_curve_too_is_no_oftener_drawn_than_it_occurs():
    """Of whole numbers those that come again and again are also what a curve's draw is rounded to."""
    random = np.random.default_rng(0)
    values = (random.geometric(0.06, size=1500) - 1).tolist()
    drawn = drawn_by(Number(), "x", [Entity(f"{n}", {"x": value}) for n, value in enumerate(values)], 1.0, 150)
    for low, high in (0, 0), (1, 3), (4, 8), (9, 18), (19, 10**9):
        share, wanted = (sum(low <= one <= high for one in those) / len(those) for those in (drawn, values))
        assert share == pytest.approx(wanted, abs=0.04)


@pytest.mark.slow
def test_labels_are_weighed_without_the_texts_that_are_drawn_after_them():
    known = [
        Entity(f"{n}", {"name": f"the {'rare' if n % 5 == 0 else 'usual'} one", "kind": "ab"[n % 5 > 0]})
        for n in range(300)
    ]
    drawn = drawn_by(Category(), "kind", known, 0.5, 120, name=Text())
    assert drawn.count("a") / len(drawn) == pytest.approx(0.2, abs=0.03)


def test_nothing_is_to_be_seen_that_no_drawn_entity_has(once, monkeypatch):
    """Neither texts nor what comes over a link that somebody else has."""
    run = replace(tiny_run(validation=0.0), hiding=Hiding(ordered=1.0))
    model = train(WORLD, world(), run, CPU, lambda progress: None)
    slots, seen = model.codec.slots, set()
    forward = DiSK.forward

    def spy(network, batch, visible, asked, memo=None):
        seen.update(batch.slot[visible | asked].tolist())
        return forward(network, batch, visible, asked, memo)

    monkeypatch.setattr(DiSK, "forward", spy)
    match_label_frequencies(model.network, model.codec, model.encode(world()), 0, ENOUGH, lambda done, of: None)
    assert {slots[one].role for one in seen} == {"value"}
    assert "text" not in {slots[one].kind for one in seen}
    assert {"category", "number"} <= {slots[one].kind for one in seen}


def test_what_is_as_good_as_told_by_what_was_drawn_before_it_stays(model):
    """Of 1,000 copies of a label that 200 should have 230 happen to have it: by that nothing is wrong."""
    slot = slot_of(model, "good")
    for shift, moves in (0.0, False), (1.0, True):
        believed = DrawnFrequencies(biases_of(model))
        margin = torch.full((1000,), 9.0)
        margin[230:] = -9.0
        logits = torch.stack([margin if not moves else torch.full((1000,), -shift), torch.zeros(1000)], 1)
        rows = torch.arange(1000)
        believed.add(Asked(rows, 0, rows, CategoryBelief(logits, unseen=torch.zeros(1000))), torch.full((1000,), slot))
        assert (abs(float(believed.step()[0])) > 0.1) is moves


def test_no_more_is_read_than_was_asked_for_and_the_same_seed_is_the_same(shared):
    found = []
    for _ in range(2):
        model, turns = replace(shared, network=deepcopy(shared.network)), []
        tokens = model.encode(KNOWN)
        longest = int(tokens.sizes.max())
        turn = 1024 * longest * (longest + 1) // 2
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(label_frequencies, "MIN_VALUES_READ", 0)
            match_label_frequencies(
                model.network, model.codec, tokens, 3, 3 * turn, lambda done, of, turns=turns: turns.append(done)
            )
        assert turns == [1, 2, 3]
        found.append(biases_of(model).bias.clone())
    assert torch.equal(*found)


def test_one_entity_with_a_long_list_makes_the_others_no_slower(once, monkeypatch):
    long = [*KNOWN, Entity("long", {"x": 1.0, "marks": ["v"] * 400})]
    run = replace(tiny_run(validation=0.0), hiding=Hiding(ordered=1.0))
    model = train(Schema.read(TABLE), long, run, CPU, lambda progress: None)
    monkeypatch.undo()

    def first(done: int, of: int) -> None:
        raise Enough(of)

    with pytest.raises(Enough) as told:
        match_label_frequencies(model.network, model.codec, model.encode(long), 0, 0, first)
    assert told.value.args[0] > 4


@pytest.mark.slow
@pytest.mark.parametrize("category", [{"labels": "text"}, {"ordered": "cumulative"}])
def test_labels_without_a_bias_stay(category, once):
    model = trained(**category)
    kept = [one.clone() for one in model.network.parameters()]
    match_label_frequencies(model.network, model.codec, model.encode(KNOWN), 0, 0, lambda done, of: None)
    moved = [one for one, old in zip(model.network.parameters(), kept, strict=True) if not torch.equal(one, old)]
    assert len(moved) == (2 if "ordered" in category else 1)  # of atoms, and of labels without an order


def test_only_what_draws_in_one_order_weighs_its_labels(once):
    for in_order, wanted in ((0.0, set()), (0.5, {"weighing labels"})):
        seen: list[Any] = []
        trained(in_order, seen)
        assert {one.final_task.doing for one in seen if one.final_task is not None} - {"indexing"} == wanted
