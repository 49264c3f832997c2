"""Examples of one slot: samples of them, and how many a fit learns from."""

from __future__ import annotations

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.experts.examples import Examples, values_within


def examples_of(sizes: list[int]) -> Examples:
    """Values in several tables, whose only feature, code and entity are the same number."""
    examples, start = Examples(), 0
    for size in sizes:
        numbers = torch.arange(start, start + size)
        examples.append(numbers.flip(0)[:, None].float(), torch.arange(size).flip(0), numbers, numbers)
        start += size
    return examples


@given(st.lists(st.integers(0, 5), max_size=5), st.integers(1, 12))
def test_a_sample_keeps_what_was_visible_beside_each_value(sizes, count):
    sampled = examples_of(sizes).sample(count, 0)
    assert len(sampled) == min(count, sum(sizes))
    if len(sampled):
        codes = torch.cat(sampled.codes)
        assert codes.unique().tolist() == codes.tolist()  # in order, each once
        assert torch.cat(sampled.entities).tolist() == codes.tolist()
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
