"""The one door to the terminal: no command writes to standard output or standard error by itself.

say(text)           a line on standard error; data in it cannot break it or steer the terminal
console()           a console of rich that shows every text as printable, and takes no [markup] in data for its own
show(text)          what such a console has made, on standard output
rendered(show)      the same as text
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.loaders.files import standard_output
from kbdisk.printable import in_one_line, printable

if TYPE_CHECKING:
    from rich.console import Console


def say(text: str, *, end: str = "\n") -> None:
    """A line on standard error."""
    click.echo(in_one_line(text) + end, err=True, nl=False)


def say_rendered(text: str) -> None:
    """On standard error, what a console has made."""
    click.echo(text, err=True, nl=False)


def show(text: str) -> None:
    """On standard output, what a console has made."""
    with standard_output(styled=True) as stream:
        stream.write(text.encode(sys.stdout.encoding, "replace"))


def console(*, stderr: bool = False) -> Console:
    """A console whose every text is printable."""
    found: Console = _class()(stderr=stderr, highlight=False, markup=False, emoji=False)
    return found


@cache
def _class() -> Any:
    """The class of our console. Imports rich's only when one is wanted."""
    from rich.console import Console
    from rich.segment import Segment

    class Printable(Console):
        """Escapes where text becomes segments: all that is shown goes by here, and rich's own control codes do not."""

        def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(printable(segment.text), segment.style)

    return Printable
