"""UnmaskingTrees: a tree of XGBoost classifiers for each column draws it from any subset of the others (package utrees).

Runs in an environment of its own. A cell gets the median of several draws, or their most frequent label. Time decides how many
orders of columns each row is masked in, and on how many rows it learns, by what a small sample takes.
"""

from __future__ import annotations

import warnings
from statistics import median, mode

import numpy as np
import pandas
from utrees import UnmaskingTrees

from benchmarks.peers.exchange import Clock, Request, Settings, serve, timed_blocks

ORDERS = 50  # in which each row is masked: the package's default, and the most
DRAWS = 5
TRIAL_ROWS = 200  # by which the time is estimated
TRAINING_SHARE = 0.4  # of the time
MIN_ROWS = 50


def fill(request: Request, table: pandas.DataFrame, clock: Clock) -> tuple[pandas.DataFrame, Settings]:
    """The estimates of asked cells of as many rows as the time suffices for."""
    model, values, labels, settings = _fitted(request, table, clock)
    drawn: dict[int, list[np.ndarray]] = {}
    for rows in timed_blocks(request.rows, DRAWS, clock):
        for row, imputed in zip(rows, model.impute(1, values[rows])[0], strict=True):
            drawn.setdefault(row, []).append(imputed)
    filled = pandas.DataFrame(None, index=table.index, columns=request.asked, dtype=object)
    for name in request.asked:
        column = table.columns.get_loc(name)
        of_rows = ([draw[column] for draw in draws] for draws in drawn.values())
        if name in request.numbers:
            estimates = [median(of_row) for of_row in of_rows]
        else:
            estimates = [labels[name][int(mode(of_row))] for of_row in of_rows]
        filled.loc[list(drawn), name] = estimates
    return filled, settings | {"draws": round(sum(map(len, drawn.values())) / len(request.rows), 2)}


def _fitted(
    request: Request, table: pandas.DataFrame, clock: Clock
) -> tuple[UnmaskingTrees, np.ndarray, dict[str, list[str]], Settings]:
    """The model, the table as numbers, the labels of each code, and the settings."""
    warnings.simplefilter("ignore")
    clock.refuse_no_time()
    labels, columns = {}, []
    for name in table:
        if name in request.labels:
            codes, known = pandas.factorize(table[name], sort=True)
            labels[name] = list(known)
            columns.append(np.where(codes < 0, np.nan, codes))
        else:
            columns.append(table[name].to_numpy())
    values = np.stack(columns, 1).astype(np.float64)
    kinds = ["categorical" if name in request.labels else "continuous" for name in table]
    order = np.random.default_rng(request.seed).permutation(request.train_count)
    orders, rows = ORDERS, len(order)
    if clock.limit < float("inf"):
        before, trial = clock.elapsed, order[:TRIAL_ROWS]
        _trained(values[trial], kinds, 1, request.seed)
        a_row = (clock.elapsed - before) / len(trial)
        affordable = (TRAINING_SHARE * clock.limit - clock.elapsed) / a_row
        orders = max(1, min(ORDERS, int(affordable / rows)))
        rows = max(MIN_ROWS, min(rows, int(affordable)))
    model = _trained(values[order[:rows]], kinds, orders, request.seed)
    clock.end_fit()
    return model, values, labels, {"orders": orders, "rows": min(rows, len(order))}


def _trained(values: np.ndarray, kinds: list[str], orders: int, seed: int) -> UnmaskingTrees:
    model = UnmaskingTrees(duplicate_K=orders, random_state=seed, xgboost_kwargs={"n_jobs": 1})
    return model.fit(values, quantize_cols=kinds)


if __name__ == "__main__":
    serve(fill=fill)
