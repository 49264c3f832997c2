"""Kriging beside its closed form in numpy; and what noise and absent neighbours must not do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.experts import kriging
from kbdisk.experts.kriging import MAX_SQUARED_WEIGHTS, SETTINGS
from kbdisk.experts.latent_knn import OWN_ANSWERS, REACHES, LatentIndex, LatentValues

SMOOTHEST = 2  # of the surfaces
ALL = torch.ones(len(SETTINGS), dtype=torch.bool)


def neighbours(rows: int, count: int, width: int, seed: int) -> tuple[torch.Tensor, ...]:
    """Places, all keys, which of them are nearest, and the squared distances of these."""
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(3 * count, width, generator=generator).double()
    at = torch.randn(rows, width, generator=generator).double()
    square, found = torch.cdist(at, keys).square().topk(count, largest=False)
    return at, keys, found, square


def weighted(at: torch.Tensor, keys: torch.Tensor, rows: torch.Tensor, square: torch.Tensor) -> torch.Tensor:
    return kriging.weights(at, keys, rows, torch.ones_like(rows, dtype=torch.bool), square[:, -1:], ALL)


def test_the_weights_are_the_best_linear_unbiased_ones(monkeypatch):
    """Lagrange's equations of kriging, solved with the condition that all add up to 1 as a further row."""
    monkeypatch.setattr(kriging, "MAX_SQUARED_WEIGHTS", 1e9)
    at, keys, rows, square = neighbours(6, 7, 3, 0)
    found = weighted(at, keys, rows, square).numpy()
    for row in range(6):
        points = keys[rows[row]].numpy()
        between = ((points[:, None] - points[None]) ** 2).sum(2)
        scale = square[row, -1].item()
        for one, (reach, noise) in enumerate(SETTINGS):
            left = np.ones((8, 8))
            left[:7, :7] = np.exp(-between / scale / reach) + noise * np.eye(7)
            left[7, 7] = 0
            right = np.append(np.exp(-square[row].numpy() / scale / reach), 1)
            np.testing.assert_allclose(found[row, one], np.linalg.solve(left, right)[:7], atol=1e-6)


def test_a_slope_is_interpolated_and_extrapolated():
    """Between neighbours and beyond the last: where a mean of them is off by a step, this is by a hundredth and a sixth."""
    keys = torch.arange(9.0, dtype=torch.float64)[:, None]
    numbers = 5 + 3 * keys[:, 0]
    for at, off in ((3.5, 0.03), (9.0, 0.5)):
        square, rows = (keys[:, 0] - at).square()[None].sort(1)
        found = weighted(torch.full((1, 1), at).double(), keys, rows, square)
        said = (found[0] * numbers[rows[0]]).sum(1)
        assert (said[SMOOTHEST] - (5 + 3 * at)).abs() < off


@given(st.integers(1, 5), st.integers(1, 12), st.integers(1, 4), st.integers(0, 99), st.data())
def test_weights_of_existing_neighbours_sum_to_one_and_their_squares_are_limited(rows, count, width, seed, data):
    at, keys, which, square = neighbours(rows, count, width, seed)
    some = data.draw(st.integers(0, count))
    there = (torch.arange(count) < some).expand(rows, -1)
    scale = torch.ones(rows, 1, dtype=torch.float64) if some == 0 else square[:, some - 1 : some].clamp(min=1e-6)
    found = kriging.weights(at, keys, which, there, scale, ALL)
    assert found.shape == (rows, len(SETTINGS), count)
    torch.testing.assert_close(found.sum(2), torch.full((rows, len(SETTINGS)), float(some > 0), dtype=torch.float64))
    assert (found[:, :, some:] == 0).all()
    assert (found.square().sum(2) <= max(MAX_SQUARED_WEIGHTS, 1 / max(some, 1)) + 1e-6).all()


def test_neighbours_at_the_same_point_have_equal_weights():
    keys, scale = torch.zeros(8, 2, dtype=torch.float64), torch.full((1, 1), 1e-6).double()
    every = torch.arange(8)[None]
    found = kriging.weights(keys[:1], keys, every, every >= 0, scale, ALL)
    torch.testing.assert_close(found, torch.full_like(found, 1 / 8))


def test_in_chunks_the_weights_are_the_same(monkeypatch):
    found = neighbours(9, 5, 2, 1)
    whole = weighted(*found)
    monkeypatch.setattr(kriging, "MAX_DISTANCES", 50)
    torch.testing.assert_close(weighted(*found), whole)


def test_settings_that_are_not_wanted_have_no_weights():
    at, keys, rows, square = neighbours(9, 5, 2, 1)
    wanted = torch.arange(len(SETTINGS)) % 2 == 1
    found = kriging.weights(at, keys, rows, rows >= 0, square[:, -1:], wanted)
    torch.testing.assert_close(found, weighted(at, keys, rows, square) * wanted[:, None])


def test_the_key_of_an_absent_neighbour_may_be_anything():
    """A vector that is too long for a float16 is infinite; it is nobody's neighbour."""
    at, keys, rows, square = neighbours(1, 3, 2, 0)
    there = torch.tensor([[True, True, False]])
    plain = kriging.weights(at, keys, rows, there, square[:, 1:2], ALL)
    keys[rows[0, 2]] = torch.inf
    torch.testing.assert_close(kriging.weights(at, keys, rows, there, square[:, 1:2], ALL), plain)


@pytest.mark.parametrize("at", range(len(SETTINGS)))
def test_an_answer_is_kriging_s_where_that_has_all_weight(at):
    """The belief's own answers then have next to no weight."""
    generator = torch.Generator().manual_seed(2)
    vectors = torch.randn(80, 2, generator=generator)
    every = torch.arange(80)
    index = LatentIndex.build(LatentValues(vectors, every, every))
    only = torch.zeros_like(index.answer_weights)
    only[OWN_ANSWERS + len(REACHES) + at] = 1
    index.answer_weights[:] = only
    near = index.neighbours(vectors[:5], every[:5], torch.zeros(5, dtype=torch.bool), 16)
    weights = index.weights_of_answers(near)
    torch.testing.assert_close(
        weights[:, OWN_ANSWERS:], index.number_weights(near)[:, len(REACHES) + at], atol=1e-9, rtol=0
    )
    assert weights[:, :OWN_ANSWERS].max() < 1e-9
    plane = vectors.double() @ torch.tensor([2.0, -1.0], dtype=torch.float64)
    off = (weights[:, OWN_ANSWERS:] * plane[near.codes]).sum(1) - plane[:5]
    assert off.abs().max() < 0.5 * plane.std()
