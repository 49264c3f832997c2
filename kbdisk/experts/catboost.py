"""CatBoost: settings by the number of values, and the scale of numbers as targets.

CatBoost keeps 32 bits of a number, in which 1,700,000,001 equals 1,700,000,000. So targets are standardised numbers, or
logarithms.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbdisk.leaves.number.codec import LARGEST_LOG

BY_SIZE: tuple[tuple[int, dict[str, Any]], ...] = (  # from so many values on, by CatBoost's names
    (5000, {"iterations": 2000, "depth": 7, "learning_rate": 0.06}),
    (1000, {"iterations": 1500, "depth": 6, "learning_rate": 0.06}),
    (200, {"iterations": 800, "depth": 6, "learning_rate": 0.05}),
    (0, {"iterations": 300, "depth": 4, "learning_rate": 0.05}),
)
EARLY_STOPPED: tuple[tuple[int, dict[str, Any]], ...] = (  # the same for boosters with a validation set
    (1000, {"iterations": 1000, "learning_rate": 0.06, "od_wait": 40, "depth": 6}),
    (200, {"iterations": 400, "learning_rate": 0.1, "od_wait": 30, "depth": 6}),
    (0, {"iterations": 400, "learning_rate": 0.1, "od_wait": 30, "depth": 4}),
)
MANY_LABELS = 10  # from more labels on these settings hold, as each tree has leaves for every label
OF_MANY_LABELS = {"iterations": 120, "learning_rate": 0.15, "od_wait": 15, "depth": 4, "border_count": 32}


def by_size(values: int, table: Sequence[tuple[int, dict[str, Any]]] = BY_SIZE) -> dict[str, Any]:
    """A copy of the settings of a table for so many training values."""
    return dict(next(settings for least, settings in table if values >= least))


def early_stopped(values: int, labels: int) -> dict[str, Any]:
    """The settings of a booster with early stopping; `labels` is 0 for numbers."""
    many = OF_MANY_LABELS if labels > MANY_LABELS else {}
    return {"od_type": "Iter", **by_size(values, EARLY_STOPPED), **many}


def unattended(seed: int, thread_count: int | None = None) -> dict[str, Any]:
    """Settings of every fit: no output, no files, and as many threads as the process may use, where nothing is said."""
    return {
        "random_seed": seed,
        "thread_count": thread_count or threads(),
        "allow_writing_files": False,
        "logging_level": "Silent",
    }


def threads() -> int:
    """The number of threads: OMP_NUM_THREADS, or the number of cores."""
    setting = os.environ.get("OMP_NUM_THREADS", "")
    if setting.isdecimal() and int(setting):
        return int(setting)
    # sched_getaffinity exists on Linux alone.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# ---------------------------------------------------------------- the scale of numbers


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
