"""The codec of numbers: one property's numbers and their codes, its settings, and the codecs of many properties as tensors.

A code (4,) is: the number through the map; how far below and above it, in code, the step of the resolution around it
ends; and which atom it is, or -1. An atom is a number that the property has again and again; it has a mass of its own.
All is computed in float64. At a bound the step has no end, since what is believed to lie beyond is written as the bound;
so the masses of all steps that can be written sum to 1.

n rows   S slots   m values of each row   P knots of a map   A atoms
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
from torch import Tensor, nn

from kbdisk.leaves.base import OUTSIDE_RANGE
from kbdisk.leaves.number.transforms import (
    CODE_MAPS,
    CODE_OF_TRANSFORM,
    CodeMap,
    Floats,
    bins_of,
    bounds_of,
    decimals_of,
)
from kbdisk.schemas.kinds import MAX_NUMBER, Number, Tolerance

CODE_NAMES = ("auto", *CODE_MAPS)
EMBEDDING_NAMES = ("plr", "periodic", "dice")
BELIEF_NAMES = ("mixture", "binned", "mse")

MAX_CODE = 1e6  # codes are clamped to it, whose surprise is the greatest that float32 can tell
OPEN_WIDTH = 1e20  # of a step without an end, in code
MIN_WIDTH = 1e-30  # of a step, in code
SKEW_RATIO = 10.0  # of the last decile to the first, beyond which numbers are skewed
MAX_FLOOR_RATIO = 100.0  # of the first decile to the floor of logarithms
LARGEST_LOG = 700.0  # of a float
TOLERANCE = 0.1  # of a number, or of the range around it: how far off a prediction counts as right
LOCAL_SHARE = 0.5  # of the training values, those nearest to a number: their range is its surroundings
EXTREME_SHARE = 0.05  # of the training values at either end that belong to no such range
END_NEIGHBOURS = 10  # values next to an end, that a pile is compared with
PILE_RATIO = 4  # of an end's count to the median of its neighbours', from which values pile up there


@dataclass(frozen=True)
class NumberConfig:
    """The settings of all numbers of a model: how they are coded, embedded and believed."""

    # DIFF(paper): min-max codes, periodic embedding and no atoms there, which are less accurate on skewed numbers
    code: str = "auto"  # how a number is coded, one of CODE_NAMES; auto: as the schema says, else by quantiles
    embedding: str = "plr"  # how a code is embedded, one of EMBEDDING_NAMES; plr: periodic, linear, ReLU
    frequencies: int = 32  # F, the number of frequencies of a periodic embedding
    frequency_scale: float = 0.3  # their standard deviation at the start, in turns per unit of code
    waves: bool = True  # whole numbers are also embedded by their remainders
    shared: bool = False  # whether all properties share one embedding; else each group has its own
    belief: str = "mixture"  # one of BELIEF_NAMES
    point: float = 0.3  # the weight in the loss of the squared error of a point estimate; 0: there is none
    components: int = 50  # K, of a mixture
    bins: int = 64  # B, of a binned density
    knots: int = 128  # of the map from numbers to codes, at most
    atoms: int = 32  # of a property, at most; 0: none
    atom_share: float = 0.02  # minimum share of the property's values at an atom, but for ends at which values pile up
    atom_count: int = 10  # minimum number of training values at an atom

    def __post_init__(self) -> None:
        for name, choices in (("code", CODE_NAMES), ("embedding", EMBEDDING_NAMES), ("belief", BELIEF_NAMES)):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name}: expected one of {', '.join(choices)}, got {getattr(self, name)!r}")
        if not 0 <= self.point < math.inf:
            raise ValueError(f"point: expected at least 0, got {self.point!r}")
        for name, minimum in (("frequencies", 1), ("components", 1), ("bins", 1), ("knots", 2), ("atoms", 0)):
            if getattr(self, name) < minimum:
                raise ValueError(f"{name}: expected at least {minimum}, got {getattr(self, name)!r}")


@dataclass(frozen=True)
class NumberCodec:
    """A property's map to codes, its resolution, its atoms and its bins. The names of the fields are those of codec.json."""

    difference: ClassVar[str] = OUTSIDE_RANGE
    leaf: Number
    whole: bool  # whether numbers decode to int
    decimals: int  # one step is 10 ** -decimals
    map: CodeMap
    atoms: tuple[float, ...]  # (A,) ascending
    shares: tuple[float, ...]  # (A,) the share of the training values at each atom
    edges: tuple[float, ...]  # (B + 1,) of the bins, in code
    weights: tuple[float, ...]  # (B,) the share of the training values in each bin
    floor: float  # in code, the least width of a mixture's component
    count: int  # training values
    ends: tuple[float, float] | None = None  # the least and the greatest training value
    deciles: tuple[float, float] | None = None  # the first and the last; None without training values

    @classmethod
    def fit(cls, leaf: Number, values: Sequence[Any], config: NumberConfig, tokenizer: Any = None) -> Self:
        """Learn map, resolution, atoms and bins from the values of training entities."""
        numbers = np.sort(_floats(leaf, values))
        whole = leaf.integer or (len(values) > 0 and all(isinstance(value, int) for value in values))
        whole = whole and not leaf.decimals
        decimals = decimals_of(leaf, numbers, whole)
        step = 10.0**-decimals
        count = len(numbers)
        numbers = numbers if count else _placeholders(leaf)
        atoms, shares, without_atoms = _atoms(numbers, step, config) if count else ((), (), numbers)
        code = CODE_OF_TRANSFORM.get(leaf.transform, "quantile") if config.code == "auto" else config.code
        map = CODE_MAPS[code](without_atoms if code == "quantile" else numbers, step, config.knots)
        edges, weights = bins_of(map, without_atoms, step, config.bins)
        ends = (float(numbers[0]), float(numbers[-1]))
        deciles = deciles_of(numbers) if count else None
        floor = _min_component_width(map, without_atoms, step)
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
    def training_range(self) -> tuple[float, float]:
        """The least and the greatest training value; those of the bins where the codec has no ends."""
        if self.ends is not None:
            return self.ends
        low, high = self.map.inverse(np.array([self.edges[0], self.edges[-1]])) + np.array([1, -1]) * self.step / 2
        return float(low), float(max(low, high))

    @property
    def floor_of_logs(self) -> float:
        """The least number that a logarithm is taken of, where the training values are skewed; else 0."""
        return 0.0 if self.deciles is None else floor_of_logs(self.training_range[0], self.deciles, self.whole)

    @cached_property
    def limits(self) -> tuple[float, float]:
        """The numbers beyond which one is far outside the training values.

        The upper limit is as far above the greatest value as that is above the first decile, and likewise below. So
        the tail on the same side decides, and a few outliers on the other side do not.
        """
        if self.deciles is None:
            return -math.inf, math.inf
        (least, greatest), (first, last) = self.training_range, self.deciles
        return least - max(last - least, self.step), greatest + max(greatest - first, self.step)

    def unlike(self, value: Any) -> Sequence[Any]:
        """The number, if it is far outside the training values."""
        low, high = self.limits
        try:
            return () if low <= float(value) <= high else (value,)
        except OverflowError:
            return (value,)

    def p_values(self, value: Any) -> Sequence[float]:
        """The two-sided probability that the next number is as far outside the training values; 1 within them.

        The next of n + 1 numbers is the outermost with probability 1 / (n + 1). Beyond, the tail is exponential: it falls at the
        rate at which it fell from the outer decile to the end, of skewed numbers on the logarithmic scale.
        """
        if self.deciles is None:
            return (1.0,)
        (least, greatest), (first, last) = self.training_range, self.deciles
        number = float(min(max(value, -MAX_NUMBER), MAX_NUMBER))
        if least <= number <= greatest:
            return (1.0,)
        end, decile = (greatest, last) if number > greatest else (least, first)
        floor, step = self.floor_of_logs, self.step
        if floor:
            step = math.log1p(step / max(end, floor))
            number, end, decile = (math.log(max(size, floor / MAX_FLOOR_RATIO)) for size in (number, end, decile))
        scale = max(abs(end - decile) / max(math.log(self.count / 10), 1.0) if self.count > 10 else 0.0, step)
        return (min(2 / (self.count + 1), 1.0) * math.exp(-abs(number - end) / scale),)

    def learnt(self) -> dict[str, Any]:
        """The range of the training values."""
        return {"range": [round(end) if self.whole else end for end in self.training_range]}

    def tolerances(self, values: Floats) -> Floats:
        """(n,) how far off the truth each of these predicted numbers may be and still count as right.

        This is what the schema says. Else it is a share of the number, where the training values spread over more than
        a decade; or a share of the range of the half of the training values that is nearest to it, or of the
        interquartile range where that is smaller. It is half a step at least.
        """
        stated = self.leaf.tolerance
        if stated is not None:
            sizes = np.maximum(stated.absolute, stated.relative * np.abs(values))
        elif self.floor_of_logs > 0:
            sizes = TOLERANCE * np.abs(values)
        else:
            numbers, ranks = self._ranks
            scale = max(float(np.abs(numbers).max()), 1.0)  # slopes between numbers of 1e300 overflow
            rank = np.interp(values / scale, numbers / scale, ranks)
            rank = rank.clip(EXTREME_SHARE + LOCAL_SHARE / 2, 1 - EXTREME_SHARE - LOCAL_SHARE / 2)
            around, middle = (
                np.interp(middle_rank + LOCAL_SHARE / 2, ranks, numbers / scale)
                - np.interp(middle_rank - LOCAL_SHARE / 2, ranks, numbers / scale)
                for middle_rank in (rank, 0.5)
            )
            sizes = TOLERANCE * scale * np.where(middle > 0, np.minimum(around, middle), around)
        return np.asarray(np.maximum(sizes, self.step / 2))

    @cached_property
    def _ranks(self) -> tuple[Floats, Floats]:
        """The ends of bins and both sides of atoms, ascending, and the share of the training values below each."""
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
        return numbers.clip(
            self.training_range[0] - self.step / 2, self.training_range[1] + self.step / 2
        ), ranks / total

    @cached_property
    def moments(self) -> tuple[float, float]:
        """The mean and the standard deviation of the training values, approximated by bins and atoms."""
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
        below, above = (np.clip(width, MIN_WIDTH, OPEN_WIDTH) for width in self.map.widths(x, half))
        code = np.clip(self.map.forward(x), -MAX_CODE, MAX_CODE)
        below, above = np.where(x - low < half, OPEN_WIDTH, below), np.where(high - x < half, OPEN_WIDTH, above)
        return torch.from_numpy(np.stack([code, below, above, self._atom(x)], axis=1).astype(np.float32))

    def _atom(self, x: Floats) -> Floats:
        """The atom that each number equals within half a step; else -1."""
        if not self.atoms:
            return np.full(len(x), -1.0)
        atoms = np.array(self.atoms)
        right = np.searchsorted(atoms, x).clip(0, len(atoms) - 1)
        left = np.maximum(right - 1, 0)
        nearest = np.where(np.abs(x - atoms[left]) < np.abs(x - atoms[right]), left, right)
        return np.where(np.abs(x - atoms[nearest]) < self.step / 2, nearest, -1.0)

    def decode(self, codes: Tensor) -> list[Any]:
        """Codes (n, 4) to numbers: rounded to the resolution, within the bounds; int where whole, else float."""
        low, high = self.bounds
        written = [min(max(self._rounded(number), low), high) for number in self._unbounded(codes).tolist()]
        for place, atom in zip(*self._atoms_of(codes), strict=True):
            written[place] = self.atoms[atom]
        return [round(number) for number in written] if self.whole else written

    def numbers(self, codes: Tensor) -> Floats:
        """(n,) the numbers of codes (n, 4), within the bounds, and not rounded."""
        numbers = self._unbounded(codes).clip(*self.bounds)
        places, atoms = self._atoms_of(codes)
        numbers[places] = np.array(self.atoms)[atoms]
        return numbers

    def _unbounded(self, codes: Tensor) -> Floats:
        numbers: Floats = np.clip(
            self.map.inverse(codes[:, 0].detach().cpu().double().numpy()), -MAX_NUMBER, MAX_NUMBER
        )
        return numbers

    def _atoms_of(self, codes: Tensor) -> tuple[list[int], list[int]]:
        """Which codes (n, 4) are atoms, and the atom of each."""
        atoms = codes[:, 3].detach().cpu()
        places = ((atoms >= 0) & (atoms < len(self.atoms))).nonzero()[:, 0]
        return places.tolist(), atoms[places].long().tolist()

    def _rounded(self, number: float) -> float:
        """A number rounded to the resolution, never to -0.0.

        A number that this would take out of the training range keeps six digits: where numbers span hundreds of orders
        of magnitude, one step of the largest is more than all others.
        """
        rounded, (least, greatest) = round(number, self.decimals) + 0.0, self.training_range
        if not least <= number <= greatest or least <= rounded <= greatest:
            return rounded
        end = least if rounded < least else greatest
        return end if abs(number - end) <= 1e-5 * abs(number) else float(f"{number:.6g}")

    def to_json(self) -> dict[str, Any]:
        """The codec as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], tokenizer: Any = None) -> Self:
        """The codec of plain data."""
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
    """Whether all numbers are finite, not too large, and within the leaf's bounds."""
    low, high = numbers.min(), numbers.max()  # NaN if any number is
    return bool(
        low >= -MAX_NUMBER
        and high <= MAX_NUMBER
        and (leaf.minimum is None or low >= leaf.minimum)
        and (leaf.above is None or low > leaf.above)
        and (leaf.maximum is None or high <= leaf.maximum)
        and (leaf.below is None or high < leaf.below)
        and (not leaf.integer or bool((numbers == np.rint(numbers)).all()))
    )


