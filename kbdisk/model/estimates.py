"""Point estimates of beliefs: one value, its confidence and its interval. The best estimate depends on the cost of an error.

    mean     least squared error       median   least absolute error: the median, or nearly (`NumberBelief.typical`)
    mode     most often right          sample   as varied as the truth

Categories, links, sets and texts are estimated by their mode, or a sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from kbdisk.data import Codec
from kbdisk.data.dataset import Batch
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.model.beliefs import Asked, Beliefs
from kbdisk.plugins import load_part
from kbdisk.schemas.kinds import KINDS, MAX_EXACT

INTERVAL_LEVEL = 0.9
STEPS_PER_INTERVAL = 100  # a number is rounded to about this share of its interval


@dataclass(frozen=True)
class Estimate:
    """The point estimate of one asked token, with its confidence and its interval."""

    entity: int  # its number in the batch
    slot: int
    token: int
    value: Any
    confidence: float  # the probability that it is right: a number within its tolerance; of a set the share of members
    interval: tuple[float, float] | None = None  # of a number: where the truth is with the probability `INTERVAL_LEVEL`
    within: float | None = None
    rank: float | None = None  # of a number whose truth is known, the share of the belief that is below it


LevelOf = Callable[[Tensor], Tensor]  # from tokens (q,) to the levels (q,) of their intervals
Estimator = Callable[[NumberBelief, Generator | None], Tensor]

ESTIMATES: dict[str, Estimator] = {
    "median": lambda belief, generator: belief.codes(belief.typical()),
    "mean": lambda belief, generator: belief.codes(belief.mean()),
    "mode": lambda belief, generator: belief.mode(),
    "sample": lambda belief, generator: belief.sample(generator=generator),
}


def estimate_codes(beliefs: Beliefs, estimate: str = "median", generator: Generator | None = None) -> dict[str, Tensor]:
    """kind -> codes (q, ...) of the estimate of each asked token."""
    if estimate not in ESTIMATES:
        raise ValueError(f"expected one of {', '.join(ESTIMATES)} to estimate by, got {estimate!r}")
    codes: dict[str, Tensor] = {}
    for kind, asked in beliefs.kinds.items():
        if kind == "number":
            codes[kind] = ESTIMATES[estimate](asked.belief, generator)  # type: ignore[arg-type]
        else:
            codes[kind] = asked.belief.sample(generator=generator) if estimate == "sample" else asked.belief.mode()
    return codes


def estimate_values(
    codec: Codec,
    batch: Batch,
    beliefs: Beliefs,
    estimate: str = "median",
    *,
    level: LevelOf | float = INTERVAL_LEVEL,
    generator: Generator | None = None,
    codes: Mapping[str, Tensor] | None = None,
    has_truth: bool = False,
) -> list[Estimate]:
    """The estimates of all asked tokens, kind by kind, or of `codes` that the caller has chosen already.

    `level` is that of the intervals of numbers, or a function from tokens (q,) to it. With `has_truth` the batch has the
    values of the asked tokens, and each estimate the rank of the truth.
    """
    codes = estimate_codes(beliefs, estimate, generator) if codes is None else codes
    return [
        estimated
        for kind, asked in beliefs.kinds.items()
        for estimated in _estimates_of_kind(codec, batch, kind, asked, codes[kind], level, has_truth, generator)
    ]


def _estimates_of_kind(
    codec: Codec,
    batch: Batch,
    kind: str,
    asked: Asked,
    codes: Tensor,
    level: LevelOf | float,
    has_truth: bool,
    generator: Generator | None,
) -> Iterator[Estimate]:
    tokens = asked.tokens
    values = decode_codes(codec, batch.slot[tokens], codes)
    low = high = within = ranks = None
    if kind == "number":
        belief: NumberBelief = asked.belief  # type: ignore[assignment]
        levels = level if isinstance(level, float) else level(tokens)
        low, high = (bound.tolist() for bound in belief.interval(levels))
        if has_truth:
            ranks = _ranks(belief, batch.values[kind][tokens - batch.spans[kind][0]], generator).tolist()
        middle = belief.values(codes)
        within = tolerances(codec, batch.slot[tokens], middle)  # (q,)
        confidence = (belief.cdf(middle + within) - belief.cdf(middle - within - 1e-9)).clamp(0, 1)
    else:
        confidence = (load_part(KINDS[kind].confidence) or probability)(asked.belief, codes)
    entities, slots, numbers = batch.entity[tokens].tolist(), batch.slot[tokens].tolist(), tokens.tolist()
    for i, (entity, slot, token) in enumerate(zip(entities, slots, numbers, strict=True)):
        interval = None if low is None or high is None else (low[i], high[i])
        tolerance = None if within is None else float(within[i])
        rank = None if ranks is None else ranks[i]
        yield Estimate(entity, slot, token, values[i], float(confidence[i]), interval, tolerance, rank)


def _ranks(belief: NumberBelief, truth: Tensor, generator: Generator | None) -> Tensor:
    """(q,) the share of each belief that is below the truth; where the truth is an atom, a random share of that."""
    values = belief.values(truth)
    just_below = torch.nextafter(values, torch.full_like(values, -math.inf))
    below, up_to = belief.cdf(just_below), belief.cdf(values)
    draw = torch.rand(len(values), generator=generator, device=values.device, dtype=torch.float64)
    return (below + draw * (up_to - below)).clamp(0, 1)


def probability(belief: Any, codes: Tensor) -> Tensor:
    """(q,) the probability of the codes."""
    return belief.log_prob(codes).exp()  # type: ignore[no-any-return]


def expected_precision(belief: Any, codes: Tensor) -> Tensor:
    """(q,) the expected share of the stated members that are right; of an empty set the probability that it is empty."""
    members = (codes >= 0).sum(1)
    precision: Tensor = belief.probs_of(codes).sum(1) / members.clamp(min=1)
    empty = (members == 0).nonzero()[:, 0]
    if len(empty):
        precision[empty] = belief.pick(empty).log_prob(codes[empty]).exp()
    return precision


def decode_codes(codec: Codec, slots: Tensor, codes: Tensor) -> list[Any]:
    """The values that codes (q, ...) of some slots (q,) stand for; None where a label has no name."""
    column = torch.from_numpy(codec.index.column).to(slots.device)[slots]
    values: list[Any] = [None] * len(slots)
    for number in sorted(set(column.tolist())):
        rows = (column == number).nonzero()[:, 0]
        for row, value in zip(rows.tolist(), codec.index.columns[number].codec.decode(codes[rows]), strict=True):
            values[row] = value
    return values


def round_to_interval(number: float, interval: tuple[float, float]) -> float:
    """A number rounded to about a hundredth of its interval, without loss of integer digits.

    A number too large to be exact as a float keeps three digits instead.
    """
    step = (interval[1] - interval[0]) / STEPS_PER_INTERVAL
    if not 0 < step < math.inf:
        return number
    digits = -math.floor(math.log10(step))
    min_digits = 2 - math.floor(math.log10(abs(number))) if abs(number) >= MAX_EXACT else 0
    return round(number, max(digits, min_digits))


def tolerances(codec: Codec, slots: Tensor, values: Tensor) -> Tensor:
    """(q,) the largest error of each predicted number of a slot that still counts as right."""
    result = torch.zeros(len(slots), dtype=torch.float64, device=slots.device)
    for slot in set(slots.tolist()):
        rows = slots == slot
        numbers = values[rows].double().cpu().numpy()
        result[rows] = torch.from_numpy(codec.slots[slot].codec.tolerances(numbers)).to(slots.device)
    return result
