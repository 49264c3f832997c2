"""The maps between numbers and their codes: monotone, piecewise linear, with linear tails, whatever the code is called.

A log is drawn through knots, too. So there is one map, it inverts exactly, and the mean of what is believed of codes
has a closed form in original units.

n values   P knots
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
CLOSE = 1e-4  # knots stand no nearer to each other than this, in code
TAIL = 1.0  # the tails are as steep as the last piece of this length, in code, is on average


@dataclass(frozen=True)
class CodeMap:
    """A rising line through knots; before the first and after the last it goes on straight."""

    x: tuple[float, ...]  # (P,) numbers, rising
    z: tuple[float, ...]  # (P,) their codes, rising
    before: float  # dz / dx of the tails
    after: float

    def refuse_falling(self) -> None:
        """ValueError for knots that do not rise: a map that was read may be any."""
        rising = all(low < high for line in (self.x, self.z) for low, high in pairwise(line))
        if not (rising and len(self.x) == len(self.z) and self.before > 0 and self.after > 0):
            raise ValueError("expected a map whose knots rise")

    @cached_property
    def knots(self) -> tuple[Floats, Floats, Floats]:
        """x (P,), z (P,), and dz / dx of each piece (P + 1,), the tails first and last."""
        x, z = np.array(self.x), np.array(self.z)
        return x, z, np.array([self.before, *(np.diff(z) / np.diff(x)), self.after])

    def forward(self, values: Floats) -> Floats:
        """Numbers to codes."""
        x, z, slope = self.knots
        return _along(x, z, slope, values)

    def inverse(self, codes: Floats) -> Floats:
        """Codes to numbers."""
        x, z, slope = self.knots
        return _along(z, x, 1 / slope, codes)

    def derivative(self, values: Floats) -> Floats:
        """dz / dx: how much code a number has there."""
        x, _, slope = self.knots
        return np.asarray(slope[np.searchsorted(x, values, side="right")])

    def widths(self, values: Floats, half: float) -> tuple[Floats, Floats]:
        """How far the codes of x - half and x + half are; right also where half is lost in x's own precision."""
        x, _, slope = self.knots
        here = np.searchsorted(x, values, side="right")
        code, plain = self.forward(values), slope[here] * half
        low, high = values - half, values + half
        below = np.where(np.searchsorted(x, low, side="right") == here, plain, code - self.forward(low))
        above = np.where(np.searchsorted(x, high, side="right") == here, plain, self.forward(high) - code)
        return below, above


def _along(start: Floats, end: Floats, slope: Floats, values: Floats) -> Floats:
    """Along the pieces between knots; rounding never takes a value over the next knot."""
    piece = np.searchsorted(start, values, side="right")
    left = np.maximum(piece - 1, 0)
    with np.errstate(over="ignore"):  # far out on a steep tail
        places = end[left] + (values - start[left]) * slope[piece]
    return np.asarray(np.clip(places, np.append(-np.inf, end)[piece], np.append(end, np.inf)[piece]))


def line(x: float, z: float, spread: float) -> CodeMap:
    """The straight map that takes x to z, and has 1 of code for each `spread`."""
    return CodeMap((float(x),), (float(z),), 1 / spread, 1 / spread)


def standard(values: Floats, step: float, most: int) -> CodeMap:
    """Mean 0, standard deviation 1."""
    scale = np.abs(values).max() or 1.0  # squares of 1e300 overflow
    deviation = float((values / scale).std() * scale)
    return line(float((values / scale).mean() * scale), 0, _spread(deviation, values, step))


def minmax(values: Floats, step: float, most: int) -> CodeMap:
    """The least is -1, the greatest 1: the paper's."""
    low, high = float(values.min()), float(values.max())
    return line(low, -1, (high - low) / 2) if high - low > step / 2 else line(low, 0, _spread(0, values, step))


def log(values: Floats, step: float, most: int) -> CodeMap:
    """The logarithm at mean 0 and standard deviation 1; where not all are positive, sign(x) log(1 + |x| / scale)."""
    low, high = float(values.min()), float(values.max())
    sizes = np.abs(values[values != 0])
    scale = 0.0 if low > 0 else max(float(np.quantile(sizes, 0.1)) if len(sizes) else 0.0, step)
    t = _log(values, scale)
    mean, deviation = t.mean(), t.std()
    if high - low <= step or deviation < 1e-9:
        return standard(values, step, most)
    x = _exp(np.linspace(t.min(), t.max(), most), scale)
    x[0], x[-1] = low, high
    return _through(x, (_log(x, scale) - mean) / deviation, step)


def _log(values: Floats, scale: float) -> Floats:
    logs = np.log(np.maximum(np.abs(values), 1e-300))
    return logs if scale == 0 else np.asarray(np.sign(values) * np.logaddexp(0, logs - np.log(scale)))


def _exp(logs: Floats, scale: float) -> Floats:
    if scale == 0:
        return np.asarray(np.exp(logs))
    return np.asarray(np.sign(logs) * (np.exp(np.abs(logs) + np.log(scale)) - scale))


def quantile(values: Floats, step: float, most: int) -> CodeMap:
    """To the normal distribution by rank: half-way between two neighbours lies the share of those below."""
    x, counts = np.unique(values, return_counts=True)
    if x[-1] - x[0] <= step / 2:
        return line(x[0], 0, _spread(0, values, step))
    ends = counts[[0, -1]] / 2
    places = np.concatenate([x[:1], x[:-1] / 2 + x[1:] / 2, x[-1:]])
    shares = np.concatenate([ends[:1], counts.cumsum()[:-1], len(values) - ends[1:]]) / len(values)
    # half of the knots evenly by share, for the bulk, and half evenly by code, for the tails
    lowest, highest = (normal.inv_cdf(share) for share in shares[[0, -1]])
    outer = [normal.cdf(z) for z in np.linspace(lowest, highest, most - most // 2)]
    levels = np.concatenate([np.linspace(0, 1, most // 2), outer])
    chosen = np.unique([0, len(x), *np.searchsorted(shares, levels).clip(0, len(x))])
    return _through(places[chosen], np.array([normal.inv_cdf(share) for share in shares[chosen]]), step)


normal = NormalDist()

CODES: dict[str, Callable[[Floats, float, int], CodeMap]] = {
    "quantile": quantile,
    "standard": standard,
    "minmax": minmax,
    "log": log,
}
ADVICE = {"none": "minmax", "log": "log", "quantile": "quantile", "standard": "standard"}  # a schema's -> a code


def _spread(deviation: float, values: Floats, step: float) -> float:
    """A length to measure by, also where all values are one."""
    return deviation if deviation > step / 1000 else max(step, abs(float(values[0])) / 10)


def _through(x: Floats, z: Floats, step: float) -> CodeMap:
    """The map through these points but for those too close to the one before."""
    kept = [0]
    for place in range(1, len(x)):
        if x[place] - x[kept[-1]] > step / 4 and z[place] - z[kept[-1]] > CLOSE:
            kept.append(place)
    if len(kept) == 1:
        return line(x[0], z[0], _spread(0, x, step))
    x, z = x[kept], z[kept]
    first, last = (
        np.searchsorted(z, z[0] + TAIL).clip(1, len(z) - 1),
        np.searchsorted(z, z[-1] - TAIL).clip(0, len(z) - 2),
    )
    before, after = (z[first] - z[0]) / (x[first] - x[0]), (z[-1] - z[last]) / (x[-1] - x[last])
    return CodeMap(tuple(x.tolist()), tuple(z.tolist()), float(before), float(after))
