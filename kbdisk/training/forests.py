"""A forest as safetensors: its columns, and each slot's trees by slot and name."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from kbdisk.data import Codec
from kbdisk.experts.base import Guide, Guiding
from kbdisk.experts.boosted_trees_columns import Columns
from kbdisk.experts.boosted_trees_expert import Grown
from kbdisk.experts.boosted_trees_tensors import Trees
from kbdisk.experts.latent_knn import ENOUGH
from kbdisk.experts.target_scale import Units
from kbdisk.leaves.number.around import are_masses
from kbdisk.training import weights

WHOLE = ("slot", "label", "enough")
TREES, SIGHT, WORTH = ("column", "border", "leaves", "start"), ("columns", "labels", "kept"), ("share", "around")


def to_bytes(forest: Guide) -> bytes:
    """A forest's tensors."""
    assert isinstance(forest.sight, Columns)
    tensors = {"slot": forest.sight.slot, "label": forest.sight.label, "enough": forest.enough}
    for (slot, _), one in forest.places.items():
        assert isinstance(one.expert, Grown)
        for part, names in ((one.expert.trees, TREES), (one.expert, SIGHT), (one, WORTH)):
            tensors |= {f"{slot}.{name}": getattr(part, name) for name in names}
        units = one.expert.units
        if units is not None:
            tensors[f"{slot}.units"] = torch.tensor([units.mean, units.deviation, units.least], dtype=torch.float64)
    return save({name: one.cpu().contiguous() for name, one in tensors.items()})


def read(file: Path, codec: Codec, device: torch.device) -> Guide:
    """The forest of a file; ValueError or the like where it makes no sense."""
    tensors = weights.read(file, device)
    slot, label, enough = (tensors.pop(name) for name in WHOLE)
    columns = Columns(slot, label)
    parts: dict[int, dict[str, Tensor]] = defaultdict(dict)
    for name, one in tensors.items():
        number, part = name.split(".")
        parts[int(number)][part] = one
    if len(enough) != len(codec.classes) or len(slot) != len(label) or bool((slot.diff() < 0).any()):
        raise ValueError("columns of another model")
    places = {(number, ENOUGH): _grown(own, len(columns)) for number, own in sorted(parts.items())}
    if not all(0 <= number < len(codec.slots) for number, _ in places):
        raise ValueError("trees of another model")
    return Guide(columns, enough, places)


def _grown(own: dict[str, Tensor], columns: int) -> Guiding:
    """Trees that ask for nothing but what there is."""
    trees = Trees(*(own[name] for name in TREES))
    units = None if len(own["labels"]) else Units(*own["units"].tolist())
    grown = Grown(trees, own["columns"], own["labels"], own["kept"], units)
    one = Guiding(grown, *(own[name] for name in WORTH))
    T, d = trees.column.shape
    K = len(trees.start)
    shapes = (tuple(trees.border.shape), tuple(trees.leaves.shape), max(len(grown.labels), 1))
    inside = _within(trees.column, len(grown.columns)) and _within(grown.columns, columns)
    finite = all(bool(part.isfinite().all()) for part in (trees.leaves, trees.start, one.share, one.around))
    inside &= 0 <= float(grown.kept) <= 1
    sound = units is None or (all(map(math.isfinite, vars(units).values())) and units.deviation > 0 <= units.least)
    if not sound or shapes != ((T, d), (T, 1 << d, K), K) or not are_masses(one.around) or not inside or not finite:
        raise ValueError("trees that make no sense")
    return one


def _within(numbers: Tensor, most: int) -> bool:
    return not numbers.numel() or (int(numbers.min()) >= 0 and int(numbers.max()) < most)
