"""SMOTE: new rows between a row and its nearest neighbours (imbalanced-learn). Runs in an environment of its own.

Rows are interpolated among those of the same class, and each class gets as many new rows as its share of the table. Where the target
is a number, it is interpolated like the others, among rows on the same side of its median, as TabDDPM does. Labels are those of most
neighbours (SMOTENC).
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas
from imblearn.over_sampling import SMOTE, SMOTENC
from sklearn.preprocessing import MinMaxScaler

from benchmarks.peers.exchange import CannotError, Clock, Request, Settings, serve

NEIGHBOURS = 5


def sample(request: Request, table: pandas.DataFrame, clock: Clock) -> tuple[pandas.DataFrame, Settings]:
    """New rows, without those of the table."""
    warnings.simplefilter("ignore")
    if not request.numbers:
        raise CannotError("expected a column of numbers to interpolate, got none.")
    is_regression = request.target in request.numbers
    target = table[request.target]
    group = (target > target.median()).astype(str) if is_regression else target
    counts = group.value_counts()
    if counts.min() < 2:
        raise CannotError(f"expected two rows of every class, got one of {counts.idxmin()!r}.")
    labels = [name for name in request.labels if name != request.target]
    rows = table[[*request.numbers, *labels]].copy()
    scaler = MinMaxScaler().fit(rows[request.numbers])
    rows[request.numbers] = scaler.transform(rows[request.numbers])
    settings = {
        "sampling_strategy": {name: int(n) + _new_rows(n, len(table), request.count) for name, n in counts.items()},
        "k_neighbors": int(min(NEIGHBOURS, counts.min() - 1)),
        "random_state": request.seed,
    }
    oversampling = SMOTENC(categorical_features=labels, **settings) if labels else SMOTE(**settings)
    clock.end_fit()
    drawn, of_group = oversampling.fit_resample(rows, group)
    drawn = drawn.iloc[len(table) :].copy()
    drawn[request.numbers] = scaler.inverse_transform(drawn[request.numbers])
    if not is_regression:
        drawn[request.target] = of_group.iloc[len(table) :]
    order = np.random.default_rng(request.seed).permutation(len(drawn))[: request.count]
    return drawn.iloc[order], {"neighbours": settings["k_neighbors"]}


def _new_rows(of_class: int, total: int, count: int) -> int:
    """New rows of a class: its share, rounded up."""
    return -(-count * of_class // total)


if __name__ == "__main__":
    serve(sample=sample)
