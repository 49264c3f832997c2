"""MissForest: every column with hidden cells is predicted by a random forest from all others, round by round.

Gaps begin as the mean, or as the most frequent label. Columns with few gaps come first. The rounds end when the estimates move more
than in the round before, whose estimates then count.

DIFF(paper): columns without hidden cells keep their first fill. Labels are split by their rank in frequency. With little time
the forests of the first round have fewer trees.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.entity_table import EntityTable
from benchmarks.peers.protocol import FIT, Budget, Filled, Imputation, Stopwatch
from benchmarks.tasks import MIN_ROWS, Answers

TREES, STEP = 100, 10  # of a forest; that are grown between two looks at the clock
ROUNDS = 10

Matrix = NDArray[np.float64]


def fill(imputation: Imputation) -> Filled:
    """The estimates of the last round in which they moved less than before."""
    import sklearn.ensemble  # noqa: F401  # which takes seconds that are no part of the budget

    budget, stopwatch = Budget(imputation.seconds), Stopwatch()
    with stopwatch.phase(FIT):
        table = EntityTable.of(imputation)
        filled, rounds = _run_rounds(imputation, table, budget)
    answers: Answers = {}
    for column, values in filled.items():
        answers.update(table.answers(imputation, column, values.tolist()))
    return Filled(answers, stopwatch.seconds, {"rounds": rounds, "trees": TREES}, stopwatch.usage)


def _run_rounds(imputation: Imputation, table: EntityTable, budget: Budget) -> tuple[dict[int, Matrix], int]:
    """(N,) the estimates of each asked column after the last round that improved them, and the number of rounds."""
    columns = sorted(table.tasks, key=lambda column: int(table.is_missing(column).sum()))
    columns = [column for column in columns if (~table.is_missing(column)[: table.train_count]).sum() >= MIN_ROWS]
    matrix, movement, rounds, last = _first_fill(table), np.inf, 0, 0.0
    filled: dict[int, Matrix] = {}
    while rounds < ROUNDS and columns and budget.share(1) > last:
        before = budget.elapsed
        improved, estimates = matrix.copy(), {}
        for place, column in enumerate(columns):
            imputation.report(rounds * len(columns) + place, ROUNDS * len(columns))
            if budget.share(1) <= 0:
                break
            seconds = budget.share(len(columns) - place) if rounds == 0 else budget.share(1)
            gaps = table.is_missing(column)
            improved[gaps, column] = _predict(table, improved, column, imputation.seed, seconds)
            estimates[column] = np.where(gaps, improved[:, column], np.nan)
        moved = _movement(table, matrix, improved, columns)
        if moved >= movement and rounds:
            break
        filled, matrix, movement, rounds = filled | estimates, improved, moved, rounds + 1
        last = budget.elapsed - before
    return filled, rounds


def _first_fill(table: EntityTable) -> Matrix:
    """(N, P + Q) numbers and codes, gaps with the mean or with 0, the code of the most frequent label."""
    means = np.nanmean(table.numbers[: table.train_count], axis=0)
    numbers = np.where(np.isnan(table.numbers), means, table.numbers)
    return np.concatenate([numbers, np.maximum(table.codes, 0)], axis=1)


def _predict(table: EntityTable, matrix: Matrix, column: int, seed: int, seconds: float) -> Matrix:
    """What a forest predicts for the gaps of a column."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    gaps = table.is_missing(column)
    known = ~gaps
    known[table.train_count :] = False
    features = np.delete(matrix, column, axis=1)
    made = RandomForestRegressor if table.is_number(column) else RandomForestClassifier
    forest: Any = made(n_estimators=0, warm_start=True, max_features="sqrt", random_state=seed)
    budget = Budget(seconds)
    while forest.n_estimators < TREES and (forest.n_estimators == 0 or budget.share(1) > 0):
        forest.n_estimators += STEP
        forest.fit(features[known], matrix[known, column])
    return np.asarray(forest.predict(features[gaps]), dtype=np.float64)


def _movement(table: EntityTable, before: Matrix, after: Matrix, columns: list[int]) -> float:
    """How far estimates moved: the squared change of numbers over their squares, plus the share of changed labels."""
    change = squares = changed = cells = 0.0
    for column in columns:
        gaps = table.is_missing(column)
        old, new = before[gaps, column], after[gaps, column]
        if table.is_number(column):
            change, squares = change + float(((new - old) ** 2).sum()), squares + float((new**2).sum())
        else:
            changed, cells = changed + float((new != old).sum()), cells + len(new)
    return change / max(squares, 1e-12) + changed / max(cells, 1)
