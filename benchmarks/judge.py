"""Machine learning efficiency of synthetic tables, as TabDDPM measures it: a tuned CatBoost, the judge, learns from them.

Early stopping uses real rows, and the judge is scored on other real rows: macro-F1 of classes, R2 of numbers. As in TabDDPM,
categories are numbered in the order of the labels of train, and labels that train lacks share one more number; numbers stay as
they are; a numeric target is standardised by train. A judge that learns from the real rows reproduces the published score.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import data_file
from benchmarks.tabular_sets import SOURCE, Array, Rows, TabularSet
from kbdisk.errors import LoadError

PARAMETERS = "tabular/eval/catboost_params_and_published_eval.json"
SET_HERE = ("thread_count", "cat_features", "task_type")  # of the parameters
Parameters = Mapping[str, Any]


def parameters(data: Path, name: str) -> dict[str, Any]:
    """The tuned parameters of a set's judge."""
    by_set = json.loads(data_file(data, PARAMETERS, SOURCE).read_text("utf-8"))
    if name not in by_set:
        raise LoadError(str(data / PARAMETERS), f"expected the parameters of {name}, got those of {', '.join(by_set)}.")
    return {key: value for key, value in by_set[name]["catboost_params_cv"].items() if key not in SET_HERE}


def scores(table: TabularSet, rows: Rows, tuned: Parameters, seeds: Sequence[int]) -> list[float]:
    """The scores of judges with these seeds that learn from some rows, real or drawn, in the place of train."""
    if len(np.unique(rows.target)) == 1:  # nothing to learn: the prediction is constant
        return [score(table, np.full(len(table.judged), rows.target[0]))] * len(seeds)
    frames = [_frame(part, rows) for part in (rows, table.stop, table.judged)]
    return [score(table, _predict(table, rows, frames, tuned, seed)) for seed in seeds]


def score(table: TabularSet, predicted: Array) -> float:
    """How good predictions (R,) are for the judged rows."""
    truth = table.judged.target
    return r2(truth, predicted) if table.is_regression else macro_f1(truth, predicted)


def _predict(table: TabularSet, rows: Rows, frames: Sequence[Any], tuned: Parameters, seed: int) -> Array:
    """What a judge predicts for the judged rows."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    threads = int(os.environ.get("OMP_NUM_THREADS", "-1"))
    categories = list(range(rows.numbers.shape[1], frames[0].shape[1]))
    settings = {"random_seed": seed, "thread_count": threads, "cat_features": categories, "allow_writing_files": False}
    train, stop, judged = frames
    if table.is_regression:
        mean, deviation = float(rows.target.mean()), float(rows.target.std())
        model = CatBoostRegressor(**tuned, **settings, eval_metric="RMSE", verbose=0)
        known, stopping = ((part.target - mean) / deviation for part in (rows, table.stop))
        model.fit(train, known, eval_set=(stop, stopping))
        return np.asarray(model.predict(judged) * deviation + mean)
    names = list(map(str, range(table.classes)))
    loss = "Logloss" if table.classes == 2 else "MultiClass"
    model = CatBoostClassifier(
        **tuned, **settings, loss_function=loss, eval_metric="TotalF1", class_names=names, verbose=0
    )
    model.fit(train, rows.target, eval_set=(stop, table.stop.target))
    return np.asarray(model.predict_proba(judged).argmax(1))


def _frame(part: Rows, train: Rows) -> Any:
    """A part's columns as the judge sees them: numbers, then categories by their number among train's."""
    import pandas

    columns: dict[int, Any] = dict(enumerate(part.numbers.astype(np.float64).T))
    for n in range(part.categories.shape[1]):
        known = np.unique(train.categories[:, n])
        place = np.searchsorted(known, part.categories[:, n]).clip(max=len(known) - 1)
        is_known = known[place] == part.categories[:, n]
        columns[len(columns)] = np.where(is_known, place, len(known)).astype(str)
    return pandas.DataFrame(columns)


def macro_f1(truth: Array, predicted: Array) -> float:
    """The mean over classes, of those that are true or predicted, of 2 right / (true + predicted)."""
    f1 = []
    for label in np.union1d(truth, predicted):
        right = ((truth == label) & (predicted == label)).sum()
        f1.append(2 * right / ((truth == label).sum() + (predicted == label).sum()))
    return float(np.mean(f1))


def r2(truth: Array, predicted: Array) -> float:
    """How much of the truth's variance the predictions explain."""
    return float(1 - ((truth - predicted) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())
