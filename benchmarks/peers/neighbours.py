"""k nearest neighbours by Gower's distance.

The distance of two entities is the mean over the columns that both know: of numbers the difference over the column's range, of
labels 0 where they are equal and 1 elsewhere. A cell gets the median of its k nearest entities that know the property, or their
most frequent label. Each property has the k that does best on held-out values. Of many entities neighbours are searched among a
sample.

B query rows   D donors   K neighbours
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.entity_table import MISSING, EntityTable
from benchmarks.peers.protocol import FILL, FIT, Budget, Filled, Imputation, Stopwatch
from benchmarks.tasks import MIN_ROWS, Answers

KS = (1, 3, 5, 10, 20, 40)
MAX_DONORS = 4000  # rows among which neighbours are searched
MAX_HELD_OUT = 200  # rows by which k is chosen
BLOCK = 250  # query rows at once
FIT_SHARE = 0.3  # of the time, at most, for choosing k

Floats = NDArray[np.float32]
Places = NDArray[np.int64]


def fill(imputation: Imputation) -> Filled:
    """The median, or the most frequent label, of the nearest entities."""
    budget, stopwatch = Budget(imputation.seconds), Stopwatch()
    with stopwatch.phase(FIT):
        search = _Search(EntityTable.of(imputation), imputation.seed)
        k_by_column = search.choose_k(budget)
    with stopwatch.phase(FILL):
        answers = _fill(imputation, search, k_by_column, budget)
    names = search.table.names
    return Filled(
        answers, stopwatch.seconds, {"k": {names[column]: k for column, k in k_by_column.items()}}, stopwatch.usage
    )


def _fill(imputation: Imputation, search: _Search, k_by_column: dict[int, int], budget: Budget) -> Answers:
    table, cells = search.table, imputation.masked.cells
    filled = {column: np.full(len(table.numbers), np.nan) for column in k_by_column}
    wanted = {column: {cells[place].entity for place in table.tasks[column].cells} for column in k_by_column}
    rows = np.array(sorted({row for of_column in wanted.values() for row in of_column}), dtype=np.int64)
    for begin in range(0, len(rows), BLOCK):
        imputation.report(begin, len(rows))
        if budget.share(1) <= 0:
            break
        block = rows[begin : begin + BLOCK]
        distances = search.distances(block)
        for column, k in k_by_column.items():
            places = [place for place, row in enumerate(block.tolist()) if row in wanted[column]]
            if places:
                nearest = search.nearest(distances[places], column, k)
                filled[column][block[places]] = search.estimate(nearest, column)
    imputation.report(len(rows), len(rows))
    answers: Answers = {}
    for column in k_by_column:
        answers.update(table.answers(imputation, column, filled[column].tolist()))
    return answers


class _Search:
    """Neighbours among the donors, a sample of the rows."""

    def __init__(self, table: EntityTable, seed: int) -> None:
        self.table = table
        order = np.random.default_rng(seed).permutation(table.train_count)
        self.donors, self.held_out = order[:MAX_DONORS], order[:MAX_HELD_OUT]
        numbers = table.numbers.astype(np.float32)
        training = numbers[: table.train_count]
        low, high = np.nanmin(training, axis=0), np.nanmax(training, axis=0)
        self.numbers = (numbers - low) / np.where(high > low, high - low, 1)

    def choose_k(self, budget: Budget) -> dict[int, int]:
        """The k of each asked column that has known values enough."""
        limit = FIT_SHARE * budget.share(1)
        chosen = {}
        for column in self.table.tasks:
            known = self.held_out[~self.table.is_missing(column)[self.held_out]]
            if (~self.table.is_missing(column)[self.donors]).sum() < MIN_ROWS or budget.share(1) <= 0:
                continue
            chosen[column] = self._best_k(known, column) if len(known) and budget.elapsed < limit else KS[2]
        return chosen

    def _best_k(self, rows: Places, column: int) -> int:
        distances = self.distances(rows, without=column)
        distances[rows[:, None] == self.donors[None, :]] = np.inf  # a row is no neighbour of itself
        nearest = self.nearest(distances, column, max(KS))
        truth = self.table.values(column)[rows]
        errors = []
        for k in KS:
            estimates = self.estimate(nearest[:, :k], column)
            wrong = np.abs(estimates - truth) if self.table.is_number(column) else estimates != truth
            errors.append(float(np.mean(wrong)))
        return KS[int(np.argmin(errors))]

    def distances(self, rows: Places, without: int | None = None) -> Floats:
        """(B, D) Gower's distances to the donors, without one column; infinite where no column is shared."""
        total = np.zeros((len(rows), len(self.donors)), dtype=np.float32)
        shared = np.zeros_like(total)
        for column in range(len(self.table.names)):
            if column == without:
                continue
            if self.table.is_number(column):
                values = self.numbers[:, column]
                difference = np.abs(values[rows, None] - values[None, self.donors])
                is_known = ~np.isnan(difference)
                total += np.where(is_known, difference, 0)
            else:
                codes = self.table.values(column)
                query, donor = codes[rows, None], codes[None, self.donors]
                is_known = (query != MISSING) & (donor != MISSING)
                total += is_known & (query != donor)
            shared += is_known
        return np.where(shared > 0, total / np.maximum(shared, 1), np.inf)

    def nearest(self, distances: Floats, column: int, k: int) -> Places:
        """(B, K) rows of the nearest donors that know a column, nearest first."""
        knowing = np.flatnonzero(~self.table.is_missing(column)[self.donors])
        among = distances[:, knowing]
        count = min(k, len(knowing))
        places = np.argpartition(among, count - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(among, places, 1), axis=1, kind="stable")
        return self.donors[knowing[np.take_along_axis(places, order, 1)]]

    def estimate(self, neighbours: Places, column: int) -> NDArray[Any]:
        """(B,) the median of neighbours (B, K), or their most frequent label; of several the nearest one's."""
        values = self.table.values(column)[neighbours]
        if self.table.is_number(column):
            return np.asarray(np.median(values, axis=1))
        return np.array([_most_frequent(row) for row in values.tolist()], dtype=np.float64)


def _most_frequent(codes: Sequence[int]) -> int:
    return max(codes, key=codes.count)
