"""Trees of numbers keep their time, learn what there is, and stop where they learn no more."""

from __future__ import annotations

import math
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.experts import histogram_boosting
from kbdisk.experts.boosting_time import Timing
from kbdisk.experts.histogram_boosting import (
    ENOUGH_TREES,
    MAX_RATE,
    MAX_TREES,
    MIN_TREES,
    RATE,
    TIMED_TREES,
    bounds_of_most,
    grow,
    rate,
)


def examples(n: int = 400) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features of which one is known of no value that trees learn from; targets; and which values they learn from."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 4, generator=generator)
    training = torch.arange(n) % 5 > 0
    x[training, 3] = torch.nan
    x[::7, 1] = torch.nan
    return x, 3 * x[:, 0].double() + x[:, 2].double().sign(), training


def test_trees_predict_values_that_they_have_not_learnt_from():
    x, y, training = examples()
    trees = grow(x, y, training, seed=0, timing=Timing())
    assert (trees(x)[~training, 0] - y[~training]).abs().mean() < 0.3 * (y - y.mean()).abs().mean()


def test_the_same_values_have_the_same_trees():
    x, y, training = examples()
    first, again = (grow(x, y, training, seed=3, timing=Timing()) for _ in range(2))
    assert torch.equal(first(x), again(x))


def test_values_that_differ_by_chance_have_no_trees():
    x, _, training = examples()
    noise = torch.rand(len(x), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    trees = grow(x[:, :1].round(), noise, training, seed=0, timing=Timing())
    assert len(trees.column) < 5
    assert (trees(x[:, :1].round())[:, 0] - noise[training].mean()).abs().max() < 0.2


def test_without_time_there_are_few_trees_and_with_some_more(monkeypatch):
    x, y, training = examples()
    now, parts = [0.0], []

    def extend(growing: histogram_boosting._Growing, trees: int, learning_rate: float = RATE) -> None:
        """Each tree takes a tenth of a second."""
        now[0] += 0.1 * (trees - growing.trees)
        growing.trees, growing.timing.seconds_of_leafwise_cost = trees, 0.1 / growing.cost
        parts.append((trees, learning_rate))

    monkeypatch.setattr(histogram_boosting.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(histogram_boosting._Growing, "extend", extend)
    monkeypatch.setattr(histogram_boosting._Growing, "best", lambda growing: growing.trees)
    timing = Timing()
    assert grow(x, y, training, seed=0, timing=timing, end=0.2) == MIN_TREES
    assert parts == [(TIMED_TREES, RATE), (MIN_TREES, rate(MIN_TREES))]
    parts.clear()
    assert grow(x, y, training, seed=0, timing=timing, end=now[0] + 6.05) == 60
    assert parts == [(20, rate(60)), (40, rate(60)), (60, rate(60))]
    assert grow(x, y, training, seed=0, timing=timing) == MAX_TREES


def test_whoever_stops_them_waits_for_one_part_alone():
    x, y, training = examples()
    timing = Timing()
    timing.stopping.set()
    assert len(grow(x, y, training, seed=0, timing=timing, end=time.monotonic() + 60).column) <= TIMED_TREES


@given(st.integers(MIN_TREES, MAX_TREES))
def test_fewer_trees_have_a_larger_rate(trees):
    assert RATE <= rate(trees) <= MAX_RATE
    assert rate(trees) >= rate(trees + 1)
    assert (rate(trees) == RATE) == (trees >= ENOUGH_TREES)


def test_targets_far_from_all_others_have_bounds_and_the_rest_has_none():
    near = torch.randn(1000, generator=torch.Generator().manual_seed(0)).double()
    low, high = bounds_of_most(torch.cat([near, torch.tensor([1000.0])]))
    assert low < near.min()
    assert near.max() < high < 20
    assert bounds_of_most(torch.tensor([2.0] * 95 + [7.0] * 5)) == (-math.inf, math.inf)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_number_of_threads_changes_nothing(threads):
    x, y, training = examples()
    trees = grow(x, y, training, seed=0, timing=Timing(), threads=threads)
    torch.testing.assert_close(trees(x), grow(x, y, training, seed=0, timing=Timing())(x))
