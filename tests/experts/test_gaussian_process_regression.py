"""Gaussian processes, beside their closed forms on a few points."""

from __future__ import annotations

import math

import pytest
import torch

from kbdisk.experts.gaussian_process import Kernel, condition, fit_kernel, inverse_covariance


def numbers(*of: float) -> torch.Tensor:
    return torch.tensor(of, dtype=torch.float64)


@pytest.fixture
def kernel() -> Kernel:
    return Kernel(linear=numbers(0.5, 0.0), rbf=numbers(1.0, 2.0), variance=numbers(0.7)[0], noise=numbers(0.1)[0])


def drawn(n: int, width: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_the_covariance_has_a_linear_and_a_squared_exponential_part(kernel):
    found = kernel.between(numbers(1, 2)[None], numbers(3, 1)[None])
    square = 1.0 * (1 - 3) ** 2 + 2.0 * (2 - 1) ** 2
    assert float(found) == pytest.approx(0.5 * 1 * 3 + 0.7 * math.exp(-square / 2))


def test_the_mean_given_known_values_is_that_of_the_closed_form(kernel):
    x, y = drawn(12, 2), drawn(12, 1, 1)
    at = drawn(3, 2, 2)
    found = kernel.between(at, x) @ condition(kernel, x, y).coefficients
    known = kernel.between(x, x)
    known += (0.1 + 1e-6 * known.diagonal().mean()) * torch.eye(12, dtype=torch.float64)
    torch.testing.assert_close(found, kernel.between(at, x) @ torch.linalg.solve(known, y))


def test_leave_one_out_is_the_mean_given_all_other_values(kernel):
    x, y = drawn(12, 2), drawn(12, 2, 1)
    leave_one_out = condition(kernel, x, y).leave_one_out(y)
    for n in range(12):
        others = torch.arange(12) != n
        known = inverse_covariance(kernel, x).inverse()[others][:, others]
        expected = kernel.between(x[n : n + 1], x[others]) @ torch.linalg.solve(known, y[others])
        torch.testing.assert_close(leave_one_out[n], expected[0])


def test_relevances_are_fitted():
    """y is linear in one feature, a sine of the second and independent of the third; the fourth has no block."""
    x = drawn(200, 4)
    y = (x[:, 0] + (3 * x[:, 1]).sin())[:, None]
    kernel = fit_kernel(torch.tensor([0, 1, 2, -1]), x, (y - y.mean()) / y.std(), torch.Generator().manual_seed(0))
    assert kernel.linear[0] > 5 * kernel.linear[1:].max()
    assert kernel.rbf[1] > 5 * kernel.rbf[2]
    assert kernel.linear[3] == kernel.rbf[3] == 0
    assert kernel.noise < 0.02


def test_values_without_a_relation_are_noise():
    x, y = drawn(200, 2), drawn(200, 1, 1)
    kernel = fit_kernel(torch.tensor([0, 1]), x, y, torch.Generator().manual_seed(0))
    assert kernel.noise > 0.6
    assert condition(kernel, x, y).leave_one_out(y).square().mean() < 1.2 * y.square().mean()


def test_fitting_stops_at_the_last_finite_parameters(monkeypatch):
    def broken(kernel: Kernel, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        calls.append(kernel)
        return kernel.noise * (1 if len(calls) < 3 else math.nan)

    calls: list[Kernel] = []
    monkeypatch.setattr("kbdisk.experts.gaussian_process._negative_log_likelihood", broken)
    kernel = fit_kernel(torch.tensor([0, 1]), drawn(20, 2), drawn(20, 1, 1), torch.Generator().manual_seed(0))
    assert len(calls) == 3
    assert all(torch.equal(one, other) for one, other in zip(kernel, calls[1], strict=True))


def test_equal_points_have_finite_coefficients(kernel):
    x, y = drawn(4, 2).repeat(20, 1), drawn(80, 1, 1)
    silent = kernel._replace(noise=numbers(0.0)[0])
    assert condition(silent, x, y).coefficients.isfinite().all()
