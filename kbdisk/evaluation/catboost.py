"""Gradient-boosted trees (CatBoost) as a baseline: a model for each leaf from all other leaves of its entity; links are labels.

Leaves are columns of a table:

    number                     as it is; missing is NaN
    category, boolean, link    as a label; missing is a label of its own
    set                        a column for each common member: 1, 0, or NaN where there is no set
    text                       left out: trees cannot read

A table that is `filled` has the constants of training where something is missing.

Numbers are predicted by their mean, with the loss RMSE; with `estimate="median"` a second model learns their median, with the loss
MAE. Text is not predicted, nor are categories and links with more than MAX_LABELS labels; of sets the commonest members are.
Where all values are the same, or no column varies, the constant is predicted without trees.

Settings depend on how many values there are to learn from. Those for thousands were measured on phones and nuclei; those for fewer
are smaller, against overfitting. Or they are drawn as in the paper's appendix and compared on a fifth of the training entities; the
best then learn from all of them.
"""

from __future__ import annotations

import io
import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

from kbdisk.data.graph import Graph, pattern
from kbdisk.data.parse import Reading
from kbdisk.data.slots import Source
from kbdisk.entity import Path
from kbdisk.evaluation.baselines import NO_PREDICTION, Baseline, Estimate, Leaf, Prediction, Progress
from kbdisk.experts.catboost import by_size, threads, unattended
from kbdisk.experts.target_scale import TargetScale
from kbdisk.metrics import fit_constant, label, members

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from catboost import CatBoost, Pool

Settings: TypeAlias = Mapping[str, Any]  # by CatBoost's names
Boost: TypeAlias = "Callable[[Sequence[Any], str, int], CatBoost]"  # the truth, the loss, how many labels -> trees

BY_SIZE: tuple[tuple[int, dict[str, Any]], ...] = (  # from so many values on, by CatBoost's names
    (5000, {"iterations": 2000, "depth": 7, "learning_rate": 0.06}),
    (1000, {"iterations": 1500, "depth": 6, "learning_rate": 0.06}),
    (200, {"iterations": 800, "depth": 6, "learning_rate": 0.05}),
    (0, {"iterations": 300, "depth": 4, "learning_rate": 0.05}),
)
MAX_LABELS = 300  # of a leaf that is predicted

SEARCH_TRIALS = 10  # settings that are drawn
SEARCH_HELD_OUT = 0.2  # of the training entities, on which settings are compared
SEARCH_PATIENCE = 50  # trees without gain after which a trial ends
SEARCH_TREES = 2000  # of a trial, at most


