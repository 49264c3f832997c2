"""Weights of predictors: optimal, exactly where the optimum is known."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.experts.weights import (
    MAX_ERROR,
    each_absolute,
    each_mixture,
    each_squares,
    least_squares_weights,
    limited,
    mixture_weights,
    relative_likelihoods,
    squares,
    without_outliers,
)

SIGNS = torch.tensor([[1.0, 1.0, 1.0], [-1.0, 1.0, -1.0], [1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]] * 5, dtype=torch.float64)


def likelihoods(seed: int, n: int = 200, experts: int = 4) -> torch.Tensor:
    return torch.rand(n, experts, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) ** 2


def simplex(seed: int, experts: int = 4, count: int = 200) -> torch.Tensor:
    drawn = torch.rand(count, experts, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return drawn.log().neg() / drawn.log().neg().sum(1, keepdim=True)


@given(st.integers(0, 50))
def test_no_other_weights_make_the_values_more_likely(seed):
    values = likelihoods(seed)
    none = torch.full((4,), 1e-9, dtype=torch.float64)
    best = (values @ mixture_weights(values, none)).log().sum()
    assert ((values @ simplex(seed).T).log().sum(0) <= best + 1e-3).all()


def test_of_two_predictors_that_are_right_in_turn_each_has_its_share():
    values = torch.eye(2, dtype=torch.float64)[[0, 0, 0, 1]]
    none = torch.full((2,), 1e-9, dtype=torch.float64)
    assert mixture_weights(values, none).tolist() == pytest.approx([0.75, 0.25])
    assert mixture_weights(values, torch.tensor([0.0, 4.0], dtype=torch.float64)).tolist() == pytest.approx(
        [3 / 8, 5 / 8]
    )


@given(st.integers(0, 50), st.integers(1, 6))
def test_no_other_weights_have_a_smaller_squared_error(seed, experts):
    errors = torch.randn(30, experts, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.3
    form = squares(limited(errors))
    best = least_squares_weights(form)
    assert best.sum() == pytest.approx(1)
    assert (best >= 0).all()
    others = simplex(seed, experts)
    assert (torch.einsum("se,ef,sf->s", others, form, others) >= best @ form @ best - 1e-6).all()


def test_two_predictors_with_independent_errors_have_equal_weights():
    form = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    assert least_squares_weights(form).tolist() == pytest.approx([0.5, 0.5])
    form = torch.tensor([[1.0, 1.0], [1.0, 1.0]], dtype=torch.float64)  # any weights: they predict the same
    assert least_squares_weights(form).sum() == pytest.approx(1)


def test_one_large_error_does_not_decide():
    errors = torch.tensor([[0.1, 0.2]] * 50 + [[900.0, 0.2]], dtype=torch.float64)
    for form in (limited, without_outliers):
        assert squares(form(errors))[0, 0] <= MAX_ERROR**2


def test_without_errors_the_form_is_zero():
    for form in (limited, without_outliers):
        assert squares(form(torch.zeros(5, 3, dtype=torch.float64))).tolist() == torch.zeros(3, 3).tolist()
    assert least_squares_weights(torch.zeros(3, 3, dtype=torch.float64)).sum() == pytest.approx(1)


# ---------------------------------------------------------------- proven weights


def drawn(seed: int, n: int, worth: float, experts: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """Errors of predictors, the first of size 1 and the others smaller by `worth`; and entities with two values each."""
    generator = torch.Generator().manual_seed(seed)
    errors = torch.randn(n, experts, generator=generator, dtype=torch.float64)
    common = torch.randn(n, 1, generator=generator, dtype=torch.float64)
    errors = torch.cat([common, (1 - worth) * common + 0.1 * errors[:, 1:]], 1)
    return errors, torch.randint(1 << 40, (n // 2,), generator=generator).repeat_interleave(2)


absolute = partial(each_absolute, pull=5.0)


@pytest.mark.parametrize("fit", [each_squares, absolute, each_mixture])
def test_predictors_of_noise_have_no_weight_and_better_ones_have(fit):
    def weights(worth: float) -> list[float]:
        fitted = []
        for seed in range(12):
            errors, entities = drawn(seed, 80, worth)
            own = (-errors.abs()).exp() if fit is each_mixture else errors
            fitted.append(1 - float(fit({0: own}, 20.0, {0: entities})[0][0]))
        return fitted

    assert sum(one > 0 for one in weights(0.0)) <= 4
    assert min(weights(0.4)) > 0.5


def test_a_property_with_few_values_takes_the_weights_of_all():
    properties = {key: drawn(key, 400, 0.4) for key in range(5)}
    few = drawn(9, 6, 0.0)
    entities = {key: numbers for key, (_, numbers) in properties.items()} | {9: few[1]}
    errors = {key: errors for key, (errors, _) in properties.items()} | {9: few[0]}
    for fit in (each_squares, absolute):
        assert fit(errors, 20.0, entities)[9][0] < 0.5
        assert fit({9: few[0]}, 20.0, {9: few[1]})[9][0] == 1


@given(st.integers(0, 50), st.integers(2, 5))
def test_no_other_weights_have_a_smaller_absolute_error(seed, experts):
    generator = torch.Generator().manual_seed(seed)
    errors = torch.randn(60, experts, generator=generator, dtype=torch.float64) + 0.3
    numbers = torch.arange(60)
    best = each_absolute({0: errors}, 0.0, {0: numbers}, 0.0, -math.inf)[0]
    assert best.sum() == pytest.approx(1)
    assert (best >= 0).all()
    least = (errors @ best).abs().mean()
    assert ((errors @ simplex(seed, experts).T).abs().mean(0) >= 0.995 * least).all()


def test_a_predictor_that_is_right_nearly_always_has_the_weight_though_its_squares_are_larger():
    errors = torch.tensor([[2.0, 0.1, 1.0]] * 19 + [[2.0, 9.0, 1.0]], dtype=torch.float64) * SIGNS
    entities = {0: torch.arange(20)}
    by_squares = each_squares({0: errors}, 0.0, entities, required_errors=-math.inf)[0]
    by_size = each_absolute({0: errors}, 0.0, entities, 0.0, -math.inf)[0]
    assert by_squares[1] < 0.5
    assert by_size[1] > 0.9


@pytest.mark.parametrize(
    ("deviations", "best"),
    [
        ([100, 1], 1),
        ([1e3, 1e-2, 0], 2),
        ([1e3, 1e-2, 1e-9], 2),
        ([1e5, 1, 3], 1),
        ([1e6, 1, 3], 1),
        ([1e170, 1, 3], 1),
    ],
)
def test_what_a_far_worse_predictor_adds_is_not_underestimated(deviations, best):
    generator = torch.Generator().manual_seed(0)
    errors = torch.randn(200, len(deviations), generator=generator, dtype=torch.float64) * torch.tensor(
        deviations, dtype=torch.float64
    )
    for fit in (each_squares, absolute):
        weights = fit({0: errors}, 20.0, {0: torch.arange(200)})[0]
        assert float(weights[0]) < 0.002
        assert float(weights[best]) > 0.85


@pytest.mark.parametrize(("values", "outlier"), [(50, 100.0), (200, 1000.0), (500, 1000.0)])
def test_one_outlier_of_the_better_predictor_does_not_decide(values, outlier):
    generator = torch.Generator().manual_seed(0)
    errors = torch.randn(values, 2, generator=generator, dtype=torch.float64) * torch.tensor([3.0, 1.0])
    errors[0, 1] = outlier
    for fit in (each_squares, absolute):
        assert float(fit({0: errors}, 20.0, {0: torch.arange(values)}, required_errors=-math.inf)[0][1]) > 0.5


def test_a_strong_pull_leads_to_the_weights_that_all_properties_have_in_common():
    errors = {key: torch.tensor([[2.0, 0.5, 1.0]] * 40, dtype=torch.float64) * SIGNS.repeat(2, 1) for key in range(4)}
    errors[4] = torch.tensor([[2.0, 1.0, 0.5]] * 40, dtype=torch.float64) * SIGNS.repeat(2, 1)
    entities = {key: torch.arange(40) for key in errors}
    freely, pulled = (each_absolute(errors, 0.0, entities, pull, -math.inf)[4] for pull in (0.0, 1e6))
    assert freely[2] > freely[1]
    assert pulled[1] > pulled[2]


def test_the_first_predictors_share_all_weight_where_others_are_not_proven():
    errors, entities = drawn(0, 80, 0.0)
    errors = torch.cat([errors[:, :1], -0.5 * errors[:, :1], errors[:, :1] + 3 * errors[:, 2:]], 1)
    fitted = each_squares({0: errors}, 20.0, {0: entities}, first=2)[0]
    assert fitted[:2].tolist() == pytest.approx([1 / 3, 2 / 3], abs=0.05)
    assert fitted[2:].sum() < 0.05


def test_without_values_the_first_predictor_has_all_weight():
    nothing = torch.zeros(0, 3, dtype=torch.float64)
    assert each_mixture({0: nothing}, 0.0, {0: torch.zeros(0, dtype=torch.long)})[0].tolist() == [1, 0, 0]


# ---------------------------------------------------------------- predictors that lack properties


@pytest.mark.parametrize("fit", [each_squares, absolute, each_mixture])
def test_a_predictor_that_lacks_a_property_has_no_weight_there_and_changes_nothing(fit):
    errors, entities = drawn(1, 200, 0.3, experts=3)
    own = (-errors.abs()).exp() if fit is each_mixture else errors
    lacking = torch.cat([own[:, :1], own[:, :1] * torch.nan, own[:, 1:]], 1)
    without = fit({0: own}, 20.0, {0: entities})[0]
    beside = fit({0: lacking}, 20.0, {0: entities})[0]
    assert beside[1] == 0
    assert beside[[0, 2, 3]].tolist() == pytest.approx(without.tolist(), abs=0.02)


def test_what_properties_have_in_common_is_told_by_those_that_have_a_predictor():
    errors, entities = drawn(2, 400, 0.5, experts=3)
    few, others = drawn(3, 8, 0.0, experts=3)
    errors_of_all = {0: errors, 1: torch.cat([few[:, :2], few[:, 2:] * torch.nan], 1)}
    weights = each_squares(errors_of_all, 200.0, {0: entities, 1: others}, required_errors=0.0)
    assert weights[0][1:].sum() > 0.8
    assert weights[1][1] > 0.8
    assert weights[1][2] == 0


def test_lacking_values_leave_the_weights_of_a_mixture_to_the_others():
    values = torch.eye(2, dtype=torch.float64)[[0, 0, 0, 1]].repeat(10, 1)
    values = torch.cat([values, torch.full((40, 1), torch.nan, dtype=torch.float64)], 1)
    prior = torch.tensor([1e-9, 1e-9, 0.0], dtype=torch.float64)
    assert mixture_weights(values, prior)[:2].tolist() == pytest.approx([0.75, 0.25], abs=1e-3)


def test_relative_likelihoods_keep_what_is_lacking():
    logs = torch.tensor([[-5.0, torch.nan, -6.0], [-torch.inf, torch.nan, -2.0]], dtype=torch.float64)
    relative = relative_likelihoods(logs)
    assert relative[:, 1].isnan().all()
    assert relative[:, [0, 2]].flatten().tolist() == pytest.approx([1, math.exp(-1), 0, 1])
