"""Results as a table: a row for each figure, a column for each method, kbdisk first; then published figures, and the bar.

Less is better everywhere here. Cells are means over seeds, with their standard deviation if there are several. A mean is at a
bar if, rounded to the digits of the bar, it is no greater: .00806 is at .008, and not at .0080.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from benchmarks.base import PAPERS, RANDOM, Table
from benchmarks.results import OURS, Figure, Result, figures, latest

SPLITS = {"names": "duplicates on one side", RANDOM: "fresh random splits"}  # as titles have them
Values = Mapping[str, float]
Bar = Mapping[str, float | Decimal]  # of decimals each digit counts
CANNOT = "cannot"  # among the settings of a peer: what it cannot do
PEERS_NOTE = (
    "Peers predict what their own loss asks for: mostly the median, on a logarithmic scale where numbers span decades. "
    "Values that they leave out are the constant's."
)
SLACK = 1.05  # times the error of another method measured in the same run, at most


@dataclass(frozen=True)
class Measure:
    """What a table holds besides what was measured."""

    title: str
    names: Sequence[str]  # of its rows
    published: Mapping[str, Values] = field(default_factory=dict)  # name of a column -> figures
    bar: Bar = field(default_factory=dict)
    sources: Sequence[str] = ()  # of what is published
    bar_name: str = "the bar"
    what: str = "property"  # a row is


def titled(what: str, split: str, part: str) -> str:
    """The title of a table: which split and part it is of, where that is not the published one."""
    details = [SPLITS[split]] if split != PAPERS else []
    return ", ".join([what, *details, *([part] if part != "test" else [])])


def decimals_by_name(names: Sequence[str], text: str) -> dict[str, Decimal]:
    """Figures by name, with the digits that they are published with."""
    return dict(zip(names, map(Decimal, text.split()), strict=True))


def compared(measure: Measure, results: Sequence[Result]) -> Table:
    """The table of results that differ in method, preset and seed alone."""
    columns = by_column(results)
    header = [measure.what, *columns, *measure.published, *([measure.bar_name] if measure.bar else [])]
    rows = []
    for name in measure.names:
        if any(name in column for column in columns.values()):
            measured = [column.get(name) for column in columns.values()]
            published = [values.get(name) for values in measure.published.values()]
            rows.append([name, *_cells(measured, published), *_bar_cell(measure, name)])
    notes = [*_comparisons(measure, columns), *costs(results), *settings_of(results), *measure.sources]
    return Table(measure.title, header, rows, notes)


def by_column(results: Sequence[Result]) -> dict[str, dict[str, Figure]]:
    """Means over seeds by the name of a column: ours by their presets, then baselines."""
    groups: dict[str, list[Result]] = {}
    for result in sorted(latest(results), key=lambda result: result.method != OURS):
        groups.setdefault(column_name(result), []).append(result)
    return {name: figures(group) for name, group in groups.items()}


def column_name(result: Result) -> str:
    """The name of its column."""
    is_ours = result.method == OURS and result.preset
    return f"{OURS}, {result.preset}{result.told}" if is_ours else f"{result.method}{result.told}"


def _comparisons(measure: Measure, columns: Mapping[str, Mapping[str, Figure]]) -> list[str]:
    """How often ours is at or below the bar, and at or below each other method."""
    notes = []
    for name, ours in columns.items():
        if not name.startswith(OURS):
            continue
        known = [row for row in measure.names if row in ours]
        with_bar = [row for row in known if row in measure.bar]
        if with_bar:
            missed = [row for row in with_bar if _is_above(ours[row].mean, measure.bar[row])]
            count = len(with_bar) - len(missed)
            notes.append(f"{name}: at or below {measure.bar_name} in {count} of {len(with_bar)}{but_for(missed)}.")
        for other, theirs in columns.items():
            if not other.startswith(OURS):
                notes.append(_compare(name, ours, other, theirs, known))
    return notes


def _is_above(mean: float, bar: float | Decimal) -> bool:
    return (Decimal(mean).quantize(bar) if isinstance(bar, Decimal) else mean) > bar


def _compare(
    name: str, ours: Mapping[str, Figure], other: str, theirs: Mapping[str, Figure], known: Sequence[str]
) -> str:
    both = [row for row in known if row in theirs]
    lower = sum(ours[row].mean <= theirs[row].mean for row in both)
    worse = [row for row in both if ours[row].mean > SLACK * theirs[row].mean]
    more = f"; more than {SLACK - 1:.0%} above it in {', '.join(worse)}" if worse else ""
    return f"{name}: at or below {other} in {lower} of {len(both)}{more}."


def but_for(rows: Sequence[str]) -> str:
    """The rows that a statement does not hold of, in brackets."""
    return f" (not {', '.join(rows)})" if rows else ""


def costs(results: Sequence[Result]) -> list[str]:
    """How long each took, when, and of which commit."""
    groups: dict[str, list[Result]] = {}
    for result in latest(results):
        groups.setdefault(column_name(result), []).append(result)
    notes = []
    for name, group in groups.items():
        minutes = max(result.seconds for result in group) / 60
        steps = f" and {max(result.steps for result in group):,} steps" if group[0].steps else ""
        numbers = sorted({result.seed for result in group})
        seeds = f"{len(numbers)} seeds" if len(numbers) > 1 else f"seed {numbers[0]}"
        took = (
            f"{minutes:.1f} minutes{steps} of training at most"
            if minutes >= 0.05
            else "less than 3 seconds of training"
        )
        notes.append(f"{name}: {seeds}, {took}; {dates_and_commits(group)}.")
    return notes


def settings_of(results: Sequence[Result]) -> list[str]:
    """The settings of each peer in its latest run, or what it cannot do."""
    newest = {column_name(result): result.details["took"] for result in latest(results) if "took" in result.details}
    notes = []
    for name, took in newest.items():
        settings = [f"{key} {value:g}" for key, value in took.items() if isinstance(value, int | float)]
        settings += [f"{key} {value}" for key, value in took.items() if isinstance(value, str) and key != CANNOT]
        notes += [f"{name}: {', '.join(settings)}."] if settings else []
        notes += [f"{name} cannot: {took[CANNOT]}"] if CANNOT in took else []
    return [*notes, PEERS_NOTE] if notes else []


def dates_and_commits(results: Sequence[Result]) -> str:
    """When, and by which commit; of several commits, which seeds by each."""
    days = sorted({result.facts.get("date", "")[:10] for result in results})
    seeds_by_commit: dict[str, list[int]] = {}
    for result in sorted(results, key=lambda result: result.seed):
        seeds = seeds_by_commit.setdefault(result.facts.get("commit", ""), [])
        seeds += [result.seed] if result.seed not in seeds else []
    commits = [
        commit if len(seeds_by_commit) == 1 else f"{commit or 'unknown'} (seed {', '.join(map(str, seeds))})"
        for commit, seeds in seeds_by_commit.items()
    ]
    return ", ".join(filter(None, [*days, *commits]))


USAGE_HEADER = ("fit, CPU s", "fill, CPU s", "fit, MB", "fill, MB")
NO_USAGE = ["", "", "", ""]
MEMORY_NOTE = (
    "CPU seconds are of all threads and of child processes. MB are the highest resident memory of the process in that phase: with "
    "Python, the packages, and in the process of the benchmark all that it holds."
)


def usage_cells(took: Sequence[Mapping[str, Any]]) -> list[str]:
    """CPU seconds of fitting and of filling, means of several runs, and the most memory of both; empty where not measured."""
    cells = []
    for name, of_runs in (("cpu", statistics.fmean), ("memory", max)):
        for phase in ("fit", "fill"):
            figures = [run[name][phase] for run in took if phase in run.get(name, {})]
            digits = 1 if name == "cpu" else 0
            cells.append(f"{of_runs(figures):,.{digits}f}" if figures else "")
    return cells


def _bar_cell(measure: Measure, name: str) -> list[str]:
    """A row's bar, with the digits that it is stated with."""
    bar = measure.bar.get(name)
    if bar is None:
        return [""] if measure.bar else []
    return [f"{bar:,}" if isinstance(bar, Decimal) else f"{bar:,.{decimals([bar])}f}"]


