"""Experts and what they share: predictors of one property each, stacked on a model.

A model has a belief about each asked value. An expert predicts one property: a number, or masses of labels. `Stacked` moves
the answer of a belief in a number towards the expert's prediction by the expert's weight, and gives some of the mass to the
surroundings of that answer; a belief in labels or in a set is mixed with the expert's masses by the same weight. The
weights are fitted to held-out values (kbdisk.experts.stacking).

A property has one expert, or one weight, for entities with as much visible as is usual and another for those with less:
experts are found by slot and level.

B entities   T tokens   C classes   q asked tokens of one kind   m of one slot and level   F features   K labels   W widths
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from kbdisk.data.batch import Batch
from kbdisk.diffusion import Model
from kbdisk.leaves.base import Belief, Recalling
from kbdisk.leaves.mixed import mixed
from kbdisk.leaves.number.around import WIDTHS, centred
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.leaves.setbelief import BlendedSets
from kbdisk.network.beliefs import Asked, Beliefs, Memo

SET = "set"  # the kind whose beliefs are mixed with an expert's, instead of moving an answer or some mass
USUAL, LITTLE = 0, 1  # levels: how much of an entity is visible
SlotLevel: TypeAlias = tuple[int, int]
Report: TypeAlias = Callable[[int, int], None]  # how much of a fit is done, of how much


# ---------------------------------------------------------------- how much of an entity is visible


def visibility_levels(batch: Batch, visible: Tensor, usual_amount: Tensor) -> Tensor:
    """(B,) USUAL or LITTLE, by how much of each entity is visible (T,), beside what is usual in its class (C,)."""
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


class Inputs(NamedTuple):
    """What an expert sees of m entities."""

    features: Tensor  # (m, F) NaN where hidden
    entities: Tensor  # (m,) their numbers


class LabelMasses(NamedTuple):
    """A prediction of labels; the same one may come several times."""

    codes: Tensor  # (m, K)
    mass: Tensor  # (m, K) float64; rows sum to 1 at most


Prediction: TypeAlias = Tensor | LabelMasses  # numbers (m,) float64, or labels


class Featurizer(Protocol):
    """Makes features of the visible part of entities."""

    def table(self, batch: Batch, visible: Tensor) -> Tensor:
        """(B, F) of what is visible (T,); NaN elsewhere."""


class Expert(Protocol):
    """A predictor of one property."""

    def predict(self, inputs: Inputs) -> Prediction:
        """The property of m entities; NaN for a number that the expert does not predict."""


@dataclass(frozen=True)
class WeightedExpert:
    """An expert, and its weight beside a model."""

    expert: Expert
    weight: Tensor  # () float64, of its number in the answer, or of its masses
    around: Tensor  # (W,) float64, the masses of a belief in a number for the surroundings of the answer

    @classmethod
    def unweighted(cls, expert: Expert) -> WeightedExpert:
        """An expert whose weight is not fitted yet."""
        return cls(expert, torch.ones((), dtype=torch.float64), torch.zeros(len(WIDTHS), dtype=torch.float64))


@dataclass(frozen=True)
class ExpertGroup:
    """Experts with the same features."""

    featurizer: Featurizer
    usual_amount: Tensor  # (C,) the amount that is usually visible of an entity of each class
    experts: Mapping[SlotLevel, WeightedExpert]

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def slots(self) -> set[int]:
        """The slots that have an expert."""
        return {slot for slot, _ in self.experts}

    def combine(self, beliefs: Beliefs, batch: Batch, visible: Tensor) -> Beliefs:
        """Beliefs of a model, given what is visible (T,), combined with the experts' predictions."""
        levels = visibility_levels(batch, visible, self.usual_amount)
        table = self.featurizer.table(batch, visible)
        kinds = {kind: self._combine(kind, asked, batch, levels, table) for kind, asked in beliefs.kinds.items()}
        return replace(beliefs, kinds=kinds)

    def _combine(self, kind: str, asked: Asked, batch: Batch, levels: Tensor, table: Tensor) -> Asked:
        entity, belief = batch.entity[asked.tokens], asked.belief
        predictions: Predictions = []
        for key, rows in by_slot_and_level(batch.slot[asked.tokens], levels[entity]):
            if key in self.experts:
                of_rows, weighted = entity[rows], self.experts[key]
                prediction = weighted.expert.predict(Inputs(table[of_rows], batch.who[of_rows]))
                prediction, predicted_rows = without_nan(prediction, rows)
                predictions.append((predicted_rows, weighted, prediction))
        if predictions and isinstance(belief, NumberBelief):
            return replace(asked, belief=_moved(belief, predictions))
        if predictions and kind == SET:
            weighted_masses = [(rows, weighted.weight, masses) for rows, weighted, masses in predictions]
            return replace(asked, belief=blended(belief, weighted_masses))
        if predictions and isinstance(belief, Recalling):
            return replace(asked, belief=_mixed_with_labels(belief, predictions, len(entity)))
        return asked


