"""The summary of a completion, as tables at 80 columns, as JSON, and value by value; what all summaries of writing share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from kbdisk.cli.drift import show_drift
from kbdisk.cli.tables import GAP, build_table, counted, given_number_text, render, short_names, value_text
from kbdisk.entity import CLASSES, show
from kbdisk.loaders.values.tagged_json import decode
from kbdisk.schemas.composites import show_pattern
from kbdisk.schemas.text.units import shown_unit

if TYPE_CHECKING:
    from rich.console import Console

    from kbdisk.completion.summary import Row, Summary
    from kbdisk.entity import Path
    from kbdisk.evaluation.drift import Drift
    from kbdisk.loaders.kb import Placeless

MIN_WIDTH_ONE_TABLE = 100  # columns of a terminal; a narrower one has the reasons for gaps in a table of their own
MIN_WIDTH_NAMES = 12  # columns for the names of properties
MAX_CLASSES_SHOWN = 8  # classes that have a table each; more classes share one table
MAX_NAMES_SHOWN = 3  # properties or reasons, in a line
MAX_PROPERTIES_SHOWN = 20  # properties that are named for one reason
MAX_RULES_SHOWN = 10
MAX_UNWRITTEN_SHOWN = 10
LARGE_ERROR = 1e9  # errors from here on are shown in powers of ten
NOT_LEARNT, LEFT_OUT = "what is learnt only where --only names it", "what the schema leaves out"

# ---------------------------------------------------------------- what was written


def describe_target(target: str) -> str:
    """The name of a target in a sentence."""
    return "standard output" if target == "-" else target


def describe_backup(backup: str | None) -> str:
    """The end of the line about what was written: the copy of a source that was changed in its place."""
    return f"; as it was: {backup}" if backup else ""


def unwritten_lines(values: Sequence[Placeless], adjective: str = "") -> Iterator[str]:
    """The first values that have no place in a target, each with the reason."""
    if values:
        yield f"{len(values):,}{adjective} without a place in it:"
    for id, path, reason in values[:MAX_UNWRITTEN_SHOWN]:
        yield f"  {id} {show(path)}: {reason}"
    if len(values) > MAX_UNWRITTEN_SHOWN:
        yield f"  and {len(values) - MAX_UNWRITTEN_SHOWN:,} more: --json has them"


def unwritten_data(values: Sequence[Placeless]) -> list[dict[str, str]]:
    """All values that have no place in a target, as plain data."""
    return [{"id": id, "path": show(path), "reason": reason} for id, path, reason in values]


# ---------------------------------------------------------------- a completion


def list_values(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each filled value: its entity, its path, the value, its confidence and its interval."""
    for row in rows:
        value = value_text(decode({"value": row["value"]})["value"])
        bounds = row["interval"]
        interval = ""
        if isinstance(bounds, list):
            interval = f"  {given_number_text(bounds[0])} … {given_number_text(bounds[1])}"
        yield f"{row['id']}  {row['path']}  {value}  {100 * row['confidence']:.0f} %{interval}"


def render_summary(facts: Mapping[str, Any], summary: Summary, drift: Drift | None = None) -> str:
    """The summary for standard error."""
    return render(lambda console: _show(console, facts, summary, drift), stderr=True)


def _show(console: Console, facts: Mapping[str, Any], summary: Summary, drift: Drift | None) -> None:
    rows = summary.shown()
    widest = max((len(show_pattern(row.path)) for row in rows), default=0)
    for title, rows_of_table in _tables(rows, summary).items():
        console.print()
        if title:
            console.print(Text(title, "bold cyan"))
        console.print(_build_property_table(console, rows_of_table, widest))
        if console.width < MIN_WIDTH_ONE_TABLE and any(row.held_back for row in rows_of_table):
            console.print()
            console.print(_build_reason_table(console, rows_of_table))
    if rows:
        console.print()
    for line in _rule_lines(summary.rows.values()):
        console.print(Text(line), soft_wrap=True)
    if summary.members:
        console.print(Text(_describe_members(summary)), soft_wrap=True)
    if drift:
        show_drift(console, drift)
        console.print()
    if drift is not None and summary.unlike:
        console.print(Text(_describe_unlike(summary)), soft_wrap=True)
    for gaps, what in ((summary.ignored, NOT_LEARNT), (summary.left_out, LEFT_OUT)):
        if gaps:
            console.print(Text(_describe_other_gaps(gaps, what)), soft_wrap=True)
    _show_thresholds(console, summary)
    console.print(Text(_describe_outcome(facts, summary)), soft_wrap=True)


