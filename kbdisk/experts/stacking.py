"""Stacking: the weights of experts beside a model, fitted together to values that neither has learnt from.

Such values are those that were reserved from the training entities, and all values of held-out entities. Every value of a
held-out entity is masked alone once, and every composite as a whole; then rounds mask many values at once, as in completion.
The weights of a property are shrunk to those that all properties of its kind have in common (numbers or labels, at
the same level of visibility), and are 0 unless the experts are proven on the other half of the entities. An estimate of a
number has the weights with the least absolute errors, an answer those with the least squared ones. The odds of a number that many
entities have change with the distance of the estimate from it.

Experts are applied one upon the other, so an expert's weight is its part of what the model and the experts up to it have.

n values of one slot and level   E experts   W widths
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, zip_longest
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Generator, Tensor

from kbdisk.data.dataset import Tokens
from kbdisk.experts.atom_odds import (
    HeldOutAtoms,
    HeldOutPart,
    each_factors,
    has_factors,
    most_frequent_atom,
    no_factors,
    with_factors,
)
from kbdisk.experts.base import (
    SET,
    USUALLY_VISIBLE,
    ExpertGroup,
    LabelMasses,
    Prediction,
    Report,
    Seen,
    Sides,
    SlotLevel,
    WeightedExpert,
    by_slot_and_level,
    ignored,
    with_labels,
    without_nan,
)
from kbdisk.experts.queries import (
    MAX_HELD_OUT_VALUES,
    Question,
    chunks,
    draw_entities,
    questions_about_rare,
    questions_alone,
    questions_in_rounds,
    rare_values,
    reserved_questions,
    usual_amounts,
)
from kbdisk.experts.weights import (
    EPSILON,
    REQUIRED_ERRORS,
    each_absolute,
    each_mixture,
    each_squares,
    relative_likelihoods,
)
from kbdisk.leaves.belief import SupportsInterpolation
from kbdisk.leaves.number.belief import AROUND_WIDTHS, NumberBelief
from kbdisk.model.diffusion import Model

ROUNDS = 3  # of masking many values of a held-out entity at once
ASKED_SHARE = 0.75  # of the time: for asking the model and the experts; the rest is for fitting weights to the answers
MOST_OF_SECONDS = 2.0  # times the seconds for asking, where there are too few answers by then
MILLISECONDS = 1000  # of a second
BATCH_ENTITIES = 512  # the time limit is checked after each question about a batch
ALONE_BEFORE_ROUND = 4  # questions, so that there are answers of both kinds however early the time is over
MAX_UNEVEN = 2.0  # times the usual size: that of the largest entity, up to which batches are of all sizes
MIN_STACKING_VALUES = 20  # held-out values of all properties of a kind, below which no expert has a weight
ENOUGH_VALUES = 50  # held-out values of a kind: with fewer, questions go on beyond their time
MIN_WEIGHT = 0.02  # below which an expert is left out
MAX_VALUES_AROUND = 500  # of a property, about, by which the moved share of densities is fitted
PRIOR_VALUES = 60.0  # held-out values that what all properties have in common counts as
PULL = 5.0  # penalty on the distance of an estimate's weights from the common ones: see `each_absolute`
MIN_LOG_PROBABILITY = -70.0  # of a label that an expert rules out

Predicted: TypeAlias = tuple[Prediction, Tensor] | None  # what an expert predicts, and of which rows
HeldOutQuestion: TypeAlias = tuple[Question, bool]  # a question, and whether it is one of the rounds


@dataclass
class HeldOutPredictions:
    """Values of one slot and level, with the predictions of the model and of each expert: NaN where it has none."""

    logs: list[Tensor] = field(default_factory=list)  # (n, 1 + E) log p of labels; (n, 1) of numbers, by the model
    numbers: list[Tensor] = field(default_factory=list)  # (n, 1 + E) the first is what the model says
    answers: list[Tensor] = field(default_factory=list)  # (n,) of numbers, the model's
    codes: list[Tensor] = field(default_factory=list)  # (n, ...) the truth
    entities: list[Tensor] = field(default_factory=list)  # (n,)
    truth: list[Tensor] = field(default_factory=list)  # (n,) of numbers
    beliefs: list[RowsOfBelief] = field(default_factory=list)  # of the first numbers

    def __len__(self) -> int:
        return sum(map(len, self.codes))

    def append(
        self, kind: str, codes: Tensor, entities: Tensor, modelled: RowsOfBelief, predictions: Sequence[Predicted]
    ) -> None:
        """Add values with the predictions of each expert; nothing for a belief that experts cannot be combined with."""
        if isinstance(modelled.belief, NumberBelief):
            self._append_numbers(codes, entities, modelled, predictions)
            return
        belief = modelled.belief.pick(modelled.rows)
        if kind == SET or isinstance(belief, SupportsInterpolation):
            self._append_labels(kind, codes, entities, belief, predictions)

    def _append_numbers(
        self, codes: Tensor, entities: Tensor, modelled: RowsOfBelief, predictions: Sequence[Predicted]
    ) -> None:
        by_experts = torch.full((len(codes), len(predictions)), torch.nan, dtype=torch.float64, device=codes.device)
        for number, prediction in enumerate(predictions):
            if prediction is not None:
                predicted, rows = prediction
                assert not isinstance(predicted, LabelMasses)
                by_experts[rows, number] = predicted
        is_predicted = ~by_experts.isnan().all(1)  # the others say nothing about weights
        if not bool(is_predicted.all()):
            codes, entities, by_experts = codes[is_predicted], entities[is_predicted], by_experts[is_predicted]
            modelled = modelled._replace(rows=modelled.rows[is_predicted])
            if not len(codes):
                return
        typical, answers, truth, logs = (every[modelled.rows] for every in modelled.numbers)
        self.logs.append(logs[:, None])
        self.numbers.append(torch.cat([typical[:, None], by_experts], 1))
        self.answers.append(answers)
        self.truth.append(truth)
        if len(self) < MAX_VALUES_AROUND:
            self.beliefs.append(modelled)
        self.codes.append(codes)
        self.entities.append(entities)

    def _append_labels(
        self, kind: str, codes: Tensor, entities: Tensor, belief: Any, predictions: Sequence[Predicted]
    ) -> None:
        """Add labels; each member of a set counts as a value."""
        own = _label_logs(kind, belief, codes)  # (n,) or (n, M)
        logs = own.new_full((*own.shape, 1 + len(predictions)), torch.nan, dtype=torch.float64)
        logs[..., 0] = own
        for number, prediction in enumerate(predictions):
            if prediction is not None:
                masses, rows = prediction
                logs[rows, ..., 1 + number] = _label_logs(
                    kind, _of_expert(kind, belief.pick(rows), masses), codes[rows]
                )
        if kind == SET:
            row, member = (codes >= 0).nonzero().unbind(1)
            logs, codes, entities = logs[row, member], codes[row, member], entities[row]
        self.logs.append(logs.clamp(min=MIN_LOG_PROBABILITY))
        self.codes.append(codes)
        self.entities.append(entities)

    @property
    def of_numbers(self) -> bool:
        """Whether these are numbers."""
        return bool(self.beliefs)

    @property
    def errors(self) -> Tensor:
        """(n, 1 + E) of typical and predicted numbers, on the scale of their property."""
        return self._scaled - self._truth

    @property
    def answer_errors(self) -> Tensor:
        """(n, 1 + E) the same, with the model's answer in the place of its typical number."""
        first = self._scale(torch.cat(self.answers)[:, None])
        return torch.cat([first, self._scaled[:, 1:]], 1) - self._truth

    @property
    def log_likelihoods(self) -> Tensor:
        """(n, 1 + E) of labels."""
        return _by_first(torch.cat(self.logs))

    @property
    def _scaled(self) -> Tensor:
        return self._scale(_by_first(torch.cat(self.numbers)))

    @property
    def _truth(self) -> Tensor:
        return self._scale(torch.cat(self.truth)[:, None])

    def estimates(self, weights: Tensor) -> Sequence[Tensor]:
        """The weighted predictions, with weights (1 + E,), in the chunks in which the values were added."""
        scaled, belief = self._scaled.nan_to_num() @ weights, self._belief
        numbers = belief.tables.unscaled(belief.slot[:1].expand(len(scaled)), scaled[:, None])[:, 0]
        chunks: Sequence[Tensor] = numbers.split([len(codes) for codes in self.codes])
        return chunks

    def chunks(self, weights: Tensor) -> list[HeldOutPart]:
        """The first numbers, with the weighted predictions in the place of the model's estimates."""
        estimated = zip(self.beliefs, self.codes, self.estimates(weights), strict=False)
        return [
            HeldOutPart(modelled.belief.pick(modelled.rows), codes, estimate) for modelled, codes, estimate in estimated
        ]

    def mean_error(self, chunks: Sequence[HeldOutPart], factors: Tensor) -> float:
        """The mean absolute error of what is written of the first numbers, on the scale of their property, with `AtomFactors` (4,)."""
        errors = []
        for (belief, _, estimate), truth in zip(chunks, self.truth, strict=False):
            changed = with_factors(belief, estimate, factors.expand(len(estimate), -1))
            written = changed.with_estimate(estimate, estimate, torch.zeros_like(estimate)).typical()
            errors.append(self._scale(torch.stack([written, truth], 1)).diff(dim=1).abs())
        return float(torch.cat(errors).mean())

    @property
    def _belief(self) -> NumberBelief:
        first: NumberBelief = self.beliefs[0].belief.pick(self.beliefs[0].rows)
        return first

    def _scale(self, numbers: Tensor) -> Tensor:
        """Numbers (n, m) on the scale of their property."""
        belief = self._belief
        return belief.tables.scaled(belief.slot[:1].expand(len(numbers)), numbers)


