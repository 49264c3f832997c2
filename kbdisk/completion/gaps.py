"""The gaps of one entity: each field of its class that it lacks, with the slots to ask for; its sets with known members. No tensors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kbdisk.completion.fields import Field, Fields, Spot
from kbdisk.data.graph import pattern
from kbdisk.data.parse import Reading
from kbdisk.data.queries import ASKS, Table
from kbdisk.entity import Entity, Path, is_gap, walk, without_places
from kbdisk.schemas.composites.quantity import BARE
from kbdisk.schemas.schema import Class

NO_SLOTS: frozenset[int] = frozenset()


@dataclass(eq=False)
class Gap:
    """A place of an entity without a value, or with a part of one."""

    field: Field
    path: Path
    asked: bool = False  # whether there is a place for a value, or one is required
    parts: bool = False  # whether a part of the value is known
    spots: Sequence[Spot] = ()
    named: Collection[int] = ()  # slots that are asked for themselves
    bare: Any = None  # an amount that is given without its unit
    is_member: bool = False  # whether what lacks is a further member of a set
    members: tuple[Any, ...] = ()  # that this set has


def gaps_of(
    fields: Fields, reading: Reading, table: Table, made: Mapping[Path, object] | None, only: Path | None = None
) -> list[Gap]:
    """The fields that an entity lacks and that could be filled; with `only` those of one property.

    A value that an earlier completion wrote (`made`) is no gap.
    """
    leaves, closed = reading.leaves, {*reading.occupied, *reading.absent}
    named = set(ASKS["gaps"](reading, table))
    above_known = {leaf[:length] for leaf in leaves for length in range(1, len(leaf))}
    gaps: list[Gap] = []
    for top, places in fields.open_places(leaves, above_known, only):
        for field, path, spots in places if top not in closed else ():
            if made and any(are_nested(path, filled) for filled in made):
                continue
            asked = {spot.slot for spot in spots if spot.slot in named} if named else NO_SLOTS
            bare = leaves.get((*path, *BARE)) if path in above_known else None
            gaps.append(Gap(field, path, bool(asked), path in above_known, spots, asked, bare))
    return gaps


def sets_of(fields: Fields, reading: Reading, made: Mapping[Path, object] | None) -> Iterator[Gap]:
    """The sets with known members that a further one may be added to. A set that an earlier completion added to (`made`) is none."""
    closed = {*reading.occupied, *reading.absent}
    for path, field in fields.sets.items():
        members = reading.leaves.get(path)
        if not members or path in closed:
            continue
        if field.kind.most is not None and len(members) >= field.kind.most:
            continue
        if not any(are_nested(path, filled) for filled in made or ()):
            yield Gap(field, path, is_member=True, members=tuple(members))


def are_nested(path: Path, other: Path) -> bool:
    """Whether two paths are equal, or either begins with the other."""
    shorter = min(len(path), len(other))
    return path[:shorter] == other[:shorter]


def known_properties(fields: Fields, reading: Reading, made: Mapping[Path, object] | None) -> set[Path]:
    """The properties that have a known part, were filled in before (`made`), or are declared absent."""
    property_of = fields.property_of
    known = {property_of[leaf] for path in reading.leaves if (leaf := pattern(path)) in property_of}
    return {
        *known,
        *reading.occupied,
        *reading.absent,
        *(path for filled in made or () for path in fields.schema_class.properties if are_nested(path, filled)),
    }


def unlearnt_gaps(schema_class: Class, entity: Entity) -> Iterator[tuple[Path, bool]]:
    """The gaps of an entity at paths that its class does not have, or ignores; with each, whether the class ignores it."""
    for path, value in walk(entity.tree):
        if is_gap(value) and path not in (entity.made or ()):
            names = without_places(path)
            heads = (schema_class.properties.get(names[:length]) for length in range(1, len(names) + 1))
            is_ignored = any(known is not None and known.role == "ignore" for known in heads)
            if is_ignored or not schema_class.knows(names):
                yield names, is_ignored
