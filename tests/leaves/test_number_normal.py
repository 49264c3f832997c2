"""The log mass of an interval under a mixture of Gaussians: right in float32 at any width and distance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats
from tables import for_each

from kbdisk.leaves.number.normal import interval, log_mass

CENTRES = [0.0, 0.05, -0.3, 1.0, -2.5, 5.0, -9.0, 20.0, -30.0, 100.0, 3000.0]
SIDES = [
    (0.04, 0.04),
    (0.08, 0.02),
    (0.1, 0.1),
    (0.15, 0.1),
    (0.5, 0.5),
    (2.0, 1.0),
    (20.0, 20.0),
    (1e20, 0.1),
    (0.1, 1e20),
    (1e20, 1e20),
]


def judged(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """scipy's, in float64, on the side where nothing is lost."""
    turn = low + high > 0
    low, high = np.where(turn, -high, low), np.where(turn, -low, high)
    with np.errstate(divide="ignore"):
        lost = np.log(-np.expm1(special.log_ndtr(low) - special.log_ndtr(high)))
    return np.where(low < -1e19, special.log_ndtr(high), special.log_ndtr(high) + lost)


def parts(centre, below, above) -> list[float]:
    return [part.item() for part in interval(*(torch.tensor([[float(one)]]) for one in (centre, below, above)))]


@for_each("centre", CENTRES)
@for_each("sides", SIDES)
def test_the_log_mass_is_scipys(centre, sides):
    centre, below, above = (np.float64(np.float32(one)) for one in (centre, *sides))
    assert parts(centre, below, above)[0] == pytest.approx(judged(centre - below, centre + above), rel=2e-6, abs=3e-6)


@for_each("centre", CENTRES)
@for_each("width", [1e-28, 1e-12, 1e-6, 1e-4])
def test_the_log_mass_of_a_narrow_interval_is_density_times_width(centre, width):
    assert parts(centre, width / 2, width / 2)[0] == pytest.approx(stats.norm.logpdf(centre) + np.log(width), rel=2e-6)


@given(centre=st.floats(-12, 12), below=st.floats(1e-3, 40), above=st.floats(1e-3, 40))
def test_gradients_are_those_of_float64(centre, below, above):
    mean, std = (
        torch.zeros(1, dtype=torch.float64, requires_grad=True),
        torch.ones(1, dtype=torch.float64, requires_grad=True),
    )
    low, high = (centre - below - mean) / std, (centre + above - mean) / std
    turn = low + high > 0
    low, high = torch.where(turn, -high, low), torch.where(turn, -low, high)
    far, near = torch.special.log_ndtr(low), torch.special.log_ndtr(high)
    by_mean, by_std = torch.autograd.grad(near + torch.log(-torch.expm1(far - near)), (mean, std))
    _, mine, my_std = parts(centre, below, above)
    assert mine == pytest.approx(by_mean.item(), rel=1e-3, abs=1e-4)
    assert my_std == pytest.approx(by_std.item(), rel=1e-3, abs=1e-4)


def test_gradients_of_a_mixture_are_finite_differences():
    logits, mean, std = torch.randn(5, 3), torch.randn(5, 3), torch.rand(5, 3) + 0.3
    codes = torch.cat(
        [torch.randn(5, 1), torch.tensor([[0.01, 0.02], [0.3, 0.3], [1.0, 2.0], [1e20, 0.1], [0.1, 1e20]])], dim=1
    )
    leaves = [one.requires_grad_() for one in (logits, mean, std)]
    log_mass(*leaves, codes).sum().backward()
    for at, leaf in enumerate(leaves):
        nudged = [one.detach() for one in leaves]
        for row, k in ((0, 0), (1, 1), (2, 2), (3, 0), (4, 1)):
            slight = torch.zeros(5, 3)
            slight[row, k] = 1e-2
            up, down = ([*nudged[:at], nudged[at] + sign * slight, *nudged[at + 1 :]] for sign in (1, -1))
            slope = (log_mass(*up, codes) - log_mass(*down, codes))[row] / 2e-2
            assert leaf.grad[row, k].item() == pytest.approx(slope.item(), abs=2e-3, rel=1e-2)


@for_each("std", [1e-5, 1e-2, 1.0, 1e4])
def test_nothing_overflows_however_far_and_sharp(std):
    code = torch.tensor([-1e6, -1.0, 0.0, 1e-7, 3.0, 1e6])
    below = torch.tensor([1e-30, 1e-8, 1.0, 1e20])
    rows = torch.cartesian_prod(code, below, below)
    leaves = [
        one.requires_grad_()
        for one in (torch.zeros(len(rows), 2), torch.zeros(len(rows), 2), torch.full((len(rows), 2), std))
    ]
    mass = log_mass(*leaves, torch.cat([rows, torch.full((len(rows), 1), -1.0)], dim=1))
    mass.sum().backward()
    assert torch.isfinite(mass).all()
    assert all(torch.isfinite(leaf.grad).all() for leaf in leaves)
    assert (mass < 1e-5).all()
