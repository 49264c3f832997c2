"""Truncated beliefs: values that the given ones exclude have no probability, and the rest is renormalised.

A predicted number is kept where it is allowed; otherwise it becomes the median of the allowed part. A label becomes the
likeliest allowed one. Confidence is that of the truncated belief.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kbdisk.completion.constraints import Interval, Restriction, years_of
from kbdisk.completion.predictions import Prediction
from kbdisk.completion.shrinkage import Shrinker
from kbdisk.data import Codec
from kbdisk.data.dataset import Batch
from kbdisk.entity import Date, Path
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.model.beliefs import Beliefs
from kbdisk.schemas.composites.date import Date as DateKind
from kbdisk.schemas.composites.quantity import VALUE

MIN_MASS = 1e-4  # of the allowed values; a belief with less mass is not truncated
LABELS = ("category", "link")

Bounds = tuple[float, float]


def truncate(
    codec: Codec,
    shrinker: Shrinker,
    batch: Batch,
    beliefs: Beliefs,
    predicted: Mapping[str, Tensor],
    predictions: Sequence[Sequence[Prediction]],
    restrictions: Sequence[Mapping[Path, Sequence[Restriction]]],
) -> tuple[dict[str, Tensor], dict[int, float]]:
    """The codes (q, ...) with those of truncated beliefs, and the confidence of the latter by token.

    `predictions` and `restrictions` are those of each entity, restrictions by the paths of gaps.
    """
    codes, confidences = {kind: values.clone() for kind, values in predicted.items()}, dict[int, float]()
    rows = {
        token: (kind, row)
        for kind in ("number", *LABELS)
        if kind in beliefs.kinds
        for row, token in enumerate(beliefs.kinds[kind].tokens.tolist())
    }
    for prediction, of_gap in _restricted(predictions, restrictions):
        for path, token in prediction.tokens.items():
            if token not in rows:
                continue
            kind, row = rows[token]
            belief: Any = beliefs.kinds[kind].belief.pick(torch.tensor([row], device=batch.slot.device))
            slot = int(batch.slot[token])
            if kind == "number":
                bounds = _bounds(prediction, path, of_gap)
                truncated = None if bounds is None else _number(codec, slot, belief, codes[kind][[row]], bounds)
            else:
                truncated = _label(codec, shrinker, slot, belief, int(codes[kind][row]), of_gap)
            if truncated is not None:
                codes[kind][row], confidences[token] = truncated
    return codes, confidences


def _restricted(
    predictions: Sequence[Sequence[Prediction]], restrictions: Sequence[Mapping[Path, Sequence[Restriction]]]
) -> Iterator[tuple[Prediction, Sequence[Restriction]]]:
    for of_entity, by_path in zip(predictions, restrictions, strict=True):
        for prediction in of_entity if by_path else ():
            if not prediction.why_not and (of_gap := by_path.get(prediction.gap.path)):
                yield prediction, of_gap


def _bounds(prediction: Prediction, path: Path, restrictions: Sequence[Restriction]) -> Bounds | None:
    """The least and the greatest number that the restrictions allow for a leaf; None where they allow all numbers."""
    gap = prediction.gap
    low, high = -np.inf, np.inf
    for interval in (restriction.interval for restriction in restrictions):
        if interval is None or interval == Interval():
            continue
        if isinstance(gap.field.kind, DateKind):
            if path[-1] != "year":
                continue
            first, last = years_of(interval)
            low, high = max(low, first if first is not None else low), min(high, last if last is not None else high)
        elif path == gap.path or path[len(gap.path) :] == VALUE:
            if isinstance(interval.low, Date) or isinstance(interval.high, Date):
                continue
            low = max(low, _end(interval.low, interval.low_open, np.inf))
            high = min(high, _end(interval.high, interval.high_open, -np.inf))
    return None if (low, high) == (-np.inf, np.inf) else (low, high)


def _end(bound: Any, is_open: bool, inwards: float) -> float:
    """A bound of an interval as a number in it; infinite where it is unbounded."""
    if bound is None:
        return -inwards
    return float(np.nextafter(float(bound), inwards)) if is_open else float(bound)


def _number(codec: Codec, slot: int, belief: NumberBelief, code: Tensor, bounds: Bounds) -> tuple[Tensor, float] | None:
    """The code (4,) of a number within bounds, and the probability that the truth is within its tolerance.

    None where the belief has hardly any mass within the bounds.
    """
    low, high = bounds
    ends = torch.tensor([[np.nextafter(low, -np.inf), high]], dtype=torch.float64, device=belief.slot.device)
    below, up_to = belief.cdf(ends.clamp(-1e300, 1e300))[0].tolist()
    mass = up_to - below
    if mass < MIN_MASS:
        return None
    value = float(belief.values(code)[0])
    if not low <= value <= high:
        value = float(belief.quantile(below + mass / 2)[0])
        step = codec.slots[slot].codec.step
        value = min(max(value, low), high)
        rounded = np.floor(value / step) * step if high - value < step else np.ceil(value / step) * step
        value = float(rounded) if low <= rounded <= high else value
        code = belief.codes(torch.tensor([value], dtype=torch.float64, device=belief.slot.device))
    within = float(codec.slots[slot].codec.tolerances(np.array([value]))[0])
    near = torch.tensor([[max(value - within - 1e-9, low - 1e-9), min(value + within, high)]], dtype=torch.float64)
    first, last = belief.cdf(near.to(belief.slot.device))[0].tolist()
    return code[0], min(max((last - first) / mass, 0.0), 1.0)


def _label(
    codec: Codec, shrinker: Shrinker, slot: int, belief: Any, code: int, restrictions: Sequence[Restriction]
) -> tuple[Tensor, float] | None:
    """The code of the likeliest allowed label, and its probability among these; None where no label is excluded."""
    shares = shrinker.label_probabilities(slot, belief)
    labels = codec.slots[slot].codec.decode(torch.arange(len(shares)))
    forbidden = {label for restriction in restrictions for label in restriction.forbidden}
    is_allowed = [
        label not in forbidden
        and all(restriction.allowed is None or label in restriction.allowed for restriction in restrictions)
        for label in labels
    ]
    if all(is_allowed):
        return None
    allowed = shares * torch.tensor(is_allowed, dtype=shares.dtype, device=shares.device)
    mass = float(allowed.sum())
    if mass < MIN_MASS:
        return None
    best = code if 0 <= code < len(is_allowed) and is_allowed[code] else int(allowed.argmax())
    return torch.tensor(best, device=shares.device), float(allowed[best]) / mass
