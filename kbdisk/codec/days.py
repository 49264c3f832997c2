"""Days that there are. A date's parts are drawn one by one, so 30 and February may both come out: the drawn ones give way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kbdisk.codec.slots import Slot, Source
from kbdisk.entity import Date, Path
from kbdisk.graph import pattern
from kbdisk.schemas.composites import Composite, Kind
from kbdisk.schemas.composites.date import NUMBERS, nearest
from kbdisk.schemas.composites.date import Date as DateKind
from kbdisk.schemas.schema import Schema

Leaves = dict[Path, Any]


class Days:
    """The dates of a schema's classes, and which slots are parts of one."""

    def __init__(self, schema: Schema, slots: Sequence[Slot]) -> None:
        self.kinds = {
            Source(name, path): kind
            for name, found in schema.classes.items()
            for at, one in found.properties.items()
            for path, kind in _dates(at, one.kind)
        }
        self.is_part: npt.NDArray[np.bool_] = np.array(
            [slot.role != "evidence" and Source(slot.of, pattern(slot.path[:-1])) in self.kinds for slot in slots], bool
        )

    def mend(self, of: str, drawn: Leaves, beside: Mapping[Path, Any]) -> None:
        """Make days that there are of what was drawn for an entity and what it has beside that."""
        for whole in {path[:-1] for path in drawn}:
            kind = self.kinds.get(Source(of, pattern(whole)))
            if kind is not None:
                free = [name for name in NUMBERS if (*whole, name) in drawn]
                told = {name: drawn.get((*whole, name), beside.get((*whole, name))) for name in NUMBERS}
                day = nearest(Date(**told), free, kind.minimum, kind.maximum)
                for name in free:
                    mended = getattr(day, name)
                    if mended is None:
                        del drawn[(*whole, name)]
                    else:
                        drawn[(*whole, name)] = mended


def _dates(path: Path, kind: Kind) -> Iterator[tuple[Path, DateKind]]:
    """The dates within a value, any place of a list."""
    if isinstance(kind, DateKind):
        yield path, kind
    elif isinstance(kind, Composite):
        for within, inner in kind.leaves().items():
            yield from _dates((*path, *within), inner)
