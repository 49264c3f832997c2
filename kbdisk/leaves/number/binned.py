"""A density over codes that is level within each of B bins, and falls exponentially below the first and above the last.

Every number has mass, however far out. The share of a bin that a step covers does not depend on what is believed, so
log_mass is a difference of two logsumexps, and its gradient is as tame as a category's.

n rows   B bins, of which the two tails come first: (below, above, bins...)   m points of each row
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from kbdisk.leaves.number.codec import NumberCodec
from kbdisk.leaves.number.normal import normalised
from kbdisk.leaves.number.tables import padded

TAIL = 0.1  # of the bins' whole length: how far a tail takes to fall to 1 / e
NEVER = -1e30  # the log of what is not there
SPAN = 740.0  # in lengths of a tail: float64's exponential ends there
TINY = 1e-320
SLIGHT = 1e-3  # of a tail's length, out into it
TAILS = 2


class Bins(nn.Module):
    """Where each slot's bins are, and which share of the training values they have. All of it is in the codecs."""

    edges: Tensor
    steep: Tensor
    tail: Tensor
    prior: Tensor

    def __init__(self, codecs: Sequence[NumberCodec]) -> None:
        super().__init__()
        self.count = max((len(codec.weights) for codec in codecs), default=1)
        tail = [TAIL * (codec.edges[-1] - codec.edges[0]) for codec in codecs]
        shares = [[0.5 / (codec.count + 1)] * TAILS + list(codec.weights) for codec in codecs]
        edges = padded([codec.edges for codec in codecs]).float()  # (S, B + 1)
        widths = edges.diff(dim=1)
        self.register_buffer("edges", edges, persistent=False)
        self.register_buffer("steep", torch.where(widths > 0, 1 / widths, 0), persistent=False)  # (S, B)
        self.register_buffer("tail", torch.tensor(tail, dtype=torch.float64), persistent=False)  # (S,)
        prior = padded(shares, fill=0.0).log().clamp(min=NEVER)  # (S, 2 + B)
        self.register_buffer("prior", prior.float(), persistent=False)


