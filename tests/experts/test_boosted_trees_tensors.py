"""Trees as tensors predict what CatBoost predicts, of rows that it has seen and of others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from catboost import CatBoost

from kbdisk.experts.trees import SymmetricTrees as Trees


def table(n: int, seed: int) -> np.ndarray:
    """Rows of which some lack values; one column never does where trees learn."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5)).astype(np.float32)
    x[:, :4][rng.random((n, 4)) < 0.2] = np.nan
    x[:, 3] = x[:, 3] > 0
    return x


def grown(loss: str, truth: np.ndarray, **settings: object) -> CatBoost:
    plain = {"iterations": 40, "depth": 4, "allow_writing_files": False, "logging_level": "Silent"}
    return CatBoost({**plain, "loss_function": loss, **settings}).fit(table(300, 0), truth)


@pytest.mark.parametrize("settings", [{}, {"boost_from_average": True}, {"depth": 1}, {"iterations": 1}])
def test_numbers_are_those_of_catboost(settings):
    x = table(300, 0)
    booster = grown("RMSE", 1000 + np.nan_to_num(x[:, 0]) * 3 + np.isnan(x[:, 1]), **settings)
    for rows in (x, table(50, 1), np.full((2, 5), np.nan, np.float32)):
        told = Trees.of(booster)(torch.from_numpy(rows))
        np.testing.assert_allclose(told[:, 0].numpy(), booster.predict(rows), rtol=1e-5)


def test_probabilities_of_labels_are_those_of_catboost():
    x = table(300, 0)
    booster = grown("MultiClass", np.digitize(np.nan_to_num(x[:, 4]), [-0.5, 0.5]))
    told = Trees.of(booster)(torch.from_numpy(table(60, 2))).softmax(1)
    np.testing.assert_allclose(told.numpy(), booster.predict(table(60, 2), prediction_type="Probability"), atol=1e-5)


@pytest.mark.parametrize("loss", ["RMSE", "MultiClass"])
def test_rows_in_chunks_have_the_same_predictions(monkeypatch, loss):
    x = table(300, 0)
    trees = Trees.of(grown(loss, np.digitize(np.nan_to_num(x[:, 4]), [-0.5, 0.5])))
    whole = trees(torch.from_numpy(table(50, 3)))
    monkeypatch.setattr("kbdisk.experts.trees.CACHED_ANSWERS", 500)
    torch.testing.assert_close(trees(torch.from_numpy(table(50, 3))), whole)


def test_without_trees_levels_or_rows_the_prediction_is_the_start():
    start = torch.tensor([2.0, -1.0], dtype=torch.float64)
    x = torch.randn(3, 5)
    none = Trees(torch.zeros(0, 4, dtype=torch.long), torch.zeros(0, 4), torch.zeros(0, 16, 2), start)
    assert torch.equal(none(x), start.expand(3, -1))
    leaf = Trees(torch.zeros(1, 0, dtype=torch.long), torch.zeros(1, 0), torch.full((1, 1, 2), 0.5), start)
    assert torch.equal(leaf(x), (start + 0.5).expand(3, -1))
    assert leaf(x[:0]).shape == (0, 2)


def test_averaged_trees_predict_the_average():
    x = table(300, 0)
    rows = torch.from_numpy(table(50, 1))
    several = [
        Trees.of(grown("RMSE", np.nan_to_num(x[:, 0]), random_seed=n, depth=depth)) for n, depth in enumerate((2, 4))
    ]
    told = torch.stack([one(rows) for one in several]).mean(0)
    torch.testing.assert_close(Trees.averaged(several)(rows), told, rtol=1e-5, atol=1e-6)
