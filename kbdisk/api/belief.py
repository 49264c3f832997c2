"""The belief about one property of one entity: a distribution over values, in plain Python, and its plot."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from kbdisk.api.plots import COLOURS, GRID, INK, STYLE, new_figure, refuse_plot, save
from kbdisk.data.slots import Slot
from kbdisk.entity import Link, Path, show
from kbdisk.errors import SchemaError
from kbdisk.loaders.values.tagged_json import encode
from kbdisk.model.estimates import INTERVAL_LEVEL
from kbdisk.plugins import load_part
from kbdisk.schemas.kinds import KINDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN_LEVELS = (0.5, INTERVAL_LEVEL)  # of the intervals in data and plots
MAX_LABELS_IN_JSON = 20
MAX_LABELS = 1000  # with a probability
TEXT_BEAM_WIDTH = 5


@dataclass(frozen=True, eq=False)
class Belief:
    """A distribution over the values of one property."""

    entity: str  # its id
    path: Path
    slot: Slot
    row: Any  # the model's belief, as one row of tensors
    given: Any = None  # the value of the entity, if it has one
    recorded: float | None = None  # the probability of presence: that the entity has the property
    unit: str | None = None  # of a quantity's number

    @property
    def kind(self) -> str:
        """number, category, link, set or text."""
        return self.slot.kind

    @property
    def mode(self) -> Any:
        """The most probable value."""
        return self._values_of(self.row.mode())[0]

    @property
    def value(self) -> Any:
        """The point estimate: of a number the median, or nearly; otherwise the most probable value."""
        return self.mode

    @property
    def confidence(self) -> float:
        """The probability that `value` is right."""
        return math.exp(_float(self.row.log_prob(self.row.mode())))

    @property
    def entropy(self) -> float:
        """The entropy of the distribution in nats."""
        return _float(self.row.entropy())

    @property
    def probabilities(self) -> dict[Any, float]:
        """The probability of each value that can be listed, the highest first; of a set, of each of its members."""
        return {_plain(self.value): self.confidence}

    def log_prob(self, value: Any) -> float:
        """The log-probability of a value in nats; of a number, that of one step of its resolution."""
        return _float(self.row.log_prob(self._codes_of(value)))

    def sample(self, n: int = 1, seed: int = 0) -> list[Any]:
        """Draws from the distribution; the same for the same seed."""
        generator = torch.Generator(self._device).manual_seed(seed)
        return self._values_of(
            self.row.pick(torch.zeros(n, dtype=torch.long, device=self._device)).sample(1, generator)
        )

    def to_json(self) -> dict[str, Any]:
        """The belief as plain data."""
        common = {
            "id": self.entity,
            "path": show(self.path),
            "kind": self.kind,
            "unit": self.unit,
            "value": encode(self.value),
            "confidence": self.confidence,
            "recorded": self.recorded,
        }
        given = None if self.given is None else {"value": encode(self.given), **self._given_details()}
        return {**common, **self._details(), "given": given}

    def _details(self) -> dict[str, Any]:
        shares = list(self.probabilities.items())[:MAX_LABELS_IN_JSON]
        return {"probabilities": [{"value": encode(label), "probability": share} for label, share in shares]}

    def _given_details(self) -> dict[str, Any]:
        """The belief about the given value."""
        return {"log_prob": self.log_prob(self.given)}

    def _codes_of(self, value: Any) -> Tensor:
        try:
            codes: Tensor = self.slot.codec.encode([value]).to(self._device)
        except ValueError as error:
            raise SchemaError(show(self.path), f"{error}.") from None
        return codes

    def _values_of(self, codes: Tensor) -> list[Any]:
        values: list[Any] = self.slot.codec.decode(codes)
        return values

    @property
    def _device(self) -> torch.device:
        return self.row.mode().device  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        given = "" if self.given is None else f", given {_plain(self.given)!r}"
        return f"<Belief {show(self.path)}: {self._summary()}{given}>"

    def _summary(self) -> str:
        best = list(self.probabilities.items())[:3]
        return ", ".join(f"{label!r} {share:.0%}" for label, share in best)


class NumberBelief(Belief):
    """A distribution over numbers: a density, and masses at those that repeat."""

    @property
    def probabilities(self) -> dict[Any, float]:
        """Numbers have none: AttributeError."""
        raise AttributeError(f"{show(self.path)} is a {self.kind}: ask for its mean, median, interval or density")

    @property
    def mean(self) -> float:
        """The mean, which minimises the expected squared error."""
        return _float(self.row.mean())

    @property
    def median(self) -> Any:
        """The median."""
        return self._values_of(self.row.codes(self.row.median()))[0]

    @property
    def value(self) -> Any:
        """The point estimate that minimises the expected absolute error: the median, or nearly."""
        return self._values_of(self.row.codes(self.row.typical()))[0]

    @property
    def within(self) -> float:
        """The tolerance: how far from the truth the value may be and count as right."""
        return float(self.slot.codec.tolerances(np.array([float(self.value)]))[0])

    @property
    def confidence(self) -> float:
        """The probability that the truth is `within` this tolerance of the value."""
        value, within = float(self.value), self.within
        return min(max(self.cdf(value + within) - self.cdf(value - within - 1e-9), 0.0), 1.0)

    def quantile(self, level: float) -> float:
        """The number below which the fraction `level` of the mass is."""
        return self.quantiles([level])[0]

    def quantiles(self, levels: Sequence[float]) -> list[float]:
        """The quantiles at several levels, in the time of one."""
        for level in levels:
            if not 0 < level < 1:
                raise ValueError(f"expected a level between 0 and 1, got {level!r}")
        numbers: list[float] = self.row.quantile(torch.tensor(levels, dtype=torch.float64))[0].tolist()
        return numbers

    def interval(self, level: float = INTERVAL_LEVEL) -> tuple[float, float]:
        """The central interval with the fraction `level` of the mass."""
        low, high = self.quantiles([(1 - level) / 2, (1 + level) / 2])
        return low, high

    def cdf(self, value: float) -> float:
        """The probability of this number or less."""
        return _float(self.row.cdf(self._number(value)))

    def density(self, value: float) -> float:
        """The density at a number, without the mass of `atoms`."""
        return self.densities([value])[0]

    def densities(self, values: Sequence[float]) -> list[float]:
        """The density at each of some numbers."""
        points = torch.tensor([[float(value) for value in values]], dtype=torch.float64, device=self._device)
        densities: list[float] = self.row.pdf(points)[0].tolist()
        return densities

    @property
    def atoms(self) -> dict[Any, float]:
        """The probability of each number that the training data repeats, the highest first."""
        values, masses = (column[0].tolist() for column in self.row.atoms)
        atoms = {value: mass for value, mass in zip(values, masses, strict=True) if math.isfinite(value)}
        return dict(sorted(atoms.items(), key=lambda pair: -pair[1]))

    def _details(self) -> dict[str, Any]:
        shares = list(self.atoms.items())[:MAX_LABELS_IN_JSON]
        return {
            "within": self.within,
            "mean": self.mean,
            "median": self.median,
            "mode": self.mode,
            "intervals": [{"level": level, "low": low, "high": high} for level, (low, high) in self.intervals()],
            "atoms": [{"value": value, "mass": mass} for value, mass in shares],
        }

    def intervals(self) -> list[tuple[float, tuple[float, float]]]:
        """The intervals of `SHOWN_LEVELS`, the narrowest first."""
        ends = self.quantiles([(1 + sign * level) / 2 for level in SHOWN_LEVELS for sign in (-1, 1)])
        return list(zip(SHOWN_LEVELS, zip(ends[::2], ends[1::2], strict=True), strict=True))

    def _given_details(self) -> dict[str, Any]:
        return {**super()._given_details(), "below": self.cdf(float(self.given))}

    def _number(self, value: float) -> Tensor:
        return torch.tensor([float(value)], dtype=torch.float64, device=self._device)

    def _summary(self) -> str:
        low, high = self.interval()
        unit = f" {self.unit}" if self.unit else ""
        return f"{_short(self.value)}{unit}, {INTERVAL_LEVEL:.0%} within {_short(low)} … {_short(high)}"


class LabelBelief(Belief):
    """A distribution over labels, or links."""

    @property
    def probabilities(self) -> dict[Any, float]:
        """The probability of each label, the highest first; links by their ids. The rest is for labels not in the training data."""
        codes, shares = (column[0] for column in self.row.top(MAX_LABELS))
        labels = map(_plain, self._values_of(codes))
        return {
            label: share for label, share in zip(labels, shares.tolist(), strict=True) if label is not None and share
        }

    def rank(self, value: Any) -> int:
        """The rank of a label, 1 for the most probable; a label that is not in the training data is last."""
        return math.ceil(_float(self.row.ranks(self._codes_of(value))))

    def _given_details(self) -> dict[str, Any]:
        log_prob = self.log_prob(self.given)
        return {"log_prob": log_prob, "probability": math.exp(log_prob), "rank": self.rank(self.given)}


class SetBelief(Belief):
    """A distribution over sets of labels or links."""

    @property
    def probabilities(self) -> dict[Any, float]:
        """The probability that the set has each label, the highest first; links by their ids."""
        shares = self.row.probs[0]
        best = shares.argsort(descending=True)[:MAX_LABELS]
        labels = [_plain(members[0]) if members else None for members in self._values_of(best[:, None])]
        return {label: share for label, share in zip(labels, shares[best].tolist(), strict=True) if label is not None}


class TextBelief(Belief):
    """A distribution over texts."""

    @property
    def probabilities(self) -> dict[Any, float]:
        """The most probable texts by beam search, each with its probability."""
        return {text: math.exp(log_prob) for text, log_prob in self.row.beam(TEXT_BEAM_WIDTH)[0]}


def view_of(kind: str) -> type[Belief]:
    """The class of beliefs about values of a kind, by the kind's row."""
    return load_part(KINDS[kind].view) or Belief


