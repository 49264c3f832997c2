"""The picture of a belief: of numbers the density with its intervals, mode and median, atoms as spikes; else bars."""

from __future__ import annotations

import math
import os
import warnings
from typing import TYPE_CHECKING

import numpy as np

from kbdisk.api.beliefs import Belief, NumberBelief
from kbdisk.entity import Link, show
from kbdisk.plots import COLOURS, GRID, INK, STYLE, new_figure, refuse_plot, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 600
OUTER = 0.02  # of the mass on either side that is not shown
LABELS = 14
SHADES = (0.12, 0.3)  # of the intervals, the widest first
SPIKE = 0.002  # the least mass of an atom that is shown
LETTERS = 32  # of a label, at most
BAR, GIVEN = COLOURS["number"], COLOURS["category"]


def plot_belief(belief: Belief, path: str | os.PathLike[str]) -> None:
    """Write the picture of a belief: PNG, SVG or PDF by the name."""
    refuse_plot(path)
    import matplotlib

    settings = {**STYLE, "svg.hashsalt": "kbdisk", "text.parse_math": False}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a letter that the font lacks is a box
        number = isinstance(belief, NumberBelief)
        figure = new_figure(7.6, 4.2 if number else 1.6 + 0.32 * min(len(belief.probabilities), LABELS))
        axes = figure.add_subplot()
        if isinstance(belief, NumberBelief):
            _draw_number(axes, belief)
        else:
            _draw_labels(axes, belief)
        axes.set_title(f"{show(belief.path)} of {belief.entity}", loc="left", fontsize=12, fontweight="bold", pad=14)
        axes.tick_params(length=0, pad=6)
        axes.set_axisbelow(True)
        save(figure, path)


def _draw_number(axes: Axes, belief: NumberBelief) -> None:
    colour = COLOURS["number"]
    marks = {"mode": float(belief.mode), "median": float(belief.median)}
    given = None if belief.given is None else float(belief.given)
    x = _grid(belief, [*marks.values(), *([] if given is None else [given])])
    y = np.array(belief.densities(x.tolist()))
    axes.plot(x, y, color=colour, linewidth=2)
    top = _spikes(axes, belief, x, float(y.max()))
    for (level, (low, high)), alpha in zip(reversed(belief.intervals()), SHADES, strict=True):
        inside = (x >= low) & (x <= high)
        axes.fill_between(
            x, y, where=inside, color=colour, alpha=alpha, linewidth=0, label=f"{100 * level:.0f} % interval"
        )
    axes.axvline(
        marks["median"], color=INK, linewidth=1.2, linestyle=(0, (4, 3)), label=f"median {_short(belief.median)}"
    )
    axes.axvline(marks["mode"], color=INK, linewidth=1.2, linestyle=(0, (1, 2)), label=f"mode {_short(belief.mode)}")
    if given is not None:
        axes.axvline(given, color=GIVEN, linewidth=2, label=f"given {_short(belief.given)}")
    axes.set_xlim(x[0], x[-1])
    axes.set_ylim(0, 1.08 * top)
    axes.set_xlabel(show(belief.path) + (f" in {belief.unit}" if belief.unit else ""))
    axes.set_ylabel("density")
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])
    axes.figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=9)


def _grid(belief: NumberBelief, marked: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Where the density is shown: nearly all of the mass, and what is marked; closer where there is more of it."""
    dense = belief.quantiles(np.linspace(OUTER, 1 - OUTER, POINTS // 4).tolist())
    low, high = min(dense[0], *marked), max(dense[-1], *marked)
    room = 0.04 * (high - low) or max(abs(high), 1.0) * 0.05
    even = np.linspace(low - room, high + room, POINTS // 2)
    return np.unique(np.concatenate([even, dense]))


def _spikes(axes: Axes, belief: NumberBelief, x: np.ndarray[tuple[int], np.dtype[np.float64]], top: float) -> float:
    """The atoms, as high as the tallest is likely beside a density that has the rest; how high all is."""
    atoms = {value: mass for value, mass in belief.atoms.items() if mass >= SPIKE and x[0] <= value <= x[-1]}
    if not atoms:
        return top
    tallest = max(atoms.values())
    height = max(top, 1e-12)
    for value, mass in atoms.items():
        axes.plot(
            [value, value], [0, height * mass / tallest], color=COLOURS["set"], linewidth=2, solid_capstyle="butt"
        )
        axes.plot(value, height * mass / tallest, "o", color=COLOURS["set"], markersize=4)
    value = max(atoms, key=lambda one: atoms[one])
    axes.plot(
        [],
        [],
        color=COLOURS["set"],
        linewidth=2,
        marker="o",
        markersize=4,
        label=f"spikes: {_short(value)} has {_percent(tallest)}",
    )
    return height


def _draw_labels(axes: Axes, belief: Belief) -> None:
    several = belief.given if isinstance(belief.given, list | set | frozenset) else [belief.given]
    given = {_label(one) for one in several if one is not None}
    whole = {_label(label): share for label, share in belief.probabilities.items()}
    shown = dict(list(whole.items())[:LABELS])
    shown |= {label: whole[label] for label in whole if label in given}
    colours = [GIVEN if label in given else BAR for label in shown]
    places = range(len(shown))
    axes.barh(places, list(shown.values()), color=colours, height=0.66)
    for place, share in zip(places, shown.values(), strict=True):
        axes.annotate(_percent(share), (share, place), (5, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(list(places), [label if len(label) <= LETTERS else label[: LETTERS - 1] + "…" for label in shown])
    for tick, label in zip(axes.get_yticklabels(), shown, strict=True):
        tick.set(color=GIVEN if label in given else INK, fontweight="bold" if label in given else "normal")
    axes.invert_yaxis()
    axes.set_xlim(0, 1.12 * max(shown.values(), default=1.0))
    axes.set_xticks([])
    axes.spines[["bottom", "left"]].set_visible(False)
    what = "how likely each is in it" if belief.kind == "set" else "how likely each is"
    axes.set_xlabel(what + ("; given in orange" if given else ""), color=INK)


def _label(value: object) -> str:
    text = value.id if isinstance(value, Link) else str(value)
    shown = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in " ".join(text.split())
    )
    return shown or '""'


def _percent(share: float) -> str:
    return "<0.1 %" if share < 0.001 else f"{100 * share:.1f} %" if share < 0.1 else f"{100 * share:.0f} %"


def _short(value: object) -> str:
    number = float(value)  # type: ignore[arg-type]
    return f"{number:.0f}" if number == math.floor(number) and abs(number) < 1e9 else f"{number:.4g}"
