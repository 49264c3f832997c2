"""Drift: what in a source is unlike what a model learnt from, as a table at 80 columns, and as lines before a training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from rich.text import Text

from kbdisk.cli.tables import GAP, build_table, counted, given_number_text, value_text

if TYPE_CHECKING:
    from rich.console import Console

    from kbdisk.api.source import LoadedSource
    from kbdisk.data.parse import Reading
    from kbdisk.entity import Entity
    from kbdisk.evaluation.drift import Drift, Row
    from kbdisk.schemas.schema import Schema

TITLE = "unlike what the model learnt from"
MAX_ROWS_SHOWN, MAX_MISFIT_LINES = 12, 5
MAX_CHECKED = 50_000  # entities whose values are checked against a schema
MAX_EXAMPLE_LENGTH = 18  # characters of an example in the table
SINGULAR, PLURAL = ("value", "does not fit", "it is"), ("values", "do not fit", "they are")


def show_drift(console: Console, drift: Drift) -> None:
    """The table with its title; nothing where there is no drift."""
    rows = drift.rows()
    if not rows:
        return
    shown = rows[:MAX_ROWS_SHOWN]
    console.print(Text(TITLE, "bold"))
    has_classes = len({row.class_name for row in rows if row.path}) > 1
    names = [_name_property(row, has_classes) for row in shown]
    counts = [f"{row.count:,} of {drift.total(row):,}" for row in shown]
    table = build_table("property", "what", ">count", "such as", "learnt")
    table.columns[0].width = min(max([8, *map(len, names)]), max(console.width * 3 // 10, 8))
    table.columns[1].width = max(len(row.what) for row in shown)
    fixed = table.columns[0].width + table.columns[1].width + max([5, *map(len, counts)]) + 3 * GAP
    table.columns[3].width = max((console.width - fixed - GAP) * 11 // 20, 7)
    for row, name, count in zip(shown, names, counts, strict=True):
        table.add_row(Text(name, "green"), row.what, count, Text(_examples_text(row)), Text(_learnt_text(row.learnt)))
    console.print(table)
    if len(rows) > MAX_ROWS_SHOWN:
        more = counted(len(rows) - MAX_ROWS_SHOWN, "more row", "more rows")
        console.print(Text(f"and {more}: --json has them", "dim"), soft_wrap=True)


def checked_entities(loaded: LoadedSource, schema: Schema) -> tuple[Iterable[Entity | Reading], str]:
    """The entities whose values are checked against a schema, the first of a large source, and what lines about them call it."""
    if len(loaded.entities) <= MAX_CHECKED:
        return loaded.readings(schema), loaded.name
    return islice(loaded.entities, MAX_CHECKED), f"{loaded.name} (its first {MAX_CHECKED:,} entities)"


def misfit_lines(schema: Schema, entities: Iterable[Entity | Reading], source: str) -> Iterator[str]:
    """The values of a source that a given schema refuses, and that training leaves out: the most frequent first."""
    return _misfit_lines(_drift_rows(schema, entities), schema, source)


def too_large_lines(schema: Schema, entities: Iterable[Entity | Reading], source: str) -> Iterator[str]:
    """The same for an inferred schema, which refuses numbers alone that are too large to compute with."""
    from kbdisk.schemas.kinds import TOO_LARGE

    rows = _drift_rows(schema, entities)
    too_large = [row for row in rows if row.learnt.get("schema") == TOO_LARGE.removeprefix("expected ")]
    return _misfit_lines(too_large, schema, source)


def _drift_rows(schema: Schema, entities: Iterable[Entity | Reading]) -> list[Row]:
    from kbdisk.data.parse import read_all
    from kbdisk.evaluation.drift import Drift

    drift = Drift(schema)
    for reading in read_all(schema, entities):
        drift.take(reading.entity, reading)
    return drift.rows()


def _misfit_lines(rows: Sequence[Row], schema: Schema, source: str) -> Iterator[str]:
    rows = sorted(rows, key=lambda row: -row.count)
    for row in rows[:MAX_MISFIT_LINES]:
        value, fit, are = SINGULAR if row.count == 1 else PLURAL
        name = _name_property(row, len(schema.classes) > 1)
        problem = f"expected {row.learnt.get('schema', 'other values')}"
        yield f"{source}: {row.count:,} {value} of {name} {fit} the schema ({problem}): {are} left out"
    if rows[MAX_MISFIT_LINES:]:
        yield f"{source}: and values of {len(rows) - MAX_MISFIT_LINES:,} more properties"
    if rows:
        yield "kbdisk schema check lists all that does not fit"


def _name_property(row: Row, has_classes: bool) -> str:
    if not row.path:
        return row.class_name or "(no class)"
    return f"{row.class_name}.{row.path}" if has_classes and row.class_name else row.path


def _examples_text(row: Row) -> str:
    """The first different values, or for a class the entities; dots where there are more."""
    from kbdisk.evaluation.drift import MAX_EXAMPLES

    values = [value_text(example.id if example.value is None else example.value) for example in row.examples]
    texts = [text if len(text) <= MAX_EXAMPLE_LENGTH else f"{text[: MAX_EXAMPLE_LENGTH - 1]}…" for text in values]
    return ", ".join(texts) + (" …" if len(texts) == MAX_EXAMPLES and row.count > MAX_EXAMPLES else "")


def _learnt_text(learnt: dict[str, Any]) -> str:
    """What training had instead, in few words."""
    match learnt:
        case {"labels": count}:
            return counted(count, "label", "labels")
        case {"range": [low, high]}:
            return f"{given_number_text(low)} … {given_number_text(high)}"
        case {"items": count}:
            return f"at most {counted(count, 'item', 'items')}"
        case {"schema": expected}:
            return str(expected)
        case {"near": path}:
            return f"is it {path}?"
    return "nothing"
