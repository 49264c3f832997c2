"""Boosted trees of numbers by scikit-learn's histogram boosting, within the time that there is.

Its trees grow leaf-wise (best-first), and predict numbers more accurately than CatBoost's symmetric trees do in the same time. It calls
nothing back after a tree. So trees grow in parts, each of which continues the one before, and the time is looked at between parts.

Trees minimize squared errors, by which a few outliers would lead them astray: targets are winsorised, by `winsorising_bounds`.

n values   f features
"""

from __future__ import annotations

import math
import time
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kbdisk.experts.boosting_time import COST_OF_LEAFWISE_TREE, Timing, Work, leafwise_column_costs, raised_rate
from kbdisk.experts.trees import MAX_LEAVES, LeafwiseTrees

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

MAX_BORDERS = 255  # of a feature
MIN_VALUES_OF_LEAF = 3  # so that a label which few entities have can be told apart
ENOUGH_VALUES, MIN_VALUES_OF_LEAF_OF_FEWER = 500, 10  # of fewer values a leaf has a tenth, up to so many
L2_REGULARIZATION = 2.0  # values of the mean, by which each leaf is shrunk
MAX_TREES, RATE = 300, 0.1  # with enough time
PATIENCE = 15  # trees without an improvement, after which no more grow
ENOUGH_TREES = 100  # with fewer the learning rate is larger
LEAST_TREES = 10  # that are planned, however little time is left, unless they take longer than `LEAST_SECONDS`
LEAST_SECONDS = 0.2
SECONDS_OF_PART = 2.0  # of trees that grow before the time is looked at again: each part prepares the data anew
WORTH_A_PART = 0.1  # of the trees that there are: with time for fewer no part is added
TIMED_TREES = 5  # that a part has at least, by which the time of trees of other properties is estimated
SPREADS = 3.0  # how far from the median targets may lie, in distances between their first and last tenth
MAX_OUTLIERS = 0.03  # of the targets, that may lie beyond: more are no outliers


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

    They are ready at `end`, a time of time.monotonic: with less time there are fewer trees and a larger learning rate.
    """
    validation = training if bool(training.all()) else ~training
    learnt = features[training]
    unknown = learnt.isnan().all(0)  # scikit-learn expects numbers
    bounds = winsorising_bounds(target[training])

    def side(known: Tensor, rows: Tensor) -> Side:
        return known.double().masked_fill_(unknown, 0.0).numpy(), target[rows].double().clamp(*bounds).numpy()

    sides = side(learnt, training), side(features[validation], validation)
    growing = _Growing(seed, timing, Work.of(learnt, outputs=1), sides, threads)
    while growing.trees < (wanted := growing.affordable(end)):
        growing.extend(min(wanted, growing.trees + growing.trees_of_part), learning_rate_for(wanted))
        is_over = time.monotonic() >= end or growing.trees >= MAX_TREES
        if is_over or growing.has_stopped or timing.stopping.is_set():
            break
    return growing.best()


def winsorising_bounds(target: Tensor) -> tuple[float, float]:
    """The bounds of targets (n,): the few that lie beyond, far from all others, count as the bounds."""
    target = target.double()
    low, median, high = target.quantile(torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)).tolist()
    reach = SPREADS * (high - low)
    beyond = float(((target - median).abs() > reach).double().mean())
    return (median - reach, median + reach) if beyond <= MAX_OUTLIERS else (-math.inf, math.inf)


def learning_rate_for(trees: int) -> float:
    """The learning rate of so many trees."""
    return raised_rate(RATE, ENOUGH_TREES, trees)


Side = tuple[NDArray[np.float64], NDArray[np.float64]]  # features and targets


class _Growing:
    """Trees that grow part by part."""

    def __init__(self, seed: int, timing: Timing, work: Work, sides: tuple[Side, Side], threads: int) -> None:
        """`work` is that of the first side, from which trees learn; the second side decides how many are kept."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        least = MIN_VALUES_OF_LEAF
        if work.rows < ENOUGH_VALUES:
            least = max(min(work.rows // 10, MIN_VALUES_OF_LEAF_OF_FEWER), MIN_VALUES_OF_LEAF)
        self.model = HistGradientBoostingRegressor(
            max_bins=MAX_BORDERS,
            min_samples_leaf=least,
            max_leaf_nodes=MAX_LEAVES,
            l2_regularization=L2_REGULARIZATION,
            learning_rate=RATE,
            early_stopping=True,
            n_iter_no_change=PATIENCE,
            tol=0.0,
            warm_start=True,
            random_state=seed % (1 << 32),
        )
        self.timing, self.threads = timing, threads
        self.training, self.validation = sides
        borders, leaves = (work.distinct - 1).clamp(max=MAX_BORDERS), min(MAX_LEAVES, work.rows // least)
        self.cost = COST_OF_LEAFWISE_TREE + float(leafwise_column_costs(work.rows, borders, leaves).sum())  # of a tree
        # by the trees of other properties, until some are grown
        self.seconds_of_tree = timing.seconds_of_leafwise_cost * self.cost
        self.trees = 0
        self.has_stopped = False  # as no tree was an improvement for a while

    @property
    def trees_of_part(self) -> int:
        """How many trees grow before the time is looked at again."""
        return max(int(SECONDS_OF_PART / self.seconds_of_tree), 1)

    def affordable(self, end: float) -> int:
        """How many trees there can be by a time. No part is added for a few more trees, as each part prepares the data again."""
        if end == math.inf:
            return MAX_TREES
        more = int(max(end - time.monotonic(), 0.0) / self.seconds_of_tree)
        if not self.trees:
            more = max(more, min(int(LEAST_SECONDS / self.seconds_of_tree), LEAST_TREES), 1)
        return min(self.trees + more, MAX_TREES) if more > WORTH_A_PART * self.trees else self.trees

    def extend(self, trees: int, learning_rate: float) -> None:
        """Grow until there are so many trees."""
        begun = time.monotonic()
        self.model.set_params(max_iter=trees, learning_rate=learning_rate)
        x, y = self.validation
        with _openmp().limit(limits=self.threads):
            self.model.fit(*self.training, X_val=x, y_val=y)
        grown = self.model.n_iter_ - self.trees
        if grown:
            self.seconds_of_tree = max(time.monotonic() - begun, 1e-9) / grown
        if grown >= TIMED_TREES:
            self.timing.seconds_of_leafwise_cost = self.seconds_of_tree / self.cost
        self.trees, self.has_stopped = self.model.n_iter_, self.model.n_iter_ < trees

    def best(self) -> LeafwiseTrees:
        """The trees with the smallest error of validation."""
        count = int(np.argmax(self.model.validation_score_))  # the first score is that of the mean
        # scikit-learn has no public way to its trees: tests/experts/test_trees.py fails where this one changes
        nodes = [of_round[0].nodes for of_round in self.model._predictors[:count]]
        x, y = self.training
        return LeafwiseTrees.of(nodes, x.shape[1], float(y.mean()))


@cache
def _openmp() -> ThreadpoolController:
    """Limits the OpenMP threads of scikit-learn, for calls from the current thread."""
    from threadpoolctl import ThreadpoolController

    controller: Any = ThreadpoolController()
    return controller.select(user_api="openmp")
