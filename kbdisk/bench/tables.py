"""Results as a table: a row for each figure, a column for each method, ours first; then what is published, and the bar.

Less is better everywhere here. Means over seeds, with their standard deviation where there are several. A bar is told with
so many digits, and a mean is at it that, rounded to as many, is no greater: .00806 is at .008, and not at .0080.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from kbdisk.bench.base import PAPERS, RANDOM, Table
from kbdisk.bench.results import OURS, Figure, Result, figures, latest

SPLITS = {"names": "duplicates on one side", RANDOM: "fresh random splits"}  # as titles have them
Values = Mapping[str, float]
Bar = Mapping[str, float | Decimal]  # of decimals each digit counts
SLACK = 1.05  # times what another method measured in the same run has, at most


@dataclass(frozen=True)
class Measure:
    """What a table holds besides what was measured."""

    title: str
    names: Sequence[str]  # of its rows
    published: Mapping[str, Values] = field(default_factory=dict)  # name of a column -> figures
    bar: Bar = field(default_factory=dict)
    sources: Sequence[str] = ()  # of what is published
    bars: str = "the bar"  # what it is called
    what: str = "property"  # a row is


def titled(what: str, split: str, part: str) -> str:
    """The title of a table: which split and part it is of, where that is not the published one."""
    apart = [SPLITS[split]] if split != PAPERS else []
    return ", ".join([what, *apart, *([part] if part != "test" else [])])


def as_told(names: Sequence[str], text: str) -> dict[str, Decimal]:
    """Figures by name, with the digits that they are told with."""
    return dict(zip(names, map(Decimal, text.split()), strict=True))


def compared(measure: Measure, results: Sequence[Result]) -> Table:
    """The table of results that differ in method, preset and seed alone."""
    columns = by_column(results)
    header = [measure.what, *columns, *measure.published, *([measure.bars] if measure.bar else [])]
    rows = [
        [*_cells(name, [own.get(name) for own in columns.values()], _told(measure, name)), *_bar(measure, name)]
        for name in measure.names
        if any(name in own for own in columns.values())
    ]
    notes = [*_met(measure, columns), *costs(results), *measure.sources]
    return Table(measure.title, header, rows, notes)


def by_column(results: Sequence[Result]) -> dict[str, dict[str, Figure]]:
    """Means over seeds by the name of a column: ours by their presets, then baselines."""
    together: dict[str, list[Result]] = {}
    for one in sorted(latest(results), key=lambda one: one.method != OURS):
        together.setdefault(column(one), []).append(one)
    return {name: figures(own) for name, own in together.items()}


def column(result: Result) -> str:
    """The name of its column."""
    return f"{OURS}, {result.preset}{result.told}" if result.preset else f"{result.method}{result.told}"


def _met(measure: Measure, columns: Mapping[str, Mapping[str, Figure]]) -> list[str]:
    """How often ours is at or below what it should be."""
    notes = []
    for name, own in columns.items():
        if not name.startswith(OURS):
            continue
        known = [row for row in measure.names if row in own]
        wanted = [row for row in known if row in measure.bar]
        if wanted:
            missed = [row for row in wanted if _is_above(own[row].mean, measure.bar[row])]
            notes.append(
                f"{name}: at or below {measure.bars} in {len(wanted) - len(missed)} of {len(wanted)}{but_for(missed)}."
            )
        for other, theirs in columns.items():
            if not other.startswith(OURS):
                notes.append(_beside(name, own, other, theirs, known))
    return notes


def _is_above(mean: float, bar: float | Decimal) -> bool:
    return (Decimal(mean).quantize(bar) if isinstance(bar, Decimal) else mean) > bar


def _beside(
    name: str, own: Mapping[str, Figure], other: str, theirs: Mapping[str, Figure], known: Sequence[str]
) -> str:
    both = [row for row in known if row in theirs]
    lower = sum(own[row].mean <= theirs[row].mean for row in both)
    worse = [row for row in both if own[row].mean > SLACK * theirs[row].mean]
    more = f"; more than {SLACK - 1:.0%} above it in {', '.join(worse)}" if worse else ""
    return f"{name}: at or below {other} in {lower} of {len(both)}{more}."


def but_for(rows: Sequence[str]) -> str:
    """Which rows something is not so of."""
    return f" (not {', '.join(rows)})" if rows else ""


def costs(results: Sequence[Result]) -> list[str]:
    """How long each took, when, and of which commit."""
    together: dict[str, list[Result]] = {}
    for one in latest(results):
        together.setdefault(column(one), []).append(one)
    notes = []
    for name, own in together.items():
        minutes = max(one.seconds for one in own) / 60
        steps = f" and {max(one.steps for one in own):,} steps" if own[0].steps else ""
        drawn = sorted({one.seed for one in own})
        seeds = f"{len(drawn)} seeds" if len(drawn) > 1 else f"seed {drawn[0]}"
        took = f"{minutes:.1f} minutes{steps} of training at most" if minutes >= 0.05 else "no time to speak of"
        notes.append(f"{name}: {seeds}, {took}; {made(own)}.")
    return notes


def made(results: Sequence[Result]) -> str:
    """When, and by which commit; of several commits, which seeds by each."""
    days = sorted({one.facts.get("date", "")[:10] for one in results})
    by: dict[str, list[int]] = {}
    for one in sorted(results, key=lambda one: one.seed):
        own = by.setdefault(one.facts.get("commit", ""), [])
        own += [one.seed] if one.seed not in own else []
    told = (
        [*by]
        if len(by) == 1
        else [f"{commit or 'unknown'} (seed {', '.join(map(str, own))})" for commit, own in by.items()]
    )
    return ", ".join(filter(None, [*days, *told]))


def _told(measure: Measure, name: str) -> list[float | None]:
    """What is published of a row."""
    return [own.get(name) for own in measure.published.values()]


def _bar(measure: Measure, name: str) -> list[str]:
    """A row's bar, with the digits that it was told with."""
    found = measure.bar.get(name)
    if found is None:
        return [""] if measure.bar else []
    return [f"{found:,}" if isinstance(found, Decimal) else f"{found:,.{decimals([found])}f}"]


def _cells(name: str, measured: Sequence[Figure | None], told: Sequence[float | None]) -> list[str]:
    """A row, all of it with the digits that its smallest figure needs."""
    digits = decimals([one.mean for one in measured if one] + [one for one in told if one is not None])

    def shown(figure: Figure | None) -> str:
        if figure is None:
            return ""
        spread = "" if figure.spread is None else f" ± {figure.spread:,.{digits}f}"
        return f"{figure.mean:,.{digits}f}{spread}"

    return [name, *map(shown, measured), *("" if one is None else f"{one:,.{digits}f}" for one in told)]


def decimals(values: Sequence[float]) -> int:
    """How many digits after the point show three digits of the smallest figure."""
    smallest = min((abs(one) for one in values if one), default=1.0)
    return max(0, min(2 - math.floor(math.log10(smallest)), 5)) if smallest < 100 else 0
