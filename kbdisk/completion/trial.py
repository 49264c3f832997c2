"""A trial of completion: values of held-out entities are hidden and filled, and what the entities lack is filled, too.

Each statement is compared with the values of the entity. Confidence is calibrated on the outcomes. A question hides one
property of an entity, with everything that came over its links. It also hides properties that lack together with this one
more often than by chance: those that a randomly drawn entity of the class without this property lacks, too. So values are as
hard to predict as in gaps. Presence is asked for without hiding these: where a whole group lacks, such as the day, city and
country of a death, that is taken for a fact. All other values are given. Properties that the source declares absent are asked
for, too: any statement about them is wrong. Of entities that the model was trained on only reserved values are asked for.

T tokens   N entities   P properties of a class
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import accumulate
from types import MappingProxyType
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from kbdisk.completion.config import CompletionConfig
from kbdisk.completion.decide import Decider, by_precision, calibration_of, correctness_of
from kbdisk.completion.fields import Field, fields_of
from kbdisk.completion.gaps import Gap, gaps_of
from kbdisk.completion.predict import GapPredictor, Watch
from kbdisk.completion.predictions import Prediction
from kbdisk.completion.unique_pairs import UniquePairs
from kbdisk.data.dataset import CHUNK, Batch, packed
from kbdisk.data.encode import Encoding
from kbdisk.data.graph import Graph, pattern
from kbdisk.data.parse import Reading, read
from kbdisk.data.slots import Slot
from kbdisk.entity import Entity, Path
from kbdisk.evaluation.calibration import Calibration, Outcome
from kbdisk.evaluation.drift import Drift
from kbdisk.evaluation.intervals import Key, Rank, given_counts
from kbdisk.inspection import is_class
from kbdisk.metrics import Constants, label, members
from kbdisk.parallel import parallel_map, usable_processes
from kbdisk.rng import random_blocks
from kbdisk.schemas.composites.date import Date
from kbdisk.training.trained import Trained

PRESENCE_ALONE = "presence alone is asked for"
SORTED_QUESTIONS = 1024  # that are asked property by property
SORTED_IN_LITTLE_TIME = (
    128  # the same where a trial may end early: it has then asked a random sample, but for the rest of one block
)
MAX_QUESTIONS = 300  # about a property where its value is hidden, and as many where it lacks


class Question(NamedTuple):
    """An entity, and either a property of it that is hidden or the properties that it lacks."""

    entity: int
    hidden: Path | None
    gaps: tuple[Gap, ...]
    weight: float  # how many such questions it stands for
    along: frozenset[Path] = frozenset()  # properties that are hidden with it
    is_declared: bool = False  # the source says that the entity lacks the properties


def outcomes_of(
    trained: Trained,
    entities: Collection[Entity],
    graph: Graph | None = None,
    *,
    reserved: Mapping[str, Collection[int]] = MappingProxyType({}),
    seconds: float | None = None,
    seed: int = 0,
    watch: Watch | None = None,
) -> list[Outcome]:
    """The outcomes of the statements that completion would make about held-out entities."""
    begun = time.monotonic()
    trial = Trial(trained, entities, graph, reserved, seed)
    return list(trial.outcomes(None if seconds is None else seconds - (time.monotonic() - begun), watch))


class Trial:
    """The questions about some entities."""

    def __init__(
        self,
        trained: Trained,
        entities: Collection[Entity],
        graph: Graph | None,
        reserved: Mapping[str, Collection[int]],
        seed: int,
    ) -> None:
        self.trained, self.codec, self.reserved = trained, trained.codec, reserved
        self.random = random.Random(seed)
        self.config = CompletionConfig(fill="all", seed=seed)
        self.fields, self.decider = fields_of(self.codec, self.config), Decider(trained, self.config)
        self.readings = [reading for entity in entities if (reading := read(trained.schema, entity)) is not None]
        self.properties = [frozenset(self._properties_of(reading)) for reading in self.readings]
        # By the identity of a reading, as two entities may share an id:
        self._open_gaps: dict[int, list[Gap]] = {}
        self._hidden_gaps: dict[tuple[int, Path], tuple[Gap, ...]] = {}
        graph = Graph.read(trained.schema, entities) if graph is None else graph
        evidence = self.codec.evidence(graph) if self.codec.index.over else None
        encoding = Encoding(self.codec.index, self._asked_slots, evidence)
        for reading in self.readings:
            encoding.add(reading)
        self.tokens = encoding.tokens().to(trained.device)
        self.joint_missingness = self._joint_missingness()
        self.constants = Constants.from_json(trained.record.constants or {}).slots

    def outcomes(self, seconds: float | None, watch: Watch | None) -> Iterator[Outcome]:
        """The outcomes of all statements; of a random sample where the seconds do not suffice.

        Forked processes divide the batches of questions among themselves.
        """
        unique_pairs, trained = UniquePairs(self.codec, ()), self.trained.before_refit
        predictor = GapPredictor(trained, self.config, 1, unique_pairs, has_truth=True)
        presence_predictor = GapPredictor(trained, self.config, 1, unique_pairs, lambda gap, presence: PRESENCE_ALONE)
        begun, questions = time.monotonic(), list(self.questions())
        size = SORTED_QUESTIONS if seconds is None else SORTED_IN_LITTLE_TIME
        blocks = random_blocks(questions, size, self.random)
        questions = [question for block in blocks for question in sorted(block, key=_by_property)]
        outcomes_of_batch = partial(self._outcomes_of_batch, predictor, presence_predictor)
        processes = 1 if unique_pairs.partners else usable_processes(trained.device)  # no pair is filled twice
        done = 0
        for number_of_questions, outcomes in parallel_map(
            outcomes_of_batch, enumerate(self._batches(questions), 1), processes
        ):
            yield from outcomes
            done += number_of_questions
            if watch is not None:
                watch(done, len(questions))
            if seconds is not None and time.monotonic() - begun >= seconds:
                break

    def _batches(self, questions: Sequence[Question]) -> Iterator[Sequence[Question]]:
        """The questions of each batch."""
        sizes = self.tokens.sizes.tolist()
        ends = list(accumulate((sizes[question.entity] for question in questions), initial=0))
        return (questions[places.start : places.stop] for places in packed(ends, CHUNK))

    def _outcomes_of_batch(
        self, predictor: GapPredictor, presence_predictor: GapPredictor, numbered: tuple[int, Sequence[Question]]
    ) -> tuple[int, list[Outcome]]:
        """The number of questions of a batch, and the outcomes of the statements about them."""
        number, asked = numbered
        batch, ids = self._batch(asked), [self.readings[question.entity].id for question in asked]
        predicted = predictor.predict(batch, ids, [question.gaps for question in asked], number)
        self._ask_presence(presence_predictor, asked, predicted)
        outcomes = []
        for question, count, predictions in zip(asked, given_counts(batch, batch.known), predicted, strict=True):
            for prediction in predictions:
                *less_precise, statement = by_precision(prediction)
                outcomes += [self._outcome(question, part) for part in less_precise]
                outcomes.append(
                    self._outcome(question, statement)._replace(ranks=self._ranks(question, statement, count))
                )
        return len(asked), outcomes

    def _ask_presence(
        self, predictor: GapPredictor, questions: Sequence[Question], predicted: Sequence[Sequence[Prediction]]
    ) -> None:
        """Replace the presence in predictions by the one where no other property is hidden."""
        places = [place for place, question in enumerate(questions) if question.along]
        if not places:
            return
        alone = [questions[place]._replace(along=frozenset()) for place in places]
        ids = [self.readings[question.entity].id for question in alone]
        asked = predictor.predict(self._batch(alone), ids, [question.gaps for question in alone], 0)
        for place, alone_predictions in zip(places, asked, strict=True):
            for prediction, alone_prediction in zip(predicted[place], alone_predictions, strict=True):
                prediction.presence, prediction.presence_parts = (
                    alone_prediction.presence,
                    alone_prediction.presence_parts,
                )

    # ------------------------------------------------------------ questions

    def questions(self) -> Iterator[Question]:
        """A question for each hidden property of an entity, and one for all that it lacks; at most MAX_QUESTIONS a property."""
        hidden: dict[Key, list[tuple[int, Path, Field]]] = {}
        lacking: dict[Key, list[tuple[int, Gap]]] = {}
        held_out: dict[tuple[str, Key], HeldOut] = defaultdict(HeldOut)
        for number, reading in enumerate(self.readings):
            for path, field in self._known(reading):
                hidden.setdefault(self._key(field), []).append((number, path, field))
            if reading.id in self.reserved:
                continue
            for gap in self._gaps(reading):
                if not gap.parts:
                    lacking.setdefault(self._key(gap.field), []).append((number, gap))
            for path, field in self.fields[reading.class_name].fields.items():
                if not field.why_not and path == field.top:
                    share = 0.0 if field.lead is None else self._shares[reading.class_name].get(field.lead, 0.0)
                    held_out[reading.class_name, self._key(field)].add(share)
        by_entity: dict[tuple[int, float], list[Gap]] = {}
        for key in dict.fromkeys([*hidden, *lacking]):
            with_value, without_value = self._sample(hidden.get(key, [])), self._sample(lacking.get(key, []))
            count_hidden = Counter(self.readings[number].class_name for number, *_ in with_value)
            count_lacking = Counter(self.readings[number].class_name for number, _ in without_value)
            weight = {
                name: weights(
                    count_hidden[name], count_lacking[name], held_out[name, key].having, held_out[name, key].entities
                )
                for name in count_hidden | count_lacking
            }
            for number, path, field in with_value:
                if gaps := self._gaps_at(self.readings[number], path, field):
                    for_hidden, _ = weight[self.readings[number].class_name]
                    yield Question(number, path, gaps, for_hidden, self._along_with(number, path))
            for number, gap in without_value:
                _, for_lacking = weight[self.readings[number].class_name]
                by_entity.setdefault((number, for_lacking), []).append(gap)
        for (number, for_lacking), gaps_of_entity in by_entity.items():
            yield Question(number, None, tuple(gaps_of_entity), for_lacking)
        yield from self._declared_questions()

    def _declared_questions(self) -> Iterator[Question]:
        """The questions about properties that the source declares absent, as far as they would be filled."""
        declared: dict[Key, list[tuple[int, Gap]]] = {}
        for number, reading in enumerate(self.readings):
            if reading.id not in self.reserved:
                for gap in self._declared(reading):
                    declared.setdefault(self._key(gap.field), []).append((number, gap))
        by_entity: dict[int, list[Gap]] = defaultdict(list)
        for questions in declared.values():
            for number, gap in self._sample(questions):
                by_entity[number].append(gap)
        for number, gaps in by_entity.items():
            yield Question(number, None, tuple(gaps), 1.0, is_declared=True)

    def _declared(self, reading: Reading) -> Iterator[Gap]:
        """The gaps that an entity would have in properties that are declared absent."""
        fields = self.fields[reading.class_name].fields
        absent = {path for path in reading.absent if path in fields and not fields[path].why_not}
        if absent:
            undeclared = reading._replace(absent=[path for path in reading.absent if path not in absent])
            yield from (gap for gap in self._gaps_in(undeclared) if gap.path in absent and not gap.parts)

    def _joint_missingness(self) -> JointMissingness:
        properties = {
            name: [path for path, field in fields.fields.items() if path == field.top and not field.why_not]
            for name, fields in self.fields.items()
        }
        class_names = (reading.class_name for reading in self.readings)
        having = zip(class_names, self.properties, strict=True)
        return JointMissingness(having, properties)

    def _properties_of(self, reading: Reading) -> Iterator[Path]:
        property_of = self.fields[reading.class_name].property_of
        return (property_of[leaf_pattern] for path in reading.leaves if (leaf_pattern := pattern(path)) in property_of)

    def _along_with(self, number: int, path: Path) -> frozenset[Path]:
        """The properties of an entity that are hidden with a property, as a random entity without that property lacks them."""
        lacking = self.joint_missingness.drawn(self.readings[number].class_name, path, self.random)
        return (lacking & self.properties[number]) - {path}

    def _sample(self, questions: list[Any]) -> list[Any]:
        return questions if len(questions) <= MAX_QUESTIONS else self.random.sample(questions, MAX_QUESTIONS)

    @cached_property
    def _shares(self) -> Mapping[str, Mapping[Path, float]]:
        """The share of each class that has a value at a path, by its pattern; of the places of a list the largest share."""
        shares: dict[str, dict[Path, float]] = {}
        for class_name, table in self.codec.index.tables.items():
            of_class = shares[class_name] = {}
            for path, slot in table.slot.items():
                place = pattern(path)
                of_class[place] = max(of_class.get(place, 0.0), self.codec.index.fill(class_name, slot))
        return shares

    def _known(self, reading: Reading) -> Iterator[tuple[Path, Field]]:
        """The paths of the known values of fields, with the fields; of an entity trained on only the fully reserved ones."""
        fields, reserved = self.fields[reading.class_name], self.reserved.get(reading.id)
        slots: dict[Path, list[int]] = {}
        by_path: dict[Path, Field] = {}
        for spot in fields.spots:
            if spot.path not in reading.leaves:
                continue
            path = spot.path[: spot.length]
            by_path[path] = spot.field
            slots.setdefault(path, []).append(spot.slot)
        for path, field in by_path.items():
            beneath = slots[path]
            if field.is_list:
                beneath = [
                    slot for below_path, below in slots.items() if below_path[: len(path)] == path for slot in below
                ]
            if not field.why_not and (reserved is None or set(beneath) <= set(reserved)):
                yield path, field

    def _gaps(self, reading: Reading) -> list[Gap]:
        """The gaps of an entity."""
        if id(reading) not in self._open_gaps:
            self._open_gaps[id(reading)] = self._gaps_in(reading)
        return self._open_gaps[id(reading)]

    def _gaps_in(self, reading: Reading, only: Path | None = None) -> list[Gap]:
        class_name = reading.class_name
        return gaps_of(self.fields[class_name], reading, self.codec.index.tables[class_name], None, only)

    def _gaps_at(self, reading: Reading, path: Path, field: Field) -> tuple[Gap, ...]:
        """The gap that an entity would have if it had no value of a field at a path."""
        key = id(reading), path
        if key not in self._hidden_gaps:
            top, length = field.top, len(field.top)
            of_property = {leaf_path: leaf for leaf_path, leaf in reading.leaves.items() if leaf_path[:length] == top}
            opened = without(reading._replace(leaves=of_property), path)  # its own leaves alone tell what is open
            self._hidden_gaps[key] = tuple(gap for gap in self._gaps_in(opened, top) if gap.path == path)
        return self._hidden_gaps[key]

    def _key(self, field: Field) -> Key:
        return self.codec.learnt_as(field.class_name, field.lead or field.path)

    def _asked_slots(self, reading: Reading, table: Any) -> Iterator[int]:
        """The slots of the gaps of an entity, and those that its values lack."""
        if reading.id not in self.reserved:
            yield from (spot.slot for gap in self._gaps(reading) for spot in gap.spots)
            yield from (spot.slot for gap in self._declared(reading) for spot in gap.spots)
        for path, field in self._known(reading):
            spots = (spot for gap in self._gaps_at(reading, path, field) for spot in gap.spots)
            yield from (spot.slot for spot in spots if spot.path not in reading.leaves)

    # ------------------------------------------------------------ batches

    def _batch(self, questions: Sequence[Question]) -> Batch:
        """The questions as a batch, an entity for each. Hidden values are asked for, and values that depend on them are removed."""
        batch = self.tokens.batch(torch.tensor([question.entity for question in questions]))
        slots = len(self.tokens.layout.fixed)
        keys = batch.entity * slots + batch.slot  # (T,)
        wanted = [
            number * slots + spot.slot
            for number, question in enumerate(questions)
            for gap in question.gaps
            for spot in gap.spots
        ]
        asked = torch.isin(keys, torch.tensor(wanted, device=keys.device)) & ~batch.fixed
        hidden = asked & batch.known
        hidden_along = [
            number * slots + slot
            for number, question in enumerate(questions)
            for path in question.along
            for slot in self._slots_of(self.readings[question.entity].class_name, path)
        ]
        hidden |= torch.isin(keys, torch.tensor(hidden_along, device=keys.device)) & batch.known & ~batch.fixed
        visible = batch.seen(batch.known & ~hidden)
        return replace(batch, known=visible).only(visible | asked)

    def _slots_of(self, class_name: str, path: Path) -> Iterator[int]:
        table = self.codec.index.tables[class_name]
        return (table.slot[under] for under in table.under.get(path, ()))

    # ------------------------------------------------------------ outcomes

    def _outcome(self, question: Question, prediction: Prediction) -> Outcome:
        reading = self.readings[question.entity]
        key, correctness = self.decider.key(prediction), correctness_of(prediction)
        outcome = Outcome(
            key,
            prediction.presence,
            correctness,
            None,
            None,
            question.weight,
            reading.class_name,
            question.is_declared,
            presence_parts=prediction.presence_parts,
        )
        if question.hidden is None:
            return outcome
        known = {path: leaf for path, leaf in reading.leaves.items() if path[: len(question.hidden)] == question.hidden}
        truth = known
        if isinstance(prediction.gap.field.kind, Date) and not prediction.why_not:
            truth = {path: leaf for path, leaf in known.items() if path in prediction.leaves}
        constant = {path: self._constant(reading.class_name, path) for path in truth}
        return outcome._replace(
            right=self._right(reading.class_name, truth, prediction.leaves) if correctness is not None else 0.0,
            constant=self._right(reading.class_name, truth, constant),
        )

    def _ranks(self, question: Question, prediction: Prediction, given: int) -> tuple[Rank, ...]:
        """The ranks of the hidden numbers in their beliefs, for a statement with `given` given values."""
        reading = self.readings[question.entity]
        if question.hidden is None:
            return ()
        return tuple(
            Rank(
                self.codec.learnt_as(reading.class_name, path),
                answer.rank,
                given,
                question.weight,
                is_reserved=reading.id in self.reserved,
                is_in_list=prediction.gap.field.is_list,
            )
            for path, answer in prediction.answers.items()
            if answer.rank is not None and path in reading.leaves
        )

    def _constant(self, class_name: str, path: Path) -> Any:
        slot = self.codec.index.tables[class_name].slot.get(path)
        constant = None if slot is None else self.constants.get(slot)
        return None if constant is None else constant.value

    def _right(self, class_name: str, truth: Mapping[Path, Any], stated: Mapping[Path, Any]) -> float:
        """1 where all known leaves of the truth were stated so; of a set the share of the stated members that are right."""
        table, right = self.codec.index.tables[class_name], 1.0
        for path, value in truth.items():
            slot = table.slot.get(path)
            if slot is None:
                continue
            right *= rightness(self.codec.slots[slot], value, stated.get(path)) if path in stated else 0.0
        return right


def rightness(slot: Slot, truth: Any, stated: Any) -> float:
    """The score of a stated leaf, 0 to 1: a number within its tolerance, an equal label, the share of a set."""
    if stated is None:
        return 0.0
    if slot.kind == "number":
        tolerance = slot.codec.tolerances(np.array([float(stated)]))[0]
        return float(abs(float(truth) - float(stated)) <= tolerance * (1 + 1e-9))
    if slot.kind == "set":
        stated_members, true_members = members(stated), members(truth)
        if not stated_members:
            return float(not true_members)
        return len(stated_members & true_members) / len(stated_members)
    return float(label(truth) == label(stated))


def _by_property(question: Question) -> str:
    """The sort key by which questions about the same property come together, so that its experts are asked once for many."""
    return repr(question.hidden)


class HeldOut:
    """The number of held-out entities of a class that may have a property, and the expected number that have it."""

    def __init__(self) -> None:
        self.entities, self.having = 0, 0.0

    def add(self, share: float) -> None:
        """Count an entity of a class, a share of which has the property."""
        self.entities += 1
        self.having += share


def weights(hidden: int, lacking: int, having: float, held_out: int) -> tuple[float, float]:
    """Weights of a property's questions about hidden values and about lacking ones; their sum is their number.

    Reserved values add to the hidden ones alone, so that the weights restore the share of held-out entities, `having` of all,
    that have the property.
    """
    if not held_out or not hidden or not lacking:
        return 1.0, 1.0
    having = min(max(having, 0.5), held_out - 0.5)
    scale = (hidden + lacking) / held_out
    return scale * having / hidden, scale * (held_out - having) / lacking


def without(reading: Reading, property_path: Path) -> Reading:
    """A reading without one property."""
    return reading._replace(
        leaves={path: leaf for path, leaf in reading.leaves.items() if path[: len(property_path)] != property_path}
    )


# ---------------------------------------------------------------- entities unlike the training data
#
# Calibration on held-out entities holds for entities like them. A source with many unlike entities has known values of its own:
# those of a random sample are hidden, one property at a time, and filled, as in the trial after training. Correctness is
# calibrated on these outcomes, by logistic regression on the log odds of the confidence that the model has stated so far. So
# what a property loses by the shift is measured, and a property that loses nothing keeps its confidence. Entities that are
# unlike the training data have one calibration, and the others have another. Which one a hidden value counts for depends on
# what the entity is without that value.

MAX_COMPARED = 1000  # entities, a random sample
MIN_SHARE_UNLIKE = 0.05  # of the sample: with fewer unlike entities confidence is not calibrated once more
MAX_ASKED = 100  # unlike entities of the sample whose values are hidden, and as many others
MIN_OUTCOMES = 50  # for a calibration


class Calibrations(NamedTuple):
    """The calibration of confidence for entities like the training data, and that for the others."""

    like: Calibration
    unlike: Calibration


def calibrations_of(trained: Trained, entities: Iterable[Entity], config: CompletionConfig) -> Calibrations:
    """The model's calibration; where enough of the entities are unlike the training data, calibrated on their known values."""
    before = calibration_of(trained)
    unchanged = Calibrations(before, before)
    if not before.is_known:
        return unchanged
    drift = Drift(trained.schema, trained.codec, trained.record.unlike_level)
    groups: dict[bool, list[Entity]] = {False: [], True: []}
    for entity in (sample := _sample_of(trained, entities, config)):
        groups[_is_unlike(drift, read(trained.schema, entity))].append(entity)
    if not groups[True] or len(groups[True]) < MIN_SHARE_UNLIKE * len(sample):
        return unchanged
    graph = Graph.read(trained.schema, entities if trained.codec.index.over else ())
    learnt = {*trained.record.training, *trained.record.validation}
    new = [entity for entity in groups[False] if trained.schema.id_of(entity) not in learnt]
    asked = [*groups[True][:MAX_ASKED], *new[:MAX_ASKED]]
    calibrations = []
    for is_unlike in (False, True):
        trial = ShiftedTrial(replace(trained, experts_before_refit={}), asked, graph, config.seed, drift, is_unlike)
        outcomes = list(trial.outcomes(None, None))
        calibrations.append(before.adapted(outcomes) if len(outcomes) >= MIN_OUTCOMES else before)
    return Calibrations(*calibrations)


