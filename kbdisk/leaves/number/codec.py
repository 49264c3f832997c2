"""One property's numbers and their codes.

A code (4,) is: the number through the map; how far below and above it, in code, the step of the resolution around it
ends; and which atom it is, or -1. All is computed in float64. At a bound the step has no end, since what is believed
to lie beyond is written as the bound; so the masses of all steps that can be written sum to 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kbdisk.leaves.base import OUTSIDE_RANGE
from kbdisk.leaves.number.binning import bins_of
from kbdisk.leaves.number.config import NumberConfig
from kbdisk.leaves.number.maps import ADVICE, CODES, CodeMap, Floats
from kbdisk.leaves.number.resolution import bounds_of, decimals_of
from kbdisk.schemas.kinds import MAX_NUMBER, Number, Tolerance

FAR = 1e6  # no code is further out: what is, is as surprising as can be told in float32
OPEN = 1e20  # how far a step without an end goes
THIN = 1e-30  # no step is narrower in code
BESIDE = 10  # values next to an end
DECADE = 10.0  # times the first decile, beyond which the last makes numbers skewed
FAR_BELOW = 100.0  # the floor of logarithms is at least the first decile divided by this
LARGEST_LOG = 700.0  # of a float
TOLERANCE = 0.1  # of a number, or of the range around it: how far off a prediction counts as right
WINDOW = 0.5  # of the training values, those nearest to a number: their range is its surroundings
OUTERMOST = 0.05  # of the training values at either end that belong to no such range
PILED = 4  # times as often as these an end was met, where others are counted as it


@dataclass(frozen=True)
class NumberCodec:
    """A property's map to codes, its resolution, and the values that it has again and again."""

    way: ClassVar[str] = OUTSIDE_RANGE
    leaf: Number
    whole: bool  # decodes to int
    decimals: int  # one step is 10 ** -decimals
    map: CodeMap
    atoms: tuple[float, ...]  # ascending
    shares: tuple[float, ...]  # of the training values, that each atom has
    edges: tuple[float, ...]  # of the bins, in code
    weights: tuple[float, ...]  # the share of the training values that each bin has
    floor: float  # in code, what is finer than anything worth believing
    count: int  # training values
    ends: tuple[float, float] | None = None  # the least and the greatest of these
    deciles: tuple[float, float] | None = None  # the first and the last; None where there are no training values

    @classmethod
    def fit(cls, leaf: Number, values: Sequence[Any], config: NumberConfig, words: Any = None) -> Self:
        """Learn map, resolution, atoms and bins from the values of training entities."""
        numbers = np.sort(_floats(leaf, values))
        whole = leaf.integer or (len(values) > 0 and all(isinstance(value, int) for value in values))
        whole = whole and not leaf.decimals
        decimals = decimals_of(leaf, numbers, whole)
        step = 10.0**-decimals
        count = len(numbers)
        numbers = numbers if count else _imagined(leaf)
        atoms, shares, others = _atoms(numbers, step, config) if count else ((), (), numbers)
        code = ADVICE.get(leaf.transform, "quantile") if config.code == "auto" else config.code
        map = CODES[code](others if code == "quantile" else numbers, step, config.knots)
        edges, weights = bins_of(map, others, step, config.bins)
        ends = (float(numbers[0]), float(numbers[-1]))
        deciles = deciles_of(numbers) if count else None
        floor = _floor(map, others, step)
        bins = tuple(edges), tuple(weights)
        return cls(leaf, whole, decimals, map, atoms, shares, *bins, floor, count, ends, deciles)

    @property
    def step(self) -> float:
        """The resolution."""
        return float(10.0**-self.decimals)

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest number that may be written; infinite where there is no bound."""
        return bounds_of(self.leaf, self.decimals)

    @cached_property
    def met(self) -> tuple[float, float]:
        """The least and the greatest of the training values; as the bins have them where the codec does not know."""
        if self.ends is not None:
            return self.ends
        low, high = self.map.inverse(np.array([self.edges[0], self.edges[-1]])) + np.array([1, -1]) * self.step / 2
        return float(low), float(max(low, high))

    @property
    def floor_of_logs(self) -> float:
        """The least number that a logarithm is taken of, where the training values are skewed; 0 where they are not."""
        return 0.0 if self.deciles is None else floor_of_logs(self.met[0], self.deciles, self.whole)

    @cached_property
    def limits(self) -> tuple[float, float]:
        """Beyond these a number is far outside the training values.

        As far beyond the greatest as that is above the tenth percentile, and likewise below the least: the tail on
        that side says what is far, and a few outliers on the other side do not.
        """
        if self.deciles is None:
            return -math.inf, math.inf
        (least, greatest), (first, last) = self.met, self.deciles
        return least - max(last - least, self.step), greatest + max(greatest - first, self.step)

    def unlike(self, value: Any) -> Sequence[Any]:
        """The number, if it is far outside the training values."""
        low, high = self.limits
        try:
            return () if low <= float(value) <= high else (value,)
        except OverflowError:
            return (value,)

    def p_values(self, value: Any) -> Sequence[float]:
        """How likely the next number is as far outside the training values, two-sided; 1 within them.

        The next of n + 1 numbers is the outermost with probability 1 / (n + 1). Beyond, the tail is exponential: it falls at the
        rate at which it fell from the outer decile to the end, of skewed numbers on the logarithmic scale.
        """
        if self.deciles is None:
            return (1.0,)
        (least, greatest), (first, last) = self.met, self.deciles
        number = float(min(max(value, -MAX_NUMBER), MAX_NUMBER))
        if least <= number <= greatest:
            return (1.0,)
        end, decile = (greatest, last) if number > greatest else (least, first)
        floor, step = self.floor_of_logs, self.step
        if floor:
            step = math.log1p(step / max(end, floor))
            number, end, decile = (math.log(max(size, floor / FAR_BELOW)) for size in (number, end, decile))
        scale = max(abs(end - decile) / max(math.log(self.count / 10), 1.0) if self.count > 10 else 0.0, step)
        return (min(2 / (self.count + 1), 1.0) * math.exp(-abs(number - end) / scale),)

    def learnt(self) -> dict[str, Any]:
        """Between which numbers the training values are."""
        return {"range": [round(one) if self.whole else one for one in self.met]}

    def tolerances(self, values: Floats) -> Floats:
        """(n,) how far off the truth each of these predicted numbers may be and still count as right.

        What the schema says; else a share of the number where the training values spread over more than a decade, or a share of
        the range of those training values, half of all, that are nearest to it, or of the middle half where that is smaller.
        Half a step at least.
        """
        stated = self.leaf.tolerance
        if stated is not None:
            sizes = np.maximum(stated.absolute, stated.relative * np.abs(values))
        elif self.floor_of_logs > 0:
            sizes = TOLERANCE * np.abs(values)
        else:
            numbers, ranks = self._ranks
            scale = max(float(np.abs(numbers).max()), 1.0)  # slopes between numbers of 1e300 overflow
            rank = np.interp(values / scale, numbers / scale, ranks).clip(
                OUTERMOST + WINDOW / 2, 1 - OUTERMOST - WINDOW / 2
            )
            around, middle = (
                np.interp(at + WINDOW / 2, ranks, numbers / scale) - np.interp(at - WINDOW / 2, ranks, numbers / scale)
                for at in (rank, 0.5)
            )
            sizes = TOLERANCE * scale * np.where(middle > 0, np.minimum(around, middle), around)
        return np.asarray(np.maximum(sizes, self.step / 2))

    @cached_property
    def _ranks(self) -> tuple[Floats, Floats]:
        """Ascending numbers, and the share of the training values that is below each: ends of bins, and atoms."""
        ends, atoms = self.map.inverse(np.array(self.edges)), np.array(self.atoms)
        weights = np.array(self.weights) / (math.fsum(self.weights) or 1.0)
        below = np.concatenate([[0.0], weights.cumsum()]) * max(1 - math.fsum(self.shares), 0.0)
        sides = np.concatenate([atoms - self.step / 2, atoms + self.step / 2])
        numbers = np.sort(np.concatenate([ends, sides]))
        scale = max(float(np.abs(numbers).max()), 1.0)  # slopes between numbers of 1e300 overflow
        ranks = np.interp(numbers / scale, ends / scale, below)
        for atom, share in zip(self.atoms, self.shares, strict=True):
            ranks += share * ((numbers > atom) + 0.0)
        total = ranks[-1] or 1.0
        return numbers.clip(self.met[0] - self.step / 2, self.met[1] + self.step / 2), ranks / total

    @cached_property
    def moments(self) -> tuple[float, float]:
        """The mean of the training values and their standard deviation, about: as bins and atoms have them."""
        ends = self.map.inverse(np.array(self.edges))
        numbers = np.concatenate([(ends[1:] + ends[:-1]) / 2, np.array(self.atoms)])
        masses = np.concatenate([np.array(self.weights) * (1 - sum(self.shares)), np.array(self.shares)])
        masses = masses / masses.sum()
        scale = np.abs(numbers).max() or 1.0  # squares of 1e300 overflow
        mean = (numbers / scale * masses).sum()
        deviation = float(np.sqrt(((numbers / scale - mean) ** 2 * masses).sum()) * scale)
        return float(mean * scale), max(deviation, self.step)

    def encode(self, values: Sequence[Any]) -> Tensor:
        """Numbers to codes (n, 4)."""
        x = _floats(self.leaf, values)
        low, high = self.bounds
        half = self.step / 2
        below, above = (np.clip(width, THIN, OPEN) for width in self.map.widths(x, half))
        code = np.clip(self.map.forward(x), -FAR, FAR)
        below, above = np.where(x - low < half, OPEN, below), np.where(high - x < half, OPEN, above)
        return torch.from_numpy(np.stack([code, below, above, self._atom(x)], axis=1).astype(np.float32))

    def _atom(self, x: Floats) -> Floats:
        """Which atom each number is, but for the noise of floats; else -1."""
        if not self.atoms:
            return np.full(len(x), -1.0)
        atoms = np.array(self.atoms)
        right = np.searchsorted(atoms, x).clip(0, len(atoms) - 1)
        left = np.maximum(right - 1, 0)
        nearest = np.where(np.abs(x - atoms[left]) < np.abs(x - atoms[right]), left, right)
        return np.where(np.abs(x - atoms[nearest]) < self.step / 2, nearest, -1.0)

    def decode(self, codes: Tensor) -> list[Any]:
        """Codes (n, 4) to numbers: rounded to the decimals seen, within the bounds; int where whole, else float."""
        code, atom = (codes[:, at].detach().cpu().double().numpy() for at in (0, 3))
        low, high = self.bounds
        numbers = np.clip(self.map.inverse(code), -MAX_NUMBER, MAX_NUMBER).tolist()
        written = [min(max(self._rounded(number), low), high) for number in numbers]
        for place in np.flatnonzero((atom >= 0) & (atom < len(self.atoms))).tolist():
            written[place] = self.atoms[int(atom[place])]
        return [round(number) for number in written] if self.whole else written

    def _rounded(self, number: float) -> float:
        """A number to the decimals seen: never -0.0. One that this would take out of what was met keeps six digits.

        Where numbers span hundreds of orders of magnitude, one step of the largest is more than all others.
        """
        rounded, (least, most) = round(number, self.decimals) + 0.0, self.met
        if not least <= number <= most or least <= rounded <= most:
            return rounded
        end = least if rounded < least else most
        return end if abs(number - end) <= 1e-5 * abs(number) else float(f"{number:.6g}")

    def to_json(self) -> dict[str, Any]:
        """Itself as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], words: Any = None) -> Self:
        """Itself again."""
        fields: dict[str, Any] = {name: _frozen(value) for name, value in data.items()}
        line: dict[str, Any] = {name: _frozen(value) for name, value in data["map"].items()}
        map = CodeMap(**line)
        map.refuse_falling()
        leaf = {**data["leaf"]}
        if leaf.get("tolerance") is not None:
            leaf["tolerance"] = Tolerance(**leaf["tolerance"])
        return cls(**{**fields, "leaf": Number(**leaf), "map": map})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _floats(leaf: Number, values: Sequence[Any]) -> Floats:
    """Numbers of any type as floats; ValueError where one does not fit the leaf."""
    if any(kind is bool or not issubclass(kind, int | float | Decimal) for kind in set(map(type, values))):
        _refuse(leaf, values)
    try:
        numbers = np.array(values, dtype=np.float64)
    except OverflowError:
        _refuse(leaf, values)
    if len(numbers) and not _fit(leaf, numbers):
        _refuse(leaf, values)
    return numbers


