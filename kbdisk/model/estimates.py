"""What is said for a belief: one value, how sure, and between which bounds. Which value is best depends on what an error costs.

    mean     least squared error       median   least absolute error: the median, or nearly (`NumberBelief.typical`)
    mode     most often right          sample   as varied as the truth

Categories, links, sets and texts are said by their likeliest value, or a sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from kbdisk.data import Codec
from kbdisk.data.batch import Batch
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.model.beliefs import Asked, Beliefs
from kbdisk.schemas.kinds import MAX_EXACT

LEVEL = 0.9
FINER = 100  # than its interval: the digits that a number is given


@dataclass(frozen=True)
class Answer:
    """What is said for one asked token."""

    entity: int  # its number in the batch
    slot: int
    token: int
    value: Any
    confidence: float  # the probability that it is right: a number within its tolerance; of a set the share of members
    interval: tuple[float, float] | None = None  # of a number: where the truth is with the probability `LEVEL`
    within: float | None = None
    rank: float | None = None  # of a number whose truth is known, the share of the belief that is below it


LevelOf = Callable[[Tensor], Tensor]  # from tokens (q,) to the levels (q,) of their intervals
Estimate = Callable[[NumberBelief, Generator | None], Tensor]

ESTIMATES: dict[str, Estimate] = {
    "median": lambda belief, generator: belief.codes(belief.typical()),
    "mean": lambda belief, generator: belief.codes(belief.mean()),
    "mode": lambda belief, generator: belief.mode(),
    "sample": lambda belief, generator: belief.sample(generator=generator),
}


def estimated(beliefs: Beliefs, estimate: str = "median", generator: Generator | None = None) -> dict[str, Tensor]:
    """kind -> codes (q, ...) of what is said for each asked token."""
    if estimate not in ESTIMATES:
        raise ValueError(f"expected one of {', '.join(ESTIMATES)} to estimate by, got {estimate!r}")
    said: dict[str, Tensor] = {}
    for kind, one in beliefs.kinds.items():
        if kind == "number":
            said[kind] = ESTIMATES[estimate](one.belief, generator)  # type: ignore[arg-type]
        else:
            said[kind] = one.belief.sample(generator=generator) if estimate == "sample" else one.belief.mode()
    return said


def answers(
    codec: Codec,
    batch: Batch,
    beliefs: Beliefs,
    estimate: str = "median",
    *,
    level: LevelOf | float = LEVEL,
    generator: Generator | None = None,
    said: Mapping[str, Tensor] | None = None,
    has_truth: bool = False,
) -> list[Answer]:
    """What is said for every asked token, kind by kind; where codes were `said` already, how sure that is.

    `level` of the intervals of numbers, or a function from tokens (q,) to it. With `has_truth` the batch has the values of
    the asked tokens, and each answer the rank of the truth.
    """
    said = estimated(beliefs, estimate, generator) if said is None else said
    return [
        answer
        for kind, asked in beliefs.kinds.items()
        for answer in _answers(codec, batch, kind, asked, said[kind], level, has_truth, generator)
    ]


def _answers(
    codec: Codec,
    batch: Batch,
    kind: str,
    asked: Asked,
    codes: Tensor,
    level: LevelOf | float,
    has_truth: bool,
    generator: Generator | None,
) -> Iterator[Answer]:
    tokens = asked.tokens
    values = decoded(codec, batch.slot[tokens], codes)
    low = high = within = ranks = None
    if kind == "number":
        belief: NumberBelief = asked.belief  # type: ignore[assignment]
        levels = level if isinstance(level, float) else level(tokens)
        low, high = (bound.tolist() for bound in belief.interval(levels))
        if has_truth:
            ranks = _ranks(belief, batch.values[kind][tokens - batch.spans[kind][0]], generator).tolist()
        middle = belief.values(codes)
        within = tolerances(codec, batch.slot[tokens], middle)  # (q,)
        sure = (belief.cdf(middle + within) - belief.cdf(middle - within - 1e-9)).clamp(0, 1)
    elif kind == "set":
        sure = _members_sure(asked.belief, codes)
    else:
        sure = asked.belief.log_prob(codes).exp()
    whose, slots, places = batch.entity[tokens].tolist(), batch.slot[tokens].tolist(), tokens.tolist()
    for i, (entity, slot, token) in enumerate(zip(whose, slots, places, strict=True)):
        between = None if low is None or high is None else (low[i], high[i])
        off = None if within is None else float(within[i])
        rank = None if ranks is None else ranks[i]
        yield Answer(entity, slot, token, values[i], float(sure[i]), between, off, rank)


def _ranks(belief: NumberBelief, truth: Tensor, generator: Generator | None) -> Tensor:
    """(q,) the share of each belief that is below the truth; where the truth is an atom, a random share of that."""
    values = belief.values(truth)
    beneath = torch.nextafter(values, torch.full_like(values, -math.inf))
    below, up_to = belief.cdf(beneath), belief.cdf(values)
    draw = torch.rand(len(values), generator=generator, device=values.device, dtype=torch.float64)
    return (below + draw * (up_to - below)).clamp(0, 1)


def _members_sure(belief: Any, codes: Tensor) -> Tensor:
    """(q,) the expected share of the stated members that are right; of an empty set the probability that it is empty."""
    stated = codes >= 0
    chances = belief.probs.gather(1, codes.clamp(min=0)).where(stated, 0)
    return torch.where(stated.any(1), chances.sum(1) / stated.sum(1).clamp(min=1), belief.log_prob(codes).exp())


def decoded(codec: Codec, slots: Tensor, codes: Tensor) -> list[Any]:
    """The values that codes (q, ...) of some slots (q,) stand for; None where a label has no name."""
    column = torch.from_numpy(codec.index.column).to(slots.device)[slots]
    values: list[Any] = [None] * len(slots)
    for which in sorted(set(column.tolist())):
        rows = (column == which).nonzero()[:, 0]
        for row, value in zip(rows.tolist(), codec.index.columns[which].codec.decode(codes[rows]), strict=True):
            values[row] = value
    return values


def shortened(number: float, interval: tuple[float, float]) -> float:
    """A number to some hundredth of how unsure it is, in whole digits: further ones say nothing. One so large that a
    float has none of its last digits goes without these, too."""
    unsure = (interval[1] - interval[0]) / FINER
    if not 0 < unsure < math.inf:
        return number
    digits = -math.floor(math.log10(unsure))
    # three digits, or all whole ones
    least = 2 - math.floor(math.log10(abs(number))) if abs(number) >= MAX_EXACT else 0
    return round(number, max(digits, least))


def tolerances(codec: Codec, slots: Tensor, values: Tensor) -> Tensor:
    """(q,) how far off the truth each predicted number of a slot may be and still count as right."""
    found = torch.zeros(len(slots), dtype=torch.float64, device=slots.device)
    for slot in set(slots.tolist()):
        rows = slots == slot
        numbers = values[rows].double().cpu().numpy()
        found[rows] = torch.from_numpy(codec.slots[slot].codec.tolerances(numbers)).to(slots.device)
    return found