class ShiftedTrial(Trial):
    """The questions about entities that are unlike the training data, without what is hidden; or about those that are like it."""

    def __init__(
        self,
        trained: Trained,
        entities: Collection[Entity],
        graph: Graph,
        seed: int,
        drift: Drift,
        is_unlike: bool,
    ) -> None:
        super().__init__(trained, entities, graph, {}, seed)
        self.drift, self.is_unlike = drift, is_unlike

    def questions(self) -> Iterator[Question]:
        """The questions about the chosen entities."""
        for question in super().questions():
            reading = self.readings[question.entity]
            for path in (question.hidden, *question.along):
                reading = reading if path is None else without(reading, path)
            if _is_unlike(self.drift, reading) == self.is_unlike:
                yield question


def _is_unlike(drift: Drift, reading: Reading | None) -> bool:
    return reading is not None and bool(drift.unlike(reading.entity, reading))


def _sample_of(trained: Trained, entities: Iterable[Entity], config: CompletionConfig) -> Sequence[Entity]:
    """A random sample of the entities that are to be completed and whose class the model knows."""
    generator, sample, count = random.Random(config.seed), list[Entity](), 0
    for entity in entities:
        known = trained.schema.class_of(entity)
        names = () if known is None else (*entity.classes, known.name)
        if not names or (
            config.classes and not any(is_class(name, other) for name in names for other in config.classes)
        ):
            continue
        count += 1
        place = len(sample) if len(sample) < MAX_COMPARED else generator.randrange(count)
        if place < MAX_COMPARED:
            sample[place : place + 1] = [entity]
    generator.shuffle(sample)
    return sample


