"""The way from entities and a schema to a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

import torch

from kbdisk.entity import Entity
from kbdisk.errors import TrainingError
from kbdisk.schemas.schema import Schema
from kbdisk.shapes import Shapes
from kbdisk.training.checkpoint import Checkpoint, is_there
from kbdisk.training.data import Data
from kbdisk.training.identity import identity
from kbdisk.training.loop import Trainer, Watch
from kbdisk.training.run import Run
from kbdisk.training.signals import Interrupted, stopping
from kbdisk.training.sizing import fitted
from kbdisk.training.trained import Record, Trained


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
    with torch.random.fork_rng():
        trainer = Trainer(data, run, device)
        if checkpoint is None:
            _go(trainer, watch)
        else:
            _go_kept(trainer, watch, _opened(checkpoint, data, trainer, source or {}, resume, force))
    trainer.finish()
    memory = trainer.remembered(watch)
    record = _record(trainer, data, source or {})
    return Trained(data.codec, trainer.network, run, record, Shapes.learn(schema, entities), memory)


def _opened(
    folder: FilePath, data: Data, trainer: Trainer, source: Mapping[str, Any], resume: bool, force: bool
) -> Checkpoint:
    of = identity(data, trainer.run, source)
    if resume and is_there(folder):
        return Checkpoint.resume(folder, of, trainer)
    return Checkpoint.begin(folder, of, force=force)


def _go(trainer: Trainer, watch: Watch) -> None:
    for progress in trainer.steps():
        watch(progress)
    _refuse_stopped(trainer)


def _go_kept(trainer: Trainer, watch: Watch, checkpoint: Checkpoint) -> None:
    state = trainer.state
    if state.stopped:  # the last good weights are wanted
        return
    with stopping() as stop:
        try:
            for progress in trainer.steps():
                checkpoint.log(progress, trainer)
                watch(progress)
                ending = stop.signal
                if progress.look is not None or checkpoint.is_due or ending is not None:
                    checkpoint.save(trainer)
                if ending is not None:
                    raise Interrupted(ending, state.step, trainer.ahead, checkpoint.folder)
        finally:
            checkpoint.close()
    if state.best_step or not state.stopped:
        checkpoint.save(trainer)
    good = f"resume=True makes a model of the weights of step {state.best_step:,}, which were good"
    _refuse_stopped(trainer, good if state.best_step else "")


def _refuse_stopped(trainer: Trainer, way_out: str = "") -> None:
    if trainer.state.stopped:
        advice = f"Lower train.rate ({trainer.config.rate:g})" + (f"; {way_out}." if way_out else ".")
        raise TrainingError("train", f"{trainer.state.stopped}. {advice}")


def _record(trainer: Trainer, data: Data, source: Mapping[str, Any]) -> Record:
    state = trainer.state
    facts: dict[str, Any] = {
        "steps": state.step,
        "best_step": state.best_step,
        "seconds": round(state.seconds, 1),
        "parameters": sum(one.numel() for one in trainer.network.parameters()),
    }
    facts |= {"stopped": state.stopped} if state.stopped else {}
    return Record(
        dict(source),
        list(data.validation.ids),
        list(data.training.ids),
        state.history,
        facts=facts,
        constants=trainer.constants.to_json(),
    )
