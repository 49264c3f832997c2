"""Baselines that complete a knowledge base: the constant, a CatBoost for each property, an iterative imputer.

Each gets the entities without the hidden values, and predicts every hidden one. All use the same scale for a property: the
logarithm if its known values are positive and spread over more than a decade, else the values as they are.
"""

from __future__ import annotations

import io
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from benchmarks.features import Features
from benchmarks.masking import Masked, Property, Scalar, Values, property_name
from benchmarks.progress import Report
from kbdisk.entity import Date, Path
from kbdisk.errors import ConfigError
from kbdisk.leaves.number.codec import LARGEST_LOG, deciles_of, floor_of_logs

if TYPE_CHECKING:
    import pandas

TREES, PATIENCE = 400, 30  # of a CatBoost at most; those without gain after which it stops
RATE, DEPTH, SHALLOW = 0.1, 6, 4
FEW = 200  # training rows, below which trees are shallow
HELD_OUT = 10  # one of so many training rows tells when to stop
MIN_ROWS = 10  # to learn from
MAX_LABELS = 60  # that trees tell apart: the commonest
MANY_LABELS = 10  # with more of them steps are larger, since each tree is one of every label
ROUNDS, ROUND_TREES = 5, 100  # of the iterative imputer
TIMED_TREES, STAGE = 10, 5  # its trees that are grown first; of how many each number of trees is tried
HURRY = 12  # times as long as these take: with less time for a property its settings are not chosen
MAX_RANKS = 250  # labels of a column that it tells apart


@dataclass(frozen=True)
class Scale:
    """The scale that a property of numbers is learnt and scored on."""

    smallest: float = 0.0  # that a logarithm is taken of: what is below counts as this; 0: none is taken
    is_whole: bool = False  # whether all known values are integers

    @classmethod
    def of(cls, known: Sequence[float], is_date: bool = False) -> Self:
        """The scale that suits the known values."""
        is_whole = all(value.is_integer() for value in known)
        smallest = 0.0 if is_date else floor_of_logs(min(known), deciles_of(sorted(known)), is_whole)
        return cls(smallest, is_whole)

    @property
    def is_log(self) -> bool:
        """Whether values are compared by their logarithm."""
        return self.smallest > 0

    def to(self, value: float) -> float:
        """A value on the scale."""
        return math.log(max(value, self.smallest)) if self.is_log else value

    def back(self, value: float) -> float:
        """A point on the scale as a value; a whole number where all known ones are."""
        value = math.exp(min(value, LARGEST_LOG)) if self.is_log else value
        return float(round(value)) if self.is_whole and math.isfinite(value) else value


@dataclass
class Task:
    """One property: its known values, and the cells that are asked for."""

    of: Property
    known: list[tuple[int, Path]] = field(default_factory=list)  # (entity, path)
    values: list[Scalar] = field(default_factory=list)  # of these
    cells: list[int] = field(default_factory=list)  # places among the hidden cells
    scale: Scale = Scale()

    @property
    def constant(self) -> Scalar:
        """The median, or the commonest label."""
        if self.of[2] == "number":
            return float(statistics.median(self.values))
        return Counter(self.values).most_common(1)[0][0]


def tasks_of(masked: Masked, values: Values) -> list[Task]:
    """The properties of hidden cells that have a known value; cells of any other can't be scored."""
    by_property = {cell.property: Task(cell.property) for cell in masked.cells}
    dates: set[Property] = set()
    for place, entity in enumerate(masked.entities):
        for path, of, scalar in values.of(entity):
            if of in by_property:
                by_property[of].known.append((place, path))
                by_property[of].values.append(scalar)
                if of not in dates and _is_date(entity.tree, path):
                    dates.add(of)
    for place, cell in enumerate(masked.cells):
        by_property[cell.property].cells.append(place)
    tasks = [task for task in by_property.values() if task.values]
    for task in tasks:
        if task.of[2] == "number":
            task.scale = Scale.of(task.values, task.of in dates)
    return tasks


def _is_date(tree: Any, path: Path) -> bool:
    for key in path:
        tree = tree[key]
    return isinstance(tree, Date)


