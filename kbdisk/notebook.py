"""Tables for notebooks: the HTML that `_repr_html_` of public classes returns. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MAX_ROWS_SHOWN = 60


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> str:
    """A table with a caption, and a note below it. A column whose name begins with > is aligned right."""
    alignments = ["right" if name.startswith(">") else "left" for name in columns]
    head = _row("th", [name.removeprefix(">") for name in columns], alignments)
    all_rows = list(rows)
    body = "".join(_row("td", row, alignments) for row in all_rows[:MAX_ROWS_SHOWN])
    rest = f"and {len(all_rows) - MAX_ROWS_SHOWN:,} more" if len(all_rows) > MAX_ROWS_SHOWN else ""
    notes = "".join(f"<div>{escape(text)}</div>" for text in (rest, note) if text)
    return (
        f"<div><strong>{escape(caption)}</strong><table><thead>{head}</thead><tbody>{body}</tbody></table>{notes}</div>"
    )


def html_line(text: str) -> str:
    """A line of text in the place of a table."""
    return f"<div>{escape(text)}</div>"


def _row(tag: str, cells: Sequence[object], alignments: Sequence[str]) -> str:
    parts = (
        f'<{tag} style="text-align:{alignment}">{escape(str(cell))}</{tag}>'
        for cell, alignment in zip(cells, alignments, strict=True)
    )
    return f"<tr>{''.join(parts)}</tr>"
