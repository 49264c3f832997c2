"""The units in which boosted trees learn numbers: CatBoost keeps 32 bits of each, in which 1,700,000,001 is 1,700,000,000."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbdisk.leaves.number.codec import DECADE, LARGEST_LOG

LARGEST = 1e30  # a deviation in whose units leaves still have 32 bits


def is_skewed(numbers: Sequence[float]) -> bool:
    """Whether numbers are positive, and their 95th percentile is more than a decade above the 5th."""
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
        every = _scaled(numbers, least)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(every.mean())
            deviation = float((every - mean).std())
        return cls(mean, deviation, least) if 0 < deviation < LARGEST and every.min() < every.max() else None

    @classmethod
    def fitting(cls, numbers: Sequence[float]) -> Units | None:
        """Units of the logarithms where numbers are skewed, else of the numbers."""
        return cls.of(numbers, min(numbers) if is_skewed(numbers) else 0.0)

    def told(self, numbers: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers in these units."""
        return (_scaled(numbers, self.least) - self.mean) / self.deviation

    def back(self, told: NDArray[np.float64]) -> NDArray[np.float64]:
        """What such numbers are in their own."""
        found = told * self.deviation + self.mean
        return np.exp(found.clip(max=LARGEST_LOG)) if self.least else found


def _scaled(numbers: Sequence[float] | NDArray[np.float64], least: float) -> NDArray[np.float64]:
    """The numbers, or their logarithms where there is a least one."""
    values = np.asarray(numbers, dtype=np.float64)
    return np.log(values.clip(min=least)) if least else values