def _refuse(leaf: Number, values: Sequence[Any]) -> None:
    for value in values:
        leaf.check(value)


def _fit(leaf: Number, numbers: Floats) -> bool:
    """Whether all can be computed with and are within the leaf's bounds."""
    low, high = numbers.min(), numbers.max()  # NaN where one is
    return bool(
        low >= -MAX_NUMBER
        and high <= MAX_NUMBER
        and (leaf.minimum is None or low >= leaf.minimum)
        and (leaf.above is None or low > leaf.above)
        and (leaf.maximum is None or high <= leaf.maximum)
        and (leaf.below is None or high < leaf.below)
        and (not leaf.integer or bool((numbers == np.rint(numbers)).all()))
    )


def _imagined(leaf: Number) -> Floats:
    """What to fit where training has no value: the bounds, or 0 to 1 from the one there is."""
    low = next((end for end in (leaf.minimum, leaf.above) if end is not None), None)
    high = next((end for end in (leaf.maximum, leaf.below) if end is not None), None)
    if low is None:
        low = -1.0 if high is None else high - 1
    return np.array([low, low + 1 if high is None else high], dtype=np.float64)


def _atoms(numbers: Floats, step: float, config: NumberConfig) -> tuple[tuple[float, ...], tuple[float, ...], Floats]:
    """The values had again and again; the share of each; and all values, atoms no oftener than they need be to be some.

    So a map and bins are fitted that neither lack an atom's place nor are owned by it. At an end, where what lies beyond
    was counted as the end, fewer will do.
    """
    x, counts = np.unique(numbers, return_counts=True)
    least = max(config.atom_count, math.ceil(config.atom_share * len(numbers)))
    often = np.flatnonzero((counts >= least) | (_piled(counts) & (counts >= config.atom_count)))
    chosen: list[int] = []
    for place in often[np.argsort(-counts[often], kind="stable")].tolist():
        if len(chosen) < config.atoms and all(abs(x[place] - x[other]) >= step / 2 for other in chosen):
            chosen.append(place)
    chosen.sort()
    fewer = counts.copy()
    fewer[chosen] = counts[chosen].clip(max=least)
    return tuple(x[chosen].tolist()), tuple((counts[chosen] / len(numbers)).tolist()), np.repeat(x, fewer)