class Numbers(NamedTuple):
    """The predictions of a model for q known numbers."""

    typical: Tensor  # (q,)
    answers: Tensor  # (q,)
    truth: Tensor  # (q,)
    logs: Tensor  # (q,) float64, log p of the truth

    @classmethod
    def of(cls, belief: NumberBelief, codes: Tensor) -> Numbers:
        """Those of a belief in all properties at once, which is faster than in each."""
        return cls(belief.typical(), belief.expected(), belief.values(codes), belief.log_prob(codes).double())


class RowsOfBelief(NamedTuple):
    """Some rows of a model's belief about all tokens of a question."""

    belief: Any
    rows: Tensor  # (n,)
    numbers: Numbers | tuple[()] = ()  # of all rows of a belief in numbers


def _by_first(predictions: Tensor) -> Tensor:
    """(n, 1 + E) with the model's prediction where an expert has none for a row; NaN where it has none for any."""
    lacking = predictions.isnan()
    return predictions.where(~lacking | lacking.all(0), predictions[:, :1])


def _of_expert(kind: str, belief: Any, masses: Prediction) -> Any:
    """The prediction of an expert of labels alone; the belief has the rest of the mass."""
    assert isinstance(masses, LabelMasses)
    rows = torch.arange(len(masses.codes), device=masses.codes.device)
    alone = torch.ones((), dtype=torch.float64, device=rows.device)
    return with_labels(kind, belief, [(rows, alone, masses)])


