"""Trees learn numbers in deviations, so that none is too large for them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.experts.target_scale import Units, is_skewed


@given(st.lists(st.floats(-1e25, 1e25), min_size=2))
def test_what_is_told_in_units_is_the_number_again(numbers):
    units = Units.of(numbers)
    if units is not None:
        assert units.back(units.told(numbers)) == pytest.approx(np.array(numbers), rel=1e-9, abs=1e-9 * units.deviation)


@pytest.mark.parametrize("numbers", [[1_700_000_000 + n for n in range(40)], [1e12 - 1e3, 1e12, 1e12 + 1e3]])
def test_in_units_numbers_of_32_bits_differ(numbers):
    units = Units.of(numbers)
    assert units is not None
    assert len(np.unique(units.told(numbers).astype(np.float32))) == len(numbers)


@pytest.mark.parametrize("numbers", [[3.0, 3.0], [7.0], [1e39, 1e-3], [1e308, -1e308]])
def test_where_nothing_can_be_learnt_there_are_no_units(numbers):
    assert Units.of(numbers) is None


@given(st.lists(st.floats(1e-3, 1e9), min_size=2))
def test_skewed_numbers_are_told_by_their_logarithms(numbers):
    units = Units.fitting([*numbers, 1e-3, 1e9])
    assert units is not None
    assert (units.least == 1e-3) == is_skewed([*numbers, 1e-3, 1e9])
    assert units.back(units.told(numbers)) == pytest.approx(
        np.array(numbers), rel=1e-6, abs=1e-6 * units.deviation * (not units.least)
    )


def test_what_is_below_the_least_of_skewed_numbers_counts_as_the_least():
    units = Units.fitting([1.0, 10.0, 100.0, 1000.0])
    assert units is not None
    assert units.told([0.0, -5.0]).tolist() == units.told([1.0, 1.0]).tolist()
