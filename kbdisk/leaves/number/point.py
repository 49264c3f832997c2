"""The number that has the least squared error, learnt as such beside the belief.

A belief is learnt where most values are; squared errors are made where few are, far out. So one more output of the
decoder is taught by them alone, in original units over their deviation; beyond `FAR` deviations an error counts plainly.

n rows   D width   S slots
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.layers import GroupedLinear, Readout
from kbdisk.leaves.number.codec import NumberCodec

FAR = 3.0  # deviations


@dataclass(frozen=True)
class Points:
    """A number for each of n rows."""

    place: Tensor  # (n,) in deviations from the mean
    mean: Tensor  # (n,) float64, of the training values
    deviation: Tensor
    weight: float  # of its cost in the loss

    def numbers(self) -> Tensor:
        """(n,) float64, in original units."""
        return self.mean + self.place.double() * self.deviation

    def cost(self, truth: Tensor) -> Tensor:
        """(n,) half the squared error, in deviations; of numbers in original units."""
        place = ((truth - self.mean) / self.deviation).float()
        return self.weight * F.huber_loss(self.place, place, reduction="none", delta=FAR)

    def pick(self, rows: Tensor) -> Points:
        """Some of the rows."""
        return Points(self.place[rows], self.mean[rows], self.deviation[rows], self.weight)


class PointHead(Readout):
    """One number for each row: at the start about the mean of the training values."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, codecs: Sequence[NumberCodec], setting: Setting) -> None:
        super().__init__()
        self.weight = setting.config.point
        self.linear = GroupedLinear(setting.sets, setting.width, 1)
        moments = torch.tensor([codec.moments for codec in codecs], dtype=torch.float64).view(-1, 2)
        self.register_buffer("mean", moments[:, 0], persistent=False)  # (S,)
        self.register_buffer("deviation", moments[:, 1], persistent=False)

    def forward(self, h: Tensor, rows: Rows) -> Points:
        """(n, D) -> a number for each row"""
        place = self.linear(h, rows.counts).float()[:, 0]
        return Points(place, self.mean[rows.slot], self.deviation[rows.slot], self.weight)
