"""The command line. A command parses, calls the library, prints; heavy imports wait inside the commands.

One place shows errors: a KBDiskError is a user's mistake and becomes one line and exit status 2. Any other
exception is our own mistake and keeps its traceback.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import rich_click as click

from kbdisk.cli.apply import apply
from kbdisk.cli.belief import belief
from kbdisk.cli.complete import complete
from kbdisk.cli.evaluate import evaluate
from kbdisk.cli.inspect import inspect
from kbdisk.cli.retract import retract
from kbdisk.cli.sample import sample
from kbdisk.cli.schema import schema
from kbdisk.cli.screen import say
from kbdisk.cli.show import show
from kbdisk.cli.signals import Stopped, stoppable
from kbdisk.cli.sources import named_from
from kbdisk.cli.train import train
from kbdisk.cli.why import why
from kbdisk.cli.write import write
from kbdisk.errors import KBDiskError, KBDiskWarning, LoadError
from kbdisk.loaders.files import standard_output
from kbdisk.printable import in_one_line
from kbdisk.schemas.text.numerals import of_any_length

# Threads that wait must sleep: where other programs use the cores, too, threads that spin make training ten times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

SWITCH = re.compile(r"\b(force|in_place|insert|resume)=True\b")
INTERRUPTED, BROKEN_PIPE = 130, 141  # what a shell says of SIGINT and SIGPIPE
ANSWERS = {"-h", "--help", "--version"}  # what click itself answers, on standard output


class Commands(click.RichGroup):
    """The group of all commands."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **settings: Any) -> Any:
        """Run what is asked for; help, too, is told in one line where it cannot be written."""
        asked = sys.argv[1:] if args is None else args
        if asked and ANSWERS.isdisjoint(asked):
            return super().main(args, *rest, **settings)
        status: Any = None
        try:
            with standard_output():
                try:
                    status = super().main(args, *rest, **settings)
                except SystemExit as ended:
                    status = ended.code
        except KBDiskError as error:
            status = _told(error)
        except BrokenPipeError:
            status = _unread()
        sys.exit(status)

    def invoke(self, context: click.Context) -> Any:
        """Run a command; its warnings and its errors are one line each on standard error."""
        with warnings.catch_warnings(), of_any_length(), stoppable():
            warnings.simplefilter("always", KBDiskWarning)
            warnings.showwarning = _Shown()
            try:
                super().invoke(context)
            except click.ClickException as error:
                vars(error)["message"] = in_one_line(error.message)  # click calls it final
                raise
            except KBDiskError as error:
                context.exit(_told(error, self.commands.get(context.invoked_subcommand or "")))
            except KeyboardInterrupt as error:
                with contextlib.suppress(OSError):  # the terminal may be gone
                    say("interrupted")
                context.exit(128 + error.number if isinstance(error, Stopped) else INTERRUPTED)
            except BrokenPipeError:
                context.exit(_unread())


def as_options(text: str) -> str:
    """What the library says to a program, to whom sits at a shell: in_place=True is --in-place there."""
    return SWITCH.sub(lambda match: f"--{match[1].replace('_', '-')}", text)


def _told(error: KBDiskError, command: click.Command | None = None) -> int:
    """One line on standard error, in the words of the command; the exit status."""
    _quieted()
    has_from = command is not None and any(one.name == "origin" for one in command.params)
    text = named_from(error) if has_from and isinstance(error, LoadError) else str(error)
    say(f"error: {as_options(text)}")
    return 2


def _unread() -> int:
    """The exit status where nobody reads standard output any more."""
    _quieted()
    return BROKEN_PIPE


def _quieted() -> None:
    """Let the flush at the end of Python not fail again, where standard output already has."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Shown:
    """Shows warnings, each once in a command: a source is read several times, and is as odd every time."""

    def __init__(self) -> None:
        self.told: set[str] = set()

    def __call__(self, message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        name = "warning" if issubclass(category, KBDiskWarning) else category.__name__
        line = in_one_line(f"{name}: {message}") + "\n"
        if line in self.told or sys.stderr is None:
            return
        self.told.add(line)
        sys.stderr.write(line)  # not click's echo: it goes past a progress bar that is up, and into it


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.rich_config({"text_paragraph_linebreaks": "\n\n"})
@click.version_option(package_name="kbdisk", message="kbdisk %(version)s")
def main() -> None:
    """Completes knowledge bases: RDF, nested JSON, tables.

    \b
    kbdisk inspect kb.ttl                    what is in it, and what is missing
    kbdisk schema infer kb.ttl > kb.yaml     what kind of value stands where
    kbdisk complete kb.ttl --out done.ttl    the same with its gaps filled
    kbdisk why done.ttl --id ID --path P     why a value was filled in
    kbdisk retract done.ttl                  as it was before
    kbdisk train kb.ttl --budget 10m         a model that fills, samples, tells
    kbdisk write kb.ttl --out kb.jsonl       the same in another format
    """


main.add_command(apply)
main.add_command(belief)
main.add_command(evaluate)
main.add_command(complete)
main.add_command(inspect)
main.add_command(retract)
main.add_command(sample)
main.add_command(schema)
main.add_command(show)
main.add_command(train)
main.add_command(why)
main.add_command(write)
