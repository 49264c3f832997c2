"""Drift: how new data differ from the training data of a model, counted in one pass over the entities.

    unseen class      an entity of a class that the model does not know
    unknown property  a path that no training entity had, or of which the model has learnt nothing
    misfit            a value that the schema refuses, and that is left out
    unseen label      a label, a unit, a member of a set, or a linked entity that no training entity had
    outside range     a number far outside the training values, a list longer than any in training

Labels that hardly ever repeat, such as identifiers, are not compared: there a new label is to be expected.

An entity is unlike the training data where one of its values is too surprising. Each value beyond all training values has a
p-value: how likely the next value of the training distribution is to be as far beyond. The smallest, times the number of values
(Bonferroni), is compared with a level, which is chosen on held-out entities.

Memory is bounded: a row for each property and difference, with a count and a few examples. The network is not needed: the
codec, which the model folder keeps, knows the training values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from kbdisk.data import Codec
from kbdisk.data.graph import pattern
from kbdisk.data.parse import Reading, Unlearnt, read, read_all
from kbdisk.data.slots import Source, places_of
from kbdisk.entity import Entity, Path, show
from kbdisk.inspection import is_class, nearest
from kbdisk.leaves.base import OUTSIDE_RANGE, UNSEEN_LABEL, Comparing
from kbdisk.loaders.values.tagged_json import encode
from kbdisk.schemas.composites import show_pattern
from kbdisk.schemas.schema import Class, Misfit, Schema

UNSEEN_CLASS, UNKNOWN_PROPERTY, MISFIT = "unseen class", "unknown property", "misfit"
DIFFERENCES = (UNSEEN_CLASS, UNKNOWN_PROPERTY, MISFIT, UNSEEN_LABEL, OUTSIDE_RANGE)
MAX_EXAMPLES = 3  # different values of each row
MAX_ROWS = 1000
OTHER_PROPERTIES = "(others)"  # the path of the row that counts the differences beyond MAX_ROWS
RENAMED_SIMILARITY = 0.6  # from which on an unknown property may be an absent one, renamed
LEVEL = 0.01  # p-value of an entity, below which it is unlike the training data
MAX_FALSE_ALARMS = 0.02  # of the held-out entities: the share that may be below the level


class Example(NamedTuple):
    """A value that is unlike those of training, and the entity that has it."""

    id: str
    value: Any


@dataclass(slots=True)
class Row:
    """A difference of a property from the training data."""

    class_name: str
    path: str
    what: str  # one of DIFFERENCES
    count: int = 0  # values; of an unknown property and an unseen class, entities
    examples: list[Example] = field(default_factory=list)
    learnt: dict[str, Any] = field(default_factory=dict)  # a summary of the training values

    def to_json(self, total: int) -> dict[str, Any]:
        """The row as plain data; `total` is the number of values or entities that were compared."""
        return {
            "class": self.class_name,
            "path": self.path,
            "what": self.what,
            "count": self.count,
            "of": total,
            "examples": [{"id": example.id, "value": encode(example.value)} for example in self.examples],
            "learnt": self.learnt,
        }


class Drift:
    """The differences of entities from the training data of a model; without a codec, only the misfits of a schema."""

    def __init__(self, schema: Schema, codec: Codec | None = None, level: float | None = None) -> None:
        self.schema, self.codec, self.level = schema, codec, LEVEL if level is None else level
        self._rows: dict[tuple[str, str, str, str], Row] = {}  # by class, path, difference, the expectation of a misfit
        self.entities = 0
        self._of_class: Counter[str] = Counter()  # entities
        self._values: Counter[tuple[str, str]] = Counter()  # by class and path, of what the model knows
        self._unlearnt = Unlearnt(schema)
        self._places = places_of(schema)
        self._codecs: dict[Source, Comparing | None] = {}
        self._learnt: set[Source] = set()  # properties with a learnt leaf
        self._slots: dict[str, set[Path]] = {}
        slots = () if codec is None else codec.slots
        examples = {type(slot.codec): slot.codec for slot in slots}  # a protocol check for each slot would take seconds
        comparing = {type_ for type_, example in examples.items() if isinstance(example, Comparing)}
        for slot in slots:
            for class_name in codec.index.members(slot) if codec is not None and slot.role != "evidence" else ():
                source = Source(class_name, pattern(slot.path))
                is_unique = schema.classes[class_name].properties[self._places[source].property].unique
                self._codecs[source] = slot.codec if type(slot.codec) in comparing and not is_unique else None
                self._learnt.add(Source(class_name, self._places[source].property))
                self._slots.setdefault(class_name, set()).add(slot.path)
        classes_slot = None if codec is None else codec.index.classes_slot
        self._classes = None if codec is None or classes_slot is None else codec.slots[classes_slot].codec
        self._names = {source: show_pattern(source.path) for source in self._places}

    @classmethod
    def of(cls, codec: Codec, entities: Iterable[Entity], classes: Iterable[str] = ()) -> Self:
        """The drift of entities; where classes are named, only of their entities."""
        drift, wanted = cls(codec.schema, codec), tuple(classes)
        for entity in entities:
            learnt_class = codec.schema.class_of(entity) if wanted else None
            names = (*entity.classes, *([learnt_class.name] if learnt_class is not None else []))
            if not wanted or any(is_class(name, wanted_name) for name in names for wanted_name in wanted):
                drift.take(entity)
        return drift

    def take(self, entity: Entity, reading: Reading | None = None) -> None:
        """Count the differences of an entity; `reading` is its reading, if the caller has it."""
        entity_class = self.schema.class_of(entity)
        self.entities += 1
        if entity_class is None:
            if self.codec is not None:
                self._note(", ".join(entity.classes), "", UNSEEN_CLASS, entity, None)
            return
        self._of_class[entity_class.name] += 1
        if self.codec is not None:
            reading = reading or read(self.schema, entity)
            assert reading is not None
            self._compare(entity, reading)
            for path, value in self._unlearnt.of(entity_class, entity):
                if (entity_class.name, path) not in self.codec.unlearnt:
                    self._note(entity_class.name, show(path), UNKNOWN_PROPERTY, entity, value)
        if reading is None or reading.occupied:
            self._refused(entity_class, entity)

    def unlike(self, entity: Entity, reading: Reading | None) -> tuple[str, ...]:
        """The reasons why an entity is unlike the training data, in words; empty for an entity that is like them."""
        if reading is None:
            return () if self.codec is None else (" ".join(["unseen class", ", ".join(entity.classes)]).strip(),)
        p_values, count = self._p_values(reading)
        unlike = (reason for p_value, reason in sorted(p_values) if p_value * count < self.level)
        return tuple(dict.fromkeys(unlike))

    def p_value(self, reading: Reading) -> float:
        """The probability that the next entity of the training distribution has a value that is as surprising."""
        p_values, count = self._p_values(reading)
        return min(count * min((p_value for p_value, _ in p_values), default=1.0), 1.0)

    def _p_values(self, reading: Reading) -> tuple[list[tuple[float, str]], int]:
        """The p-values of the values beyond those of training, each with a reason in words, and the number of values compared."""
        p_values: list[tuple[float, str]] = []
        count = 0
        for path, value in reading.leaves.items():
            source = Source(reading.class_name, pattern(path))
            codec = self._codecs.get(source)
            if codec is not None:
                value_p_values = codec.p_values(value)
                count += len(value_p_values)
                name = self._names[source]
                p_values += [(p_value, _reason(name, codec, value)) for p_value in value_p_values if p_value < 1]
        if self._classes is not None:
            class_p_values = self._classes.labels.p_values(reading.classes)
            count += len(class_p_values)
            classes = zip(class_p_values, reading.classes, strict=True)
            p_values += [(p_value, f"unseen class {name}") for p_value, name in classes if p_value < 1]
        return p_values, count

    def rows(self) -> list[Row]:
        """All rows, sorted by class, by difference, and by frequency, the most frequent first."""
        classes = {name: place for place, name in enumerate(self.schema.classes)}
        rows = sorted(
            self._rows.values(),
            key=lambda row: (classes.get(row.class_name, -1), DIFFERENCES.index(row.what), -row.count, row.path),
        )
        for row in rows:
            if row.what == UNKNOWN_PROPERTY and row.class_name in self.schema.classes:
                near = nearest(row.path, self._absent(row.class_name), RENAMED_SIMILARITY)
                row.learnt = {} if near is None else {"near": near}
        return rows

    def __bool__(self) -> bool:
        return bool(self._rows)

    def to_json(self) -> list[dict[str, Any]]:
        """All rows as plain data."""
        return [row.to_json(self.total(row)) for row in self.rows()]

    def total(self, row: Row) -> int:
        """The number of values or entities that were compared: values of a known property, else entities."""
        if row.what == UNSEEN_CLASS:
            return self.entities
        values = self._values[row.class_name, row.path] if row.what in (UNSEEN_LABEL, OUTSIDE_RANGE) else 0
        return values or self._of_class[row.class_name]

    # ------------------------------------------------------------ comparing

    def _compare(self, entity: Entity, reading: Reading) -> None:
        """Compare every value of an entity with the training values of its property."""
        class_name, slots = reading.class_name, self._slots.get(reading.class_name, set())
        unknown: dict[str, Any] = {}
        longer: dict[Path, int] = {}
        for path, value in reading.leaves.items():
            source = Source(class_name, pattern(path))
            if source not in self._codecs:
                if source in self._places:
                    unknown.setdefault(self._unknown_name(source), value)
                continue
            name, codec = self._names[source], self._codecs[source]
            self._values[class_name, name] += len(value) if isinstance(value, list | tuple | set | frozenset) else 1
            if codec is not None:
                for unlike in codec.unlike(value):
                    self._note(class_name, name, codec.difference, entity, unlike, codec.learnt())
            if path not in slots:
                prefix_length = next(place for place, key in enumerate(path) if isinstance(key, int))
                longer[path[:prefix_length]] = max(longer.get(path[:prefix_length], 0), int(path[prefix_length]) + 1)
        for name, value in unknown.items():
            self._note(class_name, name, UNKNOWN_PROPERTY, entity, value)
        for path, length in longer.items():
            self._note(
                class_name, f"{show(path)}[]", OUTSIDE_RANGE, entity, length, {"items": self._longest(class_name, path)}
            )

    def _unknown_name(self, source: Source) -> str:
        """The shown name of a path without a training value: its property, if training had no value of the property."""
        property = Source(source.class_name, self._places[source].property)
        return self._names[source] if property in self._learnt else show(property.path)

    def _longest(self, class_name: str, path: Path) -> int:
        """The number of places of a list that the model knows."""
        length = len(path)
        places = (slot[length] for slot in self._slots[class_name] if slot[:length] == path and len(slot) > length)
        return max((place + 1 for place in places if isinstance(place, int)), default=0)

    def _refused(self, entity_class: Class, entity: Entity) -> None:
        """Count the values that the schema refuses, except those of ignored properties."""
        misfits: list[Misfit] = []
        for _ in self.schema.applied(entity_class, entity, misfits):
            pass
        for misfit in misfits:
            if entity_class.properties[misfit.path].role != "ignore":
                expected, _, got = misfit.problem.partition(", got ")
                learnt = {"schema": expected.removeprefix("expected ")}
                self._note(entity_class.name, show_pattern(pattern(misfit.path)), MISFIT, entity, got, learnt)

    def _note(
        self,
        class_name: str,
        path: str,
        difference: str,
        entity: Entity,
        value: Any,
        learnt: dict[str, Any] | None = None,
    ) -> None:
        key = (class_name, path, difference, str(learnt) if difference == MISFIT else "")
        if key not in self._rows and len(self._rows) >= MAX_ROWS:
            key, learnt = ("", OTHER_PROPERTIES, difference, ""), None
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = Row(*key[:3], learnt=learnt or {})
        row.count += 1
        if len(row.examples) < MAX_EXAMPLES and not any(_same(example.value, value) for example in row.examples):
            row.examples.append(Example(entity.id, value))

    def _absent(self, class_name: str) -> Iterator[str]:
        """The properties of a class without any value that the model knows."""
        known = {
            self._places[source].property
            for source in self._places
            if source.class_name == class_name and self._values[class_name, self._names[source]]
        }
        return (
            show(path)
            for path, property in self.schema.classes[class_name].properties.items()
            if path not in known and property.role != "ignore"
        )


def level_of(schema: Schema, codec: Codec, held_out: Iterable[Entity]) -> float:
    """The level below which at most one in fifty held-out entities is unlike the training data; one of fewer than a hundred."""
    drift = Drift(schema, codec)
    p_values = sorted(drift.p_value(reading) for reading in read_all(schema, held_out))
    allowed = max(int(MAX_FALSE_ALARMS * len(p_values)), 1)
    return min(LEVEL, p_values[allowed]) if allowed < len(p_values) else LEVEL


def _reason(name: str, codec: Comparing, value: Any) -> str:
    """The reason why a value is unlike those of training, in words."""
    match codec.learnt():
        case {"range": [low, high]}:
            return f"{name} above {high:.15g}" if value > high else f"{name} below {low:.15g}"
    return f"unseen {name}"


def _same(first: Any, second: Any) -> bool:
    return first is not None and type(first) is type(second) and bool(first == second)
