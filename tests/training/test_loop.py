"""The loop: as many steps as were asked for, every draw from the seed and the step, and good weights at its end."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from models import phones, tiny_run
from torch import Tensor

from kbdisk.entity import Entity
from kbdisk.errors import TrainingError
from kbdisk.experts.config import BoostedTreesConfig
from kbdisk.model.diffusion import beliefs
from kbdisk.model.likelihood import in_order
from kbdisk.model.masking import Hiding
from kbdisk.schemas.kinds import Category, Number, Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema, of_one_class
from kbdisk.training import loop, validation
from kbdisk.training.config import TrainConfig
from kbdisk.training.data import Data
from kbdisk.training.loop import MIN_STEPS, ChunkLossOf, ParallelGradients, StepLoss, Trainer
from kbdisk.training.run import Run
from kbdisk.training.schedule import MAX_STEPS_UNVALIDATED
from kbdisk.training.train import train
from kbdisk.training.validation import Progress, ValidationLoss, Validator

CPU = torch.device("cpu")


def points() -> tuple[Schema, list[Entity]]:
    """Entities without a text; some lack what others have."""
    leaves = {"x": Number(), "y": Number(), "kind": Category(), "side": Category()}
    known = [
        Entity(f"p{n}", {"x": n / 7, "y": n % 5 + 0.5, "kind": "abc"[n % 3]} | ({"side": "lr"[n % 2]} if n % 4 else {}))
        for n in range(60)
    ]
    return of_one_class({(name,): Property(leaf) for name, leaf in leaves.items()}), known


@pytest.fixture(scope="module")
def data() -> Data:
    return Data.prepare(*points(), tiny_run())


@pytest.fixture(scope="module")
def unwatched() -> Data:
    """A few points, none held out."""
    schema, entities = points()
    return Data.prepare(schema, entities[:6], tiny_run())


def trainer(data: Data, **choices) -> Trainer:
    return Trainer(data, tiny_run(**choices), CPU)


def weights(trainer: Trainer) -> list[torch.Tensor]:
    return [one.detach().clone() for one in trainer.network.parameters()]


def same(one, other) -> bool:
    return all(map(torch.equal, one, other))


class Clock:
    """A clock that each step and each look moves on, to see what a budget becomes."""

    def __init__(self, monkeypatch, step: float, look: float, first: float = 0.0) -> None:
        self.now = 0.0
        advance, watch = Trainer.advance, Validator.evaluate

        def stepping(trainer: Trainer) -> float:
            self.now += first if trainer.state.step == 0 and first else step
            trainer.state.step += 1
            return 1.0

        def looking(watching: Validator, step: int) -> ValidationLoss:
            self.now += look
            return looked(step, 1 / (step + 1))

        assert advance
        assert watch
        monkeypatch.setattr(loop.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(Trainer, "advance", stepping)
        monkeypatch.setattr(Validator, "evaluate", looking)


def looked(step: int, nats: float) -> ValidationLoss:
    """A look at one held-out value that cost so much."""
    return ValidationLoss(step, nats, {0: (nats, 1)})


def ungraded(parts: ParallelGradients, entities: Tensor, cost: ChunkLossOf) -> StepLoss:
    """In the place of gradients, where what is asked is the rate and nothing is to be learnt."""
    return StepLoss(1.0, 1.0)


# ---------------------------------------------------------------- how long


def test_it_takes_the_steps_that_were_asked_for_and_tells_each(data):
    told = list(trainer(data, steps=4, evaluations=2).steps())
    assert [one.step for one in told] == [1, 2, 3, 4]
    assert [one.validation_loss is not None for one in told] == [False, True, False, True]
    assert all(isinstance(one, Progress) and math.isfinite(one.loss) for one in told)


def test_it_stops_when_the_held_out_part_gets_no_better(data, monkeypatch):
    nats = iter([5.0, 4.0, 4.5, 4.6, 4.7])
    monkeypatch.setattr(Validator, "evaluate", lambda self, step: looked(step, next(nats)))
    it = trainer(data, steps=50, evaluations=50, patience=3)
    assert len(list(it.steps())) == 5
    assert (it.state.best, it.state.best_step) == (4.0, 2)


def test_what_got_worse_than_a_constant_counts_as_the_constant():
    both = ValidationLoss(9, 7.0, {0: (5.0, 1), 1: (1.0, 3)})
    assert both.cost({0: 2.0, 1: 4.0}) == (2.0 + 3 * 1.0) / 4
    assert both.cost({0: 6.0, 1: 0.5}) == (5.0 + 3 * 0.5) / 4


def drawing(ordered: float = 0.5, texts: bool = False, **choices) -> Trainer:
    """Of entities that are drawn in order, with texts or without."""
    leaves = {"x": Number(), "kind": Category(), "y": Number()} | ({"name": Text()} if texts else {})
    known = [
        Entity(f"{n}", {"x": n / 7, "kind": "ab"[n % 2], "y": n % 5 + 0.5} | ({"name": f"it {n}"} if texts else {}))
        for n in range(60)
    ]
    run = replace(tiny_run(validation=0.3, **choices), hiding=Hiding(ordered=ordered))
    return Trainer(
        Data.prepare(of_one_class({(one,): Property(leaf) for one, leaf in leaves.items()}), known, run), run, CPU
    )


def test_a_look_at_drawing_costs_what_drawing_in_order_does():
    it = drawing(steps=2)
    list(it.steps())
    seen, held = it.validator.evaluate(it.state.step), it.held_out
    with it.ema.applied():
        exact = -in_order(it.network.eval(), held.batch(torch.arange(len(held))), held.layout.order)
    assert seen.nats == pytest.approx(float(exact.mean()), rel=1e-5)
    assert [often for _, often in seen.by_slot.values()] == [18] * 3
    assert it.state.history[-1]["cost"] == seen.nats  # counted in full, whatever a constant costs


def test_a_look_at_drawing_reads_no_more_than_so_many_tokens_and_asks_of_all_entities(monkeypatch):
    monkeypatch.setattr(validation, "MAX_TOKENS_READ", 2 * 18 * 3)  # of 18 entities, of three properties, twice
    seen = drawing(ordered=1.0, steps=1).validator.evaluate(0)
    assert sum(often for _, often in seen.by_slot.values()) == 2 * 18
    assert len(seen.by_slot) == 3


def test_looks_and_measures_that_take_only_some_held_out_entities_take_them_from_all_over_the_file(monkeypatch):
    """Of a knowledge base that is sorted by class the last class would else have no say in when to stop."""
    monkeypatch.setattr(validation, "MAX_ENTITIES", 6)
    monkeypatch.setattr(validation, "MAX_ENTITIES_MEASURED", 6)
    schema = Schema({of: Class(of, {("x",): Property(Number())}) for of in ("First", "Last")})
    known = [Entity(f"{of} {n}", {"x": n / 7}, (of,)) for of in ("First", "Last") for n in range(60)]
    run = tiny_run(steps=1, validation=0.3)
    it = Trainer(Data.prepare(schema, known, run), run, CPU)
    assert {it.codec.slots[slot].class_name for slot in it.validator.evaluate(0).by_slot} == {"First", "Last"}
    assert {row["class"] for row in it.validator.measure()} == {"First", "Last"}


def test_a_look_at_drawing_leaves_texts_out():
    it = drawing(texts=True, steps=1)
    assert {it.codec.slots[slot].kind for slot in it.validator.evaluate(it.state.step).by_slot} == {
        "number",
        "category",
    }


def test_looks_that_come_early_do_not_make_all_seem_as_slow(monkeypatch):
    clock = Clock(monkeypatch, step=0.01, look=1.0)
    it = drawing(seconds=300.0, steps=None, patience=99, evaluations=20)
    for _ in it.steps():
        pass
    early = [one["step"] for one in it.state.history if one["step"] * 20 < it.state.step]
    assert early == [100, 200, 400, 800]
    assert clock.now == pytest.approx(300, rel=0.07)


def test_what_a_constant_costs_is_that_of_the_very_values_that_a_look_asks_for(data):
    it = trainer(data, steps=1)
    assert it.validator.constant_nats.keys() == it.validator.evaluate(it.state.step).by_slot.keys()
    assert all(nats > 0 for nats in it.validator.constant_nats.values())


def test_without_steps_and_seconds_it_goes_on_while_it_gets_better(data, monkeypatch):
    nats = iter([5.0, 4.0, *[4.5] * 9])
    monkeypatch.setattr(Validator, "evaluate", lambda self, step: looked(step, next(nats)))
    monkeypatch.setattr(Trainer, "advance", lambda self: setattr(self.state, "step", self.state.step + 1) or 1.0)
    it = trainer(data, steps=None, patience=3)
    assert len(list(it.steps())) == 500
    assert it.state.total is None


def test_where_nobody_sees_it_getting_worse_it_ends_all_the_same(unwatched, monkeypatch):
    Clock(monkeypatch, step=0.001, look=0.001)
    for seconds in (None, 1e6):
        it = trainer(unwatched, steps=None, seconds=seconds)
        assert len(list(it.steps())) == MAX_STEPS_UNVALIDATED


@pytest.mark.parametrize(
    ("step", "look", "first"), [(0.1, 0.5, 0.0), (0.1, 0.5, 40.0), (0.01, 0.01, 5.0), (5.0, 2.0, 0.0), (0.2, 30.0, 1.0)]
)
def test_a_budget_ends_near_its_time(data, monkeypatch, step, look, first):
    clock = Clock(monkeypatch, step, look, first)
    it = trainer(data, steps=None, seconds=100.0, evaluations=20, absent=0)  # nothing comes after the steps
    totals = {one.total for one in it.steps()}
    assert 75 <= clock.now <= 105 + look
    assert len(totals - {None}) == 1, "it becomes a number of steps once"


@pytest.mark.parametrize("course", ["cosine", "plateau"])
@pytest.mark.parametrize("since", [100, 300, 800])
def test_a_budget_is_kept_where_steps_become_slower(data, monkeypatch, course, since):
    clock = Clock(monkeypatch, 0.1, 0.1)
    it = trainer(data, steps=None, seconds=100.0, evaluations=20, course=course, warmup=0)
    slow = Trainer.advance

    def slower(trainer: Trainer) -> float:
        clock.now += 0.1 * (trainer.state.step > since)
        return slow(trainer)

    monkeypatch.setattr(Trainer, "advance", slower)
    totals = [one.total for one in it.steps() if one.total is not None]
    assert totals == sorted(totals, reverse=True)
    assert totals[-1] < totals[0]
    assert 85 <= clock.now <= 104


@pytest.mark.parametrize("course", ["cosine", "plateau"])
@pytest.mark.parametrize(("since", "least", "is_more"), [(60, 94, True), (150, 88, True), (340, 80, False)])
def test_a_budget_is_used_where_steps_become_faster_while_the_rate_is_high(
    data, monkeypatch, course, since, least, is_more
):
    clock = Clock(monkeypatch, 0.1, 0.1)
    it = trainer(data, steps=None, seconds=100.0, evaluations=20, course=course, warmup=0)
    fast = Trainer.advance

    def busy(trainer: Trainer) -> float:
        clock.now += 0.1 * (trainer.state.step < since)
        return fast(trainer)

    monkeypatch.setattr(Trainer, "advance", busy)
    rates: dict[int | None, list[float]] = {}
    for one in it.steps():
        rates.setdefault(one.total, []).append(it.schedule.rate)
    totals = [total for total in rates if total is not None]
    assert totals == sorted(totals)
    assert (totals[-1] > totals[0]) == is_more
    assert least <= clock.now <= 102
    assert rates[totals[-1]] == sorted(rates[totals[-1]], reverse=True)
    assert rates[totals[-1]][-1] < 0.05 * rates[totals[0]][0]


@pytest.mark.parametrize(("step", "seconds", "is_enough"), [(0.1, 200.0, True), (0.5, 50.0, False), (0.12, 30.0, True)])
def test_a_network_that_has_too_few_steps_leaves_its_time_to_experts(data, monkeypatch, step, seconds, is_enough):
    Clock(monkeypatch, step=step, look=0.1)
    run = tiny_run(steps=None, seconds=seconds).with_experts(boosted_trees=BoostedTreesConfig(share=0.5))
    it = Trainer(data, run, CPU)
    steps = len(list(it.steps()))
    assert steps >= MIN_STEPS if is_enough else steps < MIN_STEPS / 2
    assert it.state.is_silent != is_enough
    it.finish()
    batch = it.tokens.batch(torch.arange(8))
    hidden, nothing = batch.slot % 2 == 0, torch.zeros_like(batch.known)
    blind, seeing = (beliefs(it.network, batch, hidden, visible).kinds for visible in (nothing, ~hidden))
    for kind, asked in blind.items():
        assert torch.allclose(asked.belief.entropy(), seeing[kind].belief.entropy(), atol=1e-6) != is_enough


def test_where_nothing_is_held_out_steps_that_become_slower_end_with_the_time(unwatched, monkeypatch):
    clock = Clock(monkeypatch, step=0.1, look=0.0)
    it, fast = trainer(unwatched, steps=None, seconds=60.0), Trainer.advance

    def busy(trainer: Trainer) -> float:
        clock.now += 2.0 * (trainer.state.step > 100)
        return fast(trainer)

    monkeypatch.setattr(Trainer, "advance", busy)
    planned = [progress.total for progress in it.steps()][-1]
    assert planned > it.state.step > 100
    assert clock.now < 65
    it.finish()
    assert it.state.best_step == it.state.step


def test_of_steps_and_a_budget_the_lesser_counts_where_steps_become_faster(data, monkeypatch):
    clock = Clock(monkeypatch, 0.1, 0.1)
    it = trainer(data, steps=500, seconds=130.0, evaluations=20, warmup=0)
    fast = Trainer.advance

    def busy(trainer: Trainer) -> float:
        clock.now += 0.2 * (trainer.state.step < 60)
        return fast(trainer)

    monkeypatch.setattr(Trainer, "advance", busy)
    totals = [one.total for one in it.steps()]
    assert min(totals) < 450
    assert totals[-1] == it.state.step == 500


def test_where_it_gets_no_better_the_rate_falls_early_and_it_ends_soon_after(data, monkeypatch):
    costs = {10: 5.0, 20: 4.0, 30: 4.1, 40: 4.2, 50: 4.3}
    monkeypatch.setattr(Validator, "evaluate", lambda self, step: looked(step, costs.get(step, 3.0)))
    monkeypatch.setattr(ParallelGradients, "compute", ungraded)
    it = trainer(data, steps=200, evaluations=20, course="plateau", tired=3, warmup=0)
    rates = {}
    for progress in it.steps():
        rates[progress.step] = it.optimizer.param_groups[0]["lr"]
    assert it.state.falls == 50
    assert it.state.step == it.total == round(50 / 0.7)
    assert len({rates[step] for step in range(1, 51)}) == 1
    falling = [rates[step] for step in range(51, it.total + 1)]
    assert falling == sorted(falling, reverse=True)
    assert falling[-1] < 0.1 * rates[1]
    assert it.state.best == 3.0


def test_where_it_gets_ever_better_the_rate_falls_in_the_last_part(data, monkeypatch):
    monkeypatch.setattr(Validator, "evaluate", lambda self, step: looked(step, 1 / step))
    monkeypatch.setattr(ParallelGradients, "compute", ungraded)
    it = trainer(data, steps=100, evaluations=20, course="plateau", warmup=0)
    rates = []
    for _ in it.steps():
        rates.append(it.optimizer.param_groups[0]["lr"])
    assert len(rates) == 100
    assert len(set(rates[:71])) == 1
    assert rates[70:] == sorted(rates[70:], reverse=True)
    assert rates[-1] < rates[70]
    assert it.state.falls == 0


def test_a_budget_that_one_step_uses_up_ends_after_it(data, monkeypatch):
    Clock(monkeypatch, step=1000.0, look=1.0)
    it = trainer(data, steps=None, seconds=10.0)
    assert len(list(it.steps())) == 1
    assert it.state.best_step == 1


def test_of_steps_and_a_budget_the_lesser_counts(data, monkeypatch):
    Clock(monkeypatch, step=0.1, look=0.1)
    assert len(list(trainer(data, steps=70, seconds=100.0).steps())) == 70


def test_a_few_steps_are_a_few_whatever_the_budget(data, monkeypatch):
    Clock(monkeypatch, step=0.1, look=0.1)
    told = list(trainer(data, steps=6, seconds=900.0, evaluations=3).steps())
    assert [one.step for one in told if one.validation_loss] == [2, 4, 6]


def test_what_the_watcher_takes_counts_as_time(data, monkeypatch):
    clock = Clock(monkeypatch, step=1.0, look=0.0)
    it = trainer(data, steps=3)
    for _ in it.steps():
        clock.now += 10.0
    assert it.state.seconds == 3 * 1.0 + 2 * 10.0  # after the last step nobody waits for the watcher


# ---------------------------------------------------------------- what is drawn


def test_the_same_seed_makes_the_same_weights_whatever_is_drawn_between(data):
    one, other = trainer(data), trainer(data)
    for _ in one.steps():
        pass
    for _ in other.steps():
        torch.rand(7)
    assert same(weights(one), weights(other))
    assert not same(weights(one), weights(trainer(data)))


def test_another_seed_makes_other_weights(data):
    assert not same(weights(trainer(data)), weights(trainer(data, seed=1)))


def test_training_leaves_the_global_generator_as_it_was():
    before = torch.get_rng_state()
    train(*points(), tiny_run(steps=1), CPU, lambda progress: None)
    assert torch.equal(before, torch.get_rng_state())


def test_every_entity_comes_once_before_any_comes_again(data):
    it = trainer(data, batch=16)
    N = len(data.training)
    drawn = torch.cat([it.entities_of(step) for step in range(3 * N // 16 + 1)])
    for turn in range(3):
        assert sorted(drawn[turn * N : (turn + 1) * N].tolist()) == list(range(N))
    assert drawn[:N].tolist() != drawn[N : 2 * N].tolist()


def test_a_batch_may_be_larger_than_the_data(unwatched):
    it = trainer(unwatched, batch=100)
    assert sorted(torch.bincount(it.entities_of(0)).tolist()) == [16, 16, 17, 17, 17, 17]


# ---------------------------------------------------------------- what is kept


def test_the_best_averaged_weights_are_kept(data, monkeypatch):
    nats = iter([5.0, 4.0, 4.5])
    it = trainer(data, steps=3, evaluations=3)
    kept = {}

    def look(self, step):
        kept[step] = [one.clone() for one in self.ema.weights]
        return looked(step, next(nats))

    monkeypatch.setattr(Validator, "evaluate", look)
    for _ in it.steps():
        pass
    it.finish()
    assert same(weights(it), kept[2])
    assert not it.network.training


def test_a_look_leaves_the_weights_as_they_were(data):
    it = trainer(data)
    it.advance()
    before = weights(it)
    assert it.validator.evaluate(it.state.step).nats == it.validator.evaluate(it.state.step).nats
    assert same(before, weights(it))


def test_held_out_nats_that_are_without_end_do_not_stop_it(data, monkeypatch):
    monkeypatch.setattr(Validator, "evaluate", lambda self, step, tokens=None: ValidationLoss(step, math.inf, {}))
    it = trainer(data, steps=4, evaluations=2)
    assert len(list(it.steps())) == 4
    assert (it.state.best_step, it.state.history[0]["nats"]) == (2, None)


# ---------------------------------------------------------------- what is no number


def test_a_loss_that_is_no_number_stops_it_with_good_weights(data):
    it = trainer(data, rate=1e30, steps=50)
    told = list(it.steps())
    assert len(told) < 50
    assert it.state.stopped == f"expected a loss that is a number, got none after step {it.state.step}"
    assert all(math.isfinite(one.loss) for one in told)
    assert all(one.isfinite().all() for one in [*weights(it), *it.ema.weights, *it.best])


def test_weights_that_are_no_numbers_stop_it_before_a_step(data):
    it = trainer(data)
    next(it.steps())
    with torch.no_grad():
        next(iter(it.network.parameters())).fill_(math.nan)
    assert list(it.steps()) == []
    assert it.state.step == 1
    assert it.is_done
    assert all(one.isfinite().all() for one in it.ema.weights)


def test_held_out_nats_that_are_no_number_stop_it(data, monkeypatch):
    monkeypatch.setattr(Validator, "evaluate", lambda self, step, tokens=None: ValidationLoss(step, math.nan, {}))
    it = trainer(data, steps=4, evaluations=4)
    assert len(list(it.steps())) == 1
    assert it.state.stopped.startswith("expected a loss on the held-out part that is a number")


def test_training_tells_it_in_one_line():
    with pytest.raises(TrainingError, match=r"^train: expected a loss .* Lower train\.rate \(1e\+30\)\.$"):
        train(*points(), tiny_run(rate=1e30, steps=50), CPU, lambda progress: None)


# ---------------------------------------------------------------- choices


def test_balance_divides_what_each_property_costs(data):
    one, other = trainer(data), trainer(data, balance=False)
    one.advance(), other.advance()
    assert not same(weights(one), weights(other))


def test_the_paper_objective_and_masks_train_too(data):
    paper = Run.of("paper")
    run = replace(tiny_run(), hiding=paper.hiding, train=replace(paper.train, steps=3, batch=16))
    it = Trainer(data, run, CPU)
    assert len(list(it.steps())) == 3


@pytest.mark.parametrize(
    ("choice", "complaint"),
    [
        ({"rate": math.nan}, "rate: expected more than 0, got nan"),
        ({"seconds": math.inf}, "seconds: expected more than 0, got inf"),
        ({"validation": 1.0}, "validation: expected 0 to below 1, got 1.0"),
        ({"smoothing": 1.0}, "smoothing: expected 0 to below 1"),
        ({"precision": "float16"}, "precision: expected one of auto, float32, bfloat16"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(choice, complaint):
    with pytest.raises(ValueError, match=complaint):
        TrainConfig(**choice)


def test_at_a_look_a_watcher_may_ask_how_wrong_answers_are_beside_the_constants():
    it = trainer(Data.prepare(*phones(), tiny_run()), steps=2, evaluations=1)
    first, last = it.steps()
    assert (first.measure, first.ended) == (None, False)
    before = weights(it)
    rows = last.measure()
    assert last.ended
    assert same(before, weights(it))
    assert rows == last.measure()
    assert {"number", "category"} <= {row["kind"] for row in rows}
    assert "text" not in {row["kind"] for row in rows}
    assert all(row["n"] and row["constant"] is not None for row in rows)
