"""The way from entities and a schema to a model."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kbdisk.entity import Entity
from kbdisk.schemas.schema import Schema
from kbdisk.training.data import Data
from kbdisk.training.loop import Trainer, Watch
from kbdisk.training.run import Run
from kbdisk.training.trained import Record, Trained


def train(schema: Schema, entities: Sequence[Entity], run: Run, device: torch.device, watch: Watch) -> Trained:
    """A model of the entities."""
    data = Data.prepare(schema, entities, run)
    with torch.random.fork_rng():
        trainer = Trainer(data, run, device)
        trainer.run_through(watch)
    trainer.average.put(trainer.best)
    trainer.network.eval()
    record = Record(
        validation=list(data.validation.ids),
        training=list(data.training.ids),
        history=trainer.state.history,
        facts={
            "steps": trainer.state.step,
            "seconds": round(trainer.state.seconds, 1),
            "best_step": trainer.state.best_step,
        },
    )
    return Trained(data.codec, trainer.network, run, record)
