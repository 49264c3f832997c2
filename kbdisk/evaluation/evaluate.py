"""Property prediction, as in the paper: known values are hidden in turn, predicted from all else that their entity has, and scored.

Whatever would give a value away is hidden with it: for the length of a list its places, and for a link what came over it. Values that have no
code, such as labels that a schema does not allow, count as wrong predictions of the model and of the constant.

B questions of a batch   S slots   T tokens of a batch
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor

from kbdisk.data import Codec
from kbdisk.data.dataset import CHUNK, Batch, Tokens, packed
from kbdisk.data.graph import Graph, pattern
from kbdisk.data.parse import Reading, read
from kbdisk.data.slots import counts_of
from kbdisk.entity import Entity, Path, without_places
from kbdisk.errors import SchemaError
from kbdisk.evaluation.intervals import Levels
from kbdisk.metrics import Case, Constants, Marginals, collect_cases, property_of, score_rows
from kbdisk.model.diffusion import Model
from kbdisk.model.masking import shuffled
from kbdisk.parallel import parallel_map, usable_processes
from kbdisk.rng import random_blocks
from kbdisk.schemas.composites import show_pattern
from kbdisk.schemas.schema import Misfit
from kbdisk.schemas.text.names import did_you_mean
from kbdisk.training.trained import Trained

QUESTIONS_PER_BLOCK = 1024  # that are sorted by property, where the time is limited
ACCELERATOR_FACTOR = 16  # times as many tokens in a pass where there is an accelerator

Value: TypeAlias = tuple[int, int]  # the number of an entity, and a slot
Property: TypeAlias = tuple[str, Path]
Progress: TypeAlias = Callable[[int, int], None]  # how many questions are answered, of how many


def evaluate(
    trained: Trained,
    entities: Collection[Entity],
    graph: Graph | None = None,
    scope: Scope | None = None,
    *,
    given: float | None = None,
    against: Comparison | None = None,
    watch: Progress | None = None,
    reserved: Mapping[str, Collection[int]] = MappingProxyType({}),
    seconds: float | None = None,
) -> list[dict[str, Any]]:
    """A row of scores for each property, in the schema's order: see `metrics`.

    The graph is what links bring; without one, what these entities know of each other. `given` is the share of its other
    properties, drawn at random, that an entity shows at most. The baselines of `against` answer the same questions, and their
    scores stand under `against` in a row. For entities that the model was trained on only their `reserved` slots are asked for.
    Where the `seconds` end earlier, a random part of the values is asked for.
    """
    begun = time.monotonic()
    evaluation = Evaluation.of(trained, entities, graph, scope or Scope(), reserved)
    seconds = None if seconds is None else seconds - (time.monotonic() - begun)
    rows = evaluation.rows(list(evaluation.cases(given, watch, seconds)))
    return rows if against is None else against.add_scores(evaluation, rows, given)


@dataclass(frozen=True)
class Scope:
    """The selection of values that are asked for."""

    only: tuple[Path, ...] = ()  # those at these paths or below
    classes: tuple[str, ...] = ()
    limit: int = 1000  # of each property, at most
    texts: int = 200  # of a text, at most: predicting one takes long
    texts_in_all: int | None = None  # of all properties together
    whole: bool = False  # the parts of a composite are hidden at once
    seed: int = 0  # of the sample where there are more values, and of what is given in a curve

    def __post_init__(self) -> None:
        for name in ("limit", "texts", "texts_in_all"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"expected at least 1 for {name}, got {getattr(self, name)}")


class Comparison(Protocol):
    """Baselines that answer the same questions, such as `compare.FittedBaselines`."""

    def add_scores(
        self, evaluation: Evaluation, rows: Sequence[dict[str, Any]], given: float | None = None
    ) -> list[dict[str, Any]]:
        """Rows with the scores of each baseline."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A model, and the questions that it answers."""

    trained: Trained
    readings: Sequence[Reading]
    tokens: Tokens
    chosen: ChosenValues
    scope: Scope

    @classmethod
    def of(
        cls,
        trained: Trained,
        entities: Collection[Entity],
        graph: Graph | None,
        scope: Scope,
        reserved: Mapping[str, Collection[int]] = MappingProxyType({}),
    ) -> Evaluation:
        """Encode the entities that the schema has a class for, and choose among their values.

        For an entity, by its id, that the model was trained on, only the slots whose values were `reserved` are asked for.
        """
        trained.warn_of_order(": what comes after a value is not given with it.", stacklevel=4)
        codec, schema = trained.codec, trained.schema
        slots = askable_slots(codec, scope.only, scope.classes)
        known = [(entity, reading) for entity in entities if (reading := read(schema, entity)) is not None]
        graph = Graph.read(schema, entities) if graph is None else graph
        tokens = trained.encode((entity for entity, _ in known), graph=graph)
        readings = [reading for _, reading in known]
        misfits = [
            (number, slot)
            for number, (entity, reading) in enumerate(known)
            for slot in _misfit_slots(codec, entity, reading)
        ]
        limits = {
            slot.kind: min(scope.texts, scope.limit) if slot.kind == "text" else scope.limit for slot in codec.slots
        }
        chosen = choose_values(
            codec, tokens, readings, misfits, slots, limits, scope.texts_in_all, scope.seed, reserved
        )
        return cls(trained, readings, tokens, chosen, scope)

    @cached_property
    def questions(self) -> list[Question]:
        """All questions."""
        return make_questions(self.trained.codec, self.chosen.values, whole=self.scope.whole)

    @cached_property
    def constants(self) -> Constants:
        """The constants of the training data."""
        return Constants.from_json(self.trained.record.constants)

    @cached_property
    def levels(self) -> Levels:
        """The levels of the intervals of numbers; the stated ones where nothing is calibrated yet."""
        calibration = self.trained.record.calibration
        return Levels.from_json(calibration["levels"]) if calibration else Levels()

    def cases(
        self, given: float | None = None, watch: Progress | None = None, seconds: float | None = None
    ) -> Iterator[Case]:
        """The model's predictions, given all other values or a share of them; a random part where the seconds end earlier.

        Forked processes divide the batches of questions among themselves.
        """
        answer = partial(self._answered, self.trained.held_out_model, Marginals(self.trained.codec), given)
        numbered = enumerate(self._divided(in_blocks=seconds is not None))
        begun, done = time.monotonic(), 0
        for number_of_questions, cases in parallel_map(answer, numbered, usable_processes(self.trained.device)):
            yield from cases
            done += number_of_questions
            if watch is not None:
                watch(done, len(self.questions))
            if seconds is not None and time.monotonic() - begun > seconds:
                break
        yield from self.unread(done / len(self.questions) if self.questions else 1.0)

    @torch.no_grad()
    def _answered(
        self, model: Model, marginals: Marginals, given: float | None, numbered: tuple[int, Sequence[Question]]
    ) -> tuple[int, list[Case]]:
        """The number of questions of a batch, and their cases."""
        codec, (posed, visible) = self.trained.codec, self._posed(given, *numbered)
        level = partial(self.levels.of_tokens, codec, posed.batch, visible)
        predicted = model(posed.batch, posed.batch.seen(visible), posed.asked)
        cases = collect_cases(codec, marginals, posed.batch, predicted, level)
        return len(posed.questions), [self._with_truth(posed, case) for case in cases]

    def batches(self, given: float | None = None) -> Iterator[tuple[QuestionBatch, Tensor]]:
        """The questions in batches, each with what is visible (T,)."""
        for number, questions in enumerate(self._divided()):
            yield self._posed(given, number, questions)

    def _posed(self, given: float | None, number: int, questions: Sequence[Question]) -> tuple[QuestionBatch, Tensor]:
        """A batch of some questions, with what is visible (T,)."""
        posed = question_batch(self.tokens, questions)
        order = self.tokens.layout.order if self.trained.only_draws else None
        return posed, posed.visible(given, self.scope.seed * 1_000_003 + number, order)

    def _divided(self, *, in_blocks: bool = False) -> Iterator[Sequence[Question]]:
        """The questions of each batch; with `in_blocks` any first ones are a random sample."""
        size = CHUNK if self.trained.device.type == "cpu" else CHUNK * ACCELERATOR_FACTOR
        blocks = [self.questions]
        if in_blocks:
            blocks = random_blocks(self.questions, QUESTIONS_PER_BLOCK, random.Random(self.scope.seed))
        return (questions for block in blocks for questions in divided_questions(self.tokens, block, size))

    def unread(self, share: float = 1.0) -> Iterator[Case]:
        """The values that have no code, or a share of them, and cannot be asked for: no prediction of them is right."""
        unread = self.chosen.unread
        if share < 1:
            unread = random.Random(self.scope.seed).sample(unread, round(share * len(unread)))
        return (Case(entity, slot, self.value(entity, slot), None) for entity, slot in unread)

    def _with_truth(self, posed: QuestionBatch, case: Case) -> Case:
        """A case with the value as the entity has it, which a code may not have to the last digit."""
        entity = posed.questions[case.entity].entity
        return replace(case, entity=entity, truth=self.value(entity, case.slot))

    def value(self, entity: int, slot: int) -> Any:
        """A leaf as an entity has it."""
        return self.readings[entity].leaves.get(self.trained.codec.slots[slot].path)

    def rows(self, cases: Collection[Case]) -> list[dict[str, Any]]:
        """The scores of each property, and how many values it had to choose from."""
        totals = {(class_name, show_pattern(path)): total for (class_name, path), total in self.chosen.totals.items()}
        rows = score_rows(self.trained.codec, self.constants, cases)
        return [row | {"of": totals[row["class"], row["path"]]} for row in rows]


