"""CatBoost's settings, by the number of values and labels."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

EARLY_STOPPED: tuple[tuple[int, dict[str, Any]], ...] = (  # from so many values on, by CatBoost's names
    (1000, {"iterations": 1000, "learning_rate": 0.06, "od_wait": 40, "depth": 6}),
    (200, {"iterations": 400, "learning_rate": 0.1, "od_wait": 30, "depth": 6}),
    (0, {"iterations": 400, "learning_rate": 0.1, "od_wait": 30, "depth": 4}),
)
MANY_LABELS = 10  # from more labels on these settings hold, as each tree has leaves for every label
OF_MANY_LABELS = {"iterations": 120, "learning_rate": 0.15, "od_wait": 15, "depth": 4, "border_count": 32}


def by_size(values: int, table: Sequence[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
    """A copy of the settings of a table for so many training values."""
    return dict(next(settings for least, settings in table if values >= least))


def early_stopped(values: int, labels: int) -> dict[str, Any]:
    """The settings of a booster of labels with early stopping."""
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
