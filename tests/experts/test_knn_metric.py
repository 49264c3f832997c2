"""The learnt metric: distances beside a plain loop, and weights where one feature determines the target."""

from __future__ import annotations

import math

import pytest
import torch

from kbdisk.experts.knn import distances, fit_metric

BLOCK = torch.tensor([0, 0, 1, -1])


def test_distances_are_squared_and_leave_out_features_that_the_query_hides():
    generator = torch.Generator().manual_seed(0)
    queries, keys = torch.randn(5, 4, generator=generator), torch.randn(7, 4, generator=generator)
    queries[0, 1], keys[2, 3], queries[4] = math.nan, math.nan, math.nan
    weights = torch.tensor([1.0, 2.0, 0.0, 0.5])
    found = distances(weights, queries, keys)
    for row, query in enumerate(queries):
        for place, key in enumerate(keys):
            seen = ~query.isnan()  # a feature that a key lacks is the mean
            told = (weights * (query - key.nan_to_num()).square())[seen].sum()
            assert found[row, place].item() == pytest.approx(told.item(), abs=1e-4)


@pytest.mark.parametrize("labels", [False, True])
def test_the_feature_that_determines_the_target_weighs_most(labels):
    generator = torch.Generator().manual_seed(0)
    keys = torch.randn(800, 4, generator=generator)
    targets = (keys[:, 2] > 0).long() if labels else torch.stack([keys[:, 2], keys[:, 2] ** 2], 1)
    every = torch.arange(800)
    found = fit_metric(BLOCK, keys, every, keys, targets, generator)
    assert found[2] > 10 * found[0]
    assert found[0] == found[1]
    assert found[3] == 0


def test_without_time_all_blocks_weigh_the_same():
    keys = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    found = fit_metric(BLOCK, keys, torch.arange(50), keys, keys[:, :1], torch.Generator().manual_seed(0), seconds=0.0)
    assert found[:3].tolist() == [4.0, 4.0, 4.0]
