"""How far off the truth a predicted number may be and still count as right."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import examples

from kbdisk.leaves.number import NumberCodec, NumberConfig
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.listed import COUNT, Listed
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.kinds import Number, Tolerance


def codec_of(values, leaf: Number = Number()) -> NumberCodec:
    return NumberCodec.fit(leaf, values, NumberConfig())


def tolerance(codec: NumberCodec, value: float) -> float:
    return float(codec.tolerances(np.array([float(value)]))[0])


def test_a_tolerance_of_the_schema_holds():
    years = [1900 + n % 100 for n in range(200)]
    assert tolerance(codec_of(years, Number(tolerance=Tolerance(2.0))), 1950) == 2
    assert tolerance(codec_of(years, Number(tolerance=Tolerance(relative=0.05))), 2000) == 100
    assert tolerance(codec_of(years, Number(tolerance=Tolerance())), 1950) == 0.5  # the same whole number


def test_numbers_over_more_than_a_decade_may_be_off_by_a_share():
    populations = np.exp(np.random.default_rng(0).normal(9, 2, 500)).round().tolist()
    codec = codec_of(populations)
    assert tolerance(codec, 1000) == pytest.approx(100)
    assert tolerance(codec, 1_000_000) == pytest.approx(100_000)


def test_other_numbers_may_be_off_by_a_tenth_of_the_range_around_them():
    draw = np.random.default_rng(0)
    codec = codec_of(draw.normal(20, 5, 4000).round(2).tolist())
    quartiles = np.quantile(draw.normal(20, 5, 4000), [0.25, 0.75])
    assert tolerance(codec, 20) == pytest.approx((quartiles[1] - quartiles[0]) / 10, rel=0.1)


def test_what_is_far_away_makes_no_tolerance_larger():
    near, far = np.linspace(10, 12, 600), np.linspace(-120, -60, 400)
    codec = codec_of([*near.round(3).tolist(), *far.round(3).tolist()])
    assert tolerance(codec, 11) == pytest.approx(0.1 * 2 * 500 / 600, rel=0.2)
    beside = codec_of([*near.round(3).tolist(), 1e9])
    assert tolerance(beside, 11) < 0.3
    assert tolerance(beside, 1e9) < 0.3


def test_parts_of_dates_and_lengths_of_lists_are_right_where_they_are_the_same():
    assert {leaf.tolerance for leaf in Date().leaves().values()} == {Tolerance()}
    assert Listed({"": Number()}).leaves()[COUNT].tolerance == Tolerance()


def test_a_tolerance_in_the_main_unit_holds_in_the_unit_that_amounts_are_learnt_in():
    kind = Quantity("kg", {"g": None, "kg": 1.0}, Number(tolerance=Tolerance(0.5)))
    assert kind.leaves()["value",].tolerance == Tolerance(0.5)
    in_grams = Quantity("kg", {"g": 0.001}, Number(tolerance=Tolerance(0.5)), scales={})
    assert in_grams.leaves()["value",].tolerance == Tolerance(0.5)


@settings(max_examples=examples(100))
@given(
    st.lists(st.floats(-1e6, 1e6).map(lambda number: round(number, 3)), min_size=1, max_size=60), st.floats(-2e6, 2e6)
)
def test_a_tolerance_is_at_least_half_a_step_and_never_more_than_a_tenth(values, value):
    codec = codec_of(values)
    found = tolerance(codec, value)
    assert (
        codec.step / 2
        <= found
        <= max(0.1 * (max(values) - min(values) + codec.step), 0.1 * abs(value), codec.step / 2) * 1.0001
    )
    assert NumberCodec.from_json(json.loads(json.dumps(codec.to_json()))) == codec


def test_a_stated_tolerance_is_kept_with_the_codec():
    codec = codec_of([1, 2, 3], Number(tolerance=Tolerance(relative=0.05)))
    assert NumberCodec.from_json(json.loads(json.dumps(codec.to_json()))) == codec