# ---------------------------------------------------------------- properties that lack together

Flags: TypeAlias = npt.NDArray[np.bool_]
MIN_DEVIATION = 3.0  # standard errors by which two properties lack together more often than by chance


class JointMissingness:
    """Properties that entities lack together: a city without a population lacks a census, too, more often than by chance.

    Two properties of a class lack together where, among the entities that lack the first, the second lacks more often than among
    those that have it, by `MIN_DEVIATION` standard errors.
    """

    def __init__(
        self, entities: Iterable[tuple[str, Collection[Path]]], properties: Mapping[str, Collection[Path]]
    ) -> None:
        """`entities` with their class and the properties that they have; `properties` by class."""
        having: dict[str, list[Collection[Path]]] = defaultdict(list)
        for class_name, known in entities:
            having[class_name].append(known)
        self._classes = {
            class_name: _ClassMissingness.of(known_properties, list(properties[class_name]))
            for class_name, known_properties in having.items()
        }

    def drawn(self, class_name: str, path: Path, generator: random.Random) -> frozenset[Path]:
        """The properties that a random entity without a property lacks with it; none where every entity has the property."""
        lacking = self._classes.get(class_name)
        return frozenset() if lacking is None else lacking.drawn(path, generator)


class _ClassMissingness:
    """The missing properties of the entities of a class, and which properties lack together."""

    def __init__(self, column: Mapping[Path, int], lacks: Flags, together: Flags) -> None:
        self.column, self.lacks, self.together = column, lacks, together  # (N, P), (P, P)
        self.paths = list(column)

    @classmethod
    def of(cls, entities: Sequence[Collection[Path]], paths: Sequence[Path]) -> Self:
        """By the properties that each entity has."""
        lacks = np.array([[path not in known for path in paths] for known in entities], dtype=bool)
        lacks = lacks.reshape(len(entities), len(paths))
        return cls({path: place for place, path in enumerate(paths)}, lacks, _together(lacks.astype(float)))

    def drawn(self, path: Path, generator: random.Random) -> frozenset[Path]:
        """The properties that a random entity without a property lacks with it."""
        place = self.column.get(path)
        if place is None or not self.together[place].any():
            return frozenset()
        row = generator.choice(np.flatnonzero(self.lacks[:, place]).tolist())
        return frozenset(
            self.paths[other_column] for other_column in np.flatnonzero(self.lacks[row] & self.together[place]).tolist()
        )


def _together(lacks: npt.NDArray[np.float64]) -> Flags:
    """(P, P) whether two properties lack together. The diagonal is false."""
    count = len(lacks)
    lacking = lacks.sum(0)  # (P,)
    having = count - lacking
    both_lacking = lacks.T @ lacks  # (P, P)
    with np.errstate(divide="ignore", invalid="ignore"):
        among_lacking, among_having = both_lacking / lacking[:, None], (lacking[None] - both_lacking) / having[:, None]
        share = lacking / count
        error = np.sqrt((share * (1 - share))[None] * (1 / lacking + 1 / having)[:, None])
        deviation = np.nan_to_num((among_lacking - among_having) / error, nan=0.0, posinf=0.0)
    np.fill_diagonal(deviation, 0.0)
    return np.asarray(deviation > MIN_DEVIATION)