Predictions: TypeAlias = list[tuple[Tensor, WeightedExpert, Prediction]]  # rows, by which expert, what


def without_nan(prediction: Prediction, rows: Tensor) -> tuple[Prediction, Tensor]:
    """A prediction without the numbers that are NaN, and the rows (m,) that are left."""
    if isinstance(prediction, LabelMasses):
        return prediction, rows
    is_number = ~prediction.isnan()
    return prediction[is_number], rows[is_number]


def _moved(belief: NumberBelief, predictions: Predictions) -> NumberBelief:
    """A belief whose answers are moved towards the predictions, with mass around them."""
    answer = belief.expected().clone()
    around = answer.new_zeros(len(answer), len(WIDTHS))
    for rows, weighted, numbers in predictions:
        assert not isinstance(numbers, LabelMasses)
        answer[rows] = belief.between(rows, answer[rows], numbers, weighted.weight)
        around[rows] = weighted.around
    return centred(belief.answering(answer), around)


def _mixed_with_labels(belief: Recalling, predictions: Predictions, count: int) -> Belief:
    labels = [
        (rows, weighted.weight, masses) for rows, weighted, masses in predictions if isinstance(masses, LabelMasses)
    ]
    most = max(masses.codes.shape[1] for _, _, masses in labels)
    codes = torch.zeros(count, most, dtype=torch.long, device=labels[0][0].device)
    weights = torch.zeros(count, 1, most, dtype=torch.float64, device=codes.device)
    for rows, weight, masses in labels:
        codes[rows, : masses.codes.shape[1]] = masses.codes
        weights[rows, 0, : masses.codes.shape[1]] = weight * masses.mass
    return belief.recalled(codes, weights)


def blended(belief: Any, predictions: Sequence[tuple[Tensor, Tensor, Prediction]]) -> Any:
    """Mixes beliefs about sets with those of experts, each given by its rows (m,), its weight () and its label masses."""
    is_left = torch.ones(len(belief), dtype=torch.bool, device=predictions[0][0].device)
    parts: list[tuple[Tensor, Any]] = []
    for rows, weight, masses in predictions:
        assert isinstance(masses, LabelMasses)
        part = belief.pick(rows)
        parts.append((rows, BlendedSets(part, part.weighted(masses.codes, masses.mass), weight.expand(len(rows)))))
        is_left[rows] = False
    left = is_left.nonzero()[:, 0]
    return mixed([*parts, *([(left, belief.pick(left))] if len(left) else [])])


class Stacked:
    """A model with experts stacked on it: a model."""

    def __init__(self, model: Model, group: ExpertGroup) -> None:
        self.model, self.group = model, group

    def __call__(self, batch: Batch, visible: Tensor, asked: Tensor, memo: Memo | None = None) -> Beliefs:
        """Beliefs about the asked tokens (T,), given the visible ones (T,) alone."""
        return self.group.combine(self.model(batch, visible, asked, memo), batch, visible)
