"""Multiple imputation by chained equations with LightGBM (miceforest). Runs in an environment of its own.

Each kernel is a chain of its own with predictive mean matching, as the package has it by default. A cell gets the median of the
kernels, or their most frequent label. Time decides the number of trees, of rounds and of kernels.
"""

from __future__ import annotations

import warnings

import miceforest
import pandas

from benchmarks.peers.exchange import CannotError, Clock, Request, Settings, serve

KERNELS, ROUNDS, TREES = 5, 5, 100
MIN_TREES = 5


def fill(request: Request, table: pandas.DataFrame, clock: Clock) -> tuple[pandas.DataFrame, Settings]:
    """The estimates of asked cells."""
    warnings.simplefilter("ignore")
    if clock.limit <= 0:
        raise CannotError("expected time to train, got none. Give it a longer budget.")
    for name in request.labels:
        table[name] = table[name].astype("category")
    gaps = [name for name in request.asked if table[name].isna().any()]
    trees = _affordable_trees(request, table, gaps, clock)
    completed: list[pandas.DataFrame] = []
    rounds = last = 0.0
    while len(completed) < KERNELS and clock.left >= last:
        begun, kernel = clock.elapsed, _kernel(table, gaps, request.seed + len(completed))
        last_round = 0.0
        for _ in range(ROUNDS):
            before = clock.elapsed
            if clock.left / (KERNELS - len(completed)) < last_round:
                break
            kernel.mice(1, n_estimators=trees, num_threads=1)
            last_round, rounds = clock.elapsed - before, rounds + 1
        completed.append(kernel.complete_data(0)[gaps])
        last = clock.elapsed - begun
    clock.end_fit()
    filled = pandas.DataFrame(
        {
            name: pandas.concat([one[name] for one in completed], axis=1).median(axis=1)
            if name in request.numbers
            else pandas.concat([one[name].astype(object) for one in completed], axis=1).mode(axis=1)[0]
            for name in gaps
        }
    ).reindex(columns=request.asked)
    return filled, {"kernels": len(completed), "rounds": rounds / len(completed), "trees": trees}


def _kernel(table: pandas.DataFrame, gaps: list[str], seed: int) -> miceforest.ImputationKernel:
    """A chain that fills the columns with gaps, each by all others."""
    schema = {name: [other for other in table if other != name] for name in gaps}
    return miceforest.ImputationKernel(table.copy(), variable_schema=schema, num_datasets=1, random_state=seed)


def _affordable_trees(request: Request, table: pandas.DataFrame, gaps: list[str], clock: Clock) -> int:
    """The number of trees by which a round takes a tenth of the time, by what a round of one column takes."""
    before = clock.elapsed
    _kernel(table, gaps[:1], request.seed).mice(1, n_estimators=MIN_TREES, num_threads=1)
    a_tree = (clock.elapsed - before) / MIN_TREES
    if clock.limit == float("inf"):
        return TREES
    return max(MIN_TREES, min(TREES, int(clock.limit / 10 / (a_tree * len(gaps)))))


if __name__ == "__main__":
    serve(fill=fill)
