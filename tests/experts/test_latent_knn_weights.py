"""The weights of latent neighbours and of kriging, fitted to held-out values."""

from __future__ import annotations

import pytest
import safetensors.torch
import torch

from kbdisk.experts import serialize
from kbdisk.experts.base import USUALLY_VISIBLE
from kbdisk.experts.config import LatentKNNConfig
from kbdisk.experts.latent_knn import (
    OWN_ANSWERS,
    REACHES,
    HeldOutBeliefs,
    LatentIndex,
    LatentKNN,
    LatentValues,
    with_weights,
)
from kbdisk.leaves.number import NumberBelief, NumberCodec, NumberConfig
from kbdisk.leaves.number.codec import CodecTables
from kbdisk.leaves.number.densities import Mixture
from kbdisk.schemas.kinds import Number

KEY = (0, USUALLY_VISIBLE)
HELD = 100


@pytest.fixture(scope="module")
def plane() -> tuple[LatentIndex, LatentValues, NumberBelief, torch.Tensor]:
    """500 numbers that rise with their vectors, which the belief does not know; weights are fitted to 100 of them."""
    generator = torch.Generator().manual_seed(0)
    vectors = torch.rand(500, 2, generator=generator)
    numbers = (30 * vectors[:, 0] - 10 * vectors[:, 1] ** 2).double().round(decimals=3)
    codec = NumberCodec.fit(Number(), numbers.tolist(), NumberConfig())
    codes, every = codec.encode(numbers.tolist()), torch.arange(500)
    known, held = (LatentValues(vectors[some], codes[some], every[some]) for some in (slice(-HELD), slice(-HELD, None)))
    zeros = torch.zeros(HELD, 1)
    shares = torch.cat([zeros, torch.full((HELD, len(codec.atoms)), -torch.inf)], 1)
    slot = torch.zeros(HELD, dtype=torch.long)
    belief = NumberBelief(Mixture(zeros, zeros, zeros + 1), shares, slot, CodecTables([codec]))
    beliefs = HeldOutBeliefs()
    for rows in torch.arange(HELD).split(60):
        beliefs.append(LatentValues(*(one[rows] for one in held)), belief.pick(rows))
    (index,) = with_weights({KEY: LatentIndex.build(known)}, {KEY: beliefs}, LatentKNNConfig()).values()
    return index, held, belief, numbers[-HELD:]


def test_kriging_predicts_a_slope_and_has_the_weight(plane):
    """The mean of neighbours is off on a slope; kriging is near, and so is the belief's median."""
    index, held, belief, truth = plane
    near = index.neighbours(held.vectors, held.entities, torch.ones(HELD, dtype=torch.bool), 64)
    interpolated = belief.interpolated(near.codes, index.belief_mass(near), index.weights_of_answers(near))
    after = interpolated.with_mass_around(interpolated.expected(), index.masses_around(near))
    neighbours = (near.weights[:, 1] * interpolated.numbers(near.codes)).sum(1)
    off, mean = (after.expected() - truth).abs().mean(), (neighbours - truth).abs().mean()
    assert off < 0.6 * mean
    assert index.answer_weights[OWN_ANSWERS + len(REACHES) :].sum() > 0.9
    assert index.around.sum() > 0.9
    assert (after.median() - truth).abs().mean() < 2 * off
    assert (after.log_prob(held.codes) - interpolated.log_prob(held.codes)).mean() > 0.5


def test_held_out_values_are_kept_as_such(plane):
    index, held, _, _ = plane
    assert index.entities[index.held_out].tolist() == held.entities.tolist()
    assert len(index) == 500


@pytest.mark.parametrize("name", ["mass", "answer_weights", "around", "codes"])
def test_an_index_that_does_not_fit_is_refused(plane, tmp_path, name, tiny_model):
    index, held, _, _ = plane
    file, codec = tmp_path / "latent_knn.safetensors", tiny_model.codec
    latent = LatentKNN({KEY: index}, torch.zeros(len(codec.classes), dtype=torch.long), held.entities, 64)
    file.write_bytes(serialize.to_bytes(serialize.LATENT_KNN, latent))
    assert torch.equal(
        serialize.read(serialize.LATENT_KNN, file, codec, torch.device("cpu")).indices[KEY].around, index.around
    )
    told = safetensors.torch.load(serialize.to_bytes(serialize.LATENT_KNN, latent))
    right = getattr(index, name)
    for wrong in (right[:-1], -right - 1) if name == "around" else (right[:-1],):
        file.write_bytes(safetensors.torch.save({**told, f"{KEY[0]}.{KEY[1]}.{name}": wrong.contiguous()}))
        with pytest.raises(ValueError, match="expected"):
            serialize.read(serialize.LATENT_KNN, file, codec, torch.device("cpu"))
