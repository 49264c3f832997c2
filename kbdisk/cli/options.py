"""How every command names its source: one set of options, and a progress bar where reading takes long."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import rich_click as click

from kbdisk.cli.idle import refuse_idle
from kbdisk.cli.screen import say, say_rendered
from kbdisk.errors import ConfigError, LoadError

if TYPE_CHECKING:
    from kbdisk.entity import Path as EntityPath
    from kbdisk.loaders import KB
    from kbdisk.loaders.files import Progress

PATIENCE = 1.5  # seconds before a progress bar shows
STEP = 0.1  # seconds between its steps

Command = TypeVar("Command", bound=Callable[..., Any])

OPTIONS = [
    click.option("--id", "id", metavar="PATH", help="Where an entity's id stands, such as meta.id."),
    click.option("--items", metavar="PATH", help="Where the list of entities stands in a JSON document, such as data.items."),
    click.option("--base", metavar="IRI", help="Resolves relative IRIs in RDF."),
    click.option(
        "--class", "classes", metavar="CLASS", multiple=True, help="Only entities of this class, by its IRI or its last word. Repeat it for more."
    ),
    click.option("--language", metavar="TAG", default="en", show_default=True, help="Language of the labels."),
    click.option(
        "--context", "contexts", metavar="IRI=FILE", multiple=True, help="A JSON-LD context as a file: contexts are never fetched."
    ),
    click.option("--encoding", metavar="NAME", default="utf-8", show_default=True, help="Encoding of CSV and TSV."),
    click.option("--missing", metavar="TEXT", multiple=True, help="A cell of CSV and TSV that stands for no value, such as x. Repeat it for more. Always: an empty one, nan, NaN, NAN, null, NULL, None, N/A, n/a, #N/A, <NA>; beside numbers alone: NA, na, none, -, --, ?."),
    click.option("--query", metavar="SELECT", help="For an endpoint: a SELECT whose first variable names the entities. @FILE reads it."),
    click.option("--max-size", metavar="SIZE", help="How much a compressed file may unpack to, and an endpoint may send in one answer, such as 20GB, or none.  [default: 1GB, or 100 times its compressed size; 2GB an answer]"),
    click.option("--redirects", is_flag=True, help="For an endpoint: let it send questions on to another host."),
    click.option("--skip-errors", is_flag=True, help="Carry on after what cannot be read, count it, and exit with status 1."),
]  # fmt: skip


def source_options(command: Command) -> Command:
    """The options that say how SOURCE is read."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def refuse_missing(source: str) -> None:
    """LoadError for a file that is not there, before anything is imported that takes seconds. A pipe is left to be read."""
    from kbdisk.loaders.files import Source

    if source != "-" and not source.startswith(("http://", "https://")) and not os.path.exists(source):  # noqa: PTH110
        Source(source)


def open_source(source: str, format: str | None, options: dict[str, Any], progress: Progress | None = None) -> KB:
    """The knowledge base that a command's source and `source_options` name."""
    return open_sources((source,), format, options, progress)[0]


def open_sources(
    sources: Iterable[str], format: str | None, options: dict[str, Any], progress: Progress | None = None
) -> list[KB]:
    """The same of several; ConfigError for an option that none of them heeds."""
    kbs = [_open(source, format, options, progress) for source in sources]
    refuse_idle(kbs)
    return kbs


def _open(source: str, format: str | None, options: dict[str, Any], progress: Progress | None) -> KB:
    import kbdisk
    from kbdisk.loaders.files import read_size
    from kbdisk.loaders.kb import MISSING

    remote = source.startswith(("http://", "https://"))
    if options["query"] and not remote:
        raise ConfigError("--query", "expected an endpoint, http:// or https://, as SOURCE. Leave --query out.")
    with _naming("--from" if "origin" in options else "--format"):
        kb = kbdisk.load(
            source,
            format=format,
            id=options["id"],
            items=options["items"],
            base=options["base"],
            language=options["language"],
            context=dict(_context(text) for text in options["contexts"]),
            encoding=options["encoding"],
            missing={*MISSING, *options["missing"]},
            classes=options["classes"] if remote else (),
            query=_query(options["query"]),
            max_size=read_size(options["max_size"]) if options["max_size"] is not None else None,
            redirects=options["redirects"],
            skip_errors=options["skip_errors"],
            progress=progress,
        )
    if kb.source is not None:
        kb.source.refuse_empty()
    return kb


def only_paths(several: Iterable[str]) -> tuple[EntityPath, ...]:
    """The paths that --only names, with commas between them or each by its own."""
    from kbdisk.entity import read_path

    try:
        return tuple(read_path(text.strip().replace("[]", "")) for together in several for text in together.split(","))
    except ValueError as error:
        raise ConfigError("--only", f"{error}.") from None


def tell_made(count: int) -> None:
    """A line for the values of a source that are kbdisk's own."""
    if count:
        filled = f"{count:,} value{' was' if count == 1 else 's were'} filled in by kbdisk earlier"
        say(f"{filled}: no evidence, and left as {'it is' if count == 1 else 'they are'}")


def named_from(error: LoadError) -> str:
    """What is wrong with SOURCE, in the words of a command whose --format is that of TARGET."""
    return str(error).replace("ay --format", "ay --from")


@contextlib.contextmanager
def _naming(option: str) -> Iterator[None]:
    """Let a complaint about the format that is told of SOURCE name the option that this command has for it."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(option if error.where == "--format" else error.where, error.problem) from None


def _context(text: str) -> tuple[str, bytes]:
    iri, sign, name = text.rpartition("=")
    if not sign:
        raise ConfigError("--context", f"expected IRI=FILE, got {text!r}.")
    return iri, _bytes("--context", name)


def _query(text: str | None) -> str | None:
    if text is None or not text.startswith("@"):
        return text
    try:
        return _bytes("--query", text[1:]).decode()
    except UnicodeDecodeError:
        raise ConfigError("--query", f"expected UTF-8 text in {text[1:]}.") from None


def _bytes(option: str, name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise ConfigError(option, f"{name} cannot be read: {(error.strerror or str(error)).lower()}.") from None


@contextlib.contextmanager
def watching(quiet: bool, doing: str) -> Iterator[Progress | None]:
    """A progress callback that shows a bar once reading takes long; None where nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    bar = _Bar(doing)
    try:
        yield bar.step
    finally:
        bar.stop()


@contextlib.contextmanager
def loading(quiet: bool, doing: str) -> Iterator[None]:
    """A line on a terminal while torch is imported, which takes seconds; it goes when that is done."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    doing = doing[: shutil.get_terminal_size().columns - 1]
    say(doing, end="")
    try:
        yield
    finally:
        say_rendered(f"\r{' ' * len(doing)}\r")


class _Bar:
    """A progress bar that comes up only after a while. Imports rich's only then."""

    def __init__(self, doing: str) -> None:
        self.doing = doing
        self.begun = self.last = time.monotonic()
        self.shown: Any = None

    def step(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.last < STEP or now - self.begun < PATIENCE:
            return
        self.last = now
        if self.shown is None:
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

            from kbdisk.cli import screen

            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                DownloadColumn(),
                TimeRemainingColumn(),
            )
            self.shown = Progress(*columns, console=screen.console(stderr=True), transient=True)
            self.task = self.shown.add_task(self.doing, total=total)
            self.shown.start()
        self.shown.update(self.task, completed=done, total=total)

    def stop(self) -> None:
        if self.shown is not None:
            self.shown.stop()
