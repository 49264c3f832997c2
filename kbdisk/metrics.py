"""Metrics: errors of predictions of hidden values, beside those of the constant predictor, which has one value for all entities.

    number                     mean absolute error (of the median), root mean squared error (of the mean)
    category, boolean, link    error rate
    set, text                  1 - IoU: of members, of words
    any other kind             that of its row in KINDS, or the error rate

    better  =  1 - ours / constant: 0 is as good as the constant, 1 is always right

The constants minimise these errors on the training data: the median, the mean, the commonest label, the members or words that are
in most values. `nats` are -log p. Those of the constant are by the marginal distribution of the training values: numbers have the
bins and atoms of their codec, labels their counts, sets one Bernoulli per label, texts the mean nats of their tokens. Counts are
those of the codec, which all places of a list share.

q asked tokens   n rows of one slot   V labels   C codecs of one kind
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

import torch
from torch import Tensor

from kbdisk.data import Codec
from kbdisk.data.dataset import Batch, Tokens
from kbdisk.data.graph import pattern
from kbdisk.data.slots import Slot
from kbdisk.entity import Link, Path, Text
from kbdisk.leaves.labels import Labels
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.leaves.number.codec import CodecTables, padded
from kbdisk.leaves.number.densities import Binned, Bins
from kbdisk.leaves.set import UNKNOWN_MEMBER, SetCodec
from kbdisk.leaves.text.decoder import TextBelief
from kbdisk.model.beliefs import Asked, Beliefs
from kbdisk.model.estimates import INTERVAL_LEVEL, LevelOf, decode_codes
from kbdisk.plugins import load_part
from kbdisk.schemas.composites import show_pattern
from kbdisk.schemas.composites.quantity import VALUE, Quantity
from kbdisk.schemas.kinds import KINDS, kind_of
from kbdisk.schemas.schema import Schema
from kbdisk.shrinkage import label_weight, number_weight

# ---------------------------------------------------------------- the error of one prediction


@dataclass(frozen=True)
class Metric:
    """The error of a prediction of some kind; 0 is the least."""

    name: str  # in a table
    key: str  # in a row
    error: Callable[[Any, Any], float]  # (truth, prediction); the prediction is never None


def words(text: Any) -> frozenset[str]:
    """The words of a text."""
    return frozenset((text.text if isinstance(text, Text) else text).split())


def members(value: Any) -> frozenset[Hashable]:
    """The members of a set; a single value is a set of one."""
    items = value if isinstance(value, list | tuple | set | frozenset) else (value,)
    return frozenset(map(label, items))


def label(value: Any) -> Hashable:
    """A label or a link in a form in which true is not 1, and a link is its id."""
    return (isinstance(value, bool), value.id if isinstance(value, Link) else value)


def jaccard_distance(first: frozenset[Any], second: frozenset[Any]) -> float:
    """1 - IoU of two sets; 0 of two empty ones."""
    return 1 - len(first & second) / len(first | second) if first or second else 0.0


ERROR_RATE = Metric("error rate", "error", lambda truth, prediction: float(label(truth) != label(prediction)))
MEAN_ABSOLUTE_ERROR = Metric("MAE", "mae", lambda truth, prediction: abs(float(truth) - float(prediction)))
DISTANCE_OF_MEMBERS = Metric(
    "1 - IoU", "iou", lambda truth, prediction: jaccard_distance(members(truth), members(prediction))
)
DISTANCE_OF_WORDS = Metric(
    "1 - IoU", "iou", lambda truth, prediction: jaccard_distance(words(truth), words(prediction))
)


def metric_of(kind: str) -> Metric:
    """The metric of a kind, by its row."""
    return load_part(KINDS[kind].metric) or ERROR_RATE


def error(kind: str, truth: Any, prediction: Any) -> float:
    """The error of a prediction; a missing one is wrong. A number must have one."""
    return 1.0 if truth is None or prediction is None else metric_of(kind).error(truth, prediction)


# ---------------------------------------------------------------- the constant predictor

MAX_CONSTANT_MEMBERS = 40  # members or words of a constant


@dataclass(frozen=True)
class Constant:
    """The best prediction for a slot that is the same for all entities."""

    value: Any  # the median, a label, a link, a list of members, a text of words
    mean: float | None = None  # of numbers
    interval: tuple[float, float] | None = None  # of numbers: nine tenths of them are in it


@dataclass(frozen=True)
class Constants:
    """The constants of all slots that have training values."""

    slots: Mapping[int, Constant]

    @classmethod
    def fit(cls, codec: Codec, tokens: Tokens) -> Self:
        """Learn from training entities."""
        constants: dict[int, Constant] = {}
        for slot, rows in _sampled_rows(codec, tokens).items():
            kind = codec.slots[slot].kind
            decoded = codec.slots[slot].codec.decode(tokens.codes[kind].gather(rows))
            values = [value for value in decoded if value is not None]
            if values:
                constants[slot] = _constant(kind, values)
        return cls(constants)

    def to_json(self) -> dict[str, Any]:
        """The constants as plain data."""
        return {
            str(slot): [
                _to_plain(constant.value),
                constant.mean,
                list(constant.interval) if constant.interval else None,
            ]
            for slot, constant in self.slots.items()
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The constants of plain data."""
        return cls(
            {
                int(slot): Constant(_from_plain(value), mean, tuple(interval) if interval else None)
                for slot, (value, mean, interval) in data.items()
            }
        )


