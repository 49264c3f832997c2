"""Beliefs within constraints: what the given values of an entity exclude has no probability, and the rest is renormalised.

A number keeps its place where that is allowed; otherwise it becomes the median of the allowed part. A label becomes the
likeliest that is allowed. Confidence is that of the restricted belief.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from kbdisk.completion.constraints import Interval, Restriction, years_of
from kbdisk.completion.trusting import Trusting
from kbdisk.data import Codec
from kbdisk.data.batch import Batch
from kbdisk.entity import Date, Path
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.network.beliefs import Beliefs
from kbdisk.schemas.composites.date import Date as DateKind
from kbdisk.schemas.composites.quantity import VALUE

if TYPE_CHECKING:
    from kbdisk.completion.predictions import Prediction

MIN_MASS = 1e-4  # of what is allowed, below which the belief says nothing about it
LABELS = ("category", "link")

Bounds = tuple[float, float]


def restrict(
    codec: Codec,
    trusting: Trusting,
    batch: Batch,
    beliefs: Beliefs,
    stated: Mapping[str, Tensor],
    predictions: Sequence[Sequence[Prediction]],
    restrictions: Sequence[Mapping[Path, Sequence[Restriction]]],
) -> tuple[dict[str, Tensor], dict[int, float]]:
    """The codes (q, ...) with restricted ones, and the confidence of these by token. Restrictions are those of each entity, by gap."""
    codes, sure = {kind: values.clone() for kind, values in stated.items()}, dict[int, float]()
    rows = {
        token: (kind, row)
        for kind in ("number", *LABELS)
        if kind in beliefs.kinds
        for row, token in enumerate(beliefs.kinds[kind].tokens.tolist())
    }
    for prediction, several in _restricted(predictions, restrictions):
        for path, token in prediction.tokens.items():
            if token not in rows:
                continue
            kind, row = rows[token]
            picked: Any = beliefs.kinds[kind].belief.pick(torch.tensor([row], device=batch.slot.device))
            slot = int(batch.slot[token])
            if kind == "number":
                bounds = _bounds(prediction, path, several)
                found = None if bounds is None else _number(codec, slot, picked, codes[kind][[row]], bounds)
            else:
                found = _label(codec, trusting, slot, picked, int(codes[kind][row]), several)
            if found is not None:
                codes[kind][row], sure[token] = found
    return codes, sure


def _restricted(
    predictions: Sequence[Sequence[Prediction]], restrictions: Sequence[Mapping[Path, Sequence[Restriction]]]
) -> Iterator[tuple[Prediction, Sequence[Restriction]]]:
    for own, by_path in zip(predictions, restrictions, strict=True):
        for prediction in own if by_path else ():
            if not prediction.why_not and (several := by_path.get(prediction.gap.path)):
                yield prediction, several


def _bounds(prediction: Prediction, path: Path, several: Sequence[Restriction]) -> Bounds | None:
    """The least and the greatest number that the restrictions leave to a leaf; None where they leave it all."""
    gap = prediction.gap
    low, high = -np.inf, np.inf
    for interval in (one.interval for one in several):
        if interval is None or interval == Interval():
            continue
        if isinstance(gap.of.kind, DateKind):
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
    """An end of an interval as a number that lies in it; infinite where there is no bound."""
    if bound is None:
        return -inwards
    return float(np.nextafter(float(bound), inwards)) if is_open else float(bound)


def _number(codec: Codec, slot: int, belief: NumberBelief, code: Tensor, bounds: Bounds) -> tuple[Tensor, float] | None:
    """The code (4,) of the number that is stated within bounds, and how likely the truth is near it."""
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
    codec: Codec, trusting: Trusting, slot: int, belief: Any, code: int, several: Sequence[Restriction]
) -> tuple[Tensor, float] | None:
    """The likeliest label that is allowed, and how likely it is among these; None where nothing is excluded."""
    shares = trusting.shares(slot, belief)
    labels = codec.slots[slot].codec.decode(torch.arange(len(shares)))
    forbidden = {label for one in several for label in one.forbidden}
    allowed = [
        label not in forbidden and all(one.allowed is None or label in one.allowed for one in several)
        for label in labels
    ]
    if all(allowed):
        return None
    kept = shares * torch.tensor(allowed, dtype=shares.dtype, device=shares.device)
    mass = float(kept.sum())
    if mass < MIN_MASS:
        return None
    best = code if 0 <= code < len(allowed) and allowed[code] else int(kept.argmax())
    return torch.tensor(best, device=shares.device), float(kept[best]) / mass
