"""Plots by matplotlib, as PNG, SVG or PDF by the file's name: the extra `plots`. matplotlib is imported when a plot is drawn."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from kbdisk.errors import ConfigError
from kbdisk.loaders.files import writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from kbdisk.evaluation.calibration import Reliability
    from kbdisk.evaluation.curve import Curve, Line

SUFFIXES = (".png", ".svg", ".pdf")
SIGNATURES = (b"\x89PNG", b"<?xml", b"<svg", b"%PDF")  # first bytes of pictures, which may be overwritten
INK, PALE, GRID = "#22272e", "#8b949e", "#e6e8eb"
COLOURS = {  # of kinds of leaf; distinct for colour-blind readers, too
    "number": "#0072b2",
    "category": "#d55e00",
    "boolean": "#e69f00",
    "link": "#cc79a7",
    "set": "#009e73",
    "text": "#56b4e9",
}
MAX_NAMED_LINES = 18  # properties whose lines have names
MAX_NAME_LENGTH = 28  # characters
CONNECTOR: dict[str, Any] = {
    "arrowstyle": "-",
    "alpha": 0.4,
    "linewidth": 0.7,
    "shrinkA": 2,
    "shrinkB": 0,
    "relpos": (0, 0.5),
}
MIN_NUMBERS = 5  # of a property whose coverage is drawn
COVERAGE = 0.9
MAX_RATIO_SHOWN = 2.0  # of the error to the constant's; a larger one is not shown

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": PALE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.fonttype": "none",
}


def refuse_plot(path: str | os.PathLike[str]) -> None:
    """ConfigError, before any work, for an unknown suffix, a file that is no picture, or a missing matplotlib."""
    if FilePath(path).suffix.lower() not in SUFFIXES:
        raise ConfigError("--plot", f"expected a name that ends in {', '.join(SUFFIXES)}, got {os.fspath(path)!r}.")
    if _is_other_file(path):
        raise ConfigError("--plot", f"{os.fspath(path)} is no picture, and stays as it is. Name another file.")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ConfigError("--plot", "needs matplotlib, which is not there. pip install 'kbdisk[plots]'") from None


def _is_other_file(path: str | os.PathLike[str]) -> bool:
    """Whether the path has a file that is no picture."""
    try:
        with FilePath(path).open("rb") as file:
            start = file.read(8)
    except OSError:
        return False
    return bool(start) and not start.startswith(SIGNATURES)


def new_figure(width: float, height: float) -> Figure:
    """A blank figure of a size in inches, without a window."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a picture; equal figures are equal files."""
    kind = FilePath(path).suffix.lower()
    metadata = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[kind]
    with writing(path) as stream:
        figure.savefig(stream, format=kind[1:], dpi=160, metadata=metadata)


def plot_curve(curve: Curve, path: str | os.PathLike[str], title: str = "") -> None:
    """Plot the error of each property and their mean, relative to the constant's, by the share of given properties."""
    refuse_plot(path)
    import matplotlib

    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "kbdisk"}):
        figure = new_figure(8.4, 5.0)
        axes = figure.add_subplot()
        _draw_curve(axes, curve)
        axes.set_title(title or "Error by how much is given", loc="left", fontsize=12, fontweight="bold", pad=14)
        save(figure, path)


def plot_reliability(
    reliability: Reliability, rows: Sequence[Mapping[str, Any]], path: str | os.PathLike[str], title: str = ""
) -> None:
    """Plot the share of right statements by confidence, and the coverage of 90 % intervals by property."""
    refuse_plot(path)
    import matplotlib

    numbers = [row for row in rows if row.get("coverage") is not None and row["n"] >= MIN_NUMBERS]
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "kbdisk"}):
        figure = new_figure(10.4, max(4.6, 1.6 + 0.24 * len(numbers)))
        left, right = figure.subplots(1, 2, width_ratios=[1, 1])
        _draw_reliability(left, reliability)
        _draw_coverage(right, numbers)
        figure.suptitle(title or "Confidence", x=0.01, ha="left", fontsize=12, fontweight="bold")
        save(figure, path)


