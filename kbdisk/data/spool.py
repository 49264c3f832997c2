"""A spool: a long sequence of entities, or of their readings, in a scratch file; one block of them is in memory.

Blocks are pickles. Those are this process's own: a scratch file has no name, so nothing else can have written them. Passes in
order read each block once. What is no plain value, such as the source that entities were read from, is not written: all items
that are read back share it. What most passes do not need of a reading, its entity first of all, is in a block of its own, which is
read when somebody asks for it.

Forked processes divide the entities of a spool that are parsed by a schema. Each writes its readings to a file of its own, so that
no reading passes between processes.
"""

from __future__ import annotations

import io
import os
import pickle
import weakref
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path as FilePath
from typing import Any, Generic, NamedTuple, TypeVar, overload

from kbdisk.data.parse import Parsed, Reading, read_all
from kbdisk.data.scratch import disk_errors, scratch_file
from kbdisk.entity import Coordinate, Date, Entity, Link, Path, Quantity, Text
from kbdisk.parallel import parallel_map, usable_processes
from kbdisk.schemas.schema import Schema

MAX_ITEMS_IN_MEMORY = 50_000
ITEMS_PER_BLOCK = 128
BLOCKS_AT_ONCE = 16  # that a process parses
PLAIN = {type(None), bool, int, float, str, bytes, tuple, list, dict, set, frozenset, Decimal}
WRITTEN = PLAIN | {Entity, Reading, Parsed, Link, Text, Date, Quantity, Coordinate}  # types of what is written

Item = TypeVar("Item")


def spooled(items: Iterable[Item], folder: FilePath | None = None) -> Sequence[Item]:
    """The items as a sequence: few as a list, many as a spool in a folder."""
    remaining = iter(items)
    first = deque(islice(remaining, MAX_ITEMS_IN_MEMORY + 1))
    if len(first) <= MAX_ITEMS_IN_MEMORY:
        return list(first)
    return Spool(chain(_emptied(first), remaining), folder)


def _emptied(items: deque[Item]) -> Iterator[Item]:
    """The items; each leaves the memory when the next one is asked for."""
    while items:
        yield items.popleft()


def spooled_readings(schema: Schema, entities: Sequence[Entity], folder: FilePath | None = None) -> Sequence[Reading]:
    """The readings of the entities that a schema has a class for; those of a spool as a spool in a folder."""
    if not isinstance(entities, Spool):
        return spooled(read_all(schema, entities), folder)
    return Spool.of_readings(schema, entities, folder, usable_processes())


