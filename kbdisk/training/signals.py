"""SIGINT, SIGTERM and SIGHUP while a run goes on: it finishes its step and is kept before it ends."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from types import FrameType

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupted(KeyboardInterrupt):
    """A run that was told to stop, and is kept in a folder that it can go on from."""

    def __init__(self, signal: int, step: int, total: int | None, folder: FilePath) -> None:
        super().__init__(f"stopped after step {step:,}; kept in {folder}")
        self.signal, self.step, self.total, self.folder = signal, step, total, folder


@dataclass
class Stop:
    """Whether somebody wants the run to stop: by which signal."""

    signal: int | None = None


@contextlib.contextmanager
def stopping() -> Iterator[Stop]:
    """Signals noted instead of obeyed, the first of them; a second one is obeyed at once.

    The first is obeyed at the end where nothing was raised for it: it may have come after whoever looked for the last time.
    Only the main thread can do that, and a signal that is ignored (nohup) stays so.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {one: signal.getsignal(one) for one in SIGNALS}
    caught = [one for one, handler in before.items() if handler not in (signal.SIG_IGN, None)]

    def note(number: int, frame: FrameType | None) -> None:
        if stop.signal is None:
            stop.signal = number
            return
        signal.signal(number, before[signal.Signals(number)])
        signal.raise_signal(number)

    for one in caught:
        signal.signal(one, note)
    try:
        yield stop
    finally:
        for one in caught:
            signal.signal(one, before[one])
    if stop.signal is not None:
        signal.raise_signal(stop.signal)