def _sampled_rows(codec: Codec, tokens: Tokens) -> dict[int, Tensor]:
    """Slot -> rows (n,) of an evenly spaced sample of its known values, without evidence."""
    counts = torch.stack([part.slot[part.free].bincount(minlength=len(codec.slots)) for part in tokens.parts()]).sum(0)
    spacing = torch.tensor(
        [_spacing(slot.kind, count) for slot, count in zip(codec.slots, counts.tolist(), strict=True)]
    )
    spacing, before = spacing.to(counts.device), torch.zeros_like(counts)
    sampled: dict[int, list[Tensor]] = {}
    for part in tokens.parts():
        free = part.free.nonzero()[:, 0]
        free = free[part.slot[free].argsort(stable=True)]
        slot = part.slot[free]
        of_part = slot.bincount(minlength=len(counts))
        rank = torch.arange(len(slot), device=slot.device) - (of_part.cumsum(0) - of_part)[slot] + before[slot]
        kept = rank % spacing[slot] == 0
        slots, sizes = slot[kept].unique_consecutive(return_counts=True)
        for number, rows in zip(slots.tolist(), part.row[free[kept]].split(sizes.tolist()), strict=True):
            sampled.setdefault(number, []).append(rows)
        before += of_part
    return {slot: torch.cat(sampled[slot]) for slot in sorted(sampled)}


def fit_constant(kind: str, values: Sequence[Any]) -> Constant:
    """The constant for some values, one at least, of a leaf of some kind."""
    return _constant(kind, values[:: _spacing(kind, len(values))])


def _constant(kind: str, values: Sequence[Any]) -> Constant:
    constant: Constant = (load_part(KINDS[kind].constant) or most_frequent_value)(values)
    return constant


def _spacing(kind: str, count: int) -> int:
    """The step of the evenly spaced sample from which a constant is learnt, of `count` values."""
    return max(-(-count // KINDS[kind].constant_sample), 1)


def constant_number(values: Sequence[Any]) -> Constant:
    """The median, with the mean, and an interval."""
    numbers = torch.tensor([float(value) for value in values], dtype=torch.float64)
    low, middle, high = numbers.quantile(torch.tensor([0.05, 0.5, 0.95], dtype=torch.float64)).tolist()
    return Constant(middle, float(numbers.mean()), (low, high))


def most_frequent_value(values: Sequence[Any]) -> Constant:
    """The most frequent value, the first of several."""
    first: dict[Hashable, Any] = {}
    for value in values:
        first.setdefault(label(value), value)
    return Constant(first[Counter(map(label, values)).most_common(1)[0][0]])


def constant_set(values: Sequence[Any]) -> Constant:
    """The set with the least mean distance of the members."""
    by_label = {label(member): member for value in values for member in value}
    return Constant([by_label[member] for member in jaccard_median([members(value) for value in values])])


def constant_text(values: Sequence[Any]) -> Constant:
    """The words with the least mean distance."""
    return Constant(" ".join(jaccard_median([words(value) for value in values])))


def jaccard_median(sets: Sequence[frozenset[Any]]) -> list[Any]:
    """The members of the set with the least mean 1 - IoU, among the commonest set and those of the k commonest members."""
    counts = Counter(member for set_members in sets for member in set_members)
    order = sorted(counts, key=lambda member: (-counts[member], str(member)))
    commonest = Counter(sets).most_common(1)[0][0]
    candidates = [commonest, *(frozenset(order[:k]) for k in range(min(len(order), MAX_CONSTANT_MEMBERS) + 1))]
    best = min(candidates, key=lambda candidate: sum(jaccard_distance(candidate, values) for values in sets))
    return sorted(best, key=lambda member: (-counts[member], str(member)))


def _to_plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_to_plain(item) for item in value]
    if isinstance(value, Link):
        return {"link": value.id}
    return {"decimal": str(value)} if isinstance(value, Decimal) else value


def _from_plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_plain(item) for item in value]
    if isinstance(value, dict):
        return Link(value["link"]) if "link" in value else Decimal(value["decimal"])
    return value


