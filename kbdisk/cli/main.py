"""The group of all commands, and how a command ends.

A KBDiskError is a user's mistake: one line on standard error, exit status 2. Any other exception is our own mistake and
keeps its traceback. A signal ends a command with the exit status that shells give it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import rich_click as click

from kbdisk.cli.apply import apply
from kbdisk.cli.belief import belief
from kbdisk.cli.complete import complete
from kbdisk.cli.embed import embed
from kbdisk.cli.evaluate import evaluate
from kbdisk.cli.inspect import inspect
from kbdisk.cli.links import links
from kbdisk.cli.retract import retract
from kbdisk.cli.sample import sample
from kbdisk.cli.schema import schema
from kbdisk.cli.screen import say
from kbdisk.cli.show import show
from kbdisk.cli.train import train
from kbdisk.cli.why import why
from kbdisk.cli.write import write
from kbdisk.errors import KBDiskError, KBDiskWarning, messages_for_shell
from kbdisk.loaders.files import standard_output
from kbdisk.printable import in_one_line
from kbdisk.schemas.text.numerals import of_any_length

# Threads that wait must sleep: where other programs use the cores, too, threads that spin make training ten times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

INTERRUPTED, BROKEN_PIPE = 130, 141  # the exit statuses of SIGINT and SIGPIPE in shells
HELP_OPTIONS = {"-h", "--help", "--version"}  # which click answers itself, on standard output


class Commands(click.RichGroup):
    """The group of all commands."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **settings: Any) -> Any:
        """Run a command. Where help cannot be written, that is one line as well."""
        arguments = sys.argv[1:] if args is None else args
        if arguments and HELP_OPTIONS.isdisjoint(arguments):
            return super().main(args, *rest, **settings)
        status: Any = None
        try:
            with standard_output():
                try:
                    status = super().main(args, *rest, **settings)
                except SystemExit as exit_:
                    status = exit_.code
        except KBDiskError as error:
            status = _report_error(error)
        except BrokenPipeError:
            status = _end_unread()
        sys.exit(status)

    def invoke(self, context: click.Context) -> Any:
        """Run a command; its warnings and its errors are one line each on standard error."""
        with warnings.catch_warnings(), of_any_length(), messages_for_shell(), stoppable(), rare_collection():
            warnings.simplefilter("always", KBDiskWarning)
            warnings.showwarning = _WarningLines()
            try:
                super().invoke(context)
            except click.ClickException as error:
                vars(error)["message"] = in_one_line(error.message)  # click declares it final
                raise
            except KBDiskError as error:
                context.exit(_report_error(error))
            except KeyboardInterrupt as error:
                with contextlib.suppress(OSError):  # the terminal may be gone
                    say("interrupted")
                context.exit(128 + error.number if isinstance(error, Stopped) else INTERRUPTED)
            except BrokenPipeError:
                context.exit(_end_unread())


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.rich_config({"text_paragraph_linebreaks": "\n\n"})
@click.version_option(package_name="kbdisk", message="kbdisk %(version)s")
def main() -> None:
    """Completes knowledge bases: RDF, nested JSON, tables.

    \b
    kbdisk inspect kb.ttl                    what is in it, and what is missing
    kbdisk schema infer kb.ttl > kb.yaml     which kind of value stands where
    kbdisk complete kb.ttl --out done.ttl    the same with its gaps filled
    kbdisk why done.ttl --id ID --path P     why a value was filled in
    kbdisk retract done.ttl                  takes filled values out again
    kbdisk links kb.ttl --id ID --path P     the likeliest links of an entity
    kbdisk train kb.ttl --budget 10m         a model that predicts and samples
    kbdisk write kb.ttl --out kb.jsonl       the same in another format
    """


main.add_command(apply)
main.add_command(belief)
main.add_command(embed)
main.add_command(evaluate)
main.add_command(complete)
main.add_command(inspect)
main.add_command(links)
main.add_command(retract)
main.add_command(sample)
main.add_command(schema)
main.add_command(show)
main.add_command(train)
main.add_command(why)
main.add_command(write)


# ---------------------------------------------------------------- errors and warnings


def _report_error(error: KBDiskError) -> int:
    """Write one line on standard error; returns the exit status."""
    _flush_output()
    say(f"error: {error}")
    return 2


def _end_unread() -> int:
    """The exit status where nothing reads standard output any more."""
    _flush_output()
    return BROKEN_PIPE


def _flush_output() -> None:
    """Keep the flush at Python's exit from failing again, where standard output already has."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _WarningLines:
    """Writes each warning once in a command: a source is read several times, with the same warnings every time."""

    def __init__(self) -> None:
        self.written: set[str] = set()

    def __call__(self, message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        name = "warning" if issubclass(category, KBDiskWarning) else category.__name__
        line = in_one_line(f"{name}: {message}") + "\n"
        if line in self.written or sys.stderr is None:
            return
        self.written.add(line)
        sys.stderr.write(line)  # not click's echo, which goes past a live progress bar and into it


# ---------------------------------------------------------------- garbage

RARE_COLLECTION = (50_000, 20, 100)  # thresholds of gc; the usual ones take up to an eighth of a completion


@contextlib.contextmanager
def rare_collection() -> Iterator[None]:
    """Collect garbage rarely: a source is many objects without cycles, and each search for cycles visits all of them."""
    thresholds = gc.get_threshold()
    gc.set_threshold(*RARE_COLLECTION)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


# ---------------------------------------------------------------- signals

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
RESEND_AFTER = 0.05  # seconds until a signal that Python dropped is sent again


class Stopped(KeyboardInterrupt):
    """A signal that ends the program."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Signals raise `Stopped`, so that no half-written file stays; in the main thread alone.

    An ignored signal (nohup) stays ignored. Python drops an exception that is raised in a finalizer or in a callback of C,
    and with it the user's Ctrl-C: such a signal is sent again until it ends the command.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    default_handlers = (signal.SIG_DFL, signal.default_int_handler)
    hook = sys.unraisablehook

    def resend(unraisable: Any) -> None:
        if isinstance(unraisable.exc_value, Stopped):
            threading.Timer(RESEND_AFTER, os.kill, (os.getpid(), unraisable.exc_value.number)).start()
        else:
            hook(unraisable)

    try:
        sys.unraisablehook = resend
        for number in numbers:
            if before[number] in default_handlers:
                signal.signal(number, _raise_stopped)
        yield
    finally:
        for number in numbers:
            if before[number] in default_handlers:
                signal.signal(number, before[number])
        sys.unraisablehook = hook


def _raise_stopped(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)