def _label_logs(kind: str, belief: Any, codes: Tensor) -> Tensor:
    """(n,) log p of labels; of sets (n, M) that of each member."""
    logs: Tensor = belief.member_logs(codes) if kind == SET else belief.log_prob(codes)
    return logs.double()


class Weights(NamedTuple):
    """The weights of the model and of each expert, for one property."""

    estimate: Tensor  # (1 + E,) of the numbers in the estimate, or of the masses of labels
    answer: Tensor  # (1 + E,) of the numbers in the answer
    masses: (
        Tensor  # (2 + W,) of a belief in a number: its density, the moved density, and the surroundings of the estimate
    )
    factors: Tensor  # (4,) of the odds of a number's atom


def fit_weights(
    held_out: Mapping[SlotLevel, HeldOutPredictions], required_errors: float = REQUIRED_ERRORS
) -> dict[SlotLevel, Weights]:
    """The weights of properties of one kind; none where there are too few held-out values."""
    if sum(map(len, held_out.values())) < MIN_STACKING_VALUES:
        return {}
    entities = {key: torch.cat(values.entities) for key, values in held_out.items()}
    numbers = {key: values for key, values in held_out.items() if values.of_numbers}
    errors = {key: values.errors for key, values in numbers.items()}
    estimate = dict(each_absolute(errors, PRIOR_VALUES, entities, PULL, required_errors))
    answer_errors = {key: values.answer_errors for key, values in numbers.items()}
    answer = each_squares(answer_errors, PRIOR_VALUES, entities, required_errors=required_errors)
    factors = {key: no_factors(of_key) for key, of_key in errors.items()}
    for key, (of_key, weights) in fit_factors(numbers, errors, entities, estimate, required_errors).items():
        factors[key], estimate[key] = of_key, weights
    around = likelihoods_around(numbers, estimate, factors)
    of_around = {key: entities[key][: len(likelihoods)] for key, likelihoods in around.items()}
    masses = each_mixture(around, PRIOR_VALUES, of_around, required_errors)
    labels = {
        key: relative_likelihoods(values.log_likelihoods) for key, values in held_out.items() if not values.of_numbers
    }
    mixtures = each_mixture(labels, PRIOR_VALUES, entities, required_errors)
    return {key: Weights(estimate[key], answer[key], masses[key], factors[key]) for key in numbers} | {
        key: Weights(of_key, of_key, of_key.new_zeros(2 + len(AROUND_WIDTHS)), no_factors(of_key))
        for key, of_key in mixtures.items()
    }


