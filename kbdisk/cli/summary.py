"""What a completion came to, as a table that reads well at 80 columns, as JSON, and value by value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbdisk.cli.drift import show_drift
from kbdisk.cli.tables import GAP, counted, short_names, table_of
from kbdisk.cli.values import shown, shown_number
from kbdisk.jsonio import dump_json
from kbdisk.loaders.values.tagged_json import decode
from kbdisk.schemas.composites import show_pattern
from kbdisk.schemas.text.units import shown_unit

if TYPE_CHECKING:
    from rich.console import Console

    from kbdisk.completion.summary import Row, Summary
    from kbdisk.entity import Path
    from kbdisk.evaluation.drift import Drift

WIDE = 100  # columns of a terminal, below which what is held back stands in a table of its own
NAMED = 3  # properties, of those that nothing is said of
NOT_LEARNT, LEFT_OUT = "what is learnt only where --only names it", "what the schema leaves out"
LARGE = 1e9  # errors from here on are told in powers of ten
RULES_SHOWN = 10
LEAST = 12  # columns for the names of properties


def as_json(told: Mapping[str, Any], summary: Summary, values: Sequence[Mapping[str, Any]] | None) -> bytes:
    """One JSON object."""
    data = {**told, **summary.to_json()} | ({} if values is None else {"values": values})
    return dump_json(data)


def listed(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each value: of whom, where, what, and how sure."""
    for row in rows:
        value = shown(decode({"value": row["value"]})["value"])
        bounds = row["interval"]
        between = f"  {shown_number(bounds[0])} … {shown_number(bounds[1])}" if isinstance(bounds, list) else ""
        yield f"{row['id']}  {row['path']}  {value}  {100 * row['confidence']:.0f} %{between}"


def as_tables(told: Mapping[str, Any], summary: Summary, drift: Drift | None = None) -> str:
    """The summary for standard error."""
    from kbdisk.cli import screen

    console = screen.console(stderr=True)
    with console.capture() as captured:
        _show(console, told, summary, drift)
    return "\n".join(line.rstrip() for line in captured.get().split("\n"))


def _show(console: Console, told: Mapping[str, Any], summary: Summary, drift: Drift | None) -> None:
    from rich.text import Text

    rows = summary.shown()
    names = short_names({row.class_name for row in rows})
    widest = max((len(show_pattern(row.path)) for row in rows), default=0)
    classes = dict.fromkeys(row.class_name for row in rows)
    for of in classes:
        console.print()
        if len(classes) > 1 or of:
            console.print(Text(names[of], "bold cyan"))
        own = [row for row in rows if row.class_name == of]
        console.print(_table(console, own, widest))
        if console.width < WIDE and any(row.held_back for row in own):
            console.print()
            console.print(_held_back(console, own))
    if rows:
        console.print()
    for line in _rules_used(rows):
        console.print(Text(line), soft_wrap=True)
    if drift:
        show_drift(console, drift)
        console.print()
    if drift is not None and summary.unlike:
        console.print(Text(_unlike(summary)), soft_wrap=True)
    for gaps, what in ((summary.ignored, NOT_LEARNT), (summary.left_out, LEFT_OUT)):
        if gaps:
            console.print(Text(_besides(gaps, what)), soft_wrap=True)
    _show_thresholds(console, summary)
    console.print(Text(_outcome(told, summary)), soft_wrap=True)


def _show_thresholds(console: Console, summary: Summary) -> None:
    """What other thresholds would write, each with its measured precision."""
    from rich.text import Text

    if summary.measured is None:
        return
    if summary.measured.written is not None:
        right = f"{100 * summary.measured.written:.0f} %"
        console.print(Text(f"of held-out values with such a confidence {right} were right"), soft_wrap=True)
    table = table_of("minimum confidence", ">values", ">right on held-out values")
    for row in summary.thresholds():
        name = "none" if row["threshold"] is None else f"{row['threshold']:g}"
        table.add_row(name, f"{row['values']:,}", "" if row["precision"] is None else f"{100 * row['precision']:.0f} %")
    console.print()
    console.print(table)
    console.print()


