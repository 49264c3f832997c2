"""Plots of results. matplotlib is imported only where one is drawn."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import OURS, Result
from benchmarks.tables import Values, by_column
from kbdisk.api.plots import COLOURS, GRID, INK, PALE, STYLE, new_figure, refuse_plot, save

MARKERS = "osD^vP*X"


def save_plot(path: Path, width: float, height: float, draw: Callable[[Any], None]) -> None:
    """A file with the figure that `draw` has drawn on."""
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
        name: {row: figure.mean for row, figure in figures.items()} for name, figures in by_column(results).items()
    }
    columns |= {name: dict(values) for name, values in published.items()}
    base = "constant" if "constant" in columns else next(iter(published), "")
    rows = [name for name in names if columns.get(base, {}).get(name)]
    others = {name: values for name, values in columns.items() if name != base and not values.keys().isdisjoint(rows)}
    if not results or not others:
        return False

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        places = range(len(rows), 0, -1)
        axes.axvline(1, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        styles = zip(others.items(), MARKERS * len(others), [*COLOURS.values()] * len(others), strict=False)
        for (name, values), marker, colour in styles:
            points = [
                (values[row] / columns[base][row], place)
                for row, place in zip(rows, places, strict=True)
                if row in values
            ]
            colour = PALE if name == "paper" else colour
            size = 7 if name.startswith(OURS) else 5.5
            axes.plot(*zip(*points, strict=True), marker, color=colour, markersize=size, label=name)
        axes.set_yticks(list(places), rows)
        axes.set_xlim(left=0)
        axes.grid(axis="both", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(length=0)
        unit = "the constant's" if base == "constant" else f"that of: {base}"
        axes.set_xlabel(f"error, in parts of {unit}")
        axes.set_title(title, loc="left", fontsize=12, fontweight="bold", pad=12)
        axes.legend(frameon=False, loc="best")

    save_plot(path, 7.6, 1.6 + 0.32 * len(rows), draw)
    return True
