"""How fast CatBoost fits boosters: with which settings, so that there is time for enough trees; and how many boosters grow side by side.

The time of a tree is about proportional to its cost. Each feature costs its rows, and for each of its borders as much as
`ROWS_OF_BORDER` rows, as a border is scored in every leaf. So of few rows a tree with fewer borders takes a fraction of the
time. On three tables 64 borders were as accurate as 254 or up to 3 % less so, and a third of the trees at a larger learning
rate up to 8 % less so, at an eighth of the time.

Small boosters gain little from several threads: several of them side by side are faster.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from kbdisk.experts.catboost import threads
from kbdisk.experts.trees import MAX_LEAVES

if TYPE_CHECKING:
    from catboost import CatBoost, Pool

BORDERS = (254, 64, 32)  # of a feature: the first is CatBoost's own
MIN_TREES_BEFORE_FEWER_BORDERS = 150  # with the second
ROWS_OF_BORDER = 84.0  # with a depth of `TIMED_DEPTH`; for each level less, half of it
TIMED_DEPTH = 6
TIMED_TREES = 10  # by which the time of a tree is estimated at first
MIN_TREES = 40  # that are planned, however little time is left; at its end fewer are there
RATE_POWER, MAX_RATE = 0.6, 0.3  # how the learning rate grows as trees get fewer, and how far
SECONDS_OF_LEAFWISE_COST, SECONDS_OF_COST = 2.5e-8, 5e-8  # on the machines of 2026
COST_OF_LEAFWISE_TREE = 10_000.0  # of any tree by leaf; 1 is the cost of a value of a feature
COST_OF_LEAFWISE_BORDER = 1.4  # of a feature, in each leaf
MAX_COUNTED_ROWS = 4096  # in which distinct values are counted


@dataclass(frozen=True)
class Work:
    """The rows, distinct values and outputs that decide the time of a tree."""

    rows: int
    distinct: Tensor  # (f,) values of each feature
    outputs: int

    @classmethod
    def of(cls, features: Tensor, outputs: int) -> Work:
        """Of features (n, f)."""
        some = features[:: max(len(features) // MAX_COUNTED_ROWS, 1)].nan_to_num(torch.inf).sort(0).values
        return cls(len(features), 1 + (some.diff(dim=0) > 0).sum(0), outputs)

    def cost(self, settings: Mapping[str, Any]) -> float:
        """Proportional to the time of a tree, about."""
        borders = (self.distinct - 1).clamp(max=settings.get("border_count", BORDERS[0]))
        return max(float(symmetric_column_costs(self.rows, borders, self.outputs, settings["depth"]).sum()), 1.0)


def symmetric_column_costs(rows: int, borders: Tensor, outputs: int, depth: int = TIMED_DEPTH) -> Tensor:
    """(F,) float64, what columns cost one of CatBoost's trees, by their borders (F,)."""
    return outputs * (rows * depth / TIMED_DEPTH + ROWS_OF_BORDER * 2.0 ** (depth - TIMED_DEPTH) * borders.double())


def leafwise_column_costs(rows: int, borders: Tensor, leaves: int) -> Tensor:
    """(F,) float64, what columns cost a tree of `histogram_boosting`, by their borders (F,)."""
    return rows + COST_OF_LEAFWISE_BORDER * leaves * borders.double()


