"""Layers that the kinds of leaf and the network share: grouped linear maps, residual GLU blocks, dropout, tables.

The weights of many properties are stacked, and rows come sorted by group. `counts` says how many of the rows belong to
each group, in order: `x.split(counts)` has the rows of each group.

G groups   n rows   D width   f hidden width
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.leaves.base import Setting
from kbdisk.rng import thread_generator

IS_SCORED = "scored"  # the attribute that marks tables of `score_table`, for muP


def stacked_weights(groups: int, out: int, fan_in: int) -> nn.Parameter:
    """The weights (G, out, in) of one linear map per group, each initialised as torch initialises `nn.Linear`."""
    bound = 1 / math.sqrt(fan_in)
    return nn.Parameter(torch.empty(groups, out, fan_in).uniform_(-bound, bound))


def lookup_table(rows: int, width: int) -> nn.Parameter:
    """A table of vectors (rows, D) that are looked up by their number."""
    return nn.Parameter(torch.randn(rows, width))


def score_table(rows: int, width: int) -> nn.Parameter:
    """A table of vectors (rows, D) that others are scored against: to muP a map out of the width, and initialised as such."""
    table = nn.Parameter(stacked_weights(1, rows, width).detach()[0])
    setattr(table, IS_SCORED, True)
    return table


def attention_scale(width: int, heads: int, base: int) -> float:
    """The factor of attention scores: 1 / d, as muP has it, and 1 / sqrt(d) at the base width."""
    return float((base / heads) ** 0.5 / (width / heads))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.linear`; in half precision on a CPU the number of rows is padded to a grid, so that few numbers ever occur.

    oneDNN compiles a kernel for each number of rows, and hardly two steps have the same: that took longer than the product.
    """
    rows = math.prod(x.shape[:-1])
    padding = -rows % _row_grid(rows) if x.device.type == "cpu" and torch.is_autocast_enabled("cpu") else 0
    if not padding:
        return F.linear(x, weight, bias)
    padded = F.pad(x.reshape(rows, x.shape[-1]), (0, 0, 0, padding))
    return F.linear(padded, weight, bias)[:rows].view(*x.shape[:-1], -1)


def _row_grid(rows: int) -> int:
    """The distance of neighbours on the grid: a power of two, and an eighth to a sixteenth of the number of rows."""
    return int(max(32, 1 << max(rows.bit_length() - 4, 0)))


class Linear(nn.Linear):
    """A linear map of rows, by `linear`."""

    def forward(self, input: Tensor) -> Tensor:
        """(..., in) -> (..., out)"""
        return linear(input, self.weight, self.bias)


class AttentionMaps(nn.Module):
    """The learnt maps of a transformer layer: those of its attention, then those of its two-layer perceptron."""

    def __init__(self, width: int, heads: int, hidden: int, scale: float) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(width)
        self.query = Linear(width, width)
        self.key_value = Linear(width, 2 * width)
        self.mix = Linear(width, width)
        self.before_map = nn.LayerNorm(width)
        self.widen = Linear(width, hidden)
        self.narrow = Linear(hidden, width)
        self.heads, self.scale = heads, scale


class GroupedLinear(nn.Module):
    """One linear map per group of rows."""

    def __init__(self, groups: int, fan_in: int, out: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = stacked_weights(groups, out, fan_in)  # (G, out, in)
        self.bias = nn.Parameter(torch.zeros(groups, out)) if bias else None

    def forward(self, x: Tensor, counts: Sequence[int]) -> Tensor:
        """(n, in) -> (n, out); one product per slice is faster on a CPU than a padded bmm."""
        if len(counts) == 1:
            return linear(x, self.weight[0], None if self.bias is None else self.bias[0])
        weights, biases = self.weight.unbind(), self.biases()
        groups = zip(x.split(list(counts)), weights, biases, strict=True)
        return torch.cat([linear(rows, weight, bias) for rows, weight, bias in groups])

    def biases(self) -> Sequence[Tensor | None]:
        """(out,) for each group, or None."""
        return [None] * len(self.weight) if self.bias is None else self.bias.unbind()


class Readout(nn.Module):
    """The last map of a decoder: from the network's output for a query to the parameters of a belief."""

    weight_names: ClassVar[tuple[str, ...]] = ("linear.weight",)  # the parameters that vectors are multiplied with

    @torch.no_grad()
    def zero_weights(self) -> None:
        """Set these parameters to 0, so that the belief about a slot no longer depends on the vector."""
        for parameter in self._weights():
            parameter.zero_()

    def has_zero_weights(self) -> bool:
        """Whether the belief about a slot does not depend on the vector."""
        return not any(bool(parameter.any()) for parameter in self._weights())

    def _weights(self) -> Iterator[nn.Parameter]:
        return (parameter for name, parameter in self.named_parameters() if name in self.weight_names)


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
        """(n, D) -> (n, D); the rows of a group pass the whole block while they are in the cache."""
        parameters = zip(*(parameter.unbind() for parameter in self._parameters_by_group()), strict=True)
        outputs = (
            self._forward_group(rows, *group_parameters)
            for rows, group_parameters in zip(x.split(list(counts)), parameters, strict=True)
            if len(rows)
        )
        return torch.cat([*outputs, x[:0]])

    def _parameters_by_group(self) -> tuple[Tensor, ...]:
        assert self.widen.bias is not None
        assert self.narrow.bias is not None
        return self.widen.weight, self.widen.bias, self.narrow.weight, self.narrow.bias, self.gain, self.shift

    def _forward_group(
        self, x: Tensor, widen: Tensor, bias: Tensor, narrow: Tensor, offset: Tensor, gain: Tensor, shift: Tensor
    ) -> Tensor:
        h = F.glu(linear(x, widen, bias))  # (n, f)
        h = F.glu(linear(h, narrow, offset))  # (n, D)
        return F.layer_norm(x + self.dropout(h), gain.shape, gain, shift)


def residual_blocks(setting: Setting) -> nn.ModuleList:
    """The residual blocks of an encoder or a decoder."""
    blocks = (GLUBlock(setting.sets, setting.width, dropout=setting.dropout) for _ in range(setting.blocks))
    return nn.ModuleList(blocks)


class Dropout(nn.Module):
    """Dropout whose probability is a multiple of 1 / 256: a random byte an entry costs a quarter of a random float."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.threshold = round(share * 256)
        if not 0 <= self.threshold < 256:
            raise ValueError(f"expected a share to drop from 0 to below 1, got {share}")

    def forward(self, x: Tensor) -> Tensor:
        """The input as it is, or while training with entries zeroed and the others scaled up."""
        if not self.training or self.threshold == 0:
            return x
        words = torch.randint(-(2**63), 2**63 - 1, (-(-x.numel() // 8),), generator=thread_generator(), device=x.device)
        kept = words.view(torch.uint8)[: x.numel()].view(x.shape) >= self.threshold
        return x * kept * (256 / (256 - self.threshold))
