"""How far beliefs are trusted: whole where they are right, not at all where a constant is better, by halves between."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.shrinkage import PRIOR_OF_FULL_WEIGHT, label_weight, number_weight

TRUTH = [float(number) for number in range(-20, 21)]
ZERO = [0.0] * len(TRUTH)


@pytest.mark.parametrize(("said", "trust"), [([1.0], 1.0), ([2.0], 0.5), ([-1.0], 0.0), ([0.5], 1.0), ([0.0], 1.0)])
def test_numbers_are_trusted_as_far_as_the_least_error_is(said, trust):
    [factor] = said
    assert number_weight([factor * one for one in TRUTH], ZERO, TRUTH) == pytest.approx(trust, abs=0.051)


def test_labels_are_trusted_as_far_as_makes_the_truth_likeliest():
    sure, share, wrong = -math.log(0.9), -math.log(0.3), -math.log(0.001)
    assert label_weight([sure] * 30, [share] * 30) == 1.0
    assert label_weight([wrong] * 30, [share] * 30) == pytest.approx(0.05, abs=0.051)
    assert 0.2 < label_weight([sure] * 15 + [wrong] * 15, [share] * 30) < 0.9


def test_one_held_out_value_says_little():
    assert number_weight([1.0], [0.0], [0.4]) > 0
    assert label_weight([math.log(2)], [math.log(2)]) == 1.0


errors = st.lists(st.tuples(*[st.floats(-100, 100)] * 3), min_size=1, max_size=30)


@given(errors)
def test_what_is_trusted_is_never_much_worse_than_the_better_of_both(cases):
    said, constant, truth = (list(each) for each in zip(*cases, strict=True))
    trust = number_weight(said, constant, truth)
    assert 0 <= trust <= 1

    def off(level: float) -> float:
        return sum(abs(c + level * (s - c) - t) for s, c, t in cases)

    assert off(trust) <= min(off(0) + PRIOR_OF_FULL_WEIGHT * off(0) / len(cases), off(1)) + 1e-6


def test_a_few_numbers_undo_less_trust_than_many():
    few, many = (number_weight([0.8] * n, [0.0] * n, [0.4] * n) for n in (4, 500))
    assert many == 0.5
    assert few == 1.0
