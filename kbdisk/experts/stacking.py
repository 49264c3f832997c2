"""Stacking: the weights of experts beside a model, fitted to held-out values.

Every held-out value is masked alone once, every composite as a whole, and in some rounds many at once, as happens when a
model is asked. The weights of a property are shrunk to those that all properties of its kind have in common (numbers or
labels, at the same level of visibility), and are 0 unless the experts are proven on the other half of the entities.

n held-out values of one slot and level   W widths
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import torch
from torch import Generator, Tensor

from kbdisk.data.dataset import Tokens
from kbdisk.diffusion import Model
from kbdisk.experts.base import (
    SET,
    ExpertGroup,
    Inputs,
    LabelMasses,
    Prediction,
    SlotLevel,
    by_slot_and_level,
    without_nan,
)
from kbdisk.experts.queries import (
    MAX_HELD_OUT_VALUES,
    Question,
    Sides,
    chunks,
    draw_entities,
    questions,
    questions_with_little,
    reserved_questions,
)
from kbdisk.experts.weights import REQUIRED_ERRORS, each_mixture, each_squares, relative_likelihoods
from kbdisk.leaves.base import Belief, Recalling
from kbdisk.leaves.number.around import WIDTHS, log_masses
from kbdisk.leaves.number.belief import NumberBelief

BATCH_ENTITIES = 128  # asked at once: the time is looked at after each batch
MIN_VALUES = 50  # held-out values of all properties of a kind, below which no expert has a weight
MIN_VALUES_UNPROVEN = 20  # the same where weights need not be proven
MIN_WEIGHT = 0.02  # below which an expert is left out
PRIOR_VALUES = 20.0  # held-out values that what all properties have in common counts as
MIN_PROBABILITY = 1e-30  # whose logarithm is taken


@dataclass
class HeldOutPredictions:
    """Held-out values of one slot and level, with the predictions of the model and of the expert."""

    logs: list[Tensor] = field(default_factory=list)  # (n, 2) log p of the truth by both; of numbers by the model alone
    numbers: list[Tensor] = field(default_factory=list)  # (n, 2) by both
    codes: list[Tensor] = field(default_factory=list)  # (n, ...) the truth
    entities: list[Tensor] = field(default_factory=list)  # (n,)
    belief: NumberBelief | None = None  # about the first of them

    def __len__(self) -> int:
        return sum(map(len, self.codes))

    def append(self, kind: str, codes: Tensor, entities: Tensor, belief: Belief, prediction: Prediction) -> None:
        """Add values; none of a belief that no expert can be combined with."""
        logs = belief.log_prob(codes).double()[:, None]
        if isinstance(belief, NumberBelief):
            assert not isinstance(prediction, LabelMasses)
            self.numbers.append(torch.stack([belief.expected(), prediction], 1))
            self.belief = self.belief or belief
        elif kind == SET and isinstance(prediction, LabelMasses):
            sets: Any = belief
            by_expert = sets.weighted(prediction.codes, prediction.mass).log_prob(codes).double()
            logs = torch.cat([logs, by_expert[:, None]], 1)
        elif isinstance(belief, Recalling) and isinstance(prediction, LabelMasses):
            probability = (prediction.mass * (codes[:, None] == prediction.codes)).sum(1, keepdim=True)
            logs = torch.cat([logs, probability.clamp(min=MIN_PROBABILITY).log()], 1)
        else:
            return
        self.logs.append(logs)
        self.codes.append(codes)
        self.entities.append(entities)

    @property
    def errors(self) -> Tensor:
        """(n, 2) of numbers, on the scale of their property."""
        belief = self._belief
        truth = belief.numbers(torch.cat(self.codes)[:, None])
        return self._scaled - belief.tables.scaled(belief.slot, truth)

    @property
    def _scaled(self) -> Tensor:
        return self._belief.tables.scaled(self._belief.slot, torch.cat(self.numbers))

    def likelihoods_around(self, weights: Tensor) -> Tensor:
        """(n, 1 + W) the likelihoods of numbers by the model, and around the answers with these weights (2,)."""
        belief = self._belief
        answer = belief.tables.unscaled(belief.slot, (self._scaled @ weights)[:, None])[:, 0]
        near = log_masses(belief.answering(answer), torch.cat(self.codes)).double()
        return relative_likelihoods(torch.cat([torch.cat(self.logs), near], 1))

    @property
    def _belief(self) -> NumberBelief:
        """One belief for every value: only the tables of its slot are used."""
        assert self.belief is not None
        return self.belief.pick(torch.zeros(len(self), dtype=torch.long, device=self.codes[0].device))


def fit_weights(
    held_out: Mapping[SlotLevel, HeldOutPredictions], required_errors: float = REQUIRED_ERRORS
) -> dict[SlotLevel, tuple[Tensor, Tensor]]:
    """For properties of one kind: the weight () of each expert, and the masses (W,) around answers."""
    if sum(map(len, held_out.values())) < (MIN_VALUES if required_errors > 0 else MIN_VALUES_UNPROVEN):
        return {}
    entities = {key: torch.cat(values.entities) for key, values in held_out.items()}
    numbers = {key: values for key, values in held_out.items() if values.belief is not None}
    errors = {key: values.errors for key, values in numbers.items()}
    weights = each_squares(errors, PRIOR_VALUES, entities, required_errors=required_errors)
    around = each_mixture(
        {key: values.likelihoods_around(weights[key]) for key, values in numbers.items()},
        PRIOR_VALUES,
        entities,
        required_errors,
    )
    labels = {
        key: relative_likelihoods(torch.cat(of_key.logs)) for key, of_key in held_out.items() if of_key.belief is None
    }
    fitted = {key: (fitted_weights[1], around[key][1:]) for key, fitted_weights in weights.items()}
    mixtures = each_mixture(labels, PRIOR_VALUES, entities, required_errors)
    return fitted | {
        key: (fitted_weights[1], fitted_weights.new_zeros(len(WIDTHS))) for key, fitted_weights in mixtures.items()
    }


def stack(
    group: ExpertGroup,
    model: Model,
    sides: Sides,
    rounds: int,
    generator: Generator,
    seconds: float | None = None,
) -> ExpertGroup | None:
    """The experts that have a weight beside a model; None if none has.

    The values that were reserved from the training entities give the weights, and held-out entities those for little visible;
    where none were reserved, held-out entities give all weights. Once the time is used, the answers by then give them.
    """
    end = None if seconds is None else time.monotonic() + seconds
    of_held_out = _questions(sides.held_out, group.usual_amount, rounds, generator)
    if sides.complete is None:
        return stack_by(group, model, _until(end, of_held_out))
    asked = reserved_questions(sides.training, sides.complete, group.usual_amount, generator)
    if rounds:
        asked = chain(asked, questions_with_little(of_held_out))
    return stack_by(group, model, _until(end, asked), required_errors=0.0)


def _until(end: float | None, asked: Iterable[Question]) -> Iterator[Question]:
    """Questions until some time; one at least."""
    for question in asked:
        yield question
        if end is not None and time.monotonic() > end:
            return


@torch.no_grad()
def stack_by(
    group: ExpertGroup, model: Model, asked: Iterable[Question], required_errors: float = REQUIRED_ERRORS
) -> ExpertGroup | None:
    """The experts that have a weight beside a model, by the answers to some questions; None if none has.

    An expert has a weight only where it gains more than `required_errors` standard errors on the other half of the entities.
    """
    if not group.experts:
        return None
    held_out: dict[SlotLevel, HeldOutPredictions] = defaultdict(HeldOutPredictions)
    for question in asked:
        _ask(group, model, question, held_out)
    kept = {}
    alike: dict[tuple[int, bool], dict[SlotLevel, HeldOutPredictions]] = defaultdict(dict)
    for key, values in held_out.items():
        if len(values):
            alike[key[1], values.belief is None][key] = values
    for of_kind in alike.values():
        for key, (weight, around) in fit_weights(of_kind, required_errors).items():
            if weight > MIN_WEIGHT:
                kept[key] = replace(group.experts[key], weight=weight, around=around)
    return replace(group, experts=dict(sorted(kept.items()))) if kept else None


def _ask(group: ExpertGroup, model: Model, question: Question, held_out: dict[SlotLevel, HeldOutPredictions]) -> None:
    """Collect the answers of the model and of the experts to one question."""
    batch, hidden, levels = question
    table = group.featurizer.table(batch, hidden.visible)
    for kind, asked in model(batch, hidden.visible, hidden.asked).kinds.items():
        entity = batch.entity[asked.tokens]
        for key, rows in by_slot_and_level(batch.slot[asked.tokens], levels[entity]):
            if key not in group.experts:
                continue
            of_rows = entity[rows]
            inputs = Inputs(table[of_rows], batch.who[of_rows])
            prediction, predicted = without_nan(group.experts[key].expert.predict(inputs), rows)
            if len(predicted):
                codes, entities = batch.values[kind][asked.rows[predicted]], batch.who[entity[predicted]]
                held_out[key].append(kind, codes, entities, asked.belief.pick(predicted), prediction)


def _questions(held_out: Tokens, usual_amount: Tensor, rounds: int, generator: Generator) -> Iterator[Question]:
    """Questions about held-out entities, some at a time and in random order, as there may not be time for all."""
    drawn = draw_entities(held_out, MAX_HELD_OUT_VALUES, generator)
    batches = [few for chunk in chunks(held_out, drawn) for few in chunk.split(BATCH_ENTITIES)]
    for number in torch.randperm(len(batches), generator=generator, device=generator.device).tolist():
        yield from questions(held_out.batch(batches[number]), held_out.layout, usual_amount, rounds, generator)
