"""A belief in numbers that gives some of its mass to what is near a number.

Such a number may come from experts - neighbours, surfaces, trees - and may be more exact than the belief is. How far the truth is from such numbers, as it was for held-out values, is told by a few normal distributions around them.

n rows   W widths
"""

from __future__ import annotations

import torch
from torch import Tensor

from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.leaves.number.blended import TINY
from kbdisk.leaves.number.mixture import Mixture
from kbdisk.leaves.number.normal import log_mass

WIDTHS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.7, 1.5)  # in code: standard deviations of these


def are_masses(mass: Tensor) -> bool:
    """Whether a belief can give so much (W,) of its mass."""
    return mass.shape == (len(WIDTHS),) and bool((mass >= 0).all()) and float(mass.sum()) <= 1


def log_masses(belief: NumberBelief, numbers: Tensor, codes: Tensor) -> Tensor:
    """(n, W) log p of each step (n, 4), were all mass around these numbers (n,) with each of these widths."""
    places = _places(belief, numbers)
    logit = torch.zeros_like(places)
    logs = [log_mass(logit, places, torch.full_like(places, width), codes) for width in WIDTHS]
    return torch.stack(logs, 1).clamp(max=0)


def centred(belief: NumberBelief, numbers: Tensor, mass: Tensor) -> NumberBelief:
    """A belief with so much (n, W) float64 of its mass around these numbers (n,)."""
    given = mass.sum(1)
    places = _places(belief, numbers).expand(-1, len(WIDTHS))
    widths = torch.tensor(WIDTHS, device=places.device).expand_as(places)
    near = Mixture(mass.clamp(min=TINY).log().float(), places, widths)
    return belief.giving(near, given, belief.shares.double().exp() * (1 - given)[:, None])


def _places(belief: NumberBelief, numbers: Tensor) -> Tensor:
    """(n, 1) the codes of numbers (n,), within the bounds."""
    bounded = belief.tables.bounded(belief.slot, numbers[:, None])
    places: Tensor = belief.tables(belief.slot, bounded)
    return places.float()
