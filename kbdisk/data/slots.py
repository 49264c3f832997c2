"""Slots: the places that a codec has for values. Every table of the network that is per property is indexed by them.

An entity's own values stand in the slots of its class. What its links bring stands in slots of evidence: the
population of a city that is the capital of a country has the path capital.population of that country.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias
from zlib import crc32

from kbdisk.entity import Path
from kbdisk.leaves.registry import LEARNT_KINDS
from kbdisk.schemas.composites import Composite, Kind
from kbdisk.schemas.composites.listed import COUNT, Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.kinds import Category, Link
from kbdisk.schemas.schema import Schema

Role: TypeAlias = Literal["value", "given", "evidence"]
CLASSES: Path = ("@class",)  # where an entity's classes stand, as evidence
ANY = ""  # in the place of the class that evidence comes to, where it does not matter
INCOMING = "^"  # begins the first key of a path that stands for links from a class
TOGETHER = "~"  # begins the key of a path behind which stands what several entities tell together


class Over(NamedTuple):
    """The link that evidence comes over: whose it is, its path, and what is read at its other end."""

    of: str  # the class at the other end
    link: Path  # of this class; of the class at the other end where it is incoming
    read: Path  # of the class at the other end; nothing where it is incoming
    incoming: bool = False
    told: str = ""  # where several tell it together, how: see `several`
    whole: float = 0.0  # of a rest: what all add up to


@dataclass(frozen=True)
class Slot:
    """A property of a class, or of several that share it: what stands there, and which weights and tables it has."""

    of: str  # the class; of several that share it the first
    path: Path
    leaf: Any
    kind: str  # a name in LEARNT_KINDS
    codec: Any  # a LeafCodec; one for all places of a list, and for evidence that of what is read
    role: Role
    over: Over | None  # the link, where the role is evidence
    group: int  # which weights, within its kind
    unit: int  # slots of one class with one number are parts of one composite
    count: int  # how many training entities have it
    fill: float  # the share of its class's that have it
    entropy: float  # of its values in training, in nats, by their frequencies
    counts: Mapping[str, int] = field(hash=False)  # how many training entities of each class have it; none of evidence

    @property
    def keys(self) -> Path:
        """The class and the path: what the slot is known by."""
        return (self.of, *self.path)

    @property
    def fixed(self) -> bool:
        """Whether it is never hidden by itself, nor predicted."""
        return self.role != "value"


class Source(NamedTuple):
    """What one leaf codec is fitted to: a class's path, any place of a list; of incoming links, their first key, too."""

    of: str
    path: Path


def class_leaf() -> Category:
    """What an entity's classes are: labels."""
    return Category()


def incoming_leaf(of: str) -> Link:
    """What incoming links from a class are: links to those that they come from."""
    return Link(of or None)


class Place(NamedTuple):
    """A leaf within a class: what it is part of, and what the schema says of that."""

    leaf: Any
    property: Path  # that of the schema
    whole: Path  # of the innermost composite that is no list: what is partly there is asked for
    given: bool


def places_of(schema: Schema) -> dict[Source, Place]:
    """Every leaf of every class."""
    return {
        Source(name, leaf): Place(kind, path, whole, one.role == "given")
        for name, found in schema.classes.items()
        for path, one in found.properties.items()
        if one.role != "ignore"
        for leaf, kind, whole in _parts(path, one.kind)
    }


def _parts(path: Path, kind: Kind) -> Iterable[tuple[Path, Any, Path]]:
    """The leaves of a value, by their paths, each with the path of the innermost composite that is no list."""
    if not isinstance(kind, Composite):
        yield path, kind, path
        return
    listed = isinstance(kind, Listed | Mapped)
    for within, inner in kind.leaves().items():
        for leaf, of, whole in _parts((*path, *within), inner):
            yield leaf, of, whole if listed or len(whole) < len(leaf) else path


def counts_of(path: Path) -> tuple[tuple[Path, int], ...]:
    """Where the lists that a path goes through say how long they are, and the place that it takes in each."""
    return tuple(((*path[:at], *COUNT), key) for at, key in enumerate(path) if isinstance(key, int))


def path_key(path: Path) -> tuple[tuple[int, int, str], ...]:
    """To sort paths by: places before names."""
    return tuple((0, key, "") if isinstance(key, int) else (1, 0, key) for key in path)


def hashed(id: str) -> int:
    """32 bits of an entity's id: to draw some of several, whichever, but always the same."""
    return crc32(id.encode(errors="replace"))


# ---------------------------------------------------------------- which slots share weights


def _disjoint(counts: Mapping[Source, int], own: int, enough: int) -> set[Source]:
    return set(counts)


def _tied(counts: Mapping[Source, int], own: int, enough: int) -> set[Source]:
    return set()


def _auto(counts: Mapping[Source, int], own: int, enough: int) -> set[Source]:
    rich = {source for source, count in counts.items() if count >= enough}
    return rich if len(rich) <= own else set()


# Which of one kind's codecs have weights of their own: (values of each, most that may, values it takes) -> those.
SHARING: Mapping[str, Callable[[Mapping[Source, int], int, int], set[Source]]] = {
    "disjoint": _disjoint,
    "tied": _tied,
    "auto": _auto,
}


def groups_of(
    kinds: Mapping[Source, str], counts: Mapping[Source, int], chosen: Callable[..., set[Source]]
) -> dict[Source, int]:
    """The group of each codec: its own, in order, or the last of its kind, which the rest share."""
    groups: dict[Source, int] = {}
    for kind in LEARNT_KINDS:
        members = sorted((one for one in kinds if kinds[one] == kind), key=lambda one: (one.of, path_key(one.path)))
        own = chosen({one: counts[one] for one in members})
        first = {one: place for place, one in enumerate(each for each in members if each in own)}
        groups |= {one: first.get(one, len(first)) for one in members}
    return groups


def slot_order() -> Callable[[Slot], tuple[Any, ...]]:
    """The key to sort slots by, whatever order the schema has: by kind, group, class and path."""
    order = {name: place for place, name in enumerate(LEARNT_KINDS)}

    def key(slot: Slot) -> tuple[Any, ...]:
        over = (slot.over.of, path_key(slot.over.link), slot.over.incoming, slot.over.told) if slot.over else ()
        return order[slot.kind], slot.group, slot.of, path_key(slot.path), over

    return key
