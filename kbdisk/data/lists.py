"""Lists and maps that there are. Of one whose length was asked for, how long it is is drawn before what stands in it.

A length alone is no value: a shell with nothing in it is left out, while an empty list or map is one. Nothing stands
beyond a known length; an entry of a map has a key, and no two have the same. What is given always stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from kbdisk.data.graph import pattern
from kbdisk.data.repair import Leaves
from kbdisk.data.slots import Source
from kbdisk.entity import Path
from kbdisk.schemas.composites import Composite, Kind
from kbdisk.schemas.composites.listed import COUNT, Listed
from kbdisk.schemas.composites.mapped import KEY, Mapped
from kbdisk.schemas.schema import Schema


class Lists:
    """Where a schema's classes have lists and maps."""

    def __init__(self, schema: Schema) -> None:
        self.is_map = {
            Source(name, at): isinstance(kind, Mapped)
            for name, found in schema.classes.items()
            for path, one in found.properties.items()
            for at, kind in _listed(path, one.kind)
        }

    def mend(self, of: str, leaves: Leaves, given: Collection[Path]) -> None:
        """Make lists and maps that there are of an entity's leaves, of which some are given."""
        met = {path[:at] for path in leaves for at in range(1, len(path))}
        for prefix in sorted(met, key=len, reverse=True):  # what is within a list before the list
            is_map = self.is_map.get(Source(of, pattern(prefix)))
            if is_map is not None:
                _mend(prefix, is_map, leaves, given)


def _mend(prefix: Path, is_map: bool, leaves: Leaves, given: Collection[Path]) -> None:
    at, count = len(prefix), (*prefix, *COUNT)
    within = {path: leaves[path] for path in leaves if path[:at] == prefix and isinstance(path[at], int)}
    length = leaves.get(count)
    places = [place for place in sorted({int(path[at]) for path in within}) if length is None or place < length]
    kept = _keyed(places, at, within, given) if is_map else places
    number = {place: turn if is_map else place for turn, place in enumerate(kept)}
    for path, value in within.items():
        del leaves[path]
        if path[at] in number:
            leaves[(*prefix, number[int(path[at])], *path[at + 1 :])] = value
    if length and not kept and count not in given:
        del leaves[count]
    elif length is not None and is_map:
        leaves[count] = len(kept)


def _keyed(places: list[int], at: int, within: Leaves, given: Collection[Path]) -> list[int]:
    """Those of the places in a map that have a key, and one that no other has; a given one has it before others."""
    keys: dict[int, list[Path]] = {}
    for path in within:
        if path[at + 1] == KEY:
            keys.setdefault(int(path[at]), []).append(path)
    owner: dict[Any, int] = {}
    for place in sorted((place for place in places if place in keys), key=lambda place: keys[place][0] not in given):
        owner.setdefault(tuple((path[at + 2 :], str(within[path])) for path in keys[place]), place)
    return sorted(owner.values())


def _listed(path: Path, kind: Kind) -> Iterator[tuple[Path, Kind]]:
    """The lists and maps of a value, any place of a list."""
    if isinstance(kind, Listed | Mapped):
        yield path, kind
    if isinstance(kind, Composite):
        for within, inner in kind.leaves().items():
            yield from _listed((*path, *within), inner)
