"""Trees of numbers keep their time, learn what there is, and stop where they learn no more."""

from __future__ import annotations

import math
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.experts import histogram_boosting
from kbdisk.experts.boosting_time import MAX_RATE, Timing
from kbdisk.experts.histogram_boosting import (
    ENOUGH_TREES,
    LEAST_TREES,
    MAX_TREES,
    RATE,
    grow,
    learning_rate_for,
    winsorising_bounds,
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


def test_values_that_differ_by_chance_are_predicted_by_about_their_mean():
    x, _, training = examples()
    noise = torch.rand(len(x), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    trees = grow(x[:, :1].round(), noise, training, seed=0, timing=Timing())
    assert (trees(x[:, :1].round())[:, 0] - noise[training].mean()).abs().max() < 0.2


class Machine:
    """Grows a tree in so many seconds of its own clock."""

    def __init__(self, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.parts = 0.0, []

        def extend(growing: histogram_boosting._Growing, trees: int, learning_rate: float) -> None:
            self.now += seconds * (trees - growing.trees)
            growing.trees, growing.seconds_of_tree = trees, seconds
            self.parts.append((trees, learning_rate))

        monkeypatch.setattr(histogram_boosting.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(histogram_boosting._Growing, "extend", extend)
        monkeypatch.setattr(histogram_boosting._Growing, "best", lambda growing: growing.trees)

    def grow(self, timing: Timing, seconds: float = math.inf) -> int:
        """How many trees grow in some seconds."""
        self.parts.clear()
        trees: int = grow(*examples(), seed=0, timing=timing, end=self.now + seconds)
        return trees


def timing_of(seconds: float) -> Timing:
    """A timing by which a tree of the examples takes so many seconds."""
    timing, (x, _, training) = Timing(), examples()
    growing = histogram_boosting._Growing(0, timing, histogram_boosting.Work.of(x[training], 1), ((x, x), (x, x)), 1)
    timing.seconds_of_leafwise_cost = seconds / growing.cost
    return timing


def test_trees_fill_their_time_in_parts(monkeypatch):
    machine = Machine(0.1, monkeypatch)
    assert machine.grow(timing_of(0.1), 6.05) == 60
    assert [trees for trees, _ in machine.parts] == [20, 40, 60]
    assert {learning_rate for _, learning_rate in machine.parts} == {learning_rate_for(60)}
    assert machine.grow(timing_of(0.1)) == MAX_TREES


def test_a_plan_by_other_properties_is_mended_after_the_first_part(monkeypatch):
    machine = Machine(0.1, monkeypatch)
    assert machine.grow(timing_of(1.0), 10.05) == 100  # trees are faster than those before
    assert machine.parts[0] == (2, learning_rate_for(10))
    assert machine.parts[-1][1] == learning_rate_for(100)
    assert machine.grow(timing_of(0.01), 10.05) == 200  # and slower: one part that is too long


def test_without_time_few_trees_grow_and_of_slow_ones_a_single_one(monkeypatch):
    machine = Machine(0.001, monkeypatch)
    assert machine.grow(timing_of(0.001), 0.0) == LEAST_TREES
    machine = Machine(5.0, monkeypatch)
    assert machine.grow(timing_of(5.0), 0.0) == 1
    assert machine.grow(timing_of(5.0), 12.0) == 2


def test_trees_that_are_stopped_end_after_a_part(monkeypatch):
    machine, timing = Machine(0.1, monkeypatch), timing_of(0.1)
    timing.stopping.set()
    assert machine.grow(timing) == 20


def test_the_time_of_trees_is_kept_for_other_properties():
    timing, before = Timing(), Timing().seconds_of_leafwise_cost
    grow(*examples(), seed=0, timing=timing, end=time.monotonic() + 60)
    assert timing.seconds_of_leafwise_cost != before


@given(st.integers(1, MAX_TREES))
def test_fewer_trees_have_a_larger_rate(trees):
    assert RATE <= learning_rate_for(trees) <= MAX_RATE
    assert learning_rate_for(trees) >= learning_rate_for(trees + 1)
    assert (learning_rate_for(trees) == RATE) == (trees >= ENOUGH_TREES)


def test_few_targets_far_from_all_others_are_winsorised():
    near = torch.randn(1000, generator=torch.Generator().manual_seed(0)).double()
    low, high = winsorising_bounds(torch.cat([near, torch.tensor([1000.0])]))
    assert low < near.min()
    assert near.max() < high < 20


@pytest.mark.parametrize("values", [[2.0] * 95 + [7.0] * 5, [0.0] * 88 + [1.0] * 4 + [50.0] * 8])
def test_targets_of_which_many_are_far_from_the_most_frequent_one_are_not_winsorised(values):
    assert winsorising_bounds(torch.tensor(values)) == (-math.inf, math.inf)


@pytest.mark.parametrize("n", [20, 24, 40])
def test_few_values_have_trees(n):
    x = torch.arange(n).float()[:, None]
    trees = grow(x, (x[:, 0] > n / 2).double(), torch.arange(n) % 5 > 0, seed=0, timing=Timing())
    assert trees(x)[-1] - trees(x)[0] > 0.5


@pytest.mark.parametrize("threads", [1, 2])
def test_the_number_of_threads_changes_nothing(threads):
    x, y, training = examples()
    trees = grow(x, y, training, seed=0, timing=Timing(), threads=threads)
    torch.testing.assert_close(trees(x), grow(x, y, training, seed=0, timing=Timing())(x))
