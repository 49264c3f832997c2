"""What experts are worth: the best there is, to the last digit where it can be known."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.experts.weights import FURTHEST, each_least, each_masses, least, masses, squares


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


# ---------------------------------------------------------------- what is proven


def told(seed: int, n: int, worth: float, experts: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """Errors of experts, the first with one of 1 and the others with one of so much less; and whose, two values each."""
    generator = torch.Generator().manual_seed(seed)
    errors = torch.randn(n, experts, generator=generator, dtype=torch.float64)
    common = torch.randn(n, 1, generator=generator, dtype=torch.float64)
    errors = torch.cat([common, (1 - worth) * common + 0.1 * errors[:, 1:]], 1)
    return errors, torch.randint(1 << 40, (n // 2,), generator=generator).repeat_interleave(2)


@pytest.mark.parametrize("learn", [each_least, each_masses])
def test_experts_who_add_noise_have_no_share_and_those_who_know_better_have(learn):
    def shares(worth: float) -> list[float]:
        found = []
        for seed in range(12):
            errors, whose = told(seed, 80, worth)
            own = errors if learn is each_least else (-errors.abs()).exp()
            found.append(1 - float(learn({0: own}, 20.0, {0: whose})[0][0]))
        return found

    assert sum(one > 0 for one in shares(0.0)) <= 4
    assert min(shares(0.4)) > 0.5


def test_a_few_values_go_by_what_is_so_for_all():
    places = {place: told(place, 400, 0.4) for place in range(5)}
    few = told(9, 6, 0.0)
    whose = {place: who for place, (_, who) in places.items()} | {9: few[1]}
    wrong = {place: errors for place, (errors, _) in places.items()} | {9: few[0]}
    assert each_least(wrong, 20.0, whose)[9][0] < 0.5
    assert each_least({9: few[0]}, 20.0, {9: few[1]})[9][0] == 1


def test_the_first_experts_share_what_others_are_not_worth():
    errors, whose = told(0, 80, 0.0)
    errors = torch.cat([errors[:, :1], -0.5 * errors[:, :1], errors[:, :1] + 3 * errors[:, 2:]], 1)
    found = each_least({0: errors}, 20.0, {0: whose}, first=2)[0]
    assert found[:2].tolist() == pytest.approx([1 / 3, 2 / 3], abs=0.05)
    assert found[2:].sum() < 0.05


def test_of_no_values_the_first_expert_has_all():
    nothing = torch.zeros(0, 3, dtype=torch.float64)
    assert each_masses({0: nothing}, 0.0, {0: torch.zeros(0, dtype=torch.long)})[0].tolist() == [1, 0, 0]
