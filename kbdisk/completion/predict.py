"""Predict: values and confidences for the gaps of a plan, by the network and the experts. Nothing is decided here.

Entities are read in chunks, which forked processes divide among themselves, and predicted in batches. For each batch a first
pass of the network has the presence of each gap that may be written, and one about the gaps that presence does not rule out
has the confidence of each value, from the given values alone.
Where all gaps are filled these are one pass. Then values are predicted pass by pass. By default the first of these passes has
all but the later parts of composites.

T tokens   S slots   V labels of a slot
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property, partial, reduce
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from kbdisk.completion.answers import Answers
from kbdisk.completion.config import MAX_PASSES, CompletionConfig
from kbdisk.completion.constraints import Consistency, Restriction
from kbdisk.completion.decide import calibration_of, why_unnamed
from kbdisk.completion.fields import Field, Fields
from kbdisk.completion.gaps import Gap
from kbdisk.completion.members import Proposed
from kbdisk.completion.plan import Plan, Planned
from kbdisk.completion.predictions import Prediction, predictions_of, read_line
from kbdisk.completion.provenance import fingerprint
from kbdisk.completion.shrinkage import Shrinker
from kbdisk.completion.truncation import truncate
from kbdisk.completion.unique_pairs import UniquePairs
from kbdisk.data import Codec
from kbdisk.data.dataset import Batch, batches
from kbdisk.data.encode import Encoding
from kbdisk.data.links import Evidence
from kbdisk.data.parse import Reading
from kbdisk.data.slots import Slot
from kbdisk.entity import Path, show
from kbdisk.evaluation.intervals import Levels
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.model.beliefs import Beliefs
from kbdisk.model.diffusion import Model, beliefs, reveal, revealing
from kbdisk.model.estimates import Estimate, estimate_codes, estimate_values, round_to_interval
from kbdisk.parallel import one_thread, parallel_map, usable_processes
from kbdisk.rng import derive_seed
from kbdisk.schemas.composites.date import NUMBERS
from kbdisk.schemas.composites.date import Date as DateKind
from kbdisk.schemas.composites.listed import COUNT
from kbdisk.schemas.composites.quantity import UNIT, VALUE, Quantity
from kbdisk.schemas.schema import Schema
from kbdisk.training.trained import Trained

CHUNK_ENTITIES, CHUNK_GAPS = 2000, 4096  # that are read before they are predicted, at most
MAX_TOKENS = 16384  # of a batch, about: small operations take most of the time
GIVEN_COST = 0.25  # of a given token in a batch, beside 1 or more of an asked token: beliefs take the most memory
LABELS_PER_COST = 1024  # labels of a slot for which its asked token costs 1; with fewer it costs 1, too
SEED_SALT = 1  # so that no seed is one of training's
MIN_PART_PRESENCE = 0.5  # of a month or a day that is predicted with its year
MIN_FILL_RATIO = 0.5  # of a field of a new list part: how often it is there, beside the field that is there most often
MIN_ENTROPY = 0.5  # nats: the least entropy of a slot by which the certainty of a belief is scaled
NO_MEMBER = "no further member to learn from"
NOT_LEARNT = "no such value to learn from"
EMPTY = "likeliest to be empty"
ALL_LABELS_TAKEN = "every label that is known is taken: no two entities have the same pair of them"

Watch = Callable[[int, int], None]  # how many entities are done, of how many
WhyNot = Callable[[Gap, "float | None"], str]  # (gap, presence) -> a reason, or nothing
WhyNever = Callable[[Gap], str]  # gap -> a reason that does not depend on its presence, or nothing


class AskedEntity(NamedTuple):
    """An entity with those of its gaps for which the model is asked."""

    reading: Reading
    gaps: Sequence[Gap]


def _no_reason(gap: Gap) -> str:
    return ""


class Predicting(Iterable[tuple[Planned, list[Prediction]]]):
    """The entities of a plan, each with the predictions for its gaps.

    A belief is truncated to the values that the constraints of the schema and of `shapes` allow beside the given ones, and that
    no person has rejected.
    """

    def __init__(
        self,
        plan: Plan,
        shapes: Schema | None = None,
        *,
        why_never: WhyNever | None = None,
        why_not: WhyNot | None = None,
        answers: Answers | None = None,
        watch: Watch | None = None,
    ) -> None:
        """`why_never` says of a gap why nothing is predicted for it; None: all gaps are predicted.

        `why_not` says of another gap, by its presence, why no value is predicted for it; None: one is predicted for each.
        """
        self.plan, self.shapes, self.why_not, self.watch = plan, shapes, why_not, watch
        self.covers_all_gaps = why_never is None  # other thresholds need no new prediction
        self.why_never = why_never or _no_reason
        self.answers = answers or Answers()
        self.trained, self.config = plan.trained, plan.config
        self.schema, self.codec = plan.schema, plan.codec

    def __iter__(self) -> Iterator[tuple[Planned, list[Prediction]]]:
        return ((planned, predictions_of(map(read_line, lines), planned)) for planned, lines in self.lines())

    def lines(self) -> Iterator[tuple[Planned, list[bytes]]]:
        """Each entity with the lines of its predictions; the chunks are divided among the processes of `parallel_map`."""
        max_leaves = max((len({spot.path for spot in fields.spots}) for fields in self.plan.fields.values()), default=1)
        unique_pairs = UniquePairs(self.codec, self.plan.known_readings)
        levels = calibration_of(self.trained).levels
        predictor = GapPredictor(self.trained, self.config, max_leaves, unique_pairs, self.why_not, levels=levels)
        consistency = Consistency(self.schema, self.shapes, self.plan.entities)
        processes = usable_processes(self.trained.device)
        if processes > 1:
            _ = self._evidence  # once for all processes
        if unique_pairs.partners:
            processes = 1  # later chunks may not repeat a pair that an earlier one has filled
        predict_chunk = partial(self._predicted_lines, predictor, consistency)
        total = self.plan.total if self.watch is not None else 0
        done = 0
        for rows, of_chunk in parallel_map(predict_chunk, self._chunks(), processes):
            for row, of_gaps in zip(rows, of_chunk, strict=True):
                planned = self.plan.planned(row)
                with one_thread() if processes > 1 else nullcontext():
                    of_sets = [prediction.line(row, planned.entity.id) for prediction in self._further_members(planned)]
                yield planned, [*of_gaps, *of_sets]
            done += len(rows)
            if self.watch is not None:
                self.watch(done, total)

    def _chunks(self) -> Iterator[range]:
        """The rows of the plan in chunks, each of a batch or two."""
        start, gaps = 0, 0
        for planned in self.plan:
            gaps += len(planned.gaps)
            end = planned.row + 1
            if end - start == CHUNK_ENTITIES or gaps >= CHUNK_GAPS or end == len(self.plan.entities):
                yield range(start, end)
                start, gaps = end, 0

    def _predicted_lines(
        self, predictor: GapPredictor, consistency: Consistency, rows: range
    ) -> tuple[range, list[list[bytes]]]:
        """The rows of a chunk, and the lines of the predictions for the gaps of each."""
        chunk = list(map(self.plan.planned, rows))
        predicted: dict[Gap, Prediction] = {}
        for number, (batch, in_batch) in enumerate(self._batches(list(self._asked(chunk))), rows.start):
            ids = [asked.reading.id for asked in in_batch]
            gaps = [asked.gaps for asked in in_batch]
            restrictions = [self._restrictions(asked, consistency) for asked in in_batch]
            for of_entity in predictor.predict(batch, ids, gaps, number, restrictions):
                predicted |= {prediction.gap: prediction for prediction in of_entity}
        return rows, [
            [
                (predicted.get(gap) or Prediction(gap, self.why_never(gap))).line(planned.row, planned.entity.id)
                for gap in planned.gaps
            ]
            for planned in chunk
        ]

    def _asked(self, chunk: Iterable[Planned]) -> Iterator[AskedEntity]:
        """The entities of which the model is asked for some gap."""
        for planned in chunk:
            gaps = [gap for gap in planned.gaps if not self.why_never(gap)]
            if gaps and planned.reading is not None:
                yield AskedEntity(planned.reading, gaps)

    def _further_members(self, planned: Planned) -> Iterator[Prediction]:
        """The predictions for the sets of an entity that have members. Unless every gap is predicted, only for sets that `only` names."""
        if planned.reading is None:
            return
        for gap in planned.sets:
            if not self.covers_all_gaps and (unnamed := why_unnamed(gap, self.config)):
                yield Prediction(gap, unnamed)
            else:
                yield further_member(self.plan, self.answers, planned.reading, gap)

    def _batches(self, asked: Sequence[AskedEntity]) -> Iterator[tuple[Batch, list[AskedEntity]]]:
        """The entities in batches, each with its entities."""
        if not asked:
            return
        encoded: list[AskedEntity] = []
        encoding = Encoding(self.codec.index, lambda reading, table: _slots(encoded[-1].gaps), self._evidence)
        for entity in asked:
            encoded.append(entity)
            encoding.add(entity.reading)
        tokens = encoding.tokens().to(self.trained.device)
        size = max(MAX_TOKENS // (1 + self.config.draws), MAX_TOKENS // 16)
        cost = self._asked_costs[tokens.slot].masked_fill(tokens.known, GIVEN_COST)
        costs = cost.new_zeros(len(tokens)).index_add_(0, tokens.owner, cost)
        for places, batch in batches(tokens, size, costs=costs):
            yield batch, [asked[place] for place in places]

    @cached_property
    def _asked_costs(self) -> Tensor:
        """(S,) the cost of an asked token of each slot in a batch."""
        labels = torch.tensor([len(slot.labels) for slot in self.codec.slots], device=self.trained.device)
        return (labels / LABELS_PER_COST).clamp(min=1)

    def _restrictions(self, asked: AskedEntity, consistency: Consistency) -> dict[Path, list[Restriction]]:
        """The values that the gaps of an entity may get, by their paths."""
        entity = asked.reading.entity
        restrictions = consistency.restrictions(entity, asked.gaps) if consistency.demands else {}
        for path, of_gap in self.answers.restrictions(entity, asked.gaps).items():
            restrictions.setdefault(path, []).extend(of_gap)
        return restrictions

    @cached_property
    def _evidence(self) -> Evidence | None:
        """The features that come over links, where the model has any."""
        if not self.codec.index.over:
            return None
        readings = self.plan.known_readings
        return self.codec.evidence(
            self.codec.graph(readings), readings if usable_processes(self.trained.device) > 1 else ()
        )

    def about(self) -> dict[str, Any]:
        """What the predictions depend on: the source, the model, the options; and where not all gaps are asked, the thresholds."""
        config = self.config
        same = ("estimate", "order", "leap", "draws", "least", "seed")
        thresholds = {name: getattr(config, name) for name in ("fill", "min_confidence", "precision")}
        return {
            "source": self.plan.digest,
            "model": fingerprint(self.trained),
            "shapes": None if self.shapes is None else hashlib.sha256(self.shapes.to_yaml().encode()).hexdigest(),
            "only": sorted(map(show, config.only)),
            "classes": sorted(config.classes),
            **{name: getattr(config, name) for name in same},
            "thresholds": thresholds,
        }


def further_member(plan: Plan, answers: Answers, reading: Reading, gap: Gap) -> Prediction:
    """The prediction of the likeliest further member of a set that no person has rejected."""
    rejected = answers.rejected_members(reading.entity.id, gap.path)
    best = plan.further_members.best(reading.id, gap.path, rejected)
    return Prediction(gap, NO_MEMBER) if best is None else member_prediction(gap, best)


def member_prediction(gap: Gap, proposed: Proposed) -> Prediction:
    """The prediction of a further member: whether an entity has it is its presence. That one without a class has one is certain."""
    presence, correctness = (proposed.chance, 1.0) if gap.members else (None, proposed.chance)
    estimate = Estimate(entity=0, slot=0, token=0, value=proposed.member, confidence=correctness)
    return Prediction(gap, "", presence, {gap.path: proposed.member}, {gap.path: estimate}, tokens={gap.path: 0})


def _slots(gaps: Iterable[Gap]) -> Iterator[int]:
    return (spot.slot for gap in gaps for spot in gap.spots)


# ---------------------------------------------------------------- the gaps of a batch


class Presence(NamedTuple):
    """The probability that an entity has a property."""

    probability: float
    parts: tuple[float, float] | None = None  # by the networks and by trees, where there are trees


class GapPredictor:
    """A model that predicts values for the gaps of batches."""

    def __init__(
        self,
        trained: Trained,
        config: CompletionConfig,
        max_leaves: int,
        unique_pairs: UniquePairs,
        why_not: WhyNot | None = None,
        *,
        levels: Levels | None = None,
        has_truth: bool = False,
    ) -> None:
        """`why_not` says of a gap, by its presence, why nothing is predicted for it; None: a value is predicted for each.

        `max_leaves` is the largest number of leaves of an entity, `levels` are those of intervals. With `has_truth` the batches
        have the values that are asked for.
        """
        self.levels, self.has_truth = levels or Levels(), has_truth
        self.codec, self.model, self.config = trained.codec, trained.full_model, config
        self.presence_trees = trained.presence_trees
        self.shrinker, self.unique_pairs, self.why_not = Shrinker(trained), unique_pairs, why_not
        self.leap = config.leap or max(1, -(-max_leaves // MAX_PASSES))
        entropies = torch.tensor([slot.entropy for slot in trained.codec.slots], device=trained.device)
        self.scale = entropies.clamp(min=MIN_ENTROPY)  # (S,)
        places = [_date_part(slot.path) for slot in trained.codec.slots]
        self.parts = torch.tensor(places, device=trained.device)  # (S,) a year is predicted before its month

    @torch.no_grad()
    def predict(
        self,
        batch: Batch,
        ids: Sequence[str],
        gaps: Sequence[Sequence[Gap]],
        batch_number: int,
        restrictions: Sequence[Mapping[Path, Sequence[Restriction]]] = (),
    ) -> list[list[Prediction]]:
        """The predictions for the gaps of each entity of a batch, which asks for all of their slots.

        Draws depend on `batch_number`. `restrictions` are those of each entity, by the paths of gaps.
        """
        generator = Generator(batch.slot.device).manual_seed(derive_seed(self.config.seed, batch_number, SEED_SALT))
        token_of = {
            (entity, slot): place
            for place, (entity, slot, asked) in enumerate(
                zip(batch.entity.tolist(), batch.slot.tolist(), batch.asked.tolist(), strict=True)
            )
            if asked
        }
        given = beliefs(self.model, batch) if self.why_not is None else presence_alone(self.model, batch)
        presence = self._presence(batch, given)
        predictions = [[Prediction(gap) for gap in of_entity] for of_entity in gaps]
        for entity, of_entity in enumerate(predictions):
            for prediction in of_entity:
                self._choose_tokens(prediction, partial(_token_at, token_of, entity), presence)
        chosen = _tokens_of(batch, predictions)
        if not bool(chosen.any()):
            return predictions
        if self.why_not is not None:
            given = beliefs(self.model, batch, chosen)
        counted = self._with_counts(batch, given, predictions, generator)
        chosen = _tokens_of(batch, predictions)
        if bool(chosen.any()):
            self._predict_values(
                counted, ids, given, chosen, predictions, generator, restrictions, is_as_given=counted is batch
            )
        return predictions

    # ------------------------------------------------------------ choosing tokens

    def _presence(self, batch: Batch, given: Beliefs) -> Mapping[int, Presence]:
        """The presence of each asked token."""
        presence = given.presence
        if presence is None:
            return {}
        tokens = presence["tokens"].tolist()
        if self.presence_trees is None:
            chances = _probabilities(presence["logits"])
            return {token: Presence(chance) for token, chance in zip(tokens, chances, strict=True)}
        presence = self.presence_trees.combined(batch, batch.known, presence)
        columns = (_probabilities(presence[name]) for name in ("logits", "network", "trees"))
        return {
            token: Presence(chance, None if math.isnan(trees) else (network, trees))
            for token, chance, network, trees in zip(tokens, *columns, strict=True)
        }

    def _choose_tokens(
        self, prediction: Prediction, token: Callable[[int], int | None], presence: Mapping[int, Presence]
    ) -> None:
        """The tokens of a gap that are predicted; or the reason why none is."""
        gap, slots = prediction.gap, self.codec.slots
        places = {spot.path: (spot.slot, place) for spot in gap.spots if (place := token(spot.slot)) is not None}
        lead = (*gap.path, *COUNT) if gap.field.is_list else _lead(places, slots)
        if lead not in places:
            prediction.why_not = NOT_LEARNT
            return
        if (of_lead := presence.get(places[lead][1])) is not None:
            prediction.presence, prediction.presence_parts = of_lead
        if self.why_not is not None and (why_not := self.why_not(gap, prediction.presence)):
            prediction.why_not = why_not
            return
        tokens = {path: place for path, (_, place) in places.items()}
        if isinstance(gap.field.kind, DateKind) and not gap.parts:
            named = {spot.path for spot in gap.spots if spot.slot in gap.named} - {lead}
            counts = {path: slots[slot].count for path, (slot, _) in places.items()}
            absent = {
                path
                for path, place in tokens.items()
                if place in presence and presence[place].probability < MIN_PART_PRESENCE
            }
            tokens = {path: tokens[path] for path in _date_parts(gap, counts, absent - named)}
        prediction.tokens = tokens

    def _with_counts(
        self, batch: Batch, given: Beliefs, predictions: list[list[Prediction]], generator: Generator
    ) -> Batch:
        """The batch with the predicted lengths of lists. No places beyond them are asked for any more."""
        lists = [prediction for prediction in _predicted(predictions) if prediction.gap.field.is_list]
        if not lists:
            return batch
        by_token = {prediction.tokens[(*prediction.gap.path, *COUNT)]: prediction for prediction in lists}
        asked = torch.zeros_like(batch.known)
        asked[list(by_token)] = True
        picked = given.pick(asked)
        codes = estimate_codes(picked, "sample" if self.config.estimate == "sample" else "mode", generator)
        for answer in estimate_values(self.codec, batch, picked, codes=codes):
            self._take_count(by_token[answer.token], answer)
        for kind, of_kind in codes.items():
            batch = batch.with_values(kind, picked.kinds[kind].rows, of_kind)
        return batch

    def _take_count(self, prediction: Prediction, answer: Estimate) -> None:
        """Take the length of a list, and keep the tokens of so many parts."""
        path = (*prediction.gap.path, *COUNT)
        count = int(answer.value)
        prediction.leaves[path], prediction.answers[path] = count, answer
        if count == 0:
            prediction.why_not = EMPTY
        slots = {spot.path: self.codec.slots[spot.slot] for spot in prediction.gap.spots}
        at = len(prediction.gap.path)
        max_fill: dict[Any, float] = {}  # by place in the list
        for spot in prediction.gap.spots:
            max_fill[spot.path[at]] = max(max_fill.get(spot.path[at], 0.0), slots[spot.path].fill)
        prediction.tokens = {
            leaf: token
            for leaf, token in prediction.tokens.items()
            if leaf != path
            and len(_list_places(leaf[at:])) == 1
            and _list_places(leaf[at:])[0] < count
            and slots[leaf].fill >= MIN_FILL_RATIO * max_fill[leaf[at]]
        }

    # ------------------------------------------------------------ predicting values

    def _predict_values(
        self,
        batch: Batch,
        ids: Sequence[str],
        given: Beliefs,
        chosen: Tensor,
        predictions: list[list[Prediction]],
        generator: Generator,
        restrictions: Sequence[Mapping[Path, Sequence[Restriction]]],
        *,
        is_as_given: bool,
    ) -> None:
        """Values for the chosen tokens (T,), and the confidence of each by the given values alone.

        Where the batch has no other values than the given ones, the first pass takes the `given` beliefs.
        """
        kept, places = narrowed(batch, chosen)
        picked = given.pick(chosen)
        passes = revealing(
            self.model,
            kept,
            order=self.config.order,
            leap=self.leap,
            scale=self.scale,
            parts=self.parts,
            generator=generator,
            say=partial(self._estimated, kept, generator),
            first=picked.moved_to(places, kept) if is_as_given else None,
        )
        done = reduce(lambda _, last: last, passes, kept)
        codes = {
            kind: done.values[kind][places[asked.tokens] - done.spans[kind][0]] for kind, asked in picked.kinds.items()
        }
        codes, of_pairs = self.unique_pairs.resolve(batch, ids, picked, codes, self.shrinker)
        predicted = list(_predicted(predictions))
        codes, of_units = choose_units(self.codec, self.shrinker, batch, picked, codes, predicted)
        confidences = self.shrinker.probabilities(picked, batch, codes) | of_pairs | of_units
        if any(restrictions):
            codes, truncated = truncate(self.codec, self.shrinker, batch, picked, codes, predictions, restrictions)
            confidences |= truncated
        in_lists = {
            token for prediction in predicted if prediction.gap.field.is_list for token in prediction.tokens.values()
        }
        for kind, asked in picked.kinds.items():
            done = done.with_values(kind, places[asked.tokens] - done.spans[kind][0], codes[kind])
        by_token = {
            answer.token: replace(answer, confidence=confidences.get(answer.token, answer.confidence))
            for answer in estimate_values(
                self.codec,
                batch,
                picked,
                codes=codes,
                level=partial(self.levels.of_tokens, self.codec, batch, batch.known, in_lists=in_lists),
                has_truth=self.has_truth,
                generator=generator,
            )
        }
        values = self.codec.leaves(done, kept.asked)
        drawn = self._draws(kept, kept.asked, generator)
        for of_entity, leaves, draws in zip(predictions, values, drawn, strict=True):
            for prediction in of_entity:
                if not prediction.why_not:
                    self._take_values(prediction, by_token, leaves, draws)

    def _take_values(
        self,
        prediction: Prediction,
        answers: Mapping[int, Estimate],
        values: Mapping[Path, Any],
        draws: Sequence[Mapping[Path, Any]],
    ) -> None:
        """Take the values of one gap, of all answers by token, and of the values and draws of its entity."""
        if prediction.gap.bare is not None:  # the amount is given, and its unit is missing
            prediction.tokens = {path: token for path, token in prediction.tokens.items() if path[-1:] != VALUE}
        prediction.answers |= {path: answers[token] for path, token in prediction.tokens.items()}
        if any(
            answer.confidence == 0 and answer.slot in self.unique_pairs.partners
            for answer in prediction.answers.values()
        ):
            prediction.why_not = ALL_LABELS_TAKEN
            return
        leaves = {path: values[path] for path in prediction.tokens if path in values}
        prediction.leaves |= {path: self._shortened(leaf, prediction.answers[path]) for path, leaf in leaves.items()}
        prediction.draws = [{path: drawn[path] for path in prediction.tokens if path in drawn} for drawn in draws]

    def _shortened(self, leaf: Any, answer: Estimate) -> Any:
        """A number without insignificant digits; a number that many entities share stays as it is."""
        interval = answer.interval
        if interval is None or type(leaf) is not float or leaf in self.codec.slots[answer.slot].codec.atoms:
            return leaf
        return round_to_interval(leaf, interval)

    def _estimated(self, batch: Batch, generator: Generator, beliefs: Beliefs) -> dict[str, Tensor]:
        """kind -> codes (q, ...) of the point estimate for each asked token of a batch."""
        codes = estimate_codes(beliefs, self.config.estimate, generator)
        return codes if self.config.estimate == "sample" else self.shrinker.shrink(batch, beliefs, codes)

    def _draws(self, batch: Batch, asked: Tensor, generator: Generator) -> list[list[dict[Path, Any]]]:
        """The draws of each entity, as many as the options say: in each, all asked leaves are drawn together."""
        count = self.config.draws
        if not count:
            return [[] for _ in range(batch.size)]
        drawn = reveal(self.model, batch.repeat(count), order="random", leap=self.leap, generator=generator)
        leaves = self.codec.leaves(drawn, asked.repeat_interleave(count))
        return [leaves[entity * count : (entity + 1) * count] for entity in range(batch.size)]


def narrowed(batch: Batch, chosen: Tensor) -> tuple[Batch, Tensor]:
    """The batch asking for the chosen tokens (T,) alone, and (T,) the place of each token in it."""
    keep = batch.known | chosen
    return batch.only(keep), keep.cumsum(0) - 1


def presence_alone(model: Model, batch: Batch) -> Beliefs:
    """The presence of each asked token, without beliefs about its value."""
    return model(replace(batch, absent=batch.asked), batch.seen(batch.known), torch.zeros_like(batch.known))


def _tokens_of(batch: Batch, predictions: Iterable[Iterable[Prediction]]) -> Tensor:
    """(T,) the tokens of the gaps that get a value."""
    chosen = torch.zeros_like(batch.known)
    chosen[[token for prediction in _predicted(predictions) for token in prediction.tokens.values()]] = True
    return chosen


def _predicted(predictions: Iterable[Iterable[Prediction]]) -> Iterator[Prediction]:
    """The predictions of all entities that get a value."""
    return (prediction for of_entity in predictions for prediction in of_entity if not prediction.why_not)


def _probabilities(logits: Tensor) -> list[float]:
    return logits.sigmoid().tolist()


def leading_slots(fields: Mapping[str, Fields], slots: Sequence[Slot]) -> set[int]:
    """For every property that may be filled, the slot whose presence stands for the presence of the property."""
    leading = set()
    for of_class in fields.values():
        places: dict[Field, dict[Path, tuple[int, int]]] = {}
        for spot in of_class.spots:
            if spot.field.path == spot.field.top and not spot.field.why_not:
                places.setdefault(spot.field, {})[spot.path] = spot.slot, 0
        for field, of_field in places.items():
            lead = (*field.path, *COUNT) if field.is_list else _lead(of_field, slots)
            leading |= {slot for path, (slot, _) in of_field.items() if path == lead}
    return leading


def _lead(places: Mapping[Path, tuple[int, int]], slots: Sequence[Any]) -> Path:
    """The part of a gap that most entities have; of several the first, as in a date the year."""
    return max(places, key=lambda path: (slots[places[path][0]].fill, -_date_part(path)), default=())


def _date_part(path: Path) -> int:
    """The place of a part of a date: 0 for the year. Paths of other leaves come last."""
    return NUMBERS.index(str(path[-1])) if path[-1] in NUMBERS else len(NUMBERS)


def _date_parts(gap: Gap, counts: Mapping[Path, int], absent: set[Path]) -> list[Path]:
    """The parts of a date that are predicted: year, month and day, each where the one before it is, up to an absent one.

    Where no date of the training data ends with a part (`counts`), a new one does not: it might have no form to be written in.
    """
    chosen: list[Path] = []
    for path in ((*gap.path, name) for name in NUMBERS if (*gap.path, name) in counts):
        may_end_before = bool(chosen) and counts[path] < counts[chosen[-1]]
        if may_end_before and path in absent:
            break
        chosen.append(path)
    return chosen + [path for path in counts if path[-1] not in NUMBERS]


def _list_places(path: Path) -> list[int]:
    return [key for key in path if isinstance(key, int)]


def _token_at(token_of: Mapping[tuple[int, int], int], entity: int, slot: int) -> int | None:
    return token_of.get((entity, slot))


# ---------------------------------------------------------------- the unit of an amount that is given without one


def choose_units(
    codec: Codec,
    shrinker: Shrinker,
    batch: Batch,
    beliefs: Beliefs,
    predicted: Mapping[str, Tensor],
    predictions: Iterable[Prediction],
) -> tuple[dict[str, Tensor], dict[int, float]]:
    """The codes (q, ...) with the likeliest unit of each amount without one, and the probability of each such unit by token.

    By Bayes' rule a unit's probability is proportional to its predicted one times the density of the amount in it.
    """
    codes, probabilities = {kind: values.clone() for kind, values in predicted.items()}, dict[int, float]()
    rows = {
        (token, kind): torch.tensor([row], device=batch.slot.device)
        for kind in ("number", "category")
        if kind in beliefs.kinds
        for row, token in enumerate(beliefs.kinds[kind].tokens.tolist())
    }
    for prediction in predictions:
        gap = prediction.gap
        value, unit = (prediction.tokens.get((*gap.path, *leaf)) for leaf in (VALUE, UNIT))
        if gap.bare is None or value is None or unit is None or not isinstance(gap.field.kind, Quantity):
            continue
        number = beliefs.kinds["number"].belief.pick(rows[value, "number"])
        label = beliefs.kinds["category"].belief.pick(rows[unit, "category"])
        assert isinstance(number, NumberBelief)
        slot = int(batch.slot[unit])
        prior = shrinker.label_probabilities(slot, label)
        likelihoods = _unit_likelihoods(gap.field.kind, codec.slots[slot].codec.labels.values, gap.bare, number)
        posterior = prior * likelihoods.to(prior)
        if float(posterior.sum()) > 0:
            best = int(posterior.argmax())
            codes["category"][rows[unit, "category"]] = best
            probabilities[unit] = float(posterior[best] / posterior.sum())
    return codes, probabilities


def _unit_likelihoods(kind: Quantity, units: Iterable[str], amount: float, belief: NumberBelief) -> Tensor:
    """(V,) the density of an amount in each unit."""
    conversions = [kind.conversion(unit) for unit in units]
    learnt = [float(amount) if conversion is None else conversion.of(amount) for conversion in conversions]
    factors = torch.tensor(
        [1.0 if conversion is None else conversion.factor for conversion in conversions], dtype=torch.float64
    )
    device = belief.slot.device
    density = belief.pdf(torch.tensor([learnt], dtype=torch.float64, device=device))[0]
    return density.cpu() * factors
