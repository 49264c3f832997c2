"""What is believed of numbers, in codes and in the numbers' own units.

A belief is a curve over codes (a mixture, a binned density) and a mass for each atom. The curve goes through the
property's piecewise linear map to its units; what lies beyond a bound counts as the bound. `mean`, `quantile`, `cdf`
and the like are in those units and float64; `log_prob`, `sample`, `mode`, `entropy` speak of codes and steps.

n rows   m points of each row   A atoms   P knots of the map   K values of others
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from kbdisk.leaves.belief import SingleStep
from kbdisk.leaves.number.blended import TINY, Blended
from kbdisk.leaves.number.codec import FAR
from kbdisk.leaves.number.curve import Curve
from kbdisk.leaves.number.expectation import mean
from kbdisk.leaves.number.likeliest import likeliest
from kbdisk.leaves.number.mixture import Mixture
from kbdisk.leaves.number.moved import Moved
from kbdisk.leaves.number.point import Points
from kbdisk.leaves.number.quantile import quantiles, up_to
from kbdisk.leaves.number.tables import Tables

NODES = 64  # values that stand for a belief when its entropy is estimated
CELLS = 2**12  # rows x nodes at once: what fits the cache is fastest
NEAR = (0.05, 0.2)  # in code: how far values are from those of others that they are like
MIDDLE = (0.4, 0.5, 0.6)  # of the mass: among which the typical number is
FINE = (1e-5, 1e-2)  # in code: no value of others is more, or less, exactly believed


@dataclass(frozen=True)
class NumberBelief(SingleStep):
    """A distribution over the number of each of n rows."""

    curve: Curve
    shares: Tensor  # (n, 1 + A) float32, the log mass of the curve and of each atom
    slot: Tensor  # (n,)
    tables: Tables
    points: Points | None = None  # what has the least squared error, where that is learnt
    answer: Tensor | None = None  # (n,) float64, the same where it was learnt how others' values count in it
    estimate: Tensor | None = None  # (n,) float64, what has the least absolute error, where others have moved it
    kernels: ClassVar[int] = 1 + len(NEAR)

    def log_prob(self, codes: Tensor) -> Tensor:
        """(n,) the log mass of the step of the resolution around each number: 0 at most, and never infinite."""
        curve = self.shares[:, 0] + self.curve.log_mass(codes)
        if self.shares.shape[1] > 1:
            index = codes[:, 3].long()
            atom = self.shares.gather(1, (index + 1).clamp(min=1)[:, None]).squeeze(1)
            curve = torch.where(index < 0, curve, torch.logaddexp(curve, atom))
        return curve.clamp(max=0)

    def aside(self, codes: Tensor) -> Tensor:
        """(n,) what is learnt beside the belief: the error of the points."""
        if self.points is None:
            return torch.zeros(len(codes), device=codes.device)
        return self.points.cost(self.values(codes))

    def cdf(self, values: Tensor) -> Tensor:
        """The probability of this number or less: of numbers (n,) or (n, m)."""
        return self._each(values, self._cdf)

    def _cdf(self, values: Tensor) -> Tensor:
        masses = self.curve_mass() * self.curve.cdf(self.tables(self.slot, values)) + self._atoms_up_to(values)
        masses = masses.masked_fill(values < self.tables.low[self.slot, None], 0)
        return masses.masked_fill(values >= self.tables.high[self.slot, None], 1)

    def curve_mass(self) -> Tensor:
        """(n, 1) float64, what is no atom's."""
        return self.shares[:, :1].double().exp()

    def _atoms_up_to(self, values: Tensor) -> Tensor:
        """(n, m) the mass of the atoms that are no greater."""
        atoms, masses = self.atoms
        return up_to(atoms, masses, values)

    def density(self, values: Tensor) -> Tensor:
        """Of the curve alone, per unit, at numbers (n,) or (n, m) within the bounds; atoms have `atoms`."""
        return self._each(values, self._density)

    def _density(self, values: Tensor) -> Tensor:
        slope = self.tables.derivative(self.slot, values)
        density = self.curve_mass() * self.curve.density(self.tables(self.slot, values)) * slope
        return density.where(self.tables.bounded(self.slot, values) == values, 0)

    @property
    def atoms(self) -> tuple[Tensor, Tensor]:
        """The repeated numbers and their masses, (n, A) each; infinity and 0 where a property has fewer."""
        return self.tables.atoms[self.slot], self.shares[:, 1:].double().exp()

    def mean(self) -> Tensor:
        """(n,) in original units."""
        return mean(self)

    def expected(self) -> Tensor:
        """(n,) what has the least squared error: half-way between the belief's mean and what was learnt as such."""
        if self.answer is not None:
            return self.answer
        if self.points is None:
            return self.mean()
        points = self.tables.bounded(self.slot, self.points.numbers()[:, None])[:, 0]
        return (self.mean() + points) / 2

    def between(self, rows: Tensor, first: Tensor, second: Tensor, share: Tensor) -> Tensor:
        """(m,) numbers of some rows, so much of the way from the first to the second on the scale of their property."""
        slot = self.slot[rows]
        start, end = (self.tables.scaled(slot, one[:, None]) for one in (first, second))
        number = self.tables.unscaled(slot, start + share * (end - start))[:, 0]
        plain = first + share * (second - first)
        floor = self.tables.floor[slot]
        return torch.where((floor > 0) & (first <= floor) & (second <= floor), plain, number)  # 0 has no logarithm

    def median(self) -> Tensor:
        """(n,)."""
        return self.quantile(0.5)

    def typical(self) -> Tensor:
        """(n,) what has the least absolute error: what others have moved it to, or half-way from the median to the answer.

        It stays among the middle fifth of the mass: of a belief with a heavy tail the answer, a mean, may lie far outside. A
        median that is a repeated number, with as much mass, is said as it is.
        """
        if self.estimate is None and self.answer is None:
            return self.median()
        low, median, high = self.quantile(torch.tensor(MIDDLE, dtype=torch.float64)).unbind(1)
        number = self.estimate
        if number is None:
            assert self.answer is not None
            rows, half = torch.arange(len(median), device=median.device), torch.full_like(median[:1], 0.5)
            number = self.between(rows, median, self.answer, half)
        atoms, masses = self.atoms
        is_repeated = ((atoms == median[:, None]) & (masses >= MIDDLE[2] - MIDDLE[0])).any(1)
        return torch.minimum(torch.maximum(number, low), high).where(~is_repeated, median)

    def quantile(self, level: float | Tensor) -> Tensor:
        """The number (n,) up to which there is so much of the mass; (n, m) for m levels, or for levels (n, m)."""
        levels = torch.as_tensor(level, dtype=torch.float64, device=self.slot.device)
        values = quantiles(self, levels if levels.ndim == 2 else levels.reshape(1, -1).expand(len(self.slot), -1))
        return values.squeeze(1) if levels.ndim == 0 else values

    def interval(self, level: float | Tensor) -> tuple[Tensor, Tensor]:
        """The numbers (n,) between which there is so much of the mass, and as much below as above. Levels may be (n,)."""
        levels = torch.as_tensor(level, dtype=torch.float64, device=self.slot.device).expand(len(self.slot))
        ends = self.quantile(torch.stack([(1 - levels) / 2, (1 + levels) / 2], 1))
        return ends[:, 0], ends[:, 1]

    def mass(self, values: Tensor) -> Tensor:
        """Of the steps around numbers (n, m) on the grid."""
        below, above = self.tables.edges(self.slot, values)
        mass = self.curve_mass() * (self.curve.cdf(above) - self.curve.cdf(below))
        _, masses = self.atoms
        if masses.shape[1] == 0:
            return mass
        atom = self.tables.atom(self.slot, values)
        return mass + masses.gather(1, atom.clamp(min=0)).where(atom >= 0, 0)

    def mode(self) -> Tensor:
        """Codes (n, 4) of the likeliest numbers."""
        return self.codes(likeliest(self))

    @torch.no_grad()
    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        """Codes (n, 4) of numbers on the grid and within the bounds."""
        curve = self.curve if temperature == 1 else self.curve.sharpened(temperature)
        values = self.tables.inverse(self.slot, curve.draw(generator)[:, None])
        if self.shares.shape[1] > 1:
            shares = (self.shares / temperature).softmax(1).cumsum(1)  # (n, 1 + A)
            level = torch.rand(len(shares), 1, generator=generator, device=shares.device)
            chosen = torch.searchsorted(shares, level).clamp(max=shares.shape[1] - 1)  # 0: the curve
            atom = self.atoms[0].gather(1, (chosen - 1).clamp(min=0))
            values = torch.where((chosen == 0) | atom.isinf(), values, atom)
        return self.tables.codes(self.slot, self.tables.snapped(self.slot, values)).squeeze(1)

    def codes(self, values: Tensor) -> Tensor:
        """Numbers (n,) as codes (n, 4)."""
        return self.tables.codes(self.slot, values[:, None]).squeeze(1)

    def met(self, codes: Tensor) -> Tensor:
        """Codes (n, 4) of numbers, those beyond all training values at the nearest of these."""
        values = self.values(codes)[:, None]
        kept = self.tables.met(self.slot, values)
        beyond = (kept != values).nonzero()[:, 0]  # few
        return codes.index_copy(0, beyond, self.tables.codes(self.slot[beyond], kept[beyond]).squeeze(1))

    def occurring(self) -> Tensor:
        """(n, A) float64, how often each atom is drawn: also what is drawn within its step, or beyond all that was met."""
        tables, slot, atoms = self.tables, self.slot, self.tables.repeated(self.slot)
        below, above = tables.edges(slot, atoms)
        below = below.masked_fill(atoms <= tables.least[slot, None], -torch.inf)
        above = above.masked_fill(atoms >= tables.most[slot, None], torch.inf)
        curve = self.curve_mass() * (self.curve.cdf(above) - self.curve.cdf(below))
        return (curve + self.atoms[1]).where(self.atoms[0].isfinite(), 0)

    def values(self, codes: Tensor) -> Tensor:
        """The numbers (n,) that codes (n, 4) stand for."""
        return self.tables.snapped(self.slot, self.tables.inverse(self.slot, codes[:, :1].double())).squeeze(1)

    @torch.no_grad()
    def entropy(self) -> Tensor:
        """(n,) the expectation of -log_prob: exact over the atoms, over the curve by values spread evenly over it."""
        every = torch.arange(len(self.slot), device=self.slot.device)
        return torch.cat([self.pick(rows)._entropy() for rows in torch.split(every, CELLS // NODES)])

    def _entropy(self) -> Tensor:
        even = (torch.arange(NODES, device=self.slot.device, dtype=torch.float64) + 0.5) / NODES
        even = even.expand(len(self.slot), -1)
        curve = self.tables.snapped(self.slot, self.tables.inverse(self.slot, self.curve.nodes(even)))
        values = torch.cat([curve, self.tables.repeated(self.slot)], dim=1)  # (n, nodes + A)
        weights = torch.cat([self.curve_mass().expand(-1, NODES) / NODES, self.atoms[1]], dim=1).float()
        repeated = torch.arange(len(self.slot), device=values.device).repeat_interleave(values.shape[1])
        codes = self.tables.codes(self.slot, values).flatten(0, 1)  # (n (nodes + A), 4)
        return -(weights * self.pick(repeated).log_prob(codes).reshape(values.shape)).sum(1)

    def pick(self, rows: Tensor) -> NumberBelief:
        """The beliefs about some of the rows, by index."""
        points = None if self.points is None else self.points.pick(rows)
        answer = None if self.answer is None else self.answer[rows]
        estimate = None if self.estimate is None else self.estimate[rows]
        return NumberBelief(
            self.curve.pick(rows), self.shares[rows], self.slot[rows], self.tables, points, answer, estimate
        )

    def answers(self) -> Tensor:
        """(n, 2) float64, what the belief's mean is and what was learnt beside it; the mean again where nothing was."""
        mean = self.mean()
        points = mean if self.points is None else self.tables.bounded(self.slot, self.points.numbers()[:, None])[:, 0]
        return torch.stack([mean, points], 1)

    def numbers(self, codes: Tensor) -> Tensor:
        """(n, K) float64, the numbers that codes (n, K, 4) stand for."""
        return self.tables.snapped(self.slot, self.tables.inverse(self.slot, codes[:, :, 0].double()))

    def interpolated(self, codes: Tensor, weights: Tensor, said: Tensor | None = None) -> NumberBelief:
        """Itself with some of its mass for values that others have: codes (n, K, 4), weights (n, 1 + len(NEAR), K).

        The first weight is of the value itself, the others of what is near to it, further each time.
        """
        shares = self.shares.double().exp() * (1 - weights.sum((1, 2)))[:, None]
        atom = codes[:, :, 3].long()  # (n, K), -1: none
        index = (atom + 1).clamp(0, shares.shape[1] - 1)  # what only fills up the rows has no weight
        shares = shares.scatter_add(1, index, weights[:, 0].where(atom >= 0, 0))
        same = weights[:, :1].masked_fill(atom[:, None] >= 0, 0)
        weights = torch.cat([same, weights[:, 1:]], 1).flatten(1)  # (n, P K)
        fine = (codes[:, :, 1] + codes[:, :, 2]).div(4).clamp(*FINE)  # (n, K) a quarter of a step
        std = torch.cat([fine, *(torch.full_like(fine, far) for far in NEAR)], 1)
        mean = codes[:, :, 0].repeat(1, 1 + len(NEAR))
        others = Mixture(weights.clamp(min=TINY).log().float(), mean, std)
        answer = None
        if said is not None:
            answer = (torch.cat([self.answers(), self.numbers(codes)], 1) * said).sum(1, keepdim=True)
            answer = self.tables.bounded(self.slot, answer)[:, 0]  # a surface may rise beyond all neighbours
        return replace(self.giving(others, weights.sum(1), shares), points=None, answer=answer, estimate=None)

    def giving(self, curve: Curve, mass: Tensor, shares: Tensor) -> NumberBelief:
        """Itself with a curve that has so much of the mass (n,); of its own each part has what `shares` (n, 1 + A) say."""
        total = shares[:, 0] + mass
        both = Blended(curve, self.curve, mass / total.clamp(min=TINY))
        shares = torch.cat([total[:, None], shares[:, 1:]], 1).clamp(min=TINY).log().float()
        return replace(self, curve=both, shares=shares)

    def answering(self, answer: Tensor) -> NumberBelief:
        """Itself where it is known what has the least squared error: (n,) float64."""
        return replace(self, answer=self.tables.bounded(self.slot, answer[:, None])[:, 0])

    def estimating(self, before: Tensor, estimate: Tensor, share: Tensor) -> NumberBelief:
        """The belief once experts have moved its typical number, `before`, to an estimate; a share (n,) of the curve moves along."""
        estimate = self.tables.bounded(self.slot, estimate[:, None])[:, 0]
        if not bool(share.any()):
            return replace(self, estimate=estimate)
        start, end = self.tables(self.slot, torch.stack([before, estimate], 1)).clamp(-FAR, FAR).unbind(1)
        return replace(self, curve=Blended(Moved(self.curve, end - start), self.curve, share), estimate=estimate)

    def averaged(self, others: Sequence[NumberBelief]) -> NumberBelief:
        """The mean of all; the answer, too, where it was learnt."""
        every = [self, *others]
        shares = torch.stack([one.shares.double() for one in every]).exp()  # (E, n, 1 + A)
        curve, mass = self.curve, shares[0, :, 0]
        for one, own in zip(others, shares[1:, :, 0], strict=True):
            curve, mass = Blended(one.curve, curve, own / (mass + own).clamp(min=TINY)), mass + own
        learnt = any(one.answer is not None or one.points is not None for one in every)
        answer = torch.stack([one.expected() for one in every]).mean(0) if learnt else None
        return replace(
            self, curve=curve, shares=shares.mean(0).log().float(), points=None, answer=answer, estimate=None
        )

    def _each(self, values: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """A function of numbers (n, m), for (n,) too."""
        values = torch.as_tensor(values, dtype=torch.float64, device=self.slot.device)
        return function(values[:, None]).squeeze(1) if values.ndim == 1 else function(values)