def _misfit_slots(codec: Codec, entity: Entity, reading: Reading) -> Iterator[int]:
    """The slots with values that do not fit the schema: for a composite its parts, for a list its length."""
    if reading.occupied:
        misfits: list[Misfit] = []
        for _ in codec.schema.applied(codec.schema.classes[reading.class_name], entity, misfits):
            pass
        table = codec.index.tables[reading.class_name]
        for misfit in misfits:
            paths = (path for path in table.under.get(misfit.path, ()) if without_places(path) == path)
            yield from (table.slot[path] for path in paths)


# ---------------------------------------------------------------- the values asked for


@dataclass(frozen=True)
class ChosenValues:
    """The values that are asked for, and how many there were to choose from."""

    values: Sequence[Value]
    unread: Sequence[Value]  # those that have no code and cannot be asked for
    totals: Mapping[Property, int]


def askable_slots(codec: Codec, only: Collection[Path] = (), classes: Collection[str] = ()) -> set[int]:
    """The slots that may be asked for: those at some paths or below, of some classes. SchemaError where there is none."""
    slots = {number: slot for number, slot in enumerate(codec.slots) if slot.role == "value"}
    class_slots = {number for name in classes for number in codec.index.tables[_class_named(codec, name)].slot.values()}
    for path in only:
        if not any(_is_at_or_below(slot.path, path) for slot in slots.values()):
            names = {show_pattern(pattern(slot.path)) for slot in slots.values()}
            name = show_pattern(path)
            raise SchemaError(name, f"expected a path that the model predicts, got another.{did_you_mean(name, names)}")
    return {
        number
        for number, slot in slots.items()
        if (not class_slots or number in class_slots)
        and (not only or any(_is_at_or_below(slot.path, path) for path in only))
    }


