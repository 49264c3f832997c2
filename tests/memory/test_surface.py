"""Surfaces through the values of neighbours: the least squared error, told by numpy; what neither noise nor absence may do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.memory import surface
from kbdisk.memory.shelf import OWN, REACHES, Shelf, Values
from kbdisk.memory.surface import MOST, SURFACES

ALL = torch.ones(len(SURFACES), dtype=torch.bool)


def neighbours(rows: int, count: int, width: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Squared distances and their scale, which ones, and all keys."""
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(3 * count, width, generator=generator).double()
    at = torch.randn(rows, width, generator=generator).double()
    square, found = torch.cdist(at, keys).square().topk(count, largest=False)
    return square, found, keys


def counted(square: torch.Tensor, rows: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    return surface.counts(square, square[:, -1:], rows, keys, ALL)


def test_they_are_the_best_linear_unbiased_ones(monkeypatch):
    """Lagrange's equations of kriging, solved with the condition that all add up to 1 as a further row."""
    monkeypatch.setattr(surface, "MOST", 1e9)
    square, rows, keys = neighbours(6, 7, 3, 0)
    found = counted(square, rows, keys).numpy()
    for row in range(6):
        points = keys[rows[row]].numpy()
        between = ((points[:, None] - points[None]) ** 2).sum(2)
        scale = square[row, -1].item()
        for at, (reach, noise) in enumerate(SURFACES):
            left = np.ones((8, 8))
            left[:7, :7] = np.exp(-between / scale / reach) + noise * np.eye(7)
            left[7, 7] = 0
            right = np.append(np.exp(-square[row].numpy() / scale / reach), 1)
            np.testing.assert_allclose(found[row, at], np.linalg.solve(left, right)[:7], atol=1e-6)


def test_a_slope_is_gone_on_along():
    """Between neighbours, and beyond the last one: where a mean of neighbours is off by a step, this is by a hundredth and a sixth."""
    keys = torch.arange(9.0, dtype=torch.float64)[:, None]
    numbers = 5 + 3 * keys[:, 0]
    for at, off in ((3.5, 0.03), (9.0, 0.5)):
        square, rows = (keys[:, 0] - at).square()[None].sort(1)
        found = counted(square, rows, keys)
        said = (found[0] * numbers[rows[0]]).sum(1)
        assert (said - (5 + 3 * at)).abs().min() < off


@given(st.integers(1, 5), st.integers(1, 12), st.integers(1, 4), st.integers(0, 99), st.data())
def test_they_add_up_to_one_among_those_that_are_there_and_are_tame(rows, count, width, seed, data):
    square, which, keys = neighbours(rows, count, width, seed)
    some = data.draw(st.integers(0, count))
    square[:, some:] = torch.inf
    scale = torch.ones(rows, 1, dtype=torch.float64) if some == 0 else square[:, some - 1 : some].clamp(min=1e-6)
    found = surface.counts(square, scale, which, keys, ALL)
    assert found.shape == (rows, len(SURFACES), count)
    torch.testing.assert_close(found.sum(2), torch.full((rows, len(SURFACES)), float(some > 0), dtype=torch.float64))
    assert (found[:, :, some:] == 0).all()
    assert (found.square().sum(2) <= max(MOST, 1 / max(some, 1)) + 1e-6).all()


def test_the_same_place_many_times_is_no_trouble():
    keys = torch.zeros(8, 2, dtype=torch.float64)
    found = surface.counts(
        torch.zeros(1, 8, dtype=torch.float64), torch.full((1, 1), 1e-6).double(), torch.arange(8)[None], keys, ALL
    )
    torch.testing.assert_close(found, torch.full_like(found, 1 / 8))


def test_in_parts_they_are_the_same(monkeypatch):
    square, rows, keys = neighbours(9, 5, 2, 1)
    whole = counted(square, rows, keys)
    monkeypatch.setattr(surface, "PART", 2)
    torch.testing.assert_close(counted(square, rows, keys), whole)


def test_on_those_that_are_not_wanted_nothing_counts():
    square, rows, keys = neighbours(9, 5, 2, 1)
    wanted = torch.arange(len(SURFACES)) % 2 == 1
    found = surface.counts(square, square[:, -1:], rows, keys, wanted)
    torch.testing.assert_close(found, counted(square, rows, keys) * wanted[:, None])


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