class GBDT(Baseline):
    """CatBoost, a model for each leaf; missing features stay missing, or are `filled` with constants.

    Settings depend on how many values there are, or are searched for (`grid`) in `trials` trials. `trees` sets their number.
    """

    def __init__(
        self,
        *,
        estimate: Estimate = "mean",
        filled: bool = False,
        grid: bool = False,
        trees: int | None = None,
        trials: int = SEARCH_TRIALS,
    ) -> None:
        self.estimate, self.filled, self.grid, self.trees, self.trials = estimate, filled, grid, trees, trials

    def learn(self, readings: Sequence[Reading], graph: Graph | None, seed: int, watch: Progress | None) -> None:
        """A model for each leaf."""
        self.seed = seed
        self.columns: dict[str, Columns] = {}
        self.features: dict[Leaf, list[str]] = {}  # the names of the columns that a leaf is predicted from
        self.models: dict[Leaf, LeafModel] = {}
        done = 0
        for class_name in dict.fromkeys(class_name for class_name, _ in self.hidden):
            class_readings = [reading for reading in readings if reading.class_name == class_name]
            self.columns[class_name] = Columns.fit(self._kinds(class_name, class_readings), class_readings, self.filled)
            table = self.columns[class_name].table(class_readings)
            for leaf in (leaf for leaf in self.hidden if leaf[0] == class_name):
                self._learn_leaf(leaf, class_readings, table)
                done += 1
                if watch is not None:
                    watch(done, len(self.hidden))

    def predict_leaf(self, leaf: Leaf, readings: Sequence[Reading]) -> list[Prediction]:
        """The predictions of the trees of a leaf."""
        if leaf not in self.models or not readings:
            return [NO_PREDICTION] * len(readings)
        return self.models[leaf].predict(self.columns[leaf[0]].table(readings, self.features[leaf]))

    def _kinds(self, of: str, readings: Sequence[Reading]) -> Mapping[Path, str]:
        """The kind of every leaf that entities have."""
        paths = dict.fromkeys(path for reading in readings for path in reading.leaves)
        return {path: self.kind((of, path)) for path in paths if Source(of, pattern(path)) in self.places}

    def _learn_leaf(self, leaf: Leaf, readings: Sequence[Reading], table: pandas.DataFrame) -> None:
        kind = self.kind(leaf)
        rows = [row for row, reading in enumerate(readings) if leaf[1] in reading.leaves]
        values = [readings[row].leaves[leaf[1]] for row in rows]
        reason = _reason_to_leave_out(kind, values)
        if reason:
            self.left_out[leaf] = reason
            return
        columns = enumerate(self.columns[leaf[0]].columns)
        names = [str(number) for number, column in columns if column.path not in self.hidden[leaf]]
        features = table[names].iloc[rows]
        features = features.loc[:, features.nunique(dropna=False) > 1]
        self.features[leaf] = list(features)
        self.models[leaf] = self._leaf_model(kind, features, values)

    def _leaf_model(self, kind: str, features: pandas.DataFrame, values: Sequence[Any]) -> LeafModel:
        def boost(truth: Sequence[Any], loss: str, labels: int) -> CatBoost:
            import numpy as np

            return self._boosted(BoostingTask(features, np.array(truth), loss, labels, self.seed))

        model = LEAF_MODELS[kind](boost, values, self.estimate) if len(features.columns) else None
        if model is None:
            constant = fit_constant(kind, values)
            return ConstantModel(Prediction(constant.value, constant.mean))
        return model

    def _boosted(self, task: BoostingTask) -> CatBoost:
        if self.grid:
            return task.booster(task.search_settings(self.trees or SEARCH_TREES, self.trials))
        settings = settings_for(len(task.table), task.labels)
        return task.booster(settings if self.trees is None else settings | {"iterations": self.trees})


def _reason_to_leave_out(kind: str, values: Sequence[Any]) -> str:
    """Why a leaf is not predicted; empty where it is."""
    if kind not in LEAF_MODELS:
        return f"{kind}, which trees cannot tell"
    if not values:
        return "no value to learn from"
    labels = len(set(map(label, values))) if kind in ("category", "link") else 0
    return f"{labels:,} labels, more than {MAX_LABELS}" if labels > MAX_LABELS else ""


def gbdt_median() -> GBDT:
    """With models for medians, too."""
    return GBDT(estimate="median")


def gbdt_filled() -> GBDT:
    """With missing features filled with constants, as in the paper."""
    return GBDT(filled=True)


def gbdt_grid() -> GBDT:
    """With settings that are searched for as in the paper; missing features stay missing."""
    return GBDT(grid=True)


# ---------------------------------------------------------------- entities as a table

MAX_MEMBER_COLUMNS = 50  # of a set: its commonest members
DTYPES = {"number": "float64", "set": "float64", "category": "object", "link": "object"}  # of the kinds in the table
MISSING_LABEL = "missing"  # no label of a value: those begin with =


@dataclass(frozen=True)
class Column:
    """A column of the table: a leaf, and how it is shown."""

    path: Path
    kind: str
    missing: Any  # stands where an entity lacks the leaf
    member: Hashable = None  # of a set

    def of(self, reading: Reading) -> Any:
        """The cell of an entity."""
        value = reading.leaves.get(self.path)
        if value is None:
            return self.missing
        if self.kind == "set":
            return float(self.member in members(value))
        return float(value) if self.kind == "number" else label_text(value)


