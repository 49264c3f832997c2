"""Training continues from a model of an earlier state of the same entities, and its networks do not get worse."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from models import tiny_run

from kbdisk.api.model import Model
from kbdisk.api.source import LoadedSource
from kbdisk.api.train import is_continuable
from kbdisk.api.train import train as train_model
from kbdisk.entity import Entity, Link
from kbdisk.errors import ConfigError
from kbdisk.experts.config import KNNConfig
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.kinds import Link as LinkKind
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class
from kbdisk.training.train import train
from kbdisk.training.validation import Validator

SCHEMA = of_one_class(
    {
        ("a",): Property(Number()),
        ("b",): Property(Number()),
        ("c",): Property(Category()),
        ("d",): Property(LinkKind(None)),
    }
)
RUN = tiny_run(steps=8, validation=0.2).with_experts(knn=KNNConfig(share=0.1))


def known(count: int = 100, c: str = "xyz") -> list[Entity]:
    return [
        Entity(f"e{n}", {"a": n % 9, "b": 2 * (n % 9) + 1, "c": c[n % len(c)], "d": Link(f"e{n % 7}")})
        for n in range(count)
    ]


def trained(entities, start=None):
    return train(SCHEMA, entities, RUN, torch.device("cpu"), lambda progress: None, start=start)


@pytest.fixture(scope="module")
def first():
    return trained(known())


def edited():
    entities = known(101)
    entities[3] = replace(entities[3], tree={**entities[3].tree, "b": 8, "c": "x"})
    return entities


def test_what_was_held_out_stays_held_out(first):
    again = trained(edited(), first)
    assert again.record.validation == first.record.validation
    assert set(again.record.training) == {*first.record.training, "e100"}
    assert again.reserved
    assert all(set(slots) <= set(first.reserved[id]) for id, slots in again.reserved.items())
    assert again.run == first.run


@pytest.mark.parametrize(("cost", "is_better"), [(lambda step: step, False), (lambda step: -step, True)])
def test_networks_stay_as_they_were_where_more_training_makes_them_no_better(first, monkeypatch, cost, is_better):
    monkeypatch.setattr(Validator, "cost", lambda watching, loss: float(cost(loss.step)))
    again = trained(edited(), first)
    assert (again.record.facts["best_step"] > 0) == is_better
    weights = dict(first.network.named_parameters())
    learnt = [
        name
        for name, weight in again.network.named_parameters()
        if not name.startswith("presence") and not torch.equal(weight, weights[name])
    ]
    assert bool(learnt) == is_better


@pytest.mark.parametrize(
    ("entities", "continues"),
    [
        (edited(), True),
        (known(c="xyzw"), False),
        ([*known(), Entity("new", {"d": Link("nowhere")})], True),
        (known(150), False),
        (known(50), False),
    ],
    ids=["edited", "another label", "one link to another entity", "many new ones", "many are gone"],
)
def test_a_model_is_continued_from_if_it_knows_nearly_all(first, monkeypatch, entities, continues):
    monkeypatch.setattr("kbdisk.api.train.MIN_STEPS", 1)
    model = Model(first, LoadedSource.of(known()))
    assert is_continuable(model, LoadedSource.of(entities)) == continues
    if not continues:
        with pytest.raises(ConfigError, match="start: expected a model of nearly the same entities, got one that"):
            train_model(entities, SCHEMA, start=model)


def test_a_network_that_has_hardly_learnt_is_not_continued_from(first):
    assert not is_continuable(Model(first, LoadedSource.of(known())), LoadedSource.of(edited()))


def test_a_start_has_its_own_settings(first):
    with pytest.raises(ConfigError, match=r"start: has the settings of its own training. Leave budget out."):
        train_model(known(), SCHEMA, start=Model(first, LoadedSource.of(known())), budget="5s")
