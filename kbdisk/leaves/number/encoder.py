"""The encoder of numbers: codes to vectors. A vector is the sum of embeddings of the code, of the atom and of remainders,
and of the path; residual GLU blocks follow.

The code is embedded by periodic functions of learnable frequencies (`Periodic`), those through a linear map and a ReLU
(`PeriodicLinearReLU`), or `Dice`. See Gorishniy and others, On Embeddings for Numerical Features in Tabular Deep
Learning, 2022, and Sundararaman and others, Methods for Numeracy-Preserving Word Embeddings, 2020.

n rows   D width   F frequencies   G groups of weights   A atoms   P periods
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.layers import GroupedLinear, residual_blocks
from kbdisk.leaves.number.codec import CodecTables, NumberCodec

DICE_MARGIN = 0.05  # of the half circle, on either side for what lies beyond the training values
MIN_SINE = 1e-6  # in float32 that of pi is below 0
PERIODS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 28, 40)  # of remainders


class Periodic(nn.Module):
    """Sines and cosines of the code, then a linear map, the same for all properties or one for each group."""

    def __init__(self, codecs: Sequence[NumberCodec], setting: Setting) -> None:
        super().__init__()
        config, sets = setting.config, 1 if setting.config.shared else setting.sets
        self.frequency = nn.Parameter(torch.randn(sets, config.frequencies) * config.frequency_scale)  # (G, F)
        self.linear = GroupedLinear(sets, 2 * config.frequencies, setting.width)

    def forward(self, z: Tensor, rows: Rows) -> Tensor:
        """(n,) -> (n, D)."""
        counts = list(rows.counts) if len(self.frequency) > 1 else [len(rows)]
        groups = zip(torch.split(z, counts), self.frequency, strict=True)
        angle = 2 * math.pi * torch.cat([codes[:, None] * frequency for codes, frequency in groups])  # (n, F)
        x: Tensor = self.linear(torch.cat([angle.sin(), angle.cos()], dim=1), counts)  # (n, D)
        return x


class PeriodicLinearReLU(Periodic):
    """The periodic embedding, through a ReLU: PLR."""

    def forward(self, z: Tensor, rows: Rows) -> Tensor:
        """(n,) -> (n, D)."""
        return super().forward(z, rows).relu()


class Dice(nn.Module):
    """DICE: an angle between 0 and pi for each number, in D dimensions: powers of its sine, turned by a fixed rotation.

    DIFF(paper): its code clamps the angle, so that all values beyond the training data are one; here they share the
    margins of the half circle, ever closer to its ends. The rotation is one for all, drawn from its own generator.
    """

    low: Tensor
    high: Tensor
    rotation: Tensor

    def __init__(self, codecs: Sequence[NumberCodec], setting: Setting) -> None:
        super().__init__()
        normal = torch.randn(setting.width, setting.width, generator=torch.Generator().manual_seed(0))
        self.register_buffer("rotation", torch.linalg.qr(normal)[0])
        self.register_buffer("low", torch.tensor([codec.edges[0] for codec in codecs]), persistent=False)
        self.register_buffer("high", torch.tensor([codec.edges[-1] for codec in codecs]), persistent=False)

    def forward(self, z: Tensor, rows: Rows) -> Tensor:
        """(n,) -> (n, D)."""
        low, high = self.low[rows.slot], self.high[rows.slot]
        angle = math.pi * squeezed((z - low) / (high - low))[:, None]  # (n, 1)
        power = torch.arange(len(self.rotation), device=z.device)  # (D,)
        circle = angle.sin().clamp(min=MIN_SINE).log() * power  # (n, D) the log of sin ** 0, sin ** 1, ...
        spiral = torch.cat([circle[:, :-1].exp() * angle.cos(), circle[:, -1:].exp()], dim=1)
        return spiral @ self.rotation.T


def squeezed(share: Tensor) -> Tensor:
    """The whole line into (0, 1), rising: 0 ... 1 straight into the middle, all else into the margins."""
    steep = (1 - 2 * DICE_MARGIN) / DICE_MARGIN
    below, above = (-share).clamp(min=0), (share - 1).clamp(min=0)
    inner = DICE_MARGIN + share.clamp(0, 1) * (1 - 2 * DICE_MARGIN)
    return inner - DICE_MARGIN * (1 - 1 / (1 + steep * below)) + DICE_MARGIN * (1 - 1 / (1 + steep * above))


EMBEDDINGS: dict[str, type[nn.Module]] = {"plr": PeriodicLinearReLU, "periodic": Periodic, "dice": Dice}


class Remainders(nn.Module):
    """Whole numbers by their remainders: waves with periods of 2, 3, ... steps; zeros for other numbers.

    So even and odd numbers, or the months of a year, are distinguished however many there are. A code says only where
    a number stands among others.
    """

    is_whole: Tensor
    turns: Tensor

    def __init__(self, codecs: Sequence[NumberCodec], setting: Setting) -> None:
        super().__init__()
        self.tables = CodecTables(codecs)
        self.linear = GroupedLinear(setting.sets, 2 * len(PERIODS), setting.width)
        self.register_buffer("is_whole", torch.tensor([codec.whole for codec in codecs]), persistent=False)  # (S,)
        turns = 2 * math.pi / torch.tensor(PERIODS, dtype=torch.float64)
        self.register_buffer("turns", turns, persistent=False)  # (P,)

    def forward(self, z: Tensor, rows: Rows) -> Tensor:
        """(n,) codes -> (n, D)."""
        is_whole = self.is_whole[rows.slot, None]
        angle = self.tables.inverse(rows.slot, z[:, None].double()).round() * self.turns  # (n, P)
        waves = torch.cat([angle.sin(), angle.cos()], 1).float()
        x: Tensor = self.linear(waves, rows.counts) * is_whole
        return x


class NumberEncoder(nn.Module):
    """One module for all number properties; each group of them has its own weights."""

    group: Tensor

    def __init__(self, codecs: Sequence[NumberCodec], setting: Setting) -> None:
        super().__init__()
        self.embedding = EMBEDDINGS[setting.config.embedding](codecs, setting)
        self.max_atoms = max((len(codec.atoms) for codec in codecs), default=0)
        # row 0 is for what is no atom; within a group that several properties share, atoms share by rank
        table_rows = 1 + setting.sets * self.max_atoms
        self.atoms = nn.Embedding(table_rows, setting.width, padding_idx=0) if self.max_atoms else None
        if self.atoms is not None:
            nn.init.normal_(self.atoms.weight[1:], std=0.02)
        self.register_buffer("group", torch.tensor(list(setting.groups), dtype=torch.long), persistent=False)
        has_whole_numbers = any(codec.whole for codec in codecs)
        self.waves = Remainders(codecs, setting) if setting.config.waves and has_whole_numbers else None
        self.blocks = residual_blocks(setting)

    def forward(self, codes: Tensor, rows: Rows) -> Tensor:
        """(n, 4) -> (n, D)."""
        x: Tensor = self.embedding(codes[:, 0], rows) + rows.path  # (n, D)
        if self.atoms is not None:
            index = codes[:, 3].long()
            x = x + self.atoms(torch.where(index < 0, 0, 1 + self.group[rows.slot] * self.max_atoms + index))  # (n, D)
        if self.waves is not None:
            x = x + self.waves(codes[:, 0], rows)
        for block in self.blocks:
            x = block(x, rows.counts)
        return x