@dataclass(frozen=True)
class Columns:
    """The columns of one class."""

    columns: tuple[Column, ...]

    @classmethod
    def fit(cls, kinds: Mapping[Path, str], readings: Sequence[Reading], filled: bool = False) -> Self:
        """The columns of some leaves, from the values of training entities."""
        values: dict[Path, list[Any]] = {path: [] for path in kinds}
        for reading in readings:
            for path in reading.leaves.keys() & kinds.keys():
                values[path].append(reading.leaves[path])
        columns: list[Column] = []
        for path, kind in kinds.items():
            if kind == "set":
                columns += _set_columns(path, values[path], filled)
            elif kind in DTYPES and values[path]:
                columns.append(Column(path, kind, _missing(kind, values[path], filled)))
        return cls(tuple(columns))

    def table(self, readings: Sequence[Reading], names: Sequence[str] | None = None) -> pandas.DataFrame:
        """Entities as rows; all columns or some, named by their numbers."""
        import pandas

        chosen = {
            name: self.columns[int(name)] for name in (map(str, range(len(self.columns))) if names is None else names)
        }
        data = {
            name: pandas.Series([column.of(reading) for reading in readings], dtype=DTYPES[column.kind])
            for name, column in chosen.items()
        }
        return pandas.DataFrame(data, index=range(len(readings)))


def label_text(value: Any) -> str:
    """A label, or the id of a link, as text: true is not 1, nor "1"."""
    return f"={label(value)!r}"


def commonest_members(values: Sequence[Any]) -> list[Hashable]:
    """The commonest members of sets, in order."""
    counts = Counter(member for value in values for member in members(value))
    return sorted(counts, key=lambda member: (-counts[member], str(member)))[:MAX_MEMBER_COLUMNS]


def _set_columns(path: Path, values: Sequence[Any], filled: bool) -> list[Column]:
    sets = [members(value) for value in values]
    columns = []
    for member in commonest_members(values):
        share = sum(member in members_of_set for members_of_set in sets) / len(sets)
        columns.append(Column(path, "set", float(share > 0.5) if filled else math.nan, member))
    return columns


def _missing(kind: str, values: Sequence[Any], filled: bool) -> Any:
    if not filled:
        return math.nan if kind == "number" else MISSING_LABEL
    constant = fit_constant(kind, values)
    return constant.mean if kind == "number" else label_text(constant.value)


# ---------------------------------------------------------------- the model of one leaf


class LeafModel(Protocol):
    """Predicts one leaf from a table."""

    def predict(self, table: pandas.DataFrame) -> list[Prediction]:
        """A prediction for each row."""


@dataclass(frozen=True)
class ConstantModel:
    """The same prediction for all rows."""

    prediction: Prediction

    def predict(self, table: pandas.DataFrame) -> list[Prediction]:
        """The same for each row."""
        return [self.prediction] * len(table)


@dataclass(frozen=True)
class NumberModel:
    """Trees for the mean of a number, and possibly others for its median."""

    scale: TargetScale
    mean: CatBoost
    median: CatBoost

    def predict(self, table: pandas.DataFrame) -> list[Prediction]:
        """A number for each row."""
        means = self._numbers(self.mean, table)
        medians = means if self.median is self.mean else self._numbers(self.median, table)
        return list(map(Prediction, medians, means))

    def _numbers(self, booster: CatBoost, table: pandas.DataFrame) -> list[float]:
        numbers: list[float] = self.scale.unscaled(predict_trees(booster, table, "RawFormulaVal")).tolist()
        return numbers


@dataclass(frozen=True)
class LabelModel:
    """Trees for the probability of each label."""

    booster: CatBoost
    labels: Sequence[Any]

    def predict(self, table: pandas.DataFrame) -> list[Prediction]:
        """The likeliest label for each row."""
        probabilities = predict_trees(self.booster, table, "Probability")  # (rows, labels)
        return [Prediction(self.labels[number]) for number in probabilities.argmax(1).tolist()]


@dataclass(frozen=True)
class SetModel:
    """Trees for the probability that each member is in a set."""

    booster: CatBoost
    members: Sequence[Any]
    always: Sequence[Any]  # the members of every set

    def predict(self, table: pandas.DataFrame) -> list[Prediction]:
        """The members with the largest expected IoU for each row."""
        candidates = [*self.always, *self.members]
        probabilities = predict_trees(self.booster, table, "Probability")[:, -len(self.members) :]  # of one: no, yes
        rows = [[*[1.0] * len(self.always), *row] for row in probabilities.tolist()]
        return [Prediction([candidates[number] for number in likely_members(row)]) for row in rows]


