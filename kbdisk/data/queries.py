"""Queries: which of the values that an entity lacks are asked for.

    nothing   none: for training
    gaps      blank cells, JSON null, missing parts of dates, quantities and places, properties that the schema requires
    all       every property that its class has and it lacks, except those known not to exist
    paths     properties at these paths, or below them, wherever a class has them

A property that is known to exist, or whose value does not fit, is no gap. Of a list of unknown length the length is asked
for; below a known length, places are asked for like any other value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeAlias

from kbdisk.data.graph import pattern
from kbdisk.data.parse import Reading
from kbdisk.data.slots import LeafSpec, Slot, Source, counts_of
from kbdisk.entity import Path
from kbdisk.errors import SchemaError
from kbdisk.schemas.composites import show_pattern
from kbdisk.schemas.schema import Class

Ask: TypeAlias = "Callable[[Reading, Table], Iterable[int]]"


class Table:
    """The slots of one class by their paths."""

    def __init__(
        self, schema_class: Class, slots: Iterable[tuple[int, Slot]], places: Mapping[Source, LeafSpec]
    ) -> None:
        self.slot: dict[Path, int] = {}
        self.under: dict[Path, list[Path]] = {}  # beginning of a path, or of its pattern -> paths that may be asked for
        self.composite: dict[Path, Path] = {}  # a part of a composite -> the path of the composite
        self.property: dict[Path, Path] = {}
        self.required = [path for path, property in schema_class.properties.items() if property.required]
        for number, slot in slots:
            if slot.role == "evidence":
                continue
            path, place = slot.path, places[Source(schema_class.name, pattern(slot.path))]
            self.slot[path], self.property[path] = number, place.property
            if len(place.composite) < len(path):
                self.composite[path] = path[: len(place.composite)]
            if slot.role == "value":
                for length in range(1, len(path) + 1):
                    for beginning in {path[:length], pattern(path[:length])}:
                        self.under.setdefault(beginning, []).append(path)
        self.askable = [path for path in self.slot if path in self.under and path in self.under[path]]

    def countable(self, reading: Reading, paths: Iterable[Path]) -> Iterator[int]:
        """The slots of those paths that are not known; in a list, of places below its known length."""
        leaves = reading.leaves
        for path in paths:
            counted = all(leaves.get(count, 0) > place for count, place in counts_of(path))
            if path not in leaves and counted:
                yield self.slot[path]

    def open(self, reading: Reading, paths: Iterable[Path]) -> list[Path]:
        """The paths whose properties are neither occupied nor known to be absent."""
        closed = {*reading.occupied, *reading.absent}
        return [path for path in paths if self.property[path] not in closed] if closed else list(paths)


def _nothing(reading: Reading, table: Table) -> Iterator[int]:
    return iter(())


def _gaps(reading: Reading, table: Table) -> Iterator[int]:
    partial = {table.composite[path] for path in reading.leaves if path in table.composite}
    wanted = [table.under[path_required] for path_required in table.required if path_required in table.under]
    required = (path for paths in wanted if reading.leaves.keys().isdisjoint(paths) for path in paths)
    below = (path for gap in [*reading.gaps, *partial] for path in table.under.get(gap, ()))
    yield from table.countable(reading, [*below, *table.open(reading, required)])


def _all(reading: Reading, table: Table) -> Iterator[int]:
    yield from table.countable(reading, table.open(reading, table.askable))


ASKS: Mapping[str, Ask] = {"nothing": _nothing, "gaps": _gaps, "all": _all}


def asking(ask: str | Collection[Path], tables: Collection[Table], left_out: Mapping[tuple[str, Path], str]) -> Ask:
    """The query of a name, or of paths; SchemaError for a path that the schema does not have."""
    if isinstance(ask, str):
        if ask not in ASKS:
            raise ValueError(f"expected {', '.join(ASKS)} or paths to ask for, got {ask!r}")
        return ASKS[ask]
    for path in ask:
        if not any(path in table.under for table in tables):
            prefix = pattern(path)
            reason = next(
                (why for (_, left), why in left_out.items() if left[: len(path)] == prefix), "no class has it"
            )
            if any(path in table.slot for table in tables):
                reason = "is given, and never predicted"
            raise SchemaError(
                show_pattern(path), f"expected a path that can be asked for, got one that cannot: {reason}."
            )

    def chosen(reading: Reading, table: Table) -> Iterator[int]:
        exact = [path for path in ask if path in table.slot and path in table.under and path not in reading.leaves]
        yield from (table.slot[path] for path in table.open(reading, exact))
        below = (path for beginning in ask for path in table.under.get(beginning, ()))
        yield from table.countable(reading, table.open(reading, below))

    return chosen
