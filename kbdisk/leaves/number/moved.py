"""A curve over codes, moved along them.

n rows   m points of each row
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kbdisk.leaves.number.curve import Curve


@dataclass(frozen=True)
class Moved:
    """What lay at z is at z + distance."""

    curve: Curve
    distance: Tensor  # (n,) float64, in code

    def log_mass(self, codes: Tensor) -> Tensor:
        """(n,) of the step that each code (n, 4) has around it."""
        place = codes[:, :1] - self.distance[:, None]
        return self.curve.log_mass(torch.cat([place.to(codes.dtype), codes[:, 1:]], 1))

    def cdf(self, z: Tensor) -> Tensor:
        """The mass below each code z (n, m), in float64."""
        return self.curve.cdf(self._back(z))

    def density(self, z: Tensor) -> Tensor:
        """(n, m), per unit of code."""
        return self.curve.density(self._back(z))

    def shortfall(self, z: Tensor) -> Tensor:
        """E[max(z - Z, 0)], the integral of the cdf (n, m)."""
        return self.curve.shortfall(self._back(z))

    def mean_code(self) -> Tensor:
        """(n,) in code."""
        return self.curve.mean_code() + self.distance

    def span(self) -> tuple[Tensor, Tensor]:
        """Codes (n,) between which all of the mass is."""
        low, high = self.curve.span()
        return low + self.distance, high + self.distance

    def sharpened(self, temperature: float) -> Moved:
        """The curve sharpened, as far away."""
        return Moved(self.curve.sharpened(temperature), self.distance)

    def draw(self, generator: torch.Generator | None) -> Tensor:
        """A code z (n,) of each."""
        return self.curve.draw(generator) + self.distance

    def nodes(self, level: Tensor) -> Tensor:
        """Codes (n, m) that stand for the distribution."""
        return self.curve.nodes(level) + self.distance[:, None]

    def peaks(self, knots: Tensor) -> Tensor:
        """Codes (n, m) near to the likeliest."""
        return self.curve.peaks(self._back(knots)) + self.distance[:, None]

    def pick(self, rows: Tensor) -> Moved:
        """Some of the rows."""
        return Moved(self.curve.pick(rows), self.distance[rows])

    def _back(self, z: Tensor) -> Tensor:
        """Where in the curve codes (n, m) are."""
        return z - self.distance[:, None]
