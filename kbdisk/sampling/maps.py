"""Maps of drawn entries: each has a key, and no two have the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kbdisk.data.graph import pattern
from kbdisk.entity import Path
from kbdisk.schemas.composites import Composite
from kbdisk.schemas.composites.listed import COUNT
from kbdisk.schemas.composites.mapped import KEY, Mapped
from kbdisk.schemas.schema import Class


def maps(found: Class, leaves: Mapping[Path, Any]) -> set[Path]:
    """Where an entity has maps."""
    within = {
        path[:at] for path in leaves for at in range(len(path)) if isinstance(path[at], int) or path[at:] == COUNT
    }
    if not within:  # as most have none, which takes no looking at every kind
        return within
    kinds = {at for path, one in found.properties.items() for at in _mapped(path, one.kind)}
    return {prefix for prefix in within if pattern(prefix) in kinds}


def _mapped(path: Path, kind: Any) -> Iterator[Path]:
    if isinstance(kind, Mapped):
        yield path
    if isinstance(kind, Composite):
        for within, inner in kind.leaves().items():
            yield from _mapped((*path, *within), inner)


def distinct(leaves: dict[Path, Any], prefix: Path) -> None:
    """Leave out the entries of a map without a key, or with one that another has."""
    at = len(prefix)
    entries: dict[Any, dict[Path, Any]] = {}
    for path in [path for path in leaves if path[:at] == prefix and isinstance(path[at], int)]:
        entries.setdefault(path[at], {})[path[at + 1 :]] = leaves.pop(path)
    kept = {entry[KEY,]: entry for place, entry in sorted(entries.items(), reverse=True) if (KEY,) in entry}
    for place, entry in enumerate(reversed(kept.values())):
        leaves |= {(*prefix, place, *rest): value for rest, value in entry.items()}
    leaves[*prefix, *COUNT] = len(kept)
