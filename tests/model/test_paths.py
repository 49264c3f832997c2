"""The path encoder runs over the tree of prefixes what an RNN would make of each path alone."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.model.paths import PathEncoder

PATHS = [
    ("Phone",),
    ("Phone", "launch"),
    ("Phone", "launch", "year"),
    ("Phone", "cameras", 0, "aperture"),
    ("Maker", "launch"),
]


def alone(encoder: PathEncoder, path: tuple[str | int, ...], names: dict[str, int]) -> torch.Tensor:
    """One path, key by key."""
    state = torch.tanh(encoder.names[names[str(path[0])]])
    for key in path[1:]:
        state = torch.tanh(encoder.names[names[str(key)]] + encoder.step(state))
    return state


@given(st.lists(st.integers(0, len(PATHS) - 1), unique=True))
def test_each_path_is_what_an_rnn_makes_of_its_keys(chosen):
    encoder = PathEncoder(PATHS, 8)
    keys = dict.fromkeys(str(key) for path in PATHS for key in path)
    names = {key: place for place, key in enumerate(keys)}
    vectors = encoder(torch.tensor(chosen, dtype=torch.long))
    assert vectors.shape == (len(chosen), 8)
    for row, place in enumerate(chosen):
        torch.testing.assert_close(vectors[row], alone(encoder, PATHS[place], names))


def test_a_shared_prefix_is_computed_once():
    encoder, steps = PathEncoder(PATHS, 8), []
    encoder.step.register_forward_hook(lambda module, given, out: steps.append(len(out)))
    encoder(torch.arange(len(PATHS)))
    assert steps == [3, 2, 1]  # launch and cameras of phones, launch of makers; year and 0; aperture


def test_paths_that_nobody_asks_for_get_no_gradient():
    encoder = PathEncoder(PATHS, 8)
    (encoder(torch.tensor([0, 1])) * torch.randn(2, 8)).sum().backward()
    moved = encoder.names.grad.abs().sum(1) > 0
    assert moved.tolist() == [True, True, False, False, False, False, False]
