"""The way from entities and a schema to a model."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path as FilePath
from typing import Any

import torch

from kbdisk.entity import Entity
from kbdisk.errors import KBDiskWarning, TrainingError
from kbdisk.experts import boosted_trees, gaussian_process, given_only, knn, label_regression
from kbdisk.experts.base import Candidates, Report
from kbdisk.experts.queries import Sides
from kbdisk.experts.stacking import ROUNDS, stack
from kbdisk.schemas.schema import Schema
from kbdisk.shapes import Shapes
from kbdisk.training.checkpoint import Checkpoint, folder_of, is_there
from kbdisk.training.data import Data
from kbdisk.training.files import JUDGED
from kbdisk.training.identity import identity
from kbdisk.training.loop import Trainer
from kbdisk.training.members import another, several
from kbdisk.training.reserve import reserved_slots
from kbdisk.training.room import within_memory
from kbdisk.training.run import Run
from kbdisk.training.schedule import still_for
from kbdisk.training.signals import Interrupted, stopping
from kbdisk.training.sizing import fitted
from kbdisk.training.state import After, Progress, Watch
from kbdisk.training.trained import Member, Record, Trained

EXPERTS: Mapping[str, tuple[str, Callable[..., Candidates]]] = {  # what the progress bar says, and what fits each
    "knn": ("comparing", knn.fit),
    "gaussian_process": ("fitting functions", gaussian_process.fit),
    "label_regression": ("fitting labels", label_regression.fit),
    "boosted_trees": ("growing trees", boosted_trees.fit),
}
WEIGHING = 0.25  # of the experts' time: for their weights
REFITTING = {"boosted_trees": 0.4}  # of an expert's time: for what is fitted once there are weights


def train(
    schema: Schema,
    entities: Sequence[Entity],
    run: Run,
    device: torch.device,
    watch: Watch,
    *,
    held_out: Sequence[Entity] = (),
    source: Mapping[str, Any] | None = None,
    checkpoint: FilePath | None = None,
    resume: bool = False,
    force: bool = False,
) -> Trained:
    """A model of the entities; what is `held_out` tells when to stop, else a share of them does.

    With a `checkpoint`, a folder, the run is kept there as it goes: SIGINT and SIGTERM end it with `Interrupted`, and
    `resume` goes on from there, or begins where nothing is kept. `force` gives up a run that is kept. The folder stays
    until `checkpoint.remove`, when the model is safe.
    """
    data = Data.prepare(schema, entities, run, held_out)
    run = fitted(run, data)
    keeping = Keeping(checkpoint, source or {}, resume, force)
    with torch.random.fork_rng(), within_memory(run.train.batch, run.model.width):
        trainers, members = _networks(run, data, device, watch, keeping)
    first, *others = members
    record, shapes = _record(trainers, len(members), data, keeping.source), Shapes.learn(data.codec.schema, entities)
    reserved = {} if data.whole is None else reserved_slots(data.training, data.whole)
    trained = Trained(
        data.codec, first.network, run, record, shapes, first.latent_knn, tuple(others), reserved=reserved
    )
    if run.experts_share and len(data.validation):  # which the weights of experts are fitted to
        trained = _with_experts(trained, Sides(data.training, data.validation, data.whole).to(device), watch)
    return trained


def _with_experts(trained: Trained, sides: Sides, watch: Watch) -> Trained:
    """The same with the experts that have a weight: each learns from training, is weighed, then learns from the rest, too."""
    run, clock = trained.run, Clock(trained, watch)
    used = [name for name in EXPERTS if getattr(run, name).share]
    candidates: dict[str, Candidates] = {}
    for name in used:
        doing, fit = EXPERTS[name]
        with clock.stage(name, doing) as (seconds, report):
            candidates[name] = fit(
                trained.codec, sides, config=getattr(run, name), seed=run.seed, seconds=seconds, report=report
            )
    with clock.stage(WEIGHTS, "weighing") as (seconds, report):
        generator = torch.Generator(sides.training.slot.device).manual_seed(run.seed)
        groups = [candidates[name].group for name in used]
        weighted = dict(
            zip(used, stack(groups, trained.believer, sides, ROUNDS, generator, seconds, report), strict=True)
        )
    trained = replace(trained, judged={name: group for name, group in weighted.items() if group and name in JUDGED})
    for name, group in weighted.items():
        if group is not None:
            with clock.stage(f"{name} again", f"{EXPERTS[name][0]} again") as (seconds, report):
                changes: dict[str, Any] = {name: candidates[name].refitted(group, seconds, report)}
                trained = replace(trained, **changes)
    if run.given_only.share:
        with clock.stage(GIVEN_ONLY, "asking again") as (seconds, report):
            config, seed = run.given_only, run.seed
            answers = given_only.fit(
                trained.fair, trained.codec, sides, config=config, seed=seed, seconds=seconds, report=report
            )
            trained = replace(trained, given_only=answers)
    return trained


WEIGHTS, GIVEN_ONLY = "weights", "given_only"  # stages beside the experts' own


class Clock:
    """The time of each stage of fitting experts: its part of what the stages before left."""

    def __init__(self, trained: Trained, watch: Watch) -> None:
        run, self.facts, self.watch = trained.run, trained.record.facts, watch
        self.budget = run.train.seconds
        own = {name: (1 - WEIGHING) * getattr(run, name).share for name in EXPERTS}
        again = {name: share * own[name] for name, share in REFITTING.items()}
        self.shares = {name: share - again.get(name, 0.0) for name, share in own.items()}
        self.shares[WEIGHTS] = WEIGHING * sum(getattr(run, name).share for name in EXPERTS)
        self.shares |= {f"{name} again": again.get(name, 0.0) for name in EXPERTS}
        self.shares[GIVEN_ONLY] = run.given_only.share

    @contextmanager
    def stage(self, name: str, doing: str) -> Iterator[tuple[float | None, Report]]:
        """The seconds that a stage has, if they are limited, and what it reports to."""
        begun, stages = time.monotonic(), list(self.shares)
        later = sum(self.shares[other] for other in stages[stages.index(name) + 1 :])
        spent = self.facts["seconds"]
        seconds = None
        if self.budget is not None:
            least = self.shares[name] * self.budget if name == WEIGHTS else 0.0  # experts without weights are lost
            seconds = max(still_for(self.shares[name], self.budget, spent, later), least)

        def report(done: int, total: int) -> None:
            after = After(doing, done, total)
            steps, so_far = self.facts["steps"], spent + time.monotonic() - begun
            self.watch(Progress(steps, steps, so_far, math.nan, ended=True, after=after))

        yield seconds, report
        self.facts["seconds"] = round(spent + time.monotonic() - begun, 1)


def _every(run: Run, trainers: Sequence[Trainer], is_kept: Callable[[int], bool]) -> Iterator[tuple[Run, int]]:
    """Each network's run, and how many there are as far as is known.

    `trainers` are those of the networks before; `is_kept` tells which of a run that is resumed were begun.
    """
    planned = several(run)
    yield from ((own, len(planned)) for own in planned)
    while (own := another(run, [one.state.seconds for one in trainers], is_kept(len(trainers)))) is not None:
        yield own, len(trainers) + 1


def _networks(
    run: Run, data: Data, device: torch.device, watch: Watch, keeping: Keeping
) -> tuple[list[Trainer], list[Member]]:
    """Every network as it was trained, and those that are any good."""
    trainers: list[Trainer] = []
    members = []
    for own, count in _every(run, trainers, keeping.is_begun):
        trainer = Trainer(data, own, device)
        watching = partial(_watched, watch, (len(trainers) + 1, count))
        known = keeping.go(trainer, data, len(trainers), watching)
        trainers.append(trainer)
        if trainer.state.stopped and not (known and trainer.state.best_step):
            _refuse_stopped(trainers, keeping.folder is not None)
        if trainer.state.best_step or not trainer.state.stopped:
            trainer.finish()
            trainer.even(watching)
            trainer.settle(watching)
            members.append(Member(trainer.network, trainer.fit_latent_knn(watching)))
    return trainers, members


@dataclass(frozen=True)
class Keeping:
    """Where a run is kept as it goes, if anywhere: each network in a folder of its own."""

    folder: FilePath | None
    source: Mapping[str, Any]
    resume: bool
    force: bool

    def is_begun(self, number: int) -> bool:
        """Whether a network of a run that is resumed was begun."""
        return self.resume and self.folder is not None and is_there(folder_of(self.folder, number))

    def go(self, trainer: Trainer, data: Data, number: int, watch: Watch) -> bool:
        """All steps of a network; whether it was known before that it could not go on."""
        if self.folder is None:
            _go(trainer, watch)
            return False
        folder, of = folder_of(self.folder, number), identity(data, trainer.run, self.source)
        if self.resume and is_there(folder):
            kept = Checkpoint.resume(folder, of, trainer)
        else:
            kept = Checkpoint.begin(folder, of, force=self.force or number > 0)
        known = bool(trainer.state.stopped)
        _go_kept(trainer, watch, kept)
        return known


def _watched(watch: Watch, member: tuple[int, int], progress: Progress) -> None:
    watch(replace(progress, member=member))


def _go(trainer: Trainer, watch: Watch) -> None:
    for progress in trainer.steps():
        watch(progress)


def _go_kept(trainer: Trainer, watch: Watch, checkpoint: Checkpoint) -> None:
    state = trainer.state
    if state.stopped:  # it is resumed, and the last good weights are wanted
        return
    with stopping() as stop:
        try:
            for progress in trainer.steps():
                checkpoint.log(progress, trainer)
                watch(progress)
                if stop.signal is not None:
                    break
                if progress.look is not None or checkpoint.is_due:
                    checkpoint.save(trainer)
        finally:
            checkpoint.close()
        if state.best_step or not state.stopped:
            checkpoint.save(trainer)
        if stop.signal is not None:  # also one that came with the last step, or while it was kept
            raise Interrupted(stop.signal, state.step, trainer.ahead, checkpoint.folder)


def _refuse_stopped(trainers: Sequence[Trainer], is_kept: bool) -> None:
    """TrainingError where the first network could not go on; of another one only a warning, as there is a model without it."""
    state, number = trainers[-1].state, len(trainers)
    advice = f"Lower train.rate ({trainers[-1].config.rate:g})"
    good = f"the weights of step {state.best_step:,}, which were good" if state.best_step else ""
    if number > 1:
        left = f"It has {good}" if good else "It is left out"
        warnings.warn(f"train: network {number}: {state.stopped}. {left}. {advice}.", KBDiskWarning, stacklevel=4)
        return
    way_out = f"; resume=True makes a model of {good}" if good and is_kept else ""
    raise TrainingError("train", f"{state.stopped}. {advice}{way_out}.")


def _record(trainers: Sequence[Trainer], networks: int, data: Data, source: Mapping[str, Any]) -> Record:
    """How the first of several networks came about, and how long all of them took."""
    trainer, state = trainers[0], trainers[0].state
    facts: dict[str, Any] = {
        "networks": networks,
        "steps": state.step,
        "best_step": state.best_step,
        "seconds": round(sum(one.state.seconds for one in trainers), 1),
        "parameters": sum(one.numel() for each in trainers for one in each.network.parameters()),
    }
    stopped = next((one.state.stopped for one in trainers if one.state.stopped), "")
    facts |= {"stopped": stopped} if stopped else {}
    return Record(
        dict(source),
        list(data.validation.ids),
        list(data.training.ids),
        state.history,
        facts=facts,
        constants=trainer.watching.constants.to_json(),
    )
