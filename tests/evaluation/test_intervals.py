"""The levels of intervals: with them, intervals have the truth as often as they state."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import examples

from kbdisk.evaluation.intervals import MAX_LEVEL, Levels, Rank
from kbdisk.model.estimates import INTERVAL_LEVEL

A, B = ("T", "a"), ("T", "b")


def ranks(key, spread, count, given_values=5, seed=0) -> list[Rank]:
    """Ranks of a belief that is too wide (a spread below 1) or too narrow (above 1)."""
    draw = np.random.default_rng(seed)
    below = 0.5 + (draw.uniform(size=count) - 0.5) * min(spread, 1.0)
    if spread > 1:
        beyond = draw.uniform(size=count) < 1 - 1 / spread
        below[beyond] = draw.choice([0.001, 0.999], beyond.sum())
    return [Rank(key, float(rank), given_values) for rank in below]


def coverage(levels, tests) -> float:
    return float(np.mean([abs(2 * rank.below - 1) <= levels(rank.property, rank.given) for rank in tests]))


@pytest.mark.parametrize("spread", [0.5, 1.0, 1.08])
def test_intervals_have_the_truth_as_often_as_they_state(spread):
    levels = Levels.fit(ranks(A, spread, 1000))
    count = 4000
    error = (INTERVAL_LEVEL * (1 - INTERVAL_LEVEL) * (1 / 1000 + 1 / count)) ** 0.5
    assert coverage(levels, ranks(A, spread, count, seed=1)) == pytest.approx(INTERVAL_LEVEL, abs=4 * error)


def test_each_property_has_its_own_level_and_one_with_few_values_that_of_all():
    levels = Levels.fit([*ranks(A, 0.5, 1000), *ranks(B, 1.0, 1000, seed=1), *ranks(("T", "c"), 1.0, 1, seed=2)])
    assert levels(A, 5) < 0.55
    assert levels(B, 5) > 0.85
    assert levels(("T", "c"), 5) == pytest.approx(levels(("T", "unknown"), 5), abs=0.05)


def test_entities_of_which_little_is_given_have_their_own_level():
    few, many = ranks(A, 1.0, 400, given_values=1), ranks(A, 0.4, 400, given_values=9, seed=1)
    levels = Levels.fit([*few, *many])
    assert levels(("T", "other"), 1) > levels(("T", "other"), 9) + 0.2


def test_numbers_of_a_list_that_lacks_as_a_whole_have_their_own_level():
    alone, in_list = ranks(A, 0.4, 400), [rank._replace(is_in_list=True) for rank in ranks(A, 1.0, 400, seed=1)]
    levels = Levels.fit([*alone, *in_list])
    assert levels(A, 5) < 0.5
    assert levels(A, 5, is_in_list=True) > 0.8
    assert levels(B, 5, is_in_list=True) == levels(B, 5) < 0.5


def test_where_enough_values_are_reserved_held_out_entities_do_not_count():
    held_out, reserved = ranks(A, 1.0, 200), [rank._replace(is_reserved=True) for rank in ranks(A, 0.5, 200, seed=1)]
    assert Levels.fit([*held_out, *reserved]) == Levels.fit(reserved)
    assert Levels.fit([*held_out, *reserved[:20]])(A, 5) > 0.8


def test_without_held_out_values_the_level_is_the_stated_one():
    assert Levels()(A, 3) == Levels.fit(ranks(A, 0.5, 3))(A, 3) == INTERVAL_LEVEL


@settings(max_examples=examples(40))
@given(st.lists(st.builds(Rank, st.sampled_from([A, B]), st.floats(0, 1), st.integers(0, 9), st.floats(0.01, 5), st.booleans(), st.booleans()), max_size=60))  # fmt: skip
def test_any_ranks_give_levels_that_are_saved_as_they_are(several):
    levels = Levels.fit(several)
    each = product((A, B, ("", "c")), range(10), (False, True))
    assert all(0 <= levels(key, given, is_in_list=is_in_list) <= MAX_LEVEL for key, given, is_in_list in each)
    assert Levels.from_json(json.loads(json.dumps(levels.to_json()))) == levels
