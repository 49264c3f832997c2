"""The weight of the boosted trees that predict presence, beside the networks, from the outcomes of a trial of completion."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from kbdisk.evaluation.calibration import Outcome, log_odds
from kbdisk.experts.presence_trees import weight_of_trees


def weight_of_presence_trees(outcomes: Sequence[Outcome]) -> float:
    """The weight of the trees under which presence has the least log loss, of properties that have trees."""
    rows = [
        (*outcome.presence_parts, float(outcome.right is not None), outcome.weight)
        for outcome in outcomes
        if outcome.presence_parts is not None
    ]
    network, trees, truth, weights = np.array(rows, dtype=np.float64).reshape(-1, 4).T
    return weight_of_trees(*map(torch.from_numpy, (log_odds(network), log_odds(trees), truth, weights)))


def with_presence_of(outcome: Outcome, weight: float) -> Outcome:
    """An outcome as it is where trees have this weight."""
    if outcome.presence_parts is None:
        return outcome
    network, trees = log_odds(np.array(outcome.presence_parts))
    odds = (1 - weight) * network + weight * trees
    return outcome._replace(presence=float(1 / (1 + np.exp(-odds))))