@dataclass(frozen=True)
class Budget:
    """A time limit that is shared out among the tasks that are left."""

    seconds: float | None
    begun: float = field(default_factory=time.monotonic)

    def share(self, left: int) -> float:
        """Seconds for the next of some tasks."""
        if self.seconds is None:
            return math.inf
        return max(0.0, self.seconds - (time.monotonic() - self.begun)) / max(left, 1)


def _by_size(task: Task) -> int:
    """Those with most hidden values first, as the time may not suffice for all."""
    return -len(task.cells)


Answers = dict[int, Scalar]  # place of a cell -> value; what is not there is answered by the constant


def catboost(
    masked: Masked, values: Values, tasks: Sequence[Task], seconds: float | None, seed: int, report: Report
) -> Answers:
    """A CatBoost for each property; those that the time does not suffice for are left to the constant."""
    import catboost  # noqa: F401  # which takes a second that is no part of the budget

    budget, features = Budget(seconds), Features(masked.entities, values)
    answers: Answers = {}
    for done, task in enumerate(sorted(tasks, key=_by_size)):
        report(done, len(tasks))
        if budget.share(1) <= 0:
            break
        if len(task.values) >= MIN_ROWS and len(set(task.values)) > 1:
            places = [(masked.cells[cell].entity, masked.cells[cell].path) for cell in task.cells]
            table = features.table([*task.known, *places], task.of[0], len(task.known))
            if len(table.columns):
                answers.update(
                    zip(task.cells, _boosted(task, table, seed, budget.share(len(tasks) - done)), strict=True)
                )
    report(len(tasks), len(tasks))
    return answers


def _boosted(task: Task, table: pandas.DataFrame, seed: int, seconds: float) -> list[Scalar]:
    """What CatBoost predicts for the rows after the known ones."""
    known = len(task.known)
    if task.of[2] == "number":
        truth = [task.scale.to(value) for value in task.values]
        losses, rows = ["MAE", "RMSE"], list(range(known))
    else:
        common = [label for label, count in Counter(task.values).most_common(MAX_LABELS) if count > 1]
        if len(common) < 2:
            return [task.constant] * (len(table) - known)
        number = {label: place for place, label in enumerate(common)}
        rows = [row for row in range(known) if task.values[row] in number]
        truth = [number.get(value, -1) for value in task.values]
        losses = ["MultiClass"]
    fits = [_Fit(table, truth, rows, loss, seed, seconds / len(losses)) for loss in losses]
    best = min(fits, key=lambda fit: fit.score)
    predicted = best.predict(table.iloc[known:])
    if task.of[2] == "number":
        return [task.scale.back(float(value)) for value in predicted]
    return [common[int(place)] for place in predicted]