def _class_named(codec: Codec, name: str) -> str:
    """A class of the schema by its name, its IRI, or the last word of its IRI."""
    named = codec.schema.class_of(Entity(name, classes=(name,)))
    if named is None or (named.name != name and not named.iri and not named.name):
        known = [known_name for known_name in codec.schema.classes if known_name]
        expected = f"one of {', '.join(known)}" if known else "none, as the model's schema names no class"
        raise SchemaError(name, f"expected {expected}.{did_you_mean(name, known)}")
    return named.name


def _is_at_or_below(path: Path, wanted: Path) -> bool:
    """Whether a path is at another, which may name any place of a list, or below it."""
    return wanted in (path[: len(wanted)], pattern(path)[: len(wanted)])


def choose_values(
    codec: Codec,
    tokens: Tokens,
    readings: Sequence[Reading],
    misfits: Collection[Value],
    slots: Collection[int],
    limits: Mapping[str, int],
    texts_in_all: int | None,
    seed: int,
    reserved: Mapping[str, Collection[int]],
) -> ChosenValues:
    """A sample of the known values and the misfits of each property, limited by its kind.

    The texts of all properties together are limited, too. For an entity with `reserved` slots only these are chosen.
    """
    free = tokens.free.cpu()
    owner = tokens.owner.cpu()
    coded = set(zip(owner[free].tolist(), tokens.slot.cpu()[free].tolist(), strict=True))
    unread = {*misfits, *(_all_values(codec, readings) if tokens.unread else ())} - coded
    by_property: dict[Property, list[Value]] = {}
    for value in sorted(coded | unread):
        if value[1] in slots and value[1] in reserved.get(readings[value[0]].id, slots):
            by_property.setdefault(property_of(codec.slots[value[1]]), []).append(value)
    sampled: list[Value] = []
    for key, values in by_property.items():
        limit = limits[codec.slots[values[0][1]].kind]
        sampled.extend(values if len(values) <= limit else random.Random(f"{seed} {key}").sample(values, limit))
    texts = [value for value in sampled if codec.slots[value[1]].kind == "text"]
    if texts_in_all is not None and len(texts) > texts_in_all:
        dropped = set(random.Random(seed).sample(texts, len(texts) - texts_in_all))
        sampled = [value for value in sampled if value not in dropped]
    totals = {key: len(values) for key, values in by_property.items()}
    return ChosenValues(
        [value for value in sampled if value in coded], [value for value in sampled if value in unread], totals
    )


