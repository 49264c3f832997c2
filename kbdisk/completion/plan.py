"""Plan: which entities are completed, what they lack, and which properties are never filled and why. No network runs."""

from __future__ import annotations

import copy
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any

from kbdisk.completion.choices import Choices
from kbdisk.completion.fields import fields_of, refuse_unknown_classes
from kbdisk.completion.gaps import Gap, gaps_of, known_properties
from kbdisk.data.parse import Reading, read
from kbdisk.entity import Entity, Path, show, walk
from kbdisk.inspection import is_class
from kbdisk.jsonio import LINE, dump_json
from kbdisk.loaders.files import writing
from kbdisk.schemas.composites import show_pattern
from kbdisk.training.trained import Trained

BLANK, PART, ABSENT = "blank", "part", "absent"  # kinds of gaps: a place without a value, or one that is required; ...


@dataclass(eq=False)
class Planned:
    """An entity, what it says, and what it lacks that may be filled."""

    row: int  # its place in the source
    entity: Entity
    reading: Reading | None  # None where the schema has no class for it
    is_chosen: bool  # whether it is of one of the classes that are to be completed
    gaps: Sequence[Gap] = ()

    @property
    def is_completed(self) -> bool:
        """Whether its gaps are filled."""
        return self.reading is not None and self.is_chosen


class Plan(Iterable[Planned]):
    """The entities of a source in their order, each with its gaps. They are read anew each time."""

    def __init__(self, trained: Trained, entities: Iterable[Entity], choices: Choices) -> None:
        self.trained, self.choices = trained, choices
        self.entities = list(entities) if isinstance(entities, Iterator) else entities
        self.schema, self.codec = trained.schema, trained.codec
        self.fields = fields_of(self.codec, choices)
        refuse_unknown_classes(self.schema, choices.classes)

    def __iter__(self) -> Iterator[Planned]:
        for row, entity in enumerate(self.entities):
            reading = read(self.schema, entity)
            planned = Planned(row, entity, reading, self._is_chosen(entity, reading))
            if reading is not None and planned.is_chosen:
                table = self.codec.index.tables[reading.of]
                planned.gaps = gaps_of(self.fields[reading.of], reading, table, entity.made)
            yield planned

    def _is_chosen(self, entity: Entity, reading: Reading | None) -> bool:
        wanted, names = self.choices.classes, (*entity.classes, *([reading.of] if reading is not None else []))
        return not wanted or any(is_class(name, chosen) for name in names for chosen in wanted)

    def with_choices(self, choices: Choices) -> Plan:
        """The same plan with other thresholds, which change no gap."""
        plan = copy.copy(self)
        plan.choices = choices
        return plan

    @cached_property
    def total(self) -> int:
        """How many entities there are."""
        return len(self.entities) if isinstance(self.entities, Sequence) else sum(1 for _ in self.entities)

    @cached_property
    def digest(self) -> str:
        """The same for the same entities, with the same values given and filled in earlier."""
        digest = hashlib.sha256()
        for entity in self.entities:
            leaves = [(path, value) for path, value in walk(entity.tree)]
            record = entity.id, entity.classes, leaves, sorted(entity.made or (), key=repr)
            digest.update(repr(record).encode(errors="surrogatepass"))
        return digest.hexdigest()

    # ------------------------------------------------------------ inspection

    @property
    def held(self) -> dict[tuple[str, Path], str]:
        """Why properties are never filled, by their classes and paths."""
        return {
            (name, path): field.held
            for name, fields in self.fields.items()
            for path, field in fields.fields.items()
            if field.held
        }

    @property
    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each gap that may be filled: of which entity, where, and whether it is blank, part of a value, or absent."""
        for planned in self:
            for gap in planned.gaps:
                kind = PART if gap.parts else BLANK if gap.asked else ABSENT
                row = {"row": planned.row, "id": planned.entity.id, "class": gap.of.of}
                yield row | {"path": show(gap.path), "property": show_pattern(gap.of.path), "gap": kind}

    @property
    def properties(self) -> list[dict[str, Any]]:
        """A row for each property: how many entities have it, how many lack it, and why it is never filled, if so."""
        known: Counter[tuple[str, Path]] = Counter()
        entities: Counter[str] = Counter()
        for planned in self:
            if planned.reading is not None and planned.is_chosen:
                of = planned.reading.of
                entities[of] += 1
                fields = self.fields[of]
                known.update((of, path) for path in known_properties(fields, planned.reading, planned.entity.made))
        held = self.held
        return [
            {
                "class": name,
                "path": show_pattern(path),
                "known": known[name, path],
                "missing": entities[name] - known[name, path],
                "reason": held.get((name, path), ""),
            }
            for name, fields in self.fields.items()
            for path in fields.of.properties
            if path in fields.fields
        ]

    def save(self, file: str | FilePath) -> None:
        """Write the rows as JSON Lines."""
        with writing(file) as stream:
            stream.writelines(dump_json(row, LINE) for row in self.rows)
