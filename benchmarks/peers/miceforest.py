"""Multiple imputation by chained equations with LightGBM (miceforest). Runs in an environment of its own.

Each kernel is a chain of its own. Numbers get predictive mean matching, as the package has it by default; labels are drawn by their
predicted probabilities, since matching fails where one of them is 0. A cell gets the median of the kernels, or their most frequent
label. Time decides the number of trees, of rounds and of kernels. It fills the rows that it learns from, and no others.
"""

from __future__ import annotations

import warnings
from statistics import median, mode

import miceforest
import pandas

from benchmarks.peers.exchange import CannotError, Clock, Request, Settings, serve

KERNELS, ROUNDS, TREES = 5, 5, 100
MIN_TREES = 5


def fill(request: Request, table: pandas.DataFrame, clock: Clock) -> tuple[pandas.DataFrame, Settings]:
    """The estimates of asked cells."""
    warnings.simplefilter("ignore")
    clock.refuse_no_time()
    if request.train_count < len(table):
        raise CannotError(
            "expected to learn from all rows, got some to fill alone. It fills the rows that it learns from."
        )
    for name in request.labels:
        table[name] = table[name].astype("category")
    gaps = [name for name in request.asked if table[name].isna().any()]
    trees = _affordable_trees(request, table, gaps, clock)
    completed: list[pandas.DataFrame] = []
    rounds = last = 0.0
    while len(completed) < KERNELS and clock.left >= last:
        begun, kernel = clock.elapsed, _kernel(request, table, gaps, len(completed))
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
    filled = pandas.DataFrame(None, index=table.index, columns=request.asked, dtype=object)
    for name in gaps:
        of_kernels = zip(*(kernel[name].iloc[request.rows].tolist() for kernel in completed), strict=True)
        estimate = median if name in request.numbers else mode
        filled.loc[table.index[request.rows], name] = [estimate(values) for values in of_kernels]
    return filled, {"kernels": len(completed), "rounds": rounds / len(completed), "trees": trees}


def _kernel(request: Request, table: pandas.DataFrame, gaps: list[str], number: int) -> miceforest.ImputationKernel:
    """A chain that fills the columns with gaps, each by all others."""
    return miceforest.ImputationKernel(
        table.copy(),
        variable_schema={name: [other for other in table if other != name] for name in gaps},
        mean_match_strategy={name: "normal" if name in request.numbers else "fast" for name in gaps},
        num_datasets=1,
        random_state=request.seed + number,
    )


def _affordable_trees(request: Request, table: pandas.DataFrame, gaps: list[str], clock: Clock) -> int:
    """The number of trees by which a round takes a tenth of the time, by what a round of one column takes."""
    before = clock.elapsed
    _kernel(request, table, gaps[:1], 0).mice(1, n_estimators=MIN_TREES, num_threads=1)
    a_tree = (clock.elapsed - before) / MIN_TREES
    if clock.limit == float("inf"):
        return TREES
    return max(MIN_TREES, min(TREES, int(clock.limit / 10 / (a_tree * len(gaps)))))


if __name__ == "__main__":
    serve(fill=fill)
