"""Progress on a terminal: of reading, of counted work, and of a training with the table of its latest validation.

Each is a context that gives a callback, or None where nothing is to be shown. Rich's bars are imported when one is shown.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rich.text import Text

from kbdisk.cli import screen
from kbdisk.cli.screen import say, say_rendered
from kbdisk.cli.tables import build_table

if TYPE_CHECKING:
    from rich.table import Table

    from kbdisk.loaders.files import Progress as ReadingProgress
    from kbdisk.training.validation import Progress, Watch

PATIENCE = 1.5  # seconds before a bar of reading shows
COUNTING_PATIENCE = 1.0  # the same of counted work
INTERVAL = 0.1  # seconds between two updates while reading
MAX_PROPERTIES_SHOWN = 12  # during a training

CountCallback = Callable[[int, int], None]  # how many are done, of how many

# ---------------------------------------------------------------- reading and counted work


@contextlib.contextmanager
def show_reading(quiet: bool, label: str) -> Iterator[ReadingProgress | None]:
    """A callback that shows a bar of bytes once reading takes long."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    bar = _Bar(label, "DownloadColumn", PATIENCE, INTERVAL)
    try:
        yield bar.update
    finally:
        bar.stop()


@contextlib.contextmanager
def show_counting(quiet: bool, label: str, patience: float = COUNTING_PATIENCE) -> Iterator[CountCallback | None]:
    """A callback that shows a bar of counted work, such as entities drawn, once it takes long."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    bar = _Bar(label, "MofNCompleteColumn", patience)
    try:
        yield bar.update
    finally:
        bar.stop()


@contextlib.contextmanager
def show_loading(quiet: bool, label: str) -> Iterator[None]:
    """A line while torch is imported, which takes seconds; it is erased when that is done."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    label = label[: shutil.get_terminal_size().columns - 1]
    say(label, end="")
    try:
        yield
    finally:
        say_rendered(f"\r{' ' * len(label)}\r")


class _Bar:
    """A progress bar that appears after a while; `column` is the class of rich's column that says how much is done."""

    def __init__(self, label: str, column: str, patience: float, interval: float = 0.0) -> None:
        self.label, self.column, self.patience, self.interval = label, column, patience, interval
        self.begun = self.last = time.monotonic()
        self.bar: Any = None

    def update(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.last < self.interval or now - self.begun < self.patience:
            return
        self.last = now
        if self.bar is None:
            self._start(total)
        self.bar.update(self.task, completed=done, total=total)

    def _start(self, total: int) -> None:
        from rich import progress

        columns = (
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            getattr(progress, self.column)(),
            progress.TimeRemainingColumn(),
        )
        self.bar = progress.Progress(*columns, console=screen.console(stderr=True), transient=True)
        self.task = self.bar.add_task(self.label, total=total)
        self.bar.start()

    def stop(self) -> None:
        if self.bar is not None:
            self.bar.stop()


# ---------------------------------------------------------------- training


@contextlib.contextmanager
def show_training(quiet: bool, verbose: bool) -> Iterator[Watch | None]:
    """A callback of a training: a live bar on a terminal, else with `verbose` a line for each validation."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        bar = _TrainingBar()
        try:
            yield bar.update
        finally:
            bar.stop()
    else:
        yield _print_validation if verbose else None


def _print_validation(progress: Progress) -> None:
    if progress.validation_loss is None or progress.measure is None:
        return
    total = f" of {progress.total:,}" if progress.total else ""
    rows = [row for row in progress.measure() if row["better"] is not None]
    better = sum(row["better"] > 0 for row in rows)
    result = (
        f"held out {progress.validation_loss.nats:,.2f} nats, {better} of {len(rows)} properties better than a constant"
    )
    network = _name_network(progress, "network {}, ")
    say(f"{network}step {progress.step:,}{total}, {progress.seconds:,.0f} s: {result}")


def _name_network(progress: Progress, template: str) -> str:
    """The template with the number of the network; empty where there is one network."""
    number, members = progress.member
    return template.format(f"{number} of {members}") if members > 1 else ""


class _TrainingBar:
    """A line with a bar, and under it the table of the latest validation. Starts with the first step."""

    def __init__(self) -> None:
        self.live: Any = None
        self.table: Table | None = None
        self.best: float | None = None

    def update(self, progress: Progress) -> None:
        if self.live is None:
            self._start()
        if progress.validation_loss is not None:
            nats = progress.validation_loss.nats
            self.best = nats if self.best is None else min(self.best, nats)
            self.held_out = f"held out {nats:,.2f} nats" + (f", best {self.best:,.2f}" if nats > self.best else "")
        if progress.measure is not None:
            self.table = _build_quality_table(progress.measure())
        network = _name_network(progress, " {}")
        if progress.final_task is not None:
            stage, done, total = progress.final_task
            held_out = "" if self.best is None else self.held_out
            self.bar.update(self.task, completed=done, total=total, description=f"{stage}{network}", held_out=held_out)
            return
        stage = "validating" if progress.ended else f"training{network}"
        self.bar.update(
            self.task, completed=progress.step, total=progress.total, description=stage, held_out=self.held_out
        )

    def stop(self) -> None:
        if self.live is not None:
            self.live.stop()

    def _start(self) -> None:
        from rich.console import Group
        from rich.live import Live
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.held_out = "timing the first steps"
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


def _build_quality_table(rows: list[dict[str, Any]]) -> Table:
    """The properties with the most known values, in the schema's order."""
    from kbdisk.store.card import quality

    shown = {id(row) for row in sorted(rows, key=lambda row: -row["known"])[:MAX_PROPERTIES_SHOWN]}
    table = build_table("property", "metric", ">constant", ">so far", ">better")
    for row, cells in zip(rows, quality({"quality": rows}), strict=True):
        if id(row) in shown:
            colour = "red" if (row["better"] or 0) <= 0 else "green"
            texts = (cells.property, cells.metric, cells.constant, cells.ours)
            table.add_row(*map(Text, texts), Text(cells.better, colour))
    return table
