"""The scale of targets: 32 bits of it tell numbers apart, whatever their size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.experts.target_scale import TargetScale
from kbdisk.leaves.number.codec import deciles_of, floor_of_logs


@given(st.lists(st.floats(-1e25, 1e25), min_size=2))
def test_scaled_numbers_are_unscaled_to_themselves(numbers):
    scale = TargetScale.fit(numbers)
    if scale is not None:
        again = scale.unscaled(scale.scaled(numbers))
        assert again == pytest.approx(np.array(numbers), rel=1e-9, abs=1e-9 * scale.deviation)


@pytest.mark.parametrize("numbers", [[1_700_000_000 + n for n in range(40)], [1e12 - 1e3, 1e12, 1e12 + 1e3]])
def test_scaled_numbers_of_32_bits_differ(numbers):
    scale = TargetScale.fit(numbers)
    assert scale is not None
    assert len(np.unique(scale.scaled(numbers).astype(np.float32))) == len(numbers)


@pytest.mark.parametrize("numbers", [[3.0, 3.0], [7.0], [1e39, 1e-3], [1e308, -1e308]])
def test_numbers_that_trees_cannot_learn_have_no_scale(numbers):
    assert TargetScale.fit(numbers) is None


@given(st.lists(st.floats(1e-3, 1e9), min_size=2))
def test_a_scale_of_logarithms_has_a_least_number(numbers):
    scale = TargetScale.fit([*numbers, 1e-3, 1e9], least=1e-3)
    assert scale is not None
    assert scale.unscaled(scale.scaled(numbers)) == pytest.approx(np.array(numbers), rel=1e-6)
    assert scale.scaled([0.0, -5.0]).tolist() == scale.scaled([1e-3, 1e-3]).tolist()


def test_numbers_are_skewed_where_their_deciles_are_a_decade_apart():
    skewed = [1.0] * 2 + [3.0] * 6 + [11.0] * 2
    assert floor_of_logs(skewed[0], deciles_of(skewed), False) == 1.0
    assert floor_of_logs(-0.1, deciles_of(skewed), False) == 0.0
    one_outlier = [1.0] * 19 + [1e9]
    assert floor_of_logs(one_outlier[0], deciles_of(one_outlier), False) == 0.0


def test_one_number_near_0_does_not_set_the_scale_of_logarithms():
    populations = [0.0, *[1000.0] * 10, *[50_000.0] * 9]
    assert floor_of_logs(populations[0], deciles_of(populations), True) == 10.0
    assert floor_of_logs(1e-9, deciles_of([*populations[1:], 1e5]), False) == 10.0
    children = [0.0, *[1.0] * 15, *[12.0] * 4]
    assert floor_of_logs(children[0], deciles_of(children), True) == 1.0
    mostly_none = [0.0] * 5 + [100.0] * 5
    assert floor_of_logs(mostly_none[0], deciles_of(mostly_none), True) == 0.0
