"""What all tables have in common: the table itself, counts and shares, and values as short text."""

from __future__ import annotations

from contextlib import nullcontext
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kbdisk import entity
from kbdisk.cli import screen
from kbdisk.entity import Coordinate, Date, Known, Link, Quantity
from kbdisk.loaders.files import standard_output
from kbdisk.schemas.text.dates import show_day
from kbdisk.schemas.text.names import last_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

GAP = 2  # columns of a terminal between those of a table
MAX_VALUE_LENGTH = 60  # characters of a value
MAX_NUMBER_LENGTH = 12  # characters of a number
UNNAMED, OUTSIDE = "(no class)", "(not in the source)"

# ---------------------------------------------------------------- tables


def render(show: Callable[[Console], None], *, stderr: bool = False) -> str:
    """What a function shows on a console as text, without blanks at the ends of lines."""
    console = screen.console(stderr=stderr)
    # A capture writes nothing, and can fail all the same where standard output is closed.
    with nullcontext() if stderr else standard_output(), console.capture() as captured:
        show(console)
    return "\n".join(line.rstrip() for line in captured.get().split("\n"))


def build_table(*columns: str) -> Table:
    """A table without lines; a column whose name begins with > is aligned right."""
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    for name in columns:
        is_right = name[0] == ">"
        table.add_column(name.lstrip(">"), justify="right" if is_right else "left", overflow="fold", no_wrap=is_right)
    return table


def show_pairs(console: Console, pairs: Mapping[str, str]) -> None:
    """Names with their values."""
    table = build_table("name", "value")
    table.show_header = False
    for name, value in pairs.items():
        table.add_row(Text(name, "dim"), Text(value))
    console.print(table)


def show_rest(console: Console, count: int, limit: int | None, what: str) -> None:
    """A line for the rows beyond a limit."""
    if limit is not None and count > limit:
        console.print(Text(f"and {count - limit:,} more {what}: --all shows them, --json has them", "dim"))


def short_names(classes: Iterable[str]) -> dict[str | None, str]:
    """Each class by the last word of its IRI; by the whole IRI where two share that word."""
    by_word: dict[str, list[str]] = {}
    for name in classes:
        by_word.setdefault(last_word(name), []).append(name)
    short: dict[str | None, str] = {
        name: word if len(names) == 1 else name for word, names in by_word.items() for name in names
    }
    return short | {"": UNNAMED, None: OUTSIDE}


# ---------------------------------------------------------------- counts and shares


def counted(number: int, singular: str, plural: str) -> str:
    """A count with its noun: `1 entity`, `1,064 entities`."""
    return f"{number:,} {singular if number == 1 else plural}"


def whole_percent(part: int, total: int) -> str:
    """A share of counts in percent: 100 % only of all, and 0 % only of none."""
    if not total:
        return "0 %"
    share = 100 * part / total
    if 0 < share < 1:
        return "<1 %"
    return f"{min(round(share), 99) if part < total else 100} %"


def percent(share: float) -> str:
    """A probability in percent, with more digits near its ends."""
    percent = 100 * share
    if 0 < percent < 0.1:
        return "<0.1 %"
    if 99.9 < percent < 100:
        return ">99.9 %"
    return f"{percent:.0f} %" if 10 <= percent <= 90 or percent in (0, 100) else f"{percent:.1f} %"


# ---------------------------------------------------------------- values


def value_text(value: Any) -> str:
    """A given value as short text."""
    match value:
        case Link(id):
            text = id
        case entity.Text(words, language):
            text = f"{words} @{language}"
        case Quantity(number, unit):
            text = f"{'?' if number is None else number} {unit or ''}".rstrip()
        case Coordinate(latitude, longitude):
            text = f"{latitude}, {longitude}"
        case Date():
            text = date_text(value)
        case Known():
            text = value.value
        case bool():
            text = "true" if value else "false"
        case _:
            text = str(value)
    text = " ".join(text.split())
    return text if len(text) <= MAX_VALUE_LENGTH else text[: MAX_VALUE_LENGTH - 1] + "…"


def date_text(date: Date) -> str:
    """A date as ISO 8601, with its precision where its parts do not imply it."""
    precision = f" ({date.precision})" if date.precision not in ("", "day", "month", "year", "second") else ""
    return show_day(date) + date.time + date.note + precision


def given_number_text(value: Any) -> str:
    """A given number in few characters, with all its digits where there is room."""
    text = str(value)
    if len(text) <= MAX_NUMBER_LENGTH:
        return text
    return f"{Decimal(value) if isinstance(value, int) else value:.6g}"


def predicted_text(value: Any) -> str:
    """A predicted value as short text: numbers rounded, sets in braces."""
    if isinstance(value, list | set | frozenset):
        return "{" + ", ".join(map(value_text, value)) + "}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number_text(value)
    return "".join(letter if letter.isprintable() else "�" for letter in value_text(value)) or '""'


def number_text(value: Any) -> str:
    """A predicted number in few characters."""
    if value is None:
        return "?"
    if float(value) == int(value) and abs(value) < 1e12:
        return str(int(value))
    return f"{float(value):.4g}" if abs(value) < 1e4 else f"{float(value):.0f}" if abs(value) < 1e9 else f"{value:.4g}"
