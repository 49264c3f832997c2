"""The odds that a number is one of its atoms, by how far the experts' estimate is from the atom.

An atom is a number that many entities have, often 0. A network that was trained for few steps gives it the same mass for every entity. Experts
know more: numbers that they estimate close to the atom are more often equal to it than numbers that they estimate far from it. So the odds of
a property's most frequent atom are multiplied by one factor up to some distance, and by another beyond it. The factors and the distance are
those that make held-out values likeliest.

n values   C distances that are compared
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from kbdisk.experts.weights import REQUIRED_ERRORS, ByProperty, proven
from kbdisk.leaves.number.belief import NumberBelief

Key = TypeVar("Key")

COMPARED = 19  # distances, at even shares of the held-out values
PENALTY = 1.0  # on half the square of a factor's logarithm, which stays small where few values decide
NEWTON_STEPS, MAX_STEP = 20, 2.0  # where nearly all values are the atom, a longer step leads too far
MAX_LOG_FACTOR = 10.0
MIN_VALUES = 5  # that are the atom, and that are not: with fewer no factor is fitted
MAX_LOGIT = 12.0  # of an atom, to which factors are fitted: a mass of 1 has no finite one
MIN_REQUIRED_ERRORS = 0.5  # standard errors that the gain has to be above 0, even where others need none: the best of many distances is chosen


class AtomFactors(NamedTuple):
    """The factors by which the odds of an atom are multiplied. Those of a property are a tensor (4,), those of rows a tensor (n, 4)."""

    atom: Tensor  # which of the atoms
    distance: Tensor  # on the scale of the property
    log_near: Tensor  # the logarithm of the factor up to this distance
    log_far: Tensor  # the same beyond it


FACTORS = len(AtomFactors._fields)


def no_factors(like: Tensor) -> Tensor:
    """(4,) factors of 1, on the device of a tensor."""
    return torch.zeros(FACTORS, dtype=torch.float64, device=like.device)


def has_factors(factors: Tensor) -> bool:
    """Whether some of the factors (..., 4) are not 1."""
    return bool((factors[..., 2:] != 0).any())


class HeldOutPart(NamedTuple):
    """Some held-out values of a property."""

    belief: NumberBelief  # (n,)
    codes: Tensor  # (n, 4) the truth
    estimate: Tensor  # (n,) of the experts


class HeldOutAtoms(NamedTuple):
    """Held-out values of a property, by its most frequent atom."""

    atom: int
    observed: Tensor  # (n, 3) float64: the belief's logit of the atom, whether the value is the atom, and the estimate's distance from it

    @classmethod
    def of(cls, atom: int, parts: Sequence[HeldOutPart]) -> HeldOutAtoms:
        """The values of all parts."""
        observed = []
        for part in parts:
            atoms = torch.full((len(part.codes),), atom, device=part.codes.device)
            log_mass = part.belief.shares.double()[:, 1 + atom]
            logit = log_mass - torch.log1p(-log_mass.exp())
            is_atom = (part.codes[:, 3] == atom).double()
            distance = _distances(part.belief, atoms, part.estimate)
            observed.append(torch.stack([logit.clamp(-MAX_LOGIT, MAX_LOGIT), is_atom, distance], 1))
        return cls(atom, torch.cat(observed))


def most_frequent_atom(codes: Tensor) -> int | None:
    """The atom that most values have, by their codes (n, 4); None where few are an atom, or nearly all are."""
    atoms = codes[:, 3].long()
    if not bool((atoms >= 0).any()):
        return None
    atom = int(atoms[atoms >= 0].mode().values)
    of_atom = int((atoms == atom).sum())
    return atom if min(of_atom, len(atoms) - of_atom) >= MIN_VALUES else None


def each_factors(
    held_out: Mapping[Key, HeldOutAtoms], entities: ByProperty[Key], required_errors: float = REQUIRED_ERRORS
) -> dict[Key, Tensor]:
    """(4,) the `AtomFactors` of properties; factors of 1 where they are not `proven` on held-out entities (n,).

    Each property is proven by its own values alone, as its factors have nothing in common with those of others.
    """
    observed = {key: of_key.observed for key, of_key in held_out.items()}

    def fit(some: ByProperty[Key]) -> ByProperty[Key]:
        return {key: _likeliest(of_key) for key, of_key in some.items()}

    def unchanged(some: ByProperty[Key]) -> ByProperty[Key]:
        return {key: no_factors(of_key)[1:] for key, of_key in some.items()}

    required = max(required_errors, MIN_REQUIRED_ERRORS)
    fitted = proven(observed, entities, 0.0, fit, unchanged, _costs, required)
    return {
        key: torch.cat([factors.new_tensor([float(held_out[key].atom)]), factors]) for key, factors in fitted.items()
    }


def with_factors(belief: NumberBelief, estimate: Tensor, factors: Tensor) -> NumberBelief:
    """The belief with the odds of atoms multiplied by factors (n, 4), by the distances of estimates (n,)."""
    if belief.shares.shape[1] < 2 or not has_factors(factors):
        return belief
    of_rows = AtomFactors(*factors.unbind(1))
    atom = of_rows.atom.long()
    is_near = _distances(belief, atom, estimate) <= of_rows.distance
    return belief.with_odds_of_atoms(atom, torch.where(is_near, of_rows.log_near, of_rows.log_far))


def _distances(belief: NumberBelief, atom: Tensor, estimate: Tensor) -> Tensor:
    """(n,) how far estimates (n,) are from one atom (n,) each, on the scale of their property."""
    numbers = belief.tables.finite_atoms(belief.slot).gather(1, atom[:, None])
    scaled: Tensor = belief.tables.scaled(belief.slot, torch.cat([numbers, estimate[:, None]], 1))
    return (scaled[:, 1] - scaled[:, 0]).abs()


def _likeliest(observed: Tensor) -> Tensor:
    """(n, 3) -> (3,) the distance, and the logarithms of both factors."""
    logit, is_atom, distance = observed.unbind(1)
    between = distance.unique()
    between = (between[1:] + between[:-1]) / 2  # so that rounding moves no value to the other side
    if not len(between):
        return observed.new_zeros(3)
    places = torch.linspace(0, len(between) - 1, min(COMPARED, len(between)), device=between.device).round().long()
    candidates = between[places]  # (C,)
    is_near = (distance[:, None] <= candidates).to(distance)  # (n, C)
    near, far = (_log_factors(logit, is_atom, weights) for weights in (is_near, 1 - is_near))
    shifted = logit[:, None] + torch.where(is_near > 0, near, far)
    costs = F.binary_cross_entropy_with_logits(shifted, is_atom[:, None].expand_as(shifted), reduction="none").sum(0)
    best = (costs + PENALTY / 2 * (near.square() + far.square())).argmin()
    return torch.stack([candidates[best], near[best], far[best]])


def _log_factors(logit: Tensor, is_atom: Tensor, weights: Tensor) -> Tensor:
    """(C,) by Newton's method the logarithms of the likeliest factors, for values with weights (n, C)."""
    found = logit.new_zeros(weights.shape[1])
    for _ in range(NEWTON_STEPS):
        p = (logit[:, None] + found).sigmoid()
        slope = (weights * (is_atom[:, None] - p)).sum(0) - PENALTY * found
        curvature = (weights * p * (1 - p)).sum(0) + PENALTY
        found = (found + (slope / curvature).clamp(-MAX_STEP, MAX_STEP)).clamp(-MAX_LOG_FACTOR, MAX_LOG_FACTOR)
    return found


def _costs(observed: Tensor, factors: Tensor) -> Tensor:
    """(n,) nats of whether held-out values (n, 3) are the atom, with factors (3,)."""
    logit, is_atom, distance = observed.unbind(1)
    shifted = logit + torch.where(distance <= factors[0], factors[1], factors[2])
    return F.binary_cross_entropy_with_logits(shifted, is_atom, reduction="none")