def likely_members(probabilities: Sequence[float]) -> list[int]:
    """The numbers of the likeliest members: as many as make the expected IoU, nearly, the largest."""
    order = sorted(range(len(probabilities)), key=lambda number: -probabilities[number])
    expected_size, expected_hits, count_of_best = sum(probabilities), 0.0, 0
    best = 1.0
    for probability in probabilities:
        best *= 1 - probability  # the probability of the empty set
    for count, number in enumerate(order, 1):
        expected_hits += probabilities[number]
        iou = expected_hits / (count + expected_size - expected_hits)
        best, count_of_best = (iou, count) if iou > best else (best, count_of_best)
    return order[:count_of_best]


def fit_number_model(boost: Boost, values: Sequence[Any], estimate: Estimate) -> LeafModel | None:
    """None where all values are the same."""
    numbers = [float(value) for value in values]
    scale = TargetScale.fit(numbers)
    if scale is None:
        return None
    truth = scale.scaled(numbers).tolist()
    mean = boost(truth, "RMSE", 1)
    return NumberModel(scale, mean, boost(truth, "MAE", 1) if estimate == "median" else mean)


def fit_label_model(boost: Boost, values: Sequence[Any], estimate: Estimate) -> LeafModel | None:
    """None where all values are the same."""
    first: dict[Hashable, Any] = {}
    for value in values:
        first.setdefault(label(value), value)
    if len(first) == 1:
        return None
    numbers = {key: number for number, key in enumerate(first)}
    loss = "Logloss" if len(first) == 2 else "MultiClass"
    return LabelModel(boost([numbers[label(value)] for value in values], loss, len(first)), list(first.values()))


def fit_set_model(boost: Boost, values: Sequence[Any], estimate: Estimate) -> LeafModel | None:
    """None where all sets have the same common members."""
    sets = [members(value) for value in values]
    first = {label(member): member for value in values for member in as_list(value)}
    varying = [
        member for member in commonest_members(values) if not all(member in members_of_set for members_of_set in sets)
    ]
    if not varying:
        return None
    truth = [[int(member in members_of_set) for member in varying] for members_of_set in sets]
    is_single = len(varying) == 1
    booster = boost(
        [row[0] for row in truth] if is_single else truth, "Logloss" if is_single else "MultiLogloss", len(varying)
    )
    always = set.intersection(*map(set, sets))
    return SetModel(booster, [first[member] for member in varying], [first[member] for member in always])


LEAF_MODELS: Mapping[str, Callable[[Boost, Sequence[Any], Estimate], LeafModel | None]] = {
    "number": fit_number_model,
    "category": fit_label_model,
    "link": fit_label_model,
    "set": fit_set_model,
}


def as_list(value: Any) -> Sequence[Any]:
    """The members of a set as they are; a single value is a set of one."""
    return list(value) if isinstance(value, list | tuple | set | frozenset) else [value]


# ---------------------------------------------------------------- boosted trees

LABELS_WITH_ALL_TREES = 10  # with more labels trees become fewer, and steps larger: each tree is one for every label
MANY_LABELS = 20  # with more labels trees see categories as they are, not by how often each label stands beside each
CATEGORY_SETTINGS: dict[str, Any] = {
    "one_hot_max_size": 255,
    "simple_ctr": ["Counter"],
    "combinations_ctr": ["Counter"],
    "border_count": 64,
}
SETTINGS_OF_MANY_LABELS = {
    "depth": 6,
    "l2_leaf_reg": 0.3,
}  # at most; a leaf has few values of each label, which CatBoost's 3 would shrink too much
MIN_SHARE_OF_TREES, MAX_LEARNING_RATE = 0.15, 0.2


