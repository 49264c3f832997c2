"""Transforms fitted to a property's numbers: a monotone map to codes, the resolution, and the bins of a density.

**Maps** between numbers and codes are monotone and piecewise linear, with linear tails, whatever the code is called: a
logarithm is drawn through knots, too. So there is one map, it inverts exactly, and the mean of a belief over codes has a
closed form in original units.

**Resolution.** One step is 10 ** -decimals. Values are written with as many decimals as nearly all of them have; noise
of floating point (0.30000000000000004) does not count, and a few values of full precision are ignored. Where many have
full precision, decimals mean nothing: the step is a millionth of the middle half's spread. Where values span more orders
of magnitude than a float has digits, it is a millionth of the small ones: one step of the large ones would cover all others.

n values   P knots   B bins   J distinct values
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from functools import cached_property
from itertools import pairwise
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbdisk.schemas.kinds import Number

Floats: TypeAlias = NDArray[np.float64]

# ---------------------------------------------------------------- maps

MIN_KNOT_DISTANCE = 1e-4  # of neighbouring knots, in code
TAIL_PIECE = 1.0  # in code: a tail is as steep as the outermost piece of this length is on average


@dataclass(frozen=True)
class CodeMap:
    """A rising line through knots, continued straight before the first and after the last."""

    x: tuple[float, ...]  # (P,) numbers, rising
    z: tuple[float, ...]  # (P,) their codes, rising
    before: float  # dz / dx of the tails
    after: float

    def refuse_falling(self) -> None:
        """ValueError for knots that do not rise, as a map from a file may have any."""
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
        return _interpolated(x, z, slope, values)

    def inverse(self, codes: Floats) -> Floats:
        """Codes to numbers."""
        x, z, slope = self.knots
        return _interpolated(z, x, 1 / slope, codes)

    def derivative(self, values: Floats) -> Floats:
        """dz / dx at these numbers."""
        x, _, slope = self.knots
        return np.asarray(slope[np.searchsorted(x, values, side="right")])

    def widths(self, values: Floats, half: float) -> tuple[Floats, Floats]:
        """The distances in code from x to x - half and to x + half; right also where half is lost in x's own precision."""
        x, _, slope = self.knots
        piece = np.searchsorted(x, values, side="right")
        code, straight = self.forward(values), slope[piece] * half
        low, high = values - half, values + half
        below = np.where(np.searchsorted(x, low, side="right") == piece, straight, code - self.forward(low))
        above = np.where(np.searchsorted(x, high, side="right") == piece, straight, self.forward(high) - code)
        return below, above


def _interpolated(start: Floats, end: Floats, slope: Floats, values: Floats) -> Floats:
    """Values on the pieces between knots; rounding never takes one beyond the next knot."""
    piece = np.searchsorted(start, values, side="right")
    left = np.maximum(piece - 1, 0)
    with np.errstate(over="ignore"):  # far out on a steep tail
        places = end[left] + (values - start[left]) * slope[piece]
    return np.asarray(np.clip(places, np.append(-np.inf, end)[piece], np.append(end, np.inf)[piece]))


def linear_map(x: float, z: float, spread: float) -> CodeMap:
    """The straight map that takes x to z, and `spread` to a distance of 1."""
    return CodeMap((float(x),), (float(z),), 1 / spread, 1 / spread)


def standard_map(values: Floats, step: float, max_knots: int) -> CodeMap:
    """Standardised: mean 0, standard deviation 1."""
    scale = np.abs(values).max() or 1.0  # squares of 1e300 overflow
    deviation = float((values / scale).std() * scale)
    return linear_map(float((values / scale).mean() * scale), 0, _spread(deviation, values, step))


def minmax_map(values: Floats, step: float, max_knots: int) -> CodeMap:
    """Min-max scaled to -1 ... 1: the paper's."""
    low, high = float(values.min()), float(values.max())
    if high - low > step / 2:
        return linear_map(low, -1, (high - low) / 2)
    return linear_map(low, 0, _spread(0, values, step))


def log_map(values: Floats, step: float, max_knots: int) -> CodeMap:
    """The logarithm, standardised; where not all values are positive, sign(x) log(1 + |x| / scale)."""
    low, high = float(values.min()), float(values.max())
    sizes = np.abs(values[values != 0])
    scale = 0.0 if low > 0 else max(float(np.quantile(sizes, 0.1)) if len(sizes) else 0.0, step)
    logs = _log(values, scale)
    mean, deviation = logs.mean(), logs.std()
    if high - low <= step or deviation < 1e-9:
        return standard_map(values, step, max_knots)
    x = _exp(np.linspace(logs.min(), logs.max(), max_knots), scale)
    x[0], x[-1] = low, high
    return _through(x, (_log(x, scale) - mean) / deviation, step)


