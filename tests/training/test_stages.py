"""The stages of a run share its time budget: what one leaves the later ones have."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from models import tiny_run

from kbdisk.entity import Entity
from kbdisk.experts.config import BoostedTreesConfig, KNNConfig
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class
from kbdisk.store.folder import open_folder, save
from kbdisk.training import loop
from kbdisk.training import train as training
from kbdisk.training.loop import SILENT_WIDTH
from kbdisk.training.run import Run
from kbdisk.training.train import NETWORKS, WEIGHTS, Clock, network_runs, planned_run, train

SCHEMA = of_one_class({("a",): Property(Number()), ("b",): Property(Number()), ("c",): Property(Category())})


def run(seconds: float | None, **changes) -> Run:
    shares = {"boosted_trees": BoostedTreesConfig(share=0.3), "knn": KNNConfig(share=0.1)}
    return tiny_run(steps=None, seconds=seconds, **changes).with_experts(**shares)


def known(count: int) -> list[Entity]:
    return [Entity(f"e{n}", {"a": n % 9, "b": 2 * (n % 9) + 1, "c": "xyz"[n % 3]}) for n in range(count)]


def test_networks_have_what_experts_before_them_leave():
    clock = Clock(run(100.0), lambda progress: None, come_first=True)
    planned = clock.seconds(NETWORKS)
    assert planned == pytest.approx(
        99 * 0.6 / (0.6 + 0.1 + 0.3 * 0.75 * 0.4)
    )  # beside weights and what is fitted again
    clock.spent = 5.0
    assert clock.seconds(NETWORKS) == pytest.approx(planned * 94 / 99)
    assert clock.seconds(NETWORKS) > 100 * 0.6
    clock.spent = 99.0
    assert clock.seconds(NETWORKS) == 0
    assert clock.seconds(WEIGHTS) == pytest.approx(10)  # experts without weights are lost


def test_experts_that_have_used_up_a_budget_leave_networks_a_few_steps(monkeypatch):
    monkeypatch.setattr(training, "MIN_SECONDS_EXPERTS_FIRST", 0.0)
    monkeypatch.setattr(Clock, "seconds", lambda clock, name: 0.0 if name == NETWORKS else 1.0)
    trained = train(SCHEMA, known(80), run(4.0, validation=0.2), torch.device("cpu"), lambda progress: None)
    assert trained.record.facts["steps"] > 0


def test_what_a_network_is_known_by_is_the_time_that_was_planned_for_it():
    of_all = run(1000.0, members=2)
    more = network_runs(of_all, 800.0)
    assert [own.train.seconds for own in more] == [400.0, 400.0]
    assert [planned_run(of_all, own) for own in more] == network_runs(of_all)
    assert network_runs(of_all)[0].train.seconds == pytest.approx(300.0)


@pytest.mark.parametrize(("width", "trained_width"), [(0, SILENT_WIDTH), (32, 32)])
def test_a_network_without_time_is_narrow_where_its_width_was_left_open(monkeypatch, tmp_path, width, trained_width):
    monkeypatch.setattr(loop, "MIN_STEPS", 1 << 40)
    wanted = run(4.0, validation=0.2)
    wanted = replace(wanted, model=replace(wanted.model, width=width))
    trained = train(SCHEMA, known(80), wanted, torch.device("cpu"), lambda progress: None)
    assert trained.run.model.width == trained.network.config.width == trained_width
    save(trained, tmp_path / "model")
    again = open_folder(tmp_path / "model", torch.device("cpu"))
    assert again.run == trained.run
    assert all(map(torch.equal, again.network.parameters(), trained.network.parameters()))


@pytest.mark.parametrize(("first", "begins"), [(0.0, "expert"), (1e9, "network")])
def test_experts_come_first_where_the_budget_is_long(monkeypatch, first, begins):
    monkeypatch.setattr(training, "MIN_SECONDS_EXPERTS_FIRST", first)
    seen: list[str] = []
    trained = train(
        SCHEMA,
        known(80),
        run(4.0, validation=0.2),
        torch.device("cpu"),
        lambda progress: seen.append("network" if progress.final_task is None else "expert"),
    )
    assert seen[0] == begins
    assert {"network", "expert"} == set(seen)
    assert seen[-1] == "expert"
    assert trained.record.facts["seconds"] > 0
