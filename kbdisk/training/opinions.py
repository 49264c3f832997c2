"""What second opinions are worth as safetensors: by slot, level and name."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from kbdisk.data import Codec
from kbdisk.experts.base import Guiding
from kbdisk.experts.given_only import Given, Opinions, Second
from kbdisk.experts.latent_knn import ENOUGH, LESS
from kbdisk.leaves.number.around import are_masses
from kbdisk.training import weights

WORTH = ("share", "around")


def to_bytes(opinions: Opinions) -> bytes:
    """What they are worth."""
    tensors = {"enough": opinions.enough}
    for (slot, level), one in opinions.places.items():
        tensors |= {f"{slot}.{level}.{name}": getattr(one, name) for name in WORTH}
    return save({name: one.cpu().contiguous() for name, one in tensors.items()})


def read(file: Path, codec: Codec, device: torch.device) -> Opinions:
    """The opinions of a file; ValueError or the like where they make no sense."""
    tensors = weights.read(file, device)
    enough, parts = tensors.pop("enough"), weights.by_place(tensors)
    places = {place: _guiding(place[0], own) for place, own in parts.items()}
    given = Given.of(codec).to(device)
    known = all(slot in given.told and level in (ENOUGH, LESS) for slot, level in places)
    if enough.dtype != torch.int64 or enough.shape != (len(codec.classes),) or not known or not places:
        raise ValueError("properties of another model")
    return Opinions(given, enough, places)


def _guiding(slot: int, own: dict[str, Tensor]) -> Guiding:
    one = Guiding(Second(slot), *(own[name] for name in WORTH))
    is_share = one.share.dtype == torch.float64 and one.share.shape == () and 0 <= float(one.share) <= 1
    if not is_share or one.around.dtype != torch.float64 or not are_masses(one.around):
        raise ValueError("opinions that make no sense")
    return one
