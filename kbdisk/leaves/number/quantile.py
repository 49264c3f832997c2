"""The numbers up to which there is so much of a belief's mass, by bisection between codes.

n rows   m levels of each   A atoms
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from kbdisk.leaves.number.belief import NumberBelief

HALVINGS = 56  # of the bracket


@torch.no_grad()
def quantiles(belief: NumberBelief, levels: Tensor) -> Tensor:
    """(n, m); an atom over which the mass jumps past the level is met exactly."""
    values, masses = belief.atoms
    places = _places(belief, values)  # (n, A)
    low, high = (end[:, None].expand(levels.shape) for end in _span(belief, places))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        less = belief.curve_mass() * belief.curve.cdf(middle) + up_to(places, masses, middle) < levels
        low, high = torch.where(less, middle, low), torch.where(less, high, middle)
    found = belief.tables.inverse(belief.slot, high)
    if values.shape[1] == 0:
        return found
    jump = torch.searchsorted(places, low.contiguous(), right=True).clamp(max=values.shape[1] - 1)
    place = places.gather(1, jump)
    return torch.where((low < place) & (place <= high), values.gather(1, jump), found)


def up_to(atoms: Tensor, masses: Tensor, values: Tensor) -> Tensor:
    """(n, m) the mass of the atoms, ascending (n, A), that are no greater than values (n, m)."""
    total = torch.nn.functional.pad(masses.cumsum(1), (1, 0))  # (n, 1 + A)
    return total.gather(1, torch.searchsorted(atoms, values.contiguous(), right=True))


def _places(belief: NumberBelief, atoms: Tensor) -> Tensor:
    """The codes of atoms (n, A), infinite where there are none."""
    places: Tensor = belief.tables(belief.slot, atoms.where(atoms.isfinite(), 0))
    return places.where(atoms.isfinite(), torch.inf)


def _span(belief: NumberBelief, places: Tensor) -> tuple[Tensor, Tensor]:
    """Codes (n,) between which all of the mass is."""
    low, high = belief.curve.span()
    finite = places.where(places.isfinite(), low[:, None])
    both = torch.cat([low[:, None], high[:, None], finite], dim=1)
    return both.amin(1) - 1, both.amax(1) + 1