def _tables(rows: Sequence[Row], summary: Summary) -> dict[str, list[Row]]:
    """The rows of each table by its title: one for each class, or one for all classes where there are many."""
    classes: dict[str, list[Row]] = {}
    for row in rows:
        classes.setdefault(row.class_name, []).append(row)
    if len(classes) > MAX_CLASSES_SHOWN:
        return {f"All {len(classes)} classes (--json lists each)": summary.by_property()}
    if list(classes) == [""]:
        return classes
    names = short_names(classes)
    return {names[class_name]: of_class for class_name, of_class in classes.items()}


def _show_thresholds(console: Console, summary: Summary) -> None:
    """How many values other thresholds would write, each with its measured precision."""
    if summary.measured is None:
        return
    if summary.measured.written is not None:
        precision = f"{100 * summary.measured.written:.0f} %"
        console.print(Text(f"of held-out values with such a confidence {precision} were right"), soft_wrap=True)
    table = build_table("minimum confidence", ">values", ">right on held-out values")
    for row in summary.thresholds():
        name = "none" if row["threshold"] is None else f"{row['threshold']:g}"
        table.add_row(name, f"{row['values']:,}", "" if row["precision"] is None else f"{100 * row['precision']:.0f} %")
    console.print()
    console.print(table)
    console.print()


