"""Scores of drawn rows beside what a judge that learns from them is worth.

c2st        classifier two-sample test: how well boosted trees tell drawn rows from real test rows
trend       column pair trends, as sdmetrics defines them: how alike the relations of two columns are
closer      distance to the closest record: the share of drawn rows that are closer to train than to test
distance    the median distance of drawn rows to the closest of train; of test rows beside it

All columns count, the target among them.

R rows   P number columns   Q label columns   D columns of both kinds
"""

from __future__ import annotations

import os
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.tabular_sets import Array, Rows, TabularSet

FOLDS = 5
MAX_TOLD_APART = 5_000  # real and drawn rows each, of the two-sample test
TREES = {"iterations": 200, "depth": 5, "learning_rate": 0.1}
MAX_COMPARED = 1_000  # rows whose closest record is looked for
MAX_RECORDS = 10_000  # of train and of test each, among which it is looked for
BLOCK = 100  # rows that are compared at once

Floats = NDArray[np.float64]
Labels = NDArray[np.str_]


def row_scores(table: TabularSet, drawn: Rows, seed: int) -> dict[str, float | None]:
    """All scores of drawn rows by name; the seed decides which rows stand for many."""
    return {
        "c2st": two_sample_auc(table, table.judged, drawn, seed),
        "trend": trend(table, table.train, drawn),
        **closest_records(table, drawn, seed),
    }


def number_columns(table: TabularSet, rows: Rows) -> Floats:
    """(R, P) the columns of numbers, a numeric target last."""
    target = [rows.target[:, None]] if table.is_regression else []
    return np.concatenate([rows.numbers, *target], 1).astype(np.float64)


def label_columns(table: TabularSet, rows: Rows) -> Labels:
    """(R, Q) the columns of labels, classes last."""
    target = [] if table.is_regression else [rows.target.astype(np.int64).astype(str)[:, None]]
    return np.concatenate([rows.categories.astype(str), *target], 1)


def _some(rows: Rows, count: int, draw: np.random.Generator) -> Rows:
    """So many rows by chance, or all."""
    return rows.pick(draw.permutation(len(rows))[:count])


# ---------------------------------------------------------------- classifier two-sample test


def two_sample_auc(table: TabularSet, real: Rows, drawn: Rows, seed: int) -> float:
    """Classifier two-sample test: the AUC of boosted trees that tell real rows from drawn ones; 0.5 is chance.

    As many rows of each kind are taken. CatBoosts learn from all folds but one and are scored on that one; the AUC is the mean
    over the folds. With n rows of each its standard error is about 0.41 / sqrt(n) where both are alike.
    """
    from catboost import CatBoostClassifier

    draw = np.random.default_rng(seed)
    count = min(len(real), len(drawn), MAX_TOLD_APART)
    frame = _frame(table, [_some(real, count, draw), _some(drawn, count, draw)])
    is_drawn = np.repeat([0, 1], count)
    fold = np.concatenate([draw.permutation(count) % FOLDS for _ in range(2)])
    labels = [name for name in frame if frame[name].dtype == object]
    threads = int(os.environ.get("OMP_NUM_THREADS", "-1"))
    areas = []
    for held_out in range(FOLDS):
        model = CatBoostClassifier(
            **TREES, random_seed=seed, thread_count=threads, cat_features=labels, allow_writing_files=False, verbose=0
        )
        model.fit(frame[fold != held_out], is_drawn[fold != held_out])
        chances = model.predict_proba(frame[fold == held_out])[:, 1]
        areas.append(area_under_curve(is_drawn[fold == held_out], chances))
    return float(np.mean(areas))


def _frame(table: TabularSet, parts: list[Rows]) -> Any:
    """The columns of several parts, one below the other: labels as objects."""
    import pandas

    numbers = np.concatenate([number_columns(table, rows) for rows in parts])
    labels = np.concatenate([label_columns(table, rows) for rows in parts])
    columns: dict[str, Any] = {f"n{place}": column for place, column in enumerate(numbers.T)}
    columns |= {f"c{place}": column.astype(object) for place, column in enumerate(labels.T)}
    return pandas.DataFrame(columns).astype({name: object for name in columns if name.startswith("c")})


def area_under_curve(truth: Array, score: Array) -> float:
    """The chance that a row of class 1 has a higher score than one of class 0; equal scores count half."""
    low, high = np.sort(score[truth == 0]), score[truth == 1]
    ranks = np.searchsorted(low, high, "left") + np.searchsorted(low, high, "right")
    return float(ranks.mean() / 2 / len(low))


# ---------------------------------------------------------------- trend


