"""Beliefs are restricted to what the given values leave, and renormalised."""

from __future__ import annotations

import math

import pytest
import torch
from models import calibrated, tiny

from kbdisk.completion import complete
from kbdisk.completion.constraints import Interval, Restriction
from kbdisk.completion.shrinkage import Shrinker
from kbdisk.completion.truncation import _label, _number
from kbdisk.entity import Entity
from kbdisk.evaluation.calibration import Line
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.schemas.yaml import loads

SCHEMA = """
kbdisk: 1
classes:
  '':
    properties: {low: number, high: number, name: category, nick: category, x: number}
    constraints: [low <= high, name disjoint nick]
"""


def things(count: int) -> list[Entity]:
    return [
        Entity(f"e{n}", {"low": n % 50, "high": n % 50 + 5, "name": "abc"[n % 3], "nick": "bca"[n % 3], "x": n % 7})
        for n in range(count)
    ]


@pytest.fixture(scope="module")
def model():
    return calibrated(tiny(loads(SCHEMA), things(120)), correctness=Line())


@torch.no_grad()
def belief_of(model, path: str):
    tokens = model.encode([Entity("n", {"x": 3})], [(path,)])
    batch = tokens.batch(torch.arange(1))
    asked = model.held_out_model(batch, batch.known, batch.asked)
    slot = model.codec.slot("", (path,))
    [kind] = [one for one in asked.kinds.values() if one.belief is not None and len(one.rows)]
    return slot, kind.belief


def test_a_number_outside_of_its_bounds_becomes_the_median_of_what_is_allowed(model):
    slot, belief = belief_of(model, "high")
    assert isinstance(belief, NumberBelief)
    low, high = float(belief.quantile(0.7)[0]), float(belief.quantile(0.95)[0])
    code, sure = _number(model.codec, slot, belief, belief.codes(belief.median()), (low, high))
    value = float(belief.values(code[None])[0])
    step = model.codec.slots[slot].codec.step
    assert low <= value <= high
    assert abs(value - float(belief.quantile(0.825)[0])) <= 2 * step
    within = float(model.codec.slots[slot].codec.tolerances(torch.tensor([value]).double().numpy())[0])
    ends = torch.tensor([[max(value - within, low), min(value + within, high), low, high]]).double()
    first, last, below, up_to = belief.cdf(ends - torch.tensor([[1e-6, 0, 1e-6, 0]]))[0].tolist()
    assert sure == pytest.approx((last - first) / (up_to - below), abs=0.02)


def test_a_number_that_is_allowed_stays_and_is_surer(model):
    slot, belief = belief_of(model, "high")
    stated = belief.codes(belief.median())
    value = float(belief.values(stated)[0])
    _, anywhere = _number(model.codec, slot, belief, stated, (-math.inf, math.inf))
    code, bounded = _number(model.codec, slot, belief, stated, (value - 8, value + 8))
    assert torch.equal(code, stated[0])
    assert anywhere < bounded <= 1


def test_a_belief_says_nothing_about_what_it_holds_impossible(model):
    slot, belief = belief_of(model, "high")
    assert _number(model.codec, slot, belief, belief.codes(belief.median()), (1e6, 1e7)) is None


def test_a_label_is_the_likeliest_that_is_allowed(model):
    slot, belief = belief_of(model, "name")
    shrinker = Shrinker(model)
    shares = shrinker.label_probabilities(slot, belief)
    labels = model.codec.slots[slot].codec.decode(torch.arange(len(shares)))
    best, second = shares.argsort(descending=True)[:2].tolist()
    code, sure = _label(model.codec, shrinker, slot, belief, best, [Restriction(forbidden=frozenset([labels[best]]))])
    assert int(code) == second
    assert sure == pytest.approx(float(shares[second] / (shares.sum() - shares[best])), rel=1e-5)
    code, sure = _label(model.codec, shrinker, slot, belief, best, [Restriction(allowed=frozenset([labels[best]]))])
    assert (int(code), sure) == (best, pytest.approx(1))
    assert _label(model.codec, shrinker, slot, belief, best, [Restriction(interval=Interval())]) is None


def test_completion_states_what_the_given_values_allow(model):
    new = [Entity(f"n{n}", {"low": 10 * n, "nick": "abc"[n % 3], "x": n}) for n in range(5)]
    for one in list(complete(model, [*things(9), *new], fill="all"))[9:]:
        assert one.filled["high",].value >= one.entity.tree["low"]
        assert one.filled["name",].value != one.entity.tree["nick"]
