"""The terminal: no command writes to standard output or standard error in another way.

say(text)           a line on standard error; data in it cannot break it or steer the terminal
console()           a console of rich whose every text is printable; [markup] in data has no effect
show(text)          rendered text on standard output
write_json(data)    plain data as JSON on standard output
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.jsonio import dump_json
from kbdisk.loaders.files import standard_output
from kbdisk.printable import in_one_line, printable

if TYPE_CHECKING:
    from rich.console import Console


def say(text: str, *, end: str = "\n") -> None:
    """A line on standard error."""
    click.echo(in_one_line(text) + end, err=True, nl=False)


def say_rendered(text: str) -> None:
    """Rendered text on standard error."""
    click.echo(text, err=True, nl=False)


def show(text: str) -> None:
    """Rendered text on standard output."""
    with standard_output(styled=True) as stream:
        stream.write(text.encode(sys.stdout.encoding, "replace"))


def write_json(data: Any) -> None:
    """Plain data as JSON on standard output."""
    with standard_output() as stream:
        stream.write(dump_json(data))


def write_lines(lines: Iterable[str]) -> None:
    """Lines on standard output."""
    with standard_output() as stream:
        for line in lines:
            stream.write(line.encode() + b"\n")


def console(*, stderr: bool = False) -> Console:
    """A console whose every text is printable."""
    result: Console = _printable_console()(stderr=stderr, highlight=False, markup=False, emoji=False)
    return result


@cache
def _printable_console() -> Any:
    """The class of our console."""
    from rich.console import Console
    from rich.segment import Segment

    class PrintableConsole(Console):
        """Escapes text where it becomes segments, which every shown text does; rich's own control codes stay."""

        def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(printable(segment.text), segment.style)

    return PrintableConsole
