"""Superclasses: what the classes of an entity are subclasses of, by the source or the schema, is visible with these classes.

A superclass is used where it tells entities apart: enough training entities have it, enough do not, and no class below it
has the same entities. An entity's own statements never count for the entity itself.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

from kbdisk.entity import Entity, Link
from kbdisk.schemas.schema import Schema

SUBCLASS_KEYS = ("subClassOf", "P279")  # of links from a class to a broader one, in RDF Schema and in Wikidata
MIN_ENTITIES = 5  # that have a superclass, and that do not have it
MAX_SUPERCLASSES = 8  # of a class, the nearest ones
MAX_VISITED = 1000  # classes above a class that are looked at

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
    """The superclasses that a schema states, of each class by its name and its IRI; as entities name their classes."""
    iris = {name: of.iri for name, of in schema.classes.items() if of.iri}
    hierarchy: dict[str, tuple[str, ...]] = {}
    for name, of in schema.classes.items():
        if of.superclasses:
            above = tuple(iris.get(broader, broader) for broader in of.superclasses)
            hierarchy |= dict.fromkeys((name, of.iri) if of.iri else (name,), above)
    return hierarchy


def _links(value: object) -> Iterator[str]:
    for link in value if isinstance(value, list) else (value,):
        if isinstance(link, Link):
            yield link.id


@dataclass(frozen=True)
class Superclasses:
    """Which superclasses entities have beside their classes."""

    above: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by class, the nearest first

    @classmethod
    def fit(cls, hierarchy: Hierarchy, entities: Iterable[tuple[str, ...]]) -> Superclasses:
        """The superclasses that tell entities apart; `entities` are the classes of each training entity."""
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
        for name, several in hierarchy.items():
            for broader in several:
                narrower[broader] = max(narrower.get(broader, 0), counts[name] if name != broader else 0)
        kept = {
            name
            for name, count in counts.items()
            if MIN_ENTITIES <= count <= number - MIN_ENTITIES and narrower.get(name, 0) < count
        }
        found = {name: tuple(one for one in above(name) if one in kept)[:MAX_SUPERCLASSES] for name in hierarchy}
        return cls({name: several for name, several in found.items() if several})

    def of(self, id: str, classes: Iterable[str]) -> list[str]:
        """The classes of an entity and their superclasses, each once; without these where the entity is one of them."""
        own = dict.fromkeys(classes)
        several = own | dict.fromkeys(broader for name in own for broader in self.above.get(name, ()))
        return list(own if id in several else several)

    def to_json(self) -> dict[str, list[str]]:
        """Itself as plain data."""
        return {name: list(several) for name, several in self.above.items()}

    @classmethod
    def from_json(cls, data: Any) -> Superclasses:
        """Itself again; ValueError where the data is not classes with lists of classes."""
        if not isinstance(data, dict):
            raise ValueError(f"superclasses: expected a mapping, got {data!r:.60}")
        for name, several in data.items():
            if not isinstance(several, list) or not all(isinstance(one, str) for one in several):
                raise ValueError(f"superclasses: {name}: expected names of classes, got {several!r:.60}")
        return cls({name: tuple(several) for name, several in data.items()})


def _above(hierarchy: Hierarchy, name: str) -> Iterator[str]:
    """All classes above a class, the nearest first; a circle is gone through once."""
    met, ahead = {name}, deque([name])
    while ahead and len(met) < MAX_VISITED:
        for broader in hierarchy.get(ahead.popleft(), ()):
            if broader not in met:
                met.add(broader)
                ahead.append(broader)
                yield broader
