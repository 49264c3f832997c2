"""Entities as statements, for methods of knowledge graphs: triples of nodes, numbers of nodes, and the numbers that are asked for.

Nodes are entities, what they link to, classes, and the labels of each property. Members of lists count like single values, but for
numbers, which are not stated. A property with more different strings than labels have is text, and its strings are no nodes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple, Self

from benchmarks.masking import MAX_STRING_LABELS, pattern
from benchmarks.peers.protocol import Imputation
from kbdisk.entity import CLASSES, Link, Path, walk


class Asked(NamedTuple):
    """A cell that is asked for."""

    cell: int  # its place among the hidden cells
    node: int
    attribute: int


@dataclass(frozen=True)
class Statements:
    """The statements of an imputation, by the numbers of nodes, relations and attributes."""

    triples: list[tuple[int, int, int]]  # head, relation, tail
    literals: list[tuple[int, int, float]]  # node, attribute, value
    asked: list[Asked]

    @classmethod
    def of(cls, imputation: Imputation) -> Self:
        """The triples of all entities, the numbers of those to learn from, and the questions."""
        nodes, relations, attributes = _Numbers(), _Numbers(), _Numbers()
        triples: list[tuple[int, int, int]] = []
        literals: list[tuple[int, int, float]] = []
        entities = imputation.masked.entities
        texts = _texts(imputation)
        for place, entity in enumerate(entities):
            node = nodes.of(entity.id)
            for name in entity.classes or ("",):
                triples.append((node, relations.of(CLASSES), nodes.of((CLASSES, name))))
            for path, value in walk(entity.tree):
                of = pattern(path)
                for half, kind, scalar in imputation.values.scalars(of, value) if value is not None else ():
                    if kind == "label" and of not in texts:
                        end = scalar if isinstance(value, Link) else (of, scalar)
                        triples.append((node, relations.of(of), nodes.of(end)))
                    elif kind == "number" and isinstance(path[-1], str) and place < imputation.training_rows:
                        literals.append((node, attributes.of((of, half)), scalar))
        asked = []
        for task in imputation.tasks:
            for cell in task.cells:
                hidden = imputation.masked.cells[cell]
                if task.of[2] == "number" and isinstance(hidden.path[-1], str):
                    asked.append(Asked(cell, nodes.of(entities[hidden.entity].id), attributes.of(task.of[:2])))
        return cls(triples, literals, asked)


class _Numbers(dict[Hashable, int]):
    """A number for each thing, in the order in which they are asked for."""

    def of(self, thing: Hashable) -> int:
        """The number of a thing."""
        return self.setdefault(thing, len(self))


def _texts(imputation: Imputation) -> set[Path]:
    """The properties with more strings than labels have."""
    strings: dict[Path, set[str]] = {}
    for entity in imputation.masked.entities:
        for path, value in walk(entity.tree):
            if isinstance(value, str):
                strings.setdefault(pattern(path), set()).add(value)
    return {of for of, different in strings.items() if len(different) > MAX_STRING_LABELS}