class _Fit:
    """A CatBoost with as many trees as a held-out tenth says, then fitted to all rows."""

    def __init__(
        self, table: pandas.DataFrame, truth: Sequence[Any], rows: Sequence[int], loss: str, seed: int, seconds: float
    ) -> None:
        order = list(rows)
        random.Random(seed).shuffle(order)
        out = max(1, len(order) // HELD_OUT)
        held_out, kept = order[:out], order[out:]
        self.table, self.truth, self.loss, self.seed = table, truth, loss, seed
        begun = time.monotonic()
        first = self._fit(kept, TREES, begun + seconds / 2, held_out)
        self.score = first.get_best_score()["validation"]["MAE" if loss != "MultiClass" else loss]
        trees = (first.get_best_iteration() or 0) + 1
        self.model = self._fit(order, trees, begun + seconds)

    def predict(self, table: pandas.DataFrame) -> list[Any]:
        kind = "Class" if self.loss == "MultiClass" else "RawFormulaVal"
        return [float(value) for value in self.model.predict(pool(table), prediction_type=kind).ravel()]

    def _fit(self, rows: Sequence[int], trees: int, deadline: float, held_out: Sequence[int] = ()) -> Any:
        from catboost import CatBoost

        from kbdisk.experts.catboost import unattended

        labels = max(self.truth) + 1 if self.loss == "MultiClass" else 0
        settings: dict[str, Any] = unattended(self.seed) | {
            "loss_function": self.loss,
            "iterations": trees,
            "learning_rate": RATE if labels <= MANY_LABELS else 2 * RATE,
            "depth": SHALLOW if len(rows) < FEW else DEPTH,
            "one_hot_max_size": 255,
            "border_count": 64,
            "max_ctr_complexity": 1,
            "allow_const_label": True,
        }
        if labels:  # of many labels CatBoost's target statistics take ten times as long, for no gain
            settings |= {"classes_count": labels, "simple_ctr": ["Counter"]}
        else:
            settings |= {"eval_metric": "MAE"}
        log = io.StringIO()
        kept: dict[str, Any] = {"log_cout": log, "log_cerr": log}
        if held_out:
            kept |= {
                "eval_set": self._of(held_out),
                "early_stopping_rounds": PATIENCE,
                "use_best_model": True,
            }
        if math.isfinite(deadline):
            kept |= {"callbacks": [_Deadline(deadline)]}
        return CatBoost(settings).fit(self._of(rows), **kept)

    def _of(self, rows: Sequence[int]) -> Any:
        return pool(self.table.iloc[list(rows)], [self.truth[row] for row in rows])


class _Deadline:
    """Stops a CatBoost when its time is over."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline

    def after_iteration(self, info: Any) -> bool:
        """Whether to go on."""
        return time.monotonic() < self.deadline


def pool(table: pandas.DataFrame, truth: Any = None) -> Any:
    """The rows as CatBoost takes them: columns of objects are labels."""
    from catboost import Pool

    return Pool(table, truth, cat_features=[name for name in table if table[name].dtype == object])


# ---------------------------------------------------------------- the iterative imputer


def iterative(
    masked: Masked, values: Values, tasks: Sequence[Task], seconds: float | None, seed: int, report: Report
) -> Answers:
    """Chained equations with scikit-learn's histogram boosting, on the features that CatBoost gets.

    Each round predicts every hidden property from all others, with the estimates of the round before in the place of
    their hidden values: van Buuren's scheme, as scikit-learn's IterativeImputer has it. That class imputes numbers
    alone and can't be interrupted; here a classifier predicts labels, and a time limit means fewer rounds, then fewer
    trees. Properties that the time does not suffice for are left to the constant.
    """
    refuse_without_sklearn()
    import sklearn.ensemble  # noqa: F401  # which takes seconds that are no part of the budget

    budget, features = Budget(seconds), Features(masked.entities, values)
    usable = [task for task in tasks if len(task.values) >= MIN_ROWS and len(set(task.values)) > 1]
    chained = [_Chained(task, masked, features, seed) for task in sorted(usable, key=_by_size)]
    total = ROUNDS * len(chained)
    for round_ in range(ROUNDS):
        for place, imputer in enumerate(chained):
            report(round_ * len(chained) + place, total)
            left = budget.share(1)
            if round_ == 0 and left > 0:
                imputer.fit(budget.share(len(chained) - place), chained)
            elif imputer.estimates and imputer.seconds <= left:
                imputer.refit(left, chained)
    report(total, total)
    return {cell: value for imputer in chained for cell, value in imputer.estimates.items()}


def refuse_without_sklearn() -> None:
    """ConfigError where scikit-learn is not installed."""
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise ConfigError("--against", "iterative needs scikit-learn. Install kbdisk[sklearn].") from None


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

    @property
    def column(self) -> str:
        """The name of the property's column in the features of others."""
        return property_name(self.task.of) + ("" if self.task.of[2] == "number" else ", label")

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
        estimated = {other.column: other.by_entity for other in others if other is not self and other.by_entity}
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
            min_samples_leaf=20 if rows >= FEW else 5,
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


IMPUTERS: Mapping[str, Callable[[Masked, Values, Sequence[Task], float | None, int, Report], Answers]] = {
    "constant": lambda *_: {},
    "catboost": catboost,
    "iterative": iterative,
}
