"""Entities as records, for language models: each single value of an entity beside its key.

Classes are a value, too. Members of lists are left out, unless they are parts. A property of strings is text where its strings
hardly recur; strings of any other are labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from benchmarks.masking import MAX_STRING_LABELS, Property, Scalar
from benchmarks.peers.protocol import Imputation
from kbdisk.entity import CLASSES, Entity, Path

MIN_REPEATED = 2  # times that each label of a property occurs on average, below which it is text


class Item(NamedTuple):
    """A value of an entity."""

    key: Path  # its path, and the half of a coordinate
    of: Property
    value: Scalar


class Question(NamedTuple):
    """A cell that is asked for."""

    cell: int  # its place among the hidden cells
    entity: int
    key: Path
    of: Property


@dataclass(frozen=True)
class Records:
    """The items of each entity, and the cells that are asked for."""

    entities: Sequence[Sequence[Item]]
    train_count: int  # entities to learn from, the first ones
    questions: Sequence[Question]
    texts: frozenset[Property]

    @classmethod
    def of(cls, imputation: Imputation) -> Self:
        """The records of the entities of an imputation, and its cells that have a task."""
        entities = [
            [
                *_classes(entity),
                *(Item(_key(path, of), of, value) for path, of, value in imputation.values.of(entity)),
            ]
            for entity in imputation.masked.entities
        ]
        questions = []
        for place in sorted(place for task in imputation.tasks for place in task.cells):
            cell = imputation.masked.cells[place]
            questions.append(Question(place, cell.entity, _key(cell.path, cell.property), cell.property))
        train_count = imputation.training_rows
        return cls(entities, train_count, questions, _texts(entities[:train_count]))


def _key(path: Path, of: Property) -> Path:
    return (*path, of[1]) if of[1] else path


def _classes(entity: Entity) -> list[Item]:
    return [Item(CLASSES, (CLASSES, "", "label"), ", ".join(entity.classes))] if entity.classes else []


def _texts(entities: Sequence[Sequence[Item]]) -> frozenset[Property]:
    """The properties whose strings hardly recur."""
    counts: dict[Property, Counter[Scalar]] = {}
    for items in entities:
        for item in items:
            if isinstance(item.value, str):
                counts.setdefault(item.of, Counter())[item.value] += 1
    return frozenset(
        of
        for of, labels in counts.items()
        if len(labels) > MAX_STRING_LABELS or MIN_REPEATED * len(labels) > labels.total()
    )