def trend(table: TabularSet, real: Rows, drawn: Rows) -> float | None:
    """Column pair trends of sdmetrics: the mean similarity over all pairs of columns, 1 where all relations are the same.

    Two numbers: 1 - |r - r'| / 2 of their Pearson correlations; pairs with a constant column do not count. Two labels: the share
    of rows that both tables have in the same cells of a contingency table. A number and a label: the same, with the number in
    ten bins of equal width from its least to its greatest value. As in the package, each table has bins of its own.

    All pairs and all rows count: the package's quality report, unless its thresholds are set to 0 and its num_rows_subsample to
    None, leaves out pairs that are weakly related in the real table, and draws 50,000 rows of larger ones. None where no pair counts.
    """
    both = [(number_columns(table, rows), label_columns(table, rows)) for rows in (real, drawn)]
    similarities = _correlation_similarities(*(numbers for numbers, _ in both))
    codes = _codes(*(labels for _, labels in both))
    bins = [_binned(numbers) for numbers, _ in both]
    P, Q = bins[0].shape[1], codes[0].shape[1]
    pairs = [((codes, a), (codes, b)) for a, b in combinations(range(Q), 2)]
    pairs += [((bins, a), (codes, b)) for a in range(P) for b in range(Q)]
    for (first, a), (second, b) in pairs:
        similarities.append(
            _contingency_similarity(*(np.stack([first[side][:, a], second[side][:, b]], 1) for side in (0, 1)))
        )
    return float(np.mean(similarities)) if similarities else None


def _correlation_similarities(real: Floats, drawn: Floats) -> list[float]:
    """Of each pair of numbers that vary in both tables (R, P)."""
    varies = (real != real[0]).any(0) & (drawn != drawn[0]).any(0)
    if varies.sum() < 2:
        return []
    correlations = [np.corrcoef(numbers[:, varies], rowvar=False) for numbers in (real, drawn)]
    similarity = 1 - np.abs(correlations[0] - correlations[1]) / 2
    return [float(value) for value in similarity[np.triu_indices(int(varies.sum()), 1)]]


def _binned(numbers: Floats) -> Array:
    """(R, P) the bin of each number, from 1; the greatest value of a column has a bin of its own."""
    columns = [np.digitize(column, np.histogram_bin_edges(column)) for column in numbers.T]
    return np.stack(columns, 1) if columns else np.empty((len(numbers), 0), dtype=np.int64)


def _codes(*tables: Labels) -> list[Array]:
    """Labels of several tables (R, Q) as numbers, the same label the same number."""
    joined = np.concatenate(tables)
    columns = [np.unique(column, return_inverse=True)[1] for column in joined.T]
    codes = np.stack(columns, 1) if columns else np.empty((len(joined), 0), dtype=np.int64)
    return np.split(codes, np.cumsum([len(table) for table in tables])[:-1])


def _contingency_similarity(real: Array, drawn: Array) -> float:
    """1 less the total variation distance of two tables of pairs (R, 2)."""
    _, cell = np.unique(np.concatenate([real, drawn]), axis=0, return_inverse=True)
    size = int(cell.max()) + 1
    shares = [np.bincount(part, minlength=size) / len(part) for part in (cell[: len(real)], cell[len(real) :])]
    return float(1 - np.abs(shares[0] - shares[1]).sum() / 2)


# ---------------------------------------------------------------- closest records


def closest_records(table: TabularSet, drawn: Rows, seed: int) -> dict[str, float]:
    """Distance to the closest record, by Gower's distance: the mean over columns of the difference of numbers over their range in
    train, and of 1 for another label.

    `closer` is the share of drawn rows that are closer to train than to test, 0.5 where nothing was memorised: as many
    rows of both are compared, and equal distances count half. `distance` is the median distance to train, `distance_of_test` that
    of test rows to the same rows of train.
    """
    draw = np.random.default_rng(seed)
    count = min(len(table.train), len(table.judged), MAX_RECORDS)
    train, test = _some(table.train, count, draw), _some(table.judged, count, draw)
    some = _some(drawn, MAX_COMPARED, draw)
    to_train, to_test = _distances(table, some, train), _distances(table, some, test)
    closer = (to_train < to_test).mean() + (to_train == to_test).mean() / 2
    of_test = _distances(table, test.pick(np.arange(min(count, MAX_COMPARED))), train)
    return {
        "closer": float(closer),
        "distance": float(np.median(to_train)),
        "distance_of_test": float(np.median(of_test)),
    }


def _distances(table: TabularSet, rows: Rows, records: Rows) -> Floats:
    """(R,) the distance of each row to the closest of some records."""
    range_of = np.ptp(number_columns(table, table.train), axis=0)
    scale = np.where(range_of > 0, range_of, 1)
    numbers, known = (number_columns(table, part) / scale for part in (rows, records))
    labels, known_labels = _codes(label_columns(table, rows), label_columns(table, records))
    D = numbers.shape[1] + labels.shape[1]
    closest = np.empty(len(rows))
    for begin in range(0, len(rows), BLOCK):
        block = slice(begin, begin + BLOCK)
        total = np.zeros((len(numbers[block]), len(records)))
        for column in range(numbers.shape[1]):
            total += np.abs(numbers[block, column, None] - known[None, :, column])
        for column in range(labels.shape[1]):
            total += labels[block, column, None] != known_labels[None, :, column]
        closest[block] = total.min(1) / D
    return closest
