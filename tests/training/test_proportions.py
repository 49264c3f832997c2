"""Labels are drawn as often as training had them, whatever a network had rather say."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from models import tiny_run

from kbdisk.codec import CodecConfig
from kbdisk.entity import Entity
from kbdisk.hiding import Hiding
from kbdisk.leaves.category import CategoryBelief, CategoryConfig
from kbdisk.network.beliefs import Asked
from kbdisk.sampling import sample
from kbdisk.schemas.schema import Schema
from kbdisk.training import Trained
from kbdisk.training.proportions import SURE, Believed, Biases, biases, even
from kbdisk.training.train import train

CPU = torch.device("cpu")
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


def trained(in_order: float = 1.0, seen: list[Any] | None = None, **category: Any) -> Trained:
    run = replace(tiny_run(validation=0.0), hiding=Hiding(ordered=in_order))
    run = replace(
        run, codec=CodecConfig(sharing="disjoint", kinds={**run.codec.kinds, "category": CategoryConfig(**category)})
    )
    return train(
        Schema.read(TABLE), KNOWN, run, CPU, lambda progress: seen.append(progress) if seen is not None else None
    )


def biases_of(model: Trained, kind: str = "category") -> Biases:
    found = biases(model.network, model.codec, model.encode(KNOWN))
    return next(one for one in found if one.kind == kind)


def slot_of(model: Trained, *path: Any) -> int:
    return next(number for number, one in enumerate(model.codec.slots) if one.path == path)


def test_how_common_a_label_is_is_counted_over_all_places_of_a_list():
    model = trained()
    found = biases_of(model)
    told = [0.2, 0.8], [0.75, 0.25], [5 / 6, 1 / 6], [1 / 3] * 3  # good, kind, marks, size: as labels are numbered
    assert found.common.tolist() == pytest.approx([share for own in told for share in own])
    paths = ("good",), ("kind",), ("marks", 0), ("marks", 2), ("size",), ("x",)
    assert [int(found.start[slot_of(model, *path)]) for path in paths] == [0, 2, 4, 4, 6, -1]


def test_what_is_common_of_a_number_is_each_of_its_atoms_and_all_else():
    model = trained()
    found, slot = biases_of(model, "number"), slot_of(model, "x")
    assert model.codec.slots[slot].codec.atoms == (3.0, 5.0)
    start = int(found.start[slot])
    assert found.common[start : start + 3].tolist() == pytest.approx([0.6, 0.2, 0.2])


def test_a_step_is_newton_s_and_less_of_what_is_rare():
    model = trained()
    believed, slot = Believed(biases_of(model)), slot_of(model, "kind")
    logits = torch.tensor([[0.3, 0.7]]).log().expand(100, 2)
    told = CategoryBelief(logits, unseen=torch.full((100,), 0.1))  # what was never met is not drawn either
    rows = torch.arange(100)
    believed.add(Asked(rows, 0, rows, told), torch.full((100,), slot))
    step, lacking, unsure = believed.step(), 100 * (0.75 - 0.3), 100 * 0.3 * 0.7
    assert step[2:4].tolist() == pytest.approx([0.5 * lacking / (unsure + SURE), -0.5 * lacking / (unsure + SURE)])
    assert not torch.cat([step[:2], step[4:]]).any()  # nothing was believed of others


@pytest.mark.parametrize("in_order", [0.5, 1.0])
def test_what_is_drawn_too_seldom_is_drawn_as_often_as_it_was_met(in_order):
    model = trained(in_order)
    found = biases_of(model)
    with torch.no_grad():
        found.bias.add_(torch.tensor([0.0, 2.0, 0.0, 1.0, -1.5, 0.0, 1.0, 0.0, -1.0]))
        own, start = biases_of(model, "number"), slot_of(model, "x")
        own.bias[int(own.start[start]) :][:3].add_(torch.tensor([0.0, 1.0, -1.0]))
    assert abs(sum(one.tree["kind"] == "b" for one in sample(model, 2000)) / 2000 - 0.75) > 0.1
    turns: list[tuple[int, int]] = []
    even(model.network, model.codec, model.encode(KNOWN), 0, math.inf, lambda done, of: turns.append((done, of)))
    assert turns == [(turn, 16) for turn in range(1, 17)]
    drawn = [one.tree for one in sample(model, 4000)]
    for path, share in ("good", {False: 0.2}), ("kind", {"b": 0.75}), ("size", {"s": 1 / 3, "m": 1 / 3}):
        count = Counter(tree[path] for tree in drawn)
        assert all(count[label] / 4000 == pytest.approx(wanted, abs=0.035) for label, wanted in share.items())
    marks = Counter(mark for tree in drawn for mark in tree.get("marks") or ())
    assert marks["u"] / marks.total() == pytest.approx(5 / 6, abs=0.035)
    numbers = Counter(tree["x"] for tree in drawn)
    assert [numbers[one] / 4000 for one in (3.0, 5.0)] == pytest.approx([0.2, 0.2], abs=0.035)


def test_it_ends_in_time_and_is_the_same_for_the_same_seed():
    found = []
    for _ in range(2):
        model, turns = trained(), []
        even(model.network, model.codec, model.encode(KNOWN), 3, 0.0, lambda done, of, turns=turns: turns.append(done))
        assert turns == [1]
        found.append(biases_of(model).bias.clone())
    assert torch.equal(*found)


@pytest.mark.parametrize("category", [{"labels": "text"}, {"ordered": "cumulative"}])
def test_labels_without_a_bias_stay(category):
    model = trained(**category)
    kept = [one.clone() for one in model.network.parameters()]
    even(model.network, model.codec, model.encode(KNOWN), 0, 0.0, lambda done, of: None)
    moved = [one for one, old in zip(model.network.parameters(), kept, strict=True) if not torch.equal(one, old)]
    assert len(moved) == (2 if "ordered" in category else 1)  # of atoms, and of labels without an order


def test_only_what_draws_in_one_order_weighs_its_labels():
    for in_order, wanted in ((0.0, set()), (0.5, {"weighing labels"})):
        seen: list[Any] = []
        trained(in_order, seen)
        assert {one.after.doing for one in seen if one.after is not None} - {"remembering"} == wanted
