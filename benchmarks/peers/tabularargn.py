"""TabularARGN, an autoregressive network of all columns (mostlyai-engine). Runs in an environment of its own.

It learns from all rows for half of the time. A cell gets the median of five draws, or their most frequent label; rows are filled
in turn until the time is over. Training shorter than a minute is short for it: its epochs are few.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas
from mostlyai.engine import TabularARGN

from benchmarks.peers.exchange import CannotError, Clock, Request, Settings, serve

DRAWS = 5
BLOCK = 200  # rows that are filled at once
SECONDS_A_MINUTE = 60
DEFAULT_MINUTES = 10.0  # of training where there is no limit


def fill(request: Request, table: pandas.DataFrame, clock: Clock) -> tuple[pandas.DataFrame, Settings]:
    """The estimates of asked cells, block by block."""
    if clock.limit <= 0:
        raise CannotError("expected time to train, got none. Give it a longer budget.")
    minutes = min(clock.limit / 2 / SECONDS_A_MINUTE, DEFAULT_MINUTES)
    model = TabularARGN(
        max_training_time=minutes, value_protection=False, random_state=request.seed, device="cpu", verbose=0
    )
    model.fit(table)
    clock.end_fit()
    filled = pandas.DataFrame(None, index=table.index, columns=request.asked, dtype=object)
    last = 0.0
    for begin in range(0, len(request.rows), BLOCK):
        before = clock.elapsed
        if clock.left < last:
            break
        block = table.iloc[request.rows[begin : begin + BLOCK]]
        drawn = model.impute(block.reset_index(drop=True), n_draws=DRAWS, agg_fn="list")
        for name in request.asked:
            filled.loc[block.index, name] = [_estimate(cell, name in request.numbers) for cell in drawn[name]]
        last = clock.elapsed - before
    return filled, {"draws": DRAWS, "training_minutes": round(minutes, 3)}


def _estimate(drawn: Iterable[object], is_number: bool) -> object:
    """The median of numbers, the commonest of labels."""
    known = pandas.Series(list(drawn)).dropna()
    if not len(known):
        return None
    return known.astype(float).median() if is_number else known.mode()[0]


if __name__ == "__main__":
    serve(fill=fill)
