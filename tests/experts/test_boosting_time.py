"""Boosters get the settings that their time allows, and run side by side."""

from __future__ import annotations

import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.experts.boosting_time import BORDERS, MIN_TREES, SideBySide, Work, planned

SETTINGS = {"iterations": 1000, "depth": 6, "learning_rate": 0.06}


def test_the_cost_of_a_tree_counts_rows_of_each_feature_and_borders_that_there_are():
    flag, number = (torch.arange(200) % 2).float(), torch.arange(200).float()
    work = Work.of(torch.stack([flag, number], 1), 3)
    assert work.distinct.tolist() == [2, 200]
    assert work.cost(SETTINGS) == 3 * (200 * 2 + 84 * (1 + 199))
    assert work.cost({**SETTINGS, "border_count": 32}) == 3 * (200 * 2 + 84 * (1 + 32))
    assert work.cost({**SETTINGS, "depth": 3}) == 3 * (200 + 84 * 200 / 8)


@given(st.floats(0, 1e9), st.integers(1, 100_000), st.integers(1, 50))
def test_a_plan_costs_no_more_than_there_is_unless_it_is_the_least(affordable, rows, features):
    work = Work(rows, torch.full((features,), 500), 1)
    plan = planned(SETTINGS, work, affordable)
    assert MIN_TREES <= plan["iterations"] <= 1000
    assert SETTINGS["learning_rate"] <= plan["learning_rate"] <= 0.3
    assert plan["iterations"] == MIN_TREES or plan["iterations"] * work.cost(plan) <= affordable * (1 + 1e-9)
    assert (plan["learning_rate"] == SETTINGS["learning_rate"]) == (plan["iterations"] == 1000)


def test_with_less_time_there_are_fewer_borders_first_and_then_fewer_trees():
    work = Work(500, torch.full((20,), 500), 1)
    costs = [work.cost({**SETTINGS, "border_count": borders}) for borders in BORDERS]
    plans = [
        planned(SETTINGS, work, affordable) for affordable in (1000 * costs[0], 1000 * costs[1], 300 * costs[1], 10.0)
    ]
    assert [plan["border_count"] for plan in plans] == [254, 64, 64, 32]
    assert [plan["iterations"] for plan in plans] == [1000, 1000, 300, MIN_TREES]


def test_settings_with_few_borders_keep_them():
    work = Work(500, torch.full((20,), 500), 1)
    assert planned({**SETTINGS, "border_count": 32}, work, 1e12)["border_count"] == 32


def test_functions_run_side_by_side_and_all_are_done_at_the_end():
    together, done = threading.Barrier(2, timeout=60), []

    def run() -> None:
        together.wait()  # passes only where two run at once
        done.append(1)

    with SideBySide(2, threading.Event()) as workers:
        for _ in range(4):
            workers.start(run)
    assert len(done) == 4


@pytest.mark.parametrize("where", ["inside", "outside"])
def test_an_error_stops_the_others_and_is_raised(where):
    stopping = threading.Event()

    def fail() -> None:
        raise ValueError("no trees")

    def work() -> None:
        assert stopping.wait(timeout=60)

    def run() -> None:
        with SideBySide(2, stopping) as workers:
            workers.start(work)
            if where == "outside":
                raise ValueError("no trees")
            workers.start(fail)
            workers.start(fail)

    with pytest.raises(ValueError, match="no trees"):
        run()
    assert stopping.is_set()
