"""Trees as tensors predict what the library that grew them predicts, of rows that it has seen and of others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from catboost import CatBoost
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingRegressor

from kbdisk.experts.trees import MAX_LEAVES, LeafwiseTrees, SymmetricTrees


def table(n: int, seed: int) -> np.ndarray:
    """Rows of which some lack values; one column never does where trees learn."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5)).astype(np.float32)
    x[:, :4][rng.random((n, 4)) < 0.2] = np.nan
    x[:, 3] = x[:, 3] > 0
    return x


def grown(loss: str, truth: np.ndarray, **changed: object) -> CatBoost:
    plain = {"iterations": 40, "depth": 4, "allow_writing_files": False, "logging_level": "Silent"}
    return CatBoost({**plain, "loss_function": loss, **changed}).fit(table(300, 0), truth)


@pytest.mark.parametrize("changed", [{}, {"boost_from_average": True}, {"depth": 1}, {"iterations": 1}])
def test_numbers_are_those_of_catboost(changed):
    x = table(300, 0)
    booster = grown("RMSE", 1000 + np.nan_to_num(x[:, 0]) * 3 + np.isnan(x[:, 1]), **changed)
    for rows in (x, table(50, 1), np.full((2, 5), np.nan, np.float32)):
        predicted = SymmetricTrees.of(booster)(torch.from_numpy(rows))
        np.testing.assert_allclose(predicted[:, 0].numpy(), booster.predict(rows), rtol=1e-5)


def test_probabilities_of_labels_are_those_of_catboost():
    x = table(300, 0)
    booster = grown("MultiClass", np.digitize(np.nan_to_num(x[:, 4]), [-0.5, 0.5]))
    predicted = SymmetricTrees.of(booster)(torch.from_numpy(table(60, 2))).softmax(1)
    np.testing.assert_allclose(
        predicted.numpy(), booster.predict(table(60, 2), prediction_type="Probability"), atol=1e-5
    )


@pytest.mark.parametrize("loss", ["RMSE", "MultiClass"])
def test_rows_in_chunks_have_the_same_predictions(monkeypatch, loss):
    x = table(300, 0)
    trees = SymmetricTrees.of(grown(loss, np.digitize(np.nan_to_num(x[:, 4]), [-0.5, 0.5])))
    whole = trees(torch.from_numpy(table(50, 3)))
    monkeypatch.setattr("kbdisk.experts.trees.CACHED_ANSWERS", 500)
    torch.testing.assert_close(trees(torch.from_numpy(table(50, 3))), whole)


def test_without_trees_levels_or_rows_the_prediction_is_the_start():
    start = torch.tensor([2.0, -1.0], dtype=torch.float64)
    x = torch.randn(3, 5)
    none = SymmetricTrees(torch.zeros(0, 4, dtype=torch.long), torch.zeros(0, 4), torch.zeros(0, 16, 2), start)
    assert torch.equal(none(x), start.expand(3, -1))
    leaf = SymmetricTrees(torch.zeros(1, 0, dtype=torch.long), torch.zeros(1, 0), torch.full((1, 1, 2), 0.5), start)
    assert torch.equal(leaf(x), (start + 0.5).expand(3, -1))
    assert leaf(x[:0]).shape == (0, 2)


def test_averaged_trees_predict_the_average():
    x = table(300, 0)
    rows = torch.from_numpy(table(50, 1))
    several = [
        SymmetricTrees.of(grown("RMSE", np.nan_to_num(x[:, 0]), random_seed=n, depth=depth))
        for n, depth in enumerate((2, 4))
    ]
    predicted = torch.stack([trees(rows) for trees in several]).mean(0)
    torch.testing.assert_close(SymmetricTrees.averaged(several)(rows), predicted, rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------- leafwise trees


def leafwise(
    x: np.ndarray, truth: np.ndarray, **changed: object
) -> tuple[HistGradientBoostingRegressor, LeafwiseTrees]:
    plain = {"max_iter": 30, "max_leaf_nodes": MAX_LEAVES, "min_samples_leaf": 3, "early_stopping": False}
    booster = HistGradientBoostingRegressor(**{**plain, **changed}).fit(x, truth)
    nodes = [of_round[0].nodes for of_round in booster._predictors]
    return booster, LeafwiseTrees.of(nodes, x.shape[1], float(truth.mean()))


@pytest.mark.parametrize(
    "changed", [{}, {"max_iter": 1}, {"max_leaf_nodes": 2}, {"max_leaf_nodes": 5}, {"max_depth": 3}]
)
def test_numbers_of_leafwise_trees_are_those_of_the_library(changed):
    x = table(300, 0)
    booster, trees = leafwise(x, 1000 + np.nan_to_num(x[:, 0]) * 3 + np.isnan(x[:, 1]), **changed)
    for rows in (x, table(50, 1), np.full((2, 5), np.nan, np.float32)):
        predicted = trees(torch.from_numpy(rows))
        np.testing.assert_allclose(predicted[:, 0].numpy(), booster.predict(rows), rtol=1e-6)


@settings(max_examples=30)
@given(st.integers(0, 1000), st.sampled_from([1.0, 1e-6, 1e12]), st.sampled_from([0, 1, 2]))
def test_neighbouring_numbers_go_the_ways_that_the_library_says(seed, unit, decimals):
    rng = np.random.default_rng(seed)
    x = (1 + np.round(rng.normal(size=(80, 3)), decimals) * 1e-6).astype(np.float32) * np.float32(unit)
    x[rng.random(x.shape) < 0.3] = np.nan
    x[:, 0] = np.nan_to_num(x[:, 0])
    booster, trees = leafwise(x, rng.normal(size=80) + np.isnan(x[:, 1]), max_iter=5)
    np.testing.assert_allclose(trees(torch.from_numpy(x))[:, 0].numpy(), booster.predict(x), rtol=1e-5, atol=1e-6)


def test_a_column_that_splits_unknown_values_from_known_ones_tells_them_apart():
    x = np.where(np.arange(100) % 3 == 0, np.nan, 1.0).astype(np.float32)[:, None]
    x = np.concatenate([x, np.random.default_rng(0).normal(size=(100, 1)).astype(np.float32)], 1)
    _, trees = leafwise(x, np.isnan(x[:, 0]) * 10.0, learning_rate=1.0)
    assert set(trees(torch.from_numpy(x))[:, 0].round().tolist()) == {0.0, 10.0}


def test_averaged_leafwise_trees_predict_the_average():
    x, rows = table(300, 0), torch.from_numpy(table(50, 1))
    several = [leafwise(x, np.nan_to_num(x[:, n]), max_leaf_nodes=leaves)[1] for n, leaves in enumerate((3, 31))]
    mean = torch.stack([trees(rows) for trees in several]).mean(0)
    torch.testing.assert_close(LeafwiseTrees.averaged(several)(rows), mean, rtol=1e-5, atol=1e-6)


def test_leafwise_trees_predict_rows_in_chunks_as_all_at_once(monkeypatch):
    x, rows = table(300, 0), torch.from_numpy(table(50, 1))
    _, trees = leafwise(x, np.nan_to_num(x[:, 0]))
    whole = trees(rows)
    monkeypatch.setattr("kbdisk.experts.trees.CACHED_ANSWERS", 100)
    torch.testing.assert_close(trees(rows), whole)


def test_without_leafwise_trees_or_rows_the_prediction_is_the_mean():
    none = LeafwiseTrees.of([], 4, 2.5)
    assert none(torch.randn(3, 4))[:, 0].tolist() == [2.5] * 3
    assert none(torch.randn(0, 4)).shape == (0, 1)