@dataclass(frozen=True)
class BoostingTask:
    """The learning task of trees: a table, the truth, and the loss."""

    table: pandas.DataFrame
    truth: np.ndarray[Any, Any]
    loss: str  # RMSE, MAE, Logloss, MultiClass, MultiLogloss
    labels: int = 1
    seed: int = 0

    def booster(self, settings: Settings) -> CatBoost:
        """Trees that learnt from all rows."""
        return self._fitted(settings, range(len(self.table)))

    def search_settings(self, trees: int = SEARCH_TREES, trials: int = SEARCH_TRIALS) -> Settings:
        """The best of some settings that are drawn, by the loss on held-out rows; the fixed ones where no column varies."""
        draw = random.Random(self.seed)
        order = list(range(len(self.table)))
        draw.shuffle(order)
        out = round(SEARCH_HELD_OUT * len(order))
        if not out or self.table.iloc[order[out:]].nunique(dropna=False).max() < 2:
            return settings_for(len(self.table), self.labels)
        scored: list[tuple[float, Settings]] = []
        for _ in range(trials):
            settings = draw_settings(draw, self.loss) | {"iterations": trees}
            booster = self._fitted(settings, order[out:], order[:out])
            score = booster.get_best_score()["validation"][self.loss]
            scored.append((score, settings | {"iterations": booster.get_best_iteration() + 1}))
        return min(scored, key=lambda trial: trial[0])[1]

    def _fitted(self, settings: Settings, rows: Sequence[int], held_out: Sequence[int] = ()) -> CatBoost:
        from catboost import CatBoost

        fixed = {
            **unattended(self.seed),
            "loss_function": self.loss,
            "allow_const_label": True,  # of a part of the entities
        }
        if self.loss == "MultiClass":
            fixed |= {"classes_count": self.labels, **(CATEGORY_SETTINGS if self.labels > MANY_LABELS else {})}
        log = io.StringIO()  # discarded: warnings about labels that a part of the entities does not have
        options: dict[str, Any] = {"log_cout": log, "log_cerr": log}
        if held_out:
            options |= {"eval_set": self._pool(held_out), "use_best_model": True}
            options |= {"early_stopping_rounds": SEARCH_PATIENCE}
        return CatBoost({**fixed, **settings}).fit(self._pool(rows), **options)

    def _pool(self, rows: Sequence[int]) -> Pool:
        return pool(self.table.iloc[list(rows)], self.truth[list(rows)])


def pool(table: pandas.DataFrame, truth: Any = None) -> Pool:
    """A table in CatBoost's form; columns that are no floats hold labels."""
    from catboost import Pool

    return Pool(table, truth, cat_features=[name for name in table if table[name].dtype == object])


def predict_trees(booster: CatBoost, table: pandas.DataFrame, prediction_type: str) -> np.ndarray[Any, Any]:
    """The output of trees for each row: RawFormulaVal, or Probability of each label."""
    import numpy as np

    return np.asarray(booster.predict(pool(table), prediction_type=prediction_type, thread_count=threads()))


def settings_for(values: int, labels: int = 1) -> dict[str, Any]:
    """The fixed settings for a number of values to learn from, with a number of labels."""
    settings = by_size(values, BY_SIZE)
    share = min(1.0, max(MIN_SHARE_OF_TREES, LABELS_WITH_ALL_TREES / labels))
    settings["iterations"] = max(1, round(share * settings["iterations"]))
    settings["learning_rate"] = min(MAX_LEARNING_RATE, settings["learning_rate"] / share)
    if labels <= MANY_LABELS:
        return settings
    return settings | SETTINGS_OF_MANY_LABELS | {"depth": min(settings["depth"], SETTINGS_OF_MANY_LABELS["depth"])}


def draw_settings(draw: random.Random, loss: str) -> dict[str, Any]:
    """Random settings, as the paper draws them."""
    settings = {
        "learning_rate": math.exp(draw.uniform(math.log(0.001), math.log(1.0))),
        "depth": draw.randint(3, 10),
        "l2_leaf_reg": draw.uniform(0.1, 10.0),
        "bootstrap_type": "Bayesian",
        "bagging_temperature": draw.uniform(0.0, 1.0),
        "leaf_estimation_iterations": draw.randint(1, 10),
    }
    if loss == "MAE":  # CatBoost finds the leaves of the MAE exactly, at once
        del settings["leaf_estimation_iterations"]
    return settings
