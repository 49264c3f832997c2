"""The numbers up to which there is so much of a belief's mass.

The mass is first known at some knots: at atoms, where it jumps, and at round codes. A level that lies in the jump of an atom is
met by that exactly. Every other one lies between two knots, where the mass is continuous: Chandrupatla's method finds it there.

n rows   m levels of each   A atoms   K knots
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from kbdisk.leaves.number.belief import NumberBelief

ROUND_CODES = (-8.0, -4.0, -2.5, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.5, 4.0, 8.0)  # where the mass is known first
TOLERANCE, RELATIVE_TOLERANCE = 1e-13, 1e-14  # of a code
MAX_STEPS = 100  # a smooth curve takes about ten


@torch.no_grad()
def quantiles(belief: NumberBelief, levels: Tensor) -> Tensor:
    """(n, m); an atom over which the mass jumps past the level is met exactly."""
    atoms, masses = belief.atoms
    places = _places(belief, atoms)  # (n, A)
    knots = _knots(belief, places)
    of_curve = belief.curve_mass() * belief.curve.cdf(knots)
    of_atoms = up_to(places, masses, knots)
    rising = (of_curve + of_atoms).cummax(1).values
    end = torch.searchsorted(rising, levels.contiguous()).clamp(max=knots.shape[1] - 1)  # (n, m) where there is enough
    start = (end - 1).clamp(min=0)
    wanted = levels - of_atoms.gather(1, start)  # of the curve
    last = of_curve.gather(1, end) - wanted
    is_knot = (end == 0) | (last < 0)  # the mass jumps past the level
    high = knots.gather(1, end)
    low, first = knots.gather(1, start).where(~is_knot, high), of_curve.gather(1, start) - wanted
    found = belief.tables.inverse(belief.slot, _roots(belief, Bracket(low, first, high, last, high, last), wanted))
    if atoms.shape[1] == 0:
        return found
    atom = torch.searchsorted(places, high).clamp(max=atoms.shape[1] - 1)
    is_atom = is_knot & (places.gather(1, atom) == high)
    return torch.where(is_atom, atoms.gather(1, atom), found)


def up_to(atoms: Tensor, masses: Tensor, values: Tensor) -> Tensor:
    """(n, m) the mass of the atoms, ascending (n, A), that are no greater than values (n, m)."""
    total = F.pad(masses.cumsum(1), (1, 0))  # (n, 1 + A)
    return total.gather(1, torch.searchsorted(atoms, values.contiguous(), right=True))


def _places(belief: NumberBelief, atoms: Tensor) -> Tensor:
    """The codes of atoms (n, A), infinite where there are none."""
    places: Tensor = belief.tables(belief.slot, atoms.where(atoms.isfinite(), 0))
    return places.where(atoms.isfinite(), torch.inf)


def _knots(belief: NumberBelief, places: Tensor) -> Tensor:
    """(n, K) ascending codes; all of the mass is between the first and the last."""
    low, high = (end[:, None] for end in belief.curve.span())
    codes = torch.tensor(ROUND_CODES, dtype=torch.float64, device=places.device).expand(len(places), -1)
    inner = torch.cat([torch.minimum(torch.maximum(codes, low), high), places.where(places.isfinite(), low)], 1)
    both = torch.cat([low, high, inner], 1)
    ends = both.amin(1, keepdim=True) - 1, both.amax(1, keepdim=True) + 1
    knots: Tensor = torch.cat([*ends, inner], 1).sort(1).values
    return knots


class Bracket(NamedTuple):
    """Codes (n, m) on both sides of a root and a third one, each with how much more than the wanted mass is below it."""

    x1: Tensor  # the last that was asked
    f1: Tensor
    x2: Tensor  # on the other side
    f2: Tensor
    x3: Tensor
    f3: Tensor

    def narrowed(self, x: Tensor, f: Tensor) -> Bracket:
        """The bracket with a code between its ends."""
        same = (f >= 0) == (self.f1 >= 0)
        ends = torch.where(same, self.x2, self.x1), torch.where(same, self.f2, self.f1)
        third = torch.where(same, self.x1, self.x2), torch.where(same, self.f1, self.f2)
        return Bracket(x, f, *ends, *third)

    @property
    def best(self) -> Tensor:
        """(n, m) the end that is nearer to the root, by its mass."""
        return torch.where(self.f1.abs() < self.f2.abs(), self.x1, self.x2)

    @property
    def tolerance(self) -> Tensor:
        """(n, m) how near to the root is near enough, in parts of the bracket."""
        return (2 * RELATIVE_TOLERANCE * self.best.abs() + TOLERANCE) / (self.x2 - self.x1).abs()

    @property
    def is_done(self) -> Tensor:
        """(n, m) whether an end is the root."""
        return (self.f1 == 0) | (self.f2 == 0) | (self.tolerance > 0.5)

    @property
    def next(self) -> Tensor:
        """(n, m) the code to ask next: by inverse quadratic interpolation where the mass is smooth, else the middle."""
        x1, f1, x2, f2, x3, f3 = self
        xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
        quadratic = f1 / (f2 - f1) * (f3 / (f2 - f3)) + (x3 - x1) / (x2 - x1) * (f1 / (f3 - f1)) * (f2 / (f3 - f2))
        is_smooth = (1 - (1 - xi).sqrt() < phi) & (phi < xi.sqrt()) & quadratic.isfinite()
        least = self.tolerance.clamp(max=0.5)
        return x1 + torch.where(is_smooth, quadratic.clamp(min=least, max=1 - least), 0.5) * (x2 - x1)

    def pick(self, rows: Tensor) -> Bracket:
        """Some of the rows."""
        return Bracket(*(part[rows] for part in self))


def _roots(belief: NumberBelief, bracket: Bracket, wanted: Tensor) -> Tensor:
    """(n, m) codes below which the curve has as much mass as is wanted (n, m)."""
    roots, rows = torch.empty_like(bracket.x1), torch.arange(len(wanted), device=wanted.device)
    curve, mass = belief.curve, belief.curve_mass()
    for _ in range(MAX_STEPS):
        done = bracket.is_done
        left = (~done).any(1).nonzero()[:, 0]
        if len(left) == 0:
            break
        if 2 * len(left) <= len(rows):  # the others cost nothing from here on
            roots[rows] = bracket.best
            rows, curve, mass = rows[left], curve.pick(left), mass[left]
            bracket, wanted, done = bracket.pick(left), wanted[left], done[left]
        x = bracket.x1.where(done, bracket.next)
        bracket = bracket.narrowed(x, mass * curve.cdf(x) - wanted)
    roots[rows] = bracket.best
    return roots
