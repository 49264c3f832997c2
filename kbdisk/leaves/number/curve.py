"""What the belief in a number is made of: a distribution over codes for each row.

n rows   m points of each row   P knots of the map
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Curve(Protocol):
    """A distribution over codes for each of n rows; all but log_mass in float64."""

    def log_mass(self, codes: Tensor) -> Tensor:
        """(n,) of the step that each code (n, 4) has around it; gradients flow."""

    def cdf(self, z: Tensor) -> Tensor:
        """The mass below each z (n, m)."""

    def density(self, z: Tensor) -> Tensor:
        """At each z (n, m)."""

    def shortfall(self, z: Tensor) -> Tensor:
        """E[max(z - Z, 0)] for each z (n, m): the integral of the cdf."""

    def mean_code(self) -> Tensor:
        """E[Z] (n,)."""

    def span(self) -> tuple[Tensor, Tensor]:
        """Between which codes (n,) all mass is."""

    def sharpened(self, temperature: float) -> Curve:
        """Itself to the power 1 / temperature, or something like it."""

    def draw(self, generator: torch.Generator | None) -> Tensor:
        """(n,) one z each."""

    def nodes(self, level: Tensor) -> Tensor:
        """(n, m) z that stand for the distribution, by levels (n, m) that are evenly spread and rise."""

    def peaks(self, knots: Tensor) -> Tensor:
        """(n, m) z where the density may be highest in original units, the map having its knots there (n, P)."""

    def pick(self, rows: Tensor) -> Curve:
        """Some of the rows."""
