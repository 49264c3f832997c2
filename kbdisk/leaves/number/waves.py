"""SingleStep numbers by their remainders: waves that come round after 2, 3, ... steps, so that even and odd, or the months of
a year, are told apart however many there are. What a code says of a number is where it stands among others.

n rows   D width   P periods
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.layers import GroupedLinear
from kbdisk.leaves.number.codec import NumberCodec
from kbdisk.leaves.number.tables import Tables

PERIODS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 28, 40)


class Waves(nn.Module):
    """Vectors of whole numbers; zeros for the others."""

    whole: Tensor
    turns: Tensor

    def __init__(self, codecs: Sequence[NumberCodec], setting: Setting) -> None:
        super().__init__()
        self.tables = Tables(codecs)
        self.linear = GroupedLinear(setting.sets, 2 * len(PERIODS), setting.width)
        self.register_buffer("whole", torch.tensor([codec.whole for codec in codecs]), persistent=False)  # (S,)
        turns = 2 * math.pi / torch.tensor(PERIODS, dtype=torch.float64)
        self.register_buffer("turns", turns, persistent=False)  # (P,)

    def forward(self, z: Tensor, rows: Rows) -> Tensor:
        """(n,) codes -> (n, D)."""
        whole = self.whole[rows.slot, None]
        angle = self.tables.inverse(rows.slot, z[:, None].double()).round() * self.turns  # (n, P)
        waves = torch.cat([angle.sin(), angle.cos()], 1).float()
        x: Tensor = self.linear(waves, rows.counts) * whole
        return x
