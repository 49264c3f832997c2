"""The units in which boosted trees learn numbers: CatBoost keeps 32 bits of each, in which 1,700,000,001 is 1,700,000,000."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LARGEST = 1e30  # a deviation in whose units leaves still have 32 bits
DECADE = 10.0  # times the 5th percentile, beyond which the 95th makes positive numbers skewed
BEYOND = 700.0  # no logarithm is larger than that of a float


def is_skewed(numbers: Sequence[float]) -> bool:
    """Whether numbers are positive and spread over more than a decade: they are told apart by their logarithms."""
    ordered = sorted(numbers)
    low, high = (ordered[round(q * (len(ordered) - 1))] for q in (0.05, 0.95))
    return ordered[0] > 0 and high > DECADE * low


@dataclass(frozen=True)
class Units:
    """Deviations from a mean; of numbers themselves, or of their logarithms."""

    mean: float
    deviation: float
    least: float = 0.0  # of logarithms: the least number, as which any below it counts; 0: of numbers themselves

    @classmethod
    def of(cls, numbers: Sequence[float] | NDArray[np.float64], least: float = 0.0) -> Units | None:
        """Those of some numbers; None where nothing can be learnt of them: all are the same, or some beyond all measure."""
        every = np.asarray(numbers, dtype=np.float64)
        every = np.log(every.clip(min=least)) if least else every
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(every.mean())
            deviation = float((every - mean).std())
        return cls(mean, deviation, least) if 0 < deviation < LARGEST and every.min() < every.max() else None

    @classmethod
    def fitting(cls, numbers: Sequence[float]) -> Units | None:
        """The same, of logarithms where numbers are skewed."""
        return cls.of(numbers, min(numbers) if is_skewed(numbers) else 0.0)

    def told(self, numbers: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers in these units."""
        every = np.asarray(numbers, dtype=np.float64)
        return ((np.log(every.clip(min=self.least)) if self.least else every) - self.mean) / self.deviation

    def back(self, told: NDArray[np.float64]) -> NDArray[np.float64]:
        """What such numbers are in their own."""
        found = told * self.deviation + self.mean
        return np.exp(found.clip(max=BEYOND)) if self.least else found
