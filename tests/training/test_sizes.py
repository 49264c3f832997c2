"""Sizes follow the data where a run leaves them open, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kbdisk.entity import Entity
from kbdisk.model.masking import Hiding
from kbdisk.model.network import ModelConfig
from kbdisk.schemas.kinds import Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class
from kbdisk.training import train as training
from kbdisk.training.config import TrainConfig
from kbdisk.training.data import Data
from kbdisk.training.run import Run
from kbdisk.training.train import fit_sizes, left_open

SCHEMA = of_one_class({("x",): Property(Number())})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entities", "width", "batch"), [(20, 64, 64), (1300, 64, 256), (2400, 64, 512), (9000, 128, 512)]
)
def test_much_data_is_learnt_by_a_wider_network_in_larger_steps(entities, width, batch, monkeypatch):
    monkeypatch.setattr(training, "MIN_VALUES_WIDE", 5000)
    run = Run.of("default")
    data = Data.prepare(SCHEMA, [Entity(str(i), {"x": i}) for i in range(entities)], run)
    sized = fit_sizes(run, data)
    assert (sized.model.width, sized.train.batch) == (width, batch)
    assert replace(sized, model=run.model, train=run.train, experts=run.experts) == run
    assert {name for name in sized.experts if sized.experts[name] != run.experts[name]} <= {
        "given_only",
        "propagation",
        "close_propagation",
        "gaussian_process",
        "value_factorization",
    }
    assert bool(sized.experts["gaussian_process"].share) == (20 < entities < 2000)  # by the values of a property
    assert sized.experts["given_only"].share == 0  # nothing is
    assert sized.model.dropout == (0.3 if entities < 1000 else run.model.dropout)


@pytest.mark.parametrize(
    ("chosen", "rows", "share"), [(None, 30, 0.5), (None, 60, 1.0), (0.25, 60, 0.25), (0.0, 30, 0.0)]
)
def test_few_rows_are_not_learnt_in_one_order_alone(chosen, rows, share, monkeypatch):
    monkeypatch.setattr(training, "MIN_ENTITIES_ONE_ORDER", 50)
    run = replace(Run.of("synthetic"), hiding=Hiding(ordered=chosen))
    assert (("hiding", "ordered") in left_open(run)) == (chosen is None)
    entities = [Entity(str(i), {"x": i}) for i in range(rows + rows // 9)]
    assert fit_sizes(run, Data.prepare(SCHEMA, entities, run)).hiding.ordered == share


def test_what_is_asked_again_only_where_something_is_given_is_left_open():
    """Or a model of properties that all can be told would never be taken for the one that is wanted."""
    run = Run.of("default")
    assert run.experts["given_only"].share
    assert {("given_only", "share"), ("gaussian_process", "share")} <= set(left_open(run))
    assert ("given_only", "share") not in left_open(
        run.with_experts(given_only=replace(run.experts["given_only"], share=0.0))
    )


def test_a_size_that_was_chosen_stays():
    run = Run(model=ModelConfig(width=32), train=TrainConfig(batch=7, seconds=1))
    assert fit_sizes(run, Data.prepare(SCHEMA, [Entity(str(i), {"x": i}) for i in range(30)], run)) == run
