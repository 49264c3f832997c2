"""The way from entities and a schema to a model."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path as FilePath
from typing import Any

import torch

from kbdisk.entity import Entity
from kbdisk.errors import KBDiskWarning, TrainingError
from kbdisk.experts import boosted_trees, gaussian_process, given_only, knn, label_regression
from kbdisk.experts.base import ExpertGroup
from kbdisk.experts.given_only import GivenOnly
from kbdisk.experts.queries import Sides
from kbdisk.schemas.schema import Schema
from kbdisk.shapes import Shapes
from kbdisk.training.checkpoint import Checkpoint, folder_of, is_there
from kbdisk.training.data import Data
from kbdisk.training.identity import identity
from kbdisk.training.loop import Trainer
from kbdisk.training.members import another, several
from kbdisk.training.room import within_memory
from kbdisk.training.run import STACKED, Run
from kbdisk.training.schedule import still_for
from kbdisk.training.signals import Interrupted, stopping
from kbdisk.training.sizing import fitted
from kbdisk.training.state import After, Progress, Watch
from kbdisk.training.trained import Member, Record, Trained

EXPERTS: Mapping[str, tuple[str, Callable[..., Any]]] = {  # by name: what the progress bar says, and what fits it
    "knn": ("comparing", knn.fit),
    "gaussian_process": ("fitting functions", gaussian_process.fit),
    "label_regression": ("fitting labels", label_regression.fit),
    "boosted_trees": ("growing trees", boosted_trees.fit),
    "given_only": ("asking again", given_only.fit),
}


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
    trained = Trained(data.codec, first.network, run, record, shapes, first.latent_knn, tuple(others))
    for name in STACKED:
        if getattr(run, name).share and len(data.validation):  # which the weights of experts are fitted to
            changes: dict[str, Any] = {name: _fit_expert(trained, data, device, watch, name)}
            trained = replace(trained, **changes)
    return trained


def _fit_expert(
    trained: Trained, data: Data, device: torch.device, watch: Watch, name: str
) -> ExpertGroup | GivenOnly | None:
    """The experts of one kind that have a weight beside the model so far."""
    run, facts, begun = trained.run, trained.record.facts, time.monotonic()
    config, (doing, fit_expert) = getattr(run, name), EXPERTS[name]

    def report(done: int, total: int) -> None:
        spent, after = facts["seconds"] + time.monotonic() - begun, After(doing, done, total)
        watch(Progress(facts["steps"], facts["steps"], spent, math.nan, ended=True, after=after))

    experts: ExpertGroup | GivenOnly | None = fit_expert(
        trained.believer,
        data.codec,
        Sides(data.training, data.validation, data.whole).to(device),
        config=config,
        seed=run.seed,
        seconds=_time_for(name, run, facts["seconds"]),
        report=report,
    )
    facts["seconds"] = round(facts["seconds"] + time.monotonic() - begun, 1)
    return experts


def _time_for(name: str, run: Run, spent: float) -> float | None:
    """The seconds for an expert, once `spent` seconds of the budget are used."""
    if run.train.seconds is None:
        return None
    later = sum(getattr(run, other).share for other in STACKED[STACKED.index(name) + 1 :])
    return still_for(getattr(run, name).share, run.train.seconds, spent, later)


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
        if trainer.state.stopped and not known:
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
