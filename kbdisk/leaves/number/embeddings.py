"""Codes to vectors: waves of learnable frequencies, alone or through a linear map and a ReLU, or DICE.

n rows   D width   F frequencies   G sets of weights
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.layers import GroupedLinear
from kbdisk.leaves.number.codec import NumberCodec

MARGIN = 0.05  # of DICE's half circle, on either side for what lies beyond the training values
LEAST = 1e-6  # of the angle's sine: in float32 that of pi is below 0


class Periodic(nn.Module):
    """Sines and cosines, then a linear map, one for all properties or one for each group."""

    def __init__(self, codecs: Sequence[NumberCodec], setting: Setting) -> None:
        super().__init__()
        config, sets = setting.config, 1 if setting.config.shared else setting.sets
        self.frequency = nn.Parameter(torch.randn(sets, config.frequencies) * config.frequency_scale)  # (G, F)
        self.linear = GroupedLinear(sets, 2 * config.frequencies, setting.width)

    def forward(self, z: Tensor, rows: Rows) -> Tensor:
        """(n,) -> (n, D)."""
        counts = list(rows.counts) if len(self.frequency) > 1 else [len(rows)]
        parts = zip(torch.split(z, counts), self.frequency, strict=True)
        angle = 2 * math.pi * torch.cat([part[:, None] * own for part, own in parts])  # (n, F)
        x: Tensor = self.linear(torch.cat([angle.sin(), angle.cos()], dim=1), counts)  # (n, D)
        return x


class PeriodicLinearReLU(Periodic):
    """The same, kept where above 0."""

    def forward(self, z: Tensor, rows: Rows) -> Tensor:
        """(n,) -> (n, D)."""
        return super().forward(z, rows).relu()


class Dice(nn.Module):
    """An angle between 0 and pi for each number, in D dimensions: powers of its sine, turned by a fixed rotation.

    DIFF(paper): its code clamps the angle, so that all values beyond the training data are one; here they share the
    margins of the half circle, ever closer to its ends. The rotation is one for all, drawn from its own generator.
    """

    low: Tensor
    high: Tensor
    rotation: Tensor

    def __init__(self, codecs: Sequence[NumberCodec], setting: Setting) -> None:
        super().__init__()
        drawn = torch.randn(setting.width, setting.width, generator=torch.Generator().manual_seed(0))
        self.register_buffer("rotation", torch.linalg.qr(drawn)[0])
        self.register_buffer("low", torch.tensor([codec.edges[0] for codec in codecs]), persistent=False)
        self.register_buffer("high", torch.tensor([codec.edges[-1] for codec in codecs]), persistent=False)

    def forward(self, z: Tensor, rows: Rows) -> Tensor:
        """(n,) -> (n, D)."""
        low, high = self.low[rows.slot], self.high[rows.slot]
        angle = math.pi * squeezed((z - low) / (high - low))[:, None]  # (n, 1)
        power = torch.arange(len(self.rotation), device=z.device)  # (D,)
        circle = angle.sin().clamp(min=LEAST).log() * power  # (n, D) the log of sin ** 0, sin ** 1, ...
        spiral = torch.cat([circle[:, :-1].exp() * angle.cos(), circle[:, -1:].exp()], dim=1)
        return spiral @ self.rotation.T


def squeezed(share: Tensor) -> Tensor:
    """The whole line into (0, 1), rising: 0..1 straight into the middle, all else into the margins."""
    steep = (1 - 2 * MARGIN) / MARGIN
    below, above = (-share).clamp(min=0), (share - 1).clamp(min=0)
    inner = MARGIN + share.clamp(0, 1) * (1 - 2 * MARGIN)
    return inner - MARGIN * (1 - 1 / (1 + steep * below)) + MARGIN * (1 - 1 / (1 + steep * above))


EMBEDDINGS: dict[str, type[nn.Module]] = {"plr": PeriodicLinearReLU, "periodic": Periodic, "dice": Dice}
