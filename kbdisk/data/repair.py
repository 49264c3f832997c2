"""Repair of decoded values: composites whose parts bound each other, and lists and maps.

The parts of a composite are drawn one by one, each likely by itself; together they may be no value, such as February 30.
A composite that has `mended` gives the nearest value. The length of a list is drawn before its items. An item beyond a
known length is dropped, and so is a length without items; a given empty list or map is a value. Each entry of a map has a
key, and no two have the same. Given values always stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from kbdisk.data.graph import pattern
from kbdisk.data.slots import Slot, Source
from kbdisk.entity import Path
from kbdisk.schemas.composites import Composite, Kind
from kbdisk.schemas.composites.listed import COUNT, Listed
from kbdisk.schemas.composites.mapped import KEY, Mapped
from kbdisk.schemas.schema import Schema

Leaves: TypeAlias = dict[Path, Any]


# ---------------------------------------------------------------- composites


@runtime_checkable
class Repairable(Protocol):
    """A composite whose parts bound each other."""

    def mended(self, parts: Mapping[str, Any], free: frozenset[str]) -> Mapping[str, Any]:
        """The parts, with the free ones changed or left out such that they are a value."""


class CompositeRepair:
    """Repairs the composites of a schema's classes, and knows which slots are their parts."""

    def __init__(self, schema: Schema, slots: Sequence[Slot]) -> None:
        self.kinds = {
            Source(name, path): kind
            for name, entity_class in schema.classes.items()
            for at, property in entity_class.properties.items()
            for path, kind in _repairable(at, property.kind)
        }
        self.is_part: npt.NDArray[np.bool_] = np.array(
            [
                slot.role != "evidence" and Source(slot.class_name, pattern(slot.path[:-1])) in self.kinds
                for slot in slots
            ],
            bool,
        )

    def repair(self, class_name: str, drawn: Leaves, beside: Mapping[Path, Any]) -> None:
        """Repairs what was drawn for an entity, in place, beside its known parts."""
        for composite in {path[:-1] for path in drawn}:
            kind = self.kinds.get(Source(class_name, pattern(composite)))
            if kind is not None:
                free = frozenset(str(path[-1]) for path in drawn if path[:-1] == composite)
                leaves = (*beside.items(), *drawn.items())
                parts = {str(path[-1]): part for path, part in leaves if path[:-1] == composite}
                repaired = kind.mended(parts, free)
                for name in free:
                    if name in repaired:
                        drawn[(*composite, name)] = repaired[name]
                    else:
                        del drawn[(*composite, name)]


def _repairable(path: Path, kind: Kind) -> Iterator[tuple[Path, Repairable]]:
    """The repairable composites of a value, at any place of a list."""
    if isinstance(kind, Repairable):
        yield path, kind
    elif isinstance(kind, Composite):
        for within, inner in kind.leaves().items():
            yield from _repairable((*path, *within), inner)


# ---------------------------------------------------------------- lists and maps


class ListRepair:
    """Repairs the lists and maps of a schema's classes."""

    def __init__(self, schema: Schema) -> None:
        self.is_map = {
            Source(name, at): isinstance(kind, Mapped)
            for name, entity_class in schema.classes.items()
            for path, property in entity_class.properties.items()
            for at, kind in _lists(path, property.kind)
        }

    def repair(self, class_name: str, leaves: Leaves, given: Collection[Path]) -> None:
        """Repairs an entity's leaves, some of which are given, in place."""
        prefixes = {path[:at] for path in leaves for at in range(1, len(path))}
        for prefix in sorted(prefixes, key=len, reverse=True):  # inner lists before outer ones
            is_map = self.is_map.get(Source(class_name, pattern(prefix)))
            if is_map is not None:
                _repair_list(prefix, is_map, leaves, given)


def _repair_list(prefix: Path, is_map: bool, leaves: Leaves, given: Collection[Path]) -> None:
    at, count = len(prefix), (*prefix, *COUNT)
    within = {path: leaves[path] for path in leaves if path[:at] == prefix and isinstance(path[at], int)}
    length = leaves.get(count)
    items = [item for item in sorted({int(path[at]) for path in within}) if length is None or item < length]
    kept = _with_key(items, at, within, given) if is_map else items
    number = {item: turn if is_map else item for turn, item in enumerate(kept)}
    for path, value in within.items():
        del leaves[path]
        if path[at] in number:
            leaves[(*prefix, number[int(path[at])], *path[at + 1 :])] = value
    if length and not kept and count not in given:
        del leaves[count]
    elif length is not None and is_map:
        leaves[count] = len(kept)


def _with_key(entries: list[int], at: int, within: Leaves, given: Collection[Path]) -> list[int]:
    """The entries of a map that have a key of their own; of equal keys a given one comes first."""
    keys: dict[int, list[Path]] = {}
    for path in within:
        if path[at + 1] == KEY:
            keys.setdefault(int(path[at]), []).append(path)
    owner: dict[Any, int] = {}
    for entry in sorted((entry for entry in entries if entry in keys), key=lambda entry: keys[entry][0] not in given):
        owner.setdefault(tuple((path[at + 2 :], str(within[path])) for path in keys[entry]), entry)
    return sorted(owner.values())


def _lists(path: Path, kind: Kind) -> Iterator[tuple[Path, Kind]]:
    """The lists and maps of a value, at any place of a list."""
    if isinstance(kind, Listed | Mapped):
        yield path, kind
    if isinstance(kind, Composite):
        for within, inner in kind.leaves().items():
            yield from _lists((*path, *within), inner)
