"""Layers that leaves and network share. Weights of many properties are stacked, and rows come sorted by group.

    counts    how many of the rows belong to each group, in order: `x.split(counts)` has each group's rows

G groups   n rows   D width
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.rng import thread_generator


def stacked(groups: int, out: int, fan_in: int) -> nn.Parameter:
    """The weights of one linear map per group (G, out, in), each drawn as torch draws its own."""
    bound = 1 / math.sqrt(fan_in)
    return nn.Parameter(torch.empty(groups, out, fan_in).uniform_(-bound, bound))


SCORED = "scored"  # marks a table that vectors are scored against: a map out of the width, to muP


def looked_up(rows: int, width: int) -> nn.Parameter:
    """A table of vectors (rows, D) that rows are taken from."""
    return nn.Parameter(torch.randn(rows, width))


def scored(rows: int, width: int) -> nn.Parameter:
    """A table of vectors (rows, D) that others are scored against, drawn as the weights of a linear map."""
    table = nn.Parameter(stacked(1, rows, width).detach()[0])
    setattr(table, SCORED, True)
    return table


def attention_scale(width: int, heads: int, base: int) -> float:
    """What attention's scores are multiplied by: 1 / d for muP; at the base width 1 / sqrt(d), as usual."""
    return float((base / heads) ** 0.5 / (width / heads))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.linear`, in halves on a CPU over as many rows as stand on a grid, so that few numbers of rows ever occur.

    oneDNN makes its code anew for each number of rows, and no two steps have the same: that took longer than the product.
    """
    rows = math.prod(x.shape[:-1])
    more = -rows % _coarse(rows) if x.device.type == "cpu" and torch.is_autocast_enabled("cpu") else 0
    if not more:
        return F.linear(x, weight, bias)
    padded = F.pad(x.reshape(rows, x.shape[-1]), (0, 0, 0, more))
    return F.linear(padded, weight, bias)[:rows].view(*x.shape[:-1], -1)


def _coarse(rows: int) -> int:
    """How far apart numbers of rows on the grid are: an eighth to a sixteenth of them, and a power of two."""
    return int(max(32, 1 << max(rows.bit_length() - 4, 0)))


class Linear(nn.Linear):
    """A linear map of rows, by `linear`."""

    def forward(self, input: Tensor) -> Tensor:
        """(..., in) -> (..., out)"""
        return linear(input, self.weight, self.bias)


class GroupedLinear(nn.Module):
    """One linear map per group of rows."""

    def __init__(self, groups: int, fan_in: int, out: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = stacked(groups, out, fan_in)  # (G, out, in)
        self.bias = nn.Parameter(torch.zeros(groups, out)) if bias else None

    def forward(self, x: Tensor, counts: Sequence[int]) -> Tensor:
        """(n, in) -> (n, out); one product per slice is faster on a CPU than a padded bmm."""
        if len(counts) == 1:
            return linear(x, self.weight[0], None if self.bias is None else self.bias[0])
        weights, biases = self.weight.unbind(), self.biases()
        rows = zip(x.split(list(counts)), weights, biases, strict=True)
        return torch.cat([linear(part, weight, bias) for part, weight, bias in rows])

    def biases(self) -> Sequence[Tensor | None]:
        """One for each group."""
        return [None] * len(self.weight) if self.bias is None else self.bias.unbind()


class Readout(nn.Module):
    """The last map of a decoder: from what the network makes of a query to the parameters of a belief."""

    multiplied: ClassVar[tuple[str, ...]] = ("linear.weight",)  # the parameters that vectors are multiplied with

    @torch.no_grad()
    def silence(self) -> None:
        """Set them to 0: then a slot's belief is always the same."""
        for name, parameter in self.named_parameters():
            if name in self.multiplied:
                parameter.zero_()


class GLUBlock(nn.Module):
    """The paper's residual block, one per group: widen, gate, narrow, gate, add, normalise."""

    def __init__(self, groups: int, width: int, hidden: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        hidden = hidden or 4 * width
        self.widen = GroupedLinear(groups, width, 2 * hidden)
        self.narrow = GroupedLinear(groups, hidden, 2 * width)
        self.gain = nn.Parameter(torch.ones(groups, width))
        self.shift = nn.Parameter(torch.zeros(groups, width))
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, counts: Sequence[int]) -> Tensor:
        """(n, D) -> (n, D); a group's rows go through the whole block while they are in the cache."""
        parts = (
            self._one(part, *weights)
            for part, *weights in zip(x.split(list(counts)), *(each.unbind() for each in self._weights()), strict=True)
            if len(part)
        )
        return torch.cat([*parts, x[:0]])

    def _weights(self) -> tuple[Tensor, ...]:
        assert self.widen.bias is not None
        assert self.narrow.bias is not None
        return self.widen.weight, self.widen.bias, self.narrow.weight, self.narrow.bias, self.gain, self.shift

    def _one(
        self, x: Tensor, widen: Tensor, bias: Tensor, narrow: Tensor, offset: Tensor, gain: Tensor, shift: Tensor
    ) -> Tensor:
        h = F.glu(linear(x, widen, bias))  # (n, f)
        h = F.glu(linear(h, narrow, offset))  # (n, D)
        return F.layer_norm(x + self.dropout(h), gain.shape, gain, shift)


class Dropout(nn.Module):
    """Zeroes a share of what passes while training, to a 256th: one random byte an entry costs a quarter of a float."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.cut = round(share * 256)
        if not 0 <= self.cut < 256:
            raise ValueError(f"expected a share to drop from 0 to below 1, got {share}")

    def forward(self, x: Tensor) -> Tensor:
        """As it came, or thinned and scaled up."""
        if not self.training or self.cut == 0:
            return x
        words = torch.randint(-(2**63), 2**63 - 1, (-(-x.numel() // 8),), generator=thread_generator(), device=x.device)
        kept = words.view(torch.uint8)[: x.numel()].view(x.shape) >= self.cut
        return x * kept * (256 / (256 - self.cut))
