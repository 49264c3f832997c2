"""Pictures. matplotlib draws them, and is imported only then: the extra `plots`. PNG, SVG or PDF by the file's name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from kbdisk.errors import ConfigError
from kbdisk.evaluation.curve import Curve, Line
from kbdisk.loaders.target import writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
BEGINNINGS = (b"\x89PNG", b"<?xml", b"<svg", b"%PDF")  # of pictures, which are drawn anew
INK, PALE, GRID = "#22272e", "#8b949e", "#e6e8eb"
COLOURS = {  # of kinds of leaf; told apart by the colour-blind, too
    "number": "#0072b2",
    "category": "#d55e00",
    "boolean": "#e69f00",
    "link": "#cc79a7",
    "set": "#009e73",
    "text": "#56b4e9",
}
NAMED = 18  # properties, at most, whose lines have names
LETTERS = 28  # of a name, at most
CONNECTOR: dict[str, Any] = {
    "arrowstyle": "-",
    "alpha": 0.4,
    "linewidth": 0.7,
    "shrinkA": 2,
    "shrinkB": 0,
    "relpos": (0, 0.5),
}
HIGHEST = 2.0  # times the constant's error: what is worse is not shown

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
    """ConfigError, before any work, where a picture cannot be drawn, has no kind, or would replace what is none."""
    if FilePath(path).suffix.lower() not in SUFFIXES:
        raise ConfigError("--plot", f"expected a name that ends in {', '.join(SUFFIXES)}, got {os.fspath(path)!r}.")
    if _is_something_else(path):
        raise ConfigError("--plot", f"{os.fspath(path)} is no picture, and stays as it is. Name another file.")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ConfigError("--plot", "needs matplotlib, which is not there. pip install 'kbdisk[plots]'") from None


def _is_something_else(path: str | os.PathLike[str]) -> bool:
    """Whether there is a file that is no picture."""
    try:
        with FilePath(path).open("rb") as file:
            start = file.read(8)
    except OSError:
        return False
    return bool(start) and not start.startswith(BEGINNINGS)


def new_figure(width: float, height: float) -> Figure:
    """A blank figure of so many inches that no window knows of."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a picture; the same again is the same file."""
    kind = FilePath(path).suffix.lower()
    metadata = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[kind]
    with writing(path) as stream:
        figure.savefig(stream, format=kind[1:], dpi=160, metadata=metadata)


def plot_curve(curve: Curve, path: str | os.PathLike[str], title: str = "") -> None:
    """The error of each property and their mean, in parts of the constant's, by how much is given."""
    refuse_plot(path)
    import matplotlib

    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "kbdisk"}):
        figure = new_figure(8.4, 5.0)
        axes = figure.add_subplot()
        _draw_curve(axes, curve)
        axes.set_title(title or "Error by how much is given", loc="left", fontsize=12, fontweight="bold", pad=14)
        save(figure, path)


def _draw_curve(axes: Axes, curve: Curve) -> None:
    lines = [(line, ratios) for line in curve.lines if (ratios := line.ratios) is not None]
    if not lines:
        raise ConfigError("--plot", "there is nothing to draw: no property has a constant that is ever wrong.")
    x = [100 * share for share in curve.shares]
    shown = [ratio for _, ratios in lines for ratio in ratios]
    top = min(max(1.08, 1.05 * max(shown)), HIGHEST)
    for line, ratios in lines:
        axes.plot(
            x, ratios, color=COLOURS.get(line.kind, PALE), linewidth=1.1, alpha=0.65 if len(lines) <= NAMED else 0.3
        )
    mean = [min(one or 0.0, top) for one in curve.mean]
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
    """Names to the right of where lines end, moved apart; where there are too many only of the mean and the constant."""
    ends = [("constant", 1.0, INK, "normal"), (f"mean of {len(lines)}", mean, INK, "bold")]
    if len(lines) <= NAMED:
        ends += [(_short(line), min(ratios[-1], top), COLOURS.get(line.kind, PALE), "normal") for line, ratios in lines]
    ends.sort(key=lambda one: one[1])
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
    """Places for names wanted at some heights (ascending): in order, none nearer than a gap, as near as may be to these.

    Names that would overlap form a block around the middle of what they want; blocks that then overlap become one.
    """
    blocks: list[tuple[float, int]] = []  # where the first of each would be, and how many
    for place, one in enumerate(wanted):
        blocks.append((one - place * gap, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (under, m), (over, n) = blocks[-2:]
            blocks[-2:] = [((under * m + over * n) / (m + n), m + n)]
    top = max(high - gap * (len(wanted) - 1), low)
    starts = [min(max(start, low), top) for start, count in blocks for _ in range(count)]
    return [start + place * gap for place, start in enumerate(starts)]


def _legend(axes: Axes, lines: Sequence[Line]) -> None:
    from matplotlib.lines import Line2D

    kinds = [kind for kind in COLOURS if any(line.kind == kind for line in lines)]
    handles: list[Any] = [Line2D([], [], color=COLOURS[kind], linewidth=1.6, label=kind) for kind in kinds]
    handles.insert(0, Line2D([], [], color=INK, linewidth=2.8, marker="o", markersize=5, label="mean of all"))
    handles.insert(1, Line2D([], [], color=INK, linewidth=1, linestyle=(0, (4, 3)), label="best constant"))
    axes.figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)


def _short(line: Line) -> str:
    name = f"{line.of}.{line.path}" if line.of and len(line.of) < 12 else line.path
    return name if len(name) <= LETTERS else "…" + name[1 - LETTERS :]