def _draw_reliability(axes: Axes, reliability: Reliability) -> None:
    if not reliability.bins:
        raise ConfigError("--plot", "there is nothing to draw: no statement was tried on held-out values.")
    bins = reliability.bins
    largest = max(group.weight for group in bins)
    sizes = [30 + 370 * group.weight / largest for group in bins]
    x, y = [group.confidence for group in bins], [group.right for group in bins]
    axes.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle=(0, (4, 3)))
    axes.plot(x, y, color=COLOURS["number"], linewidth=1.4, zorder=3)
    axes.scatter(x, y, s=sizes, color=COLOURS["number"], alpha=0.85, zorder=4, edgecolors="white")
    for group in bins:
        axes.annotate(
            f"{group.weight:,.0f}",
            (group.confidence, group.right),
            (0, 13),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    axes.set_xlim(-0.03, 1.03)
    axes.set_ylim(-0.03, 1.1)
    axes.set_xlabel("confidence")
    axes.set_ylabel("share of statements that are right")
    axes.set_title(
        f"{reliability.weight:,.0f} statements, calibration error {reliability.error:.3f}", loc="left", fontsize=10
    )
    _style_axes(axes)


def _draw_coverage(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    """A dot for each property of numbers, with the range of two standard errors."""
    if not rows:
        axes.axis("off")
        return
    names = [_shortened(f"{row['class']} {row['path']}" if row["class"] else row["path"]) for row in rows]
    places = list(range(len(rows)))[::-1]
    for place, row in zip(places, rows, strict=True):
        spread = 2 * (COVERAGE * (1 - COVERAGE) / row["n"]) ** 0.5
        axes.plot([COVERAGE - spread, min(COVERAGE + spread, 1)], [place, place], color=GRID, linewidth=6, zorder=1)
        axes.scatter([row["coverage"]], [place], s=26, color=COLOURS["number"], zorder=3)
    axes.axvline(COVERAGE, color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=2)
    axes.set_yticks(places, names, fontsize=8)
    lowest = min(row["coverage"] for row in rows)
    axes.set_xlim(min(0.5, lowest - 0.05), 1.02)
    axes.set_ylim(-0.8, len(rows) - 0.2)
    axes.set_xlabel("share of numbers within their 90 % interval")
    axes.set_title("grey: within chance of 90 %", loc="left", fontsize=10)
    _style_axes(axes)


def _style_axes(axes: Axes) -> None:
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, pad=6)


def _shortened(name: str) -> str:
    return name if len(name) <= MAX_NAME_LENGTH else f"{name[: MAX_NAME_LENGTH - 1]}…"


def _draw_curve(axes: Axes, curve: Curve) -> None:
    lines = [(line, ratios) for line in curve.lines if (ratios := line.ratios) is not None]
    if not lines:
        raise ConfigError("--plot", "there is nothing to draw: no property has a constant that is ever wrong.")
    x = [100 * share for share in curve.shares]
    shown = [ratio for _, ratios in lines for ratio in ratios]
    top = min(max(1.08, 1.05 * max(shown)), MAX_RATIO_SHOWN)
    for line, ratios in lines:
        axes.plot(
            x,
            ratios,
            color=COLOURS.get(line.kind, PALE),
            linewidth=1.1,
            alpha=0.65 if len(lines) <= MAX_NAMED_LINES else 0.3,
        )
    mean = [min(ratio or 0.0, top) for ratio in curve.mean]
    axes.axhline(1, color=INK, linewidth=1, linestyle=(0, (4, 3)))
    axes.plot(
        x, mean, color=INK, linewidth=2.8, marker="o", markersize=5, solid_capstyle="round", clip_on=False, zorder=5
    )
    axes.set_xlim(min(x), max(x) if max(x) > min(x) else min(x) + 1)
    axes.set_ylim(0, top)
    axes.set_xlabel("share of the entity's other properties given")
    axes.set_ylabel("error, in parts of the constant's")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f} %")
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, pad=6)
    _name_lines(axes, lines, mean[-1], top)
    _legend(axes, [line for line, _ in lines])


def _name_lines(axes: Axes, lines: Sequence[tuple[Line, list[float]]], mean: float, top: float) -> None:
    """Names at the right ends of lines, without overlap; of many lines only those of the mean and the constant."""
    ends = [("constant", 1.0, INK, "normal"), (f"mean of {len(lines)}", mean, INK, "bold")]
    if len(lines) <= MAX_NAMED_LINES:
        ends += [(_short(line), min(ratios[-1], top), COLOURS.get(line.kind, PALE), "normal") for line, ratios in lines]
    ends.sort(key=lambda end: end[1])
    right, places = axes.get_xlim()[1], spread([end for _, end, *_ in ends], top / 24, 0.0, top)
    for (name, end, colour, weight), place in zip(ends, places, strict=True):
        axes.annotate(
            name,
            (right, end),
            (20, place),
            textcoords=("offset points", "data"),
            color=colour,
            fontweight=weight,
            fontsize=8.5,
            va="center",
            annotation_clip=False,
            arrowprops={**CONNECTOR, "color": colour},
        )


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Heights of names in order, at least a gap apart, and as near as possible to the wanted heights (ascending).

    Names that would overlap form a block around the mean of their wanted heights; overlapping blocks are merged.
    """
    blocks: list[tuple[float, int]] = []  # the height of the first name, and the number of names
    for place, height in enumerate(wanted):
        blocks.append((height - place * gap, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (under, m), (over, n) = blocks[-2:]
            blocks[-2:] = [((under * m + over * n) / (m + n), m + n)]
    top = max(high - gap * (len(wanted) - 1), low)
    starts = [min(max(start, low), top) for start, count in blocks for _ in range(count)]
    return [start + place * gap for place, start in enumerate(starts)]


def _legend(axes: Axes, lines: Sequence[Line]) -> None:
    from matplotlib.lines import Line2D

    kinds = [
        kind
        for kind in dict.fromkeys([*COLOURS, *(line.kind for line in lines)])
        if any(line.kind == kind for line in lines)
    ]
    handles: list[Any] = [Line2D([], [], color=COLOURS.get(kind, PALE), linewidth=1.6, label=kind) for kind in kinds]
    handles.insert(0, Line2D([], [], color=INK, linewidth=2.8, marker="o", markersize=5, label="mean of all"))
    handles.insert(1, Line2D([], [], color=INK, linewidth=1, linestyle=(0, (4, 3)), label="best constant"))
    axes.figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)


def _short(line: Line) -> str:
    name = f"{line.class_name}.{line.path}" if line.class_name and len(line.class_name) < 12 else line.path
    return name if len(name) <= MAX_NAME_LENGTH else "…" + name[1 - MAX_NAME_LENGTH :]