def _all_values(codec: Codec, readings: Sequence[Reading]) -> Iterator[Value]:
    """Every value that entities have, with a code or without."""
    for entity, reading in enumerate(readings):
        for path in reading.leaves:
            slot = codec.slot(reading.class_name, path)
            if slot is not None:
                yield entity, slot


# ---------------------------------------------------------------- questions


@dataclass(frozen=True)
class Question:
    """Some values of one entity that are hidden at once, and those of them that are asked for."""

    entity: int
    hidden: tuple[int, ...]  # slots
    asked: tuple[int, ...]  # slots


@dataclass(frozen=True)
class QuestionBatch:
    """Some questions as a batch, a question for each of its entities."""

    questions: Sequence[Question]
    batch: Batch
    hidden: Tensor  # (T,)
    asked: Tensor  # (T,)

    def visible(self, given: float | None = None, seed: int = 0, order: Tensor | None = None) -> Tensor:
        """(T,) all that is not hidden, or a random share of what may be hidden at all. A larger share contains a smaller one.

        With the `order` (S,) of slots nothing that comes after what is hidden.
        """
        visible = self.batch.known & ~self.hidden
        if order is not None:
            place = order[self.batch.slot]
            first_hidden = torch.full_like(self.batch.classes, len(order))
            first_hidden.scatter_reduce_(0, self.batch.entity[self.hidden], place[self.hidden], "amin")
            visible &= self.batch.fixed | (place < first_hidden[self.batch.entity])
        if given is None:
            return visible
        other_visible = visible & ~self.batch.fixed
        generator = torch.Generator(other_visible.device).manual_seed(seed)
        place, count = shuffled(self.batch, other_visible, generator)
        shown = (given * count).round().long()  # (B,)
        return visible & (self.batch.fixed | (place < shown[self.batch.entity]))


def make_questions(codec: Codec, values: Collection[Value], *, whole: bool = False) -> list[Question]:
    """A question for each value; with `whole` for each composite, all parts of which are hidden at once."""
    hidden = hidden_with(codec, whole)
    asked: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for entity, slot in sorted(values):
        asked.setdefault((entity, hidden[slot]), []).append(slot)
    return [Question(entity, slots, tuple(asked_slots)) for (entity, slots), asked_slots in asked.items()]


def hidden_with(codec: Codec, whole: bool) -> list[tuple[int, ...]]:
    """(S) the slots that are hidden with each slot, itself included."""
    units: dict[int, list[int]] = {}
    places: dict[Property, list[int]] = {}  # by the path of the length of their list
    for number, slot in enumerate(codec.slots):
        units.setdefault(slot.unit, []).append(number)
        for count, _ in counts_of(slot.path):
            places.setdefault((slot.class_name, count), []).append(number)
    if whole:
        return [tuple(units[slot.unit]) for slot in codec.slots]
    return [(number, *places.get((slot.class_name, slot.path), ())) for number, slot in enumerate(codec.slots)]


