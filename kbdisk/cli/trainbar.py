"""A run as it goes, on a terminal: how far it is, and how wrong each property is told beside the constant."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from kbdisk.cli import screen
from kbdisk.cli.screen import say

if TYPE_CHECKING:
    from rich.table import Table

    from kbdisk.training.validation import Progress, Watch

MOST = 12  # properties that are shown as it goes


@contextlib.contextmanager
def training(quiet: bool, verbose: bool) -> Iterator[Watch | None]:
    """A watcher of a run: a live bar on a terminal, else with `verbose` a line for each look; None where nobody watches."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        bar = _Bar()
        try:
            yield bar.step
        finally:
            bar.stop()
    else:
        yield _line if verbose else None


def _line(progress: Progress) -> None:
    if progress.validation_loss is not None and progress.measure is not None:
        of = f" of {progress.total:,}" if progress.total else ""
        rows = [row for row in progress.measure() if row["better"] is not None]
        better = sum(row["better"] > 0 for row in rows)
        told = f"held out {progress.validation_loss.nats:,.2f} nats, {better} of {len(rows)} properties better than a constant"
        say(f"{_which(progress, 'network {}, ')}step {progress.step:,}{of}, {progress.seconds:,.0f} s: {told}")


def _which(progress: Progress, words: str) -> str:
    """The words with the network that is meant, where there are several."""
    number, members = progress.member
    return words.format(f"{number} of {members}") if members > 1 else ""


class _Bar:
    """A line with a bar, and under it the table of the last look. Imports rich's only when there is a first step."""

    def __init__(self) -> None:
        self.live: Any = None
        self.table: Table | None = None
        self.best: float | None = None

    def step(self, progress: Progress) -> None:
        if self.live is None:
            self._begin()
        if progress.validation_loss is not None:
            nats = progress.validation_loss.nats
            self.best = nats if self.best is None else min(self.best, nats)
            self.held_out = f"held out {nats:,.2f} nats" + (f", best {self.best:,.2f}" if nats > self.best else "")
        if progress.measure is not None:
            self.table = _table(progress.measure)
        which = _which(progress, " {}")
        if progress.final_task is not None:
            doing, done, total = progress.final_task
            self.bar.update(self.task, completed=done, total=total, description=f"{doing}{which}")
            return
        doing = "looking back" if progress.ended else f"training{which}"
        self.bar.update(
            self.task, completed=progress.step, total=progress.total, description=doing, held_out=self.held_out
        )

    def stop(self) -> None:
        if self.live is not None:
            self.live.stop()

    def _begin(self) -> None:
        from rich.console import Group
        from rich.live import Live
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.held_out = "finding out how fast it goes"
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(20),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[held_out]}", style="dim", markup=False),
        )
        self.bar = Progress(*columns)
        self.task = self.bar.add_task("training", total=None, held_out=self.held_out)
        console = screen.console(stderr=True)
        self.live = Live(
            get_renderable=lambda: Group(self.bar, self.table) if self.table else self.bar,
            console=console,
            transient=True,
        )
        self.live.start()


def _table(measure: Callable[[], list[dict[str, Any]]]) -> Table:
    """The properties that most is known of, in the schema's order."""
    from rich.text import Text

    from kbdisk.cli.tables import table_of
    from kbdisk.store.card import quality

    rows = measure()
    shown = {id(row) for row in sorted(rows, key=lambda row: -row["known"])[:MOST]}
    table = table_of("property", "metric", ">constant", ">by now", ">better")
    for row, cells in zip(rows, quality({"quality": rows}), strict=True):
        if id(row) in shown:
            colour = "red" if (row["better"] or 0) <= 0 else "green"
            texts = (cells.property, cells.metric, cells.constant, cells.ours)
            table.add_row(*map(Text, texts), Text(cells.better, colour))
    return table
