"""A memory as safetensors: each shelf's tensors by slot, level and name, and what is true of all."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import torch
from safetensors.torch import save

from kbdisk.data import Codec
from kbdisk.experts.latent_knn import Memory
from kbdisk.experts.latent_knn_index import REACHES, SAYING, Shelf
from kbdisk.leaves.number.around import are_masses
from kbdisk.training import weights

NAMES = [one.name for one in fields(Shelf)]
WHOLE = ("enough", "held", "nearest")


def to_bytes(memory: Memory) -> bytes:
    """A memory's tensors."""
    whole = (memory.enough, memory.held, torch.tensor(memory.nearest))
    tensors = dict(zip(WHOLE, whole, strict=True))
    for (slot, level), shelf in memory.shelves.items():
        tensors |= {f"{slot}.{level}.{name}": getattr(shelf, name) for name in NAMES}
    return save({name: one.cpu().contiguous() for name, one in tensors.items()})


def read(file: Path, codec: Codec, device: torch.device) -> Memory:
    """The memory of a file; ValueError or the like where it makes no sense."""
    tensors = weights.read(file, device)
    whole = [tensors.pop(name) for name in WHOLE]
    for name, one in tensors.items():
        if one.is_floating_point() and not bool(one.isfinite().all()):
            raise ValueError(f"NaN or infinity in {name}")
    shelves = {place: Shelf(**of) for place, of in weights.by_place(tensors).items()}
    for (slot, _), shelf in shelves.items():
        if not 0 <= slot < len(codec.slots) or not _fits(shelf):
            raise ValueError("values of another model")
    if len(whole[0]) != len(codec.classes):
        raise ValueError(f"{len(whole[0])} classes, not {len(codec.classes)}")
    return Memory(shelves, whole[0], whole[1], int(whole[2]))


def _fits(shelf: Shelf) -> bool:
    """Whether a shelf's tensors are those of one."""
    lengths = {len(shelf), len(shelf.codes), len(shelf.who), len(shelf.held)}
    shapes = (shelf.keys.shape[1:], shelf.mass.shape[:1], shelf.said.shape)
    wanted = (shelf.mean.shape, (len(REACHES),), (SAYING,))
    return lengths == {len(shelf)} and shapes == wanted and shelf.mass.ndim == 2 and are_masses(shelf.around)
