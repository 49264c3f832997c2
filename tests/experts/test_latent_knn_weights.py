"""What neighbours and surfaces are worth: told by held-out values, and believed then."""

from __future__ import annotations

import pytest
import safetensors.torch
import torch

from kbdisk.experts import serialize
from kbdisk.experts.config import LatentKNNConfig
from kbdisk.experts.latent_knn import ENOUGH, Memory
from kbdisk.experts.latent_knn_index import OWN, REACHES, Shelf, Values
from kbdisk.experts.latent_knn_weights import Heard, weighed
from kbdisk.leaves.number import NumberBelief, NumberCodec, NumberConfig
from kbdisk.leaves.number.around import centred
from kbdisk.leaves.number.mixture import Mixture
from kbdisk.leaves.number.tables import Tables
from kbdisk.schemas.leaf import Number

PLACE = (0, ENOUGH)
HELD = 100


@pytest.fixture(scope="module")
def plane() -> tuple[Shelf, Values, NumberBelief, torch.Tensor]:
    """500 numbers that rise with their vectors, of which a belief knows nothing; 100 tell what neighbours are worth."""
    generator = torch.Generator().manual_seed(0)
    vectors = torch.rand(500, 2, generator=generator)
    numbers = (30 * vectors[:, 0] - 10 * vectors[:, 1] ** 2).double().round(decimals=3)
    codec = NumberCodec.fit(Number(), numbers.tolist(), NumberConfig())
    codes, every = codec.encode(numbers.tolist()), torch.arange(500)
    known, held = (Values(vectors[some], codes[some], every[some]) for some in (slice(-HELD), slice(-HELD, None)))
    zeros = torch.zeros(HELD, 1)
    shares = torch.cat([zeros, torch.full((HELD, len(codec.atoms)), -torch.inf)], 1)
    slot = torch.zeros(HELD, dtype=torch.long)
    belief = NumberBelief(Mixture(zeros, zeros, zeros + 1), shares, slot, Tables([codec]))
    heard = Heard()
    for rows in torch.arange(HELD).split(60):
        heard.take(Values(*(one[rows] for one in held)), belief.pick(rows))
    (shelf,) = weighed({PLACE: Shelf.of(known)}, {PLACE: heard}, LatentKNNConfig()).values()
    return shelf, held, belief, numbers[-HELD:]


def test_surfaces_tell_what_rises_and_are_believed(plane):
    """Neighbours' mean is off where numbers rise; what surfaces answer is near, and so is the belief's median."""
    shelf, held, belief, truth = plane
    near = shelf.nearest(held.vectors, held.who, torch.ones(HELD, dtype=torch.bool), 64)
    recalled = belief.recalled(near.codes, shelf.believing(near), shelf.saying(near))
    after = centred(recalled, shelf.surrounding(near))
    neighbours = (near.counts[:, 1] * recalled.numbers(near.codes)).sum(1)
    off, mean = (after.expected() - truth).abs().mean(), (neighbours - truth).abs().mean()
    assert off < 0.6 * mean
    assert shelf.said[OWN + len(REACHES) :].sum() > 0.9
    assert shelf.around.sum() > 0.9
    assert (after.median() - truth).abs().mean() < 2 * off
    assert (after.log_prob(held.codes) - recalled.log_prob(held.codes)).mean() > 0.5


def test_held_out_values_are_kept_as_such(plane):
    shelf, held, _, _ = plane
    assert shelf.who[shelf.held].tolist() == held.who.tolist()
    assert len(shelf) == 500


@pytest.mark.parametrize("name", ["mass", "said", "around", "codes"])
def test_a_shelf_that_makes_no_sense_is_refused(plane, tmp_path, name, tiny_model):
    shelf, held, _, _ = plane
    file, codec = tmp_path / "latent_knn.safetensors", tiny_model.codec
    memory = Memory({PLACE: shelf}, torch.zeros(len(codec.classes), dtype=torch.long), held.who, 64)
    file.write_bytes(serialize.to_bytes("latent_knn", memory))
    assert torch.equal(
        serialize.read("latent_knn", file, codec, torch.device("cpu")).shelves[PLACE].around, shelf.around
    )
    told = safetensors.torch.load(serialize.to_bytes("latent_knn", memory))
    right = getattr(shelf, name)
    for wrong in (right[:-1], -right - 1) if name == "around" else (right[:-1],):
        file.write_bytes(safetensors.torch.save({**told, f"{PLACE[0]}.{PLACE[1]}.{name}": wrong.contiguous()}))
        with pytest.raises(ValueError, match="expected"):
            serialize.read("latent_knn", file, codec, torch.device("cpu"))
