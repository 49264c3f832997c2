"""Scores as tables that read well at 80 columns and use 120."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from kbdisk.cli.drift import show_drift
from kbdisk.cli.tables import UNNAMED, counted, printed, table_of
from kbdisk.schemas.text.units import shown_unit
from kbdisk.store.card import NONE, number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from kbdisk.evaluation.calibration import Reliability
    from kbdisk.evaluation.curve import Curve
    from kbdisk.evaluation.drift import Drift
    from kbdisk.evaluation.evaluate import Summary

Rows = list[dict[str, Any]]
SURE = 2  # standard errors from which on better or worse is no chance
CELL = 9  # columns of an error in a curve's table
SHORT = {"error rate": "error", "1 - IoU": "1-IoU"}
MOST = 4  # of what a rival cannot tell, named
WIDE = 92  # columns of a terminal from which on rivals' figures leave room for all else
FEWER = (0.0, 0.2, 0.5, 0.8, 1.0)  # shares that a narrow terminal shows


def shown_scores(
    head: str,
    notes: Sequence[str],
    rows: Rows,
    summary: Summary,
    drift: Drift | None = None,
    beside: Mapping[str, Any] | None = None,
    reliability: Reliability | None = None,
) -> str:
    """A table for each class, what is odd about it, and all in one line; in another for each rival (`Rivals.to_json`)."""

    def show_it(console: Console) -> None:
        _head(console, head, notes)
        for of in dict.fromkeys(row["class"] for row in rows):
            console.print()
            own = [row for row in rows if row["class"] == of]
            if of or len(own) < len(rows):
                console.print(Text(of or UNNAMED, "bold cyan"))
            _scores(console, own)
        for line in _odd(rows):
            console.print(Text(f"\n{line}", "dim"), soft_wrap=True)
        for name, one in (beside or {}).items():
            if one["left_out"]:
                console.print(Text(f"\n{name} cannot tell {_some(one['left_out'])}.", "dim"), soft_wrap=True)
        _drift(console, drift)
        console.print()
        if reliability is not None and reliability.error is not None:
            console.print(
                Text(
                    f"confidence: calibration error {reliability.error:.3f} over {reliability.weight:,.0f} statements"
                ),
                soft_wrap=True,
            )
        console.print(Text(in_a_line(summary)), soft_wrap=True)
        for name, one in (beside or {}).items():
            if name != "constant":
                console.print(Text(_beside(name, one)), soft_wrap=True)

    return printed(show_it)


def shown_curve(head: str, notes: Sequence[str], curve: Curve, drift: Drift | None = None) -> str:
    """The errors by how much is given."""

    def show_it(console: Console) -> None:
        _head(console, head, notes)
        console.print()
        _curve(console, curve)
        _drift(console, drift)
        console.print(Text("\nThe mean is of ours in parts of the constant's, over all properties.", "dim"))

    return printed(show_it)


def _drift(console: Console, drift: Drift | None) -> None:
    if drift:
        console.print()
        show_drift(console, drift)


def in_a_line(summary: Summary) -> str:
    """How good a model is on the whole."""
    if summary.ratio is None:
        return "Nothing to compare: no property has a constant that is ever wrong."
    of = counted(summary.properties, "property", "properties")
    gain = "" if summary.nats is None else f"; a value costs {_nats(summary.nats)}"
    return f"Better than the constant on {summary.better} of {of}; its error is {summary.ratio:.2f} of the constant's on average{gain}."


def _beside(name: str, one: Mapping[str, Any]) -> str:
    """How a model does beside a rival."""
    if one["ratio"] is None:
        return f"Nothing to compare with {name}: it tells no property, or is never wrong."
    of = counted(one["properties"], "property", "properties")
    return f"Better than {name} on {one['better']} of {of}; its error is {one['ratio']:.2f} of {name}'s on average."


def _some(reasons: Mapping[str, str]) -> str:
    """What is left out, and why, the first of it."""
    told = [f"{path} ({why})" for path, why in list(reasons.items())[:MOST]]
    return ", ".join(told) + (f" and {len(reasons) - MOST} more" if len(reasons) > MOST else "")


def _nats(gain: float) -> str:
    return f"{abs(gain):.2f} nats {'less' if gain >= 0 else 'more'}"


def _head(console: Console, head: str, notes: Sequence[str]) -> None:
    console.print(Text(head, "bold"), soft_wrap=True)
    for note in notes:
        console.print(Text(note, "yellow"), soft_wrap=True)


def _scores(console: Console, rows: Rows) -> None:
    names = [name for name in rows[0].get("against", {}) if name != "constant"]  # which has a column already
    wide = not names or console.width >= WIDE
    more = [">within", ">nats"] if wide else []
    table = table_of(
        "path",
        *[">known"] * wide,
        ">n",
        "metric",
        ">constant",
        *(f">{one}" for one in names),
        ">ours",
        ">better",
        *more,
    )
    for row in rows:
        metric = row["metric"]
        unit = shown_unit(row.get("unit") or "") if console.width >= WIDE else ""
        figures = [row["constant"], *((row["against"][name] or {}).get("theirs") for name in names), row["ours"]]
        path, counts = Text(row["path"], "green"), [*[f"{row['known']:,}"] * wide, f"{row['n']:,}"]
        cells = [
            *counts,
            f"{SHORT.get(metric, metric)} {unit}".strip(),
            *(error(metric, one) for one in figures),
        ]
        table.add_row(path, *cells, _better(row), *_rest(row) if wide else ())
    console.print(table)


def _rest(row: dict[str, Any]) -> tuple[str, str]:
    within = NONE if row["coverage"] is None else f"{100 * row['coverage']:.0f} %"
    return within, NONE if row["nats"] is None else f"{row['nats']:.2f}"


def _better(row: dict[str, Any]) -> Text:
    """How much better, in colour where that is no chance."""
    if row["better"] is None:
        return Text(NONE)
    gain, doubt = row["constant"] - row["ours"], SURE * (row["stderr"] or 0.0)
    style = "green" if gain > doubt else "red" if gain < -doubt else "dim"
    return Text(f"{100 * row['better']:+.0f} %".replace("-0 %", "+0 %").replace("+0 %", "0 %"), style)


def _odd(rows: Rows) -> list[str]:
    """What a reader must know of the figures."""
    lines = []
    unread = [f"{row['unread']:,} of {row['path']}" for row in rows if row["unread"]]
    if unread:
        lines.append(
            f"Values that the schema does not allow count as wrong (numbers are left out): {', '.join(unread)}."
        )
    fewer = [f"{row['path']} ({row['of']:,})" for row in rows if row["n"] + row["unread"] < row["of"]]
    if fewer:
        some = ", ".join(fewer[:4]) + (f" and {len(fewer) - 4} more" if len(fewer) > 4 else "")
        lines.append(f"Not all values were asked for (--limit): n of them, drawn, of {some}.")
    return lines


def _curve(console: Console, curve: Curve) -> None:
    wide = console.width >= 30 + CELL * (len(curve.shares) + 2)
    kept = [place for place, share in enumerate(curve.shares) if wide or round(share, 3) in FEWER]
    names = [f">{'all' if curve.shares[place] == 1 else f'{100 * curve.shares[place]:.0f} %'}" for place in kept]
    table = table_of("path", ">n", ">constant", *names)
    several = len({line.of for line in curve.lines}) > 1
    for line in curve.lines:
        cells = [error(line.metric, line.ours[place]) for place in kept]
        path = f"{line.of}.{line.path}" if several else line.path
        table.add_row(Text(path, "green"), f"{line.n:,}", error(line.metric, line.constant), *cells)
        for name, errors in line.against.items():
            table.add_row(Text(f"  {name}", "dim"), "", "", *(error(line.metric, errors[place]) for place in kept))
    table.add_row(Text("mean", "bold"), "", "1.00", *_means(curve.mean, kept))
    for name in curve.lines[0].against if curve.lines else ():
        table.add_row(Text(f"  {name}", "dim"), "", "", *_means(curve.mean_of(name), kept))
    console.print(table)


def _means(means: Sequence[float | None], kept: Sequence[int]) -> list[str]:
    return [NONE if (one := means[place]) is None else f"{one:.2f}" for place in kept]


def error(metric: str, value: float | None) -> str:
    """An error in few letters: of numbers in their units, of all else in percent."""
    if value is None:
        return NONE
    return (
        number(float(f"{value:.3g}") if value < 1000 else round(value)) if metric == "MAE" else f"{100 * value:.1f} %"
    )
