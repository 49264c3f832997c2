"""HyperImpute: chained equations that choose a model for each column (package hyperimpute). Runs in an environment of its own.

Labels are given by their numbers, and columns with as many values as the largest of them count as classes. A first run has one
round. Where time is left, a second has as many rounds as it suffices for, by what the first took, up to the package's default.
"""

from __future__ import annotations

import logging
import warnings

import pandas
from hyperimpute.plugins.imputers import Imputers

from benchmarks.peers.exchange import Clock, Request, Settings, serve, set_threads

ROUNDS = 40  # the package's default
CLASSES = 5  # the package's default: columns of so many values are of classes


def fill(request: Request, table: pandas.DataFrame, clock: Clock) -> tuple[pandas.DataFrame, Settings]:
    """The estimates of asked cells."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    clock.refuse_no_time()
    set_threads()
    coded, labels = table.copy(), {}
    for name in request.labels:
        codes, labels[name] = pandas.factorize(table[name])
        coded[name] = pandas.Series(codes, index=table.index, dtype=float).where(codes >= 0)
    classes = max([CLASSES, *map(len, labels.values())])
    rounds = 1
    completed = _completed(coded, rounds, classes, request.seed)
    possible = min(ROUNDS, int(clock.left / max(clock.elapsed, 1e-3))) if clock.limit < float("inf") else ROUNDS
    if possible > 1:
        rounds, completed = possible, _completed(coded, possible, classes, request.seed)
    clock.end_fit()
    filled = completed[request.asked].astype(object)
    for name in (name for name in request.asked if name in labels):
        codes = completed[name].round().clip(0, len(labels[name]) - 1).astype(int)
        filled[name] = labels[name].take(codes)
    return filled, {"rounds": rounds}


def _completed(coded: pandas.DataFrame, rounds: int, classes: int, seed: int) -> pandas.DataFrame:
    """The table without gaps."""
    imputer = Imputers().get("hyperimpute", n_inner_iter=rounds, class_threshold=classes, random_state=seed)
    completed = imputer.fit_transform(coded.copy())
    completed.columns, completed.index = coded.columns, coded.index
    return completed


if __name__ == "__main__":
    serve(fill=fill)
