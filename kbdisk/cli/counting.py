"""A progress bar on standard error for work that is counted, such as entities drawn."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

PATIENCE = 1.0  # seconds before it shows

Told = Callable[[int, int], None]  # how many are done, of how many


@contextlib.contextmanager
def counting(quiet: bool, doing: str) -> Iterator[Told | None]:
    """A callback that shows a bar once the work takes long; None where nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    bar = _Bar(doing)
    try:
        yield bar.step
    finally:
        bar.stop()


class _Bar:
    """Imports rich's only when it shows."""

    def __init__(self, doing: str) -> None:
        self.doing, self.begun = doing, time.monotonic()
        self.shown: Any = None

    def step(self, done: int, total: int) -> None:
        if self.shown is None:
            if time.monotonic() - self.begun < PATIENCE:
                return
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            from kbdisk.cli import screen

            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
            )
            self.shown = Progress(*columns, console=screen.console(stderr=True), transient=True)
            self.task = self.shown.add_task(self.doing, total=total)
            self.shown.start()
        self.shown.update(self.task, completed=done, total=total)

    def stop(self) -> None:
        if self.shown is not None:
            self.shown.stop()