def deciles_of(ascending: Sequence[float] | Floats) -> tuple[float, float]:
    """The first and the last decile of ascending numbers."""
    tenth = len(ascending) // 10
    return float(ascending[tenth]), float(ascending[-1 - tenth])


def floor_of_logs(least: float, deciles: tuple[float, float], is_whole: bool) -> float:
    """The least number that a logarithm is taken of; 0 where numbers are not skewed.

    Skewed are numbers of which none is below 0, and whose last decile is more than a decade above the first. What is 0, or far
    below the first decile, counts as the least, so that one such number does not set the scale.
    """
    if least < 0 or deciles[0] <= 0 or deciles[1] <= DECADE * deciles[0]:
        return 0.0
    return max(least, deciles[0] / FAR_BELOW, 1.0 if is_whole else 0.0)


def _piled(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which ends of ascending values were met several times as often as those next to them."""
    piled = np.zeros(len(counts), dtype=bool)
    if len(counts) > BESIDE:
        for end, beside in ((0, counts[1 : 1 + BESIDE]), (-1, counts[-1 - BESIDE : -1])):
            piled[end] = counts[end] >= PILED * np.median(beside)
    return piled


def _floor(map: CodeMap, values: Floats, step: float) -> float:
    """A quarter of a step where values stand densest but for a tenth of them: no belief need be narrower."""
    below, above = map.widths(values, step / 2)
    return float(np.clip(np.quantile(below + above, 0.1) / 4, 1e-5, 1e-2))
