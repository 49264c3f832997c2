"""How good answers are: errors of hidden values, beside those of one constant answer for all entities.

    number                     mean absolute error (of the median), root mean squared error (of the mean)
    category, boolean, link    error rate
    set, text                  1 - IoU: of members, of words

    better  =  1 - ours / constant: 0 is as good as the constant, 1 is always right

The constants are what training says is best: median, mean, the commonest label, the members or words that are in
the most. `nats` are -log p; those of the constant are `marginals`'.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kbdisk.constants import Constant, Constants, nearest
from kbdisk.data import Codec
from kbdisk.data.batch import Batch
from kbdisk.data.graph import pattern
from kbdisk.data.slots import Slot
from kbdisk.entity import Path
from kbdisk.estimates import LEVEL, LevelOf, decoded
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.leaves.text.decoder import TextBelief
from kbdisk.marginals import Marginals
from kbdisk.metrics import METRICS, error, words
from kbdisk.network.beliefs import Asked, Beliefs
from kbdisk.schemas.composites import show_pattern
from kbdisk.schemas.composites.quantity import VALUE, Quantity
from kbdisk.schemas.leaf import kind_of
from kbdisk.schemas.schema import Schema
from kbdisk.trust import of_labels, of_numbers

DRAWS = 32  # texts from which it is told which words overlap most
SLACK = 1e-6  # of a number's step: how far outside of an interval floats may put what is inside

# ---------------------------------------------------------------- cases


@dataclass(frozen=True, slots=True)
class Case:
    """A hidden value, and what was said of it."""

    entity: int
    slot: int
    truth: Any  # None: a label that has no code
    said: Any  # None: nothing could be asked
    mean: float | None = None  # of a number
    interval: tuple[float, float] | None = None
    nats: float | None = None  # -log p
    constant_nats: float | None = None


def cases(
    codec: Codec, marginals: Marginals, batch: Batch, beliefs: Beliefs, level: LevelOf | float = LEVEL
) -> list[Case]:
    """What was said of every asked token of a batch whose values are known; `level` is that of intervals."""
    return [
        case
        for kind, one in beliefs.kinds.items()
        if len(one.rows)
        for case in _cases(codec, marginals, batch, kind, one, level)
    ]


@torch.no_grad()
def _cases(
    codec: Codec, marginals: Marginals, batch: Batch, kind: str, asked: Asked, level: LevelOf | float
) -> list[Case]:
    slots, codes = batch.slot[asked.tokens], batch.values[kind][asked.rows]
    belief: Any = asked.belief
    means: Sequence[Any] = [None] * len(slots)
    intervals: Sequence[Any] = means
    if isinstance(belief, NumberBelief):
        said = decoded(codec, slots, belief.codes(belief.typical()))
        means = belief.expected().tolist()
        levels = level if isinstance(level, float) else level(asked.tokens)
        intervals = list(zip(*(end.tolist() for end in belief.interval(levels)), strict=True))
    else:
        said = overlapping(belief) if isinstance(belief, TextBelief) else decoded(codec, slots, belief.mode())
    each = zip(
        batch.entity[asked.tokens].tolist(),
        slots.tolist(),
        decoded(codec, slots, codes),
        said,
        means,
        intervals,
        (-belief.log_prob(codes)).tolist(),
        _constant_nats(marginals, slots, codes),
        strict=True,
    )
    return [Case(*one) for one in each]


def overlapping(belief: TextBelief) -> list[str]:
    """The words that overlap most with what each text may be, that is with some draws of it."""
    return [" ".join(nearest([words(text) for text in texts])) for texts in belief.samples(DRAWS)]


def _constant_nats(marginals: Marginals, slots: Tensor, codes: Tensor) -> list[float]:
    """(q,) slots are ascending."""
    counts = slots.unique_consecutive(return_counts=True)[1].tolist()
    parts = zip(slots.split(counts), codes.split(counts), strict=True)
    return [nats for own, some in parts for nats in marginals.nats(int(own[0]), some).tolist()]


# ---------------------------------------------------------------- rows


def property_of(slot: Slot) -> tuple[str, Path]:
    """What a slot is a row with: all places of a list are one property."""
    return slot.of, pattern(slot.path)


def score_rows(codec: Codec, constants: Constants, all_cases: Iterable[Case]) -> list[dict[str, Any]]:
    """A row of plain data for each property that has cases, in the schema's order."""
    by_property: dict[tuple[str, Path], list[Case]] = {}
    for case in all_cases:
        by_property.setdefault(property_of(codec.slots[case.slot]), []).append(case)
    known: Counter[tuple[str, Path]] = Counter()
    for slot in codec.slots:
        known[property_of(slot)] += slot.count if slot.role == "value" else 0
    ordered = ((of, path) for of, one in codec.schema.classes.items() for path in one.leaves())
    order = {one: place for place, one in enumerate(ordered)}
    rows = []
    for of, path in sorted(by_property, key=order.__getitem__):
        own = by_property[of, path]
        slot = codec.slots[own[0].slot]
        named = {"class": of, "path": show_pattern(path), "kind": kind_of(slot.leaf), "known": known[of, path]}
        named |= {"unit": unit_of(codec.schema, of, path)}
        rows.append(named | scored(codec, constants, own))
    return rows


