"""The unit of an amount that is given without one, by Bayes' rule: how likely each unit is, times how likely the amount in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from kbdisk.completion.trusting import Trusting
from kbdisk.data import Codec
from kbdisk.data.batch import Batch
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.network.beliefs import Beliefs
from kbdisk.schemas.composites.quantity import UNIT, VALUE, Quantity

if TYPE_CHECKING:
    from kbdisk.completion.predictions import Prediction


def settle_units(
    codec: Codec,
    trusting: Trusting,
    batch: Batch,
    beliefs: Beliefs,
    said: Mapping[str, Tensor],
    predictions: Iterable[Prediction],
) -> tuple[dict[str, Tensor], dict[int, float]]:
    """Chooses the likeliest unit of each amount without one: the codes (q, ...) with these units, and the probability of each, by token."""
    codes, sure = {kind: values.clone() for kind, values in said.items()}, dict[int, float]()
    rows = {
        (token, kind): torch.tensor([row], device=batch.slot.device)
        for kind in ("number", "category")
        if kind in beliefs.kinds
        for row, token in enumerate(beliefs.kinds[kind].tokens.tolist())
    }
    for prediction in predictions:
        gap = prediction.gap
        value, unit = (prediction.tokens.get((*gap.path, *leaf)) for leaf in (VALUE, UNIT))
        if gap.bare is None or value is None or unit is None or not isinstance(gap.of.kind, Quantity):
            continue
        number = beliefs.kinds["number"].belief.pick(rows[value, "number"])
        label = beliefs.kinds["category"].belief.pick(rows[unit, "category"])
        assert isinstance(number, NumberBelief)
        slot = int(batch.slot[unit])
        shares = trusting.shares(slot, label)
        chances = shares * _likelihoods(gap.of.kind, codec.slots[slot].codec.labels.values, gap.bare, number).to(shares)
        if float(chances.sum()) > 0:
            best = int(chances.argmax())
            codes["category"][rows[unit, "category"]] = best
            sure[unit] = float(chances[best] / chances.sum())
    return codes, sure


def _likelihoods(kind: Quantity, units: Iterable[str], amount: float, belief: NumberBelief) -> Tensor:
    """(V,) the density of an amount in each unit."""
    found = [kind.conversion(unit) for unit in units]
    learnt = [float(amount) if one is None else one.of(amount) for one in found]
    factors = torch.tensor([1.0 if one is None else one.factor for one in found], dtype=torch.float64)
    device = belief.slot.device
    density = belief.pdf(torch.tensor([learnt], dtype=torch.float64, device=device))[0]
    return density.cpu() * factors