def _float(scalar: Tensor) -> float:
    return float(scalar.detach())


def _plain(value: Any) -> Any:
    return value.id if isinstance(value, Link) else value


def _short(value: Any) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"


# ---------------------------------------------------------------- plot

GRID_POINTS = 600
TAIL_MASS = 0.02  # on either side that is not shown
MAX_BARS = 14
SHADES = (0.12, 0.3)  # of the intervals, the widest first
MIN_SPIKE_MASS = 0.002  # of an atom that is shown
MAX_LABEL_LETTERS = 32
BAR, GIVEN = COLOURS["number"], COLOURS["category"]


def plot_belief(belief: Belief, path: str | os.PathLike[str]) -> None:
    """Write the plot of a belief: PNG, SVG or PDF by the name.

    Of a number the density with its intervals, mode and median, and atoms as spikes; otherwise bars of probabilities.
    """
    refuse_plot(path)
    import matplotlib

    settings = {**STYLE, "svg.hashsalt": "kbdisk", "text.parse_math": False}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a letter that is not in the font is a box
        number = isinstance(belief, NumberBelief)
        figure = new_figure(7.6, 4.2 if number else 1.6 + 0.32 * min(len(belief.probabilities), MAX_BARS))
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
        marks["median"], color=INK, linewidth=1.2, linestyle=(0, (4, 3)), label=f"median {_tick(belief.median)}"
    )
    axes.axvline(marks["mode"], color=INK, linewidth=1.2, linestyle=(0, (1, 2)), label=f"mode {_tick(belief.mode)}")
    if given is not None:
        axes.axvline(given, color=GIVEN, linewidth=2, label=f"given {_tick(belief.given)}")
    axes.set_xlim(x[0], x[-1])
    axes.set_ylim(0, 1.08 * top)
    axes.set_xlabel(show(belief.path) + (f" in {belief.unit}" if belief.unit else ""))
    axes.set_ylabel("density")
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])
    axes.figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=9)


