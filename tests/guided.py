"""Asking a model what it held out: `from guided import held_out, nats, off, slot_of`."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kbdisk.data.dataset import Batch
from kbdisk.entity import Entity
from kbdisk.model.diffusion import Model, beliefs
from kbdisk.training import Trained


def held_out(model: Trained, known: Sequence[Entity], name: str) -> tuple[Batch, torch.Tensor]:
    """The held-out ones of some entities of one class, and which tokens are known values of one property."""
    out = set(model.record.validation)
    batch = model.encode([one for one in known if model.schema.id_of(one) in out]).batch(torch.arange(len(out)))
    return batch, batch.known & (batch.slot == slot_of(model, name))


def slot_of(model: Trained, name: str) -> int | None:
    """The slot of a property of the only class."""
    return model.codec.slot(model.codec.classes[0], (name,))


def nats(believer: Model, batch: Batch, hidden: torch.Tensor) -> float:
    """-log p of known values, on average, with all else visible."""
    hidden = hidden & batch.known
    return float(-beliefs(believer, batch, hidden, batch.known & ~hidden).log_prob(batch)[hidden].mean())


def off(believer: Model, batch: Batch, hidden: torch.Tensor, visible: torch.Tensor | None = None) -> float:
    """How far off known numbers are told, on average, with all else visible or some of it."""
    hidden = hidden & batch.known
    told = beliefs(believer, batch, hidden, batch.known & ~hidden if visible is None else visible).kinds["number"]
    truth = told.belief.numbers(batch.values["number"][told.rows][:, None])[:, 0]
    return float((told.belief.expected() - truth).abs().mean())