def divided_questions(tokens: Tokens, questions: Sequence[Question], size: int = CHUNK) -> Iterator[Sequence[Question]]:
    """The questions of batches of some `size` tokens. Those about one property are together, so that its experts run once.

    Among these, questions about small entities come first.
    """
    sizes = tokens.sizes.tolist()
    order = sorted(questions, key=lambda question: (question.hidden, sizes[question.entity]))
    ends = list(accumulate((sizes[question.entity] for question in order), initial=0))
    return (order[places.start : places.stop] for places in packed(ends, size))


def question_batch(tokens: Tokens, questions: Sequence[Question]) -> QuestionBatch:
    """A batch with an entity for each question."""
    batch = tokens.batch(torch.tensor([question.entity for question in questions]))
    slots = len(tokens.layout.fixed)
    keys = batch.entity * slots + batch.slot  # (T,)

    def are_in(slots_of_questions: Sequence[tuple[int, ...]]) -> Tensor:
        wanted = [
            number * slots + slot
            for number, slots_of_question in enumerate(slots_of_questions)
            for slot in slots_of_question
        ]
        return torch.isin(keys, torch.tensor(wanted, device=keys.device)) & batch.known & ~batch.fixed

    hidden = are_in([question.hidden for question in questions])
    return QuestionBatch(questions, batch, hidden, are_in([question.asked for question in questions]))


# ---------------------------------------------------------------- the parts of a source, and the summary


@dataclass(frozen=True)
class SourcePartition:
    """The entities of a source by their part in the training of a model."""

    held_out: list[Entity]
    trained_on: list[Entity]
    new: list[Entity]  # in neither part of the training data
    without_class: list[Entity]  # the schema has no class for them
    is_sampled: bool = (
        False  # whether the model learnt from a sample of this source, whose other entities are among the new
    )

    @classmethod
    def of(cls, trained: Trained, entities: Collection[Entity], is_same_source: bool = True) -> SourcePartition:
        """Sort entities by their ids, as the model's record has them.

        In another source than that of the model, an id that is only a place in the source means nothing.
        """
        schema, record = trained.schema, trained.record
        held_out, known = set(record.validation), set(record.training)
        partition = cls([], [], [], [], is_same_source and "left_out" in record.facts)
        for entity in entities:
            if schema.class_of(entity) is None:
                partition.without_class.append(entity)
                continue
            id = schema.id_of(entity)
            if not is_same_source and entity.nameless and id == entity.id:
                partition.new.append(entity)
            elif id in held_out:
                partition.held_out.append(entity)
            else:
                (partition.trained_on if id in known else partition.new).append(entity)
        return partition

    @property
    def compared(self) -> list[Entity]:
        """The entities that may be unlike the training data: the `fair` ones, and those of no known class."""
        return [*self.fair, *self.without_class]

    @property
    def fair(self) -> list[Entity]:
        """The entities that the model was not trained on; all entities if it was trained on all.

        Of a source that the model learnt a sample of, only the held-out entities.
        """
        if self.is_sampled and self.held_out:
            return self.held_out
        return [*self.held_out, *self.new] or self.trained_on


@dataclass(frozen=True)
class Summary:
    """All rows in one line."""

    properties: int  # on which the constant makes errors
    better: int  # of them those on which the model beats it
    ratio: float | None  # the mean of ours / constant
    nats: float | None  # how many fewer nats a value costs than by the marginal distribution, on average


def summary(rows: Collection[dict[str, Any]]) -> Summary:
    """The summary of the scores of all properties."""
    scored = [row for row in rows if row["better"] is not None]
    gains = [(row["constant_nats"] - row["nats"], row["n"]) for row in rows if row["nats"] is not None]
    values = sum(n for _, n in gains)
    return Summary(
        properties=len(scored),
        better=sum(row["better"] > 0 for row in scored),
        ratio=sum(1 - row["better"] for row in scored) / len(scored) if scored else None,
        nats=sum(gain * n for gain, n in gains) / values if values else None,
    )
