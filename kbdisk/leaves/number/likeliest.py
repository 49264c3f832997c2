"""The likeliest number of a belief: the one whose step of the resolution has the greatest mass.

n rows   m numbers of each   A atoms   C candidates
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from kbdisk.leaves.number.belief import NumberBelief

TOP = 8  # candidates whose mass is found exactly


@torch.no_grad()
def likeliest(belief: NumberBelief) -> Tensor:
    """(n,) among the peaks of the curve, the ends of the map's pieces and atoms."""
    tables, slot = belief.tables, belief.slot
    z = belief.curve.peaks(tables.z[slot])  # (n, C)
    values = tables.inverse(slot, z)
    dense = belief.curve.density(z) * tables.derivative(slot, values)
    values = _densest(tables.snapped(slot, values), dense, min(TOP, z.shape[1]))
    _, masses = belief.atoms
    commonest = masses.topk(min(TOP, masses.shape[1]), dim=1).indices
    values = torch.cat([tables.repeated(slot).gather(1, commonest), values, tables.ends(slot, values)], dim=1)
    values = tables.snapped(slot, values)
    return values.gather(1, belief.mass(values).argmax(1, keepdim=True)).squeeze(1)


def _densest(values: Tensor, dense: Tensor, most: int) -> Tensor:
    """Of numbers (n, C) those where it is densest (n, most), none of them twice but where there are no more."""
    values, order = values.sort(1)
    group = torch.nn.functional.pad((values.diff(dim=1) > 0).long().cumsum(1), (1, 0))  # (n, C) which one it is
    highest = torch.full_like(dense, -1).scatter_reduce(1, group, dense.gather(1, order), "amax")
    each = values[:, :1].expand_as(values).scatter(1, group, values)
    return each.gather(1, highest.topk(most, dim=1).indices)
