"""The protocol of a peer: what its module may define, what it is given, and what it returns.

    fill(imputation) -> Filled       values of hidden cells
    sample(sampling) -> Sampled      rows like those of a table
    rank(ranking) -> Ranked          the ranks of the ends of links

`benchmarks.peers.PEERS` says which of them a peer has. A peer ends when its seconds are over, counted from when its packages are
imported. It returns what it has until then; cells that it leaves out are answered by the constant. Its seed decides what it draws.
What it cannot do at all is a PeerError.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from benchmarks.masking import Masked, Values
from benchmarks.peers.usage import CPU, MEMORY, Meter
from benchmarks.progress import Report
from benchmarks.tasks import Answers, Task, tasks_of
from kbdisk.errors import KBDiskError

if TYPE_CHECKING:
    from benchmarks.tabular_sets import Rows, TabularSet

FIT, FILL = "fit", "fill"  # phases; drawing of rows counts as the second

Usage = Mapping[str, Mapping[str, float]]  # of CPU and MEMORY: phase -> figure; empty where it was not measured
Interval = tuple[float, float]


class PeerError(KBDiskError):
    """What a peer cannot do."""


def ignore_progress(done: int, total: int) -> None:
    """Reports nothing."""


@dataclass(frozen=True)
class Imputation:
    """Entities with hidden cells, and the time to fill them."""

    masked: Masked
    values: Values
    tasks: Sequence[Task]
    seconds: float | None = None
    seed: int = 0
    report: Report = ignore_progress
    train_count: int | None = None  # entities that are learnt from, the first ones; None: all

    @classmethod
    def of(cls, masked: Masked, seconds: float | None = None, seed: int = 0, train_count: int | None = None) -> Self:
        """The imputation of all hidden cells that have a task."""
        values = Values(masked.entities)
        tasks = tasks_of(masked, values, train_count)
        return cls(masked, values, tasks, seconds, seed, train_count=train_count)

    @property
    def training_rows(self) -> int:
        """How many entities are learnt from."""
        return len(self.masked.entities) if self.train_count is None else self.train_count


@dataclass(frozen=True)
class Filled:
    """The values of hidden cells, the seconds of fitting and of filling, and the settings that were used.

    Intervals are of hidden numbers, by the place of their cell: with 90 % probability the number lies within.
    """

    answers: Answers
    seconds: Mapping[str, float] = field(default_factory=dict)  # FIT and FILL
    settings: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage = field(default_factory=dict)
    intervals: Mapping[int, Interval] = field(default_factory=dict)


@dataclass(frozen=True)
class Sampling:
    """A table to learn from, and how many rows to draw in the given time."""

    table: TabularSet
    count: int
    seconds: float | None = None
    seed: int = 0
    report: Report = ignore_progress


@dataclass(frozen=True)
class Sampled:
    """The drawn rows, the seconds of fitting and of drawing, and the settings that were used."""

    rows: Rows
    seconds: Mapping[str, float]
    settings: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage = field(default_factory=dict)


@dataclass(frozen=True)
class Ranking:
    """Links to learn from, those whose ends are asked for, and all that are known, by numbers: head, relation and tail."""

    given: NDArray[np.int64]  # (n, 3)
    asked: NDArray[np.int64]  # (m, 3)
    known: NDArray[np.int64]  # (k, 3) other right answers, which are no mistakes
    entities: int
    relations: int
    seconds: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class Ranked:
    """The ranks of tails and heads among all entities but other right answers; equal scores share the mean of their ranks."""

    tails: NDArray[np.float64]  # (m,)
    heads: NDArray[np.float64]  # (m,)
    seconds: Mapping[str, float]
    settings: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage = field(default_factory=dict)


@dataclass(frozen=True)
class Budget:
    """A time limit that is shared out among the tasks that are left."""

    seconds: float | None
    begun: float = field(default_factory=time.monotonic)

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.begun

    def share(self, left: int) -> float:
        """Seconds for the next of some tasks."""
        return math.inf if self.seconds is None else max(0.0, self.seconds - self.elapsed) / max(left, 1)


class Stopwatch:
    """The seconds spent in each phase, and what it used."""

    def __init__(self) -> None:
        self.seconds = {FIT: 0.0, FILL: 0.0}
        self.usage: dict[str, dict[str, float]] = {CPU: {FIT: 0.0, FILL: 0.0}, MEMORY: {}}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the seconds within to a phase; its memory is the highest of all its parts."""
        begun, meter = time.monotonic(), Meter()
        try:
            yield
        finally:
            self.seconds[name] += time.monotonic() - begun
            used = meter.read()
            self.usage[CPU][name] += used[CPU]
            if MEMORY in used:
                self.usage[MEMORY][name] = max(used[MEMORY], self.usage[MEMORY].get(name, 0.0))


def rounded_costs(seconds: Mapping[str, float], usage: Usage) -> dict[str, Any]:
    """Seconds, and what was used, as results store them."""
    return {
        **{phase: round(value, 2) for phase, value in seconds.items()},
        **{name: {phase: round(value, 2) for phase, value in of.items()} for name, of in usage.items()},
    }


def by_hidden(task: Task) -> int:
    """The order of tasks: those with most hidden values first, as the time may not suffice for all."""
    return -len(task.cells)


Fill = Callable[[Imputation], Filled]
Sample = Callable[[Sampling], Sampled]
Rank = Callable[[Ranking], Ranked]
