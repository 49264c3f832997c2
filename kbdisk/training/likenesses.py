"""Likeness as safetensors: known entities, which properties are compared, and who tells each by slot, level, name."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from kbdisk.codec import Codec
from kbdisk.guides import Guide, Guiding
from kbdisk.leaves.number.around import are_masses
from kbdisk.likeness.features import BLOCKS, Features
from kbdisk.likeness.kin import STEEP, WAYS, Kin, Known
from kbdisk.memory.memory import Place
from kbdisk.training import weights

KNOWN, WHOLE = ("columns", "who", "held"), ("enough", "nearest", "slots")
KIN, WORTH = ("rows", "values", "weights", "ways"), ("share", "around")


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
    parts: dict[Place, dict[str, Tensor]] = defaultdict(dict)
    for name, one in tensors.items():
        slot, level, part = name.split(".")
        parts[int(slot), int(level)][part] = one
    inside = bool(((slots >= 0) & (slots < len(codec.slots))).all()) and all(
        0 <= at < len(codec.slots) for at, _ in parts
    )
    if (
        len(enough) != len(codec.classes)
        or not inside
        or any(codec.slots[at].kind not in BLOCKS for at in slots.tolist())
    ):
        raise ValueError("properties of another model")
    features = Features.of(codec, slots.cpu()).to(device)
    if known.columns.shape != (len(known.who), features.width) or len(known.held) != len(known.who):
        raise ValueError("entities of another model")
    return Guide(features, enough, {place: _guiding(own, known, int(nearest)) for place, own in sorted(parts.items())})


def _guiding(own: dict[str, Tensor], known: Known, nearest: int) -> Guiding:
    """Kin that are among those who are known."""
    kin = Kin(known, own["rows"], own["values"], own["weights"], own["ways"], nearest)
    one = Guiding(kin, *(own[name] for name in WORTH))
    shapes = (kin.rows.shape, kin.weights.shape, kin.ways.shape, one.share.shape)
    wanted = (kin.values.shape, known.columns.shape[1:], (WAYS if kin.is_number else len(STEEP),), ())
    finite = all(bool(part.isfinite().all()) for part in (kin.values, kin.weights, kin.ways, one.share))
    inside = len(kin.rows) > 0 and int(kin.rows.min()) >= 0 and int(kin.rows.max()) < len(known.who)
    positive = bool((kin.weights >= 0).all()) and nearest > 0
    if shapes != wanted or not finite or not inside or not positive or not are_masses(one.around):
        raise ValueError("likeness that makes no sense")
    return one