def fit_factors(
    numbers: Mapping[SlotLevel, HeldOutPredictions],
    errors: Mapping[SlotLevel, Tensor],
    entities: Mapping[SlotLevel, Tensor],
    estimate: Mapping[SlotLevel, Tensor],
    required_errors: float,
) -> dict[SlotLevel, tuple[Tensor, Tensor]]:
    """The `AtomFactors` (4,) of the properties that have some, and the weights (1 + E,) of their estimates.

    The weights are those of `estimate`, or are fitted to the values that are not the atom: where most values are 0, the best estimate of all of them
    is close to 0, and says little. Those are taken with which fewer errors are made. Where both make more than there were without factors, there are none.
    """
    codes = {key: torch.cat(values.codes[: len(values.beliefs)]) for key, values in numbers.items()}
    atoms = {key: atom for key, of_key in codes.items() if (atom := most_frequent_atom(of_key)) is not None}
    if not atoms:
        return {}
    others = {key: torch.cat(numbers[key].codes)[:, 3] != atom for key, atom in atoms.items()}
    of_others = each_absolute(
        {key: errors[key][is_other] for key, is_other in others.items()},
        PRIOR_VALUES,
        {key: entities[key][is_other] for key, is_other in others.items()},
        PULL,
        required_errors,
    )
    found: dict[SlotLevel, tuple[float, Tensor, Tensor]] = {}
    for weights in (estimate, of_others):
        chunks = {key: numbers[key].chunks(weights[key]) for key in atoms}
        held_out = {key: HeldOutAtoms.of(atom, chunks[key]) for key, atom in atoms.items()}
        some_entities = {key: entities[key][: len(of_key.observed)] for key, of_key in held_out.items()}
        for key, factors in each_factors(held_out, some_entities, required_errors).items():
            if key not in found:
                found[key] = (
                    numbers[key].mean_error(chunks[key], no_factors(factors)),
                    no_factors(factors),
                    weights[key],
                )
            error = numbers[key].mean_error(chunks[key], factors) if has_factors(factors) else float("inf")
            if error <= found[key][0]:
                found[key] = error, factors, weights[key]
    return {key: (factors, weights) for key, (_, factors, weights) in found.items() if has_factors(factors)}


