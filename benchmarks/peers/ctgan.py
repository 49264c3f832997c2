"""CTGAN: a conditional generative adversarial network of rows (package ctgan). Runs in an environment of its own.

Time decides the number of epochs, by what the first ones take, up to the most steps with which TabDDPM's paper trains its rivals;
without a limit it is the package's default.
"""

from __future__ import annotations

from typing import Any

import pandas
import torch
from ctgan import CTGAN

from benchmarks.peers.exchange import Clock, Request, Settings, serve, set_threads

EPOCHS = 300  # the package's default
BATCH = 500  # likewise, rows
MAX_STEPS = 30_000
TRAINING_SHARE = 0.7  # of the time: the machine may be busier later than when an epoch was timed
TIMED_SHARE = 0.05  # of the time: by which a longer trial is longer than one of an epoch, as preparing the rows takes long and varies
TRIALS_SHARE = 0.3  # of the time, at most, for all trials
MORE_EPOCHS = 2  # times as many in the next trial
NOISE = 0.1  # of the time of a trial, by which another one may take less
BLOCK = 50_000  # rows that are drawn at once


def sample(request: Request, table: pandas.DataFrame, clock: Clock) -> tuple[pandas.DataFrame, Settings]:
    """Rows drawn from a CTGAN."""
    return sample_from(CTGAN, request, table, clock)


def sample_from(
    network: Any, request: Request, table: pandas.DataFrame, clock: Clock
) -> tuple[pandas.DataFrame, Settings]:
    """Rows drawn from a network of the package, trained for as many epochs as the time suffices for."""
    clock.refuse_no_time()
    set_threads()
    torch.set_flush_denormal(True)  # late gradients are so small that a processor takes three times as long for them
    epochs = EPOCHS
    if clock.limit < float("inf"):
        start, an_epoch = _timed(network, request, table, clock)
        left = TRAINING_SHARE * clock.limit - clock.elapsed - start
        most = max(EPOCHS, MAX_STEPS * BATCH // len(table))
        epochs = max(1, min(most, int(left / an_epoch)))
    model = _fitted(network, epochs, request, table)
    clock.end_fit()
    blocks = [
        model.sample(min(BLOCK, request.count - begin))[[*request.numbers, *request.labels]]
        for begin in range(0, request.count, BLOCK)
    ]
    return pandas.concat(blocks), {"epochs": epochs}


def _timed(network: Any, request: Request, table: pandas.DataFrame, clock: Clock) -> tuple[float, float]:
    """Seconds before the first epoch, and of an epoch: by trials, each with more epochs, until they differ by enough time.

    Where there is no time for a second trial, all of the first counts as an epoch.
    """

    def seconds(epochs: int) -> float:
        begun = clock.elapsed
        _fitted(network, epochs, request, table)
        return clock.elapsed - begun

    seconds(1)  # the first fit of a process takes longer
    epochs, first = 1, seconds(1)
    start, an_epoch = 0.0, first
    while start + MORE_EPOCHS * epochs * an_epoch < TRIALS_SHARE * clock.limit - clock.elapsed:
        epochs *= MORE_EPOCHS
        more = max(seconds(epochs) - first, NOISE * first)
        an_epoch = more / (epochs - 1)
        start = max(first - an_epoch, 0.0)
        if more >= TIMED_SHARE * clock.limit:
            break
    return start, an_epoch


def _fitted(network: Any, epochs: int, request: Request, table: pandas.DataFrame) -> Any:
    """A trained network, the same for the same seed and number of epochs."""
    model = network(epochs=epochs, enable_gpu=False)
    model.set_random_state(request.seed)
    model.fit(table, discrete_columns=request.labels)
    return model


if __name__ == "__main__":
    serve(sample=sample)
