"""Values that there are. The parts of one are drawn one by one, each for itself likely; together they may be none.

30, and February; 900, and kg, where no more than 1,000 g are. A composite that has `mended` says what comes nearest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from kbdisk.data.graph import pattern
from kbdisk.data.slots import Slot, Source
from kbdisk.entity import Path
from kbdisk.schemas.composites import Composite, Kind
from kbdisk.schemas.schema import Schema

Leaves = dict[Path, Any]


@runtime_checkable
class Mends(Protocol):
    """A composite whose parts bound each other."""

    def mended(self, parts: Mapping[str, Any], free: frozenset[str]) -> Mapping[str, Any]:
        """The parts, those that are free such that the value is one; without those that it is better without."""


class Mending:
    """The values of a schema's classes whose parts bound each other, and which slots are such parts."""

    def __init__(self, schema: Schema, slots: Sequence[Slot]) -> None:
        self.kinds = {
            Source(name, path): kind
            for name, found in schema.classes.items()
            for at, one in found.properties.items()
            for path, kind in _mending(at, one.kind)
        }
        self.is_part: npt.NDArray[np.bool_] = np.array(
            [slot.role != "evidence" and Source(slot.of, pattern(slot.path[:-1])) in self.kinds for slot in slots], bool
        )

    def mend(self, of: str, drawn: Leaves, beside: Mapping[Path, Any]) -> None:
        """Make values that there are of what was drawn for an entity and what it has beside that."""
        for whole in {path[:-1] for path in drawn}:
            kind = self.kinds.get(Source(of, pattern(whole)))
            if kind is not None:
                free = frozenset(str(path[-1]) for path in drawn if path[:-1] == whole)
                parts = {str(path[-1]): part for path, part in (*beside.items(), *drawn.items()) if path[:-1] == whole}
                mended = kind.mended(parts, free)
                for name in free:
                    if name in mended:
                        drawn[(*whole, name)] = mended[name]
                    else:
                        del drawn[(*whole, name)]


def _mending(path: Path, kind: Kind) -> Iterator[tuple[Path, Mends]]:
    """What mends within a value, any place of a list."""
    if isinstance(kind, Mends):
        yield path, kind
    elif isinstance(kind, Composite):
        for within, inner in kind.leaves().items():
            yield from _mending((*path, *within), inner)