# ---------------------------------------------------------------- the marginal distributions of the training values

MIN_LOG_SHARE = -1e30


class Marginals:
    """The marginal distributions of all slots of a codec."""

    def __init__(self, codec: Codec) -> None:
        self.slots = codec.slots
        self._log_prob: dict[int, Callable[[Tensor], Tensor]] = {}  # by the id of a leaf's codec

    def nats(self, slot: int, codes: Tensor) -> Tensor:
        """(n,) -log p of some codes (n, ...) of one slot, on the CPU."""
        leaf = self.slots[slot]
        marginal = load_part(KINDS[leaf.kind].marginal)
        if marginal is None:
            return torch.full((len(codes),), leaf.entropy)
        key = id(leaf.codec)
        if key not in self._log_prob:
            self._log_prob[key] = marginal(leaf.codec)
        return -self._log_prob[key](codes.cpu()).float()


def number_marginal(codec: Any) -> Callable[[Tensor], Tensor]:
    """The log mass of a number's step, by the shares of the training values."""
    bins, tables = Bins([codec]), CodecTables([codec])
    shares_with_rest = [max(1 - sum(codec.shares), 0) + 1 / (codec.count + 1), *codec.shares]
    shares = padded([shares_with_rest]).log().clamp(min=MIN_LOG_SHARE).log_softmax(1).float()  # (1, 1 + A)

    def log_prob(codes: Tensor) -> Tensor:
        slot = torch.zeros(len(codes), dtype=torch.long)
        density = Binned(bins.prior[slot], bins.edges[slot], bins.inverse_width[slot], bins.tail[slot])
        return NumberBelief(density, shares[slot], slot, tables).log_prob(codes)

    return log_prob


def category_marginal(codec: Any) -> Callable[[Tensor], Tensor]:
    """The shares of the labels of a category."""
    return _label_marginal(codec.labels)


def link_marginal(codec: Any) -> Callable[[Tensor], Tensor]:
    """The shares of the targets of a link."""
    return _label_marginal(codec.targets)


def _label_marginal(labels: Labels) -> Callable[[Tensor], Tensor]:
    """The share of each label in the training values, none of them 0, beside the share that is kept for unseen labels."""
    counts = torch.tensor([*labels.counts], dtype=torch.float64) + 1 / max(len(labels), 1)  # (V,)
    unseen = min(max(labels.unseen, 1e-30), 1.0)
    log_shares = (counts / counts.sum()).log() + math.log(max(1 - labels.unseen, 1e-30))
    table = torch.cat([log_shares, torch.tensor([math.log(unseen)], dtype=torch.float64)])  # (V + 1,) the last for -1

    def log_prob(codes: Tensor) -> Tensor:
        return table[codes]

    return log_prob


def set_marginal(codec: SetCodec) -> Callable[[Tensor], Tensor]:
    """Labels are members independently of each other."""
    sets = sum(codec.sizes)
    share = (torch.tensor([*codec.labels.counts], dtype=torch.float64) + 0.5) / (sets + 1)  # (V,)
    share = share.clamp(max=(sets + 0.5) / (sets + 1))
    out, odds = torch.log1p(-share).sum(), torch.cat([share.logit(), torch.zeros(1, dtype=torch.float64)])
    without_unseen, with_unseen = math.log1p(-codec.unseen), math.log(max(codec.unseen, 1e-30))

    def log_prob(codes: Tensor) -> Tensor:
        has_unseen = (codes == UNKNOWN_MEMBER).any(1)
        return out + odds[codes.clamp(min=-1)].sum(1) + torch.where(has_unseen, with_unseen, without_unseen)

    return log_prob