def _table(console: Console, rows: Sequence[Row], widest: int) -> Any:
    from rich.text import Text

    wide = console.width >= WIDE
    names = ["missing", "filled", "expected error", "constant", "sure"]
    figures = [_figures(row) for row in rows]
    needed = [max(map(len, column)) + GAP for column in zip(names, *figures, strict=True)]
    shown = len(names) if console.width - sum(needed) >= LEAST else len(names) - 1  # few columns: not how sure
    room = max(console.width - sum(needed[:shown]), len("property"))
    table = table_of("property", *(f">{name}" for name in names[:shown]), *["held back"] * wide)
    table.columns[0].width = max(min(widest, console.width * 3 // 10, room), len("property"))
    for row, cells in zip(rows, figures, strict=True):
        path = Text(show_pattern(row.path), "green")
        table.add_row(path, *cells[:shown], *[Text(_held(row))] * wide)
    return table


def _figures(row: Row) -> list[str]:
    """What stands in the columns of numbers."""
    filled = [f"{row.filled:,}", _error(row), _number(row, "constant")] if row.filled else [""] * 3
    return [f"{row.missing:,}", *filled, "" if row.confidence is None else f"{100 * row.confidence:.0f} %"]


def _held_back(console: Console, rows: Sequence[Row]) -> Any:
    """Why gaps stay, where the table of properties has no room for it: each reason with how many of what."""
    from rich.text import Text

    reasons: dict[str, list[str]] = {}
    for row in rows:
        for why, count in row.held_back.most_common():
            reasons.setdefault(why, []).append(f"{count:,} of {show_pattern(row.path)}")
    table = table_of("held back", "how many")
    table.columns[0].width = min(max(map(len, ["held back", *reasons])), console.width * 2 // 5)
    for why, several in reasons.items():
        table.add_row(Text(why), Text(", ".join(several)))
    return table


def _held(row: Row) -> str:
    """Why gaps stay: how many of each reason, where not all have the same."""
    if len(row.held_back) == 1 and not row.filled:
        return next(iter(row.held_back))
    return "; ".join(f"{count:,}: {why}" for why, count in row.held_back.most_common())


def _error(row: Row) -> str:
    """What to expect of a value, as it was on what was held out; of a part, which one; or that rules gave all."""
    if row.by_rule.total() == row.filled:
        return "by rule"
    if not row.held_out_quality or row.held_out_quality["ours"] is None:
        return "not measured"
    part = row.held_out_quality["path"].removeprefix(show_pattern(row.path)).removeprefix(".")
    of = f" of {part}" if part not in ("", "value", "year") else ""
    return f"{_number(row, 'ours')} {'wrong' if row.held_out_quality['metric'] == 'error rate' else row.held_out_quality['metric']}{of}"


def _number(row: Row, key: str) -> str:
    error = row.held_out_quality.get(key)
    if error is None:
        return ""
    if row.held_out_quality["metric"] == "error rate":
        return f"{100 * error:.0f} %"
    unit = f" {shown_unit(row.unit)}" if row.unit and row.held_out_quality["path"].endswith("value") else ""
    return f"{error:.3g}{unit}" if error < 1000 or error >= LARGE else f"{error:,.0f}{unit}"


def _rules_used(rows: Sequence[Row]) -> Iterator[str]:
    """How many values the rules gave, each with its formula; the most used first."""
    used: Counter[str] = Counter()
    for row in rows:
        used.update(row.by_rule)
    for rule, count in used.most_common(RULES_SHOWN):
        yield f"{counted(count, 'value', 'values')} by the rule {rule}"
    if len(used) > RULES_SHOWN:
        yield f"and by {counted(len(used) - RULES_SHOWN, 'rule', 'rules')} more: --json has them all"


def _unlike(summary: Summary) -> str:
    """How many entities are unlike those that the model learnt from, and in which ways most of them are."""
    reasons = [reason for reason, _ in summary.unlike_in.most_common()]
    more = f" and {len(reasons) - NAMED} more" if len(reasons) > NAMED else ""
    are = "is" if summary.unlike == 1 else "are"
    return (
        f"{summary.unlike:,} of {counted(summary.entities, 'entity', 'entities')} {are} unlike those that the model learnt from "
        f"({', '.join(reasons[:NAMED])}{more}): confidence reaches less far there."
    )


def _besides(gaps: Counter[Path], what: str) -> str:
    """How many gaps nothing is said of."""
    names = [show_pattern(path) for path, _ in gaps.most_common()]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"besides, {counted(gaps.total(), 'gap', 'gaps')} of {what}: {', '.join(names[:NAMED])}{more}"


def _outcome(told: Mapping[str, Any], summary: Summary) -> str:
    """The last line."""
    values = f"{counted(summary.filled, 'gap', 'gaps')} of {summary.missing:,} filled"
    if told["target"] is None and told.get("review"):
        return f"nothing was written but {told['review']}: {values} there, to decide on"
    if told["target"] is None and told.get("predictions", {}).get("saved"):
        return f"nothing was written but {told['predictions']['file']}: {values} by these thresholds"
    if told["target"] is None:
        return f"nothing was written: {values} in a dry run"
    where = "standard output" if told["target"] == "-" else told["target"]
    model = f", by the model in {told['model']}" if told["model"] else ""
    return f"wrote {where}: {values}{model}{as_it_was(told['before'])}"


def as_it_was(before: str | None) -> str:
    """The end of the line about what was written: where the source is as it was, if it was changed."""
    return f"; as it was: {before}" if before else ""