def likelihoods_around(
    numbers: Mapping[SlotLevel, HeldOutPredictions],
    weights: Mapping[SlotLevel, Tensor],
    factors: Mapping[SlotLevel, Tensor],
) -> dict[SlotLevel, Tensor]:
    """(m, 2 + W) of the first m numbers of each property: by the model, by its curve moved along, and around the estimates.

    The odds of the model's atoms are multiplied by `factors` (4,) first.
    """
    chunks: dict[int, list[tuple[tuple[SlotLevel, int], RowsOfBelief, Tensor, Tensor]]] = defaultdict(list)
    for key, values in numbers.items():
        for number, (modelled, codes, estimate) in enumerate(
            zip(values.beliefs, values.codes, values.estimates(weights[key]), strict=False)
        ):
            chunks[id(modelled.belief)].append(((key, number), modelled, codes, estimate))
    logs: dict[SlotLevel, dict[int, Tensor]] = defaultdict(dict)
    for of_belief in chunks.values():  # all properties of a question at once
        places, parts_of_belief, codes, estimates = zip(*of_belief, strict=True)
        rows, first = torch.cat([modelled.rows for modelled in parts_of_belief]), parts_of_belief[0]
        codes, estimate = torch.cat(codes), torch.cat(estimates)
        of_rows = torch.cat(
            [factors[key].expand(len(part.rows), -1) for (key, _), part in zip(places, parts_of_belief, strict=True)]
        )
        before = first.belief.pick(rows)
        belief = with_factors(before, estimate, of_rows)
        logs_before = first.numbers.logs[rows] if belief is before else belief.log_prob(codes).double()
        moved = belief.with_estimate(first.numbers.typical[rows], estimate, torch.ones_like(estimate)).log_prob(codes)
        near = belief.log_masses_around(estimate, codes)
        joined = torch.cat([logs_before[:, None], moved[:, None].double(), near.double()], 1)
        for (key, number), part in zip(
            places, joined.split([len(modelled.rows) for modelled in parts_of_belief]), strict=True
        ):
            logs[key][number] = part
    return {key: relative_likelihoods(torch.cat([parts[n] for n in sorted(parts)])) for key, parts in logs.items()}


def parts(weights: Tensor) -> Tensor:
    """(1 + E,) weights that sum to 1 -> (E,) the part of each expert of what the model and the experts up to it have."""
    total: Tensor = weights.cumsum(0)
    return weights[1:] / total[1:].clamp(min=MIN_WEIGHT)


def stack(
    groups: Sequence[ExpertGroup],
    model: Model,
    sides: Sides,
    rounds: int,
    generator: Generator,
    seconds: float | None = None,
    report: Report = ignored,
) -> list[ExpertGroup | None]:
    """Each group with the experts that have a weight beside a model and the other groups; None if none has.

    Reserved values come first, then held-out entities. Where none are reserved, values of rare slots come in turn with held-out entities.
    Once most of the time is used, the answers by then give the weights.
    """
    seconds = None if seconds is None else ASKED_SHARE * seconds
    usual_amount = usual_amounts(sides.training)
    slots = {slot for group in groups for slot in group.slots}
    if sides.complete is None:
        rare = rare_values(sides.held_out, slots, generator)
        about_rare = ((question, False) for question in questions_about_rare(sides.held_out, rare, usual_amount))
        others = _questions(sides.held_out, usual_amount, rounds, generator, rare)
        asked, required_errors = _in_turn(about_rare, others), REQUIRED_ERRORS
    else:
        reserved = reserved_questions(sides.training, sides.complete, usual_amount, generator, slots)
        others = _questions(sides.held_out, usual_amount, rounds, generator)
        asked, required_errors = chain(((question, False) for question in reserved), others), 0.0
    return stack_by(groups, model, asked, required_errors, seconds, report)


