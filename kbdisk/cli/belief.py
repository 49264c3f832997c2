"""`kbdisk belief`: what a model believes of one property of one entity, as a chart; of all properties, as a table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import rich_click as click
from rich.table import Table
from rich.text import Text

from kbdisk.cli import screen
from kbdisk.cli.options import device_option, entity_source_options, open_model, open_source, verbose_option
from kbdisk.cli.progress import show_reading
from kbdisk.cli.tables import build_table, number_text, percent, predicted_text, render
from kbdisk.entity import show

if TYPE_CHECKING:
    from rich.console import Console

    from kbdisk.api.belief import Belief, LabelBelief, NumberBelief

MAX_CELL_WIDTH = 16  # columns of a value in the table of all properties
MAX_BARS, MAX_BAR_LENGTH = 14, 30  # bars of numbers, and blocks of the longest bar
MAX_LABELS_SHOWN = 10
EIGHTHS = " ▏▎▍▌▋▊▉"
TAIL = 0.025  # of the probability, on either side, in one bar
MIN_TAIL_SHARE = 0.0005  # with less, a tail has no bar


@click.command()
@click.argument("model")
@click.argument("source")
@click.option("--id", "entity", metavar="ID", required=True, help="The entity, by its id.")
@click.option("--path", metavar="PATH", help="The property, such as launch.year.  [default: a table of all]")
@click.option("--plot", metavar="FILE", help="Also draw it: PNG, SVG or PDF.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
@device_option
@entity_source_options
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
@verbose_option
@click.pass_context
def belief(
    context: click.RichContext,
    /,
    model: str,
    source: str,
    entity: str,
    path: str | None,
    plot: str | None,
    as_json: bool,
    device: str,
    id_path: str | None,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Show what MODEL believes of a property of an entity of SOURCE.

    The value of the entity, if there is one, is hidden and predicted from all its other values. The belief in a
    quantity is about its number; the parts of a date have paths of their own. Exits with status 1 where
    --skip-errors skipped something.

    \b
    kbdisk belief phones.kbdisk phones.jsonl --id nokia-3310 --path weight
    kbdisk belief phones.kbdisk phones.jsonl --id palm-pre --path os --plot b.png
    kbdisk belief phones.kbdisk phones.jsonl --id nokia-3310
    """
    if plot is not None and path is None:
        raise click.UsageError("--plot needs a property: say --path.")
    if plot is not None:
        from kbdisk.api.plots import refuse_plot

        refuse_plot(plot)
    opened = open_model(model, device, verbose)
    with show_reading(quiet, f"reading {source}") as progress:
        kb = open_source(source, {**options, "id": id_path}, progress)
        beliefs = opened.beliefs(entity, kb) if path is None else {path: opened.belief(entity, path, kb)}
    if path is None:
        if as_json:
            screen.write_json([belief.to_json() for belief in beliefs.values()])
        else:
            screen.show(render_beliefs(beliefs, entity))
        context.exit(1 if kb.skipped else 0)
    if plot is not None:
        from kbdisk.api.belief import plot_belief

        plot_belief(beliefs[path], plot)
    if as_json:
        screen.write_json(beliefs[path].to_json())
    else:
        screen.show(render_belief(beliefs[path]))
    context.exit(1 if kb.skipped else 0)


# ---------------------------------------------------------------- all properties


def render_beliefs(beliefs: Mapping[str, Belief], entity: str) -> str:
    """A row for each property: the predicted value, its confidence and interval, and the given value."""
    table = build_table("property", "predicted", ">sure", "90 % within", "given")
    for index in (1, 4):
        table.columns[index].no_wrap, table.columns[index].overflow = True, "ellipsis"
        table.columns[index].max_width = MAX_CELL_WIDTH
    for path, belief in beliefs.items():
        interval = ""
        if belief.kind == "number":
            low, high = belief.interval()  # type: ignore[attr-defined]
            interval = f"{predicted_text(low)} … {predicted_text(high)}"
        given = "" if belief.given is None else predicted_text(belief.given)
        cells = Text(predicted_text(belief.value)), percent(belief.confidence), Text(interval, no_wrap=True)
        table.add_row(Text(path, "green"), *cells, Text(given))

    def show_beliefs(console: Console) -> None:
        console.print(Text(entity, "bold"))
        console.print()
        console.print(table)

    return render(show_beliefs)


# ---------------------------------------------------------------- one property


def render_belief(belief: Belief) -> str:
    """The facts about a belief, then a bar for each label or for each range of numbers."""

    def show_belief(console: Console) -> None:
        console.print(Text.assemble((show(belief.path), "bold green"), f"  of {belief.entity}, {belief.kind}"))
        console.print()
        for name, text in facts(belief):
            console.print(Text.assemble((f"{name:<11}", "dim"), text), soft_wrap=True)
        console.print()
        _draw_bars(console, list(bars(belief)))

    return render(show_belief)