def unit_of(schema: Schema, of: str, path: Path) -> str | None:
    """The unit in which amounts at a path are learnt, and their errors stated; None of what is no quantity's amount."""
    found = schema.classes[of].properties.get(path[: -len(VALUE)])
    if path[-len(VALUE) :] != VALUE or found is None or not isinstance(found.kind, Quantity):
        return None
    return found.kind.learnt_in


def scored(codec: Codec, constants: Constants, own: Sequence[Case]) -> dict[str, Any]:
    """The scores of the cases of one property; None where there is nothing to tell, and of kinds that have no such.

    What could not be asked for is wrong; of numbers it is only counted, as nobody knows how far off one is.
    """
    kind = codec.slots[own[0].slot].kind
    metric, asked = METRICS[kind], [case for case in own if kind != "number" or case.said is not None]
    told = [constants.slots[case.slot] for case in asked]
    ours = [error(kind, case.truth, case.said) for case in asked]
    theirs = [error(kind, case.truth, one.value) for case, one in zip(asked, told, strict=True)]
    mean, constant = _mean(ours), _mean(theirs)
    row: dict[str, Any] = {
        "n": len(asked),
        "unread": sum(case.said is None for case in own),
        "metric": metric.name,
        "ours": mean,
        "constant": constant,
        "better": 1 - mean / constant if mean is not None and constant else None,
        "stderr": _stderr([other - one for one, other in zip(ours, theirs, strict=True)]),
        **dict.fromkeys(both("mae", "rmse", "error", "iou", "coverage")),
        "nats": _mean([case.nats for case in own if case.nats is not None]),
        "constant_nats": _mean([case.constant_nats for case in own if case.constant_nats is not None]),
        "trust": _trust(kind, asked, told),
    }
    for key, value in zip(both(metric.key), (mean, constant), strict=True):
        row[key] = 1 - value if metric.key == "iou" and value is not None else value
    return row | _of_number(codec, asked, told) if kind == "number" else row


def _trust(kind: str, asked: Sequence[Case], told: Sequence[Constant]) -> float | None:
    """How far the beliefs are to be trusted; None where that is not learnt."""
    if kind == "number" and asked:
        pairs = zip(asked, told, strict=True)
        said = [(float(case.said), float(one.value), float(case.truth)) for case, one in pairs]
        return of_numbers(*zip(*said, strict=True))
    if kind in ("category", "link"):
        costs = [(case.nats, case.constant_nats) for case in asked if case.nats is not None]
        return of_labels(*zip(*costs, strict=True)) if costs else None
    return None


def both(*names: str) -> list[str]:
    """The keys of some scores, ours and the constant's."""
    return [key for name in names for key in (name, f"constant_{name}")]


def _of_number(codec: Codec, asked: Sequence[Case], told: Sequence[Constant]) -> dict[str, Any]:
    scores: dict[str, Any] = {}
    several: tuple[tuple[str, Sequence[Any]], ...] = (("", asked), ("constant_", told))
    for prefix, answers in several:
        pairs = list(zip(asked, answers, strict=True))
        errors = [float(case.truth) - one.mean for case, one in pairs]
        scores[f"{prefix}rmse"] = math.hypot(*errors) / math.sqrt(len(errors)) if errors else None  # squares overflow
        sure = all(one.interval is not None for _, one in pairs)
        scores[f"{prefix}coverage"] = (
            _mean([_covers(codec, case, one.interval) for case, one in pairs]) if sure else None
        )
    return scores


def _covers(codec: Codec, case: Case, interval: tuple[float, float]) -> bool:
    slack = SLACK * float(codec.slots[case.slot].codec.step)
    return interval[0] - slack <= float(case.truth) <= interval[1] + slack


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _stderr(values: Sequence[float]) -> float | None:
    """Of their mean; None of a single one."""
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
