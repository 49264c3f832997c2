"""A curve and, for a millionth of the mass, what it takes no account of: a heavy tail about all that was seen in training.

A Gaussian far out costs the square of the distance: one number a million spreads away would be a mean over all entities.
So a belief is (1 - SHARE) of its curve and SHARE of a Student distribution with two degrees of freedom, whose surprise
grows with the logarithm of the distance. It has a mean, and all of it in closed form: with t = (z - middle) / scale,

    cdf (1 + t / r) / 2     density 1 / r^3     E[max(z - Z, 0)] (t + r) / 2,     r = sqrt(2 + t^2)

    DIFF(paper): there log p is that of the Gaussians alone. The squared error (belief="mse") stays what it is called.

n rows   m points of each row   S slots
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from kbdisk.leaves.number.codec import NumberCodec
from kbdisk.leaves.number.curve import Curve

SHARE = 1e-6
SPAN = 3e5  # in scales: beyond is less of SHARE than float64 tells from nothing
SLIGHT = 1e-12  # of the tail's mass: no draw is from beyond
INFINITE = 1e100  # in scales; squares still fit
TINY = 1e-300  # of a share, whose log is taken


class Tails(nn.Module):
    """The middle of what each slot's training values are in code, and half of its width. All of it is in the codecs."""

    middle: Tensor
    scale: Tensor

    def __init__(self, codecs: Sequence[NumberCodec]) -> None:
        super().__init__()
        ends = torch.tensor([[one.edges[0], one.edges[-1]] for one in codecs], dtype=torch.float64).reshape(-1, 2)
        self.register_buffer("middle", ends.mean(1), persistent=False)  # (S,)
        self.register_buffer("scale", ends.diff(dim=1)[:, 0] / 2, persistent=False)

    def forward(self, curve: Curve, slot: Tensor) -> Tailed:
        """The curves of rows of these slots (n,), each with its tail."""
        return Tailed(curve, self.middle[slot], self.scale[slot])


@dataclass(frozen=True)
class Tailed:
    """A curve for each of n rows, and a tail for little of its mass."""

    curve: Curve
    middle: Tensor  # (n,) float64
    scale: Tensor  # (n,)
    share: float = SHARE

    def log_mass(self, codes: Tensor) -> Tensor:
        """(n,) of the step that each code (n, 4) has around it."""
        return torch.logaddexp(self.curve.log_mass(codes) + math.log1p(-self.share), self._floor(codes))

    @torch.no_grad()
    def _floor(self, codes: Tensor) -> Tensor:
        """The log of the tail's part (n,), which nothing that is learnt changes."""
        z, below, above = codes[:, :3].double().unbind(1)
        t = (z - self.middle) / self.scale
        low, high, width = t - below / self.scale, t + above / self.scale, (below + above) / self.scale
        r, s = _root(low), _root(high)
        aside = width * (low + high) / (low * s + high * r) / (r * s)  # of one sign: nothing cancels
        mass = torch.where(low * high > 0, aside, (high / s - low / r) / 2)
        return (mass.log() + math.log(self.share)).float()

    def cdf(self, z: Tensor) -> Tensor:
        """The mass below each code z (n, m), in float64."""
        t = self._out(z)
        return self._both(self.curve.cdf(z), (1 + t / _root(t)) / 2)

    def density(self, z: Tensor) -> Tensor:
        """(n, m), per unit of code."""
        return self._both(self.curve.density(z), _root(self._out(z)) ** -3 / self.scale[:, None])

    def shortfall(self, z: Tensor) -> Tensor:
        """E[max(z - Z, 0)], the integral of the cdf (n, m)."""
        t = self._out(z)
        tail = t.clamp(min=0) + 1 / (t.abs() + _root(t))  # (t + r) / 2, where t and r do not cancel
        return self._both(self.curve.shortfall(z), tail * self.scale[:, None])

    def mean_code(self) -> Tensor:
        """(n,) in code."""
        return self._both(self.curve.mean_code(), self.middle)

    def span(self) -> tuple[Tensor, Tensor]:
        """Codes (n,) between which all of the mass is."""
        low, high = self.curve.span()
        reach = SPAN * self.scale
        return torch.minimum(low, self.middle - reach), torch.maximum(high, self.middle + reach)

    def sharpened(self, temperature: float) -> Tailed:
        """The curve sharpened; the share of the tail to the power 1 / temperature, too."""
        tail, rest = self.share ** (1 / temperature), (1 - self.share) ** (1 / temperature)
        return replace(self, curve=self.curve.sharpened(temperature), share=max(tail / (tail + rest), TINY))

    def draw(self, generator: torch.Generator | None) -> Tensor:
        """A code z (n,) of each."""
        drawn = self.curve.draw(generator)
        level = torch.rand(len(drawn), dtype=torch.float64, generator=generator, device=drawn.device)
        even = (level / self.share).clamp(SLIGHT, 1 - SLIGHT)  # below the share it is even again
        tail = self.middle + self.scale * (2 * even - 1) / (2 * even * (1 - even)).sqrt()
        return torch.where(level < self.share, tail, drawn)

    def nodes(self, level: Tensor) -> Tensor:
        """Codes (n, m) that stand for the distribution: the curve's, since so few have no room for the tail."""
        return self.curve.nodes(level)

    def peaks(self, knots: Tensor) -> Tensor:
        """Codes (n, m) near to the likeliest: the curve's."""
        return self.curve.peaks(knots)

    def pick(self, rows: Tensor) -> Tailed:
        """Some of the rows."""
        return Tailed(self.curve.pick(rows), self.middle[rows], self.scale[rows], self.share)

    def _out(self, z: Tensor) -> Tensor:
        return ((z - self.middle[:, None]) / self.scale[:, None]).clamp(-INFINITE, INFINITE)

    def _both(self, curve: Tensor, tail: Tensor) -> Tensor:
        return torch.lerp(curve, tail, self.share)


def _root(t: Tensor) -> Tensor:
    return (2 + t * t).sqrt()
