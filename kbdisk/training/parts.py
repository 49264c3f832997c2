"""The gradient of a step, part by part: some of its entities on each core, all with the same weights.

On a CPU the operations of a small network are too short to be shared out one by one: two cores that worked on each
operation together took as long as one, and twice as long where they slept between two. Here they meet once a step.
How a step is parted is a matter of the run, not of the machine: one core works on the parts one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count

import torch
from torch import Tensor, nn

from kbdisk.model.diffusion import Loss

MIN_TOKENS = 800  # of a part: with fewer each would take as long as with these

Cost = Callable[[Tensor, int], Loss]  # of the entities of a part, by its number


@dataclass(frozen=True)
class Found:
    """What a step's entities cost, a mean over them."""

    total: float
    nats: float


@dataclass(frozen=True)
class Part(Found):
    """Some of that, and some of its gradient."""

    gradients: Sequence[Tensor | None]


class Parts:
    """Works out gradients in up to `most` parts at once, each of so many entities at least."""

    def __init__(self, network: nn.Module, most: int, least: int) -> None:
        self.parameters = list(network.parameters())
        self.most, self.least = most, least
        self.threads = torch.get_num_threads()
        workers = min(most, self.threads)
        self.pool = ThreadPoolExecutor(workers) if workers > 1 else None
        self.each = max(self.threads // workers, 1)

    def gradients(self, entities: Tensor, cost: Cost) -> Found:
        """Put the gradient of what these entities cost into the parameters."""
        parts = entities.chunk(max(min(self.most, len(entities) // self.least), 1))
        shares = [len(part) / len(entities) for part in parts]
        if self.pool is None or len(parts) == 1:
            found = list(map(partial(self._one, cost), parts, shares, count()))
        else:
            found = list(self.pool.map(partial(self._threaded, cost), parts, shares, count()))
            torch.set_num_threads(self.threads)  # for threads to come: the workers' own number is theirs
        for parameter, several in zip(
            self.parameters, zip(*(one.gradients for one in found), strict=True), strict=True
        ):
            parameter.grad = _sum(several)
        return Found(sum(one.total for one in found), sum(one.nats for one in found))

    def _threaded(self, cost: Cost, entities: Tensor, share: float, number: int) -> Part:
        if torch.get_num_threads() != self.each:
            torch.set_num_threads(self.each)
        return self._one(cost, entities, share, number)

    def _one(self, cost: Cost, entities: Tensor, share: float, number: int) -> Part:
        loss = cost(entities, number)
        gradients = torch.autograd.grad(loss.total * share, self.parameters, allow_unused=True)
        return Part(float(loss.total.detach()) * share, float(loss.nats) * share, gradients)


def min_entities(entities: int, tokens: int) -> int:
    """The entities of a part, at least, where so many have so many tokens."""
    return max(round(MIN_TOKENS * entities / max(tokens, 1)), 1)


def _sum(gradients: Sequence[Tensor | None]) -> Tensor | None:
    """Of the parts, in their order, so that it is the same each time."""
    total: Tensor | None = None
    for one in gradients:
        total = one if total is None else total if one is None else total + one
    return total