class Spool(Sequence[Item]):
    """Items in scratch files."""

    def __init__(self, items: Iterable[Item], folder: FilePath | None = None) -> None:
        self._begin(_Files(folder))
        remaining = iter(items)
        while block := list(islice(remaining, ITEMS_PER_BLOCK)):
            self._add(_written(self._files, block))

    @classmethod
    def of_readings(
        cls, schema: Schema, entities: Spool[Entity], folder: FilePath | None, processes: int
    ) -> Spool[Reading]:
        """The readings of the entities of a spool, which so many processes parse."""
        spool: Spool[Reading] = Spool.__new__(Spool)
        spool._begin(_Files(folder, processes, entities._files))
        parse = _Parser(schema, entities, spool._files)
        count = len(entities._blocks)
        parts = [range(start, min(start + BLOCKS_AT_ONCE, count)) for start in range(0, count, BLOCKS_AT_ONCE)]
        for blocks in parallel_map(parse, parts, processes):
            for block in blocks:
                spool._add(block)
        return spool

    def _begin(self, files: _Files) -> None:
        self._files = files
        self._blocks, self._parsed = _Blocks[Item](files), _Blocks[Parsed](files)
        self._ends = array("q")  # of each block, the number of items up to its end

    def _add(self, block: _Written) -> None:
        self._blocks.append(block.items)
        if block.parsed is not None:
            self._parsed.append(block.parsed)
        self._ends.append(len(self) + block.length)

    def _read(self, number: int) -> Sequence[Item]:
        items: list[Any] = self._blocks.read(number)
        if len(self._parsed) and type(items[0]) is tuple:
            items[:] = [
                Reading._make((*fields, SpooledParsed(self._parsed, number, place)))
                for place, fields in enumerate(items)
            ]
        return items

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Item]:
        for number in range(len(self._blocks)):
            yield from self._read(number)

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> list[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | list[Item]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(f"expected a place below {len(self)}, got {place}")
        place %= len(self)
        number = bisect_right(self._ends, place)
        return self._read(number)[place - (self._ends[number - 1] if number else 0)]


class SpooledParsed:
    """The entity and the values of a reading of a spool. They are read from its file when somebody asks for them."""

    __slots__ = ("_blocks", "_number", "_place")

    def __init__(self, blocks: _Blocks[Parsed], number: int, place: int) -> None:
        self._blocks, self._number, self._place = blocks, number, place

    def __eq__(self, other: object) -> bool:
        return self._item == (other._item if isinstance(other, SpooledParsed) else other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[Parsed], Parsed]:
        return Parsed, self._item

    @property
    def values(self) -> dict[Path, Any]:
        """Known values of whole properties."""
        return self._item.values

    @property
    def entity(self) -> Entity:
        """The entity."""
        return self._item.entity

    @property
    def _item(self) -> Parsed:
        return self._blocks.read(self._number)[self._place]


class Selection(Sequence[Item]):
    """Some items of a sequence, by their places."""

    def __init__(self, items: Sequence[Item], places: Sequence[int]) -> None:
        self.items, self.places = items, array("q", places)

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> Selection[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | Selection[Item]:
        return Selection(self.items, self.places[place]) if isinstance(place, slice) else self.items[self.places[place]]


def selected(items: Sequence[Item], places: Sequence[int], folder: FilePath | None = None) -> Sequence[Item]:
    """Some items of a sequence; of a spool a sequence of their own, as a pass over a few of its items reads all blocks."""
    if isinstance(items, Selection):
        return selected(items.items, [items.places[place] for place in places], folder)
    selection = Selection(items, places)
    return spooled(selection, folder) if isinstance(items, Spool) else selection


class _Place(NamedTuple):
    """A part of a file."""

    file: int  # its number
    start: int
    end: int


class _Written(NamedTuple):
    """Where a block of items is."""

    items: _Place
    parsed: _Place | None  # the entities and values of readings
    length: int


def _written(files: _Files, block: Sequence[Any]) -> _Written:
    """Write a block of items, or of readings."""
    if not isinstance(block[0], Reading):
        return _Written(files.append(block), None, len(block))
    parsed = files.append([Parsed(reading.values, reading.entity) for reading in block])
    return _Written(files.append([tuple(reading)[:-1] for reading in block]), parsed, len(block))


class _Parser:
    """Parses blocks of entities, and writes their readings to the file of its process."""

    def __init__(self, schema: Schema, entities: Spool[Entity], files: _Files) -> None:
        self._schema, self._entities, self._files = schema, entities, files

    def __call__(self, numbers: range) -> list[_Written]:
        """Where the readings of some blocks are."""
        self._files.take_file()
        readings = (list(read_all(self._schema, self._entities._read(number))) for number in numbers)
        return [_written(self._files, block) for block in readings if block]


class _Files:
    """Scratch files without a name, one for each process that writes, and the objects that their pickles share."""

    def __init__(self, folder: FilePath | None, processes: int = 1, like: _Files | None = None) -> None:
        """There is a file for each of so many forked processes, and one for this process. Objects that are shared in others are known."""
        self._folder = folder
        self._files = [scratch_file(folder) for _ in range(processes + 1 if processes > 1 else 1)]
        for file in self._files:
            weakref.finalize(self, file.close)
        self._shared: list[Any] = [] if like is None else list(like._shared)
        self._numbers: dict[int, int] = {} if like is None else dict(like._numbers)  # of these, by their identity
        self._size = 0  # of the file of this process
        self._process, self._own = os.getpid(), 0  # this process, and the number of its file
        self._turns = _numbers_to_take(self, processes) if processes > 1 else None

    def take_file(self) -> None:
        """Take a file for this process, if it was forked since it had one."""
        if os.getpid() == self._process or self._turns is None:
            return
        [self._own] = os.read(self._turns, 1)
        self._process, self._size = os.getpid(), 0

    def append(self, block: Sequence[Any]) -> _Place:
        """Write a block to the file of this process. ValueError in a forked one if it shares an object that others do not know."""
        pickled, known = io.BytesIO(), len(self._shared)
        _Pickler(pickled, self._shared, self._numbers).dump(block)
        if self._own and len(self._shared) > known:
            for other in self._shared[known:]:
                del self._numbers[id(other)]
            del self._shared[known:]
            raise ValueError("expected plain values, got an object that is not written")
        start, file = self._size, self._files[self._own]
        with disk_errors(self._folder):
            file.seek(start)  # after a failure the file may be longer
            file.write(pickled.getbuffer())
            file.flush()
        self._size += len(pickled.getbuffer())
        return _Place(self._own, start, self._size)

    def read(self, place: _Place) -> list[Any]:
        """A block."""
        with disk_errors(self._folder):
            pickled = self._bytes(place)
        block: list[Any] = _Unpickler(io.BytesIO(pickled), self._shared).load()
        return block

    def _bytes(self, place: _Place) -> bytes:
        """A part of a file. Forked processes share the place of a file, so none is kept where the system can do without."""
        file, size = self._files[place.file], place.end - place.start
        if hasattr(os, "pread"):
            return os.pread(file.fileno(), size, place.start)
        file.seek(place.start)
        return file.read(size)


def _numbers_to_take(files: _Files, processes: int) -> int:
    """A pipe from which each forked process reads the number of its file, from 1 on."""
    turns, write_end = os.pipe()
    weakref.finalize(files, os.close, turns)
    os.write(write_end, bytes(range(1, processes + 1)))
    os.close(write_end)
    return turns


class _Blocks(Generic[Item]):
    """Blocks of items in files. The one that was read last is in memory."""

    def __init__(self, files: _Files) -> None:
        self._files = files
        self._places = array("q")  # of each block
        self._last: tuple[int, list[Item]] = -1, []  # its number

    def __len__(self) -> int:
        return len(self._places) // PLACE_SIZE

    def append(self, place: _Place) -> None:
        """Add a block that was written."""
        self._places.extend(place)

    def read(self, number: int) -> list[Item]:
        """A block by its number."""
        if self._last[0] != number:
            place = _Place(*self._places[PLACE_SIZE * number : PLACE_SIZE * (number + 1)])
            self._last = number, self._files.read(place)
        return self._last[1]


PLACE_SIZE = len(_Place._fields)


class _Pickler(pickle.Pickler):
    """Writes a number in the place of what is not written."""

    def __init__(self, file: io.BytesIO, shared: list[Any], numbers: dict[int, int]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.shared, self.numbers = shared, numbers

    def persistent_id(self, part: Any) -> int | None:
        """The number of an object that is shared."""
        if type(part) in WRITTEN:
            return None
        if id(part) not in self.numbers:
            self.numbers[id(part)] = len(self.shared)
            self.shared.append(part)  # so that no other object has its identity
        return self.numbers[id(part)]


class _Unpickler(pickle.Unpickler):
    """Reads what a `_Pickler` has written."""

    def __init__(self, file: io.BytesIO, shared: list[Any]) -> None:
        super().__init__(file)
        self.shared = shared

    def persistent_load(self, number: Any) -> Any:
        """The shared object of a number."""
        return self.shared[number]
