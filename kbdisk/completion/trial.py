"""A trial of completion: values of held-out entities are hidden and filled, and what the entities lack is filled, too.

Each statement is compared with what the entity has. The outcomes are what confidence is calibrated on. A question hides one
property of an entity, with everything that came over its links. It also hides properties that lack together with this one
more often than by chance: those that a randomly drawn entity of the class without this property lacks, too. So values are as
hard to predict as in gaps. Presence is asked for without hiding these: where a whole group lacks, such as the day, city and
country of a death, that is taken for a fact. All other values are given. What the source declares absent is asked for, too:
any statement about it is wrong. Of entities that the model was trained on only reserved values are asked for.

T tokens
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch

from kbdisk.completion.choices import Choices
from kbdisk.completion.decide import Decider, by_precision, correctness_of
from kbdisk.completion.fields import Field, fields_of
from kbdisk.completion.filling import Filler
from kbdisk.completion.gaps import Gap, gaps_of
from kbdisk.completion.keys import Keys
from kbdisk.completion.lacking import LackingTogether
from kbdisk.completion.predictions import Prediction
from kbdisk.data.batch import Batch
from kbdisk.data.dataset import CHUNK
from kbdisk.data.encode import Encoding
from kbdisk.data.graph import Graph, pattern
from kbdisk.data.parse import Reading, read
from kbdisk.data.slots import Slot
from kbdisk.entity import Entity, Path
from kbdisk.evaluation.calibration import Outcome
from kbdisk.evaluation.intervals import Key, Rank, given_counts
from kbdisk.metrics import Constants, label, members
from kbdisk.schemas.composites.date import Date
from kbdisk.training.trained import Trained

PRESENCE_ALONE = "presence alone is asked for"
BLOCK = 1024  # questions that are asked by property; a trial that ends early has asked whole blocks, drawn at random
MAX_QUESTIONS = 300  # about a property where its value is hidden, and as many where it lacks

Watch = Callable[[int, int], None]


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
    """What completion would state about held-out entities, and how right that would be."""
    trial = Trial(trained, entities, graph, reserved, seed)
    return list(trial.outcomes(seconds, watch))


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
        self.choices = Choices(fill="all", seed=seed)
        self.fields, self.decider = fields_of(self.codec, self.choices), Decider(trained, self.choices)
        self.readings = [reading for entity in entities if (reading := read(trained.schema, entity)) is not None]
        self._hidden_gaps: dict[tuple[str, Path], tuple[Gap, ...]] = {}
        graph = Graph.read(trained.schema, entities) if graph is None else graph
        evidence = self.codec.evidence(graph) if self.codec.index.over else None
        encoding = Encoding(self.codec.index, self._asked_slots, evidence)
        for reading in self.readings:
            encoding.add(reading)
        self.tokens = encoding.tokens().to(trained.device)
        self.lacking_together = self._lacking_together()
        self.constants = Constants.from_json(trained.record.constants or {}).slots

    def outcomes(self, seconds: float | None, watch: Watch | None) -> Iterator[Outcome]:
        """The outcome of every statement; of a random part of them where the seconds do not suffice."""
        keys = Keys(self.codec, ())
        filler = Filler(self.trained.as_judged, self.choices, 1, keys, has_truth=True)
        presence_filler = Filler(self.trained.as_judged, self.choices, 1, keys, lambda gap, presence: PRESENCE_ALONE)
        begun, questions = time.monotonic(), list(self.questions())
        self.random.shuffle(questions)
        questions = [
            one
            for start in range(0, len(questions), BLOCK)
            for one in sorted(questions[start : start + BLOCK], key=_by_property)
        ]
        sizes = self.tokens.sizes.tolist()
        done, number = 0, 0
        while done < len(questions) and (seconds is None or time.monotonic() - begun < seconds):
            end, room = done, CHUNK
            while end < len(questions) and (end == done or room >= sizes[questions[end].entity]):
                room -= sizes[questions[end].entity]
                end += 1
            some, number = questions[done:end], number + 1
            batch, ids = self._batch(some), [self.readings[one.entity].id for one in some]
            predicted = filler.fill(batch, ids, [one.gaps for one in some], number)
            self._ask_presence(presence_filler, some, predicted)
            counts = given_counts(batch, batch.known)
            for question, count, predictions in zip(some, counts, predicted, strict=True):
                for prediction in predictions:
                    *less_precise, statement = by_precision(prediction)
                    yield from (self._outcome(question, part) for part in less_precise)
                    yield self._outcome(question, statement)._replace(ranks=self._ranks(question, statement, count))
            done = end
            if watch is not None:
                watch(done, len(questions))

    def _ask_presence(
        self, filler: Filler, questions: Sequence[Question], predicted: Sequence[Sequence[Prediction]]
    ) -> None:
        """Replace the presence in predictions by that where nothing is hidden beside the property itself."""
        some = [place for place, question in enumerate(questions) if question.along]
        if not some:
            return
        alone = [questions[place]._replace(along=frozenset()) for place in some]
        ids = [self.readings[question.entity].id for question in alone]
        asked = filler.fill(self._batch(alone), ids, [question.gaps for question in alone], 0)
        for place, others in zip(some, asked, strict=True):
            for prediction, other in zip(predicted[place], others, strict=True):
                prediction.presence, prediction.presence_parts = other.presence, other.presence_parts

    # ------------------------------------------------------------ questions

    def questions(self) -> Iterator[Question]:
        """One for each hidden property of an entity, and one for all that an entity lacks; of each property so many at most."""
        hidden: dict[Key, list[tuple[int, Path]]] = {}
        lacking: dict[Key, list[tuple[int, Gap]]] = {}
        held_out: dict[tuple[str, Key], HeldOut] = defaultdict(HeldOut)
        for number, reading in enumerate(self.readings):
            for path, field in self._known(reading):
                hidden.setdefault(self._key(field), []).append((number, path))
            if reading.id in self.reserved:
                continue
            for gap in self._gaps(reading):
                if not gap.parts:
                    lacking.setdefault(self._key(gap.of), []).append((number, gap))
            for path, field in self.fields[reading.of].fields.items():
                if not field.held and path == field.top:
                    held_out[reading.of, self._key(field)].add(self._share(reading.of, field.lead))
        by_entity: dict[tuple[int, float], list[Gap]] = {}
        for key in dict.fromkeys([*hidden, *lacking]):
            with_value, without_value = self._some(hidden.get(key, [])), self._some(lacking.get(key, []))
            count_hidden = Counter(self.readings[number].of for number, _ in with_value)
            count_lacking = Counter(self.readings[number].of for number, _ in without_value)
            weight = {
                name: weights(
                    count_hidden[name], count_lacking[name], held_out[name, key].having, held_out[name, key].entities
                )
                for name in count_hidden | count_lacking
            }
            for number, path in with_value:
                if gaps := self._gaps_at(self.readings[number], path):
                    for_hidden, _ = weight[self.readings[number].of]
                    yield Question(number, path, gaps, for_hidden, self._along_with(number, path))
            for number, gap in without_value:
                _, for_lacking = weight[self.readings[number].of]
                by_entity.setdefault((number, for_lacking), []).append(gap)
        for (number, for_lacking), several in by_entity.items():
            yield Question(number, None, tuple(several), for_lacking)
        yield from self._declared_questions()

    def _declared_questions(self) -> Iterator[Question]:
        """What the source says that an entity lacks, as far as it would be filled."""
        declared: dict[Key, list[tuple[int, Gap]]] = {}
        for number, reading in enumerate(self.readings):
            if reading.id not in self.reserved:
                for gap in self._declared(reading):
                    declared.setdefault(self._key(gap.of), []).append((number, gap))
        by_entity: dict[int, list[Gap]] = defaultdict(list)
        for several in declared.values():
            for number, gap in self._some(several):
                by_entity[number].append(gap)
        for number, gaps in by_entity.items():
            yield Question(number, None, tuple(gaps), 1.0, is_declared=True)

    def _declared(self, reading: Reading) -> Iterator[Gap]:
        """The gaps that an entity would have if what it lacks by declaration were not declared."""
        fields = self.fields[reading.of].fields
        absent = {path for path in reading.none if path in fields and not fields[path].held}
        if absent:
            undeclared = reading._replace(none=[path for path in reading.none if path not in absent])
            yield from (gap for gap in self._gaps(undeclared) if gap.path in absent and not gap.parts)

    def _lacking_together(self) -> LackingTogether:
        properties = {
            name: [path for path, field in fields.fields.items() if path == field.top and not field.held]
            for name, fields in self.fields.items()
        }
        having = ((reading.of, frozenset(self._properties_of(reading))) for reading in self.readings)
        return LackingTogether(having, properties)

    def _properties_of(self, reading: Reading) -> Iterator[Path]:
        property = self.fields[reading.of].property
        return (property[at] for path in reading.leaves if (at := pattern(path)) in property)

    def _along_with(self, number: int, path: Path) -> frozenset[Path]:
        """The properties of an entity that lack together with what is hidden, as a random entity lacks them."""
        reading = self.readings[number]
        lacking = self.lacking_together.drawn(reading.of, path, self.random)
        return (lacking & frozenset(self._properties_of(reading))) - {path}

    def _some(self, all_of: list[Any]) -> list[Any]:
        return all_of if len(all_of) <= MAX_QUESTIONS else self.random.sample(all_of, MAX_QUESTIONS)

    def _share(self, of: str, path: Path) -> float:
        """The share of a class that has a value at a path; of a list's places the first."""
        slots = self.codec.index.tables[of].slot
        return max((self.codec.index.fill(of, slot) for at, slot in slots.items() if pattern(at) == path), default=0.0)

    def _known(self, reading: Reading) -> Iterator[tuple[Path, Field]]:
        """Where an entity has what is filled as one, and what that is; of a trained entity where all of it is reserved."""
        fields, reserved = self.fields[reading.of], self.reserved.get(reading.id)
        slots: dict[Path, list[int]] = {}
        found: dict[Path, Field] = {}
        for spot in fields.spots:
            if spot.path not in reading.leaves:
                continue
            path = spot.path[: spot.length]
            found[path] = spot.field
            slots.setdefault(path, []).append(spot.slot)
        for path, field in found.items():
            beneath = slots[path]
            if field.is_list:
                beneath = [slot for other, own in slots.items() if other[: len(path)] == path for slot in own]
            if not field.held and (reserved is None or set(beneath) <= set(reserved)):
                yield path, field

    def _gaps(self, reading: Reading) -> list[Gap]:
        return gaps_of(self.fields[reading.of], reading, self.codec.index.tables[reading.of], None)

    def _gaps_at(self, reading: Reading, path: Path) -> tuple[Gap, ...]:
        """The gap that an entity would have if what stands at a path lacked."""
        key = reading.id, path
        if key not in self._hidden_gaps:
            self._hidden_gaps[key] = tuple(gap for gap in self._gaps(without(reading, path)) if gap.path == path)
        return self._hidden_gaps[key]

    def _key(self, field: Field) -> Key:
        return self.codec.learnt_as(field.of, field.lead or field.path)

    def _asked_slots(self, reading: Reading, table: Any) -> Iterator[int]:
        """The slots of all that an entity lacks, and of the parts that its values lack."""
        if reading.id not in self.reserved:
            yield from (spot.slot for gap in self._gaps(reading) for spot in gap.spots)
            yield from (spot.slot for gap in self._declared(reading) for spot in gap.spots)
        for path, _ in self._known(reading):
            spots = (spot for gap in self._gaps_at(reading, path) for spot in gap.spots)
            yield from (spot.slot for spot in spots if spot.path not in reading.leaves)

    # ------------------------------------------------------------ batches

    def _batch(self, questions: Sequence[Question]) -> Batch:
        """The questions as a batch, an entity for each: what is hidden is asked for, and what would tell it is gone."""
        batch = self.tokens.batch(torch.tensor([one.entity for one in questions]))
        slots = len(self.tokens.layout.fixed)
        keys = batch.entity * slots + batch.slot  # (T,)
        wanted = [
            number * slots + spot.slot for number, one in enumerate(questions) for gap in one.gaps for spot in gap.spots
        ]
        asked = torch.isin(keys, torch.tensor(wanted, device=keys.device)) & ~batch.fixed
        hidden = asked & batch.known
        gone = [
            number * slots + slot
            for number, one in enumerate(questions)
            for path in one.along
            for slot in self._slots_of(self.readings[one.entity].of, path)
        ]
        hidden |= torch.isin(keys, torch.tensor(gone, device=keys.device)) & batch.known & ~batch.fixed
        visible = batch.seen(batch.known & ~hidden)
        return replace(batch, known=visible).only(visible | asked)

    def _slots_of(self, of: str, path: Path) -> Iterator[int]:
        table = self.codec.index.tables[of]
        return (table.slot[under] for under in table.under.get(path, ()))

    # ------------------------------------------------------------ outcomes

    def _outcome(self, question: Question, filling: Prediction) -> Outcome:
        reading = self.readings[question.entity]
        key, correctness = self.decider.key(filling), correctness_of(filling)
        outcome = Outcome(
            key,
            filling.presence,
            correctness,
            None,
            None,
            question.weight,
            reading.of,
            question.is_declared,
            presence_parts=filling.presence_parts,
        )
        if question.hidden is None:
            return outcome
        known = {path: leaf for path, leaf in reading.leaves.items() if path[: len(question.hidden)] == question.hidden}
        truth = known if filling.why_not else {path: leaf for path, leaf in known.items() if path in filling.leaves}
        truth = truth if isinstance(filling.gap.of.kind, Date) else known
        constant = {path: self._constant(reading.of, path) for path in truth}
        return outcome._replace(
            right=self._right(reading.of, truth, filling.leaves) if correctness is not None else 0.0,
            constant=self._right(reading.of, truth, constant),
        )

    def _ranks(self, question: Question, prediction: Prediction, given: int) -> tuple[Rank, ...]:
        """Where the hidden numbers that a statement is about lie in their beliefs, with so many values given."""
        reading = self.readings[question.entity]
        if question.hidden is None:
            return ()
        return tuple(
            Rank(
                self.codec.learnt_as(reading.of, path),
                answer.rank,
                given,
                question.weight,
                is_reserved=reading.id in self.reserved,
                is_in_list=prediction.gap.of.is_list,
            )
            for path, answer in prediction.answers.items()
            if answer.rank is not None and path in reading.leaves
        )

    def _constant(self, of: str, path: Path) -> Any:
        slot = self.codec.index.tables[of].slot.get(path)
        constant = None if slot is None else self.constants.get(slot)
        return None if constant is None else constant.value

    def _right(self, of: str, truth: Mapping[Path, Any], stated: Mapping[Path, Any]) -> float:
        """1 where all that is known of the truth was stated so; of a set the share of the stated members that are right."""
        table, right = self.codec.index.tables[of], 1.0
        for path, value in truth.items():
            slot = table.slot.get(path)
            if slot is None:
                continue
            right *= rightness(self.codec.slots[slot], value, stated.get(path)) if path in stated else 0.0
        return right


def rightness(slot: Slot, truth: Any, stated: Any) -> float:
    """How right a stated leaf is, 0 to 1: a number within its tolerance, a label that is the same, a share of a set."""
    if stated is None:
        return 0.0
    if slot.kind == "number":
        tolerance = slot.codec.tolerances(np.array([float(stated)]))[0]
        return float(abs(float(truth) - float(stated)) <= tolerance * (1 + 1e-9))
    if slot.kind == "set":
        said, true = members(stated), members(truth)
        return len(said & true) / len(said) if said else float(not true)
    return float(label(truth) == label(stated))


def _by_property(question: Question) -> str:
    """Questions about the same property come together, so that its experts are asked once for many."""
    return repr(question.hidden)


class HeldOut:
    """How many held-out entities of a class may have a property, and how many of them are expected to have it."""

    def __init__(self) -> None:
        self.entities, self.having = 0, 0.0

    def add(self, share: float) -> None:
        """One more entity, of a class of which a share has the property."""
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


def without(reading: Reading, top: Path) -> Reading:
    """What an entity says, but for one property."""
    return reading._replace(leaves={path: leaf for path, leaf in reading.leaves.items() if path[: len(top)] != top})
