"""What judges of synthetic tables came to, beside what is published: more is better, and real rows are the measure.

Means over all judges of all sets and seeds, with their standard deviation, as published ones are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from kbdisk.bench.base import PAPERS, Table
from kbdisk.bench.results import OURS, Figure, Result
from kbdisk.bench.tables import but_for, column, made, titled

REAL = "real"
NEAR = 0.01  # below the best that is published: as good as at it, where that is all
POOLED = "± is the standard deviation over all judges of all drawn sets; more is better."
SOURCES = (
    "DiSK is of the paper's table, TabDDPM and the real rows are of TabDDPM's. macro-F1 of classes, R2 of numbers.",
)


class Published(NamedTuple):
    """Of one set: what judges come to who learn from real rows, and from those that others drew."""

    real: float
    disk: float
    tabddpm: float

    @property
    def best(self) -> float:
        """Of drawn rows, other methods among them."""
        return max(self.disk, self.tabddpm)


PUBLISHED = {
    "abalone": Published(0.556, 0.550, 0.550),
    "adult": Published(0.815, 0.800, 0.795),
    "buddy": Published(0.906, 0.907, 0.906),
    "california": Published(0.857, 0.842, 0.836),
    "churn2": Published(0.740, 0.742, 0.755),
    "diabetes": Published(0.785, 0.763, 0.740),
    "house": Published(0.662, 0.624, 0.677),
}
BESIDE = {"real": "real, published", "disk": "DiSK", "tabddpm": "TabDDPM", "best": "best"}  # columns of what is


def table_of(results: Sequence[Result], split: str, part: str) -> Table:
    """A row for each set, a column for each method; what is published stands beside scores on the test of that."""
    columns = by_column(results)
    beside = BESIDE if (split, part) == (PAPERS, "test") else {}
    rows = []
    for name in sorted({one.setting for one in results}):
        known = PUBLISHED.get(name)
        own = [_shown(figures.get(name)) for figures in columns.values()]
        rows.append([name, *own, *(f"{getattr(known, one):.3f}" if known else "" for one in beside)])
    notes = [*(_met(columns) if beside else _beside(columns)), POOLED, *(SOURCES if beside else ())]
    return Table(titled("Synthetic tables", split, part), ["set", *columns, *beside.values()], rows, notes)


def how(results: Sequence[Result], split: str, part: str) -> Table:
    """A row for each set and method: by how many models, drawn sets and judges its score is, and what that took."""
    rows = []
    for name in sorted({one.setting for one in results}):
        for label in by_column(results):
            own = [one for one in _counting(results) if (one.setting, _column(one)) == (name, label)]
            if own:
                rows.append([name, label, *_made(own), made(own)])
    header = [
        "set",
        "method",
        "models",
        "drawn sets",
        "rows of each",
        "a second",
        "judges",
        "minutes",
        "when, by which commit",
    ]
    return Table(f"{titled('Synthetic tables', split, part)}: how", header, rows)


def _made(results: Sequence[Result]) -> list[str]:
    sets = [len(one.details["scores"]) for one in results]
    judges = _range([len(own) for one in results for own in one.details["scores"]])
    if results[0].method != OURS:
        return ["", "", "", "", judges, ""]
    rows, rates = (_range([one.details[key] for one in results]) for key in ("samples", "per_second"))
    minutes = max(one.seconds for one in results) / 60
    return [f"{len(results)}", _range(sets), rows, rates, judges, f"{minutes:.1f}"]


def by_column(results: Sequence[Result]) -> dict[str, dict[str, Figure]]:
    """The figures of each set by the name of a column: ours first."""
    pooled: dict[str, dict[str, list[float]]] = {}
    for one in sorted(_counting(results), key=lambda one: one.method != OURS):
        own = pooled.setdefault(_column(one), {}).setdefault(one.setting, [])
        own.extend(score for several in one.details["scores"] for score in several)
    return {name: {key: Figure.of(own) for key, own in sets.items()} for name, sets in pooled.items()}


def _counting(results: Sequence[Result]) -> list[Result]:
    """Of several results of one set, column and seed the last one."""
    return list({(_column(one), one.setting, one.seed): one for one in results}.values())


def _column(result: Result) -> str:
    """The name of its column: sets differ in size, so each may have a budget of its own."""
    files = [one for one in result.told.split(" + ") if one.endswith(".toml")]
    return column(replace(result, told="".join(f" + {one}" for one in files)))


def _shown(figure: Figure | None) -> str:
    if figure is None:
        return ""
    return f"{figure.mean:.3f}" + (f" ± {figure.spread:.3f}" if figure.spread is not None else "")


def _met(columns: Mapping[str, Mapping[str, Figure]]) -> list[str]:
    """How often ours is at or above the best that is published, and whether the judge is right."""
    notes = []
    for name, own in columns.items():
        known = {key: one.mean for key, one in own.items() if key in PUBLISHED}
        if name == REAL:
            off = max((abs(mean - PUBLISHED[key].real) for key, mean in known.items()), default=0.0)
            notes.append(f"{REAL}: at most {off:.4f} from what is published.")
            continue
        below = {key: PUBLISHED[key].best - mean for key, mean in known.items() if round(mean, 3) < PUBLISHED[key].best}
        near = [key for key, gap in below.items() if gap <= NEAR]
        far = [key for key, gap in below.items() if gap > NEAR]
        told = [f"within {NEAR} of it: {', '.join(near)}"] if near else []
        told += [f"further below: {', '.join(far)}"] if far else []
        notes.append(
            "; ".join([f"{name}: at or above the best in {len(known) - len(below)} of {len(known)}", *told]) + "."
        )
    return notes


def _beside(columns: Mapping[str, Mapping[str, Figure]]) -> list[str]:
    """How often ours is at or above the real rows, where nothing is published."""
    real = columns.get(REAL, {})
    notes = []
    for name, own in columns.items():
        both = [key for key in own if key in real]
        if name != REAL and both:
            below = [key for key in both if own[key].mean < real[key].mean]
            notes.append(
                f"{name}: at or above the real rows in {len(both) - len(below)} of {len(both)}{but_for(below)}."
            )
    return notes


def _range(values: Sequence[float]) -> str:
    low, high = (f"{one:,.0f}" for one in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def drawn_picture(results: Sequence[Result], path: Path) -> bool:
    """Each set's scores less the published one of its real rows; False where there is none."""
    from kbdisk.bench.pictures import drawn
    from kbdisk.plots import GRID, INK

    columns = by_column(results)
    names = [name for name in reversed(PUBLISHED) if any(name in own for own in columns.values())]
    if not names:
        return False

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        axes.axvline(0, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        for label, (own, mark, colour) in _series(columns).items():
            points = [(own[name] - PUBLISHED[name].real, at) for at, name in enumerate(names) if name in own]
            if points:
                axes.plot(*zip(*points, strict=True), mark, color=colour, label=label)
        axes.set_yticks(range(len(names)), names)
        axes.grid(axis="both", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_xlabel("score less that of the real rows, as published")
        axes.set_title("CatBoosts that learn from drawn rows", loc="left", fontweight="bold")
        axes.legend(frameon=False, loc="best")

    drawn(path, 7.6, 1.6 + 0.4 * len(names), draw)
    return True


def _series(columns: Mapping[str, Mapping[str, Figure]]) -> dict[str, tuple[dict[str, float], str, str]]:
    """What is drawn by its label: a score for each set, a mark, a colour."""
    from kbdisk.plots import COLOURS, INK, PALE

    found = {
        BESIDE[one]: ({name: getattr(known, one) for name, known in PUBLISHED.items()}, mark, PALE)
        for one, mark in (("disk", "s"), ("tabddpm", "D"))
    }
    for (method, own), mark in zip(columns.items(), "oPX*v" * len(columns), strict=False):
        means = {name: one.mean for name, one in own.items() if name in PUBLISHED}
        found[method] = (means, mark, INK if method == REAL else COLOURS["number"])
    return found
