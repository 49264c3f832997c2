"""Pictures of results. matplotlib is imported only where one is drawn."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbdisk.bench.results import OURS, Result
from kbdisk.bench.tables import Values, by_column
from kbdisk.plots import COLOURS, GRID, INK, PALE, STYLE, new_figure, refuse_plot, save

MARKS = "osD^vP*X"


def drawn(path: Path, width: float, height: float, draw: Callable[[Any], None]) -> None:
    """A picture of one figure that is drawn upon."""
    refuse_plot(path)
    import matplotlib

    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "kbdisk"}):
        figure = new_figure(width, height)
        draw(figure)
        path.parent.mkdir(parents=True, exist_ok=True)
        save(figure, os.fspath(path))


def draw_ratios(
    results: Sequence[Result], names: Sequence[str], published: Mapping[str, Values], path: Path, title: str
) -> bool:
    """Each row's error by method, in parts of the constant's where that was measured, else of the first that is published."""
    columns: dict[str, dict[str, float]] = {
        name: {row: one.mean for row, one in own.items()} for name, own in by_column(results).items()
    }
    columns |= {name: dict(own) for name, own in published.items()}
    base = "constant" if "constant" in columns else next(iter(published), "")
    rows = [name for name in names if columns.get(base, {}).get(name)]
    others = {name: own for name, own in columns.items() if name != base and not own.keys().isdisjoint(rows)}
    if not results or not others:
        return False

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        places = range(len(rows), 0, -1)
        axes.axvline(1, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        looks = zip(others.items(), MARKS * len(others), [*COLOURS.values()] * len(others), strict=False)
        for (name, own), mark, colour in looks:
            points = [(own[row] / columns[base][row], at) for row, at in zip(rows, places, strict=True) if row in own]
            _points(axes, points, name, mark, PALE if name == "paper" else colour)
        axes.set_yticks(list(places), rows)
        axes.set_xlim(left=0)
        axes.grid(axis="both", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(length=0)
        axes.set_xlabel(f"error, in parts of {'the' if base == 'constant' else 'that of:'} {base}{_s(base)}")
        axes.set_title(title, loc="left", fontsize=12, fontweight="bold", pad=12)
        axes.legend(frameon=False, loc="best")

    drawn(path, 7.6, 1.6 + 0.32 * len(rows), draw)
    return True


def _points(axes: Any, points: Sequence[tuple[float, float]], name: str, mark: str, colour: str) -> None:
    size = 7 if name.startswith(OURS) else 5.5
    axes.plot(*zip(*points, strict=True), mark, color=colour, markersize=size, label=name)


def _s(base: str) -> str:
    return "'s" if base == "constant" else ""
