"""An index finds the nearest values, without the excluded ones."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.experts import latent_knn
from kbdisk.experts.latent_knn import REACHES, LatentIndex, LatentValues, Neighbours


def index_of(vectors: torch.Tensor, held: int = 0) -> LatentIndex:
    """Value n is n, and of entity n; the last ones were held out."""
    every = torch.arange(len(vectors))
    known = len(vectors) - held
    first, last = (LatentValues(vectors[some], every[some], every[some]) for some in (slice(known), slice(known, None)))
    return LatentIndex.build(first).with_values(last, held_out=True)


def found(own: LatentIndex, vectors: torch.Tensor, id_hash: int = -1, held: bool = False, most: int = 4) -> Neighbours:
    rows = len(vectors)
    return own.neighbours(vectors, torch.full((rows,), id_hash), torch.full((rows,), held), most)


@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 99))
def test_the_neighbours_are_the_nearest(count, most, seed):
    vectors = torch.randn(count, 3, generator=torch.Generator().manual_seed(seed))
    own = index_of(vectors)
    near = found(own, vectors[:5], most=most)
    at = (vectors - own.mean) / own.deviation
    wanted = torch.cdist(at[:5], own.keys.float(), compute_mode="donot_use_mm_for_euclid_dist").sort(1).values
    got = torch.cdist(at[:5], own.keys.float(), compute_mode="donot_use_mm_for_euclid_dist").gather(1, near.codes)
    torch.testing.assert_close(got, wanted[:, :most], atol=1e-2, rtol=0)


def test_queries_in_chunks_have_the_same_neighbours(monkeypatch):
    vectors = torch.randn(30, 3)
    whole = found(index_of(vectors), vectors)
    monkeypatch.setattr(latent_knn, "MAX_DISTANCES", 60)
    parts = found(index_of(vectors), vectors)
    assert whole.codes.tolist() == parts.codes.tolist()
    torch.testing.assert_close(whole.weights, parts.weights, atol=1e-5, rtol=1e-4)


def test_weights_sum_to_one_within_each_reach_and_fall_with_the_distance():
    vectors = torch.randn(30, 3)
    weights = found(index_of(vectors), vectors, most=9).weights
    assert weights.shape == (30, len(REACHES), 9)
    torch.testing.assert_close(weights.sum(2), torch.ones(30, len(REACHES), dtype=torch.float64))
    assert (weights.diff(dim=2) <= 1e-12).all()
    assert (weights[:, :, 0].diff(dim=1) <= 1e-12).all()  # the further the reach, the less the nearest alone


def test_no_entity_is_its_own_neighbour():
    vectors = torch.randn(9, 3)
    near = found(index_of(vectors), vectors[[5]], id_hash=5, most=9)
    there = near.codes[0][near.weights[0, -1] > 0].tolist()
    assert sorted(there) == [0, 1, 2, 3, 4, 6, 7, 8]
    torch.testing.assert_close(near.weights.sum(2), torch.ones(1, len(REACHES), dtype=torch.float64))


def test_no_held_out_entity_is_the_neighbour_of_another():
    vectors = torch.randn(9, 3)
    own = index_of(vectors, held=4)
    every, fewer = (found(own, vectors[[0]], held=held, most=9) for held in (False, True))
    assert sorted(every.codes[0].tolist()) == list(range(9))
    assert sorted(fewer.codes[0][fewer.weights[0, -1] > 0].tolist()) == [0, 1, 2, 3, 4]


def test_without_neighbours_all_weights_are_zero():
    near = found(index_of(torch.randn(1, 3)), torch.randn(2, 3), id_hash=0)
    assert near.weights.tolist() == torch.zeros(2, len(REACHES), 1).tolist()


def test_neighbours_at_the_same_distance_have_the_same_weight():
    vectors = torch.cat([torch.zeros(3, 2), torch.ones(3, 2)])
    weights = found(index_of(vectors), torch.zeros(1, 2), most=3).weights
    torch.testing.assert_close(weights, torch.full_like(weights, 1 / 3))


def test_masses_are_around_an_answer_only_where_there_are_neighbours():
    own = index_of(torch.randn(3, 2))
    own.around[:] = 0.1
    there, alone = found(own, torch.zeros(1, 2)), found(index_of(torch.randn(1, 3)), torch.randn(1, 3), id_hash=0)
    assert own.masses_around(there).tolist() == [own.around.tolist()]
    assert own.masses_around(alone).tolist() == [[0.0] * len(own.around)]
