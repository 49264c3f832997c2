"""Which of the values that an entity lacks are asked for.

    nothing   none: what a model is trained on
    gaps      a blank cell, a JSON null, a missing part of a date, a quantity or a place, what the schema requires
    all       everything that its class has and it lacks, but for what is known not to exist
    paths     what stands at these paths, or below them, wherever a class has them

What is known to exist, or does not fit, is no gap. Of a list whose length is not known the length is asked for, and
its places once it is: below a known length, places are asked for like all else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeAlias

from kbdisk.data.graph import pattern
from kbdisk.data.parse import Reading
from kbdisk.data.slots import Place, Slot, Source, counts_of
from kbdisk.entity import Path
from kbdisk.errors import SchemaError
from kbdisk.schemas.composites import show_pattern
from kbdisk.schemas.schema import Class

Ask: TypeAlias = "Callable[[Reading, Table], Iterable[int]]"


class Table:
    """The slots of one class by their paths."""

    def __init__(self, of: Class, slots: Iterable[tuple[int, Slot]], places: Mapping[Source, Place]) -> None:
        self.slot: dict[Path, int] = {}
        self.under: dict[
            Path, list[Path]
        ] = {}  # any beginning of a path, or of its pattern -> those that may be asked for
        self.partly: dict[Path, Path] = {}  # a part of a composite -> where this stands
        self.property: dict[Path, Path] = {}
        self.required = [path for path, one in of.properties.items() if one.required]
        for number, slot in slots:
            if slot.role == "evidence":
                continue
            path, place = slot.path, places[Source(of.name, pattern(slot.path))]
            self.slot[path], self.property[path] = number, place.property
            if len(place.whole) < len(path):
                self.partly[path] = path[: len(place.whole)]
            if slot.role == "value":
                for length in range(1, len(path) + 1):
                    for beginning in {path[:length], pattern(path[:length])}:
                        self.under.setdefault(beginning, []).append(path)
        self.askable = [path for path in self.slot if path in self.under and path in self.under[path]]

    def countable(self, reading: Reading, paths: Iterable[Path]) -> Iterator[int]:
        """Those of some paths that are not known, in lists where these are known to be so long."""
        leaves = reading.leaves
        for path in paths:
            counted = all(leaves.get(count, 0) > place for count, place in counts_of(path))
            if path not in leaves and counted:
                yield self.slot[path]

    def open(self, reading: Reading, paths: Iterable[Path]) -> list[Path]:
        """Those of some paths of whose properties nothing is said that is no value."""
        closed = {*reading.said, *reading.none}
        return [path for path in paths if self.property[path] not in closed] if closed else list(paths)


def _nothing(reading: Reading, table: Table) -> Iterator[int]:
    return iter(())


def _gaps(reading: Reading, table: Table) -> Iterator[int]:
    partly = {table.partly[path] for path in reading.leaves if path in table.partly}
    wanted = [table.under[path_required] for path_required in table.required if path_required in table.under]
    required = (path for paths in wanted if reading.leaves.keys().isdisjoint(paths) for path in paths)
    below = (path for gap in [*reading.gaps, *partly] for path in table.under.get(gap, ()))
    yield from table.countable(reading, [*below, *table.open(reading, required)])


def _all(reading: Reading, table: Table) -> Iterator[int]:
    yield from table.countable(reading, table.open(reading, table.askable))


ASKS: Mapping[str, Ask] = {"nothing": _nothing, "gaps": _gaps, "all": _all}


def asking(ask: str | Collection[Path], tables: Collection[Table], left_out: Mapping[tuple[str, Path], str]) -> Ask:
    """What is to be asked for, by its name or as paths; SchemaError where a path is none of the schema's."""
    if isinstance(ask, str):
        if ask not in ASKS:
            raise ValueError(f"expected {', '.join(ASKS)} or paths to ask for, got {ask!r}")
        return ASKS[ask]
    for path in ask:
        if not any(path in table.under for table in tables):
            why = next((reason for (_, one), reason in left_out.items() if one[: len(path)] == pattern(path)), None)
            given = any(path in table.slot for table in tables)
            what = "is given, and never predicted" if given else why or "no class has it"
            raise SchemaError(
                show_pattern(path), f"expected a path that can be asked for, got one that cannot: {what}."
            )

    def chosen(reading: Reading, table: Table) -> Iterator[int]:
        exact = [path for path in ask if path in table.slot and path in table.under and path not in reading.leaves]
        yield from (table.slot[path] for path in table.open(reading, exact))
        below = (path for one in ask for path in table.under.get(one, ()))
        yield from table.countable(reading, table.open(reading, below))

    return chosen
