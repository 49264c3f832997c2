"""A belief as text: what is said first, then a bar for each label, or for each stretch of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.table import Table
from rich.text import Text

from kbdisk.cli.tables import printed
from kbdisk.cli.values import shown
from kbdisk.entity import show

if TYPE_CHECKING:
    from rich.console import Console

    from kbdisk.api.beliefs import Belief, LabelBelief, NumberBelief

ROWS, LONGEST = 14, 30  # bars, at most, and blocks of the longest
LABELS = 10
EIGHTHS = " ▏▎▍▌▋▊▉"
OUTER = 0.025  # of the mass on either side that stands in one bar
LEAST = 0.0005  # that is worth a bar


class Bar(NamedTuple):
    """One line of a chart."""

    label: str
    share: float
    mark: str = ""  # what is said of it
    given: bool = False


def rendered(belief: Belief) -> str:
    """A belief as text for standard output."""

    def show_it(console: Console) -> None:
        console.print(Text.assemble((show(belief.path), "bold green"), f"  of {belief.entity}, {belief.kind}"))
        console.print()
        for name, text in facts(belief):
            console.print(Text.assemble((f"{name:<11}", "dim"), text), soft_wrap=True)
        console.print()
        _draw(console, list(bars(belief)))

    return printed(show_it)


def facts(belief: Belief) -> Iterator[tuple[str, str]]:
    """What is said of a belief, each fact by its name."""
    unit = f" {belief.unit}" if belief.unit else ""
    if belief.kind == "number":
        number: NumberBelief = belief  # type: ignore[assignment]
        sure = f"right by {number_text(number.within)} in {percent(number.confidence)}"
        yield "median", f"{number_text(number.median)}{unit}, {sure}"
        yield "mean", number_text(number.mean) + unit
        yield "mode", number_text(number.mode) + unit
        for level, (low, high) in number.intervals():
            yield percent(level), f"{number_text(low)} … {number_text(high)}{unit}"
    else:
        yield "likeliest", f"{value_text(belief.value)}, right in {percent(belief.confidence)}"
    if belief.given is not None:
        yield "given", f"{value_text(belief.given)}{unit}, {_judged(belief)}"
    if belief.recorded is not None:
        yield "recorded", f"of such an entity in {percent(belief.recorded)}"


def _judged(belief: Belief) -> str:
    """What is believed of the given value."""
    chance = percent(math.exp(belief.log_prob(belief.given)))
    if belief.kind == "number":
        number: NumberBelief = belief  # type: ignore[assignment]
        return f"above {percent(number.cdf(float(belief.given)))} of what is believed; its probability is {chance}"
    if belief.kind in ("category", "link"):
        labels: LabelBelief = belief  # type: ignore[assignment]
        return f"number {labels.rank(belief.given)} of all; its probability is {chance}"
    return f"its probability is {chance}"


def bars(belief: Belief) -> Iterator[Bar]:
    """The chart of a belief."""
    if belief.kind == "number":
        yield from _stretches(belief)  # type: ignore[arg-type]
        return
    given = belief.given if isinstance(belief.given, list | set | frozenset) else [belief.given]
    there = {value_text(one) for one in given if one is not None}
    shares = {value_text(label): share for label, share in belief.probabilities.items()}
    for place, (label, share) in enumerate(shares.items()):
        if place < LABELS or label in there:
            yield Bar(label, share, "given" if label in there else "", label in there)


def _stretches(belief: NumberBelief) -> Iterator[Bar]:
    """Equal stretches that hold most of the mass, and what is below and above them."""
    whole = isinstance(belief.median, int)
    low, high = belief.quantile(OUTER), belief.quantile(1 - OUTER)
    step = nice((high - low) / ROWS, whole)
    first, last = math.floor(low / step), math.floor(high / step)
    marks = {"median": float(belief.median), "mode": float(belief.mode)}
    marks |= {} if belief.given is None else {"given": float(belief.given)}
    edges = [-math.inf, *(place * step for place in range(first, last + 2)), math.inf]
    for start, end in pairwise(edges):
        here = [name for name, value in marks.items() if start <= value < end]
        share = (belief.cdf(_below(end)) if end < math.inf else 1.0) - (
            belief.cdf(_below(start)) if start > -math.inf else 0.0
        )
        if (math.isfinite(start) and math.isfinite(end)) or share > LEAST or here:
            yield Bar(_stretch(start, end, whole), max(share, 0.0), ", ".join(here), "given" in here)


def _stretch(start: float, end: float, whole: bool) -> str:
    """What a stretch of numbers is called."""
    if start == -math.inf:
        return f"below {number_text(end)}"
    if end == math.inf:
        return f"from {number_text(start)}"
    if whole and end - start == 1:
        return number_text(start)
    return f"{number_text(start)} … {number_text(end - 1 if whole else end)}"


def _below(value: float) -> float:
    """The last number before one."""
    return math.nextafter(value, -math.inf)


def nice(step: float, whole: bool = False) -> float:
    """The next step up that is 1, 2 or 5 of some power of ten; of whole numbers a whole one."""
    if not step > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(step))
    found = next(times * power for times in (1, 2, 5, 10) if times * power >= step * (1 - 1e-9))
    return max(found, 1.0) if whole else found


def _draw(console: Console, chart: list[Bar]) -> None:
    most = max((one.share for one in chart), default=0.0) or 1.0
    table = Table.grid(padding=(0, 2, 0, 0))
    for align in ("left", "left", "right", "left"):
        table.add_column(justify=align, no_wrap=True)
    for one in chart:
        style = "bold yellow" if one.given else ""
        label = Text(one.label, style or "none", no_wrap=True, overflow="ellipsis")
        block = Text(blocks(one.share / most), "yellow" if one.given else "cyan", no_wrap=True)
        table.add_row(label, block, Text(percent(one.share), style), Text(one.mark, style))
    console.print(table)


def blocks(part: float) -> str:
    """A bar that long, in parts of the longest."""
    eighths = round(part * LONGEST * 8)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def percent(share: float) -> str:
    """A share, with more digits near its ends."""
    percent = 100 * share
    if 0 < percent < 0.1:
        return "<0.1 %"
    if 99.9 < percent < 100:
        return ">99.9 %"
    return f"{percent:.0f} %" if 10 <= percent <= 90 or percent in (0, 100) else f"{percent:.1f} %"


def number_text(value: Any) -> str:
    """A number in few characters."""
    if value is None:
        return "?"
    if float(value) == int(value) and abs(value) < 1e12:
        return str(int(value))
    return f"{float(value):.4g}" if abs(value) < 1e4 else f"{float(value):.0f}" if abs(value) < 1e9 else f"{value:.4g}"


def value_text(value: Any) -> str:
    """A value in few characters."""
    if isinstance(value, list | set | frozenset):
        return "{" + ", ".join(map(shown, value)) + "}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number_text(value)
    return "".join(letter if letter.isprintable() else "�" for letter in shown(value)) or '""'
