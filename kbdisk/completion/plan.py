"""Plan: which entities are completed, what they lack, and which properties are never filled and why. No network runs."""

from __future__ import annotations

import copy
import hashlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any

from kbdisk.completion.config import CompletionConfig
from kbdisk.completion.fields import CLASS, Field, fields_of, refuse_unknown_classes
from kbdisk.completion.gaps import Gap, gaps_of, known_properties, sets_of
from kbdisk.completion.members import FurtherMembers, SetToExtend
from kbdisk.data.parse import Reading
from kbdisk.data.spool import spooled, spooled_readings
from kbdisk.data.superclasses import ClassRelations
from kbdisk.entity import CLASSES, Entity, Link, Path, show, walk
from kbdisk.errors import SchemaError
from kbdisk.inspection import is_class
from kbdisk.jsonio import LINE, dump_json
from kbdisk.loaders import KB
from kbdisk.loaders.files import writing
from kbdisk.schemas.composites import show_pattern
from kbdisk.schemas.kinds import Link as LinkKind
from kbdisk.schemas.kinds import Set
from kbdisk.schemas.property import Property
from kbdisk.training.trained import Trained

MAX_KEPT = 1 << 16  # gaps of planned entities: each entity is read up to three times, a few chunks later at most
# Kinds of gaps: a place without a value, part of a known value, an absent property, a further member of a set.
BLANK, PART, ABSENT, MEMBER = "blank", "part", "absent", "member"


@dataclass(eq=False)
class Planned:
    """An entity, its values as the model reads them, and its gaps that may be filled."""

    row: int  # its place in the source
    entity: Entity
    reading: Reading | None  # None where the schema has no class for it
    is_chosen: bool  # whether it is of one of the classes that are to be completed
    gaps: Sequence[Gap] = ()
    sets: Sequence[Gap] = ()  # sets with known members, and the classes of an entity: a further member may be added

    @property
    def is_completed(self) -> bool:
        """Whether its gaps are filled."""
        return self.reading is not None and self.is_chosen


