"""Partial pooling: a property that several classes have, with kinds that go together, is learnt once for all of them.

Two properties go together where they stand at the same path, have the same role, and have kinds that differ in bounds,
decimals or labels alone. The first of their classes, by name, stands for all; its source names what they share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from kbdisk.data.slots import Place, Source, places_of
from kbdisk.entity import Path
from kbdisk.schemas.leaf import Category, Link, Number, Set, Text
from kbdisk.schemas.schema import Property, Schema


@dataclass(frozen=True)
class Pools:
    """Which leaves of classes are learnt as one."""

    pooled: bool
    places: Mapping[Source, Place]  # of every class
    shared: Mapping[Source, Source]  # a leaf of a class -> that of the class which stands for all
    members: Mapping[Source, tuple[str, ...]]  # a shared leaf -> the classes that have it
    leaves: Mapping[Source, Any]  # a shared leaf -> its kind, wide enough for all of these classes

    @classmethod
    def of(cls, schema: Schema, pooled: bool) -> Pools:
        """The pools of a schema; where nothing is to be pooled, one for each leaf of each class."""
        first = _first_classes(schema) if pooled else {}
        places = places_of(schema)
        shared = {
            source: Source(first.get((source.of, place.property), source.of), source.path)
            for source, place in places.items()
        }
        members: dict[Source, list[str]] = {}
        leaves: dict[Source, Any] = {}
        for source in sorted(places, key=lambda source: source.of):
            own, leaf = shared[source], places[source].leaf
            members.setdefault(own, []).append(source.of)
            leaves[own] = merged(leaves[own], leaf) if own in leaves else leaf
        return cls(pooled, places, shared, {own: tuple(names) for own, names in members.items()}, leaves)

    def source(self, of: str, path: Path) -> Source:
        """What a leaf of a class is learnt as; itself where the schema does not have it."""
        source = Source(of, path)
        return self.shared.get(source, source)


def _first_classes(schema: Schema) -> dict[tuple[str, Path], str]:
    """By class and path of a property, the first of the classes with which it goes together."""
    pools: dict[Path, list[tuple[str, Property]]] = {}
    first: dict[tuple[str, Path], str] = {}
    for name in sorted(schema.classes):
        for path, property in schema.classes[name].properties.items():
            if property.role == "ignore":
                continue
            for place, (leader, pool) in enumerate(pools.setdefault(path, [])):
                kind = merged(pool.kind, property.kind) if pool.role == property.role else None
                if kind is not None:
                    pools[path][place] = leader, replace(pool, kind=kind)
                    first[name, path] = leader
                    break
            else:
                pools[path].append((name, property))
                first[name, path] = name
    return first


def merged(first: Any, second: Any) -> Any:
    """A kind that takes the values of both; None where they do not go together."""
    if type(first) is not type(second) or not is_dataclass(first):
        return None
    if first == second:
        return first
    rule = RULES.get(type(first), _merged_fields)
    return rule(first, second)


def _merged_numbers(first: Number, second: Number) -> Number | None:
    transforms = {first.transform, second.transform} - {"auto"}
    if len(transforms) > 1 or (first.above, first.below) != (second.above, second.below):
        return None
    return replace(
        first,
        transform=next(iter(transforms), "auto"),
        integer=first.integer and second.integer,
        minimum=_widest(min, first.minimum, second.minimum),
        maximum=_widest(max, first.maximum, second.maximum),
        decimals=_widest(max, first.decimals, second.decimals),
    )


def _merged_labels(first: Category, second: Category) -> Category | None:
    if first.ordered or second.ordered:
        return None
    return Category(tuple(dict.fromkeys((*first.values, *second.values))), first.closed and second.closed)


def _merged_links(first: Link, second: Link) -> Link | None:
    values = tuple(dict.fromkeys((*first.values, *second.values))) if first.values and second.values else ()
    return Link(first.to if first.to == second.to else None, values)


def _merged_sets(first: Set, second: Set) -> Set | None:
    of = merged(first.of, second.of)
    return None if of is None else Set(of, _widest(max, first.most, second.most))


def _merged_texts(first: Text, second: Text) -> Text | None:
    if first.language != second.language:
        return None
    return Text(
        first.language, _widest(max, first.max_length, second.max_length), min(first.min_length, second.min_length)
    )


RULES: Mapping[type[Any], Any] = {
    Number: _merged_numbers,
    Category: _merged_labels,
    Link: _merged_links,
    Set: _merged_sets,
    Text: _merged_texts,
}


def _merged_fields(first: Any, second: Any) -> Any:
    """Composites whose parts go together; all else about them is the same."""
    changes: dict[str, Any] = {}
    for field in fields(first):
        ours, theirs = getattr(first, field.name), getattr(second, field.name)
        if ours == theirs:
            continue
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping) and ours.keys() == theirs.keys():
            together = {key: ours[key] if ours[key] == theirs[key] else merged(ours[key], theirs[key]) for key in ours}
            if any(together[key] is None and ours[key] is not None for key in ours):
                return None
            changes[field.name] = together
            continue
        kind = merged(ours, theirs)
        if kind is None:
            return None
        changes[field.name] = kind
    return replace(first, **changes)


def _widest(choose: Any, first: Any, second: Any) -> Any:
    """The wider of two bounds; None, which is no bound, where either is."""
    return None if first is None or second is None else choose(first, second)
