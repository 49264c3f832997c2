"""Examples of one slot: samples of them, and how many a fit learns from."""

from __future__ import annotations

import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from villages import SCHEMA, world

from kbdisk.data import Codec
from kbdisk.entity import Entity, show
from kbdisk.experts.base import Sides
from kbdisk.experts.examples import Examples, OneHotExamples, evidence_over, values_within
from kbdisk.experts.sparse_table import SparseTable
from kbdisk.schemas.kinds import Category, Number, Set
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class


def examples_of(sizes: list[int]) -> Examples:
    """Values in several tables, whose only feature, code and entity are the same number."""
    examples, start = Examples(), 0
    for size in sizes:
        numbers = torch.arange(start, start + size)
        rows = torch.arange(size)
        known, column = torch.ones(size, 1, dtype=torch.bool), torch.zeros_like(rows)
        table = SparseTable.of(torch.tensor([0]), known, rows, column, numbers.flip(0).float())
        examples.append(table, rows.flip(0), numbers, numbers, numbers.float())
        start += size
    return examples


@given(st.lists(st.integers(0, 5), max_size=5), st.integers(1, 12))
def test_a_sample_keeps_what_was_visible_beside_each_value(sizes, count):
    sampled = examples_of(sizes).sample(count, 0)
    assert len(sampled) == min(count, sum(sizes))
    if len(sampled):
        codes = torch.cat(sampled.codes)
        assert codes.unique().tolist() == codes.tolist()  # in order, each once
        assert torch.cat(sampled.entities).tolist() == torch.cat(sampled.weights).tolist() == codes.tolist()
        assert sampled.features(torch.tensor([0]))[:, 0].tolist() == codes.tolist()


def test_the_seed_decides_a_sample():
    samples = [torch.cat(examples_of([500, 500]).sample(100, seed).codes).tolist() for seed in (0, 0, 1)]
    assert samples[0] == samples[1] != samples[2]


def test_a_fit_learns_from_as_many_values_as_its_seconds_allow():
    assert values_within(None, 100, 30) >= 1 << 62
    assert values_within(None, 100, 30, 500) == 500
    assert values_within(2.0, 100, 30, 500) == 200
    assert values_within(0.1, 100, 30) == 30
    assert values_within(9.0, 100, 30, 500) == 500
    assert values_within(math.inf, 100, 30, 500) == 500


def test_the_members_of_a_set_count_as_one_value():
    known = [Entity(f"t{n}", {"n": n, "tags": ["red", "blue"] if n % 4 else ["red"]}) for n in range(40)]
    codec = Codec.fit(of_one_class({("n",): Property(Number()), ("tags",): Property(Set(Category()))}), known)
    tokens = codec.encode(known)
    examples = OneHotExamples(Sides(tokens, tokens), 1000, 100, 0)
    slot = next(number for number, slot in enumerate(codec.slots) if slot.path == ("tags",))
    of_set = examples.training[slot]
    entities, weights = torch.cat(of_set.entities), torch.cat(of_set.weights)
    assert len(weights) == 70
    _, place, count = entities.unique(return_inverse=True, return_counts=True)
    assert torch.equal(weights, 1 / count[place])


def test_evidence_that_came_over_a_link_is_no_feature_of_it_but_of_other_properties():
    codec = Codec.fit(SCHEMA, world())
    tokens = codec.encode(world())
    examples = OneHotExamples(Sides(tokens, tokens), 10_000, 100, 0)
    [county], [people] = (
        [number for number, slot in enumerate(codec.slots) if slot.path == (name,)] for name in ("county", "people")
    )

    def beside(slot: int) -> set[int]:
        return set(examples.features.slot[examples.columns_beside(slot)].tolist())

    over = {number for number in beside(people) if show(codec.slots[number].path) == "~propagated-3.east"}
    hidden = set(evidence_over(tokens, torch.arange(len(tokens)))[county].tolist())
    assert over & hidden  # a village has its county's number
    assert not beside(county) & hidden
    assert beside(people) - {county} - hidden == beside(county) - {people}