def _log(values: Floats, scale: float) -> Floats:
    logs = np.log(np.maximum(np.abs(values), 1e-300))
    return logs if scale == 0 else np.asarray(np.sign(values) * np.logaddexp(0, logs - np.log(scale)))


def _exp(logs: Floats, scale: float) -> Floats:
    if scale == 0:
        return np.asarray(np.exp(logs))
    return np.asarray(np.sign(logs) * (np.exp(np.abs(logs) + np.log(scale)) - scale))


def quantile_map(values: Floats, step: float, max_knots: int) -> CodeMap:
    """Quantiles to those of the normal distribution: half-way between two neighbours lies the share of those below."""
    x, counts = np.unique(values, return_counts=True)
    if x[-1] - x[0] <= step / 2:
        return linear_map(x[0], 0, _spread(0, values, step))
    ends = counts[[0, -1]] / 2
    places = np.concatenate([x[:1], x[:-1] / 2 + x[1:] / 2, x[-1:]])
    shares = np.concatenate([ends[:1], counts.cumsum()[:-1], len(values) - ends[1:]]) / len(values)
    # half of the knots evenly by share, for the bulk, and half evenly by code, for the tails
    lowest, highest = (NORMAL.inv_cdf(share) for share in shares[[0, -1]])
    outer = [NORMAL.cdf(z) for z in np.linspace(lowest, highest, max_knots - max_knots // 2)]
    levels = np.concatenate([np.linspace(0, 1, max_knots // 2), outer])
    chosen = np.unique([0, len(x), *np.searchsorted(shares, levels).clip(0, len(x))])
    return _through(places[chosen], np.array([NORMAL.inv_cdf(share) for share in shares[chosen]]), step)


NORMAL = NormalDist()

CODE_MAPS: dict[str, Callable[[Floats, float, int], CodeMap]] = {
    "quantile": quantile_map,
    "standard": standard_map,
    "minmax": minmax_map,
    "log": log_map,
}
CODE_OF_TRANSFORM = {
    "none": "minmax",
    "log": "log",
    "quantile": "quantile",
    "standard": "standard",
}  # as a schema has it


def _spread(deviation: float, values: Floats, step: float) -> float:
    """The deviation, or a length in its place where all values are equal."""
    return deviation if deviation > step / 1000 else max(step, abs(float(values[0])) / 10)


def _through(x: Floats, z: Floats, step: float) -> CodeMap:
    """The map through these points, without those too close to the one before."""
    kept = [0]
    for place in range(1, len(x)):
        if x[place] - x[kept[-1]] > step / 4 and z[place] - z[kept[-1]] > MIN_KNOT_DISTANCE:
            kept.append(place)
    if len(kept) == 1:
        return linear_map(x[0], z[0], _spread(0, x, step))
    x, z = x[kept], z[kept]
    first = np.searchsorted(z, z[0] + TAIL_PIECE).clip(1, len(z) - 1)
    last = np.searchsorted(z, z[-1] - TAIL_PIECE).clip(0, len(z) - 2)
    before, after = (z[first] - z[0]) / (x[first] - x[0]), (z[-1] - z[last]) / (x[-1] - x[last])
    return CodeMap(tuple(x.tolist()), tuple(z.tolist()), float(before), float(after))


# ---------------------------------------------------------------- resolution

FLOAT_DIGITS = 14  # significant digits; beyond them is floating-point noise
FULL_PRECISION = 12  # significant digits from which on a value was not written by hand
MAX_FULL_PRECISION_SHARE = 0.1  # of the values, up to which those of full precision are ignored
COVERED_SHARE = 0.99  # of the values, whose decimals count
MAX_DECIMALS = 290  # floats end there
MAX_VALUES_READ = 20_000  # about: values whose decimals are counted


def decimals_of(leaf: Number, values: Floats, whole: bool) -> int:
    """How many decimals a property's values have; below 0 where even whole numbers are too fine for a float."""
    if leaf.decimals is not None:
        return leaf.decimals
    if len(values) == 0:
        return 0 if whole else 2
    size = float(np.quantile(np.abs(values), COVERED_SHARE, method="lower"))
    if (small := _small_size(values)) < size * 10.0**-FLOAT_DIGITS:
        return min(0 if whole else MAX_DECIMALS, 6 - math.floor(math.log10(small)))
    representable = 15 - math.ceil(math.log10(size)) if size > 1e-275 else MAX_DECIMALS  # decimals at that size
    written = 0 if whole else _written_decimals(values)
    return min(written, representable, MAX_DECIMALS)


def _small_size(values: Floats) -> float:
    """The size that a tenth of the values is below, zeros aside; infinite where all are zeros."""
    sizes = np.abs(values[values != 0])
    return float(np.quantile(sizes, 0.1, method="lower")) if len(sizes) else math.inf


def _written_decimals(values: Floats) -> int:
    read = values[:: 1 + len(values) // MAX_VALUES_READ]
    written = [_decimals_and_digits(value) for value in read.tolist()]
    plain = Counter(decimals for decimals, digits in written if digits < FULL_PRECISION)
    if plain.total() < (1 - MAX_FULL_PRECISION_SHARE) * len(written):
        first_quartile, third_quartile = np.quantile(values, [0.25, 0.75])
        spread = float(third_quartile - first_quartile) or float(values.max() - values.min())
        return 6 - math.floor(math.log10(spread)) if spread > 1e-275 else max(decimals for decimals, _ in written)
    decimals, covered = 0, 0
    for decimals in sorted(plain):
        covered += plain[decimals]
        if covered >= COVERED_SHARE * plain.total():
            break
    return max(decimals, 0)


def _decimals_and_digits(value: float) -> tuple[int, int]:
    """How many decimals, and how many significant digits in all."""
    mantissa, exponent = f"{value:.{FLOAT_DIGITS - 1}e}".split("e")
    digits = len(mantissa.replace("-", "").replace(".", "").rstrip("0"))
    return (digits - 1 - int(exponent) if digits else 0), digits


def bounds_of(leaf: Number, decimals: int) -> tuple[float, float]:
    """The least and the greatest value that may be written: on the grid, if a step of the grid lies within."""
    low, high = _bound(leaf.minimum, leaf.above, decimals, 1), _bound(leaf.maximum, leaf.below, decimals, -1)
    if low > high:  # no step of the grid lies within
        ends = [end for end in (leaf.minimum, leaf.maximum) if end is not None]
        low = high = float(ends[0]) if ends else (float(leaf.above or 0) + float(leaf.below or 0)) / 2
    return low, high


def _bound(inclusive: float | None, exclusive: float | None, decimals: int, direction: int) -> float:
    """The outermost step of the grid within a bound; `direction` is inwards: 1 for a lower, -1 for an upper bound."""
    ends = [direction * math.inf * -1]
    with localcontext(prec=1000):
        step = Decimal(1).scaleb(-decimals)
        for bound, is_exclusive in ((inclusive, False), (exclusive, True)):
            if bound is None:
                continue
            exact = Decimal(str(bound))
            end = exact.quantize(step, ROUND_CEILING if direction > 0 else ROUND_FLOOR)
            ends.append(float(end + direction * step if is_exclusive and end == exact else end))
    return max(ends) if direction > 0 else min(ends)


# ---------------------------------------------------------------- bins

EDGE_PRECISION = 1e-6  # of an edge: what float32 distinguishes, and some


def bins_of(map: CodeMap, values: Floats, step: float, max_bins: int) -> tuple[list[float], list[float]]:
    """The bins of a binned density: edges (B + 1,) in code, to float32, and the share of the values in each bin (B,).

    Edges are at quantiles of the values, which are ascending, half-way between neighbours.
    """
    x, counts = np.unique(values, return_counts=True)
    below = counts.cumsum() / len(values)  # (J,) share up to each distinct value
    wanted = np.searchsorted(below, np.arange(1, max_bins) / max_bins)
    chosen = np.unique(wanted.clip(0, max(len(x) - 2, 0)))[: len(x) - 1]
    middles = x[chosen] / 2 + x[chosen + 1] / 2 if len(x) > 1 else x[:0]
    ends = [[x[0] - step / 2], [x[-1] + step / 2]]
    edges = map.forward(np.concatenate([ends[0], middles, ends[1]])).astype(np.float32).astype(np.float64)
    if edges[-1] - edges[0] < 2 * MIN_KNOT_DISTANCE:  # a single value, whose step is narrow
        return [float(np.float32(edges[0] - MIN_KNOT_DISTANCE)), float(np.float32(edges[-1] + MIN_KNOT_DISTANCE))], [
            1.0
        ]
    kept = [0]
    for place in range(1, len(edges)):
        if edges[place] - edges[kept[-1]] > MIN_KNOT_DISTANCE / 10 + abs(edges[place]) * EDGE_PRECISION:
            kept.append(place)
    shares = np.diff([0.0, *below[chosen], 1.0])
    return edges[kept].tolist(), np.add.reduceat(shares, kept[:-1]).tolist()
