"""What a run does after its last step, and what that takes of a time budget.

How long it takes is told by a pass that is timed. Of what would take too much of the budget less is done, and nothing is
indexed where even the fewest values would take too much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kbdisk.data.dataset import Tokens
from kbdisk.experts.config import LatentKNNConfig
from kbdisk.experts.latent_knn import measure
from kbdisk.experts.latent_knn import seconds as latent_knn_seconds
from kbdisk.network.disk import DiSK
from kbdisk.training.presence import MAX_VALUES
from kbdisk.training.presence import seconds as recording

REMEMBERED, RECORDED = 0.2, 0.1  # of a budget, at most: for what is remembered, and for what is recorded
FEWEST = 500  # values of an index; a smaller one is of no use
HALF = 0.5  # of a budget, at most, for all of it


class Afterwards(NamedTuple):
    """By how many values each is done, and the seconds that are kept for it."""

    remembered: int
    recorded: int
    seconds: float


def planned(
    network: DiSK, tokens: Tokens, held_out: Tokens, budget: float, memory: LatentKNNConfig, *, records: bool
) -> Afterwards:
    """What a budget is good for, where something is held out; `records` tells whether the network learns what is recorded."""
    if not len(held_out) or not (memory.neighbours or records):
        return Afterwards(memory.values, MAX_VALUES, 0.0)
    once = measure(network, tokens, memory.neighbours)
    values, spent = _affordable(
        memory.values, REMEMBERED * budget, lambda most: latent_knn_seconds(once, tokens, held_out, most)
    )
    if spent > REMEMBERED * budget:
        values, spent = 0, 0.0
    recorded, more = _affordable(MAX_VALUES, RECORDED * budget, lambda most: recording(once.forward, tokens, most))
    taken = spent * bool(memory.neighbours) + more * records
    return Afterwards(values, recorded, min(taken, HALF * budget))


def _affordable(most: int, budget: float, seconds: Callable[[int], float]) -> tuple[int, float]:
    """How many values can be had for a budget, by halves of the most there are, and what they take."""
    while most > FEWEST and seconds(most) > budget:
        most //= 2
    return most, seconds(most)
