"""The iterative imputer: chained equations with scikit-learn's histogram boosting, on the features that CatBoost gets.

Each round predicts every hidden property from all others, with the estimates of the round before in the place of
their hidden values: van Buuren's scheme, as scikit-learn's IterativeImputer has it. That class imputes numbers
alone and can't be interrupted; here a classifier predicts labels, and a time limit means fewer rounds, then fewer
trees. Properties that the time does not suffice for are left to the constant.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.features import Features
from benchmarks.masking import Masked, Scalar
from benchmarks.peers.catboost import FEW_ROWS, MANY_LABELS, RATE
from benchmarks.peers.protocol import FIT, Budget, Filled, Imputation, Stopwatch, by_hidden
from benchmarks.tasks import HELD_OUT, MAX_LABELS, MIN_ROWS, Task
from kbdisk.entity import Path

ROUNDS, ROUND_TREES = 5, 100
TIMED_TREES, STAGE = 10, 5  # trees that are grown first; of how many each number of trees is tried
HURRY = 12  # times as long as these take: with less time for a property its settings are not chosen
MAX_RANKS = 250  # labels of a column that are told apart


def fill(imputation: Imputation) -> Filled:
    """The estimates of the last round; fitting and filling are one."""
    import sklearn.ensemble  # noqa: F401  # which takes seconds that are no part of the budget

    budget, stopwatch = Budget(imputation.seconds), Stopwatch()
    with stopwatch.phase(FIT):
        chained = _run_rounds(imputation, budget)
    answers = {cell: value for imputer in chained for cell, value in imputer.estimates.items()}
    return Filled(answers, stopwatch.seconds, {"rounds": ROUNDS, "trees": ROUND_TREES}, stopwatch.usage)


def _run_rounds(imputation: Imputation, budget: Budget) -> list[_Chained]:
    """The imputers of all properties after the last round."""
    masked = imputation.masked
    features = Features(masked.entities, imputation.values)
    usable = [task for task in imputation.tasks if len(task.values) >= MIN_ROWS and len(set(task.values)) > 1]
    chained = [_Chained(task, masked, features, imputation.seed) for task in sorted(usable, key=by_hidden)]
    total = ROUNDS * len(chained)
    for round_ in range(ROUNDS):
        for place, imputer in enumerate(chained):
            imputation.report(round_ * len(chained) + place, total)
            left = budget.share(1)
            if round_ == 0 and left > 0:
                imputer.fit(budget.share(len(chained) - place), chained)
            elif imputer.estimates and imputer.seconds <= left:
                imputer.refit(left, chained)
    imputation.report(total, total)
    return chained


class _Chained:
    """One property of the iterative imputer: its rows, its estimates so far, the settings that its first round chose."""

    def __init__(self, task: Task, masked: Masked, features: Features, seed: int) -> None:
        self.task, self.features, self.seed = task, features, seed
        self.rows = [*task.known, *((masked.cells[cell].entity, masked.cells[cell].path) for cell in task.cells)]
        self.estimates: dict[int, Scalar] = {}  # place of a cell -> value
        self.by_entity: dict[int, Scalar] = {}  # the same by entity, of values outside of lists
        self.labels = self._common_labels()
        self.loss, self.trees = "log_loss" if self.labels else "squared_error", ROUND_TREES
        self.categories: list[bool] = []  # which columns are labels
        self.seconds = 0.0  # that the last fit took

    def fit(self, seconds: float, others: Sequence[_Chained]) -> None:
        """The first round: a held-out tenth chooses the loss and the number of trees, then all rows are fitted."""
        begun = time.monotonic()
        table = self._table(others)
        if table is None or (self.task.of[2] == "label" and len(self.labels) < 2):
            return
        rows = self._training_rows()
        random.Random(self.seed).shuffle(rows)
        held_out, kept = rows[: len(rows) // HELD_OUT], rows[len(rows) // HELD_OUT :]
        if len(set(self._targets(kept))) < 2:
            held_out, kept = [], rows
        first = _HistBooster(self.loss, self.labels, len(kept), self.categories, self.seed)
        first.grow(table[kept], self._targets(kept), min(TIMED_TREES, ROUND_TREES), math.inf)
        if HURRY * (time.monotonic() - begun) > seconds:
            first.grow(table[kept], self._targets(kept), ROUND_TREES, begun + seconds)
            self.trees = first.trees
            self._predict_by(first, table)
        else:
            self._choose(table, kept, held_out, first, begun + seconds / 2)
            self._predict(table, begun + seconds)
        self.seconds = time.monotonic() - begun

    def _choose(
        self, table: Any, kept: Sequence[int], held_out: Sequence[int], first: _HistBooster, deadline: float
    ) -> None:
        """The loss and the number of trees that do best on held-out values."""
        best = math.inf
        losses = [self.loss] if self.labels else [self.loss, "absolute_error"]
        for number, loss in enumerate(losses) if held_out else ():
            booster = _HistBooster(loss, self.labels, len(kept), self.categories, self.seed) if number else first
            now = time.monotonic()
            booster.grow(table[kept], self._targets(kept), ROUND_TREES, now + (deadline - now) / (len(losses) - number))
            for trees, predicted in booster.stages(table[held_out]):
                error = self._error(predicted, held_out)
                if error < best:
                    best, self.loss, self.trees = error, loss, trees

    def refit(self, seconds: float, others: Sequence[_Chained]) -> None:
        """A later round: the same settings, given the estimates of others."""
        begun = time.monotonic()
        table = self._table(others)
        if table is not None:
            self._predict(table, begun + seconds)
        self.seconds = time.monotonic() - begun

    def _predict(self, table: Any, deadline: float) -> None:
        rows = self._training_rows()
        booster = _HistBooster(self.loss, self.labels, len(rows), self.categories, self.seed)
        booster.grow(table[rows], self._targets(rows), self.trees, deadline)
        self._predict_by(booster, table)

    def _predict_by(self, booster: _HistBooster, table: Any) -> None:
        predicted = booster.predict(table[len(self.task.known) :])
        if not self.labels:
            predicted = [self.task.scale.back(float(value)) for value in predicted]
        self.estimates = dict(zip(self.task.cells, predicted, strict=True))
        asked = self.rows[len(self.task.known) :]
        self.by_entity = {
            entity: value for (entity, path), value in zip(asked, predicted, strict=True) if _is_outside_lists(path)
        }

    def _common_labels(self) -> list[Scalar]:
        if self.task.of[2] == "number":
            return []
        return [label for label, count in Counter(self.task.values).most_common(MAX_LABELS) if count > 1]

    def _training_rows(self) -> list[int]:
        """Known values; of labels those that the classifier tells apart."""
        known = range(len(self.task.known))
        return [row for row in known if not self.labels or self.task.values[row] in self.labels]

    def _targets(self, rows: Sequence[int]) -> list[Any]:
        values = [self.task.values[row] for row in rows]
        if self.labels:
            number = {label: place for place, label in enumerate(self.labels)}
            return [number[value] for value in values]
        return [self.task.scale.to(value) for value in values]

    def _error(self, predicted: Sequence[Any], rows: Sequence[int]) -> float:
        """The mean absolute error on the scale, or the share of wrong labels."""
        truth = [self.task.values[row] for row in rows]
        if self.labels:
            return math.fsum(a != b for a, b in zip(predicted, truth, strict=True)) / len(rows)
        scaled = [self.task.scale.to(value) for value in truth]
        return math.fsum(abs(a - b) for a, b in zip(predicted, scaled, strict=True)) / len(rows)

    def _table(self, others: Sequence[_Chained]) -> Any:
        """(rows, columns) numbers; labels by their rank in frequency; NaN where nothing is known. None without columns."""
        import numpy as np

        table = self.features.table(self.rows, self.task.of[0], len(self.task.known))
        if not len(table.columns):
            return None
        self.categories = [table[name].dtype == object for name in table.columns]
        estimated = {other.task.column: other.by_entity for other in others if other is not self and other.by_entity}
        columns = []
        for name in table.columns:
            column = table[name].to_numpy()
            by_entity = estimated.get(name, {})
            if column.dtype == object:
                ranks = {label: rank for rank, (label, _) in enumerate(Counter(column).most_common(MAX_RANKS)) if label}
                filled = [
                    f"={by_entity[entity]!r}" if not label and entity in by_entity else label
                    for label, (entity, _) in zip(column, self.rows, strict=True)
                ]
                columns.append(np.array([ranks.get(label, np.nan) for label in filled]))
            else:
                columns.append(
                    np.array(
                        [
                            by_entity[entity] if math.isnan(value) and entity in by_entity else value
                            for value, (entity, _) in zip(column.tolist(), self.rows, strict=True)
                        ]
                    )
                    if by_entity
                    else column
                )
        return np.stack(columns, 1)


def _is_outside_lists(path: Path) -> bool:
    return all(isinstance(key, str) for key in path)


class _HistBooster:
    """scikit-learn's histogram boosting, grown in steps so that a deadline can stop it."""

    def __init__(self, loss: str, labels: Sequence[Scalar], rows: int, categories: Sequence[bool], seed: int) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        made = HistGradientBoostingClassifier if labels else HistGradientBoostingRegressor
        self.labels, self.trees, self.seconds = labels, 0, 0.0
        self.model = made(
            loss=loss,
            learning_rate=RATE if len(labels) <= MANY_LABELS else 2 * RATE,
            max_iter=1,
            min_samples_leaf=20 if rows >= FEW_ROWS else 5,
            categorical_features=list(categories),
            early_stopping=False,
            warm_start=True,
            random_state=seed,
        )

    def grow(self, table: Any, targets: Sequence[Any], most: int, deadline: float) -> None:
        """Grow to so many trees: a few first, then as many as end before the deadline by what these took."""
        while self.trees < most:
            now = time.monotonic()
            trees = most if self.trees or math.isinf(deadline) else min(TIMED_TREES, most)
            if self.trees and not math.isinf(deadline):
                trees = min(most, self.trees + int((deadline - now) / self.seconds * self.trees))
                if trees <= self.trees:
                    return
            self.model.set_params(max_iter=trees)
            self.model.fit(table, targets)
            self.trees, self.seconds = trees, time.monotonic() - now

    def stages(self, table: Any) -> Iterator[tuple[int, list[Any]]]:
        """What the first 5, 10, 15, ... trees predict."""
        for trees, predicted in enumerate(self.model.staged_predict(table), 1):
            if trees % STAGE == 0:
                yield trees, self._named(predicted)

    def predict(self, table: Any) -> list[Any]:
        """Points on the property's scale, or labels."""
        return self._named(self.model.predict(table))

    def _named(self, predicted: Any) -> list[Any]:
        return [self.labels[int(place)] for place in predicted] if self.labels else predicted.tolist()
