"""Progress of a benchmark: on standard error, or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from kbdisk.cli.progress import show_counting, show_training
from kbdisk.cli.screen import say

if TYPE_CHECKING:
    from kbdisk.training.validation import Watch

Report = Callable[[int, int], None]  # how many are done, of how many


class Progress:
    """Reports nothing."""

    def training(self, label: str = "") -> AbstractContextManager[Watch | None]:
        """The callback of a training."""
        return nullcontext()

    def counting(self, label: str) -> AbstractContextManager[Report | None]:
        """The callback of work that is counted."""
        return nullcontext()

    def say(self, line: str) -> None:
        """A line in between."""


class TerminalProgress(Progress):
    """Reports on standard error, unless it is quiet."""

    def __init__(self, quiet: bool, verbose: bool = False) -> None:
        self.quiet, self.verbose = quiet, verbose

    @contextlib.contextmanager
    def training(self, label: str = "") -> Iterator[Watch | None]:
        """A bar, or with `verbose` a line for each validation; before it the label, if there is one."""
        if label:
            self.say(label)
        with show_training(self.quiet, self.verbose) as watch:
            yield watch

    @contextlib.contextmanager
    def counting(self, label: str) -> Iterator[Report | None]:
        """A bar with a label."""
        with show_counting(self.quiet, label) as report:
            yield report

    def say(self, line: str) -> None:
        """A line on standard error."""
        if not self.quiet:
            say(line)
