"""Values as short text, for people."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from kbdisk.entity import Coordinate, Date, Known, Link, Quantity, Text
from kbdisk.schemas.text.dates import show_day

LONG = 60  # characters of a value


def shown(value: Any) -> str:
    """A value as short text."""
    match value:
        case Link(id):
            text = id
        case Text(words, language):
            text = f"{words} @{language}"
        case Quantity(number, unit):
            text = f"{'?' if number is None else number} {unit or ''}".rstrip()
        case Coordinate(latitude, longitude):
            text = f"{latitude}, {longitude}"
        case Date():
            text = shown_date(value)
        case Known():
            text = value.value
        case bool():
            text = "true" if value else "false"
        case _:
            text = str(value)
    text = " ".join(text.split())
    return text if len(text) <= LONG else text[: LONG - 1] + "…"


def shown_date(date: Date) -> str:
    """A date as ISO 8601 writes it, with its precision where that is not told by the parts."""
    precise = f" ({date.precision})" if date.precision not in ("", "day", "month", "year", "second") else ""
    return show_day(date) + date.time + date.note + precise


def shown_number(value: Any) -> str:
    """A number in few characters."""
    text = str(value)
    return text if len(text) <= 12 else f"{Decimal(value) if isinstance(value, int) else value:.6g}"
