"""Surfaces through neighbours' values: the least squared error, told by numpy; what noise and absence may not do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.experts import kriging
from kbdisk.experts.kriging import MOST, SURFACES
from kbdisk.experts.latent_knn_index import OWN, REACHES, Shelf, Values

SMOOTHEST = 2  # of the surfaces
ALL = torch.ones(len(SURFACES), dtype=torch.bool)


def neighbours(rows: int, count: int, width: int, seed: int) -> tuple[torch.Tensor, ...]:
    """Places, all keys, which of them are nearest, and the squared distances of these."""
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(3 * count, width, generator=generator).double()
    at = torch.randn(rows, width, generator=generator).double()
    square, found = torch.cdist(at, keys).square().topk(count, largest=False)
    return at, keys, found, square


def counted(at: torch.Tensor, keys: torch.Tensor, rows: torch.Tensor, square: torch.Tensor) -> torch.Tensor:
    return kriging.counts(at, keys, rows, torch.ones_like(rows, dtype=torch.bool), square[:, -1:], ALL)


def test_they_are_the_best_linear_unbiased_ones(monkeypatch):
    """Lagrange's equations of kriging, solved with the condition that all add up to 1 as a further row."""
    monkeypatch.setattr(kriging, "MOST", 1e9)
    at, keys, rows, square = neighbours(6, 7, 3, 0)
    found = counted(at, keys, rows, square).numpy()
    for row in range(6):
        points = keys[rows[row]].numpy()
        between = ((points[:, None] - points[None]) ** 2).sum(2)
        scale = square[row, -1].item()
        for one, (reach, noise) in enumerate(SURFACES):
            left = np.ones((8, 8))
            left[:7, :7] = np.exp(-between / scale / reach) + noise * np.eye(7)
            left[7, 7] = 0
            right = np.append(np.exp(-square[row].numpy() / scale / reach), 1)
            np.testing.assert_allclose(found[row, one], np.linalg.solve(left, right)[:7], atol=1e-6)


def test_a_slope_is_gone_on_along():
    """Between neighbours and beyond the last: where a mean of them is off by a step, this is by a hundredth and a sixth."""
    keys = torch.arange(9.0, dtype=torch.float64)[:, None]
    numbers = 5 + 3 * keys[:, 0]
    for at, off in ((3.5, 0.03), (9.0, 0.5)):
        square, rows = (keys[:, 0] - at).square()[None].sort(1)
        found = counted(torch.full((1, 1), at).double(), keys, rows, square)
        said = (found[0] * numbers[rows[0]]).sum(1)
        assert (said[SMOOTHEST] - (5 + 3 * at)).abs() < off


@given(st.integers(1, 5), st.integers(1, 12), st.integers(1, 4), st.integers(0, 99), st.data())
def test_they_add_up_to_one_among_those_that_are_there_and_are_tame(rows, count, width, seed, data):
    at, keys, which, square = neighbours(rows, count, width, seed)
    some = data.draw(st.integers(0, count))
    there = (torch.arange(count) < some).expand(rows, -1)
    scale = torch.ones(rows, 1, dtype=torch.float64) if some == 0 else square[:, some - 1 : some].clamp(min=1e-6)
    found = kriging.counts(at, keys, which, there, scale, ALL)
    assert found.shape == (rows, len(SURFACES), count)
    torch.testing.assert_close(found.sum(2), torch.full((rows, len(SURFACES)), float(some > 0), dtype=torch.float64))
    assert (found[:, :, some:] == 0).all()
    assert (found.square().sum(2) <= max(MOST, 1 / max(some, 1)) + 1e-6).all()


def test_the_same_place_many_times_is_no_trouble():
    keys, scale = torch.zeros(8, 2, dtype=torch.float64), torch.full((1, 1), 1e-6).double()
    every = torch.arange(8)[None]
    found = kriging.counts(keys[:1], keys, every, every >= 0, scale, ALL)
    torch.testing.assert_close(found, torch.full_like(found, 1 / 8))


def test_in_parts_they_are_the_same(monkeypatch):
    found = neighbours(9, 5, 2, 1)
    whole = counted(*found)
    monkeypatch.setattr(kriging, "ROOM", 50)
    torch.testing.assert_close(counted(*found), whole)


def test_on_those_that_are_not_wanted_nothing_counts():
    at, keys, rows, square = neighbours(9, 5, 2, 1)
    wanted = torch.arange(len(SURFACES)) % 2 == 1
    found = kriging.counts(at, keys, rows, rows >= 0, square[:, -1:], wanted)
    torch.testing.assert_close(found, counted(at, keys, rows, square) * wanted[:, None])


def test_a_key_that_is_not_there_may_be_anything():
    """A vector that is too long for a float16 is infinite; it is nobody's neighbour."""
    at, keys, rows, square = neighbours(1, 3, 2, 0)
    there = torch.tensor([[True, True, False]])
    plain = kriging.counts(at, keys, rows, there, square[:, 1:2], ALL)
    keys[rows[0, 2]] = torch.inf
    torch.testing.assert_close(kriging.counts(at, keys, rows, there, square[:, 1:2], ALL), plain)


@pytest.mark.parametrize("at", range(len(SURFACES)))
def test_a_shelf_says_what_a_surface_says(at):
    """With one surface worth all, an answer is on it, and the belief's own answers count next to nothing."""
    generator = torch.Generator().manual_seed(2)
    vectors = torch.randn(80, 2, generator=generator)
    every = torch.arange(80)
    shelf = Shelf.of(Values(vectors, every, every))
    said = torch.zeros_like(shelf.said)
    said[OWN + len(REACHES) + at] = 1
    shelf.said[:] = said
    near = shelf.nearest(vectors[:5], every[:5], torch.zeros(5, dtype=torch.bool), 16)
    counts = shelf.saying(near)
    torch.testing.assert_close(counts[:, OWN:], shelf.says(near)[:, len(REACHES) + at], atol=1e-9, rtol=0)
    assert counts[:, :OWN].max() < 1e-9
    plane = vectors.double() @ torch.tensor([2.0, -1.0], dtype=torch.float64)
    off = (counts[:, OWN:] * plane[near.codes]).sum(1) - plane[:5]
    assert off.abs().max() < 0.5 * plane.std()
