"""Boosted trees of numbers by scikit-learn's histogram boosting, within the time that there is.

Its trees grow leaf by leaf, which tells numbers better than CatBoost's symmetric trees in the same time. It has no callback after a
tree, so trees grow in parts, each of which continues the one before.

Trees minimize squared errors. A few outliers would lead them astray, so targets far beyond the others count as the bounds of
`bounds_of_most`.

n values   f features
"""

from __future__ import annotations

import math
import time
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kbdisk.experts.boosting_time import Timing, Work
from kbdisk.experts.trees import MAX_LEAVES, LeafwiseTrees

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

BORDERS = 255  # of a feature, at most
MIN_VALUES_OF_LEAF = 10
MAX_TREES, RATE = 300, 0.1  # with enough time
PATIENCE = 15  # trees without an improvement, after which no more grow
ENOUGH_TREES = 100  # with fewer the learning rate is larger
RATE_POWER, MAX_RATE = 0.6, 0.3  # how it grows as trees get fewer, and how far
MIN_TREES = 10  # that are planned, however little time is left
TIMED_TREES = 5  # by which the time of a tree is estimated at first
SECONDS_OF_PART = 2.0  # of trees that grow before the time is looked at again: each part prepares the data anew
ROWS_OF_BORDER = 1.4  # how much longer a border of a leaf takes than a value of a feature
SPREADS = 3.0  # by which targets may lie beyond the median: distances between the first and the last tenth


def grow(
    features: Tensor,
    target: Tensor,
    training: Tensor,
    *,
    seed: int,
    timing: Timing,
    end: float = math.inf,
    threads: int = 1,
) -> LeafwiseTrees:
    """Trees of features (n, f) and targets (n,), which learn from some (n,) of the values; the others decide how many trees are kept.

    They are ready at `end`, a time of time.monotonic: what they lack in trees they have in learning rate.
    """
    validation = training if bool(training.all()) else ~training
    unknown = features[training].isnan().all(0)  # scikit-learn expects numbers
    bounds = bounds_of_most(target[training])

    def side(rows: Tensor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        known = features[rows].double().masked_fill_(unknown, 0.0)
        return known.numpy(), target[rows].double().clamp(*bounds).numpy()

    work = Work.of(features[training], outputs=1)
    growing = _Growing(seed, timing, work, side(training), side(validation), threads)
    if end < math.inf and timing.seconds_of_leafwise_cost is None:
        growing.extend(TIMED_TREES)
    wanted = growing.affordable(end)
    learning_rate = rate(wanted)
    while growing.trees < wanted and not growing.has_stopped and not timing.stopping.is_set():
        growing.extend(min(wanted, growing.trees + growing.trees_of_part), learning_rate)
        wanted = min(wanted, growing.affordable(end))
    return growing.best()


def bounds_of_most(target: Tensor) -> tuple[float, float]:
    """Beyond which few targets (n,) lie, far from all others."""
    low, median, high = target.double().quantile(torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)).tolist()
    beyond = SPREADS * (high - low) or math.inf
    return median - beyond, median + beyond


def rate(trees: int) -> float:
    """The learning rate of so many trees."""
    return min(RATE * (ENOUGH_TREES / trees) ** RATE_POWER, MAX_RATE) if trees < ENOUGH_TREES else RATE


class _Growing:
    """Trees that grow part by part."""

    def __init__(
        self,
        seed: int,
        timing: Timing,
        work: Work,
        training: tuple[NDArray[np.float64], NDArray[np.float64]],
        validation: tuple[NDArray[np.float64], NDArray[np.float64]],
        threads: int,
    ) -> None:
        """`work` is that of training; both sides are features and targets."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        self.model = HistGradientBoostingRegressor(
            max_bins=BORDERS,
            min_samples_leaf=MIN_VALUES_OF_LEAF,
            max_leaf_nodes=MAX_LEAVES,
            learning_rate=RATE,
            early_stopping=True,
            n_iter_no_change=PATIENCE,
            tol=0.0,
            warm_start=True,
            random_state=seed % (1 << 32),
        )
        self.timing, self.training, self.validation, self.threads = timing, training, validation, threads
        borders = int((work.distinct - 1).clamp(max=BORDERS).sum())
        leaves = min(MAX_LEAVES, work.rows // MIN_VALUES_OF_LEAF)
        self.cost = work.rows * len(work.distinct) + ROWS_OF_BORDER * leaves * borders + 1.0
        self.trees = 0
        self.has_stopped = False  # as no tree was an improvement for a while

    @property
    def seconds_of_tree(self) -> float:
        """By the trees before, of this property or others; 0 if there are none."""
        return (self.timing.seconds_of_leafwise_cost or 0.0) * self.cost

    @property
    def trees_of_part(self) -> int:
        """How many trees grow before the time is looked at again."""
        return MAX_TREES if self.seconds_of_tree == 0 else max(int(SECONDS_OF_PART / self.seconds_of_tree), MIN_TREES)

    def affordable(self, end: float) -> int:
        """How many trees there may be in all at a time."""
        if end == math.inf:
            return MAX_TREES
        left = max(end - time.monotonic(), 0.0)
        return min(max(self.trees + int(left / self.seconds_of_tree), MIN_TREES), MAX_TREES)

    def extend(self, trees: int, learning_rate: float = RATE) -> None:
        """Grow until there are so many trees."""
        begun = time.monotonic()
        self.model.set_params(max_iter=trees, learning_rate=learning_rate)
        x, y = self.validation
        with _openmp().limit(limits=self.threads, user_api="openmp"):
            self.model.fit(*self.training, X_val=x, y_val=y)
        grown = self.model.n_iter_ - self.trees
        if grown:
            self.timing.seconds_of_leafwise_cost = (time.monotonic() - begun) / grown / self.cost
        self.trees, self.has_stopped = self.model.n_iter_, self.model.n_iter_ < trees

    def best(self) -> LeafwiseTrees:
        """The trees with the smallest error of validation."""
        count = int(np.argmax(self.model.validation_score_))  # the first score is that of the mean
        nodes = [of_round[0].nodes for of_round in self.model._predictors[:count]]
        x, y = self.training
        return LeafwiseTrees.of(nodes, x.shape[1], float(y.mean()))


@cache
def _openmp() -> ThreadpoolController:
    """Limits the threads of libraries, of the thread that calls it."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