class LogShare(torch.autograd.Function):
    """logsumexp(logits + parts) - logsumexp(logits) (n,): by autograd it has twice the exponentials."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, parts: Tensor) -> Any:
        share, total = normalised(logits + parts)
        weight, every = normalised(logits)
        ctx.save_for_backward(share.sub_(weight))
        return total - every

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        (by,) = ctx.saved_tensors
        return grad[:, None] * by, None


@dataclass(frozen=True)
class Binned:
    """A mass for each bin and for the tails of each row."""

    logits: Tensor  # (n, 2 + B), where there is no bin hugely negative
    edges: Tensor  # (n, B + 1) float32, ascending, the last one repeated where there are fewer
    steep: Tensor  # (n, B) 1 / width of each bin, or 0
    tail: Tensor  # (n,) float64

    def log_mass(self, codes: Tensor) -> Tensor:
        """(n,) of the step that each code (n, 4) has around it."""
        mass: Tensor = LogShare.apply(self.logits, self._covered(codes))  # type: ignore[no-untyped-call]
        return mass

    @torch.no_grad()
    def _covered(self, codes: Tensor) -> Tensor:
        """The log of the share of each bin that a step covers (n, 2 + B).

        All is seen from z, so the parts of a step add up to the whole however narrow it is.
        """
        z, below, above = codes[:, :3, None].unbind(1)  # (n, 1) each
        away = self.edges - z  # (n, B + 1)
        covered = torch.empty_like(self.logits)
        inner = torch.minimum(above, away[:, 1:], out=covered[:, TAILS:])
        inner.sub_(torch.maximum(-below, away[:, :-1])).mul_(self.steep).clamp_(0, 1).log_().clamp_(min=NEVER)
        first, last, below, above = (one.double() for one in (away[:, :1], away[:, -1:], below, above))
        covered[:, :1] = self._tail(first - torch.minimum(above, first), torch.minimum(below + above, first + below))
        covered[:, 1:TAILS] = self._tail(torch.maximum(-below, last) - last, torch.minimum(below + above, above - last))
        return covered

    def _tail(self, away: Tensor, length: Tensor) -> Tensor:
        """The log of the share of a tail (n, 1) that begins so far away from its bin and goes on so long."""
        fallen = torch.log(-torch.expm1(-length.clamp(min=0) / self.tail[:, None]))
        return (fallen - away / self.tail[:, None]).clamp_(min=NEVER)

    @property
    def places(self) -> Tensor:
        """The edges (n, B + 1) in float64."""
        return self.edges.double()

    @property
    def widths(self) -> Tensor:
        """Of the bins (n, B) in float64, 0 where there is none."""
        return self.places.diff(dim=1)

    def _levels(self, bins: Tensor) -> Tensor:
        return bins / self.widths.clamp(min=TINY)

    @property
    def masses(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of the lower tail (n, 1), of the bins (n, B) and of the upper tail (n, 1), in float64."""
        masses = self.logits.double().softmax(1)
        return masses[:, :1], masses[:, TAILS:], masses[:, 1:TAILS]

    def cdf(self, z: Tensor) -> Tensor:
        """The mass below each code z (n, m), in float64."""
        under, bins, over = self.masses
        left, right, bin, into = self._place(z)
        inner = _before(bins).gather(1, bin) + self._levels(bins).gather(1, bin) * into
        return under * left.exp() + inner - over * torch.expm1(right)

    def density(self, z: Tensor) -> Tensor:
        """(n, m), per unit of code."""
        under, bins, over = self.masses
        left, right, bin, _ = self._place(z)
        tails = (under * left.exp() * (left < 0) + over * right.exp() * (right < 0)) / self.tail[:, None]
        return tails + self._levels(bins).gather(1, bin) * ((left == 0) & (right == 0))

    def shortfall(self, z: Tensor) -> Tensor:
        """E[max(z - Z, 0)], the integral of the cdf (n, m): all that a mean over a piecewise linear map needs."""
        under, bins, over = self.masses
        left, right, bin, into = self._place(z)
        tail, start = self.tail[:, None], _before(bins)
        whole = _before((start + bins / 2) * self.widths).gather(1, bin)
        inner = whole + start.gather(1, bin) * into + self._levels(bins).gather(1, bin) * into.square() / 2
        low, high = (z - self.places[:, :1]).clamp(min=0), -right * tail  # how far beyond the first and the last edge
        return (
            under * (tail * left.exp() + low)
            + inner
            + bins.sum(1, True) * high
            + over * (high + tail * torch.expm1(right))
        )

    def _place(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """By how many lengths codes (n, m) are out in the lower and the upper tail (0 or less); their bin; how far in."""
        first, last = self.places[:, :1], self.places[:, -1:]
        left, right = (z - first).clamp(max=0), (last - z).clamp(max=0)
        inside = torch.minimum(torch.maximum(z, first), last).contiguous()
        bin = (torch.searchsorted(self.places, inside, right=True) - 1).clamp(0, self.places.shape[1] - 2)
        return left / self.tail[:, None], right / self.tail[:, None], bin, inside - self.places.gather(1, bin)

    def mean_code(self) -> Tensor:
        """(n,) in code."""
        under, bins, over = self.masses
        tails = under * (self.places[:, :1] - self.tail[:, None]) + over * (self.places[:, -1:] + self.tail[:, None])
        return tails.squeeze(1) + (bins * (self.places[:, 1:] + self.places[:, :-1]) / 2).sum(1)

    def span(self) -> tuple[Tensor, Tensor]:
        """Codes (n,) between which all of the mass is."""
        return self.places[:, 0] - SPAN * self.tail, self.places[:, -1] + SPAN * self.tail

    def sharpened(self, temperature: float) -> Binned:
        """The density ** (1 / temperature)."""
        was = torch.cat([self.tail[:, None]] * TAILS + [self.widths.clamp(min=1e-9)], dim=1)
        logits = self.logits / temperature + (was.log() * (1 - 1 / temperature)).float()
        logits[:, :TAILS] += math.log(temperature)  # the tails get shorter
        return Binned(logits, self.edges, self.steep, self.tail * temperature)

    def draw(self, generator: torch.Generator | None) -> Tensor:
        """A code z (n,) of each."""
        level = torch.rand(len(self.logits), 1, generator=generator, device=self.logits.device)
        return self._inverse(level.double()).squeeze(1)

    def nodes(self, level: Tensor) -> Tensor:
        """Codes (n, m) that stand for the distribution: the average over them is near to the expectation."""
        return self._inverse(level)

    def _inverse(self, level: Tensor) -> Tensor:
        """The codes (n, m) below which so much of the mass is, in (0, 1)."""
        under, bins, over = self.masses
        ends = torch.cat([under, under + bins.cumsum(1)], dim=1)  # (n, B + 1) the mass below each edge
        bin = (torch.searchsorted(ends, level.contiguous()) - 1).clamp(0, bins.shape[1] - 1)
        into = ((level - ends.gather(1, bin)) / bins.gather(1, bin).clamp(min=TINY)).clamp(0, 1)
        inner = self.places.gather(1, bin) + into * self.widths.gather(1, bin)
        tail = self.tail[:, None]
        left = tail * (level.clamp(min=TINY) / under.clamp(min=TINY)).log().clamp(-SPAN, 0)
        right = tail * ((1 - level).clamp(min=TINY) / over.clamp(min=TINY)).log().clamp(-SPAN, 0)
        return inner + left - right

    def peaks(self, knots: Tensor) -> Tensor:
        """Codes (n, m) among which the likeliest is: the middles between all edges and knots, and where tails begin."""
        places = torch.cat([self.places, knots], dim=1).sort(dim=1).values
        out = SLIGHT * self.tail[:, None]
        return torch.cat([(places[:, 1:] + places[:, :-1]) / 2, places[:, :1] - out, places[:, -1:] + out], dim=1)

    def pick(self, rows: Tensor) -> Binned:
        """Some of the rows."""
        return Binned(self.logits[rows], self.edges[rows], self.steep[rows], self.tail[rows])


def _before(each: Tensor) -> Tensor:
    """(n, B) the sum of those before each."""
    return each.cumsum(1) - each
