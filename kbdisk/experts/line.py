"""A straight line of one other number: what a number is said to be where the other one nearly tells it.

Trees tell a birth from a death in steps, and nothing beyond the known ones: few values make few steps. A line needs two. It is
fitted on the scale of the target, by least squares and again without the largest errors, to the column that explains most.
There is none where no column explains most of the values that have both.

Trees that are fitted to what a line leaves were worse than the line alone, and so was the mean of both: where the other number
is not visible, what is left is large, and trees that learn it spoil the rest.

n values   F features   P knots
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kbdisk.data import Codec
from kbdisk.experts.feature_screening import gains
from kbdisk.experts.features import OneHotFeatures
from kbdisk.experts.gaussian_process import interpolate, rising_knots
from kbdisk.experts.target_scale import TargetScale

MIN_VALUES = 20  # that both numbers are known of
MIN_EXPLAINED = (
    0.6  # of the distances of the values that have both from their median: a weaker line only adds its noise
)
MAX_COLUMNS = 8  # that lines are fitted to: those that explain most by themselves
KEPT = 0.9  # of the values: those with the smallest errors, to which a line is fitted again
BEYOND = 0.5  # of the range of the known values: how far a line may lead beyond them


@dataclass(frozen=True)
class Line:
    """Points of the target's scale by another number, or by its logarithm where the target's scale is one of logarithms."""

    column: Tensor  # () of all features
    knots: Tensor  # (2, P) float64 codes of the other number, and the numbers
    numbers: Tensor  # (5,) float64: slope, intercept, bounds of the target, the least number of which a log is taken

    def __call__(self, features: Tensor) -> Tensor:
        """(n, F) features -> (n,) float64; NaN where the other number is not visible"""
        return self.of(features[:, self.column])

    def of(self, codes: Tensor) -> Tensor:
        """(n,) codes of the other number -> (n,) float64"""
        slope, intercept, low, high, least = self.numbers.unbind()
        numbers = interpolate(self.knots, codes.double())
        numbers = torch.where(least > 0, torch.maximum(numbers, least).log(), numbers)
        return (slope * numbers + intercept).clamp(low, high)

    def to(self, device: torch.device) -> Line:
        """The same on a device."""
        return Line(*(tensor.to(device) for tensor in vars(self).values()))

    @classmethod
    def best(
        cls, codec: Codec, columns: OneHotFeatures, used: Tensor, features: Tensor, target: Tensor, scale: TargetScale
    ) -> Line | None:
        """The line of one of the used columns (f,), by features (n, f) and targets (n,), that explains most; None if none does."""
        found: tuple[float, Line | None] = (0.0, None)
        slots = columns.slot.cpu()[used]
        numbers = (columns.label.cpu()[used] < 0).nonzero()[:, 0]
        if len(numbers) > MAX_COLUMNS:
            explained = gains(features[:, numbers], target[:, None])
            numbers = numbers[explained.topk(MAX_COLUMNS).indices.sort().values]
        for place in numbers.tolist():
            codes = features[:, place]
            known = ~codes.isnan()
            if int(known.sum()) < MIN_VALUES:
                continue
            line = _fitted(codec.slots[int(slots[place])].codec, used[place], codes[known], target, known, scale)
            if line is not None:
                both = target[known]
                apart = float((both - both.median()).abs().sum())
                gain = apart - float((both - line.of(codes[known])).abs().sum())
                if gain >= MIN_EXPLAINED * apart:
                    found = max(found, (gain, line), key=lambda pair: pair[0])
        return found[1]


def _fitted(
    codec: Any, column: Tensor, codes: Tensor, target: Tensor, known: Tensor, scale: TargetScale
) -> Line | None:
    number_knots, code_knots, _ = codec.map.knots
    knots = rising_knots(code_knots, number_knots)
    if knots.shape[1] < 2:
        return None
    visible_numbers, y = interpolate(knots, codes.double()), target[known]
    least = (codec.floor_of_logs or float(visible_numbers.min())) if scale.least else 0.0
    if scale.least and least <= 0:
        return None
    x = visible_numbers.clamp(min=least).log() if scale.least else visible_numbers
    kept = torch.ones(len(x), dtype=torch.bool)
    slope, intercept = 0.0, 0.0
    for _ in range(2):
        mean, deviation = x[kept].mean(), x[kept].std()
        if not bool(deviation > 0) or not bool(deviation.isfinite()):
            return None
        standard = (x[kept] - mean) / deviation
        slope = float((standard * (y[kept] - y[kept].mean())).sum() / standard.square().sum() / deviation)
        intercept = float(y[kept].mean()) - slope * float(mean)
        errors = (y - slope * x - intercept).abs()
        kept = errors <= errors.quantile(KEPT)
    low, high = float(target.min()), float(target.max())
    margin = BEYOND * (high - low)
    numbers = torch.tensor([slope, intercept, low - margin, high + margin, least], dtype=torch.float64)
    return Line(column, knots, numbers)
