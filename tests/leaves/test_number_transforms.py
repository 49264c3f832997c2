"""The maps between numbers and codes: monotone and invertible on whatever data they were fitted to."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from tables import examples, for_each

from kbdisk.leaves.number.transforms import CODE_MAPS, CodeMap

SIZES = st.floats(-300, 300).flatmap(lambda size: st.sampled_from([1.0, -1.0]).map(lambda sign: sign * 10**size))
LISTS = st.lists(SIZES | st.floats(-1000, 1000) | st.integers(-50, 50).map(float), min_size=1, max_size=60)


@for_each("code", CODE_MAPS)
@settings(max_examples=examples(30))
@given(values=LISTS, digits=st.integers(1, 15), probes=LISTS)
def test_every_map_rises_and_inverts_on_any_data(code, values, digits, probes):
    values = np.sort(np.array(values))
    step = 10.0 ** (math.floor(math.log10(max(np.abs(values).max(), 1e-250))) - digits)
    map = CODE_MAPS[code](values, step, 32)
    x, z, slope = map.knots
    assert (np.diff(x) > 0).all()
    assert (np.diff(z) > 0).all()
    assert (slope > 0).all()
    assert np.isfinite(slope).all()
    probes = np.unique(np.array(probes))
    codes = map.forward(probes)
    assume(np.isfinite(codes).all())
    assert (np.diff(codes) >= 0).all()
    # what a code's own precision tells apart: its last bits, seen through the slope there
    lost = (
        1e-323 / map.derivative(probes)
        + (np.abs(codes) + np.abs(z).max()) * 1e-15 / map.derivative(probes)
        + (np.abs(probes) + np.abs(x).max()) * 1e-15
    )
    assert (np.abs(map.inverse(codes) - probes) <= 4 * lost).all()


@given(values=LISTS)
def test_the_derivative_is_that_of_the_map(values):
    map = CODE_MAPS["quantile"](np.sort(np.array(values)), 1e-3, 32)
    x, _, _ = map.knots
    inner = np.concatenate([x[:1] - 1, (x[1:] + x[:-1]) / 2, x[-1:] + 1])
    for at, slope in zip(inner, map.derivative(inner), strict=True):
        near = np.array([at, at + max(abs(at), 1.0) * 1e-9])
        if np.searchsorted(x, near[0], side="right") == np.searchsorted(x, near[1], side="right"):
            assert np.diff(map.forward(near)) == pytest.approx(slope * np.diff(near), rel=1e-3, abs=1e-12)


def test_quantile_codes_of_skewed_data_are_normal():
    values = np.sort(np.random.default_rng(0).lognormal(size=20_000))
    codes = CODE_MAPS["quantile"](values, 1e-6, 128).forward(values)
    assert stats.kstest(codes, "norm").statistic < 0.01
    assert stats.skew(codes) == pytest.approx(0, abs=0.05)
    assert stats.kurtosis(codes) == pytest.approx(0, abs=0.1)


def test_whole_numbers_get_the_code_that_their_share_is_wide():
    values = np.sort(np.repeat([1.0, 2.0, 3.0, 4.0], [10, 40, 40, 10]))
    edges = CODE_MAPS["quantile"](values, 1.0, 128).forward(np.array([1.5, 2.5, 3.5]))
    assert edges == pytest.approx(stats.norm.ppf([0.1, 0.5, 0.9]))


def test_the_code_of_logs_is_a_log_where_data_are():
    values = np.sort(np.random.default_rng(0).lognormal(2, 3, size=5000))
    codes = CODE_MAPS["log"](values, 1e-9, 128).forward(values)
    assert np.corrcoef(codes, np.log(values))[0, 1] > 0.999
    assert codes.mean() == pytest.approx(0, abs=0.02)
    assert codes.std() == pytest.approx(1, abs=0.02)


def test_the_code_of_logs_takes_zeros_and_negative_numbers():
    values = np.sort(np.array([-1e6, -1000.0, -10, 0, 0, 1, 10, 100, 1e5, 1e6]))
    codes = CODE_MAPS["log"](values, 1.0, 256).forward(values)
    assert (np.diff(codes)[np.diff(values) > 0] > 0.01).all()
    assert np.abs(codes).max() < 3


def test_standard_and_minmax_are_what_they_are_called():
    values = np.sort(np.random.default_rng(0).normal(100, 7, size=1000))
    standard, minmax = (CODE_MAPS[code](values, 1e-6, 8).forward(values) for code in ("standard", "minmax"))
    assert (standard.mean(), standard.std()) == pytest.approx((0, 1))
    assert (minmax.min(), minmax.max()) == pytest.approx((-1, 1))


def test_tails_beyond_the_data_are_straight():
    values = np.sort(np.random.default_rng(0).normal(size=500))
    codes = CODE_MAPS["quantile"](values, 1e-6, 64).forward(np.array([10.0, 20.0, 30.0, -10.0, -20.0, -30.0]))
    assert np.diff(codes[:3])[0] == pytest.approx(np.diff(codes[:3])[1])
    assert np.diff(codes[3:])[0] == pytest.approx(np.diff(codes[3:])[1])


def test_widths_of_steps_hold_where_a_step_is_lost_in_the_precision_of_the_number():
    map = CodeMap((0.0, 1e18), (0.0, 1.0), 1e-18, 1e-18)
    below, above = map.widths(np.array([5e17, 1e17]), 0.5)
    assert below == pytest.approx([5e-19, 5e-19])
    assert above == pytest.approx([5e-19, 5e-19])


def test_a_step_over_a_knot_is_as_wide_as_its_parts():
    map = CodeMap((0.0, 1.0), (0.0, 1.0), 1.0, 10.0)
    below, above = map.widths(np.array([0.75]), 0.5)
    assert (below, above) == (pytest.approx(0.5), pytest.approx(0.25 + 2.5))
