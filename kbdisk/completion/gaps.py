"""The gaps of one entity: each field of its class that it lacks, with the slots to ask for; its sets with known members. No tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kbdisk.completion.fields import Field, Fields, Spot
from kbdisk.data.graph import pattern
from kbdisk.data.parse import Reading
from kbdisk.data.queries import ASKS, Table
from kbdisk.entity import Entity, Path, is_gap, walk, without_places
from kbdisk.schemas.composites.listed import COUNT
from kbdisk.schemas.composites.quantity import BARE
from kbdisk.schemas.kinds import Set
from kbdisk.schemas.schema import Class


@dataclass(eq=False)
class Gap:
    """A place of an entity without a value, or with a part of one."""

    field: Field
    path: Path
    asked: bool = False  # whether there is a place for a value, or one is required
    parts: bool = False  # whether a part of the value is known
    spots: list[Spot] = dataclasses.field(default_factory=list)
    named: set[int] = dataclasses.field(default_factory=set)  # slots that are asked for themselves
    bare: Any = None  # an amount that is given without its unit
    is_member: bool = False  # whether what lacks is a further member of a set
    members: tuple[Any, ...] = ()  # that this set has


def gaps_of(fields: Fields, reading: Reading, table: Table, made: Mapping[Path, object] | None) -> list[Gap]:
    """The fields that an entity lacks and that could be filled. A value that an earlier completion wrote (`made`) is no gap."""
    leaves, closed = reading.leaves, {*reading.occupied, *reading.absent}
    named = set(ASKS["gaps"](reading, table))
    gaps: dict[Path, Gap] = {}
    for spot in fields.spots:
        if spot.path in leaves or spot.field.top in closed:
            continue
        place = _field_and_path(spot, leaves)
        if place is None or place[0].why_not:
            continue
        field, path = place
        gap = gaps.get(path)
        if gap is None:
            gap = gaps[path] = Gap(field, path)
        gap.spots.append(spot)
        if spot.slot in named:
            gap.named.add(spot.slot)
    if made:
        gaps = {path: gap for path, gap in gaps.items() if not any(are_nested(path, filled) for filled in made)}
    partly_known = _partly_known(gaps, leaves)
    for path, gap in gaps.items():
        gap.asked, gap.parts, gap.bare = bool(gap.named), path in partly_known, leaves.get((*path, *BARE))
    return sorted(gaps.values(), key=lambda gap: fields.order[gap.field.top])


def sets_of(fields: Fields, reading: Reading, made: Mapping[Path, object] | None) -> Iterator[Gap]:
    """The sets with known members that a further one may be added to. A set that an earlier completion added to (`made`) is none."""
    closed = {*reading.occupied, *reading.absent}
    for path, field in fields.fields.items():
        members = reading.leaves.get(path)
        if field.why_not or not isinstance(field.kind, Set) or path != field.top or path in closed or not members:
            continue
        if field.kind.most is not None and len(members) >= field.kind.most:
            continue
        if not any(are_nested(path, filled) for filled in made or ()):
            yield Gap(field, path, is_member=True, members=tuple(members))


def _field_and_path(spot: Spot, leaves: Mapping[Path, object]) -> tuple[Field, Path] | None:
    """The field and the path for which a slot is asked: those of its list, where the length of the list is not known.

    None for a place beyond the end of its list.
    """
    for depth, (count, place) in enumerate(spot.counts):
        length = leaves.get(count)
        if length is None:
            of_list = spot.lists[depth]
            is_innermost = depth == len(spot.counts) - 1 and spot.path[-1:] != COUNT
            return (of_list, count[: -len(COUNT)]) if of_list is not None and is_innermost else None
        if isinstance(length, int | float) and place >= length:
            return None
    return spot.field, spot.path[: spot.length]


def _partly_known(gaps: Mapping[Path, Gap], leaves: Mapping[Path, object]) -> set[Path]:
    """The paths of the gaps that have a known part."""
    return {leaf[:length] for leaf in leaves for length in range(1, len(leaf)) if leaf[:length] in gaps}


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
