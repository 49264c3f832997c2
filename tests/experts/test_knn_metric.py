"""What columns count in a distance: told by a plain loop; learnt where one column tells all and another nothing."""

from __future__ import annotations

import math

import pytest
import torch

from kbdisk.experts.knn_metric import distances, learnt

BLOCK = torch.tensor([0, 0, 1, -1])


def test_distances_are_squared_and_leave_out_what_the_query_hides():
    generator = torch.Generator().manual_seed(0)
    queries, keys = torch.randn(5, 4, generator=generator), torch.randn(7, 4, generator=generator)
    queries[0, 1], keys[2, 3], queries[4] = math.nan, math.nan, math.nan
    weights = torch.tensor([1.0, 2.0, 0.0, 0.5])
    found = distances(weights, queries, keys)
    for row, query in enumerate(queries):
        for place, key in enumerate(keys):
            seen = ~query.isnan()  # what a key lacks counts as the middle of all
            told = (weights * (query - key.nan_to_num()).square())[seen].sum()
            assert found[row, place].item() == pytest.approx(told.item(), abs=1e-4)


@pytest.mark.parametrize("labels", [False, True])
def test_the_column_that_tells_counts_most(labels):
    generator = torch.Generator().manual_seed(0)
    keys = torch.randn(800, 4, generator=generator)
    targets = (keys[:, 2] > 0).long() if labels else torch.stack([keys[:, 2], keys[:, 2] ** 2], 1)
    every = torch.arange(800)
    found = learnt(BLOCK, keys, every, keys, targets, generator)
    assert found[2] > 10 * found[0]
    assert found[0] == found[1]
    assert found[3] == 0


def test_no_time_is_no_trouble():
    keys = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    found = learnt(BLOCK, keys, torch.arange(50), keys, keys[:, :1], torch.Generator().manual_seed(0), seconds=0.0)
    assert found[:3].tolist() == [4.0, 4.0, 4.0]