@torch.no_grad()
def stack_by(
    groups: Sequence[ExpertGroup],
    model: Model,
    asked: Iterable[HeldOutQuestion],
    required_errors: float = REQUIRED_ERRORS,
    seconds: float | None = None,
    report: Report = ignored,
) -> list[ExpertGroup | None]:
    """Each group with the experts that have a weight, by the answers to some questions; None if none has.

    Experts have a weight only where they gain more than `required_errors` standard errors on the other half of the entities.
    Questions end with the seconds, and later where there are too few answers by then, as without weights all experts are lost.
    """
    if not any(group.experts for group in groups):
        return [None for _ in groups]
    begun = time.monotonic()
    held_out: dict[SlotLevel, HeldOutPredictions] = defaultdict(HeldOutPredictions)
    for question, in_rounds in asked:
        _ask(groups, model, question, in_rounds, held_out)
        if seconds is not None:
            spent = time.monotonic() - begun
            report(int(MILLISECONDS * min(spent, seconds)), int(MILLISECONDS * seconds))
            if spent > seconds and (spent > MOST_OF_SECONDS * seconds or _are_enough(held_out)):
                break
    alike: dict[tuple[int, bool], dict[SlotLevel, HeldOutPredictions]] = defaultdict(dict)
    for key, values in held_out.items():
        if len(values):
            alike[key[1], values.of_numbers][key] = values
    kept: list[dict[SlotLevel, WeightedExpert]] = [{} for _ in groups]
    for of_kind in alike.values():
        for key, weights in fit_weights(of_kind, required_errors).items():
            stays, moves, around = weights.masses[0], weights.masses[1], weights.masses[2:]
            moved = moves / (stays + moves).clamp(min=EPSILON)
            of_groups = zip(groups, kept, parts(weights.estimate), parts(weights.answer), strict=True)
            for group, of_group, weight, answer_weight in of_groups:
                if max(weight, answer_weight) > MIN_WEIGHT:
                    of_group[key] = replace(
                        group.experts[key],
                        weight=weight,
                        answer_weight=answer_weight,
                        around=around,
                        moved_share=moved,
                        factors=weights.factors,
                    )
    return [
        replace(group, experts=dict(sorted(of_group.items()))) if of_group else None
        for group, of_group in zip(groups, kept, strict=True)
    ]


def _ask(
    groups: Sequence[ExpertGroup],
    model: Model,
    question: Question,
    in_rounds: bool,
    held_out: dict[SlotLevel, HeldOutPredictions],
) -> None:
    """Collect the predictions of the model and of the experts for one question.

    An entity of which little is visible gives weights to the experts for that level alone, where there are some. Otherwise it
    gives weights to all; but not in rounds, in which far less is visible than in completion.
    """
    batch, hidden, levels = question
    slots = sorted({slot for group in groups for slot in group.slots})
    is_asked = hidden.asked & torch.isin(batch.slot, torch.tensor(slots, device=batch.slot.device))
    if not bool(is_asked.any()):
        return
    seen = [(group, group.seen(batch, hidden.visible)) for group in groups]
    for kind, asked in model(batch, hidden.visible, is_asked).kinds.items():
        entity = batch.entity[asked.tokens]
        truth = batch.values[kind][asked.rows]
        numbers = Numbers.of(asked.belief, truth) if isinstance(asked.belief, NumberBelief) else ()
        asked_of: list[tuple[SlotLevel, Tensor]] = []
        for (slot, level), rows in by_slot_and_level(batch.slot[asked.tokens], levels[entity]):
            key = slot, (level if any((slot, level) in group.experts for group in groups) else USUALLY_VISIBLE)
            if any(key in group.experts for group in groups) and not (in_rounds and key[1] == USUALLY_VISIBLE):
                asked_of.append((key, rows))
        for group, of_group in seen:
            entities_of = ((key, entity[rows]) for key, rows in asked_of)
            group.announce(of_group, (pair for pair in entities_of if _predicts(group, of_group, *pair)))
        for key, rows in asked_of:
            of_rows = entity[rows]
            every = torch.arange(len(rows), device=rows.device)
            predictions = [
                without_nan(group.experts[key].expert.predict(of_group.inputs(of_rows)), every)
                if _predicts(group, of_group, key, of_rows)
                else None
                for group, of_group in seen
            ]
            modelled = RowsOfBelief(asked.belief, rows, numbers)
            held_out[key].append(kind, truth[rows], batch.id_hash[of_rows], modelled, predictions)


