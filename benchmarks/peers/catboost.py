"""A CatBoost for each property, on the features that a careful data scientist would make.

Properties that the time does not suffice for are left to the constant.
"""

from __future__ import annotations

import io
import math
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.features import Features
from benchmarks.masking import Scalar
from benchmarks.peers.protocol import FILL, FIT, Budget, Filled, Imputation, Stopwatch, by_hidden
from benchmarks.tasks import HELD_OUT, MAX_LABELS, MIN_ROWS, Answers, Task

if TYPE_CHECKING:
    import pandas

TREES, PATIENCE = 400, 30  # at most; those without gain after which it stops
RATE, DEPTH, SHALLOW = 0.1, 6, 4
FEW_ROWS = 200  # to learn from, below which trees are shallow
MANY_LABELS = 10  # with more of them steps are larger, since each tree is one of every label


def fill(imputation: Imputation) -> Filled:
    """What a CatBoost for each property predicts."""
    import catboost  # noqa: F401  # which takes a second that is no part of the budget

    budget, stopwatch = Budget(imputation.seconds), Stopwatch()
    masked, tasks = imputation.masked, imputation.tasks
    with stopwatch.phase(FIT):
        features = Features(masked.entities, imputation.values)
    answers: Answers = {}
    for done, task in enumerate(sorted(tasks, key=by_hidden)):
        imputation.report(done, len(tasks))
        if budget.share(1) <= 0:
            break
        if len(task.values) >= MIN_ROWS and len(set(task.values)) > 1:
            cells = [(masked.cells[cell].entity, masked.cells[cell].path) for cell in task.cells]
            with stopwatch.phase(FIT):
                table = features.table([*task.known, *cells], task.of[0], len(task.known))
            if len(table.columns):
                seconds = budget.share(len(tasks) - done)
                predicted = _boosted(task, table, imputation.seed, seconds, stopwatch)
                answers.update(zip(task.cells, predicted, strict=True))
    imputation.report(len(tasks), len(tasks))
    return Filled(answers, stopwatch.seconds, {"trees": TREES, "learning_rate": RATE, "depth": DEPTH}, stopwatch.usage)


def _boosted(task: Task, table: pandas.DataFrame, seed: int, seconds: float, stopwatch: Stopwatch) -> list[Scalar]:
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
    with stopwatch.phase(FIT):
        fits = [_Fit(table, truth, rows, loss, seed, seconds / len(losses)) for loss in losses]
    best = min(fits, key=lambda fit: fit.score)
    with stopwatch.phase(FILL):
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
            "depth": SHALLOW if len(rows) < FEW_ROWS else DEPTH,
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
