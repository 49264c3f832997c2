"""Gaussian processes, beside their closed forms on a few points."""

from __future__ import annotations

import math

import pytest
import torch

from kbdisk.experts.gaussian_process import Kernel, fitted, inverse, learnt


def numbers(*of: float) -> torch.Tensor:
    return torch.tensor(of, dtype=torch.float64)


@pytest.fixture
def kernel() -> Kernel:
    return Kernel(straight=numbers(0.5, 0.0), bent=numbers(1.0, 2.0), height=numbers(0.7)[0], noise=numbers(0.1)[0])


def drawn(n: int, width: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_points_are_alike_as_straight_and_as_bent_functions_have_it(kernel):
    found = kernel.between(numbers(1, 2)[None], numbers(3, 1)[None])
    square = 1.0 * (1 - 3) ** 2 + 2.0 * (2 - 1) ** 2
    assert float(found) == pytest.approx(0.5 * 1 * 3 + 0.7 * math.exp(-square / 2))


def test_a_function_goes_by_known_values_as_the_closed_form_has_it(kernel):
    x, y = drawn(12, 2), drawn(12, 1, 1)
    at = drawn(3, 2, 2)
    found = kernel.between(at, x) @ fitted(kernel, x, y).counts
    known = kernel.between(x, x)
    known += (0.1 + 1e-6 * known.diagonal().mean()) * torch.eye(12, dtype=torch.float64)
    torch.testing.assert_close(found, kernel.between(at, x) @ torch.linalg.solve(known, y))


def test_each_is_told_as_if_its_own_value_were_not_known(kernel):
    x, y = drawn(12, 2), drawn(12, 2, 1)
    apart = fitted(kernel, x, y).apart
    for n in range(12):
        others = torch.arange(12) != n
        known = inverse(kernel, x).inverse()[others][:, others]
        expected = kernel.between(x[n : n + 1], x[others]) @ torch.linalg.solve(known, y[others])
        torch.testing.assert_close(apart[n], expected[0])


def test_what_counts_is_learnt():
    """One column is straight, one bends, one is nothing, and one is not looked at."""
    x = drawn(200, 4)
    y = (x[:, 0] + (3 * x[:, 1]).sin())[:, None]
    kernel = learnt(torch.tensor([0, 1, 2, -1]), x, (y - y.mean()) / y.std(), torch.Generator().manual_seed(0))
    assert kernel.straight[0] > 5 * kernel.straight[1:].max()
    assert kernel.bent[1] > 5 * kernel.bent[2]
    assert kernel.straight[3] == kernel.bent[3] == 0
    assert kernel.noise < 0.02


def test_noise_is_taken_for_noise():
    x, y = drawn(200, 2), drawn(200, 1, 1)
    kernel = learnt(torch.tensor([0, 1]), x, y, torch.Generator().manual_seed(0))
    assert kernel.noise > 0.6
    assert fitted(kernel, x, y).apart.square().mean() < 1.2 * y.square().mean()


def test_what_cannot_be_learnt_leaves_what_was(monkeypatch):
    def broken(kernel: Kernel, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        calls.append(kernel)
        return kernel.noise * (1 if len(calls) < 3 else math.nan)

    calls: list[Kernel] = []
    monkeypatch.setattr("kbdisk.experts.gaussian_process._unlikely", broken)
    kernel = learnt(torch.tensor([0, 1]), drawn(20, 2), drawn(20, 1, 1), torch.Generator().manual_seed(0))
    assert len(calls) == 3
    assert all(torch.equal(one, other) for one, other in zip(kernel, calls[1], strict=True))


def test_points_that_are_the_same_are_no_fault(kernel):
    x, y = drawn(4, 2).repeat(20, 1), drawn(80, 1, 1)
    silent = kernel._replace(noise=numbers(0.0)[0])
    assert fitted(silent, x, y).counts.isfinite().all()
