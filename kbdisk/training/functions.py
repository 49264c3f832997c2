"""Smooth functions as safetensors: known entities, which properties are looked at, and each function by slot, level, name."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from kbdisk.data import Codec
from kbdisk.data.slots import Slot
from kbdisk.experts.base import Guide, Guiding
from kbdisk.experts.features import BLOCKS, Features
from kbdisk.experts.gaussian_process import Kernel
from kbdisk.experts.gaussian_process_config import MOST
from kbdisk.experts.gaussian_process_expert import Function, Points
from kbdisk.experts.latent_knn import ENOUGH, LESS
from kbdisk.leaves.number.around import are_masses
from kbdisk.training import weights

POINTS, WHOLE = ("columns", "who"), ("enough", "slots")
FUNCTION, KERNEL, WORTH = (
    ("rows", "counts", "mean", "scale", "span", "knots", "labels", "steep"),
    Kernel._fields,
    ("share", "around"),
)


def to_bytes(smooth: Guide) -> bytes:
    """What is known, and what tells what."""
    assert isinstance(smooth.sight, Features)
    slots = (smooth.sight.start >= 0).nonzero()[:, 0]
    tensors = {"enough": smooth.enough, "slots": slots}
    for (slot, level), one in smooth.places.items():
        assert isinstance(one.expert, Function)
        tensors |= {name: getattr(one.expert.points, name) for name in POINTS}  # the same of all
        for part, names in ((one.expert, FUNCTION), (one.expert.kernel, KERNEL), (one, WORTH)):
            tensors |= {f"{slot}.{level}.{name}": getattr(part, name) for name in names}
    return save({name: one.cpu().contiguous().clone() for name, one in tensors.items()})  # levels share a function


def read(file: Path, codec: Codec, device: torch.device) -> Guide:
    """The functions of a file; ValueError or the like where they make no sense."""
    tensors = weights.read(file, device)
    points = Points(*(tensors.pop(name) for name in POINTS))
    enough, slots = (tensors.pop(name) for name in WHOLE)
    parts = weights.by_place(tensors)
    if len(enough) != len(codec.classes) or any(
        not 0 <= at < len(codec.slots) or codec.slots[at].kind not in BLOCKS for at in slots.tolist()
    ):
        raise ValueError("properties of another model")
    features = Features.of(codec, slots.cpu()).to(device)
    N = len(points.who)
    if not (
        weights.is_of(points.columns, torch.float32, N, features.width) and weights.is_of(points.who, torch.int64, N)
    ):
        raise ValueError("entities of another model")
    if not weights.is_of(enough, torch.int64, len(codec.classes)) or not all(
        0 <= slot < len(codec.slots) and level in (ENOUGH, LESS) for slot, level in parts
    ):
        raise ValueError("properties of another model")
    return Guide(
        features, enough, {place: _guiding(own, points, codec.slots[place[0]]) for place, own in parts.items()}
    )


def _guiding(own: dict[str, Tensor], points: Points, slot: Slot) -> Guiding:
    """A function that tells what there is to tell."""
    kernel = Kernel(*(own[name] for name in KERNEL))
    rows, counts, *others = (own[name] for name in FUNCTION)
    function = Function(points, rows, counts, kernel, *others)
    one = Guiding(function, *(own[name] for name in WORTH))
    (n, t), F = function.counts.shape, points.columns.shape[1]
    many = 0 if slot.kind == "number" else t
    floats = {"counts": (n, t), "mean": (t,), "scale": (t,), "span": (2,), "steep": ()} | dict(
        zip(KERNEL, ((F,), (F,), (), ()), strict=True)
    )
    shaped = (
        0 < n <= MOST
        and all(
            weights.is_of(own[name], torch.float64, *shape) and bool(own[name].isfinite().all())
            for name, shape in floats.items()
        )
        and weights.is_of(function.rows, torch.int64, n)
        and weights.is_of(function.labels, torch.int64, many)
        and weights.is_of(one.share, torch.float64)
        and weights.is_of(one.around, torch.float64, len(one.around))
    )
    if not shaped or slot.kind not in ("number", "category") or (slot.kind == "number") != (t == 1 and not many):
        raise ValueError("functions that make no sense")
    if not weights.is_of(function.knots, torch.float64, 2, function.knots.shape[-1]) or not bool(
        (function.knots.diff() > 0).all()
    ):
        raise ValueError("functions that make no sense")
    inside = weights.between(function.rows, 0, len(points.who) - 1) and bool(
        (torch.stack([*map(torch.min, kernel)]) >= 0).all()
    )
    if many:
        inside = inside and weights.between(function.labels, 0, len(slot.codec.labels) - 1)
    if not inside or not weights.between(one.share, 0, 1) or not are_masses(one.around):
        raise ValueError("functions that make no sense")
    return one