class Timing:
    """The seconds of a tree, by the boosters before, and the settings that fit into the time that there is."""

    def __init__(self) -> None:
        self.seconds_of_cost: float | None = None  # of a symmetric tree whose cost is 1
        self.seconds_of_leafwise_cost = SECONDS_OF_LEAFWISE_COST  # the same of `histogram_boosting`; a guess at first
        self.stopping = Event()  # set to end all boosters after the tree, or the part, that they are at

    def affordable_columns(self, rows: int, borders: Tensor, labels: int, seconds: float) -> tuple[Tensor, float]:
        """(F,) the cost of each column in a tree, by its borders (F,), and the cost that a tree of so many seconds may have.

        The trees are those of `histogram_boosting` for numbers, which have no `labels`, and CatBoost's for labels, with the fewest borders.
        """
        if labels:
            costs = symmetric_column_costs(rows, borders.clamp(max=BORDERS[-1]), labels)
            return costs, seconds / (self.seconds_of_cost or SECONDS_OF_COST)
        costs = leafwise_column_costs(rows, borders, MAX_LEAVES)
        return costs, seconds / self.seconds_of_leafwise_cost - COST_OF_LEAFWISE_TREE

    def fit(self, settings: Mapping[str, Any], pools: tuple[Pool, Pool], work: Work, end: float = math.inf) -> CatBoost:
        """A booster that is ready at a time of time.monotonic: what it lacks in trees it has in learning rate."""
        if end == math.inf:
            return self._timed(settings, pools, work, end)
        if self.seconds_of_cost is None:
            first = {**settings, "border_count": BORDERS[-1], "iterations": TIMED_TREES}
            booster = self._timed(first, pools, work, end)
            if self.seconds_of_cost is None:  # a single tree, as there was no time for more
                return booster
        left = max(end - time.monotonic(), 0)
        return self._timed(planned(settings, work, left / self.seconds_of_cost), pools, work, end)

    def _timed(self, settings: Mapping[str, Any], pools: tuple[Pool, Pool], work: Work, end: float) -> CatBoost:
        from catboost import CatBoost

        training, validation = pools
        watch = _Watch(end, self.stopping)
        booster = CatBoost(dict(settings)).fit(training, eval_set=validation, use_best_model=True, callbacks=[watch])
        if watch.seconds_of_tree is not None:
            self.seconds_of_cost = watch.seconds_of_tree / work.cost(settings)
        return booster


def planned(settings: Mapping[str, Any], work: Work, affordable: float) -> dict[str, Any]:
    """Settings whose trees cost no more in all: with fewer borders first, then with fewer trees and a larger learning rate."""
    wanted, chosen, iterations = settings["iterations"], dict(settings), 0.0
    for borders, enough in zip(BORDERS, (wanted, MIN_TREES_BEFORE_FEWER_BORDERS, 0), strict=True):
        chosen = {**settings, "border_count": min(borders, settings.get("border_count", borders))}
        iterations = affordable / work.cost(chosen)
        if iterations >= enough:
            break
    fewer = max(min(int(iterations), wanted), MIN_TREES)
    rate = settings["learning_rate"]
    return {**chosen, "iterations": fewer, "learning_rate": raised_rate(rate, wanted, fewer)}


def raised_rate(rate: float, wanted: int, trees: int) -> float:
    """The learning rate of fewer trees than are wanted at a rate."""
    return min(rate * (wanted / trees) ** RATE_POWER, max(MAX_RATE, rate)) if trees < wanted else rate


class _Watch:
    """CatBoost's callback after each tree: whether to continue. Times all trees but the first, before which data is prepared."""

    def __init__(self, end: float, stopping: Event) -> None:
        self.end, self.stopping = end, stopping
        self.trees = 0
        self.first = self.last = 0.0

    @property
    def seconds_of_tree(self) -> float | None:
        """The mean; None of a single tree."""
        return max(self.last - self.first, 1e-9) / (self.trees - 1) if self.trees > 1 else None

    def after_iteration(self, info: Any) -> bool:
        self.trees, self.last = self.trees + 1, time.monotonic()
        if self.trees == 1:
            self.first = self.last
        return self.last < self.end and not self.stopping.is_set()


def shared_threads(boosters: int) -> tuple[int, int]:
    """How many of some boosters grow side by side, and the threads of each."""
    side_by_side = max(min(threads(), boosters), 1)
    return side_by_side, max(threads() // side_by_side, 1)


class SideBySide:
    """Functions that run side by side in so many threads."""

    def __init__(self, threads: int, stopping: Event) -> None:
        self.threads, self.stopping = threads, stopping
        self.running: set[Future[None]] = set()
        self.executor = ThreadPoolExecutor(threads)

    def start(self, function: Callable[[], None]) -> None:
        """Start a function once a thread is free."""
        self.wait_for_a_thread()
        self.running.add(self.executor.submit(function))

    def wait_for_a_thread(self) -> None:
        """Until fewer run than there are threads."""
        if len(self.running) >= self.threads:
            done, self.running = wait(self.running, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()

    def __enter__(self) -> SideBySide:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for all; after an error, or an interrupt, these stop after the tree, or the part, that they are at."""
        if kind is not None:
            self.stopping.set()
        self.executor.shutdown()
        if kind is None:
            for future in self.running:
                future.result()
