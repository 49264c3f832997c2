"""The belief in numbers: a density over codes and a mass for each atom, asked in codes and in the numbers' own units.

The density goes through the property's piecewise linear map to its units; mass beyond a bound counts as at the bound.
`mean`, `quantile`, `cdf` and the like are in those units and float64; `log_prob`, `sample`, `mode`, `entropy` speak of
codes and of steps of the resolution.

Three numbers may be learnt beside the distribution, as each is best for another error: `points`, by squared errors alone;
`answer`, the combination of mean, points and neighbours that has the least squared error; `estimate`, to which experts
have moved what has the least absolute error.

n rows   m points or levels of each row   A atoms   P knots of the map   K neighbours   C candidates   W widths
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from kbdisk.leaves.belief import SingleStep
from kbdisk.leaves.number.codec import MAX_CODE, CodecTables
from kbdisk.leaves.number.densities import MIN_SHARE, Blend, Density, Mixture, Shifted, tensors_of
from kbdisk.leaves.number.normal import log_mass

HUBER_DELTA = 3.0  # deviations, beyond which the error of a point estimate counts linearly
ENTROPY_NODES = 64  # quadrature nodes of a density whose entropy is estimated
MAX_ENTROPY_CELLS = 2**12  # rows x nodes at a time, which fit the cache
KERNEL_WIDTHS = (0.05, 0.2)  # in code: standard deviations around the values of neighbours
NEIGHBOUR_WIDTH = (1e-5, 1e-2)  # in code: bounds of the deviation around a neighbour's value itself
MIDDLE_LEVELS = (0.4, 0.5, 0.6)  # of the mass: among which the typical number is
LEVELS_OF_ESTIMATES = (0.1, 0.5, 0.9)  # the same of an estimate of experts, which may know what the mass does not
MODE_CANDIDATES = 8  # whose mass is computed exactly
AROUND_WIDTHS = (
    0.001,
    0.003,
    0.01,
    0.03,
    0.1,
    0.3,
    0.7,
    1.5,
)  # in code: standard deviations around a number of experts


@dataclass(frozen=True)
class PointEstimates:
    """A number for each of n rows, learnt by its squared error alone.

    A density is learnt where most values are; large squared errors are made where few are, far out. So one more output
    of the decoder is taught by them alone, in original units over their deviation, with the Huber loss.
    """

    place: Tensor  # (n,) in deviations from the mean
    mean: Tensor  # (n,) float64, of the training values
    deviation: Tensor  # (n,)
    weight: float  # of the loss

    def numbers(self) -> Tensor:
        """(n,) float64, in original units."""
        return self.mean + self.place.double() * self.deviation

    def loss(self, truth: Tensor) -> Tensor:
        """(n,) the weighted Huber loss in deviations, for true numbers in original units."""
        place = ((truth - self.mean) / self.deviation).float()
        return self.weight * F.huber_loss(self.place, place, reduction="none", delta=HUBER_DELTA)

    def pick(self, rows: Tensor) -> PointEstimates:
        """The estimates of some of the rows."""
        return PointEstimates(self.place[rows], self.mean[rows], self.deviation[rows], self.weight)


@dataclass(frozen=True)
class NumberBelief(SingleStep):
    """A distribution over the number of each of n rows."""

    density: Density
    shares: Tensor  # (n, 1 + A) float32, the log mass of the density and of each atom
    slot: Tensor  # (n,)
    tables: CodecTables
    points: PointEstimates | None = None
    answer: Tensor | None = None  # (n,) float64, the number with the least squared error, where experts have changed it
    estimate: Tensor | None = (
        None  # (n,) float64, the number with the least absolute error, where experts have moved it
    )
    kernels: ClassVar[int] = 1 + len(KERNEL_WIDTHS)

    def log_prob(self, codes: Tensor) -> Tensor:
        """(n,) the log mass of the step of the resolution around each number: 0 at most, and never infinite."""
        of_density = self.shares[:, 0] + self.density.log_mass(codes)
        if self.shares.shape[1] > 1:
            index = codes[:, 3].long()
            atom = self.shares.gather(1, (index + 1).clamp(min=1)[:, None]).squeeze(1)
            of_density = torch.where(index < 0, of_density, torch.logaddexp(of_density, atom))
        return of_density.clamp(max=0)

    def auxiliary_loss(self, codes: Tensor) -> Tensor:
        """(n,) the loss of the point estimates."""
        if self.points is None:
            return torch.zeros(len(codes), device=codes.device)
        return self.points.loss(self.values(codes))

    # -------------------------------------------------------- masses and densities

    def cdf(self, values: Tensor) -> Tensor:
        """The probability of this number or less: of numbers (n,) or (n, m)."""
        return self._by_columns(values, self._cdf)

    def _cdf(self, values: Tensor) -> Tensor:
        atoms, masses = self.atoms
        below = self.density_mass() * self.density.cdf(self.tables(self.slot, values))
        below = below + _mass_up_to(atoms, masses, values)
        below = below.masked_fill(values < self.tables.low[self.slot, None], 0)
        return below.masked_fill(values >= self.tables.high[self.slot, None], 1)

    def pdf(self, values: Tensor) -> Tensor:
        """The density per unit at numbers (n,) or (n, m), 0 beyond the bounds, without the atoms."""
        return self._by_columns(values, self._pdf)

    def _pdf(self, values: Tensor) -> Tensor:
        slope = self.tables.derivative(self.slot, values)
        density = self.density_mass() * self.density.pdf(self.tables(self.slot, values)) * slope
        return density.where(self.tables.bounded(self.slot, values) == values, 0)

    def density_mass(self) -> Tensor:
        """(n, 1) float64, the mass of the density: what is no atom's."""
        return self.shares[:, :1].double().exp()

    @property
    def atoms(self) -> tuple[Tensor, Tensor]:
        """(n, A) each: the atoms and their masses; infinity and 0 where a property has fewer."""
        return self.tables.atoms[self.slot], self.shares[:, 1:].double().exp()

    def mass(self, values: Tensor) -> Tensor:
        """(n, m) the mass of the steps around numbers (n, m) on the grid."""
        below, above = self.tables.edges(self.slot, values)
        mass = self.density_mass() * (self.density.cdf(above) - self.density.cdf(below))
        _, masses = self.atoms
        if masses.shape[1] == 0:
            return mass
        atom = self.tables.atom(self.slot, values)
        return mass + masses.gather(1, atom.clamp(min=0)).where(atom >= 0, 0)

    def atom_probabilities(self) -> Tensor:
        """(n, A) float64, how often each atom is drawn: by its own mass, and by draws of the density that are rounded to it.

        Draws beyond the training values count as the outermost of these.
        """
        tables, slot, atoms = self.tables, self.slot, self.tables.finite_atoms(self.slot)
        below, above = tables.edges(slot, atoms)
        below = below.masked_fill(atoms <= tables.least[slot, None], -torch.inf)
        above = above.masked_fill(atoms >= tables.greatest[slot, None], torch.inf)
        of_density = self.density_mass() * (self.density.cdf(above) - self.density.cdf(below))
        return (of_density + self.atoms[1]).where(self.atoms[0].isfinite(), 0)

    # -------------------------------------------------------- single numbers

    def mean(self) -> Tensor:
        """(n,) in original units, mass beyond a bound counting as at the bound."""
        return self._once_for_equal_rows(NumberBelief._mean)

    def _mean(self) -> Tensor:
        """(n,). The pieces of the map are straight, so the integral of the cdf at its knots gives the mean exactly."""
        tables, slot, density = self.tables, self.slot, self.density
        bounds = torch.stack([tables.low[slot], tables.high[slot]], dim=1)  # (n, 2)
        low, high = tables(slot, bounds)[:, :, None].unbind(1)  # (n, 1)
        knots = torch.minimum(torch.maximum(tables.z[slot], low), high)  # (n, P)
        least, greatest = density.support()
        first = torch.maximum(low, torch.minimum(least[:, None], knots[:, :1]))
        areas = density.integrated_cdf(torch.cat([first, knots], dim=1)).diff(dim=1)  # (n, P): up to each knot
        units = 1 / tables.slope[slot]  # (n, P + 1) dx / dz
        last = torch.minimum(high, torch.maximum(greatest[:, None], knots[:, -1:]))
        top = _mean_excess(density, knots[:, -1:]) - _mean_excess(density, last)
        mean = tables.inverse(slot, knots[:, -1:]) + units[:, -1:] * top - (units[:, :-1] * areas).sum(1, keepdim=True)
        atoms = (tables.finite_atoms(slot) * self.atoms[1]).sum(1, keepdim=True)
        return tables.bounded(slot, self.density_mass() * mean + atoms).squeeze(1)

    def expected(self) -> Tensor:
        """(n,) the number with the least squared error: the answer, or half-way between the mean and the point estimate."""
        if self.answer is not None:
            return self.answer
        if self.points is None:
            return self.mean()
        points = self.tables.bounded(self.slot, self.points.numbers()[:, None])[:, 0]
        return (self.mean() + points) / 2

    def answers(self) -> Tensor:
        """(n, 2) float64, the mean and the point estimate; the mean twice where none was learnt."""
        mean = self.mean()
        points = mean if self.points is None else self.tables.bounded(self.slot, self.points.numbers()[:, None])[:, 0]
        return torch.stack([mean, points], 1)

    def median(self) -> Tensor:
        """(n,)."""
        return self._once_for_equal_rows(lambda belief: belief.quantile(0.5))

    def _once_for_equal_rows(self, ask: Callable[[NumberBelief], Tensor]) -> Tensor:
        """(n,) what a function (m,) of a belief says. A network that has learnt nothing believes the same in all rows of a slot."""
        rows = torch.arange(len(self.slot), device=self.slot.device)
        slots, place = self.slot.unique(return_inverse=True)
        first = rows[: len(slots)].scatter_reduce(0, place, rows, "amin", include_self=False)
        if 2 * len(slots) > len(rows) or not self._has_the_rows(first[place]):
            return ask(self)
        return ask(self.pick(first))[place]

    def _has_the_rows(self, others: Tensor) -> bool:
        """Whether each row has the density and the atoms of another (n,), of the same slot."""
        return all(torch.equal(tensor, tensor[others]) for tensor in (self.shares, *tensors_of(self.density)))

    def typical(self) -> Tensor:
        """(n,) the number with the least absolute error: the estimate of experts, or half-way from the median to the answer.

        It is clamped to the middle fifth of the mass: of a belief with a heavy tail the answer, a mean, may lie far
        outside. An estimate is clamped to the middle four fifths. A median that is an atom with a fifth of the mass is
        returned as it is.
        """
        if self.estimate is None and self.answer is None:
            return self.median()
        if self.estimate is None:
            return self._clamped()
        below = self.cdf(self.estimate)
        is_inside = (below > LEVELS_OF_ESTIMATES[0]) & (below < LEVELS_OF_ESTIMATES[2])
        others = (~is_inside | self._have_heavy_atoms.any(1)).nonzero()[:, 0]  # few
        return self.estimate.index_copy(0, others, self.pick(others)._clamped())

    def _clamped(self) -> Tensor:
        """(n,) the estimate or what lies half-way, clamped."""
        levels = MIDDLE_LEVELS if self.estimate is None else LEVELS_OF_ESTIMATES
        low, median, high = self.quantile(torch.tensor(levels, dtype=torch.float64)).unbind(1)
        number = self.estimate
        if number is None:
            assert self.answer is not None
            rows, half = torch.arange(len(median), device=median.device), torch.full_like(median[:1], 0.5)
            number = self.between(rows, median, self.answer, half)
        is_atom = ((self.atoms[0] == median[:, None]) & self._have_heavy_atoms).any(1)
        return torch.minimum(torch.maximum(number, low), high).where(~is_atom, median)

    @property
    def _have_heavy_atoms(self) -> Tensor:
        """(n, A) the atoms with as much mass as the middle fifth."""
        return self.atoms[1] >= MIDDLE_LEVELS[2] - MIDDLE_LEVELS[0]

    def between(self, rows: Tensor, first: Tensor, second: Tensor, share: Tensor) -> Tensor:
        """(m,) numbers of some rows, at this share of the way from the first to the second on the scale of their property."""
        slot = self.slot[rows]
        start, end = (self.tables.scaled(slot, numbers[:, None]) for numbers in (first, second))
        number = self.tables.unscaled(slot, start + share * (end - start))[:, 0]
        linear = first + share * (second - first)
        floor = self.tables.floor[slot]
        return torch.where((floor > 0) & (first <= floor) & (second <= floor), linear, number)  # 0 has no logarithm

    def quantile(self, level: float | Tensor) -> Tensor:
        """(n,) the number up to which this share of the mass is; (n, m) for m levels, or for levels (n, m)."""
        levels = torch.as_tensor(level, dtype=torch.float64, device=self.slot.device)
        values = _quantiles(self, levels if levels.ndim == 2 else levels.reshape(1, -1).expand(len(self.slot), -1))
        return values.squeeze(1) if levels.ndim == 0 else values

    def interval(self, level: float | Tensor) -> tuple[Tensor, Tensor]:
        """(n,) each: the ends of the central interval with this share of the mass. Levels may be (n,)."""
        levels = torch.as_tensor(level, dtype=torch.float64, device=self.slot.device).expand(len(self.slot))
        ends = self.quantile(torch.stack([(1 - levels) / 2, (1 + levels) / 2], 1))
        return ends[:, 0], ends[:, 1]

    def mode(self) -> Tensor:
        """Codes (n, 4) of the likeliest numbers."""
        return self.codes(self.mode_values())

    @torch.no_grad()
    def mode_values(self) -> Tensor:
        """(n,) the numbers whose step has the greatest mass, of peaks of the density, ends of the map's pieces and atoms."""
        tables, slot = self.tables, self.slot
        z = self.density.peaks(tables.z[slot])  # (n, C)
        values = tables.inverse(slot, z)
        density = self.density.pdf(z) * tables.derivative(slot, values)
        values = _densest(tables.snapped(slot, values), density, min(MODE_CANDIDATES, z.shape[1]))
        _, masses = self.atoms
        heaviest = masses.topk(min(MODE_CANDIDATES, masses.shape[1]), dim=1).indices
        values = torch.cat([tables.finite_atoms(slot).gather(1, heaviest), values, tables.ends(slot, values)], dim=1)
        values = tables.snapped(slot, values)
        return values.gather(1, self.mass(values).argmax(1, keepdim=True)).squeeze(1)

    # -------------------------------------------------------- draws, codes, entropy

    @torch.no_grad()
    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        """Codes (n, 4) of numbers on the grid and within the bounds."""
        density = self.density if temperature == 1 else self.density.sharpened(temperature)
        values = self.tables.inverse(self.slot, density.draw(generator)[:, None])
        if self.shares.shape[1] > 1:
            shares = (self.shares / temperature).softmax(1).cumsum(1)  # (n, 1 + A)
            level = torch.rand(len(shares), 1, generator=generator, device=shares.device)
            chosen = torch.searchsorted(shares, level).clamp(max=shares.shape[1] - 1)  # 0: the density
            atom = self.atoms[0].gather(1, (chosen - 1).clamp(min=0))
            values = torch.where((chosen == 0) | atom.isinf(), values, atom)
        return self.tables.codes(self.slot, self.tables.snapped(self.slot, values)).squeeze(1)

    def codes(self, values: Tensor) -> Tensor:
        """Numbers (n,) as codes (n, 4)."""
        return self.tables.codes(self.slot, values[:, None]).squeeze(1)

    def values(self, codes: Tensor) -> Tensor:
        """(n,) the numbers of codes (n, 4)."""
        return self.tables.snapped(self.slot, self.tables.inverse(self.slot, codes[:, :1].double())).squeeze(1)

    def numbers(self, codes: Tensor) -> Tensor:
        """(n, K) float64, the numbers of codes (n, K, 4)."""
        return self.tables.snapped(self.slot, self.tables.inverse(self.slot, codes[:, :, 0].double()))

    def within_training(self, codes: Tensor) -> Tensor:
        """Codes (n, 4) of numbers, clamped to the range of the training values."""
        values = self.values(codes)[:, None]
        clamped = self.tables.within_training(self.slot, values)
        beyond = (clamped != values).nonzero()[:, 0]  # few
        return codes.index_copy(0, beyond, self.tables.codes(self.slot[beyond], clamped[beyond]).squeeze(1))

    @torch.no_grad()
    def entropy(self) -> Tensor:
        """(n,) the expectation of -log_prob: exact over the atoms, by quadrature over the density."""
        all_rows = torch.arange(len(self.slot), device=self.slot.device)
        chunks = torch.split(all_rows, MAX_ENTROPY_CELLS // ENTROPY_NODES)
        return torch.cat([self.pick(rows)._entropy() for rows in chunks])

    def _entropy(self) -> Tensor:
        levels = (torch.arange(ENTROPY_NODES, device=self.slot.device, dtype=torch.float64) + 0.5) / ENTROPY_NODES
        nodes = self.density.nodes(levels.expand(len(self.slot), -1))
        node_values = self.tables.snapped(self.slot, self.tables.inverse(self.slot, nodes))
        values = torch.cat([node_values, self.tables.finite_atoms(self.slot)], dim=1)  # (n, nodes + A)
        mass = self.density_mass().expand(-1, ENTROPY_NODES) / ENTROPY_NODES
        weights = torch.cat([mass, self.atoms[1]], dim=1).float()
        rows = torch.arange(len(self.slot), device=values.device).repeat_interleave(values.shape[1])
        codes = self.tables.codes(self.slot, values).flatten(0, 1)  # (n (nodes + A), 4)
        return -(weights * self.pick(rows).log_prob(codes).reshape(values.shape)).sum(1)

    def pick(self, rows: Tensor) -> NumberBelief:
        """The beliefs about some of the rows, by index."""
        points = None if self.points is None else self.points.pick(rows)
        answer = None if self.answer is None else self.answer[rows]
        estimate = None if self.estimate is None else self.estimate[rows]
        return NumberBelief(
            self.density.pick(rows), self.shares[rows], self.slot[rows], self.tables, points, answer, estimate
        )

    # -------------------------------------------------------- combined with neighbours, experts, other networks

    def interpolated(self, codes: Tensor, weights: Tensor, answer_weights: Tensor | None = None) -> NumberBelief:
        """The belief with some of its mass at neighbours' values: codes (n, K, 4), weights (n, 1 + len(KERNEL_WIDTHS), K).

        The first weight is of the value itself, the others of what is near it. `answer_weights` (n, 2 + K) are those of
        `answers` and of the neighbours' numbers, whose weighted sum becomes the answer.
        """
        shares = self.shares.double().exp() * (1 - weights.sum((1, 2)))[:, None]
        atom = codes[:, :, 3].long()  # (n, K), -1: none
        index = (atom + 1).clamp(0, shares.shape[1] - 1)  # padding has no weight
        shares = shares.scatter_add(1, index, weights[:, 0].where(atom >= 0, 0))
        equal_weights = weights[:, :1].masked_fill(atom[:, None] >= 0, 0)
        weights = torch.cat([equal_weights, weights[:, 1:]], 1).flatten(1)  # (n, kernels K)
        quarter_step = (codes[:, :, 1] + codes[:, :, 2]).div(4).clamp(*NEIGHBOUR_WIDTH)  # (n, K)
        std = torch.cat([quarter_step, *(torch.full_like(quarter_step, width) for width in KERNEL_WIDTHS)], 1)
        mean = codes[:, :, 0].repeat(1, 1 + len(KERNEL_WIDTHS))
        neighbours = Mixture(weights.clamp(min=MIN_SHARE).log().float(), mean, std)
        answer = None
        if answer_weights is not None:
            answer = (torch.cat([self.answers(), self.numbers(codes)], 1) * answer_weights).sum(1, keepdim=True)
            answer = self.tables.bounded(self.slot, answer)[:, 0]  # it may rise beyond all neighbours
        blended = self.with_component(neighbours, weights.sum(1), shares)
        return replace(blended, points=None, answer=answer, estimate=None)

    def with_odds_of_atoms(self, atom: Tensor, log_factor: Tensor) -> NumberBelief:
        """The belief with the odds of one atom (n,) of each row multiplied by a factor, given by its logarithm (n,). The rest stays in proportion."""
        shares = self.shares.double().scatter_add(1, 1 + atom[:, None], log_factor[:, None].double())
        return replace(self, shares=shares.log_softmax(1).float())

    def with_component(self, density: Density, mass: Tensor, shares: Tensor) -> NumberBelief:
        """The belief with one more density of this mass (n,); its own density and atoms keep the masses `shares` (n, 1 + A)."""
        total = shares[:, 0] + mass
        blend = Blend(density, self.density, mass / total.clamp(min=MIN_SHARE))
        shares = torch.cat([total[:, None], shares[:, 1:]], 1).clamp(min=MIN_SHARE).log().float()
        return replace(self, density=blend, shares=shares)

    def with_mass_around(self, numbers: Tensor, mass: Tensor) -> NumberBelief:
        """The belief with some of its mass (n, W) float64 in normal distributions around numbers (n,) of experts.

        Such a number may be more exact than the belief. The widths say how far the truth is from it.
        """
        total = mass.sum(1)
        codes = self._column_of_codes(numbers).expand(-1, len(AROUND_WIDTHS))
        widths = torch.tensor(AROUND_WIDTHS, device=codes.device).expand_as(codes)
        around = Mixture(mass.clamp(min=MIN_SHARE).log().float(), codes, widths)
        return self.with_component(around, total, self.shares.double().exp() * (1 - total)[:, None])

    def log_masses_around(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """(n, W) log p of each step (n, 4), if all mass were around these numbers (n,) with each of the widths."""
        center = self._column_of_codes(numbers)
        logit = torch.zeros_like(center)
        logs = [log_mass(logit, center, torch.full_like(center, width), codes) for width in AROUND_WIDTHS]
        return torch.stack(logs, 1).clamp(max=0)

    def _column_of_codes(self, numbers: Tensor) -> Tensor:
        """(n, 1) the codes of numbers (n,), within the bounds."""
        codes: Tensor = self.tables(self.slot, self.tables.bounded(self.slot, numbers[:, None]))
        return codes.float()

    def with_answer(self, answer: Tensor) -> NumberBelief:
        """The belief with another number (n,) float64 that has the least squared error."""
        return replace(self, answer=self.tables.bounded(self.slot, answer[:, None])[:, 0])

    def with_estimate(self, before: Tensor, estimate: Tensor, share: Tensor) -> NumberBelief:
        """The belief once experts have moved its typical number from `before` (n,) to an estimate (n,).

        A share (n,) of the density moves along, by as much in code.
        """
        estimate = self.tables.bounded(self.slot, estimate[:, None])[:, 0]
        if not bool(share.any()):
            return replace(self, estimate=estimate)
        means = torch.stack([before, estimate], 1)
        start, end = self.tables(self.slot, means).clamp(-MAX_CODE, MAX_CODE).unbind(1)
        density = Blend(Shifted(self.density, end - start), self.density, share)
        return replace(self, density=density, estimate=estimate)

    def averaged(self, others: Sequence[NumberBelief]) -> NumberBelief:
        """The mean of all; the answer, too, where one was learnt."""
        beliefs = [self, *others]
        shares = torch.stack([belief.shares.double() for belief in beliefs]).exp()  # (E, n, 1 + A)
        density, mass = self.density, shares[0, :, 0]
        for averaged_belief, belief_mass in zip(others, shares[1:, :, 0], strict=True):
            share = belief_mass / (mass + belief_mass).clamp(min=MIN_SHARE)
            density, mass = Blend(averaged_belief.density, density, share), mass + belief_mass
        has_answer = any(belief.answer is not None or belief.points is not None for belief in beliefs)
        answer = torch.stack([belief.expected() for belief in beliefs]).mean(0) if has_answer else None
        return replace(
            self, density=density, shares=shares.mean(0).log().float(), points=None, answer=answer, estimate=None
        )

    def _by_columns(self, values: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """A function of numbers (n, m), applied to (n,) or (n, m)."""
        values = torch.as_tensor(values, dtype=torch.float64, device=self.slot.device)
        return function(values[:, None]).squeeze(1) if values.ndim == 1 else function(values)


def are_masses_around(mass: Tensor) -> bool:
    """Whether `with_mass_around` accepts these masses (W,)."""
    return mass.shape == (len(AROUND_WIDTHS),) and bool((mass >= 0).all()) and float(mass.sum()) <= 1


def _mean_excess(density: Density, z: Tensor) -> Tensor:
    """(n, 1) E[max(Z - z, 0)]."""
    return (density.integrated_cdf(z) - z + density.mean_code()[:, None]).clamp(min=0)


def _densest(values: Tensor, density: Tensor, count: int) -> Tensor:
    """(n, count) those of numbers (n, C) with the highest density, none twice unless there are no more."""
    values, order = values.sort(1)
    group = F.pad((values.diff(dim=1) > 0).long().cumsum(1), (1, 0))  # (n, C) numbers of the distinct values
    highest = torch.full_like(density, -1).scatter_reduce(1, group, density.gather(1, order), "amax")
    distinct = values[:, :1].expand_as(values).scatter(1, group, values)
    return distinct.gather(1, highest.topk(count, dim=1).indices)


def _mass_up_to(atoms: Tensor, masses: Tensor, values: Tensor) -> Tensor:
    """(n, m) the mass of the atoms, ascending (n, A), that are no greater than values (n, m)."""
    total = F.pad(masses.cumsum(1), (1, 0))  # (n, 1 + A)
    return total.gather(1, torch.searchsorted(atoms, values.contiguous(), right=True))


# ---------------------------------------------------------------- quantiles
#
# The mass is first computed at some knots: at atoms, where it jumps, and at round codes. A level within the jump of an
# atom is met by that exactly. Every other lies between two knots, where the mass is continuous: Chandrupatla's method
# finds the root there.

ROUND_CODES = (-8.0, -4.0, -2.5, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.5, 4.0, 8.0)
TOLERANCE, RELATIVE_TOLERANCE = 1e-13, 1e-14  # of a code
MAX_STEPS = 100  # a smooth density takes about ten


@torch.no_grad()
def _quantiles(belief: NumberBelief, levels: Tensor) -> Tensor:
    """(n, m) for levels (n, m)."""
    atoms, masses = belief.atoms
    atom_codes: Tensor = belief.tables(belief.slot, atoms.where(atoms.isfinite(), 0))
    atom_codes = atom_codes.where(atoms.isfinite(), torch.inf)  # (n, A)
    knots = _knots(belief, atom_codes)
    of_density = belief.density_mass() * belief.density.cdf(knots)
    of_atoms = _mass_up_to(atom_codes, masses, knots)
    rising = (of_density + of_atoms).cummax(1).values
    end = torch.searchsorted(rising, levels.contiguous()).clamp(
        max=knots.shape[1] - 1
    )  # (n, m) the first with enough mass
    start = (end - 1).clamp(min=0)
    wanted = levels - of_atoms.gather(1, start)  # of the density
    last = of_density.gather(1, end) - wanted
    is_knot = (end == 0) | (last < 0)  # the mass jumps past the level
    high = knots.gather(1, end)
    low, first = knots.gather(1, start).where(~is_knot, high), of_density.gather(1, start) - wanted
    roots = belief.tables.inverse(belief.slot, _roots(belief, Bracket(low, first, high, last, high, last), wanted))
    if atoms.shape[1] == 0:
        return roots
    atom = torch.searchsorted(atom_codes, high).clamp(max=atoms.shape[1] - 1)
    is_atom = is_knot & (atom_codes.gather(1, atom) == high)
    return torch.where(is_atom, atoms.gather(1, atom), roots)


def _knots(belief: NumberBelief, atom_codes: Tensor) -> Tensor:
    """(n, knots) ascending codes; all of the mass is between the first and the last."""
    low, high = (end[:, None] for end in belief.density.support())
    codes = torch.tensor(ROUND_CODES, dtype=torch.float64, device=atom_codes.device).expand(len(atom_codes), -1)
    codes = torch.minimum(torch.maximum(codes, low), high)
    inner = torch.cat([codes, atom_codes.where(atom_codes.isfinite(), low)], 1)
    all_codes = torch.cat([low, high, inner], 1)
    ends = all_codes.amin(1, keepdim=True) - 1, all_codes.amax(1, keepdim=True) + 1
    knots: Tensor = torch.cat([*ends, inner], 1).sort(1).values
    return knots


class Bracket(NamedTuple):
    """Codes (n, m) on both sides of a root and a third one, each with the mass below it minus the wanted mass."""

    x1: Tensor  # the last that was evaluated
    f1: Tensor
    x2: Tensor  # on the other side
    f2: Tensor
    x3: Tensor
    f3: Tensor

    def narrowed(self, x: Tensor, f: Tensor) -> Bracket:
        """The bracket with a code between its ends."""
        same_side = (f >= 0) == (self.f1 >= 0)
        ends = torch.where(same_side, self.x2, self.x1), torch.where(same_side, self.f2, self.f1)
        third = torch.where(same_side, self.x1, self.x2), torch.where(same_side, self.f1, self.f2)
        return Bracket(x, f, *ends, *third)

    @property
    def best(self) -> Tensor:
        """(n, m) the end that is nearer to the root, by its mass."""
        return torch.where(self.f1.abs() < self.f2.abs(), self.x1, self.x2)

    @property
    def tolerance(self) -> Tensor:
        """(n, m) the accepted distance to the root, as a share of the bracket."""
        return (2 * RELATIVE_TOLERANCE * self.best.abs() + TOLERANCE) / (self.x2 - self.x1).abs()

    @property
    def is_done(self) -> Tensor:
        """(n, m) whether an end is the root."""
        return (self.f1 == 0) | (self.f2 == 0) | (self.tolerance > 0.5)

    @property
    def next(self) -> Tensor:
        """(n, m) the next code to evaluate: by inverse quadratic interpolation where the mass is smooth, else the middle."""
        x1, f1, x2, f2, x3, f3 = self
        xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
        quadratic = f1 / (f2 - f1) * (f3 / (f2 - f3)) + (x3 - x1) / (x2 - x1) * (f1 / (f3 - f1)) * (f2 / (f3 - f2))
        is_smooth = (1 - (1 - xi).sqrt() < phi) & (phi < xi.sqrt()) & quadratic.isfinite()
        least = self.tolerance.clamp(max=0.5)
        return x1 + torch.where(is_smooth, quadratic.clamp(min=least, max=1 - least), 0.5) * (x2 - x1)

    def pick(self, rows: Tensor) -> Bracket:
        """The brackets of some of the rows."""
        return Bracket(*(part[rows] for part in self))


def _roots(belief: NumberBelief, bracket: Bracket, wanted: Tensor) -> Tensor:
    """(n, m) codes below which the density has the wanted mass (n, m)."""
    roots, rows = torch.empty_like(bracket.x1), torch.arange(len(wanted), device=wanted.device)
    density, mass = belief.density, belief.density_mass()
    for _ in range(MAX_STEPS):
        done = bracket.is_done
        unfinished = (~done).any(1).nonzero()[:, 0]
        if len(unfinished) == 0:
            break
        if 2 * len(unfinished) <= len(rows):  # rows that are done cost nothing from here on
            roots[rows] = bracket.best
            rows, density, mass = rows[unfinished], density.pick(unfinished), mass[unfinished]
            bracket, wanted, done = bracket.pick(unfinished), wanted[unfinished], done[unfinished]
        x = bracket.x1.where(done, bracket.next)
        bracket = bracket.narrowed(x, mass * density.cdf(x) - wanted)
    roots[rows] = bracket.best
    return roots