# ---------------------------------------------------------------- predictions of hidden values

TEXT_DRAWS = 32  # of the belief in a text, from which the words with the least error are chosen
INTERVAL_SLACK = 1e-6  # of a number's step: how far rounding may move a number out of its interval


@dataclass(frozen=True, slots=True)
class Case:
    """A hidden value, and its prediction."""

    entity: int
    slot: int
    truth: Any  # None: a label that has no code
    prediction: Any  # None: the value could not be asked for
    mean: float | None = None  # of a number
    interval: tuple[float, float] | None = None
    nats: float | None = None  # -log p
    constant_nats: float | None = None


def collect_cases(
    codec: Codec, marginals: Marginals, batch: Batch, beliefs: Beliefs, level: LevelOf | float = INTERVAL_LEVEL
) -> list[Case]:
    """The predictions of all asked tokens of a batch whose values are known; `level` is that of intervals."""
    return [
        case
        for kind, asked in beliefs.kinds.items()
        if len(asked.rows)
        for case in _cases(codec, marginals, batch, kind, asked, level)
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
        predictions = decode_codes(codec, slots, belief.codes(belief.typical()))
        means = belief.expected().tolist()
        levels = level if isinstance(level, float) else level(asked.tokens)
        intervals = list(zip(*(end.tolist() for end in belief.interval(levels)), strict=True))
    elif isinstance(belief, TextBelief):
        predictions = overlapping(belief)
    else:
        predictions = decode_codes(codec, slots, belief.mode())
    fields = zip(
        batch.entity[asked.tokens].tolist(),
        slots.tolist(),
        decode_codes(codec, slots, codes),
        predictions,
        means,
        intervals,
        (-belief.log_prob(codes)).tolist(),
        _constant_nats(marginals, slots, codes),
        strict=True,
    )
    return [Case(*row) for row in fields]


def overlapping(belief: TextBelief) -> list[str]:
    """The words that overlap most with some draws of each text."""
    return [" ".join(jaccard_median([words(text) for text in texts])) for texts in belief.samples(TEXT_DRAWS)]


def _constant_nats(marginals: Marginals, slots: Tensor, codes: Tensor) -> list[float]:
    """(q,) -log p by the marginal distributions; slots are ascending."""
    counts = slots.unique_consecutive(return_counts=True)[1].tolist()
    parts = zip(slots.split(counts), codes.split(counts), strict=True)
    return [
        nats
        for slots_of_part, codes_of_slot in parts
        for nats in marginals.nats(int(slots_of_part[0]), codes_of_slot).tolist()
    ]


# ---------------------------------------------------------------- scores of each property


def property_of(slot: Slot) -> tuple[str, Path]:
    """The property that a slot is scored with: all places of a list are one property."""
    return slot.class_name, pattern(slot.path)


def score_rows(codec: Codec, constants: Constants, cases: Iterable[Case]) -> list[dict[str, Any]]:
    """A row of plain data for each property that has cases, in the schema's order."""
    by_property: dict[tuple[str, Path], list[Case]] = {}
    for case in cases:
        by_property.setdefault(property_of(codec.slots[case.slot]), []).append(case)
    known: Counter[tuple[str, Path]] = Counter()
    for slot in codec.slots:
        known[property_of(slot)] += slot.count if slot.role == "value" else 0
    ordered = ((class_name, path) for class_name, class_ in codec.schema.classes.items() for path in class_.leaves())
    order = {property: place for place, property in enumerate(ordered)}
    rows = []
    for class_name, path in sorted(by_property, key=order.__getitem__):
        property_cases = by_property[class_name, path]
        slot = codec.slots[property_cases[0].slot]
        named = {
            "class": class_name,
            "path": show_pattern(path),
            "kind": kind_of(slot.leaf),
            "known": known[class_name, path],
        }
        named |= {"unit": unit_of(codec.schema, class_name, path)}
        rows.append(named | score_property(codec, constants, property_cases))
    return rows


def unit_of(schema: Schema, class_name: str, path: Path) -> str | None:
    """The unit in which amounts at a path are learnt, and their errors stated; None for a path that is no quantity's amount."""
    quantity = schema.classes[class_name].properties.get(path[: -len(VALUE)])
    if path[-len(VALUE) :] != VALUE or quantity is None or not isinstance(quantity.kind, Quantity):
        return None
    return quantity.kind.learnt_in


def score_property(codec: Codec, constants: Constants, cases: Sequence[Case]) -> dict[str, Any]:
    """The scores of the cases of one property; None where there is nothing to measure, and for scores of other kinds.

    A value that could not be asked for is wrong. Numbers of that sort are only counted, as their error is unknown.
    """
    kind = codec.slots[cases[0].slot].kind
    metric, asked = metric_of(kind), [case for case in cases if kind != "number" or case.prediction is not None]
    case_constants = [constants.slots[case.slot] for case in asked]
    ours = [error(kind, case.truth, case.prediction) for case in asked]
    theirs = [error(kind, case.truth, constant.value) for case, constant in zip(asked, case_constants, strict=True)]
    mean, constant_mean = _mean(ours), _mean(theirs)
    row: dict[str, Any] = {
        "n": len(asked),
        "unread": sum(case.prediction is None for case in cases),
        "metric": metric.name,
        "ours": mean,
        "constant": constant_mean,
        "better": 1 - mean / constant_mean if mean is not None and constant_mean else None,
        "stderr": _standard_error([their - our for our, their in zip(ours, theirs, strict=True)]),
        **dict.fromkeys(paired_keys("mae", "rmse", "error", "iou", "coverage")),
        "nats": _mean([case.nats for case in cases if case.nats is not None]),
        "constant_nats": _mean([case.constant_nats for case in cases if case.constant_nats is not None]),
        "trust": _shrinkage_weight(kind, asked, case_constants),
    }
    for key, value in zip(paired_keys(metric.key), (mean, constant_mean), strict=True):
        row[key] = 1 - value if metric.key == "iou" and value is not None else value
    return row | _number_scores(codec, asked, case_constants) if kind == "number" else row


def paired_keys(*names: str) -> list[str]:
    """The keys of some scores, ours and the constant's."""
    return [key for name in names for key in (name, f"constant_{name}")]


def _shrinkage_weight(kind: str, cases: Sequence[Case], constants: Sequence[Constant]) -> float | None:
    """The weight of the predictions beside the constants; None for kinds that are not shrunk."""
    if kind == "number" and cases:
        triples = [
            (float(case.prediction), float(constant.value), float(case.truth))
            for case, constant in zip(cases, constants, strict=True)
        ]
        return number_weight(*zip(*triples, strict=True))
    if kind in ("category", "link"):
        nats = [(case.nats, case.constant_nats) for case in cases if case.nats is not None]
        return label_weight(*zip(*nats, strict=True)) if nats else None
    return None


def _number_scores(codec: Codec, cases: Sequence[Case], constants: Sequence[Constant]) -> dict[str, Any]:
    """RMSE and coverage, ours and the constant's."""
    scores: dict[str, Any] = {}
    predictors: tuple[tuple[str, Sequence[Any]], ...] = (("", cases), ("constant_", constants))
    for prefix, predictions in predictors:
        pairs = list(zip(cases, predictions, strict=True))
        errors = [float(case.truth) - prediction.mean for case, prediction in pairs]
        scores[f"{prefix}rmse"] = math.hypot(*errors) / math.sqrt(len(errors)) if errors else None  # squares overflow
        have_intervals = all(prediction.interval is not None for _, prediction in pairs)
        scores[f"{prefix}coverage"] = (
            _mean([_covers(codec, case, prediction.interval) for case, prediction in pairs]) if have_intervals else None
        )
    return scores


def _covers(codec: Codec, case: Case, interval: tuple[float, float]) -> bool:
    slack = INTERVAL_SLACK * float(codec.slots[case.slot].codec.step)
    return interval[0] - slack <= float(case.truth) <= interval[1] + slack


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _standard_error(values: Sequence[float]) -> float | None:
    """The standard error of the mean; None of a single value."""
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
