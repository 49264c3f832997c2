"""The judge of synthetic tables, TabDDPM's: a CatBoost with a set's tuned parameters learns from rows alone and is scored.

It stops by real rows, and is scored on other real rows: macro-F1 of classes, R2 of numbers. As there, categories are
numbered in the order of train's labels, all that train never had being one more; numbers stay as they are; a number
that is the target is standardised by train's. A judge that learns from the real rows reproduces the published score.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kbdisk.bench.arrays import Array, Rows, TabularSet
from kbdisk.bench.base import data_file
from kbdisk.errors import LoadError

PARAMETERS = "tabular/eval/catboost_params_and_published_eval.json"
OWN = ("thread_count", "cat_features", "task_type")  # of the parameters: what the judge says itself
Judging = Mapping[str, Any]


def parameters(data: Path, name: str) -> dict[str, Any]:
    """The tuned parameters of a set's judge."""
    found = json.loads(data_file(data, PARAMETERS, "yandex-research/tab-ddpm").read_text("utf-8"))
    if name not in found:
        raise LoadError(str(data / PARAMETERS), f"expected the parameters of {name}, got those of {', '.join(found)}.")
    return {key: value for key, value in found[name]["catboost_params_cv"].items() if key not in OWN}


def scores(table: TabularSet, rows: Rows, tuned: Judging, seeds: Sequence[int]) -> list[float]:
    """What judges with these seeds come to who learn from some rows, real or drawn, in the place of train."""
    if len(np.unique(rows.target)) == 1:  # nothing to be learnt: all are answered the same
        return [score(table, np.full(len(table.judged), rows.target[0]))] * len(seeds)
    frames = [_frame(part, rows) for part in (rows, table.stop, table.judged)]
    return [score(table, _answers(table, rows, frames, tuned, seed)) for seed in seeds]


def score(table: TabularSet, answers: Array) -> float:
    """How good answers (R,) are for the judged rows."""
    truth = table.judged.target
    return r2(truth, answers) if table.is_regression else macro_f1(truth, answers)


def _answers(table: TabularSet, rows: Rows, frames: Sequence[Any], tuned: Judging, seed: int) -> Array:
    """What a judge says of the judged rows."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    threads = int(os.environ.get("OMP_NUM_THREADS", "-1"))
    labelled = list(range(rows.numbers.shape[1], frames[0].shape[1]))
    own = {"random_seed": seed, "thread_count": threads, "cat_features": labelled, "allow_writing_files": False}
    train, stop, judged = frames
    if table.is_regression:
        mean, deviation = float(rows.target.mean()), float(rows.target.std())
        model = CatBoostRegressor(**tuned, **own, eval_metric="RMSE", verbose=0)
        known, stopping = ((one.target - mean) / deviation for one in (rows, table.stop))
        model.fit(train, known, eval_set=(stop, stopping))
        return np.asarray(model.predict(judged) * deviation + mean)
    names = [str(one) for one in range(table.classes)]
    loss = "Logloss" if table.classes == 2 else "MultiClass"
    model = CatBoostClassifier(**tuned, **own, loss_function=loss, eval_metric="TotalF1", class_names=names, verbose=0)
    model.fit(train, rows.target, eval_set=(stop, table.stop.target))
    return np.asarray(model.predict_proba(judged).argmax(1))


def _frame(part: Rows, train: Rows) -> Any:
    """A part's columns as the judge sees them: numbers, then categories by their number among train's."""
    import pandas

    columns: dict[int, Any] = dict(enumerate(part.numbers.astype(np.float64).T))
    for n in range(part.categories.shape[1]):
        known = np.unique(train.categories[:, n])
        place = np.searchsorted(known, part.categories[:, n]).clip(max=len(known) - 1)
        met = known[place] == part.categories[:, n]
        columns[len(columns)] = np.where(met, place, len(known)).astype(str)
    return pandas.DataFrame(columns)


def macro_f1(truth: Array, answers: Array) -> float:
    """The mean over classes, of those that are true or answered, of 2 right / (true + answered)."""
    found = []
    for one in np.union1d(truth, answers):
        right = ((truth == one) & (answers == one)).sum()
        found.append(2 * right / ((truth == one).sum() + (answers == one).sum()))
    return float(np.mean(found))


def r2(truth: Array, answers: Array) -> float:
    """How much of the truth's variance the answers explain."""
    return float(1 - ((truth - answers) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())
