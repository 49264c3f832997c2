"""What comes after the last step is planned by what a budget is good for."""

from __future__ import annotations

import pytest
import torch
from models import phones, tiny_run

from kbdisk.experts.config import LatentKNNConfig
from kbdisk.experts.latent_knn import Timing
from kbdisk.training import loop, presence
from kbdisk.training.data import Data
from kbdisk.training.loop import (
    FINAL_TASKS_SHARE,
    INDEX_SHARE,
    MIN_INDEX_VALUES,
    PRESENCE_SHARE,
    Trainer,
    plan_after_training,
)
from kbdisk.training.presence import MAX_LACKING, MAX_VALUES

MEMORY = LatentKNNConfig()


@pytest.fixture(scope="module")
def one() -> Trainer:
    run = tiny_run(nearest=8)
    return Trainer(Data.prepare(*phones(), run), run, torch.device("cpu"))


def at(monkeypatch, one: Trainer, budget: float, pass_of_one: float = 1e-3, *, memory=MEMORY, learns_presence=True):
    """What is planned where a pass takes so long for an entity, and there are as many values as can be asked for."""
    monkeypatch.setattr(loop, "measure", lambda network, tokens, nearest: Timing(pass_of_one, 0.0))
    monkeypatch.setattr(loop, "latent_knn_seconds", lambda once, tokens, held_out, most: once.forward * most)
    monkeypatch.setattr(loop, "presence_seconds", lambda once, tokens, most: once * most)
    return plan_after_training(one.network, one.tokens, one.held_out, budget, memory, learns_presence=learns_presence)


def test_a_long_budget_leaves_all_of_it_as_it_is(monkeypatch, one):
    plan = at(monkeypatch, one, 1e6)
    assert (plan.index_values, plan.presence_values) == (MEMORY.values, MAX_VALUES)
    assert plan.seconds == pytest.approx((MEMORY.values + MAX_VALUES) * 1e-3)


@pytest.mark.parametrize("budget", [5.0, 20.0, 60.0])
def test_a_short_one_has_less_done_within_its_share(monkeypatch, one, budget):
    plan = at(monkeypatch, one, budget)
    assert plan.index_values < MEMORY.values
    assert plan.presence_values < MAX_VALUES
    for values, share in ((plan.index_values, INDEX_SHARE), (plan.presence_values, PRESENCE_SHARE)):
        assert values <= share * budget / 1e-3 or values <= MIN_INDEX_VALUES
        assert 2 * values * 1e-3 > share * budget, "no less than there is time for"


def test_where_all_is_slow_nothing_is_indexed_and_never_more_than_half_is_taken(monkeypatch, one):
    plan = at(monkeypatch, one, 1.0, pass_of_one=1.0)
    assert plan.index_values == 0
    assert MIN_INDEX_VALUES // 2 < plan.presence_values <= MIN_INDEX_VALUES
    assert plan.seconds == FINAL_TASKS_SHARE


def test_nothing_is_kept_for_what_is_not_done(monkeypatch, one):
    none = LatentKNNConfig(neighbours=0)
    assert at(monkeypatch, one, 1e6, memory=none, learns_presence=False).seconds == 0
    assert at(monkeypatch, one, 1e6, memory=none).seconds == pytest.approx(MAX_VALUES * 1e-3)
    assert at(monkeypatch, one, 1e6, learns_presence=False).seconds == pytest.approx(MEMORY.values * 1e-3)


def test_nothing_is_kept_where_nothing_is_held_out(monkeypatch):
    schema, entities = phones()
    unwatched = Trainer(Data.prepare(schema, entities[:6], tiny_run()), tiny_run(), torch.device("cpu"))
    assert not len(unwatched.held_out)
    assert at(monkeypatch, unwatched, 1e6).seconds == 0


@pytest.mark.slow
def test_the_steps_of_a_budget_leave_it_time_and_both_are_done_by_so_many(monkeypatch):
    seen = {}
    monkeypatch.setattr(loop, "plan_after_training", lambda *args, **options: loop.FinalTasks(600, 700, 40.0))
    monkeypatch.setattr(loop, "refit", lambda *args: seen.update(recorded=args[-1]))
    monkeypatch.setattr(
        loop.latent_knn, "fit", lambda network, tokens, held_out, config, *rest: seen.update(remembered=config.values)
    )
    run = tiny_run(nearest=8, steps=None, seconds=60.0, timed=1)
    one = Trainer(Data.prepare(*phones(), run), run, torch.device("cpu"))
    steps = one.steps()
    while one.state.total is None:
        next(steps)
    assert one.state.spare == 40.0
    one.refit_presence(lambda *args: None)
    one.fit_latent_knn(lambda *args: None)
    assert seen == {"recorded": 700, "remembered": 600}


@pytest.mark.parametrize(
    ("most", "entities", "asked"),
    [(MAX_VALUES, 100, MAX_LACKING), (MAX_VALUES, MAX_VALUES, 1), (1000, 250, 4), (1000, 0, 16)],
)
def test_fewer_lacking_properties_are_asked_for_where_entities_are_many(most, entities, asked):
    assert presence._lacking(most, entities) == asked
