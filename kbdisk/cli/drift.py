"""What in a source is unlike what a model learnt from: a table at 80 columns, and lines before a training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli.tables import GAP, counted, table_of
from kbdisk.cli.values import shown, shown_number

if TYPE_CHECKING:
    from rich.console import Console

    from kbdisk.entity import Entity
    from kbdisk.evaluation.drift import Drift, Row
    from kbdisk.schemas.schema import Schema

TITLE = "unlike what the model learnt from"
MAX_ROWS_SHOWN, MAX_LINES = 12, 5
SHORT = 18  # characters of an example in the table
ONE, SEVERAL = ("value", "does not fit", "it is"), ("values", "do not fit", "they are")

strict_option = click.option(
    "--strict",
    is_flag=True,
    help=f"Exit with status 1 where something is {TITLE}. Everything else, such as writing, is done as without this option.",
)


def show_drift(console: Console, drift: Drift) -> None:
    """The table, with its title; nothing where there is no drift."""
    from rich.text import Text

    rows = drift.rows()
    if not rows:
        return
    console.print(Text(TITLE, "bold"))
    several = len({row.of for row in rows if row.path}) > 1
    names = [_name(row, several) for row in rows[:MAX_ROWS_SHOWN]]
    counts = [f"{row.count:,} of {drift.total(row):,}" for row in rows[:MAX_ROWS_SHOWN]]
    table = table_of("property", "what", ">count", "such as", "learnt")
    table.columns[0].width = min(max([8, *map(len, names)]), max(console.width * 3 // 10, 8))
    table.columns[1].width = max(len(row.what) for row in rows[:MAX_ROWS_SHOWN])
    fixed = table.columns[0].width + table.columns[1].width + max([5, *map(len, counts)]) + 3 * GAP
    table.columns[3].width = max((console.width - fixed - GAP) * 11 // 20, 7)
    for row, name, count in zip(rows, names, counts, strict=False):
        table.add_row(Text(name, "green"), row.what, count, Text(_examples(row)), Text(_learnt(row.learnt)))
    console.print(table)
    if len(rows) > MAX_ROWS_SHOWN:
        more = counted(len(rows) - MAX_ROWS_SHOWN, "more row", "more rows")
        console.print(Text(f"and {more}: --json has them", "dim"), soft_wrap=True)


def misfit_lines(schema: Schema, entities: Iterable[Entity], source: str) -> Iterator[str]:
    """What a schema refuses in a source that is to be learnt from: the worst first, before it is lost."""
    from kbdisk.evaluation.drift import Drift

    drift = Drift(schema)
    for entity in entities:
        drift.take(entity)
    return _misfit_lines(drift.rows(), schema, source)


def too_large_lines(schema: Schema, entities: Iterable[Entity], source: str) -> Iterator[str]:
    """The same where the schema was inferred, which fits all but a few values: numbers too large to compute with."""
    from kbdisk.evaluation.drift import Drift
    from kbdisk.schemas.kinds import TOO_LARGE

    drift = Drift(schema)
    for entity in entities:
        drift.take(entity)
    rows = [row for row in drift.rows() if row.learnt.get("schema") == TOO_LARGE.removeprefix("expected ")]
    return _misfit_lines(rows, schema, source)


def _misfit_lines(rows: Sequence[Row], schema: Schema, source: str) -> Iterator[str]:
    rows = sorted(rows, key=lambda row: -row.count)
    for row in rows[:MAX_LINES]:
        value, fit, are = ONE if row.count == 1 else SEVERAL
        name = _name(row, len(schema.classes) > 1)
        problem = f"expected {row.learnt.get('schema', 'other values')}"
        yield f"{source}: {row.count:,} {value} of {name} {fit} the schema ({problem}): {are} left out"
    if rows[MAX_LINES:]:
        yield f"{source}: and values of {len(rows) - MAX_LINES:,} more properties"
    if rows:
        yield "kbdisk schema check tells all that does not fit"


def _name(row: Row, several: bool) -> str:
    if not row.path:
        return row.of or "(no class)"
    return f"{row.of}.{row.path}" if several and row.of else row.path


def _examples(row: Row) -> str:
    """The first different values, or for a class the entities; dots where there are more."""
    from kbdisk.evaluation.drift import MAX_EXAMPLES

    values = [shown(example.id if example.value is None else example.value) for example in row.examples]
    texts = [text if len(text) <= SHORT else f"{text[: SHORT - 1]}…" for text in values]
    return ", ".join(texts) + (" …" if len(texts) == MAX_EXAMPLES and row.count > MAX_EXAMPLES else "")


def _learnt(learnt: dict[str, Any]) -> str:
    """What training had instead, in few words."""
    match learnt:
        case {"labels": count}:
            return counted(count, "label", "labels")
        case {"range": [low, high]}:
            return f"{shown_number(low)} … {shown_number(high)}"
        case {"items": count}:
            return f"at most {counted(count, 'item', 'items')}"
        case {"schema": expected}:
            return str(expected)
        case {"near": path}:
            return f"is it {path}?"
    return "nothing"