def _build_property_table(console: Console, rows: Sequence[Row], widest: int) -> Table:
    is_wide = console.width >= MIN_WIDTH_ONE_TABLE
    names = ["missing", "filled", "expected error", "constant", "sure"]
    figures = [_figures(row) for row in rows]
    widths = [max(map(len, column)) + GAP for column in zip(names, *figures, strict=True)]
    has_room = console.width - sum(widths) >= MIN_WIDTH_NAMES
    shown = len(names) if has_room else len(names) - 1  # without the confidence
    name_width = max(console.width - sum(widths[:shown]), len("property"))
    table = build_table("property", *(f">{name}" for name in names[:shown]), *["held back"] * is_wide)
    table.columns[0].width = max(min(widest, console.width * 3 // 10, name_width), len("property"))
    for row, cells in zip(rows, figures, strict=True):
        path = Text(show_pattern(row.path), "green")
        table.add_row(path, *cells[:shown], *[Text(_reasons_text(row))] * is_wide)
    return table


def _figures(row: Row) -> list[str]:
    """The cells of the columns of numbers."""
    filled = [f"{row.filled:,}", _error_text(row), _measure_text(row, "constant")] if row.filled else [""] * 3
    return [f"{row.missing:,}", *filled, "" if row.confidence is None else f"{100 * row.confidence:.0f} %"]


def _build_reason_table(console: Console, rows: Sequence[Row]) -> Table:
    """The reasons for which gaps stay, each with the numbers of gaps."""
    counts: dict[str, list[str]] = {}
    for row in rows:
        for reason, count in row.held_back.most_common():
            counts.setdefault(reason, []).append(f"{count:,} of {show_pattern(row.path)}")
    table = build_table("held back", "how many")
    table.columns[0].width = min(max(map(len, ["held back", *counts])), console.width * 2 // 5)
    for reason, texts in counts.items():
        more = f" and {len(texts) - MAX_PROPERTIES_SHOWN} more" if len(texts) > MAX_PROPERTIES_SHOWN + 1 else ""
        table.add_row(Text(reason), Text(", ".join(texts[:MAX_PROPERTIES_SHOWN] if more else texts) + more))
    return table


def _reasons_text(row: Row) -> str:
    """Why gaps stay; with numbers where there are several reasons, or some gaps are filled."""
    if len(row.held_back) == 1 and not row.filled:
        return next(iter(row.held_back))
    return "; ".join(f"{count:,}: {reason}" for reason, count in row.held_back.most_common())


def _error_text(row: Row) -> str:
    """The error to expect of the model, as measured on held-out values, with the part that it is of; and how many values rules gave."""
    by_rule = row.by_rule.total()
    if by_rule == row.filled:
        return "by rule"
    return f"{_model_error_text(row)}, {by_rule:,} by rule" if by_rule else _model_error_text(row)


def _model_error_text(row: Row) -> str:
    if row.differs:
        return "by class"
    if not row.held_out_quality or row.held_out_quality["ours"] is None:
        return "not measured"
    part = row.held_out_quality["path"].removeprefix(show_pattern(row.path)).removeprefix(".")
    of_part = f" of {part}" if part not in ("", "value", "year") else ""
    metric = row.held_out_quality["metric"]
    return f"{_measure_text(row, 'ours')} {'wrong' if metric == 'error rate' else metric}{of_part}"


def _measure_text(row: Row, key: str) -> str:
    error = row.held_out_quality.get(key)
    if error is None:
        return ""
    if row.held_out_quality["metric"] == "error rate":
        return f"{100 * error:.0f} %"
    unit = f" {shown_unit(row.unit)}" if row.unit and row.held_out_quality["path"].endswith("value") else ""
    return f"{error:.3g}{unit}" if error < 1000 or error >= LARGE_ERROR else f"{error:,.0f}{unit}"


def _rule_lines(rows: Iterable[Row]) -> Iterator[str]:
    """How many values each rule gave, the most used rule first."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(row.by_rule + row.members_by_rule)
    for rule, count in counts.most_common(MAX_RULES_SHOWN):
        yield f"{counted(count, 'value', 'values')} by the rule {rule}"
    if len(counts) > MAX_RULES_SHOWN:
        yield f"and by {counted(len(counts) - MAX_RULES_SHOWN, 'rule', 'rules')} more: --json has them all"


def _describe_members(summary: Summary) -> str:
    """How many members were added to sets with some, of which properties, and the precision that was measured."""
    counts: Counter[str] = Counter()
    for row in summary.extended():
        counts["rdf:type" if row.path == CLASSES else show_pattern(row.path)] += row.members
    named = [f"{count:,} of {name}" for name, count in counts.most_common(MAX_NAMES_SHOWN)]
    more = f" and {len(counts) - MAX_NAMES_SHOWN} more" if len(counts) > MAX_NAMES_SHOWN else ""
    precision = summary.members_measured
    measured = (
        "" if precision is None else f"; of held-out members with such a confidence {100 * precision:.0f} % were right"
    )
    return f"{counted(summary.members, 'member', 'members')} added to sets: {', '.join(named)}{more}{measured}"


def _describe_unlike(summary: Summary) -> str:
    """How many entities are unlike those that the model learnt from, and the most frequent differences."""
    reasons = [reason for reason, _ in summary.unlike_in.most_common()]
    more = f" and {len(reasons) - MAX_NAMES_SHOWN} more" if len(reasons) > MAX_NAMES_SHOWN else ""
    are = "is" if summary.unlike == 1 else "are"
    return (
        f"{summary.unlike:,} of {counted(summary.entities, 'entity', 'entities')} {are} unlike those that the model learnt from "
        f"({', '.join(reasons[:MAX_NAMES_SHOWN])}{more}): confidence is less reliable there."
    )


def _describe_other_gaps(gaps: Counter[Path], what: str) -> str:
    """How many gaps the table does not have."""
    names = [show_pattern(path) for path, _ in gaps.most_common()]
    more = f" and {len(names) - MAX_NAMES_SHOWN} more" if len(names) > MAX_NAMES_SHOWN else ""
    return f"besides, {counted(gaps.total(), 'gap', 'gaps')} of {what}: {', '.join(names[:MAX_NAMES_SHOWN])}{more}"


def _describe_outcome(facts: Mapping[str, Any], summary: Summary) -> str:
    """The last line."""
    values = f"{counted(summary.filled, 'gap', 'gaps')} of {summary.missing:,} filled"
    values += f", {counted(summary.members, 'member', 'members')} added" if summary.members else ""
    if facts["target"] is None and facts.get("review"):
        return f"nothing was written but {facts['review']}: {values} there, to decide on"
    if facts["target"] is None and facts.get("predictions", {}).get("saved"):
        return f"nothing was written but {facts['predictions']['file']}: {values} by these thresholds"
    if facts["target"] is None:
        return f"nothing was written: {values} in a dry run"
    model = f", by the model in {facts['model']}" if facts["model"] else ""
    return f"wrote {describe_target(facts['target'])}: {values}{model}{describe_backup(facts['before'])}"