def _grid(belief: NumberBelief, marked: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The numbers at which the density is shown: nearly all of the mass and the marked numbers, closer where mass is dense."""
    dense = belief.quantiles(np.linspace(TAIL_MASS, 1 - TAIL_MASS, GRID_POINTS // 4).tolist())
    low, high = min(dense[0], *marked), max(dense[-1], *marked)
    margin = 0.04 * (high - low) or max(abs(high), 1.0) * 0.05
    even = np.linspace(low - margin, high + margin, GRID_POINTS // 2)
    return np.unique(np.concatenate([even, dense]))


def _spikes(axes: Axes, belief: NumberBelief, x: np.ndarray[tuple[int], np.dtype[np.float64]], top: float) -> float:
    """Draw the atoms, the tallest as high as the density; returns the height of the plot."""
    atoms = {value: mass for value, mass in belief.atoms.items() if mass >= MIN_SPIKE_MASS and x[0] <= value <= x[-1]}
    if not atoms:
        return top
    tallest = max(atoms.values())
    height = max(top, 1e-12)
    for value, mass in atoms.items():
        axes.plot(
            [value, value], [0, height * mass / tallest], color=COLOURS["set"], linewidth=2, solid_capstyle="butt"
        )
        axes.plot(value, height * mass / tallest, "o", color=COLOURS["set"], markersize=4)
    value = max(atoms, key=lambda number: atoms[number])
    axes.plot(
        [],
        [],
        color=COLOURS["set"],
        linewidth=2,
        marker="o",
        markersize=4,
        label=f"spikes: {_tick(value)} has {_percent(tallest)}",
    )
    return height


def _draw_labels(axes: Axes, belief: Belief) -> None:
    given_values = belief.given if isinstance(belief.given, list | set | frozenset) else [belief.given]
    given = {_label(value) for value in given_values if value is not None}
    probabilities = {_label(label): share for label, share in belief.probabilities.items()}
    shown = dict(list(probabilities.items())[:MAX_BARS])
    shown |= {label: probabilities[label] for label in probabilities if label in given}
    colours = [GIVEN if label in given else BAR for label in shown]
    places = range(len(shown))
    axes.barh(places, list(shown.values()), color=colours, height=0.66)
    for place, share in zip(places, shown.values(), strict=True):
        axes.annotate(_percent(share), (share, place), (5, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(
        list(places),
        [label if len(label) <= MAX_LABEL_LETTERS else label[: MAX_LABEL_LETTERS - 1] + "…" for label in shown],
    )
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


def _tick(value: object) -> str:
    number = float(value)  # type: ignore[arg-type]
    return f"{number:.0f}" if number == math.floor(number) and abs(number) < 1e9 else f"{number:.4g}"
