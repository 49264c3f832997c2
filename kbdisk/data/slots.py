"""Slots: the properties that a codec has codes for. Every table of the network that is per property is indexed by them.

An entity's own values stand in the slots of its class. Values that come over its links stand in slots of evidence: the
population of a city that is the capital of a country has the path capital.population of that country.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias
from zlib import crc32

from kbdisk.entity import Path
from kbdisk.leaves.labels import Labels
from kbdisk.leaves.registry import LEARNT_KINDS
from kbdisk.schemas.composites import Kind
from kbdisk.schemas.composites.base import is_composite
from kbdisk.schemas.composites.listed import COUNT, Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.kinds import Category, Link, Text
from kbdisk.schemas.schema import Schema

Role: TypeAlias = Literal["value", "given", "evidence"]
CLASSES: Path = ("@class",)  # where an entity's classes stand, as evidence
ANY = ""  # in the place of the class that evidence comes to, where it does not matter
INCOMING = "^"  # begins the first key of a path that stands for links from a class
NO_LABELS = Labels((), ())
AGGREGATE_MARK = "~"  # begins the key of a path that names an aggregate over several entities


class Over(NamedTuple):
    """The link that evidence comes over: the class at its other end, its path, and the path that is read there."""

    class_name: str  # at the other end
    link: Path  # of this class; of the class at the other end where it is incoming
    read: Path  # of the class at the other end; empty where it is incoming
    incoming: bool = False
    aggregate: str = ""  # over several entities: siblings, rest, members or sources (see `link_aggregates`)
    total: float = 0.0  # of a rest: the sum of all


@dataclass(frozen=True)
class Slot:
    """A property of a class, or of several classes that share it: its kind, and its place in weights and tables."""

    class_name: str  # of several that share it the first
    path: Path
    leaf: Any
    kind: str  # a name in LEARNT_KINDS
    codec: Any  # a LeafCodec; one for all places of a list; evidence has that of the property that is read
    role: Role
    over: Over | None  # the link, where the role is evidence
    group: int  # of slots of its kind that share weights
    unit: int  # slots of one class with one number are parts of one composite
    count: int  # training entities that have it
    fill: float  # the share of the training entities of its class that have it
    entropy: float  # of its training values, in nats, by their frequencies
    counts: Mapping[str, int] = field(hash=False)  # training entities of each class that have it; empty for evidence

    @property
    def keys(self) -> Path:
        """The class and the path, which identify the slot."""
        return (self.class_name, *self.path)

    @property
    def fixed(self) -> bool:
        """Whether it is never hidden by itself and never predicted."""
        return self.role != "value"

    @property
    def labels(self) -> Labels:
        """The labels of a category or a set, or the targets of a link; none for other kinds."""
        labels: Labels = getattr(self.codec, "targets" if self.kind == "link" else "labels", NO_LABELS)
        return labels


class Source(NamedTuple):
    """The values that one leaf codec is fitted to: those at a class's path, at any place of a list, or incoming links."""

    class_name: str
    path: Path


def class_leaf() -> Category:
    """The kind of an entity's classes."""
    return Category()


def incoming_leaf(class_name: str) -> Link:
    """The kind of incoming links from a class: links to the entities that they come from."""
    return Link(class_name or None)


class LeafSpec(NamedTuple):
    """A leaf within a class, with the property and the composite that it is part of."""

    leaf: Any
    property: Path  # of the schema
    composite: Path  # the innermost that is no list: where some of its parts are known, the others are asked for
    given: bool


def places_of(schema: Schema) -> dict[Source, LeafSpec]:
    """Every leaf of every class."""
    return {
        Source(name, leaf): LeafSpec(
            kind, path, composite, property.role == "given" or (isinstance(kind, Text) and kind.given)
        )
        for name, schema_class in schema.classes.items()
        for path, property in schema_class.properties.items()
        if property.role != "ignore"
        for leaf, kind, composite in _parts(path, property.kind)
    }


def _parts(path: Path, kind: Kind) -> Iterable[tuple[Path, Any, Path]]:
    """The leaves of a value, by their paths, each with the path of the innermost composite that is no list."""
    if not is_composite(kind):
        yield path, kind, path
        return
    listed = isinstance(kind, Listed | Mapped)
    for within, inner in kind.leaves().items():
        for leaf, leaf_kind, composite in _parts((*path, *within), inner):
            yield leaf, leaf_kind, composite if listed or len(composite) < len(leaf) else path


def counts_of(path: Path) -> tuple[tuple[Path, int], ...]:
    """The path of the length of each list that a path goes through, and the path's place in that list."""
    return tuple(((*path[:at], *COUNT), key) for at, key in enumerate(path) if isinstance(key, int))


def path_key(path: Path) -> tuple[tuple[int, int, str], ...]:
    """The sort key of a path: places before names."""
    return tuple((0, key, "") if isinstance(key, int) else (1, 0, key) for key in path)


def source_key(source: Source) -> tuple[str, tuple[tuple[int, int, str], ...]]:
    """The sort key of a source: class, path."""
    return source.class_name, path_key(source.path)


def hash_id(id: str) -> int:
    """32 bits of an entity's id, for samples that are always the same."""
    return crc32(id.encode(errors="replace"))


# ---------------------------------------------------------------- which slots share weights


def _disjoint(counts: Mapping[Source, int], own: int, enough: int) -> set[Source]:
    return set(counts)


def _tied(counts: Mapping[Source, int], own: int, enough: int) -> set[Source]:
    return set()


def _auto(counts: Mapping[Source, int], own: int, enough: int) -> set[Source]:
    rich = {source for source, count in counts.items() if count >= enough}
    return rich if len(rich) <= own else set()


# (values of each codec of one kind, `own` and `enough` of CodecConfig) -> the codecs that have weights of their own.
SHARING: Mapping[str, Callable[[Mapping[Source, int], int, int], set[Source]]] = {
    "disjoint": _disjoint,
    "tied": _tied,
    "auto": _auto,
}


def groups_of(
    kinds: Mapping[Source, str], counts: Mapping[Source, int], with_own: Callable[..., set[Source]]
) -> dict[Source, int]:
    """The group of each codec within its kind: one of its own, or the last one, which all others share."""
    groups: dict[Source, int] = {}
    for kind in LEARNT_KINDS:
        members = sorted((source for source in kinds if kinds[source] == kind), key=source_key)
        own = with_own({source: counts[source] for source in members})
        numbers = {source: number for number, source in enumerate(source for source in members if source in own)}
        groups |= {source: numbers.get(source, len(numbers)) for source in members}
    return groups


def slot_order() -> Callable[[Slot], tuple[Any, ...]]:
    """The sort key of slots, whatever order the schema has: kind, group, class, path."""
    order = {name: place for place, name in enumerate(LEARNT_KINDS)}

    def key(slot: Slot) -> tuple[Any, ...]:
        over = (
            (slot.over.class_name, path_key(slot.over.link), slot.over.incoming, slot.over.aggregate)
            if slot.over
            else ()
        )
        return order[slot.kind], slot.group, slot.class_name, path_key(slot.path), over

    return key
