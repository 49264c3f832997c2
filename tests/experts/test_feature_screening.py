"""Which features the trees of a property use."""

from __future__ import annotations

import torch

from kbdisk.experts import feature_screening
from kbdisk.experts.feature_screening import best_columns, binned, gains, varying


def table(rows: int = 400) -> tuple[torch.Tensor, torch.Tensor]:
    """Ten columns of noise, one that goes along with the target, and one whose lack tells it; and the target."""
    generator = torch.Generator().manual_seed(0)
    target = torch.randn(rows, generator=generator)
    x = torch.randn(rows, 12, generator=generator)
    x[:, 4] = (target + x[:, 4] / 2).exp()
    x[target > 0, 9] = torch.nan
    return x, target[:, None]


def test_features_that_explain_the_target_are_kept_and_noise_is_not():
    x, target = table()
    assert best_columns(x, target, 2).tolist() == [4, 9]
    noise = gains(x, target)[[column for column in range(12) if column not in (4, 9)]]
    assert noise.abs().max() < 0.1  # 16 degrees of freedom of 400 rows: four standard errors are 0.06


def test_few_features_are_all_kept():
    x, target = table()
    assert best_columns(x, target, 12).tolist() == list(range(12))


def test_the_best_features_are_kept_as_far_as_they_are_affordable(monkeypatch):
    monkeypatch.setattr(feature_screening, "FEWEST_COLUMNS", 1)
    x, target = table()
    costs = torch.full((12,), 10.0)
    assert best_columns(x, target, 12, costs, 120.0).tolist() == list(range(12))
    assert best_columns(x, target, 12, costs, 29.0).tolist() == [4, 9]
    assert best_columns(x, target, 12, costs, 0.0).tolist() in ([4], [9])
    monkeypatch.setattr(feature_screening, "FEWEST_COLUMNS", 2)
    assert best_columns(x, target, 12, costs, 0.0).tolist() == [4, 9]


def test_where_no_feature_explains_the_target_one_is_kept():
    x = torch.zeros(50, 5)
    assert best_columns(x, torch.randn(50, 1, generator=torch.Generator().manual_seed(1)), 3).tolist() == [0]


def test_no_feature_explains_a_constant_target():
    x, _ = table(50)
    assert gains(x, torch.ones(50, 1)).max() <= 0


def test_few_values_have_a_bin_each_and_missing_ones_their_own():
    x = torch.tensor([[3.0], [1.0], [torch.nan], [3.0], [2.0]])
    assert binned(x)[:, 0].tolist() == [2, 0, 16, 2, 1]


def test_a_feature_varies_where_it_is_known_of_some_rows_alone():
    x = torch.tensor([[1.0, 1.0, torch.nan, torch.nan], [1.0, 2.0, torch.nan, 3.0]])
    assert varying(x).tolist() == [False, True, False, True]
    assert not varying(x[:0]).any()
