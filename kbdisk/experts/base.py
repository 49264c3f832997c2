"""The protocol of experts, and the models that combine predictors: `Stacked` for experts, `Ensemble` for networks.

A model has a belief about each asked value. An expert predicts one property: a number, or masses of labels. `Stacked` moves
the estimate of a belief in a number towards each expert's prediction by the expert's weight, and its answer by another weight.
The odds of an atom change with the distance of the new estimate from it (kbdisk.experts.atom_odds), part of the density moves
along, and part of the mass goes to the surroundings of the new estimate. A belief in labels or in a
set is mixed with the masses of each expert by one weight. The weights of all experts are fitted together, to held-out values
(kbdisk.experts.stacking).

A property has one expert, or one weight, for entities with the usual amount of visible values, and another for entities with
less: experts are found by slot and level.

B entities   T tokens   C classes   q asked tokens of one kind   m of one slot and level   F features   K labels   W widths
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from kbdisk.data import Codec
from kbdisk.data.dataset import Batch, Tokens
from kbdisk.experts.atom_odds import FACTORS, no_factors, with_factors
from kbdisk.leaves.belief import Belief, SupportsAveraging, SupportsInterpolation, join_beliefs
from kbdisk.leaves.number.belief import AROUND_WIDTHS, NumberBelief
from kbdisk.model.beliefs import Asked, Beliefs, Memo
from kbdisk.model.diffusion import Model

SET = "set"  # the kind whose beliefs are mixed with an expert's, instead of moving an answer or some mass
MIN_UNCLAIMED_MASS = 1e-6  # less is due to rounding
MAX_MASS_FACTOR = 100.0  # by which a belief's mass for labels that an expert does not know is raised
USUALLY_VISIBLE, LITTLE_VISIBLE = 0, 1  # levels: how much of an entity is visible
SlotLevel: TypeAlias = tuple[int, int]
Report: TypeAlias = Callable[[int, int], None]  # the finished part of a fit, and its total


def ignored(done: int, total: int) -> None:
    """A report without a receiver."""


# ---------------------------------------------------------------- how much of an entity is visible


def visibility_levels(batch: Batch, visible: Tensor, usual_amount: Tensor) -> Tensor:
    """(B,) USUALLY_VISIBLE or LITTLE_VISIBLE, by the amount of visible tokens (T,) of each entity and the usual amount in its class (C,)."""
    amount = visible_amount(batch.entity, batch.unit, visible & ~batch.fixed, batch.size)
    return (amount < usual_amount[batch.classes]).long()


def visible_amount(entity: Tensor, unit: Tensor, visible: Tensor, size: int) -> Tensor:
    """(size,) how much of each entity is visible (T,): a composite counts once, however many of its parts are.

    So the amount is the same whether a composite is hidden or one number. `visible` must not include evidence, which is hidden
    along with the link that it comes over.
    """
    is_unit = torch.zeros_like(visible).index_fill(0, unit[visible], True)
    return torch.zeros(size, dtype=torch.long, device=entity.device).index_add_(0, entity, is_unit.long())


def by_slot_and_level(slots: Tensor, levels: Tensor) -> Iterator[tuple[SlotLevel, Tensor]]:
    """Rows grouped by their slots (q,) and their entities' levels (q,)."""
    keys = 2 * slots + levels
    order = keys.argsort(stable=True)
    distinct, counts = keys[order].unique_consecutive(return_counts=True)
    for key, rows in zip(distinct.tolist(), order.split(counts.tolist()), strict=True):
        yield (key // 2, key % 2), rows


# ---------------------------------------------------------------- experts


class Estimates(Protocol):
    """Estimates of hidden numbers for m entities."""

    def codes(self, columns: Tensor) -> Tensor:
        """(m, k) the codes of columns (k,) of features; of hidden numbers the estimates."""


class EstimatesOfBatch(Protocol):
    """Estimates of hidden numbers for the entities of a batch."""

    def rows(self, rows: Tensor) -> Estimates:
        """The estimates for some entities (m,)."""


class Inputs(NamedTuple):
    """The inputs of an expert for m entities."""

    features: Tensor  # (m, F) NaN where hidden
    entities: Tensor  # (m,) hashes of their ids
    estimates: Estimates | None = None  # for trees

    def chunks(self, size: int) -> Iterator[Inputs]:
        """Some entities at a time, without estimates."""
        return map(Inputs, self.features.split(size), self.entities.split(size))


class LabelMasses(NamedTuple):
    """A prediction of labels; the same one may come several times."""

    codes: Tensor  # (m, K)
    mass: Tensor  # (m, K) float64; rows sum to 1 at most


Prediction: TypeAlias = Tensor | LabelMasses  # numbers (m,) float64, or labels


class Seen(NamedTuple):
    """What the experts of a group see of the entities of a batch."""

    levels: Tensor  # (B,)
    features: Tensor  # (B, F)
    entities: Tensor  # (B,) hashes of their ids
    estimates: EstimatesOfBatch | None = None  # for trees

    def inputs(self, rows: Tensor) -> Inputs:
        """The inputs of an expert for some entities (m,)."""
        estimates = None if self.estimates is None else self.estimates.rows(rows)
        return Inputs(self.features[rows], self.entities[rows], estimates)


class Featurizer(Protocol):
    """Makes features of the visible values of entities."""

    def table(self, batch: Batch, visible: Tensor) -> Tensor:
        """(B, F) of the visible tokens (T,); NaN elsewhere."""


class Expert(Protocol):
    """Predicts one property."""

    def predict(self, inputs: Inputs) -> Prediction:
        """The property of m entities; NaN for a number that the expert does not predict."""


@dataclass(frozen=True)
class WeightedExpert:
    """An expert, and its weight beside a model."""

    expert: Expert
    weight: Tensor  # () float64, of its number in the estimate, or of its masses
    answer_weight: Tensor  # () float64, of its number in the answer
    around: Tensor  # (W,) float64, the masses of a belief in a number for the surroundings of the estimate
    moved_share: Tensor  # () float64, of the belief's curve, how much moves along with the estimate
    factors: Tensor  # (4,) float64, the `AtomFactors` of a number

    @classmethod
    def unweighted(cls, expert: Expert) -> WeightedExpert:
        """An expert whose weight is not fitted yet."""
        full = torch.ones((), dtype=torch.float64)
        return cls(expert, full, full, full.new_zeros(len(AROUND_WIDTHS)), full.new_zeros(()), no_factors(full))


Weighted: TypeAlias = tuple[Tensor, WeightedExpert, Prediction]  # rows, the expert, its prediction


@dataclass(frozen=True)
class ExpertGroup:
    """Experts with the same features."""

    featurizer: Featurizer
    usual_amount: Tensor  # (C,) the amount that is usually visible of an entity of each class
    experts: Mapping[SlotLevel, WeightedExpert]

    def __len__(self) -> int:
        return len(self.slots)

    @cached_property
    def slots(self) -> set[int]:
        """The slots that have an expert."""
        return {slot for slot, _ in self.experts}

    def seen(self, batch: Batch, visible: Tensor) -> Seen:
        """What the experts see, by the visible tokens (T,)."""
        levels = visibility_levels(batch, visible, self.usual_amount)
        return Seen(levels, self.featurizer.table(batch, visible), batch.id_hash)

    def predictions(self, asked: Asked, batch: Batch, seen: Seen) -> Iterator[tuple[SlotLevel, Tensor, Prediction]]:
        """Slot and level, rows (m,) of the asked tokens, and the expert's predictions for them."""
        entity = batch.entity[asked.tokens]
        grouped = by_slot_and_level(batch.slot[asked.tokens], seen.levels[entity])
        predicted = [(key, rows) for key, rows in grouped if key in self.experts]
        self.announce(seen, ((key, entity[rows]) for key, rows in predicted))
        for key, rows in predicted:
            prediction = self.experts[key].expert.predict(seen.inputs(entity[rows]))
            prediction, predicted_rows = without_nan(prediction, rows)
            yield key, predicted_rows, prediction

    def announce(self, seen: Seen, asked: Iterable[tuple[SlotLevel, Tensor]]) -> None:
        """Prepare for questions to experts, each about entities (m,) of the same batch: experts may share work."""


class Sides(NamedTuple):
    """The entities that experts are fitted to, and those that give their weights."""

    training: Tokens
    held_out: Tokens  # other entities
    complete: Tokens | None = None  # training with the values that were reserved from it; None: none were

    def to(self, device: torch.device) -> Sides:
        """The same on a device."""
        return Sides(*(None if side is None else side.to(device) for side in self))  # type: ignore[arg-type]


class Refit(Protocol):
    """Fits experts to all entities, once they have weights."""

    def __call__(self, group: ExpertGroup, seconds: float | None = None, report: Report = ignored) -> ExpertGroup:
        """The same experts with the same weights. `seconds` is a limit for boosted trees alone, which take longest."""


class Candidates(NamedTuple):
    """Experts of one kind that are fitted to training entities alone, without weights."""

    group: ExpertGroup
    refitted: Refit


class Fit(Protocol):
    """Fits the experts of one kind for all properties that they can predict, within `seconds`."""

    def __call__(
        self,
        codec: Codec,
        sides: Sides,
        *,
        config: Any,
        seed: int,
        seconds: float | None = None,
        report: Report = ignored,
    ) -> Candidates:
        """The experts before they have weights, and how they are fitted again once they have some."""


def without_nan(prediction: Prediction, rows: Tensor) -> tuple[Prediction, Tensor]:
    """A prediction without the numbers that are NaN, and the rows (m,) that are left."""
    if isinstance(prediction, LabelMasses):
        return prediction, rows
    is_number = ~prediction.isnan()
    return prediction[is_number], rows[is_number]


def _moved(belief: NumberBelief, predictions: Sequence[Weighted]) -> NumberBelief:
    """A belief whose answers and estimates are moved towards each of the predictions, with mass around the new estimates."""
    before = belief.typical()
    answer, estimate = belief.expected().clone(), before.clone()
    around, moved = answer.new_zeros(len(answer), len(AROUND_WIDTHS)), answer.new_zeros(len(answer))
    factors = answer.new_zeros(len(answer), FACTORS)
    for rows, weighted, numbers in predictions:
        assert not isinstance(numbers, LabelMasses)
        answer[rows] = belief.between(rows, answer[rows], numbers, weighted.answer_weight)
        estimate[rows] = belief.between(rows, estimate[rows], numbers, weighted.weight)
        around[rows], moved[rows], factors[rows] = weighted.around, weighted.moved_share, weighted.factors
    belief = with_factors(belief, estimate, factors)
    return belief.with_estimate(before, estimate, moved).with_answer(answer).with_mass_around(estimate, around)


def with_labels(kind: str, belief: Any, masses: Sequence[tuple[Tensor, Tensor, LabelMasses]]) -> Any:
    """A belief in labels or in sets, mixed with the masses of experts: each for some rows (m,), with a weight ()."""
    return _blended_sets(belief, masses) if kind == SET else _mixed_with_labels(belief, masses)


def _blended_sets(belief: Any, labels: Sequence[tuple[Tensor, Tensor, LabelMasses]]) -> Any:
    is_left = torch.ones(len(belief), dtype=torch.bool, device=labels[0][0].device)
    parts: list[tuple[Tensor, Any]] = []
    for rows, weight, masses in labels:
        parts.append((rows, belief.pick(rows).blended(masses.codes, masses.mass, weight.expand(len(rows)))))
        is_left[rows] = False
    left = is_left.nonzero()[:, 0]
    return join_beliefs([*parts, *([(left, belief.pick(left))] if len(left) else [])])


def _mixed_with_labels(belief: Any, labels: Sequence[tuple[Tensor, Tensor, LabelMasses]]) -> Belief:
    most = max(masses.codes.shape[1] for _, _, masses in labels)
    codes = torch.zeros(len(belief), most, dtype=torch.long, device=labels[0][0].device)
    weights = torch.zeros(len(belief), 1, most, dtype=torch.float64, device=codes.device)
    for rows, weight, masses in labels:
        width = masses.codes.shape[1]
        codes[rows, :width] = masses.codes
        weights[rows, 0, :width] = weight * (masses.mass - unclaimed_mass(belief.pick(rows), masses))
    mixed_belief: Belief = belief.interpolated(codes, weights)
    return mixed_belief


def unclaimed_mass(belief: Any, masses: LabelMasses) -> Tensor:
    """(m, K) the belief's part of the mass of an expert's labels.

    The mass that an expert leaves of 1 goes to the labels that it does not know, in proportion to the belief. A mixture with
    the whole belief would count the expert's labels twice. An expert without any mass, as where there is no neighbour, leaves
    the belief unchanged.
    """
    total = masses.mass.sum(1, keepdim=True)
    left = (1 - total).clamp(min=0).where(total > 0, 0)
    if not bool((left > MIN_UNCLAIMED_MASS).any()):
        return torch.zeros_like(masses.mass)
    own = belief.probs.double().gather(1, masses.codes)
    others = 1 - own.sum(1, keepdim=True)
    lowered: Tensor = own * (left / torch.maximum(others, left / MAX_MASS_FACTOR))
    return lowered


class Stacked:
    """A model with experts stacked on it, kind after kind."""

    def __init__(self, model: Model, groups: Sequence[ExpertGroup]) -> None:
        self.model, self.groups = model, groups

    def __call__(self, batch: Batch, visible: Tensor, asked: Tensor, memo: Memo | None = None) -> Beliefs:
        """Beliefs about the asked tokens (T,), given the visible ones (T,) alone."""
        beliefs = self.model(batch, visible, asked, memo)
        asked_slots = set(batch.slot[asked].tolist())
        groups = [group for group in self.groups if not asked_slots.isdisjoint(group.slots)]
        seen = [group.seen(batch, visible) for group in groups]
        kinds = {}
        for kind, of_kind in beliefs.kinds.items():
            predictions = [
                [
                    (rows, group.experts[key], prediction)
                    for key, rows, prediction in group.predictions(of_kind, batch, of_group)
                ]
                for group, of_group in zip(groups, seen, strict=True)
            ]
            kinds[kind] = replace(of_kind, belief=combined(kind, of_kind.belief, predictions))
        return replace(beliefs, kinds=kinds)


def combined(kind: str, belief: Any, predictions: Sequence[Sequence[Weighted]]) -> Any:
    """A belief combined with the predictions of experts, kind after kind."""
    if isinstance(belief, NumberBelief):
        numbers = [weighted for of_group in predictions for weighted in of_group]
        return _moved(belief, numbers) if numbers else belief
    for of_group in predictions:
        masses = [
            (rows, weighted.weight, prediction)
            for rows, weighted, prediction in of_group
            if isinstance(prediction, LabelMasses)
        ]
        if masses and (kind == SET or isinstance(belief, SupportsInterpolation)):
            belief = with_labels(kind, belief, masses)
    return belief


class Ensemble:
    """The mean of several models; beliefs in sets, texts and links with many targets are those of the first."""

    def __init__(self, members: Sequence[Model]) -> None:
        self.members = members

    def __call__(self, batch: Batch, visible: Tensor, asked: Tensor, memo: Memo | None = None) -> Beliefs:
        """Beliefs about the asked tokens (T,), given the visible ones (T,) alone."""
        memos = [None if memo is None else memo.setdefault(f"member {n}", {}) for n in range(len(self.members))]
        return mean_of(
            [model(batch, visible, asked, of_model) for model, of_model in zip(self.members, memos, strict=True)]
        )


def mean_of(members: Sequence[Beliefs]) -> Beliefs:
    """The mean of several models' beliefs about the same tokens."""
    first, *others = members
    kinds = {
        kind: mean_belief(asked, [beliefs.kinds[kind] for beliefs in others]) for kind, asked in first.kinds.items()
    }
    presence = first.presence
    if presence is not None:
        logits = torch.stack([beliefs.presence["logits"] for beliefs in members if beliefs.presence is not None])
        presence = {**presence, "logits": logits.sigmoid().mean(0).logit()}
    return replace(first, kinds=kinds, presence=presence)


def mean_belief(asked: Asked, others: Sequence[Asked]) -> Asked:
    if not isinstance(asked.belief, SupportsAveraging):
        return asked
    return replace(asked, belief=asked.belief.averaged([other.belief for other in others]))