def _are_enough(held_out: Mapping[SlotLevel, HeldOutPredictions]) -> bool:
    """Whether numbers and labels, as far as there are any, have enough answers for weights."""
    counts = Counter[bool]()
    for values in held_out.values():
        counts[values.of_numbers] += len(values)
    return min(counts.values(), default=0) >= ENOUGH_VALUES


def _predicts(group: ExpertGroup, seen: Seen, key: SlotLevel, entities: Tensor) -> bool:
    """Whether a group has an expert for some entities (m,) of a batch, which have the same level."""
    return key in group.experts and int(seen.levels[entities[0]]) == key[1]


def _in_turn(first: Iterable[HeldOutQuestion], second: Iterable[HeldOutQuestion]) -> Iterator[HeldOutQuestion]:
    """A question of each in turn, then what is left of one."""
    for pair in zip_longest(first, second):
        yield from (question for question in pair if question is not None)


def _questions(
    held_out: Tokens,
    usual_amount: Tensor,
    rounds: int,
    generator: Generator,
    asked: Mapping[int, Tensor] = MappingProxyType({}),
) -> Iterator[HeldOutQuestion]:
    """Questions about held-out entities, some at a time and in random order, as there may not be time for all.

    Entities come in batches of all sizes, as a small one is seldom like a large one: a nucleus of which much is known is stable. Where sizes are
    uneven, batches are of similar ones, as the largest entity of a batch decides how many questions it takes.
    What is `asked` of some entities (n,) besides, by slot, is not asked alone again.
    """
    drawn = draw_entities(held_out, MAX_HELD_OUT_VALUES, generator)
    batches = [few for chunk in chunks(held_out, drawn) for few in chunk.split(BATCH_ENTITIES)]
    sizes = held_out.sizes[drawn]
    if len(drawn) and int(sizes[-1]) <= MAX_UNEVEN * int(sizes.median()):
        batches = [drawn[number :: len(batches)] for number in range(len(batches))]
    slots = len(held_out.layout.fixed)
    places = torch.cat([drawn.new_zeros(0), *(of_slot * slots + slot for slot, of_slot in asked.items())])
    for number in torch.randperm(len(batches), generator=generator, device=generator.device).tolist():
        entities = batches[number]
        batch = held_out.batch(entities)
        was_asked = torch.isin(entities[batch.entity] * slots + batch.slot, places)
        alone = questions_alone(batch, held_out.layout, usual_amount, generator, left_out=was_asked)
        in_rounds = questions_in_rounds(batch, held_out.layout, usual_amount, rounds, generator)
        for number_alone, question in enumerate(alone, 1):
            yield question, False
            if number_alone % ALONE_BEFORE_ROUND == 0:
                yield from ((question, True) for question in islice(in_rounds, 1))
        yield from ((question, True) for question in in_rounds)
