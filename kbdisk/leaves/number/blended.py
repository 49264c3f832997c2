"""Two curves over codes as one, each with a share of the mass of every row.

n rows   m points of each row
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from kbdisk.leaves.number.curve import Curve

SLIGHT = 1e-9  # of a level, that no curve ends there
TINY = 1e-30  # of a share, whose log is taken


@dataclass(frozen=True)
class Blended:
    """What some of the mass of each of n rows is of, and what the rest."""

    some: Curve
    rest: Curve
    share: Tensor  # (n,) float64, of some

    def log_mass(self, codes: Tensor) -> Tensor:
        """(n,) of the step that each code (n, 4) has around it."""
        some, rest = (part.clamp(min=TINY).log().float() for part in (self.share, 1 - self.share))
        return torch.logaddexp(some + self.some.log_mass(codes), rest + self.rest.log_mass(codes))

    def cdf(self, z: Tensor) -> Tensor:
        """The mass below each code z (n, m), in float64."""
        return self._both(lambda curve: curve.cdf(z))

    def density(self, z: Tensor) -> Tensor:
        """(n, m), per unit of code."""
        return self._both(lambda curve: curve.density(z))

    def shortfall(self, z: Tensor) -> Tensor:
        """E[max(z - Z, 0)], the integral of the cdf (n, m)."""
        return self._both(lambda curve: curve.shortfall(z))

    def mean_code(self) -> Tensor:
        """(n,) in code."""
        return torch.lerp(self.rest.mean_code(), self.some.mean_code(), self.share)

    def span(self) -> tuple[Tensor, Tensor]:
        """Codes (n,) between which all of the mass is."""
        (low, high), (least, most) = self.some.span(), self.rest.span()
        return torch.minimum(low, least), torch.maximum(high, most)

    def sharpened(self, temperature: float) -> Blended:
        """Both sharpened, and what each has of the mass."""
        some, rest = self.share ** (1 / temperature), (1 - self.share) ** (1 / temperature)
        return Blended(
            self.some.sharpened(temperature), self.rest.sharpened(temperature), some / (some + rest).clamp(min=TINY)
        )

    def draw(self, generator: torch.Generator | None) -> Tensor:
        """A code z (n,) of each."""
        level = torch.rand(len(self.share), generator=generator, device=self.share.device)
        return torch.where(level < self.share, self.some.draw(generator), self.rest.draw(generator))

    def nodes(self, level: Tensor) -> Tensor:
        """Codes (n, m) that stand for the distribution: of each curve as many as it has of the mass."""
        share = self.share[:, None]
        some, rest = level / share.clamp(min=TINY), (level - share) / (1 - share).clamp(min=TINY)
        within = self.some.nodes(some.clamp(SLIGHT, 1 - SLIGHT))
        return torch.where(level < share, within, self.rest.nodes(rest.clamp(SLIGHT, 1 - SLIGHT)))

    def peaks(self, knots: Tensor) -> Tensor:
        """Codes (n, m) near to the likeliest of either."""
        return torch.cat([self.some.peaks(knots), self.rest.peaks(knots)], dim=1)

    def pick(self, rows: Tensor) -> Blended:
        """Some of the rows."""
        return Blended(self.some.pick(rows), self.rest.pick(rows), self.share[rows])

    def _both(self, ask: Callable[[Curve], Tensor]) -> Tensor:
        return torch.lerp(ask(self.rest), ask(self.some), self.share[:, None])
