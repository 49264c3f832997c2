"""What completes a knowledge base beside kbdisk: the constant, a CatBoost for each property, an iterative imputer.

Each gets the entities without the hidden values and answers for every hidden one. All see a property on one scale: the
logarithm where its known values are positive and spread over more than a decade, else the values as they are.
"""

from __future__ import annotations

import io
import math
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from kbdisk.bench.features import Features
from kbdisk.bench.masking import Masked, Property, Scalar, Values
from kbdisk.entity import Date, Path
from kbdisk.errors import ConfigError
from kbdisk.experts.target_scale import is_skewed
from kbdisk.leaves.number.codec import LARGEST_LOG

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
MAX_INDICATORS = 8  # labels of a property that the iterative imputer tells apart

Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Scale:
    """The scale that a property of numbers is learnt and scored on."""

    is_log: bool = False
    smallest: float = 0.0  # of a logarithm: what is below counts as this
    is_whole: bool = False  # whether all known values are integers

    @classmethod
    def of(cls, known: Sequence[float], is_date: bool = False) -> Self:
        """The scale that suits the known values."""
        return cls(not is_date and is_skewed(known), min(known), all(value.is_integer() for value in known))

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
            return float(statistics.median(self.values))  # type: ignore[type-var, arg-type]
        return Counter(self.values).most_common(1)[0][0]


def tasks_of(masked: Masked, values: Values) -> list[Task]:
    """The properties of hidden cells that have a known value; cells of any other can't be scored."""
    found = {cell.property: Task(cell.property) for cell in masked.cells}
    dates: set[Property] = set()
    for place, entity in enumerate(masked.entities):
        for path, of, scalar in values.of(entity):
            if of in found:
                found[of].known.append((place, path))
                found[of].values.append(scalar)
                if of not in dates and _is_date(entity.tree, path):
                    dates.add(of)
    for place, cell in enumerate(masked.cells):
        found[cell.property].cells.append(place)
    tasks = [task for task in found.values() if task.values]
    for task in tasks:
        if task.of[2] == "number":
            task.scale = Scale.of(task.values, task.of in dates)  # type: ignore[arg-type]
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


Answers = dict[int, Scalar]  # place of a cell -> value; what is not there is answered by the constant


def catboost(
    masked: Masked, values: Values, tasks: Sequence[Task], seconds: float | None, seed: int, report: Report
) -> Answers:
    """A CatBoost for each property; those that the time does not suffice for are left to the constant."""
    budget, features = Budget(seconds), Features(masked.entities, values)
    answers: Answers = {}
    for done, task in enumerate(tasks):
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
    """What CatBoost tells for the rows after the known ones."""
    known = len(task.known)
    if task.of[2] == "number":
        truth = [task.scale.to(value) for value in task.values]  # type: ignore[arg-type]
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
    told = best.predict(table.iloc[known:])
    if task.of[2] == "number":
        return [task.scale.back(float(value)) for value in told]
    return [common[int(place)] for place in told]


class _Fit:
    """A CatBoost with as many trees as a held-out tenth says, then fitted to all rows."""

    def __init__(
        self, table: pandas.DataFrame, truth: Sequence[Any], rows: Sequence[int], loss: str, seed: int, seconds: float
    ) -> None:
        import random

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
        return [float(value) for value in self.model.predict(_pool(table), prediction_type=kind).ravel()]

    def _fit(self, rows: Sequence[int], trees: int, deadline: float, held_out: Sequence[int] = ()) -> Any:
        from catboost import CatBoost

        from kbdisk.experts.catboost_settings import unattended

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
        unheard = io.StringIO()
        kept: dict[str, Any] = {"log_cout": unheard, "log_cerr": unheard}
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
        return _pool(self.table.iloc[list(rows)], [self.truth[row] for row in rows])


class _Deadline:
    """Stops a CatBoost when its time is over."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline

    def after_iteration(self, info: Any) -> bool:
        """Whether to go on."""
        return time.monotonic() < self.deadline


def _pool(table: pandas.DataFrame, truth: Any = None) -> Any:
    from catboost import Pool

    return Pool(table, truth, cat_features=[name for name in table if table[name].dtype == object])


# ---------------------------------------------------------------- the iterative imputer


def iterative(
    masked: Masked, values: Values, tasks: Sequence[Task], seconds: float | None, seed: int, report: Report
) -> Answers:
    """scikit-learn's IterativeImputer with histogram boosting, over numbers and indicators of the commonest labels.

    Rows are entities; only values outside of lists are imputed. With a time limit it makes as many rounds as fit, and
    one at least.
    """
    import numpy as np

    refuse_without_sklearn()
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    columns = list(_columns(masked, tasks))
    if not columns:
        return {}
    table = np.full((len(masked.entities), sum(column.width for column in columns)), np.nan)
    place = 0
    for column in columns:
        column.place = place
        for (row, _), value in zip(column.task.known, column.task.values, strict=True):
            table[row, place : place + column.width] = column.encode(value)
        place += column.width
    learner = HistGradientBoostingRegressor(max_iter=ROUND_TREES, random_state=seed)

    def imputed(rounds: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says that it has not converged after so few rounds
            return IterativeImputer(learner, max_iter=rounds, random_state=seed, skip_complete=True).fit_transform(
                table
            )

    report(0, ROUNDS)
    begun, rounds = time.monotonic(), ROUNDS if seconds is None else 1
    filled = imputed(rounds)
    if seconds is not None:
        took = time.monotonic() - begun
        rounds = min(ROUNDS, int((seconds - took) / max(took, 1e-9)))
        filled = imputed(rounds) if rounds > 1 else filled
    report(ROUNDS, ROUNDS)
    answers: Answers = {}
    for column in columns:
        for cell in column.task.cells:
            answers[cell] = column.decode(filled[masked.cells[cell].entity, column.place : column.place + column.width])
    return answers


def refuse_without_sklearn() -> None:
    """ConfigError where scikit-learn is not installed."""
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise ConfigError("--against", "iterative needs scikit-learn. Install kbdisk[sklearn].") from None


class _Column:
    """A property as columns of numbers: itself on its scale, or an indicator of each common label."""

    def __init__(self, task: Task) -> None:
        self.task, self.place = task, 0
        self.labels: list[Scalar] = []
        if task.of[2] == "label":
            self.labels = [label for label, _ in Counter(task.values).most_common(MAX_INDICATORS)]

    @property
    def width(self) -> int:
        return len(self.labels) or 1

    def encode(self, value: Scalar) -> list[float]:
        if not self.labels:
            return [self.task.scale.to(value)]  # type: ignore[arg-type]
        return [float(value == label) for label in self.labels]

    def decode(self, numbers: Sequence[float]) -> Scalar:
        if not self.labels:
            return self.task.scale.back(float(numbers[0]))
        return self.labels[max(range(len(self.labels)), key=lambda place: float(numbers[place]))]


def _columns(masked: Masked, tasks: Sequence[Task]) -> Iterator[_Column]:
    for task in tasks:
        if all(isinstance(key, str) for _, path in task.known[:1] for key in path):
            yield _Column(task)


IMPUTERS: Mapping[str, Callable[[Masked, Values, Sequence[Task], float | None, int, Report], Answers]] = {
    "constant": lambda *_: {},
    "catboost": catboost,
    "iterative": iterative,
}