class Plan(Iterable[Planned]):
    """The entities of a source in their order, each with its gaps. Only the gaps of the last entities are kept."""

    def __init__(
        self,
        trained: Trained,
        entities: Iterable[Entity],
        config: CompletionConfig,
        readings: Sequence[Reading] | None = None,
    ) -> None:
        """`readings` are those of the entities by the schema of the model, if the caller has them."""
        self.trained, self.config = trained, config
        self.entities = entities if isinstance(entities, Sequence) else spooled(entities)
        self.schema, self.codec = trained.schema, trained.codec
        self.fields = fields_of(self.codec, config)
        self._kept: dict[int, Planned] = {}  # by row, the oldest first
        self._kept_gaps = 0
        refuse_unknown_classes(self.schema, config.classes)
        if CLASSES in config.only and not any(map(_states_classes, self.entities)):
            raise SchemaError("rdf:type", "expected RDF, whose entities have classes, got another source.")
        self.known_readings = spooled_readings(self.schema, self.entities) if readings is None else readings

    def __iter__(self) -> Iterator[Planned]:
        return map(self.planned, range(len(self.entities)))

    def planned(self, row: int) -> Planned:
        """The entity of a row with its gaps."""
        planned = self._kept.get(row)
        if planned is None:
            planned = self._kept[row] = self._planned(row)
            self._kept_gaps += _size(planned)
            while self._kept_gaps > MAX_KEPT and len(self._kept) > 1:
                self._kept_gaps -= _size(self._kept.pop(next(iter(self._kept))))
        return planned

    def _planned(self, row: int) -> Planned:
        entity, reading = self.entities[row], self._reading(row)
        planned = Planned(row, entity, reading, self._is_chosen(entity, reading))
        if reading is not None and planned.is_chosen:
            table = self.codec.index.tables[reading.class_name]
            fields = self.fields[reading.class_name]
            planned.gaps = gaps_of(fields, reading, table, entity.made)
            planned.sets = self._sets_of(reading, entity.made)
        return planned

    def _reading(self, row: int) -> Reading | None:
        """The values of the entity of a row as the model reads them; None where the schema has no class for it."""
        place = self._places[row]
        return None if place < 0 else self.known_readings[place]

    @cached_property
    def _places(self) -> Sequence[int]:
        """By row the place of its entity among those that the schema has a class for; -1 where it has none."""
        if len(self.known_readings) == len(self.entities):
            return range(len(self.entities))
        places, next_place = array("q"), 0
        for entity in self.entities:
            has_class = self.schema.class_of(entity) is not None
            places.append(next_place if has_class else -1)
            next_place += has_class
        return places

    def _sets_of(self, reading: Reading, made: Mapping[Path, object] | None) -> list[Gap]:
        """The sets of an entity that have members, its classes among them, but for those that were added to."""
        return [*sets_of(self.fields[reading.class_name], reading, made), *self._classes_of(reading, made)]

    def _classes_of(self, reading: Reading, made: Mapping[Path, object] | None) -> Iterator[Gap]:
        """The classes of an entity of a source that can state another one."""
        entity, config = reading.entity, self.config
        if not _states_classes(entity) or (config.only and CLASSES not in config.only):
            return
        if not any(path[:1] == CLASSES for path in made or ()):
            field = self._class_fields[reading.class_name]
            yield Gap(field, CLASSES, is_member=True, members=tuple(map(Link, entity.classes)))

    @cached_property
    def _class_fields(self) -> Mapping[str, Field]:
        """The field of the classes of entities, by the class that the schema has for them."""
        classes, why_not = Property(Set(LinkKind())), "" if CLASSES in self.config.only else CLASS
        return {name: Field(name, CLASSES, CLASSES, classes, classes.kind, why_not) for name in self.fields}

    @cached_property
    def further_members(self) -> FurtherMembers:
        """The further members that are proposed for the sets of all entities. Fitting takes some seconds.

        Sets that were added to are tried as well, as they were given: so what is sure enough stays so when a file is completed again.
        """
        readings, relations = self.known_readings, ClassRelations.of_source(self.schema, self.entities)
        sets = (
            SetToExtend(reading.id, reading.class_name, gap)
            for reading in readings
            if self._is_chosen(reading.entity, reading)
            for gap in self._sets_of(reading, None)
            if gap.path != CLASSES or not relations.classifies(reading.id, reading.classes)
        )
        return FurtherMembers.of(self.codec, readings, sets, relations, self.config.seed)

    def __repr__(self) -> str:
        """The option `fill`, and the number of properties that it may fill."""
        fillable = sum(not field.why_not for fields in self.fields.values() for field in fields.fields.values())
        return f"<Plan: fill {self.config.fill}, {fillable:,} properties that may be filled>"

    def _is_chosen(self, entity: Entity, reading: Reading | None) -> bool:
        wanted, names = self.config.classes, (*entity.classes, *([reading.class_name] if reading is not None else []))
        return not wanted or any(is_class(name, chosen) for name in names for chosen in wanted)

    def with_config(self, config: CompletionConfig) -> Plan:
        """The plan with other thresholds, which change no gap."""
        plan = copy.copy(self)
        plan.config, plan._kept, plan._kept_gaps = config, {}, 0
        return plan

    @property
    def total(self) -> int:
        """The number of entities."""
        return len(self.entities)

    @cached_property
    def digest(self) -> str:
        """A digest of the entities, with their given values and the values filled in earlier."""
        digest = hashlib.sha256()
        for entity in self.entities:
            leaves = [(path, value) for path, value in walk(entity.tree)]
            record = entity.id, entity.classes, leaves, sorted(entity.made or (), key=repr)
            digest.update(repr(record).encode(errors="surrogatepass"))
        return digest.hexdigest()

    # ------------------------------------------------------------ inspection

    @property
    def never_filled(self) -> dict[tuple[str, Path], str]:
        """The reasons why properties are never filled, by their classes and paths."""
        return {
            (name, path): field.why_not
            for name, fields in self.fields.items()
            for path, field in fields.fields.items()
            if field.why_not
        }

    @property
    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each gap that may be filled: of which entity, where, and whether it is blank, part of a value, absent, or a member."""
        for planned in self:
            for gap in (*planned.gaps, *planned.sets):
                kind = MEMBER if gap.is_member else PART if gap.parts else BLANK if gap.asked else ABSENT
                row = {"row": planned.row, "id": planned.entity.id, "class": gap.field.class_name}
                yield row | {"path": show(gap.path), "property": show_pattern(gap.field.path), "gap": kind}

    @property
    def properties(self) -> list[dict[str, Any]]:
        """A row for each property: how many entities have it, how many lack it, and why it is never filled, if so."""
        known: Counter[tuple[str, Path]] = Counter()
        entities: Counter[str] = Counter()
        for planned in self:
            if planned.reading is not None and planned.is_chosen:
                name = planned.reading.class_name
                entities[name] += 1
                known_paths = known_properties(self.fields[name], planned.reading, planned.entity.made)
                known.update((name, path) for path in known_paths)
        never_filled = self.never_filled
        return [
            {
                "class": name,
                "path": show_pattern(path),
                "known": known[name, path],
                "missing": entities[name] - known[name, path],
                "reason": never_filled.get((name, path), ""),
            }
            for name, fields in self.fields.items()
            for path in fields.schema_class.properties
            if path in fields.fields
        ]

    def save(self, file: str | FilePath) -> None:
        """Write the rows as JSON Lines."""
        with writing(file) as stream:
            stream.writelines(dump_json(row, LINE) for row in self.rows)


def _size(planned: Planned) -> int:
    return 1 + len(planned.gaps) + len(planned.sets)


def _states_classes(entity: Entity) -> bool:
    """Whether a further class can be stated of an entity in its source."""
    return isinstance(entity.source, KB) and entity.source.states_classes
