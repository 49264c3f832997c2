"""Drift: in which ways new data are unlike those that a model learnt from, counted in one pass over the entities.

    unseen class      an entity of a class that the model does not know
    unknown property  a path that no training entity had, or of which the model has learnt nothing
    misfit            a value that the schema refuses: it is left out
    unseen label      a label, a unit, a member of a set, an entity linked to that no training entity had
    outside range     a number far outside the training values, a list longer than any in training

Labels that hardly ever repeat, such as identifiers, are not compared: there a new label is to be expected.

An entity is unlike the training data where one of its values is too surprising. Each value beyond all training values has a
p-value: how likely the next value of the training distribution is to be as far beyond. The smallest, times the number of values
(Bonferroni), is compared with a level, which is chosen on held-out entities.

Memory is bounded: a row for each property and way, with a count and a few examples. The network is not needed: the codec,
which the model folder keeps, knows the training values.
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
WAYS = (UNSEEN_CLASS, UNKNOWN_PROPERTY, MISFIT, UNSEEN_LABEL, OUTSIDE_RANGE)
MAX_EXAMPLES = 3  # different values of each row
MAX_ROWS = 1000
OTHERS = "(others)"  # stands for the properties beyond that
RENAMED_SIMILARITY = 0.6  # of an unknown and an absent property, from which on one may be the other, renamed
LEVEL = 0.01  # p-value of an entity, below which it is unlike the training data
MAX_FALSE_ALARMS = 0.02  # of the held-out entities: the share that may be below the level


class Example(NamedTuple):
    """A value that is unlike those of training, and the entity that has it."""

    id: str
    value: Any


@dataclass(slots=True)
class Row:
    """One way in which one property is unlike what the model learnt from."""

    of: str  # the class
    path: str
    what: str  # one of WAYS
    count: int = 0  # values; of an unknown property and an unseen class, entities
    examples: list[Example] = field(default_factory=list)
    learnt: dict[str, Any] = field(default_factory=dict)  # what training had instead

    def to_json(self, total: int) -> dict[str, Any]:
        """Itself as plain data, with how many there were to compare."""
        return {
            "class": self.of,
            "path": self.path,
            "what": self.what,
            "count": self.count,
            "of": total,
            "examples": [{"id": example.id, "value": encode(example.value)} for example in self.examples],
            "learnt": self.learnt,
        }


class Drift:
    """How some entities differ from those that a model learnt from; without a codec, what a schema refuses in them."""

    def __init__(self, schema: Schema, codec: Codec | None = None, level: float | None = None) -> None:
        self.schema, self.codec, self.level = schema, codec, LEVEL if level is None else level
        self._rows: dict[tuple[str, str, str, str], Row] = {}  # by class, path, way; of a misfit what was expected
        self.entities = 0
        self._of_class: Counter[str] = Counter()  # entities
        self._values: Counter[tuple[str, str]] = Counter()  # by class and path, of what the model knows
        self._unlearnt = Unlearnt(schema)
        self._places = places_of(schema)
        self._codecs: dict[Source, Comparing | None] = {}
        self._learnt: set[Source] = set()  # properties of which something was learnt
        self._slots: dict[str, set[Path]] = {}
        for slot in codec.slots if codec is not None else ():
            for of in codec.index.members(slot) if codec is not None and slot.role != "evidence" else ():
                source = Source(of, pattern(slot.path))
                is_unique = schema.classes[of].properties[self._places[source].property].unique
                self._codecs[source] = slot.codec if isinstance(slot.codec, Comparing) and not is_unique else None
                self._learnt.add(Source(of, self._places[source].property))
                self._slots.setdefault(of, set()).add(slot.path)
        classes_slot = None if codec is None else codec.index.classes_slot
        self._classes = None if codec is None or classes_slot is None else codec.slots[classes_slot].codec
        self._names = {source: show_pattern(source.path) for source in self._places}

    @classmethod
    def of(cls, codec: Codec, entities: Iterable[Entity], classes: Iterable[str] = ()) -> Self:
        """Of some entities; of those of some classes alone, where they are named."""
        drift, wanted = cls(codec.schema, codec), tuple(classes)
        for entity in entities:
            learnt_class = codec.schema.class_of(entity) if wanted else None
            names = (*entity.classes, *([learnt_class.name] if learnt_class is not None else []))
            if not wanted or any(is_class(name, wanted_name) for name in names for wanted_name in wanted):
                drift.take(entity)
        return drift

    def take(self, entity: Entity, reading: Reading | None = None) -> None:
        """Another entity, and what it says, where that is at hand."""
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
        """What makes an entity unlike the training data, in words; nothing of an entity that is like it."""
        if reading is None:
            return () if self.codec is None else (" ".join(["unseen class", ", ".join(entity.classes)]).strip(),)
        p_values, count = self._p_values(reading)
        unlike = (reason for p_value, reason in sorted(p_values) if p_value * count < self.level)
        return tuple(dict.fromkeys(unlike))

    def p_value(self, reading: Reading) -> float:
        """How likely the next entity of the training distribution is to have a value that is as surprising."""
        p_values, count = self._p_values(reading)
        return min(count * min((p_value for p_value, _ in p_values), default=1.0), 1.0)

    def _p_values(self, reading: Reading) -> tuple[list[tuple[float, str]], int]:
        """The p-values of the values beyond those of training, each with a reason in words; how many values were compared."""
        p_values: list[tuple[float, str]] = []
        count = 0
        for path, value in reading.leaves.items():
            source = Source(reading.class_name, pattern(path))
            codec = self._codecs.get(source)
            if codec is not None:
                of_value = codec.p_values(value)
                count += len(of_value)
                name = self._names[source]
                p_values += [(p_value, _reason(name, codec, value)) for p_value in of_value if p_value < 1]
        if self._classes is not None:
            of_classes = self._classes.labels.p_values(reading.classes)
            count += len(of_classes)
            classes = zip(of_classes, reading.classes, strict=True)
            p_values += [(p_value, f"unseen class {name}") for p_value, name in classes if p_value < 1]
        return p_values, count

    def rows(self) -> list[Row]:
        """All that was found: class by class, way by way, the most frequent first."""
        classes = {name: place for place, name in enumerate(self.schema.classes)}
        rows = sorted(
            self._rows.values(),
            key=lambda row: (classes.get(row.of, -1), WAYS.index(row.what), -row.count, row.path),
        )
        for row in rows:
            if row.what == UNKNOWN_PROPERTY and row.of in self.schema.classes:
                near = nearest(row.path, self._absent(row.of), RENAMED_SIMILARITY)
                row.learnt = {} if near is None else {"near": near}
        return rows

    def __bool__(self) -> bool:
        return bool(self._rows)

    def to_json(self) -> list[dict[str, Any]]:
        """All rows as plain data."""
        return [row.to_json(self.total(row)) for row in self.rows()]

    def total(self, row: Row) -> int:
        """How many there were to compare: values of a known property, else entities."""
        if row.what == UNSEEN_CLASS:
            return self.entities
        values = self._values[row.of, row.path] if row.what in (UNSEEN_LABEL, OUTSIDE_RANGE) else 0
        return values or self._of_class[row.of]

    # ------------------------------------------------------------ what is compared

    def _compare(self, entity: Entity, reading: Reading) -> None:
        """Every value with what training had of it."""
        of, slots = reading.class_name, self._slots.get(reading.class_name, set())
        unknown: dict[str, Any] = {}
        longer: dict[Path, int] = {}
        for path, value in reading.leaves.items():
            source = Source(of, pattern(path))
            if source not in self._codecs:
                if source in self._places:
                    unknown.setdefault(self._unknown_name(source), value)
                continue
            name, codec = self._names[source], self._codecs[source]
            self._values[of, name] += len(value) if isinstance(value, list | tuple | set | frozenset) else 1
            if codec is not None:
                for unlike in codec.unlike(value):
                    self._note(of, name, codec.difference, entity, unlike, codec.learnt())
            if path not in slots:
                at = next(place for place, key in enumerate(path) if isinstance(key, int))
                longer[path[:at]] = max(longer.get(path[:at], 0), int(path[at]) + 1)
        for name, value in unknown.items():
            self._note(of, name, UNKNOWN_PROPERTY, entity, value)
        for path, length in longer.items():
            self._note(of, f"{show(path)}[]", OUTSIDE_RANGE, entity, length, {"items": self._longest(of, path)})

    def _unknown_name(self, source: Source) -> str:
        """What to call a path at which training had no value: the property, where it had nothing of that."""
        property = Source(source.class_name, self._places[source].property)
        return self._names[source] if property in self._learnt else show(property.path)

    def _longest(self, of: str, path: Path) -> int:
        """How many places of a list the model knows."""
        at = len(path)
        places = (slot[at] for slot in self._slots[of] if slot[:at] == path and len(slot) > at)
        return max((place + 1 for place in places if isinstance(place, int)), default=0)

    def _refused(self, entity_class: Class, entity: Entity) -> None:
        """The values that the schema refuses, but for those of what is not learnt anyway."""
        misfits: list[Misfit] = []
        for _ in self.schema.applied(entity_class, entity, misfits):
            pass
        for misfit in misfits:
            if entity_class.properties[misfit.path].role != "ignore":
                expected, _, got = misfit.problem.partition(", got ")
                learnt = {"schema": expected.removeprefix("expected ")}
                self._note(entity_class.name, show_pattern(pattern(misfit.path)), MISFIT, entity, got, learnt)

    def _note(
        self, of: str, path: str, what: str, entity: Entity, value: Any, learnt: dict[str, Any] | None = None
    ) -> None:
        key = (of, path, what, str(learnt) if what == MISFIT else "")
        if key not in self._rows and len(self._rows) >= MAX_ROWS:
            key, learnt = ("", OTHERS, what, ""), None
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = Row(*key[:3], learnt=learnt or {})
        row.count += 1
        if len(row.examples) < MAX_EXAMPLES and not any(_same(example.value, value) for example in row.examples):
            row.examples.append(Example(entity.id, value))

    def _absent(self, of: str) -> Iterator[str]:
        """The properties of a class of which no entity has any value that the model knows."""
        known = {
            self._places[source].property
            for source in self._places
            if source.class_name == of and self._values[of, self._names[source]]
        }
        return (
            show(path)
            for path, property in self.schema.classes[of].properties.items()
            if path not in known and property.role != "ignore"
        )


def level_of(schema: Schema, codec: Codec, held_out: Iterable[Entity]) -> float:
    """The level: at most one in fifty of the held-out entities is unlike the training data, or one of fewer than a hundred."""
    drift = Drift(schema, codec)
    p_values = sorted(drift.p_value(reading) for reading in read_all(schema, held_out))
    allowed = max(int(MAX_FALSE_ALARMS * len(p_values)), 1)
    return min(LEVEL, p_values[allowed]) if allowed < len(p_values) else LEVEL


def _reason(name: str, codec: Comparing, value: Any) -> str:
    """In which way a value is beyond those of training, in words."""
    match codec.learnt():
        case {"range": [low, high]}:
            return f"{name} above {high:.15g}" if value > high else f"{name} below {low:.15g}"
    return f"unseen {name}"


def _same(one: Any, other: Any) -> bool:
    return one is not None and type(one) is type(other) and bool(one == other)
