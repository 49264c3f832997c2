"""TabularARGN, an autoregressive network of all columns (mostlyai-engine). Runs in an environment of its own.

It learns from all rows for two fifths of the time. Then it draws the gaps of the rows, block by block, up to five times or until the
time is over. A cell gets the median of its draws, or their most frequent label. Drawing is slow where each row lacks other columns:
with little time only some rows get a value. As training ends by the clock, its seed alone does not decide what it fills.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas
from mostlyai.engine import TabularARGN

from benchmarks.peers.exchange import Clock, Request, Settings, serve, timed_blocks

DRAWS = 5
TRAINING_SHARE = 0.4  # of the time
SECONDS_A_MINUTE = 60
DEFAULT_MINUTES = 10.0  # of training where there is no limit


def fill(request: Request, table: pandas.DataFrame, clock: Clock) -> tuple[pandas.DataFrame, Settings]:
    """The estimates of asked cells of as many rows as the time suffices for."""
    clock.refuse_no_time()
    minutes = min(TRAINING_SHARE * clock.limit / SECONDS_A_MINUTE, DEFAULT_MINUTES)
    model = TabularARGN(
        max_training_time=minutes, value_protection=False, random_state=request.seed, device="cpu", verbose=0
    )
    model.fit(table.iloc[: request.train_count])
    clock.end_fit()
    drawn: dict[tuple[int, str], list[object]] = {}
    done = 0
    for rows in timed_blocks(request.rows, DRAWS, clock):
        imputed = model.impute(table.iloc[rows].reset_index(drop=True))
        for name in request.asked:
            for row, value in zip(rows, imputed[name], strict=True):
                drawn.setdefault((row, name), []).append(value)
        done += len(rows)
    filled = pandas.DataFrame(None, index=table.index, columns=request.asked, dtype=object)
    for (row, name), values in drawn.items():
        filled.at[row, name] = _estimate(values, name in request.numbers)
    return filled, {"draws": round(done / len(request.rows), 2), "training_minutes": round(minutes, 3)}


def _estimate(drawn: Iterable[object], is_number: bool) -> object:
    """The median of numbers, the commonest of labels."""
    known = pandas.Series(list(drawn)).dropna()
    if not len(known):
        return None
    return known.astype(float).median() if is_number else known.mode()[0]


if __name__ == "__main__":
    serve(fill=fill)
