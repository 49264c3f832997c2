"""The decoder of numbers: vectors to beliefs, through residual GLU blocks and a head for the density, one for the atoms
and one for the point estimate.

n rows   D width   A atoms   S slots   K components   B bins
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.layers import GroupedLinear, Readout, residual_blocks
from kbdisk.leaves.number.belief import NumberBelief, PointEstimates
from kbdisk.leaves.number.codec import CodecTables, NumberCodec, padded
from kbdisk.leaves.number.densities import LOG_ZERO, TAILS, Binned, Bins, HeavyTailed, HeavyTails, Mixture

INITIAL_WIDTH = -0.43  # softplus takes it to 0.5: at the start the components overlap


class MixtureHead(Readout):
    """K Gaussians, at the start spread over the normal distribution, which most codes follow."""

    floor: Tensor

    def __init__(self, codecs: Sequence[NumberCodec], setting: Setting) -> None:
        super().__init__()
        self.count = setting.config.components
        self.linear = GroupedLinear(setting.sets, setting.width, 3 * self.count)
        means = [NormalDist().inv_cdf((k + 0.5) / self.count) for k in range(self.count)]
        start = torch.tensor([0.0] * self.count + means + [INITIAL_WIDTH] * self.count)  # (3 K,)
        self.linear.bias = nn.Parameter(start.repeat(setting.sets, 1))
        self.register_buffer("floor", torch.tensor([codec.floor for codec in codecs]), persistent=False)  # (S,)
        self.tails = HeavyTails(codecs)

    def forward(self, h: Tensor, rows: Rows) -> HeavyTailed:
        """(n, D) -> a mixture for each row."""
        logits, mean, std = self.linear(h, rows.counts).float().chunk(3, dim=1)  # (n, K) each
        mixture = Mixture(logits, mean, F.softplus(std) + self.floor[rows.slot, None])
        tailed: HeavyTailed = self.tails(mixture, rows.slot)
        return tailed


class SquareHead(Readout):
    """One Gaussian of unit variance: its loss is the squared error of the code, however far out; so it has no tail."""

    def __init__(self, codecs: Sequence[NumberCodec], setting: Setting) -> None:
        super().__init__()
        self.linear = GroupedLinear(setting.sets, setting.width, 1)

    def forward(self, h: Tensor, rows: Rows) -> Mixture:
        """(n, D) -> a Gaussian for each row."""
        mean = self.linear(h, rows.counts).float()  # (n, 1)
        return Mixture(torch.zeros_like(mean), mean, torch.ones_like(mean))


class BinnedHead(Readout):
    """A mass for each bin: at the start about the share of the training values in it."""

    def __init__(self, codecs: Sequence[NumberCodec], setting: Setting) -> None:
        super().__init__()
        self.bins, self.tails = Bins(codecs), HeavyTails(codecs)
        self.linear = GroupedLinear(setting.sets, setting.width, TAILS + self.bins.count)

    def forward(self, h: Tensor, rows: Rows) -> HeavyTailed:
        """(n, D) -> a density for each row."""
        bins, slot = self.bins, rows.slot
        logits = self.linear(h, rows.counts).float() + bins.prior[slot]  # (n, 2 + B)
        binned = Binned(logits, bins.edges[slot], bins.inverse_width[slot], bins.tail[slot])
        tailed: HeavyTailed = self.tails(binned, slot)
        return tailed


HEADS: dict[str, type[nn.Module]] = {"mixture": MixtureHead, "mse": SquareHead, "binned": BinnedHead}


class AtomHead(Readout):
    """The masses of the density and of each atom: at the start about their shares of the training values."""

    prior: Tensor

    def __init__(self, codecs: Sequence[NumberCodec], setting: Setting) -> None:
        super().__init__()
        atoms = max((len(codec.atoms) for codec in codecs), default=0)
        shares = [[max(1 - sum(codec.shares), 0) + 1 / (codec.count + 1), *codec.shares] for codec in codecs]
        prior = padded(shares, fill=0.0).log().clamp(min=LOG_ZERO)  # (S, 1 + A)
        self.register_buffer("prior", prior.float(), persistent=False)
        self.linear = GroupedLinear(setting.sets, setting.width, 1 + atoms) if atoms else None

    def forward(self, h: Tensor, rows: Rows) -> Tensor:
        """(n, D) -> (n, 1 + A) the log masses of the density and of each atom; 0 alone where no property has atoms."""
        if self.linear is None:
            return torch.zeros(len(h), 1, device=h.device)
        shares: Tensor = self.linear(h, rows.counts).float() + self.prior[rows.slot]
        return shares.log_softmax(1)


class PointHead(Readout):
    """A point estimate: at the start about the mean of the training values."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, codecs: Sequence[NumberCodec], setting: Setting) -> None:
        super().__init__()
        self.weight = setting.config.point
        self.linear = GroupedLinear(setting.sets, setting.width, 1)
        moments = torch.tensor([codec.moments for codec in codecs], dtype=torch.float64).view(-1, 2)
        self.register_buffer("mean", moments[:, 0], persistent=False)  # (S,)
        self.register_buffer("deviation", moments[:, 1], persistent=False)  # (S,)

    def forward(self, h: Tensor, rows: Rows) -> PointEstimates:
        """(n, D) -> a number for each row"""
        place = self.linear(h, rows.counts).float()[:, 0]
        return PointEstimates(place, self.mean[rows.slot], self.deviation[rows.slot], self.weight)


class NumberDecoder(nn.Module):
    """One module for all number properties; each group of them has its own weights."""

    def __init__(self, codecs: Sequence[NumberCodec], setting: Setting) -> None:
        super().__init__()
        self.tables = CodecTables(codecs)
        self.blocks = residual_blocks(setting)
        self.curve = HEADS[setting.config.belief](codecs, setting)
        self.atoms = AtomHead(codecs, setting)
        self.point = PointHead(codecs, setting) if setting.config.point else None

    def forward(self, h: Tensor, rows: Rows) -> NumberBelief:
        """(n, D) -> beliefs about the number of each row."""
        h = h + rows.path
        for block in self.blocks:
            h = block(h, rows.counts)
        points = self.point(h, rows) if self.point is not None else None
        return NumberBelief(self.curve(h, rows), self.atoms(h, rows), rows.slot, self.tables, points)
