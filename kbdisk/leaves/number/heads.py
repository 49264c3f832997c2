"""Vectors to what a curve over codes is made of: a mixture, one Gaussian of unit variance, or a binned density.

n rows   D width   K components   B bins   S slots
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.layers import GroupedLinear, Readout
from kbdisk.leaves.number.binned import TAILS, Binned, Bins
from kbdisk.leaves.number.codec import NumberCodec
from kbdisk.leaves.number.mixture import Mixture
from kbdisk.leaves.number.tailed import Tailed, Tails

NARROW = -0.43  # softplus takes it to 0.5: at the start the components overlap


class MixtureHead(Readout):
    """K Gaussians, at the start spread over the normal distribution, which most codes follow."""

    floor: Tensor

    def __init__(self, codecs: Sequence[NumberCodec], setting: Setting) -> None:
        super().__init__()
        self.count = setting.config.components
        self.linear = GroupedLinear(setting.sets, setting.width, 3 * self.count)
        spread = [NormalDist().inv_cdf((k + 0.5) / self.count) for k in range(self.count)]
        start = torch.tensor([0.0] * self.count + spread + [NARROW] * self.count)  # (3 K,)
        self.linear.bias = nn.Parameter(start.repeat(setting.sets, 1))
        self.register_buffer("floor", torch.tensor([codec.floor for codec in codecs]), persistent=False)  # (S,)
        self.tails = Tails(codecs)

    def forward(self, h: Tensor, rows: Rows) -> Tailed:
        """(n, D) -> a mixture for each row."""
        logits, mean, std = self.linear(h, rows.counts).float().chunk(3, dim=1)  # (n, K) each
        tailed: Tailed = self.tails(Mixture(logits, mean, F.softplus(std) + self.floor[rows.slot, None]), rows.slot)
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
        self.bins, self.tails = Bins(codecs), Tails(codecs)
        self.linear = GroupedLinear(setting.sets, setting.width, TAILS + self.bins.count)

    def forward(self, h: Tensor, rows: Rows) -> Tailed:
        """(n, D) -> a density for each row."""
        logits = self.linear(h, rows.counts).float() + self.bins.prior[rows.slot]  # (n, 2 + B)
        bins, slot = self.bins, rows.slot
        tailed: Tailed = self.tails(Binned(logits, bins.edges[slot], bins.steep[slot], bins.tail[slot]), slot)
        return tailed


HEADS: dict[str, type[nn.Module]] = {"mixture": MixtureHead, "mse": SquareHead, "binned": BinnedHead}
