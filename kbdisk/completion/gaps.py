"""The gaps of one entity: each field of its class that it lacks, with the slots to ask for. No tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kbdisk.completion.fields import Field, Fields, Spot
from kbdisk.data.graph import pattern
from kbdisk.data.parse import Reading
from kbdisk.data.queries import ASKS, Table
from kbdisk.entity import Entity, Path, is_gap, walk, without_places
from kbdisk.schemas.composites.listed import COUNT
from kbdisk.schemas.composites.quantity import BARE
from kbdisk.schemas.schema import Class


@dataclass(eq=False)
class Gap:
    """A place of an entity without a value, or with part of one."""

    of: Field
    path: Path
    asked: bool = False  # whether there is a place for a value, or one is required
    parts: bool = False  # whether some of it is known
    spots: list[Spot] = field(default_factory=list)
    named: set[int] = field(default_factory=set)  # slots that are asked for themselves
    bare: Any = None  # an amount that is given without its unit


def gaps_of(fields: Fields, reading: Reading, table: Table, made: Mapping[Path, object] | None) -> list[Gap]:
    """What an entity lacks and could be filled; what an earlier completion wrote is no gap."""
    leaves, closed = reading.leaves, {*reading.said, *reading.none}
    named = set(ASKS["gaps"](reading, table))
    gaps: dict[Path, Gap] = {}
    for spot in fields.spots:
        if spot.path in leaves or spot.field.top in closed:
            continue
        found = _place(spot, leaves)
        if found is None or found[0].held:
            continue
        one, path = found
        gap = gaps.get(path)
        if gap is None:
            gap = gaps[path] = Gap(one, path)
        gap.spots.append(spot)
        if spot.slot in named:
            gap.named.add(spot.slot)
    if made:
        gaps = {path: gap for path, gap in gaps.items() if not any(_meet(path, one) for one in made)}
    partly = _partly(gaps, leaves)
    for path, gap in gaps.items():
        gap.asked, gap.parts, gap.bare = bool(gap.named), path in partly, leaves.get((*path, *BARE))
    return sorted(gaps.values(), key=lambda gap: fields.order[gap.of.top])


def _place(spot: Spot, leaves: Mapping[Path, object]) -> tuple[Field, Path] | None:
    """What a slot is asked for as a part of: its list, where the length of this is not known; None for a list's beyond."""
    for turn, (count, place) in enumerate(spot.counts):
        length = leaves.get(count)
        if length is None:
            own = spot.lists[turn]
            last = turn == len(spot.counts) - 1 and spot.path[-1:] != COUNT
            return (own, count[: -len(COUNT)]) if own is not None and last else None
        if isinstance(length, int | float) and place >= length:
            return None
    return spot.field, spot.path[: spot.length]


def _partly(gaps: Mapping[Path, Gap], leaves: Mapping[Path, object]) -> set[Path]:
    """Those that something is known of."""
    return {leaf[:length] for leaf in leaves for length in range(1, len(leaf)) if leaf[:length] in gaps}


def _meet(one: Path, other: Path) -> bool:
    least = min(len(one), len(other))
    return one[:least] == other[:least]


def known_properties(fields: Fields, reading: Reading, made: Mapping[Path, object] | None) -> set[Path]:
    """The properties that something is known of, if only that there is none."""
    at = fields.property
    known = {at[leaf] for path in reading.leaves if (leaf := pattern(path)) in at}
    return {
        *known,
        *reading.said,
        *reading.none,
        *(path for one in made or () for path in fields.of.properties if _meet(path, one)),
    }


def passed_over(of: Class, entity: Entity) -> Iterator[tuple[Path, bool]]:
    """The gaps of an entity that are of nothing its class has, or of what that ignores: the latter is told by each."""
    for path, value in walk(entity.tree):
        if is_gap(value) and path not in (entity.made or ()):
            names = without_places(path)
            heads = (of.properties.get(names[:length]) for length in range(1, len(names) + 1))
            is_ignored = any(one is not None and one.role == "ignore" for one in heads)
            if is_ignored or not of.knows(names):
                yield names, is_ignored