def _placeholders(leaf: Number) -> Floats:
    """The numbers to fit to without training values: the bounds, with a distance of 1 to a bound that is missing."""
    low = next((end for end in (leaf.minimum, leaf.above) if end is not None), None)
    high = next((end for end in (leaf.maximum, leaf.below) if end is not None), None)
    if low is None:
        low = -1.0 if high is None else high - 1
    return np.array([low, low + 1 if high is None else high], dtype=np.float64)


def _atoms(numbers: Floats, step: float, config: NumberConfig) -> tuple[tuple[float, ...], tuple[float, ...], Floats]:
    """The atoms; the share of each; and all values, each atom only as often as the threshold for atoms.

    So the map and the bins have a place for each atom without being dominated by it. At an end where values pile up,
    as values beyond it were counted as the end, fewer values make an atom.
    """
    x, counts = np.unique(numbers, return_counts=True)
    least = max(config.atom_count, math.ceil(config.atom_share * len(numbers)))
    often = np.flatnonzero((counts >= least) | (_piled(counts) & (counts >= config.atom_count)))
    chosen: list[int] = []
    for place in often[np.argsort(-counts[often], kind="stable")].tolist():
        if len(chosen) < config.atoms and all(abs(x[place] - x[chosen_place]) >= step / 2 for chosen_place in chosen):
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

    Numbers are skewed if none is below 0 and the last decile is more than a decade above the first. The floor is not far
    below the first decile, so that a single tiny number does not set the scale.
    """
    if least < 0 or deciles[0] <= 0 or deciles[1] <= SKEW_RATIO * deciles[0]:
        return 0.0
    return max(least, deciles[0] / MAX_FLOOR_RATIO, 1.0 if is_whole else 0.0)


def _piled(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether values pile up at each end of ascending distinct values: several times as many as at its neighbours."""
    piled = np.zeros(len(counts), dtype=bool)
    if len(counts) > END_NEIGHBOURS:
        for end, neighbours in ((0, counts[1 : 1 + END_NEIGHBOURS]), (-1, counts[-1 - END_NEIGHBOURS : -1])):
            piled[end] = counts[end] >= PILE_RATIO * np.median(neighbours)
    return piled


