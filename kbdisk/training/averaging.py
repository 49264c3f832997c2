"""Averaged weights: what is kept of a run is smoother than any of its steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """An exponential moving average of a network's parameters; its first steps count as a plain mean."""

    def __init__(self, network: nn.Module, smoothing: float) -> None:
        self.parameters = list(network.parameters())
        self.smoothing = smoothing
        self.weights: list[Tensor] = []
        self.restart()

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after a step, counted from 1."""
        smoothing = min(self.smoothing, step / (step + 9))
        torch._foreach_lerp_(self.weights, [one.detach() for one in self.parameters], 1 - smoothing)

    def restart(self) -> None:
        """Begin anew with the weights that the network has now."""
        self.weights = [parameter.detach().clone() for parameter in self.parameters]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The network with the averaged weights in place of its own, for a while."""
        own = [one.detach().clone() for one in self.parameters]
        self.put(self.weights)
        try:
            yield
        finally:
            self.put(own)

    @torch.no_grad()
    def put(self, weights: list[Tensor]) -> None:
        """Write some weights into the network."""
        for one, weight in zip(self.parameters, weights, strict=True):
            one.copy_(weight)
