"""What can be chosen about boosted trees, and what is chosen where nobody does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class ForestConfig:
    """Which properties trees tell as well, and how long they may grow."""

    share: float = 0.0  # of a time budget that trees may take; 0: there are none
    values: int = 1 << 17  # of known entities that they learn from, at most
    labels: int = 60  # of a property that they tell, at most: the commonest
    columns: int = 2048  # that are looked at, at most: the fullest
    folds: int = 5  # that further trees leave out, one each
    screened: int = 96  # of these that the trees of one property see, at most: those that tell most by themselves

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ValueError(f"share: expected at least 0 and less than 1, got {self.share!r}")
        for name in ("values", "labels", "columns", "screened", "folds"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)!r}")


def by_size(values: int, table: Sequence[tuple[int, dict[str, Any]]] = BY_SIZE) -> dict[str, Any]:
    """The settings of a table where there are so many values to learn from; a copy."""
    return dict(next(settings for least, settings in table if values >= least))


def early_stopped(values: int, labels: int) -> dict[str, Any]:
    """The settings of a booster with early stopping; `labels` is 0 for numbers."""
    many = OF_MANY_LABELS if labels > MANY_LABELS else {}
    return {"od_type": "Iter", **by_size(values, EARLY_STOPPED), **many}


def unattended(seed: int) -> dict[str, Any]:
    """What CatBoost is told besides, however it learns: to write nothing, and to use the cores that it may."""
    return {
        "random_seed": seed,
        "thread_count": threads(),
        "allow_writing_files": False,
        "logging_level": "Silent",
    }


def threads() -> int:
    """How many threads may work: as OMP_NUM_THREADS says, or all of the cores."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    if told.isdecimal() and int(told):
        return int(told)
    # Not every system tells which cores a process may use.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
