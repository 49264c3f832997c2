"""Signals that end a command: each is an exception, so that nothing half-written stays, and an exit status as shells have it.

Python drops an exception raised in a finalizer or in a callback of C, and with it the user's Ctrl-C. Such a signal is sent
again until it is obeyed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
AGAIN = 0.05  # seconds until a signal that was dropped is sent again


class Stopped(KeyboardInterrupt):
    """A signal that ends the program."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Signals end what is done here with `Stopped`. One that is ignored (nohup) stays so, and only the main thread can do it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    usual = (signal.SIG_DFL, signal.default_int_handler)
    hook = sys.unraisablehook

    def dropped(told: Any) -> None:
        if isinstance(told.exc_value, Stopped):
            threading.Timer(AGAIN, os.kill, (os.getpid(), told.exc_value.number)).start()
        else:
            hook(told)

    try:
        sys.unraisablehook = dropped
        for number in numbers:
            if before[number] in usual:
                signal.signal(number, _stop)
        yield
    finally:
        for number in numbers:
            if before[number] in usual:
                signal.signal(number, before[number])
        sys.unraisablehook = hook


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)
