"""What a completion came to, as a table that reads well at 80 columns, as JSON, and value by value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbdisk.cli.tables import counted, short_names, table_of
from kbdisk.cli.values import shown, shown_number
from kbdisk.loaders.tagged import decode
from kbdisk.schemas.composites import show_pattern

if TYPE_CHECKING:
    from rich.console import Console

    from kbdisk.completion.summary import Row, Summary

WIDE = 100  # columns from which the constant's error has a place


def as_json(told: Mapping[str, Any], summary: Summary, values: Sequence[Mapping[str, Any]] | None) -> bytes:
    """One JSON object."""
    import orjson

    data = {**told, **summary.to_json()} | ({} if values is None else {"values": values})
    return orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def listed(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each value: of whom, where, what, and how sure."""
    for row in rows:
        value = shown(decode({"value": row["value"]})["value"])
        bounds = row["interval"]
        between = f"  {shown_number(bounds[0])} … {shown_number(bounds[1])}" if isinstance(bounds, list) else ""
        yield f"{row['id']}  {row['path']}  {value}  {100 * row['confidence']:.0f} %{between}"


def as_tables(told: Mapping[str, Any], summary: Summary) -> str:
    """The summary for standard error."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    with console.capture() as captured:
        _show(console, told, summary)
    return "\n".join(line.rstrip() for line in captured.get().split("\n"))


def _show(console: Console, told: Mapping[str, Any], summary: Summary) -> None:
    from rich.text import Text

    rows = summary.shown()
    names = short_names({row.of for row in rows})
    widest = max((len(show_pattern(row.path)) for row in rows), default=0)
    classes = dict.fromkeys(row.of for row in rows)
    for of in classes:
        console.print()
        if len(classes) > 1 or of:
            console.print(Text(names[of], "bold cyan"))
        console.print(_table(console, [row for row in rows if row.of == of], widest))
    if rows:
        console.print()
    console.print(Text(_outcome(told, summary)), soft_wrap=True)


def _table(console: Console, rows: Sequence[Row], widest: int) -> Any:
    from rich.text import Text

    wide = console.width >= WIDE
    constant = [">constant"] if wide else []
    table = table_of("property", ">missing", ">filled", ">expected error", *constant, ">sure", "held back")
    table.columns[0].width = max(min(widest, console.width * 3 // 10), len("property"))
    for row in rows:
        cells: list[Any] = [
            Text(show_pattern(row.path), "green"),
            f"{row.missing:,}",
            f"{row.filled:,}" if row.filled else "",
        ]
        cells.append(_error(row) if row.filled else "")
        cells += [_number(row, "constant") if row.filled else ""] * wide
        cells.append("" if row.confidence is None else f"{100 * row.confidence:.0f} %")
        table.add_row(*cells, Text(_held(row)))
    return table


def _held(row: Row) -> str:
    """Why gaps stay: how many of each reason, where not all have the same."""
    if len(row.held) == 1 and not row.filled:
        return next(iter(row.held))
    return "; ".join(f"{count:,}: {why}" for why, count in row.held.most_common())


def _error(row: Row) -> str:
    """What to expect of a value, as it was on what was held out; of a part, which one."""
    if not row.told or row.told["ours"] is None:
        return "not measured"
    part = row.told["path"].removeprefix(show_pattern(row.path)).removeprefix(".")
    of = f" of {part}" if part not in ("", "value", "year") else ""
    return f"{_number(row, 'ours')} {'wrong' if row.told['metric'] == 'error rate' else row.told['metric']}{of}"


def _number(row: Row, key: str) -> str:
    error = row.told.get(key)
    if error is None:
        return ""
    if row.told["metric"] == "error rate":
        return f"{100 * error:.0f} %"
    unit = f" {row.unit}" if row.unit and row.told["path"].endswith("value") else ""
    return f"{error:,.3g}{unit}" if error < 1000 else f"{error:,.0f}{unit}"


def _outcome(told: Mapping[str, Any], summary: Summary) -> str:
    """The last line."""
    values = f"{counted(summary.filled, 'gap', 'gaps')} of {summary.missing:,} filled"
    if told["target"] is None:
        return f"nothing was written: {values} in a dry run"
    where = "standard output" if told["target"] == "-" else told["target"]
    model = f", by the model in {told['model']}" if told["model"] else ""
    return f"wrote {where}: {values}{model}"