LARGE_ERROR = 1e8  # from which on figures are powers of ten


def _cells(measured: Sequence[Figure | None], published: Sequence[float | None]) -> list[str]:
    """The cells of a row, all of them with the digits that its smallest figure needs."""
    digits = decimals(
        [figure.mean for figure in measured if figure] + [value for value in published if value is not None]
    )

    def cell(figure: Figure | None) -> str:
        if figure is None:
            return ""
        form = f",.{digits}f" if abs(figure.mean) < LARGE_ERROR else ".1e"
        return f"{figure.mean:{form}}" + ("" if figure.spread is None else f" ± {figure.spread:{form}}")

    return [*map(cell, measured), *("" if value is None else f"{value:,.{digits}f}" for value in published)]


def decimals(values: Sequence[float]) -> int:
    """How many digits after the point show three digits of the smallest figure."""
    smallest = min((abs(value) for value in values if value), default=1.0)
    return max(0, min(2 - math.floor(math.log10(smallest)), 5)) if smallest < 100 else 0


# ---------------------------------------------------------------- as text


def as_text(table: Table) -> str:
    """A table as lines that are as wide as it is: one that is cut shows nothing."""
    rows = [table.header, *table.rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [table.title]
    for row in rows:
        cells = (
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join([*lines, *table.notes])


LARGE_RATIO = 1e4  # from which on no digits after the point are shown


def ratio_cell(value: float | None) -> str:
    """A ratio as tables show it."""
    if value is None:
        return ""
    return f"{value:.3f}" if value < LARGE_RATIO else f"{value:.1e}"


def print_tables(tables: Sequence[Table]) -> None:
    """Print tables, or that there are none."""
    print("\n\n".join(map(as_text, tables)) if tables else "nothing is stored yet")
