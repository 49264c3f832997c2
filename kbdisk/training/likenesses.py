"""Likeness as safetensors: known entities, which properties are compared, and who tells each by slot, level, name."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from kbdisk.data import Codec
from kbdisk.data.slots import Slot
from kbdisk.experts.base import Guide, Guiding
from kbdisk.experts.features import BLOCKS, Features
from kbdisk.experts.knn import STEEP, TOLD, WAYS, Kin, Known
from kbdisk.experts.knn_config import MOST
from kbdisk.experts.latent_knn import ENOUGH, LESS
from kbdisk.leaves.number.around import are_masses
from kbdisk.training import weights

KNOWN, WHOLE = ("columns", "who", "held"), ("enough", "nearest", "slots")
KIN, WORTH = ("rows", "values", "weights", "ways"), ("share", "around")
SLIGHT = 1e-6  # that shares may be beyond 1


def to_bytes(likeness: Guide) -> bytes:
    """What is known, and who tells what."""
    assert isinstance(likeness.sight, Features)
    slots = (likeness.sight.start >= 0).nonzero()[:, 0]
    tensors = {"enough": likeness.enough, "slots": slots}
    for (slot, level), one in likeness.places.items():
        assert isinstance(one.expert, Kin)
        tensors |= {name: getattr(one.expert.known, name) for name in KNOWN}  # the same of all
        tensors["nearest"] = torch.tensor(one.expert.nearest)
        for part, names in ((one.expert, KIN), (one, WORTH)):
            tensors |= {f"{slot}.{level}.{name}": getattr(part, name) for name in names}
    return save({name: one.cpu().contiguous() for name, one in tensors.items()})


def read(file: Path, codec: Codec, device: torch.device) -> Guide:
    """The likeness of a file; ValueError or the like where it makes no sense."""
    tensors = weights.read(file, device)
    known = Known(*(tensors.pop(name) for name in KNOWN))
    enough, nearest, slots = (tensors.pop(name) for name in WHOLE)
    parts = weights.by_place(tensors)
    kinds = dict(enumerate(slot.kind for slot in codec.slots))
    if len(enough) != len(codec.classes) or any(kinds.get(at) not in BLOCKS for at in slots.tolist()):
        raise ValueError("properties of another model")
    features = Features.of(codec, slots.cpu()).to(device)
    N, F = len(known.who), features.width
    fits = (
        weights.is_of(known.columns, torch.float16, N, F)
        and weights.is_of(known.who, torch.int64, N)
        and weights.is_of(known.held, torch.bool, N)
    )
    if not fits or not weights.is_of(enough, torch.int64, len(enough)):
        raise ValueError("entities of another model")
    guiding = {
        place: _guiding(own, known, codec.slots[place[0]], int(nearest))
        for place, own in parts.items()
        if place[0] in kinds and place[1] in (ENOUGH, LESS)
    }
    if len(guiding) < len(parts):
        raise ValueError("properties of another model")
    return Guide(features, enough, guiding)


def _guiding(own: dict[str, Tensor], known: Known, slot: Slot, nearest: int) -> Guiding:
    """Kin that are among those who are known, and tell what there is to tell."""
    kin = Kin(known, own["rows"], own["values"], own["weights"], own["ways"], nearest)
    one = Guiding(kin, *(own[name] for name in WORTH))
    M, F = len(kin.rows), known.columns.shape[1]
    ways, told = (WAYS, torch.float64) if slot.kind == "number" else (len(STEEP), torch.int64)
    shaped = (
        weights.is_of(kin.rows, torch.int64, M)
        and weights.is_of(kin.values, told, M)
        and weights.is_of(kin.weights, torch.float32, F)
        and weights.is_of(kin.ways, torch.float64, ways)
        and weights.is_of(one.share, torch.float64)
        and weights.is_of(one.around, torch.float64, len(one.around))
    )
    if slot.kind not in TOLD or not shaped or M == 0 or not 0 < nearest <= MOST:
        raise ValueError("likeness that makes no sense")
    inside = weights.between(kin.rows, 0, len(known.who) - 1)
    if kin.is_number:
        inside = inside and bool(kin.values.isfinite().all())
    else:
        labels = slot.codec.labels if slot.kind == "category" else slot.codec.targets
        inside = inside and weights.between(kin.values, 0, len(labels) - 1)
    shares = weights.between(kin.ways, 0, 1) and float(kin.ways.sum()) < 1 + SLIGHT and weights.between(one.share, 0, 1)
    positive = bool((kin.weights >= 0).all() and kin.weights.isfinite().all())
    if not (inside and shares and positive and are_masses(one.around)):
        raise ValueError("likeness that makes no sense")
    return one
