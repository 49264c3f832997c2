"""The units in which boosted trees learn numbers: CatBoost keeps 32 bits of each, in which 1,700,000,001 is 1,700,000,000."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LARGEST = 1e30  # a deviation in whose units leaves still have 32 bits


@dataclass(frozen=True)
class Units:
    """Deviations from a mean."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, numbers: Sequence[float] | NDArray[np.float64]) -> Units | None:
        """Those of some numbers; None where nothing can be learnt of them: all are the same, or some beyond all measure."""
        every = np.asarray(numbers, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(every.mean())
            deviation = float((every - mean).std())
        return cls(mean, deviation) if 0 < deviation < LARGEST and every.min() < every.max() else None

    def told(self, numbers: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers in these units."""
        return (np.asarray(numbers, dtype=np.float64) - self.mean) / self.deviation

    def back(self, told: NDArray[np.float64]) -> NDArray[np.float64]:
        """What such numbers are in their own."""
        return told * self.deviation + self.mean
