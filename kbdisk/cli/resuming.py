"""What is said of a command that was stopped and can go on: how to go on."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator

import rich_click as click

from kbdisk.cli.idle import on_command_line
from kbdisk.cli.screen import say


@contextlib.contextmanager
def resumable(context: click.Context) -> Iterator[None]:
    """Where training was stopped by a signal and is kept, say how to go on and exit as shells do; see `Interrupted`."""
    try:
        yield
    except KeyboardInterrupt as error:
        number = getattr(error, "signal", None)
        if number is None:
            raise
        say(str(error))
        say(f"Go on with: {said_again(context)}")
        context.exit(128 + number)


def said_again(context: click.Context) -> str:
    """The command as it was said, with --resume where it has that."""
    arguments: list[str] = []
    options: list[str] = []
    told = on_command_line(context)
    for parameter in context.command.params:
        name = parameter.name or ""
        if name == "resume":
            options.append("--resume")
        elif name in told:
            value = context.params[name]
            several = list(value) if isinstance(value, tuple) else [value]
            if isinstance(parameter, click.Argument):
                arguments += several
            elif getattr(parameter, "is_flag", False):
                options.append(parameter.opts[-1])
            else:
                options += [part for one in several for part in (parameter.opts[-1], str(one))]
    return shlex.join(["kbdisk", context.info_name or "", *arguments, *options])