def _min_component_width(map: CodeMap, values: Floats, step: float) -> float:
    """In code: a quarter of a step where the map is flat, at the first decile of the steps' widths."""
    below, above = map.widths(values, step / 2)
    return float(np.clip(np.quantile(below + above, 0.1) / 4, 1e-5, 1e-2))


# ---------------------------------------------------------------- many properties


def padded(rows: Sequence[Sequence[float]], fill: float | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
    """Rows of different length as one table, the shorter ones padded with `fill`, or by repeating their last value."""
    longest = max(map(len, rows), default=0)
    filled = [[*row, *[row[-1] if fill is None else fill] * (longest - len(row))] for row in rows]
    return torch.tensor(filled, dtype=dtype).reshape(len(rows), longest)


class CodecTables(nn.Module):
    """The codecs of all number properties, stacked: maps, grids, bounds and atoms by slot, in float64.

    Shorter maps are padded by repeating their last knot, so no search ends within the padding; atoms with infinity. All
    of it is in the codecs, so none is saved with the weights. What this does for rows of many slots, `NumberCodec` does
    for one slot; a test compares them.
    """

    x: Tensor
    z: Tensor
    slope: Tensor
    step: Tensor
    low: Tensor
    high: Tensor
    least: Tensor
    greatest: Tensor
    atoms: Tensor
    floor: Tensor

    def __init__(self, codecs: Sequence[NumberCodec]) -> None:
        super().__init__()
        x, z, slope = zip(*(codec.map.knots for codec in codecs), strict=True) if codecs else ((), (), ())
        tables = {
            "x": padded([row.tolist() for row in x]),  # (S, P)
            "z": padded([row.tolist() for row in z]),  # (S, P)
            "slope": padded([row.tolist() for row in slope]),  # (S, P + 1): the padding is as steep as the last tail
            "step": torch.tensor([codec.step for codec in codecs], dtype=torch.float64),  # (S,)
            "low": torch.tensor([codec.bounds[0] for codec in codecs], dtype=torch.float64),
            "high": torch.tensor([codec.bounds[1] for codec in codecs], dtype=torch.float64),
            "least": torch.tensor([codec.training_range[0] for codec in codecs], dtype=torch.float64),
            "greatest": torch.tensor([codec.training_range[1] for codec in codecs], dtype=torch.float64),
            "floor": torch.tensor([codec.floor_of_logs for codec in codecs], dtype=torch.float64),
            "atoms": padded([codec.atoms for codec in codecs], fill=torch.inf),  # (S, A)
        }
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)

    def forward(self, slot: Tensor, values: Tensor) -> Tensor:
        """Numbers (n, m) to codes z (n, m)."""
        return self._interpolated(self.x[slot], self.z[slot], self.slope[slot], values)[0]

    def inverse(self, slot: Tensor, codes: Tensor) -> Tensor:
        """Codes z (n, m) to numbers within the bounds (n, m), not rounded."""
        values, _ = self._interpolated(self.z[slot], self.x[slot], 1 / self.slope[slot], codes)
        return self.bounded(slot, values)

    def derivative(self, slot: Tensor, values: Tensor) -> Tensor:
        """dz / dx (n, m)."""
        return self.slope[slot].gather(1, torch.searchsorted(self.x[slot], values, right=True))

    @staticmethod
    def _interpolated(start: Tensor, end: Tensor, slope: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Values on the lines through knots (n, P), and the piece that each is on (n, m)."""
        values = values.contiguous()
        piece = torch.searchsorted(start, values, right=True)  # (n, m)
        left = (piece - 1).clamp(min=0)
        return end.gather(1, left) + (values - start.gather(1, left)) * slope.gather(1, piece), piece

    def scaled(self, slot: Tensor, values: Tensor) -> Tensor:
        """Numbers (n, m) on the scale of their property: the logarithm where its values are skewed."""
        floor = self.floor[slot, None]
        return torch.where(floor > 0, torch.maximum(values, floor).clamp(min=MIN_WIDTH).log(), values)

    def unscaled(self, slot: Tensor, values: Tensor) -> Tensor:
        """Numbers (n, m) at these points of their property's scale."""
        return torch.where(self.floor[slot, None] > 0, values.clamp(max=LARGEST_LOG).exp(), values)

    def bounded(self, slot: Tensor, values: Tensor) -> Tensor:
        """Numbers (n, m) clamped to the bounds."""
        return torch.minimum(torch.maximum(values, self.low[slot, None]), self.high[slot, None])

    def within_training(self, slot: Tensor, values: Tensor) -> Tensor:
        """Numbers (n, m) on the grid, clamped to the range of the training values."""
        clamped = torch.minimum(torch.maximum(values, self.least[slot, None]), self.greatest[slot, None])
        return self.snapped(slot, clamped)

    def snapped(self, slot: Tensor, values: Tensor) -> Tensor:
        """Numbers (n, m) on the grid of the resolution and within the bounds; an atom where one is within half a step."""
        step, least, greatest = self.step[slot, None], self.least[slot, None], self.greatest[slot, None]
        steps = values / step
        rounded = torch.where(steps.isinf(), values, torch.round(steps) * step)
        is_outside = (rounded < least) | (
            rounded > greatest
        )  # as in NumberCodec.decode, such a number keeps more digits
        values = self.bounded(slot, values.where(is_outside & (values >= least) & (values <= greatest), rounded))
        atom = self.atom(slot, values)
        return torch.where(atom < 0, values, self._atoms_at(slot, atom)) if self.atoms.shape[1] else values

    def atom(self, slot: Tensor, values: Tensor) -> Tensor:
        """(n, m) which atom each number is, or -1."""
        if self.atoms.shape[1] == 0:
            return torch.full_like(values, -1, dtype=torch.long)
        atoms, values = self.atoms[slot], values.contiguous()
        right = torch.searchsorted(atoms, values).clamp(max=atoms.shape[1] - 1)
        left = (right - 1).clamp(min=0)
        near, far = (values - atoms.gather(1, left)).abs(), (values - atoms.gather(1, right)).abs()
        nearest = torch.where(near <= far, left, right)
        return torch.where(torch.minimum(near, far) < self.step[slot, None] / 2, nearest, -1)

    def _atoms_at(self, slot: Tensor, atom: Tensor) -> Tensor:
        return self.atoms[slot].gather(1, atom.clamp(min=0))

    def codes(self, slot: Tensor, values: Tensor) -> Tensor:
        """Numbers (n, m) as codes (n, m, 4), as NumberCodec.encode has them."""
        x, z, slope = self.x[slot], self.z[slot], self.slope[slot]
        half = self.step[slot, None] / 2
        code, piece = self._interpolated(x, z, slope, values)  # (n, m) each
        low, lower_piece = self._interpolated(x, z, slope, values - half)
        high, upper_piece = self._interpolated(x, z, slope, values + half)
        straight = slope.gather(1, piece) * half  # right also where half is lost in the precision of x
        below = torch.where(lower_piece == piece, straight, code - low).clamp(MIN_WIDTH, OPEN_WIDTH)
        above = torch.where(upper_piece == piece, straight, high - code).clamp(MIN_WIDTH, OPEN_WIDTH)
        below = below.masked_fill(values - self.low[slot, None] < half, OPEN_WIDTH)
        above = above.masked_fill(self.high[slot, None] - values < half, OPEN_WIDTH)
        parts = [code.clamp(-MAX_CODE, MAX_CODE), below, above, self.atom(slot, values).double()]
        return torch.stack(parts, dim=2).float()

    def finite_atoms(self, slot: Tensor) -> Tensor:
        """(n, A) the atoms, and 0, clamped to the bounds, where a property has fewer."""
        atoms = self.atoms[slot]
        return self.bounded(slot, atoms.where(atoms.isfinite(), 0))

    def ends(self, slot: Tensor, values: Tensor) -> Tensor:
        """(n, 2 m) the first and the last step of the piece of the map that each number is on; in a tail the number."""
        x, half = self.x[slot], self.step[slot, None] / 2
        right = torch.searchsorted(x, values.contiguous(), right=True)
        first, last = x.gather(1, (right - 1).clamp(min=0)) + half, x.gather(1, right.clamp(max=x.shape[1] - 1)) - half
        inner = (right > 0) & (right < x.shape[1])
        return torch.cat([torch.where(inner, first, values), torch.where(inner, last, values)], dim=1)

    def edges(self, slot: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """(n, m) each: the codes where the steps around numbers (n, m) begin and end; infinite at the bounds."""
        half = self.step[slot, None] / 2
        below, above = self.forward(slot, values - half), self.forward(slot, values + half)
        below = below.masked_fill(values - self.low[slot, None] < half, -torch.inf)
        return below, above.masked_fill(self.high[slot, None] - values < half, torch.inf)
