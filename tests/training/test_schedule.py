"""The rate rises and falls once, looks are evenly spread, and a budget buys what it pays for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.training import schedule
from kbdisk.training.config import TrainConfig
from kbdisk.training.validation import State


def test_the_rate_rises_to_the_highest_and_falls_to_a_hundredth():
    shares = [schedule.rate_factor(step, 1000, 100) for step in range(1000)]
    assert max(shares) == shares[99] == 1.0
    assert shares[:100] == sorted(shares[:100])
    assert shares[99:] == sorted(shares[99:], reverse=True)
    assert shares[-1] == pytest.approx(0.01, abs=1e-4)


def test_a_short_run_warms_up_for_a_fifth_of_it():
    assert schedule.rate_factor(9, 50, 100) == 1.0
    assert schedule.rate_factor(8, 50, 100) < 1.0


def test_a_run_of_one_step_and_one_without_warmup_have_a_rate():
    assert schedule.rate_factor(0, 1, 100) > 0
    assert schedule.rate_factor(0, 100, 0) == 1.0
    assert schedule.rate_factor(5, None, 0) == 1.0


@given(st.integers(1, 500), st.integers(1, 40))
def test_looks_are_as_many_as_asked_for_evenly_spread_and_the_last_step_has_one(total, evaluations):
    steps = [step for step in range(1, total + 1) if schedule.is_evaluated(step, total, evaluations)]
    assert steps[-1] == total
    assert len(steps) == min(total, evaluations)
    gaps = [b - a for a, b in zip([0, *steps], steps, strict=False)]
    assert max(gaps) - min(gaps) <= 1


def test_before_the_first_of_far_apart_looks_there_are_early_ones_where_they_are_wanted_and_cheap():
    for evaluations, early, first in ((20, True, [100, 200, 400, 800]), (20, False, []), (8, True, [])):
        steps = [step for step in range(1, 20_001) if schedule.is_evaluated(step, 20_000, evaluations, early)]
        assert steps == [*first, *range(20_000 // evaluations, 20_001, 20_000 // evaluations)]


def test_without_an_end_a_look_comes_every_so_many_steps():
    assert [step for step in range(1, 301) if schedule.is_evaluated(step, None, 7)] == [100, 200, 300]


def test_looks_take_a_fifth_of_a_budget_at_most_but_there_is_one():
    assert schedule.affordable_evaluations(100.0, 0.1, 20) == 20
    assert schedule.affordable_evaluations(100.0, 2.0, 20) == 10
    assert schedule.affordable_evaluations(100.0, 50.0, 20) == 1


def test_what_the_first_steps_take_does_not_count():
    assert schedule.typical_seconds([30.0, 9.0, *[1.0] * 4]) == 1.0
    assert schedule.typical_seconds([30.0, *[1.0, 2.0, 3.0] * 16]) == 2.0
    assert schedule.typical_seconds([30.0, 4.0]) == 4.0
    assert schedule.typical_seconds([30.0]) == 30.0


@pytest.mark.parametrize(
    ("times", "spent", "timed"),
    [([0.1] * 49, 4.9, False), ([0.1] * 50, 5.0, True), ([5.0] * 5, 25.0, True), ([3.0] * 4, 12.0, False), ([101.0], 101.0, True)],
)  # fmt: skip
def test_a_budget_becomes_steps_after_fifty_or_a_few_slow_ones(times, spent, timed):
    assert schedule.is_timed(times, spent, 100.0, 50) is timed


def test_after_the_last_of_few_steps_a_budget_is_planned_all_the_same():
    config = TrainConfig(steps=3, seconds=900)
    for step in (1, 2, 3):
        state = State(step=step, evaluations=20)
        assert schedule.Schedule(config, state, has_validation=True).is_timed(0.1) is (step == 3)


@pytest.mark.parametrize(("step", "fewer"), [(0, 900), (500, 800), (700, 701), (800, 900), (950, 970), (990, 995)])
def test_where_there_are_fewer_steps_the_rate_falls_from_where_it_is(step, fewer):
    falls = schedule.decay_start_of_fewer(step, 700, 1000, fewer)
    before = schedule.rate_factor(step, 1000, 0, 700)
    assert schedule.rate_factor(step, fewer, 0, falls) == pytest.approx(before, abs=0.02)
    assert schedule.rate_factor(fewer, fewer, 0, falls) == pytest.approx(0.01)
    assert 1 <= falls <= max(step, 700)


def test_what_is_affordable_goes_by_how_fast_it_was_since_the_first_look():
    history = [{"step": 10, "seconds": 5.0}, {"step": 30, "seconds": 15.0}, {"step": 50, "seconds": 45.0}]
    assert schedule.affordable_steps(history, 10.0) == 10
    assert schedule.affordable_steps(history, -1.0) == 0
    assert schedule.affordable_steps(history[:1], 10.0) is None


def test_a_budget_buys_steps_for_what_looks_leave():
    assert schedule.steps_in_budget(100.0, 10.0, 50, 0.5, 1.0, 20) == 50 + 140
    assert schedule.steps_in_budget(10.0, 12.0, 50, 0.5, 1.0, 20) == 50


@pytest.mark.parametrize("left", [99, 19, 4, 0])
def test_stages_of_a_budget_share_what_is_left_by_their_shares(left):
    shares = [0.12, 0.05, 0.03]
    seconds = []
    for number, share in enumerate(shares):
        seconds.append(schedule.seconds_for(share, left - sum(seconds), sum(shares[number + 1 :])))
    assert seconds == pytest.approx([left * share / sum(shares) for share in shares])


def test_a_stage_without_a_share_has_no_time():
    assert schedule.seconds_for(0.0, 90.0, 0.0) == 0
