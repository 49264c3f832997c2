"""The stages of a run share its time budget: what one leaves the later ones have."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from models import tiny_run

from kbdisk.entity import Entity
from kbdisk.experts import EXPERTS
from kbdisk.experts.config import BoostedTreesConfig, KNNConfig, LabelRegressionConfig
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class
from kbdisk.store.folder import open_folder, save
from kbdisk.training import clock as clocks
from kbdisk.training import loop
from kbdisk.training.clock import NETWORKS, PASSES_FACTOR, WEIGHTS, Clock, Limits, share_seconds
from kbdisk.training.data import Data
from kbdisk.training.loop import SILENT_WIDTH
from kbdisk.training.run import Run
from kbdisk.training.train import Keeping, network_runs, planned_run, train

SCHEMA = of_one_class({("a",): Property(Number()), ("b",): Property(Number()), ("c",): Property(Category())})


def run(seconds: float | None, **changes) -> Run:
    shares = {"boosted_trees": BoostedTreesConfig(share=0.3), "knn": KNNConfig(share=0.1)}
    return tiny_run(steps=None, seconds=seconds, **changes).with_experts(**shares)


def known(count: int) -> list[Entity]:
    return [Entity(f"e{n}", {"a": n % 9, "b": 2 * (n % 9) + 1, "c": "xyz"[n % 3]}) for n in range(count)]


class StoppedClock(Clock):
    """A clock whose time is set by the test."""

    spent = 0.0


def planned(
    seconds: float,
    monkeypatch,
    *,
    first: bool = True,
    set_up: float = 0.0,
    fills: str | None = None,
    gaps: int = 0,
    processes: int = 1,
    passes: float = PASSES_FACTOR,
    report: Callable[[str], None] | None = None,
    **after: Limits,
) -> StoppedClock:
    """The clock of a run whose experts are fitted first, or not."""
    monkeypatch.setattr(clocks, "PASSES_FACTOR", passes)
    monkeypatch.setattr(clocks, "MIN_SECONDS_EXPERTS_FIRST", 0.0 if first else math.inf)
    clock = StoppedClock(fills=fills, report=report)
    clock.spent, clock.read = set_up, set_up / 3
    clock.start(seconds, lambda progress: None, gaps, after, processes)
    clock.plan(run(seconds))
    if clock.is_long:
        clock.put_experts_first(run(seconds))
    return clock


def test_networks_have_what_experts_before_them_leave(monkeypatch):
    clock = planned(100.0, monkeypatch)
    seconds = clock.seconds(NETWORKS)
    assert seconds == pytest.approx(
        99 * 0.6 / (0.6 + 0.06 + 0.3 * 0.85 * 0.4)
    )  # beside weights and what is fitted again
    clock.spent = 5.0
    assert clock.seconds(NETWORKS) == pytest.approx(seconds * 94 / 99)
    assert clock.seconds(NETWORKS) > 100 * 0.6
    clock.spent = 99.0
    assert clock.seconds(NETWORKS) == 0
    assert clock.seconds(WEIGHTS) == pytest.approx(5.94)  # experts without weights are lost


AFTER = {"evaluation": Limits(0.1, 1.0, 40.0), "calibration": Limits(0.15, 2.0, 60.0)}


def test_stages_after_training_have_their_shares_of_what_set_up_leaves(monkeypatch):
    clock = planned(120.0, monkeypatch, first=False, set_up=18.8, passes=0.0, **AFTER)
    assert clock.for_training == pytest.approx(80)  # of 100 s left a fifth is for what comes after
    assert clock.seconds(NETWORKS) == pytest.approx(0.6 * 80)
    clock.spent += 48
    assert clock.seconds("knn") == pytest.approx(0.1 * 0.85 * 80)
    clock.spent += 32
    assert clock.seconds(WEIGHTS) == pytest.approx(0.06 * 80)  # of what was left for training, not of the budget
    assert clock.seconds("evaluation") == pytest.approx(8)
    clock.spent += 8
    assert clock.seconds("calibration") == pytest.approx(12)


def test_time_that_a_stage_of_training_leaves_is_for_training(monkeypatch):
    clock = planned(120.0, monkeypatch, first=False, set_up=18.8, passes=0.0, **AFTER)
    clock.spent += 40  # networks leave 8 of their 48 seconds
    planned_later = 0.25 * 80  # of what was left when training began
    assert clock.seconds("knn") == pytest.approx((100 - 40 - planned_later) * 0.1 * 0.85 / 0.4)


def test_an_expert_that_took_little_leaves_most_of_its_second_fit_to_the_others(monkeypatch):
    clock = planned(100.0, monkeypatch)
    boosters = clock.seconds("boosted_trees")
    clock.note_fit("knn", 0.0)  # which has no second share, so nothing changes
    assert clock.seconds("boosted_trees") == boosters
    clock.note_fit("boosted_trees", 0.5)
    again = EXPERTS["boosted_trees"].max_refit_factor * 0.5
    assert clock.seconds("boosted_trees again") == again
    assert clock.seconds(NETWORKS) == pytest.approx((99 - again) * 0.6 / 0.66)


@given(
    st.floats(0, 100),
    st.dictionaries(st.sampled_from("abcd"), st.just(0.0) | st.floats(0.01, 1), min_size=1),
    st.dictionaries(st.sampled_from("abcd"), st.floats(0, 100)),
)
def test_what_some_stages_need_no_more_of_is_shared_by_the_others(left, shares, most):
    seconds = share_seconds(left, shares, most)
    assert seconds.keys() == shares.keys()
    assert all(0 <= part <= most.get(name, math.inf) + 1e-9 for name, part in seconds.items())
    assert sum(seconds.values()) <= left + 1e-6
    open_stages = [name for name in shares if shares[name] and seconds[name] < most.get(name, math.inf) - 1e-6]
    if open_stages:
        assert sum(seconds.values()) == pytest.approx(left)
        units = [seconds[name] / shares[name] for name in open_stages]
        assert units == pytest.approx([units[0]] * len(units))


def test_stages_after_training_have_a_least_and_a_most(monkeypatch):
    clock = planned(4.0, monkeypatch, first=False, **AFTER)
    clock.spent = 4.0
    assert [clock.seconds(name) for name in AFTER] == [1.0, 2.0]
    clock = planned(10_000.0, monkeypatch, first=False, **AFTER)
    assert clock.seconds(NETWORKS) == pytest.approx(0.6 * (9_900 - 100))
    assert clock.seconds("calibration") == 60


def test_stages_after_training_keep_most_of_their_time_whatever_came_before(monkeypatch):
    clock = planned(120.0, monkeypatch, first=False, set_up=18.8, passes=0.0, **AFTER)
    clock.spent = 200.0
    assert clock.seconds("calibration") == pytest.approx(0.7 * 12)
    assert clock.seconds("evaluation") == pytest.approx(0.7 * 8)


def test_filling_is_planned_by_the_time_of_setting_up(monkeypatch):
    assert planned(100.0, monkeypatch, set_up=9.0, fills="likely", passes=0.0).left == pytest.approx(90 - 1.25 * 6)
    assert planned(100.0, monkeypatch, set_up=90.0, fills="likely", passes=0.0).filling == pytest.approx(0.5 * 9)
    assert planned(100.0, monkeypatch, set_up=9.0, passes=0.0).left == pytest.approx(90)


def test_time_is_left_for_reading_entities_again_until_the_model_is_measured(monkeypatch):
    clock = planned(100.0, monkeypatch, set_up=9.0, **AFTER)
    assert clock.left == pytest.approx(90 - 0.1 * 6)
    clock.spent = 80.0
    assert clock.left == pytest.approx(19 - 0.1 * 6)
    assert clock.seconds("evaluation") == pytest.approx(19 * 0.1 / 0.25)


@pytest.mark.parametrize("processes", [1, 3])
def test_the_time_for_filling_all_gaps_depends_on_the_numbers_of_gaps_and_processes(monkeypatch, processes):
    gaps = 10_000
    left = planned(100.0, monkeypatch, set_up=9.0, fills="all", gaps=gaps, processes=processes, passes=0.0).left
    assert left == pytest.approx(90 - 1.25 * 6 - 2.7 * (0.2 + 0.8 / processes))
    likely = planned(100.0, monkeypatch, set_up=9.0, fills="likely", gaps=gaps, passes=0.0)
    assert likely.left == pytest.approx(90 - 1.25 * 6)


def test_filling_by_networks_takes_longer(monkeypatch):
    clock = planned(100.0, monkeypatch, first=False, set_up=9.0, fills="all", gaps=2000)
    assert clock.filling == pytest.approx(1.25 * 6 + 0.54)
    clock.expect_networks()
    assert clock.filling == pytest.approx(1.25 * 6 + 1.1)
    clock.expect_networks()
    assert clock.filling == pytest.approx(1.25 * 6 + 1.1)
    many = planned(100.0, monkeypatch, first=False, set_up=9.0, fills="all", gaps=10**6)
    many.expect_networks()
    assert many.filling == pytest.approx(0.5 * 90)


def test_the_plan_is_reported_before_training(monkeypatch):
    lines: list[str] = []
    gaps = 1500
    planned(100.0, monkeypatch, set_up=9.0, fills="likely", gaps=gaps, report=lines.append, **AFTER)
    assert lines == [
        "plan: 9 s before training, 66 s of training, 16 s of measuring the model, about 8 s for 1,500 gaps"
    ]
    planned(100.0, monkeypatch, set_up=9.0, report=lines.append)
    assert lines[1] == "plan: 9 s before training, 89 s of training"


def test_a_budget_that_was_exceeded_is_reported(monkeypatch):
    clock = planned(20.0, monkeypatch, set_up=12.0, fills="likely")
    assert not list(clock.lines())
    clock.spent = 22.9
    assert not list(clock.lines())
    clock.trained, clock.spent = 18.0, 41.4
    assert list(clock.lines()) == [
        "took 41 s, more than the budget of 20 s: 12 s before training, 6 s of training, 23 s of filling"
    ]


def test_experts_without_time_are_left_out_and_named(monkeypatch):
    clock = planned(100.0, monkeypatch, presence_trees=Limits(0.1, 0.0, 60.0), link_factorization=Limits(0.0, 0.0, 9.0))
    assert clock.has_time_for("presence_trees")
    assert clock.has_time_for("link_factorization", 10**9)  # it has no share in any case
    clock.spent = 98.9
    assert clock.has_time_for("presence_trees")  # it keeps most of what was planned
    monkeypatch.setattr(clocks, "KEPT_SHARE", 0.0)
    assert not clock.has_time_for("presence_trees")
    assert clock.has_time_for("link_factorization")  # it has no share in any case
    clock.leave_out("presence_trees")
    assert list(clock.lines()) == ["left out for lack of time: trees of presence. A longer budget includes them"]


def test_a_model_has_a_part_of_its_budget_however_long_setting_up_took(monkeypatch):
    clock = planned(20.0, monkeypatch, first=False, set_up=300.0, fills="likely", **AFTER)
    assert (clock.filling, clock.left) == (0.0, pytest.approx(10))
    assert clock.for_training == pytest.approx(8)
    clock.spent += 4.0
    assert clock.left == pytest.approx(6)
    assert planned(1000.0, monkeypatch, set_up=1200.0, **AFTER).left == pytest.approx(15)


@pytest.mark.parametrize(("seconds", "set_up"), [(600.0, 60.0), (90.0, 20.0), (100.0, 30.0)])
def test_a_budget_that_is_not_short_is_not_extended_for_filling(monkeypatch, seconds, set_up):
    gaps = 1000
    clock = planned(seconds, monkeypatch, set_up=set_up, fills="all", gaps=gaps)
    assert clock.extension == 0
    assert clock.spent + clock.left + clock.filling <= seconds


def test_experts_are_fitted_where_set_up_has_used_the_budget_up(monkeypatch):
    monkeypatch.setattr(loop, "MIN_STEPS", 1 << 40)  # networks leave their time
    for name in ("knn", "boosted_trees"):
        monkeypatch.setitem(EXPERTS, name, replace(EXPERTS[name], values_per_second=None))  # never left out
    clock = Clock(begun=time.monotonic() - 1000)
    trained = train(
        SCHEMA, known(400), run(30.0, validation=0.2), torch.device("cpu"), lambda progress: None, clock=clock
    )
    assert any(trained.experts.values())
    assert not clock.left_out


def test_an_expert_is_left_out_where_it_could_not_go_through_the_values(monkeypatch):
    monkeypatch.setitem(EXPERTS, "knn", replace(EXPERTS["knn"], values_per_second=1))
    clock = Clock()
    trained = train(
        SCHEMA, known(80), run(4.0, validation=0.2), torch.device("cpu"), lambda progress: None, clock=clock
    )
    assert not trained.experts.get("knn")
    assert next(clock.lines()) == "left out for lack of time: nearest neighbours. A longer budget includes them"


def test_a_network_takes_no_step_where_a_part_of_one_takes_too_long(monkeypatch):
    compute, sizes = loop.ParallelGradients.compute, []

    def slow(gradients, entities, loss_of):
        sizes.append(len(entities))
        time.sleep(0.05)
        return compute(gradients, entities, loss_of)

    monkeypatch.setattr(loop.ParallelGradients, "compute", slow)
    steps: list[int] = []

    def watch(progress):
        steps.append(progress.step)

    trained = train(SCHEMA, known(400), run(5.0, validation=0.2), torch.device("cpu"), watch)
    assert trained.record.facts["steps"] == 0
    assert not any(steps)
    assert max(sizes) < run(5.0).train.batch / 2


def test_trees_have_more_than_their_share_beside_networks_without_enough_steps(monkeypatch):
    clock = planned(100.0, monkeypatch, first=False)
    before = clock.seconds("boosted_trees")
    clock.plan(run(100.0), are_silent=True)
    first_time = (
        1 - EXPERTS["boosted_trees"].short_refit_share
    )  # averages of several boosters have the time of a short budget
    assert clock.shares["boosted_trees"] == pytest.approx(
        EXPERTS["boosted_trees"].factor_if_silent * 0.3 * 0.85 * first_time
    )
    assert clock.seconds("boosted_trees") > before


def test_label_regressions_are_fitted_again_in_short_budgets_and_without_networks_as_well(monkeypatch):
    def seconds(budget: float, *, are_silent: bool = False) -> float:
        clock = planned(budget, monkeypatch)
        own = run(budget).with_experts(label_regression=LabelRegressionConfig(share=0.1))
        clock.plan(own, are_silent=are_silent)
        return clock.seconds("label_regression again")

    assert min(seconds(100.0), seconds(20.0), seconds(100.0, are_silent=True)) > 0


def test_seconds_of_networks_of_a_stopped_run_count(monkeypatch, tmp_path):
    go = Keeping.go

    def resumed_after_a_thousand_seconds(keeping, trainer, *rest):
        stopped = go(keeping, trainer, *rest)
        trainer.state.seconds += 1000
        return stopped

    monkeypatch.setattr(Keeping, "go", resumed_after_a_thousand_seconds)
    clock = Clock()
    trained = train(SCHEMA, known(80), tiny_run(steps=3), torch.device("cpu"), lambda progress: None, clock=clock)
    assert trained.record.facts["seconds"] > 1000
    assert clock.spent > 1000


@pytest.mark.parametrize(("step", "may_be"), [(0.01, False), (0.026, False), (0.027, True), (10.0, True)])
def test_a_network_may_be_given_up_where_the_least_steps_take_more_than_the_time_for_steps(monkeypatch, step, may_be):
    wanted = run(10.0, validation=0.2)  # of which four seconds are for steps, at least
    trainer = loop.Trainer(Data.prepare(SCHEMA, known(80), wanted), wanted, torch.device("cpu"))
    monkeypatch.setattr(trainer, "_seconds_of_part", lambda part: step)
    assert trainer.may_be_given_up() == may_be


def test_networks_take_no_steps_where_experts_have_used_up_the_budget(monkeypatch):
    monkeypatch.setattr(clocks, "MIN_SECONDS_EXPERTS_FIRST", 0.0)
    monkeypatch.setattr(Clock, "seconds", lambda clock, name: 0.0 if name == NETWORKS else 1.0)
    monkeypatch.setattr(loop, "MIN_STEPS", 1 << 40)  # on any machine
    trained = train(SCHEMA, known(80), run(4.0, validation=0.2), torch.device("cpu"), lambda progress: None)
    assert trained.record.facts["steps"] == 0
    assert trained.network.config.width == SILENT_WIDTH


def test_what_a_network_is_known_by_is_the_time_that_was_planned_for_it():
    of_all = run(1000.0, members=2)
    more = network_runs(of_all, 800.0)
    assert [own.train.seconds for own in more] == [400.0, 400.0]
    short_runs = network_runs(of_all, 200.0)  # each of two networks would have less than MIN_NETWORK_SECONDS
    assert [network_run.train.seconds for network_run in short_runs] == [200.0]
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


@pytest.mark.parametrize(
    ("first", "may_be_given_up", "begins"), [(0.0, False, "expert"), (0.0, True, "network"), (1e9, False, "network")]
)
def test_experts_come_first_where_the_budget_is_long_and_the_network_fits_it(
    monkeypatch, first, may_be_given_up, begins
):
    monkeypatch.setattr(clocks, "MIN_SECONDS_EXPERTS_FIRST", first)
    monkeypatch.setattr(loop, "MIN_STEPS", 0)  # the network is not given up, on any machine
    monkeypatch.setattr(loop.Trainer, "may_be_given_up", lambda trainer: may_be_given_up)
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
