"""A mixture of Gaussians over codes.

    DIFF(paper): log_prob is the mass of one step of the resolution, not the density, so no value repeated drives it
    without bound (tests/leaves/test_number_beliefs.py); sigma has a floor of a quarter of a step besides.

n rows   K components   m points of each row
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from kbdisk.leaves.number.normal import log_mass

SPAN = 39.0  # in standard deviations: float64's normal distribution ends there
CELLS = 2**17  # rows x points x components at once: what fits the cache is fastest
CLIMBS = 4  # steps of mean shift from a component's mean towards a mode of the mixture
PEAKS = 8  # components from which a mode is sought
GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Mixture:
    """K weighted Gaussians per row, in float32."""

    logits: Tensor  # (n, K)
    mean: Tensor
    std: Tensor

    def log_mass(self, codes: Tensor) -> Tensor:
        """(n,) of the step that each code (n, 4) has around it."""
        return log_mass(self.logits, self.mean, self.std, codes)

    def cdf(self, z: Tensor) -> Tensor:
        """The mass below each code z (n, m), in float64."""
        return self._sum(z, lambda t, std: torch.special.ndtr(t))

    def density(self, z: Tensor) -> Tensor:
        """(n, m), per unit of code."""
        return self._sum(z, lambda t, std: _phi(t) / std)

    def shortfall(self, z: Tensor) -> Tensor:
        """E[max(z - Z, 0)], the integral of the cdf (n, m): all that a mean over a piecewise linear map needs."""
        return self._sum(z, lambda t, std: std * (t * torch.special.ndtr(t) + _phi(t)))

    def mean_code(self) -> Tensor:
        """(n,) in code."""
        return (self.logits.double().softmax(1) * self.mean.double()).sum(1)

    def _sum(self, z: Tensor, term: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """The weighted sum over components of a function of (z - mean) / std, (n, m)."""
        rows = max(1, CELLS // max(1, z.shape[1] * self.mean.shape[1]))
        every = torch.split(torch.arange(len(z), device=z.device), rows)
        return torch.cat([_some(z[some], self.pick(some), term) for some in every])

    def span(self) -> tuple[Tensor, Tensor]:
        """Codes (n,) between which all of the mass is."""
        reach = SPAN * self.std.double()
        return (self.mean - reach).amin(1), (self.mean + reach).amax(1)

    def sharpened(self, temperature: float) -> Mixture:
        """Components of weight ** (1 / temperature), narrower by its root."""
        return Mixture(self.logits / temperature, self.mean, self.std * math.sqrt(temperature))

    def draw(self, generator: torch.Generator | None) -> Tensor:
        """A code z (n,) of each."""
        shares = self.logits.softmax(1).cumsum(1)  # (n, K)
        uniform = torch.rand(len(shares), 1, generator=generator, device=shares.device)
        noise = torch.randn(len(shares), 1, generator=generator, device=shares.device)
        return self._at(shares, uniform, noise).squeeze(1)

    def _at(self, shares: Tensor, level: Tensor, noise: Tensor) -> Tensor:
        """Codes (n, m) at levels of the components' cumulated shares, so many deviations from their means."""
        component = torch.searchsorted(shares, level.contiguous()).clamp(max=shares.shape[1] - 1)  # (n, m)
        return (self.mean.gather(1, component) + noise * self.std.gather(1, component)).double()

    def nodes(self, level: Tensor) -> Tensor:
        """Codes (n, m) that stand for the distribution: the average over them is near to the expectation."""
        noise = torch.special.ndtri((torch.arange(level.shape[1], device=level.device) + 0.5) * GOLDEN % 1)
        return self._at(self.logits.softmax(1).cumsum(1), level.float(), noise.expand(level.shape))

    def peaks(self, knots: Tensor) -> Tensor:
        """Codes (n, m) near to the likeliest: uphill from the highest components, and between the knots (n, P)."""
        many = min(PEAKS, self.mean.shape[1])
        best = (self.logits - self.std.log()).topk(many, dim=1).indices
        z = self.mean.gather(1, best)  # (n, m)
        means = z.double()
        for _ in range(CLIMBS):
            pull = self.logits - self.std.log()
            near = (pull[:, None] - ((z[:, :, None] - self.mean[:, None]) / self.std[:, None]).square() / 2).softmax(2)
            near = near / self.std[:, None].square()
            z = (near * self.mean[:, None]).sum(2) / near.sum(2)
        return torch.cat([means, z.double(), (knots[:, 1:] + knots[:, :-1]) / 2], dim=1)

    def pick(self, rows: Tensor) -> Mixture:
        """Some of the rows."""
        return Mixture(self.logits[rows], self.mean[rows], self.std[rows])


def _some(z: Tensor, mixture: Mixture, term: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    mean, std = mixture.mean.double()[:, None], mixture.std.double()[:, None]  # (n, 1, K)
    terms = term((z[:, :, None] - mean) / std, std)  # (n, m, K)
    return torch.matmul(terms, mixture.logits.double().softmax(1)[:, :, None]).squeeze(2)


def _phi(t: Tensor) -> Tensor:
    return torch.exp(-t * t / 2) / math.sqrt(2 * math.pi)
