"""Superclasses, stated by the source or the schema: they are visible beside the classes of an entity.

A superclass is used where it separates entities: enough training entities have it, enough do not, and no class below it has
the same entities. Statements of an entity that is a class itself never count for that entity.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from typing import Any, TypeAlias

from kbdisk.entity import Entity, Link
from kbdisk.schemas.schema import Schema

SUBCLASS_KEYS = ("subClassOf", "P279")  # of links from a class to a broader one, in RDF Schema and in Wikidata
DISJOINT_KEY = "disjointWith"  # of links between classes without a common entity, in OWL
VOCABULARIES = ("http://www.w3.org/2000/01/rdf-schema#", "http://www.w3.org/2002/07/owl#", "http://www.w3.org/1999/02/22-rdf-syntax-ns#")  # fmt: skip
MIN_EXPECTED = 3.0  # entities of two classes, if they were independent, from which on none means that they are disjoint
MIN_ENTITIES = 5  # that have a superclass, and that do not have it
MAX_SUPERCLASSES = 8  # of a class, the nearest ones
MAX_VISITED = 1000  # classes above a class that are searched

Hierarchy: TypeAlias = Mapping[str, Collection[str]]  # by class, its direct superclasses


def hierarchy_of(entities: Iterable[Entity]) -> dict[str, tuple[str, ...]]:
    """The direct superclasses of each class that an entity describes."""
    hierarchy: dict[str, tuple[str, ...]] = {}
    for entity in entities:
        above = tuple(dict.fromkeys(link for key in SUBCLASS_KEYS for link in _links(entity.tree.get(key))))
        if above:
            hierarchy[entity.id] = above
    return hierarchy


def hierarchy_of_schema(schema: Schema) -> dict[str, tuple[str, ...]]:
    """The superclasses that a schema states for each class, by its name and its IRI, as entities may name it by either."""
    iris = {name: schema_class.iri for name, schema_class in schema.classes.items() if schema_class.iri}
    hierarchy: dict[str, tuple[str, ...]] = {}
    for name, schema_class in schema.classes.items():
        if schema_class.superclasses:
            above = tuple(iris.get(broader, broader) for broader in schema_class.superclasses)
            hierarchy |= dict.fromkeys((name, schema_class.iri) if schema_class.iri else (name,), above)
    return hierarchy


def disjoint_classes_of(entities: Iterable[Entity]) -> dict[str, tuple[str, ...]]:
    """The classes that the source states to be disjoint from each class that an entity describes."""
    stated = {entity.id: tuple(_links(entity.tree.get(DISJOINT_KEY))) for entity in entities}
    return {name: others for name, others in stated.items() if others}


def _links(value: object) -> Iterator[str]:
    for link in value if isinstance(value, list) else (value,):
        if isinstance(link, Link):
            yield link.id


@dataclass(frozen=True)
class Superclasses:
    """The superclasses of classes."""

    above: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by class, the nearest first

    @classmethod
    def fit(cls, hierarchy: Hierarchy, entities: Iterable[tuple[str, ...]]) -> Superclasses:
        """The superclasses that separate entities; `entities` are the classes of each training entity."""
        if not hierarchy:
            return cls()

        @cache
        def above(name: str) -> tuple[str, ...]:
            return tuple(_above(hierarchy, name))

        counts, number = Counter[str](), 0
        for classes in entities:
            number += 1
            counts.update({*classes, *(broader for name in classes for broader in above(name))})
        narrower: dict[str, int] = {}  # the entities of the largest class directly below
        for name, superclasses in hierarchy.items():
            for broader in superclasses:
                narrower[broader] = max(narrower.get(broader, 0), counts[name] if name != broader else 0)
        kept = {
            name
            for name, count in counts.items()
            if MIN_ENTITIES <= count <= number - MIN_ENTITIES and narrower.get(name, 0) < count
        }
        nearest = {
            name: tuple(broader for broader in above(name) if broader in kept)[:MAX_SUPERCLASSES] for name in hierarchy
        }
        return cls({name: superclasses for name, superclasses in nearest.items() if superclasses})

    def of(self, id: str, classes: Iterable[str]) -> list[str]:
        """The classes of an entity and their superclasses, each once; without superclasses where the entity is one of them."""
        own = dict.fromkeys(classes)
        all_classes = own | dict.fromkeys(broader for name in own for broader in self.above.get(name, ()))
        return list(own if id in all_classes else all_classes)

    def to_json(self) -> dict[str, list[str]]:
        """Itself as plain data."""
        return {name: list(superclasses) for name, superclasses in self.above.items()}

    @classmethod
    def from_json(cls, data: Any) -> Superclasses:
        """Itself again; ValueError where the data is not classes with lists of classes."""
        if not isinstance(data, dict):
            raise ValueError(f"superclasses: expected a mapping, got {data!r:.60}")
        for name, names in data.items():
            if not isinstance(names, list) or not all(isinstance(broader, str) for broader in names):
                raise ValueError(f"superclasses: {name}: expected names of classes, got {names!r:.60}")
        return cls({name: tuple(names) for name, names in data.items()})


class ClassRelations:
    """Which classes an entity has by its hierarchy, and which ones exclude each other, as stated or by what entities have.

    Two classes of which no entity has both exclude each other where one would expect `MIN_EXPECTED` entities to have both by
    chance. Entities of a class count for its superclasses.
    """

    def __init__(
        self, hierarchy: Hierarchy, disjoint: Mapping[str, Collection[str]], entities: Iterable[Collection[str]]
    ) -> None:
        """`entities` are the classes of each entity that has any."""
        self.hierarchy, self._closures = hierarchy, dict[str, frozenset[str]]()
        self.stated = {frozenset((name, other)) for name, others in disjoint.items() for other in others}
        self.counts: Counter[str] = Counter()
        self.both: Counter[frozenset[str]] = Counter()
        self.entities = 0
        for classes in entities:
            own = frozenset[str]().union(*map(self.closure, classes))
            self.entities += 1
            self.counts.update(own)
            self.both.update(frozenset(pair) for pair in combinations(sorted(own)[:MAX_VISITED], 2))

    @classmethod
    def of_source(cls, schema: Schema, entities: Iterable[Entity]) -> ClassRelations:
        """Those that a source and its schema state, and those that its entities show."""
        hierarchy = {**hierarchy_of_schema(schema), **hierarchy_of(entities)}
        return cls(hierarchy, disjoint_classes_of(entities), (entity.classes for entity in entities if entity.classes))

    def closure(self, name: str) -> frozenset[str]:
        """A class with its superclasses."""
        if name not in self._closures:
            self._closures[name] = frozenset([name, *_above(self.hierarchy, name)])
        return self._closures[name]

    def classifies(self, id: str, classes: Iterable[str]) -> bool:
        """Whether an entity is a class, a property or the like itself, which has no class that others have."""
        is_class = id in self.hierarchy or self.counts[id] > 0
        return is_class or any(name.startswith(VOCABULARIES) for name in classes)

    def specific(self, classes: Collection[str]) -> list[str]:
        """The classes of an entity that it would not have by its other classes."""
        return [name for name in classes if not any(name in self.closure(other) for other in classes if other != name)]

    def excludes(self, name: str, own: Iterable[str]) -> bool:
        """Whether an entity with some classes can't get another one: it has it already, or its classes exclude it."""
        return name.startswith(VOCABULARIES) or any(
            name in self.closure(other)
            or any(
                self._are_disjoint(above, other_above)
                for above in self.closure(name)
                for other_above in self.closure(other)
            )
            for other in own
        )

    def _are_disjoint(self, name: str, other: str) -> bool:
        if name == other or name in self.closure(other) or other in self.closure(name):
            return False
        pair = frozenset((name, other))
        expected = self.counts[name] * self.counts[other] / max(self.entities, 1)
        return pair in self.stated or (not self.both[pair] and expected >= MIN_EXPECTED)

    def below(self, names: Sequence[str]) -> list[list[int]]:
        """For each of some classes, the places of its subclasses among them."""
        return [
            [place for place, other in enumerate(names) if other != name and name in self.closure(other)]
            for name in names
        ]


def _above(hierarchy: Hierarchy, name: str) -> Iterator[str]:
    """All classes above a class, breadth first; a cycle is followed once."""
    visited, queue = {name}, deque([name])
    while queue and len(visited) < MAX_VISITED:
        for broader in hierarchy.get(queue.popleft(), ()):
            if broader not in visited:
                visited.add(broader)
                queue.append(broader)
                yield broader
