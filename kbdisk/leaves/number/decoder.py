"""Vectors to beliefs about numbers: the path, residual GLU blocks, and a head for the curve and one for the atoms.

n rows   D width   A atoms   S slots
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.layers import GLUBlock, GroupedLinear, Readout
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.leaves.number.codec import NumberCodec
from kbdisk.leaves.number.heads import HEADS
from kbdisk.leaves.number.point import PointHead
from kbdisk.leaves.number.tables import Tables, padded

NEVER = -1e30


class AtomHead(Readout):
    """The mass of each atom and of the curve: at the start about their share of the training values."""

    prior: Tensor

    def __init__(self, codecs: Sequence[NumberCodec], setting: Setting) -> None:
        super().__init__()
        most = max((len(codec.atoms) for codec in codecs), default=0)
        rest = [[max(1 - sum(codec.shares), 0) + 1 / (codec.count + 1), *codec.shares] for codec in codecs]
        prior = padded(rest, fill=0.0).log().clamp(min=NEVER)  # (S, 1 + A)
        self.register_buffer("prior", prior.float(), persistent=False)
        self.linear = GroupedLinear(setting.sets, setting.width, 1 + most) if most else None

    def forward(self, h: Tensor, rows: Rows) -> Tensor:
        """(n, D) -> the log mass of the curve and of each atom (n, 1 + A); 0 alone where no property has atoms."""
        if self.linear is None:
            return torch.zeros(len(h), 1, device=h.device)
        shares: Tensor = self.linear(h, rows.counts).float() + self.prior[rows.slot]
        return shares.log_softmax(1)


class NumberDecoder(nn.Module):
    """One for all number properties; each group of them has its own weights."""

    def __init__(self, codecs: Sequence[NumberCodec], setting: Setting) -> None:
        super().__init__()
        self.tables = Tables(codecs)
        self.blocks = nn.ModuleList(
            GLUBlock(setting.sets, setting.width, dropout=setting.dropout) for _ in range(setting.blocks)
        )
        self.curve = HEADS[setting.config.belief](codecs, setting)
        self.atoms = AtomHead(codecs, setting)
        self.point = PointHead(codecs, setting) if setting.config.point else None

    def forward(self, h: Tensor, rows: Rows) -> NumberBelief:
        """(n, D) -> what is believed of each row."""
        h = h + rows.path
        for block in self.blocks:
            h = block(h, rows.counts)
        points = self.point(h, rows) if self.point is not None else None
        return NumberBelief(self.curve(h, rows), self.atoms(h, rows), rows.slot, self.tables, points)
