"""Shrinkage: the weight of a model's predictions of a property beside the constant, learnt from held-out values.

    number        constant + weight * (prediction - constant)       the weight with the least absolute error
    label, link   weight * p + (1 - weight) * share of the label    the weight under which the truth is likeliest

A prior favours the full weight. It counts as about one held-out value of labels, and as ten of numbers, whose predictions were
fitted to held-out values already. Sets and texts are not shrunk.

L weights   n held-out values
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

WEIGHT_STEPS = 20  # between 0 and 1
PRIOR_OF_FULL_WEIGHT = 10.0  # held-out values of numbers that it counts as


def number_weight(predictions: Sequence[float], constant: Sequence[float], truth: Sequence[float]) -> float:
    """The weight of some numbers (n,), beside the constant and the truth of each."""
    sequences = (predictions, constant, truth)
    predicted, constants, true = (torch.tensor(numbers, dtype=torch.float64) for numbers in sequences)
    weights = torch.linspace(0, 1, WEIGHT_STEPS + 1, dtype=torch.float64)  # (L,)
    errors = (constants + weights[:, None] * (predicted - constants) - true).abs()  # (L, n)
    scale = (constants - true).abs().mean()
    return float(weights[_last_least(errors.sum(1) + PRIOR_OF_FULL_WEIGHT * scale * (1 - weights))])


def label_weight(nats: Sequence[float], constant: Sequence[float]) -> float:
    """The weight of some beliefs, from the nats (n,) of the truth under them and under the constant belief."""
    log_p, constant_log_p = (-torch.tensor(costs, dtype=torch.float64)[:, None] for costs in (nats, constant))
    weights = torch.linspace(1 / WEIGHT_STEPS, 1, WEIGHT_STEPS, dtype=torch.float64)  # (L,)
    mixture = torch.logaddexp(log_p + weights.log(), constant_log_p + torch.log1p(-weights))  # (n, L)
    return float(weights[_last_least(-mixture.sum(0) - weights.log())])


def _last_least(costs: Tensor) -> int:
    """The last index of the least cost, so that among equals the greatest weight is taken."""
    return len(costs) - 1 - int(costs.flip(0).argmin())
