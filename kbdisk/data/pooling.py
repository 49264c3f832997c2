"""Partial pooling: a property that several classes have, with kinds that go together, is learnt once for all of them.

Two properties go together where they stand at the same path, have the same role, and have kinds that differ in bounds,
decimals, labels, or how much of a date is there. A schema that says which properties are shared pools these alone. The
first of their classes by name, of those that have all parts, stands for all; its source names what they share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbdisk.data.slots import LeafSpec, Source, places_of
from kbdisk.entity import Path
from kbdisk.schemas.composites.base import Kind, leaves_of
from kbdisk.schemas.merging import merge_kinds
from kbdisk.schemas.property import Property, Role
from kbdisk.schemas.schema import Schema


@dataclass(frozen=True)
class Pools:
    """The leaves of classes that share a slot."""

    pooled: bool
    places: Mapping[Source, LeafSpec]  # of every class
    shared: Mapping[Source, Source]  # a leaf of a class -> the same of the class that stands for all
    members: Mapping[Source, tuple[str, ...]]  # a shared leaf -> the classes that have it
    leaves: Mapping[Source, Any]  # a shared leaf -> its kind, wide enough for all of these classes

    @classmethod
    def of(cls, schema: Schema, pooled: bool) -> Pools:
        """The pools of a schema; without pooling one for each leaf of each class."""
        first = _first_classes(schema) if pooled else {}
        places = places_of(schema)
        shared = {
            source: Source(first.get((source.class_name, place.property), source.class_name), source.path)
            for source, place in places.items()
        }
        members: dict[Source, list[str]] = {}
        leaves: dict[Source, Any] = {}
        for source in sorted(places, key=lambda source: source.class_name):
            own, leaf = shared[source], places[source].leaf
            members.setdefault(own, []).append(source.class_name)
            leaves[own] = merge_kinds(leaves[own], leaf) if own in leaves else leaf
        return cls(pooled, places, shared, {own: tuple(names) for own, names in members.items()}, leaves)

    def source(self, class_name: str, path: Path) -> Source:
        """The pooled leaf of a leaf of a class; itself where the schema does not have it."""
        source = Source(class_name, path)
        return self.shared.get(source, source)


@dataclass
class _Pool:
    """Classes whose properties at one path are pooled."""

    leader: str  # the class whose property has all parts
    kind: Kind
    role: Role
    names: list[str]

    def try_to_add(self, name: str, path: Path, property: Property) -> bool:
        """Add the property of another class, if it goes together with these; whether it does."""
        kind = merge_kinds(self.kind, property.kind) if self.role == property.role else None
        if kind is None:
            return False
        parts = _paths(path, kind)
        if parts != _paths(path, self.kind):
            if parts != _paths(path, property.kind):
                return False  # neither has all parts
            self.leader = name
        self.kind = kind
        self.names.append(name)
        return True


def _paths(path: Path, kind: Kind) -> set[Path]:
    return {leaf for leaf, _ in leaves_of(path, kind)}


def _first_classes(schema: Schema) -> dict[tuple[str, Path], str]:
    """By class and path of a property, the class that stands for its pool."""
    pools: dict[Path, list[_Pool]] = {}
    for name in sorted(schema.classes):
        for path, property in schema.classes[name].properties.items():
            if property.role == "ignore" or (schema.properties is not None and path not in schema.properties):
                continue
            known = pools.setdefault(path, [])
            if not any(pool.try_to_add(name, path, property) for pool in known):
                known.append(_Pool(name, property.kind, property.role, [name]))
    return {(name, path): pool.leader for path, of_path in pools.items() for pool in of_path for name in pool.names}