def facts(belief: Belief) -> Iterator[tuple[str, str]]:
    """The facts about a belief, each with its name."""
    unit = f" {belief.unit}" if belief.unit else ""
    if belief.kind == "number":
        number: NumberBelief = belief  # type: ignore[assignment]
        confidence = f"within {number_text(number.within)} of the truth in {percent(number.confidence)}"
        yield "median", f"{number_text(number.median)}{unit}, {confidence}"
        yield "mean", number_text(number.mean) + unit
        yield "mode", number_text(number.mode) + unit
        for level, (low, high) in number.intervals():
            yield percent(level), f"{number_text(low)} … {number_text(high)}{unit}"
    else:
        yield "likeliest", f"{predicted_text(belief.value)}, right in {percent(belief.confidence)}"
    if belief.given is not None:
        yield "given", f"{predicted_text(belief.given)}{unit}, {_judge_given(belief)}"
    if belief.recorded is not None:
        yield "recorded", f"of such an entity in {percent(belief.recorded)}"


def _judge_given(belief: Belief) -> str:
    """The probability of the given value, and its rank."""
    probability = percent(math.exp(belief.log_prob(belief.given)))
    if belief.kind == "number":
        number: NumberBelief = belief  # type: ignore[assignment]
        share = percent(number.cdf(float(belief.given)))
        return f"above {share} of the distribution; its probability is {probability}"
    if belief.kind in ("category", "link"):
        labels: LabelBelief = belief  # type: ignore[assignment]
        return f"number {labels.rank(belief.given)} of all; its probability is {probability}"
    return f"its probability is {probability}"


class Bar(NamedTuple):
    """One row of a chart."""

    label: str
    share: float
    mark: str = ""  # a note beside the bar
    is_given: bool = False


def bars(belief: Belief) -> Iterator[Bar]:
    """The chart of a belief."""
    if belief.kind == "number":
        yield from _number_bars(belief)  # type: ignore[arg-type]
        return
    given = belief.given if isinstance(belief.given, list | set | frozenset) else [belief.given]
    given_labels = {predicted_text(label) for label in given if label is not None}
    shares = {predicted_text(label): share for label, share in belief.probabilities.items()}
    for index, (label, share) in enumerate(shares.items()):
        is_given = label in given_labels
        if index < MAX_LABELS_SHOWN or is_given:
            yield Bar(label, share, "given" if is_given else "", is_given)


def _number_bars(belief: NumberBelief) -> Iterator[Bar]:
    """Equal ranges that hold most of the probability, and the tails below and above them."""
    is_whole = isinstance(belief.median, int)
    low, high = belief.quantile(TAIL), belief.quantile(1 - TAIL)
    step = round_step((high - low) / MAX_BARS, is_whole)
    first, last = math.floor(low / step), math.floor(high / step)
    marks = {"median": float(belief.median), "mode": float(belief.mode)}
    marks |= {} if belief.given is None else {"given": float(belief.given)}
    edges = [-math.inf, *(index * step for index in range(first, last + 2)), math.inf]
    for start, end in pairwise(edges):
        names = [name for name, value in marks.items() if start <= value < end]
        below_end = belief.cdf(_before(end)) if end < math.inf else 1.0
        below_start = belief.cdf(_before(start)) if start > -math.inf else 0.0
        share = below_end - below_start
        if (math.isfinite(start) and math.isfinite(end)) or share > MIN_TAIL_SHARE or names:
            yield Bar(_range_text(start, end, is_whole), max(share, 0.0), ", ".join(names), "given" in names)


def _range_text(start: float, end: float, is_whole: bool) -> str:
    """The label of a range of numbers."""
    if start == -math.inf:
        return f"below {number_text(end)}"
    if end == math.inf:
        return f"from {number_text(start)}"
    if is_whole and end - start == 1:
        return number_text(start)
    return f"{number_text(start)} … {number_text(end - 1 if is_whole else end)}"


def _before(value: float) -> float:
    """The next smaller number."""
    return math.nextafter(value, -math.inf)


def round_step(step: float, is_whole: bool = False) -> float:
    """A step rounded up to 1, 2 or 5 times a power of ten; at least 1 for whole numbers."""
    if not step > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(step))
    rounded = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * (1 - 1e-9))
    return max(rounded, 1.0) if is_whole else rounded


def _draw_bars(console: Console, chart: list[Bar]) -> None:
    longest = max((bar.share for bar in chart), default=0.0) or 1.0
    table = Table.grid(padding=(0, 2, 0, 0))
    for align in ("left", "left", "right", "left"):
        table.add_column(justify=align, no_wrap=True)
    for bar in chart:
        style = "bold yellow" if bar.is_given else ""
        label = Text(bar.label, style or "none", no_wrap=True, overflow="ellipsis")
        block = Text(blocks(bar.share / longest), "yellow" if bar.is_given else "cyan", no_wrap=True)
        table.add_row(label, block, Text(percent(bar.share), style), Text(bar.mark, style))
    console.print(table)


def blocks(share: float) -> str:
    """A bar whose length is a share of the longest, to an eighth of a block."""
    eighths = round(share * MAX_BAR_LENGTH * 8)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
