"""Networks that are too large for a machine are refused before they are made."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from models import phones, tiny_run

from kbdisk.errors import ConfigError, TrainingError
from kbdisk.model import mup
from kbdisk.model.network import DiSK, ModelConfig
from kbdisk.training import loop
from kbdisk.training.data import Data
from kbdisk.training.loop import Trainer, build, shapes_at_any_width

CPU = torch.device("cpu")
LARGE = mup.Shapes(1, {"table": (2_000_000_000,)}, {"table": (2_000_000_000,)}, frozenset())


@pytest.fixture(scope="module")
def data() -> Data:
    return Data.prepare(*phones(), tiny_run())


def held(data: Data, model: ModelConfig) -> int:
    """The bytes that training holds of a network at least."""
    return 6 * 4 * shapes_at_any_width(data.codec, model).count(model.width)


@pytest.mark.parametrize(("width", "heads"), [(16, 2), (60, 4), (64, 1)])
def test_parameters_are_counted_without_a_network(data, width, heads):
    run = tiny_run()
    run = replace(run, model=replace(run.model, width=width, heads=heads))
    shapes = shapes_at_any_width(data.codec, run.model)
    network = build(data.codec, run, shapes)
    assert shapes.at(width) == mup.shapes_of(network)
    assert shapes.count(width) == sum(weights.numel() for weights in network.parameters())


@pytest.mark.parametrize("width", [16, 64, 128])
def test_growths_are_known_without_the_networks_that_they_compare(data, width):
    model = replace(tiny_run().model, width=width, base=32)
    network, base = (DiSK(data.codec, other) for other in (model, replace(model, width=32, heads=1)))
    assert shapes_at_any_width(data.codec, model).growths(width, 32) == mup.growths(network, base)


def test_what_fits_is_trained_and_what_does_not_is_refused_before_it_is_made(monkeypatch, data):
    run = tiny_run()
    wanted = held(data, run.model)
    monkeypatch.setattr(loop, "_memory", lambda: int(wanted / 0.9) + 2)
    Trainer(data, run, CPU)
    monkeypatch.setattr(loop, "_memory", lambda: int(wanted / 0.9) - 2)
    monkeypatch.setattr(loop, "build", lambda *args: pytest.fail("it was made"))
    with pytest.raises(ConfigError, match=r"^model.width = .*: expected a network that can be trained in "):
        Trainer(data, run, CPU)


def test_what_is_wrong_is_said_in_one_line(monkeypatch):
    monkeypatch.setattr(loop, "_memory", lambda: 10_000_000_000)
    with pytest.raises(ConfigError) as told:
        loop.check_memory(LARGE, 512, CPU)
    assert str(told.value) == (
        "model.width = 512: expected a network that can be trained in 9.0 GB of memory, got 2,000 million parameters, "
        "which need 48.0 GB. Give a smaller width, or the default preset."
    )


def test_another_device_has_its_own_memory(monkeypatch):
    monkeypatch.setattr(loop, "_memory", lambda: 1)
    loop.check_memory(LARGE, 512, torch.device("cuda"))


def test_a_machine_that_does_not_say_is_trusted(monkeypatch):
    def refused(_name: str) -> int:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(loop.os, "sysconf", refused, raising=False)
    loop.check_memory(LARGE, 512, CPU)


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")]
)
def test_a_step_that_does_not_fit_into_memory_is_refused_in_one_line(error):
    with pytest.raises(TrainingError, match="got one of 1,000 entities at width 64"), loop.within_memory(1000, 64):
        raise error


def test_other_errors_of_a_step_are_not_taken_for_a_lack_of_memory():
    with pytest.raises(RuntimeError, match="shapes"), loop.within_memory(1000, 64):
        raise RuntimeError("shapes do not match")
