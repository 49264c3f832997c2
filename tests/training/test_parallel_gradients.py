"""A step in parts: the gradient is that of the whole, and the same however many cores there are."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from models import phones, tiny_run
from torch import nn

from kbdisk.rng import thread_generator, use_generator
from kbdisk.training.data import Data
from kbdisk.training.loop import ParallelGradients, Trainer, min_entities

LEAST = 8  # entities of a part


@pytest.fixture
def threads():
    """Sets how many threads torch has, until the test is over."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


class Line(nn.Module):
    """x ** 2 * slope, and a weight that nothing needs."""

    def __init__(self) -> None:
        super().__init__()
        self.slope, self.idle = nn.Parameter(torch.tensor(3.0)), nn.Parameter(torch.tensor(1.0))

    def cost(self, entities, part):
        squares = (entities.double() ** 2).mean()
        return SimpleNamespace(total=self.slope * squares, nats=(self.slope * squares).detach())


@pytest.mark.parametrize("cores", [1, 2, 3])
@pytest.mark.parametrize("count", [10, 2 * LEAST, 3 * LEAST + 7])
def test_the_gradient_is_that_of_all_entities(cores, count, threads):
    threads(cores)
    line, entities = Line(), torch.arange(count)
    found = ParallelGradients(line, 3, LEAST).compute(entities, line.cost)
    mean = float((entities.double() ** 2).mean())
    assert float(line.slope.grad) == pytest.approx(mean)
    assert (found.total, found.nats) == pytest.approx((3 * mean, 3 * mean))
    assert line.idle.grad is None


@pytest.mark.parametrize(("count", "parts"), [(LEAST, 1), (2 * LEAST - 1, 1), (2 * LEAST, 2), (100 * LEAST, 3)])
def test_no_part_is_small_and_there_are_no_more_than_wanted(count, parts):
    line, met = Line(), []

    def cost(entities, part):
        met.append(part.chunk)
        return line.cost(entities, part)

    ParallelGradients(line, 3, LEAST).compute(torch.arange(count), cost)
    assert sorted(met) == list(range(parts))


def test_large_entities_are_parted_where_there_are_few():
    assert min_entities(1000, 13_000) == 62
    assert min_entities(1000, 200_000) == 4
    assert min_entities(10, 1_000_000) == 1


def test_it_leaves_as_many_threads_as_there_were(threads):
    threads(2)
    line = Line()
    ParallelGradients(line, 2, LEAST).compute(torch.arange(2 * LEAST), line.cost)
    assert torch.get_num_threads() == 2


@pytest.mark.slow
def test_weights_do_not_hang_on_how_many_cores_there_are(threads):
    schema, entities = phones()
    entities = [replace(one, id=f"{one.id}-{turn}") for turn in range(3) for one in entities]
    run = tiny_run(batch=128, steps=3)
    run = replace(run, model=replace(run.model, dropout=0.2))
    data, found = Data.prepare(schema, entities, run), []
    assert 2 * min_entities(len(data.training), len(data.training.slot)) <= 128
    for cores in (1, 2):
        threads(cores)
        trainer = Trainer(data, run, torch.device("cpu"))
        list(trainer.steps())
        found.append([one.detach().clone() for one in trainer.network.parameters()])
    assert all(map(torch.equal, *found))


def test_what_is_dropped_is_drawn_from_the_generator_of_the_thread():
    assert thread_generator() is None
    first, second = torch.Generator(), torch.Generator()
    with use_generator(first):
        with use_generator(second):
            assert thread_generator() is second
        assert thread_generator() is first
    assert thread_generator() is None
