"""The scale of numbers as targets of trees.

CatBoost keeps 32 bits of a number, in which 1,700,000,001 equals 1,700,000,000, and the leaves of stored trees have as many. So targets are
standardised numbers, or logarithms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbdisk.leaves.number.codec import LARGEST_LOG

MAX_DEVIATION = 1e30  # in whose units the leaves of trees still have 32 bits


@dataclass(frozen=True)
class TargetScale:
    """Standard deviations from the mean, of numbers or of their logarithms."""

    mean: float
    deviation: float
    least: float = 0.0  # of logarithms: numbers below count as this; 0: the scale is of the numbers themselves

    @classmethod
    def fit(cls, numbers: Sequence[float] | NDArray[np.float64], least: float = 0.0) -> TargetScale | None:
        """The scale of some numbers; None where all are the same, or their deviation is too large."""
        values = _logs(numbers, least)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(values.mean())
            deviation = float((values - mean).std())
        is_scale = 0 < deviation < MAX_DEVIATION and values.min() < values.max()
        return cls(mean, deviation, least) if is_scale else None

    def scaled(self, numbers: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers on the scale."""
        return (_logs(numbers, self.least) - self.mean) / self.deviation

    def unscaled(self, scaled: NDArray[np.float64]) -> NDArray[np.float64]:
        """Points of the scale as numbers."""
        values = scaled * self.deviation + self.mean
        return np.exp(values.clip(max=LARGEST_LOG)) if self.least else values


def _logs(numbers: Sequence[float] | NDArray[np.float64], least: float) -> NDArray[np.float64]:
    """The numbers, or their logarithms where there is a least one."""
    values = np.asarray(numbers, dtype=np.float64)
    return np.log(values.clip(min=least)) if least else values
