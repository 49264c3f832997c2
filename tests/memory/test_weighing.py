"""What experts are worth: the best there is, to the last digit where it can be known."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.memory.weighing import FURTHEST, least, masses, squares


def chances(seed: int, n: int = 200, experts: int = 4) -> torch.Tensor:
    return torch.rand(n, experts, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) ** 2


def simplex(seed: int, experts: int = 4, count: int = 200) -> torch.Tensor:
    drawn = torch.rand(count, experts, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return drawn.log().neg() / drawn.log().neg().sum(1, keepdim=True)


@given(st.integers(0, 50))
def test_no_other_shares_give_the_values_more(seed):
    said = chances(seed)
    none = torch.full((4,), 1e-9, dtype=torch.float64)
    best = (said @ masses(said, none)).log().sum()
    assert ((said @ simplex(seed).T).log().sum(0) <= best + 1e-3).all()


def test_of_two_that_are_always_right_in_turn_each_gets_its_share():
    said = torch.eye(2, dtype=torch.float64)[[0, 0, 0, 1]]
    none = torch.full((2,), 1e-9, dtype=torch.float64)
    assert masses(said, none).tolist() == pytest.approx([0.75, 0.25])
    assert masses(said, torch.tensor([0.0, 4.0], dtype=torch.float64)).tolist() == pytest.approx([3 / 8, 5 / 8])


@given(st.integers(0, 50), st.integers(1, 6))
def test_no_other_shares_make_a_form_less(seed, experts):
    errors = torch.randn(30, experts, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.3
    form = squares(errors)
    best = least(form)
    assert best.sum() == pytest.approx(1)
    assert (best >= 0).all()
    others = simplex(seed, experts)
    assert (torch.einsum("se,ef,sf->s", others, form, others) >= best @ form @ best - 1e-6).all()


def test_of_two_experts_who_err_alike_both_count():
    form = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    assert least(form).tolist() == pytest.approx([0.5, 0.5])
    form = torch.tensor([[1.0, 1.0], [1.0, 1.0]], dtype=torch.float64)  # no matter: they say the same
    assert least(form).sum() == pytest.approx(1)


def test_one_error_far_out_does_not_decide():
    errors = torch.tensor([[0.1, 0.2]] * 50 + [[900.0, 0.2]], dtype=torch.float64)
    form = squares(errors)
    assert form[0, 0] <= FURTHEST**2


def test_errors_of_none_are_none():
    assert squares(torch.zeros(5, 3, dtype=torch.float64)).tolist() == torch.zeros(3, 3).tolist()
    assert least(torch.zeros(3, 3, dtype=torch.float64)).sum() == pytest.approx(1)
