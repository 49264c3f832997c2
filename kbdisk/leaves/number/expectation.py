"""The mean of a belief in original units, exact: its map's pieces are straight, so the integral of the cdf is all it takes.

n rows   P knots of the map
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from kbdisk.leaves.number.belief import NumberBelief
    from kbdisk.leaves.number.curve import Curve


def mean(belief: NumberBelief) -> Tensor:
    """(n,) of the curve, what lies beyond a bound counting as the bound, and of the atoms."""
    tables, slot, curve = belief.tables, belief.slot, belief.curve
    ends = torch.stack([tables.low[slot], tables.high[slot]], dim=1)  # (n, 2)
    low, high = tables(slot, ends)[:, :, None].unbind(1)  # (n, 1)
    knots = torch.minimum(torch.maximum(tables.z[slot], low), high)  # (n, P)
    least, most = curve.span()
    outer = [torch.maximum(low, torch.minimum(least[:, None], knots[:, :1])), knots]
    areas = curve.shortfall(torch.cat(outer, dim=1)).diff(dim=1)  # (n, P): below each knot since the last
    steep = 1 / tables.slope[slot]  # (n, P + 1) dx / dz
    last = torch.minimum(high, torch.maximum(most[:, None], knots[:, -1:]))
    top = _excess(curve, knots[:, -1:]) - _excess(curve, last)
    found = tables.inverse(slot, knots[:, -1:]) + steep[:, -1:] * top - (steep[:, :-1] * areas).sum(1, keepdim=True)
    atoms = (tables.repeated(slot) * belief.atoms[1]).sum(1, keepdim=True)
    return tables.bounded(slot, belief.curve_mass() * found + atoms).squeeze(1)


def _excess(curve: Curve, z: Tensor) -> Tensor:
    """E[max(Z - z, 0)] (n, 1)."""
    return (curve.shortfall(z) - z + curve.mean_code()[:, None]).clamp(min=0)
