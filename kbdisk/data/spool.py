"""A spool: a long sequence of entities, or of their readings, in a scratch file; one block of them is in memory.

Blocks are pickles. Those are this process's own: a scratch file has no name, so nothing else can have written them. Passes in
order read each block once. What is no plain value, such as the source that entities were read from, is not written: all items
that are read back share it. What most passes do not need of a reading, its entity first of all, is in a block of its own, which is
read when somebody asks for it.
"""

from __future__ import annotations

import io
import os
import pickle
import weakref
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path as FilePath
from typing import Any, Generic, TypeVar, overload

from kbdisk.data.parse import Parsed, Reading
from kbdisk.data.scratch import disk_errors, scratch_file
from kbdisk.entity import Coordinate, Date, Entity, Link, Path, Quantity, Text

MAX_ITEMS_IN_MEMORY = 50_000
ITEMS_PER_BLOCK = 128
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


class Spool(Sequence[Item]):
    """Items in a scratch file."""

    def __init__(self, items: Iterable[Item], folder: FilePath | None = None) -> None:
        file = _File(folder)
        self._blocks, self._parsed = _Blocks[Item](file), _Blocks[Parsed](file)
        self._length = 0
        remaining = iter(items)
        while block := list(islice(remaining, ITEMS_PER_BLOCK)):
            self._write(block)

    def _write(self, block: Sequence[Any]) -> None:
        if isinstance(block[0], Reading):
            self._parsed.append([Parsed(reading.values, reading.entity) for reading in block])
            block = [tuple(reading)[:-1] for reading in block]
        self._blocks.append(block)
        self._length += len(block)

    def _read(self, number: int) -> Sequence[Item]:
        items: list[Any] = self._blocks.read(number)
        if len(self._parsed) and type(items[0]) is tuple:
            items[:] = [
                Reading._make((*fields, SpooledParsed(self._parsed, number, place)))
                for place, fields in enumerate(items)
            ]
        return items

    def __len__(self) -> int:
        return self._length

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
        number, within = divmod(place % len(self), ITEMS_PER_BLOCK)
        return self._read(number)[within]


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
        self._items, self._places = items, array("q", places)

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> Selection[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | Selection[Item]:
        return (
            Selection(self._items, self._places[place])
            if isinstance(place, slice)
            else self._items[self._places[place]]
        )


def selected(items: Sequence[Item], places: Sequence[int], folder: FilePath | None = None) -> Sequence[Item]:
    """Some items of a sequence; of a spool a sequence of their own, as a pass over a few of its items reads all blocks."""
    selection = Selection(items, places)
    return spooled(selection, folder) if isinstance(items, Spool) else selection


class _File:
    """A scratch file without a name, and the objects that its pickles share."""

    def __init__(self, folder: FilePath | None) -> None:
        self._file, self._folder = scratch_file(folder), folder
        weakref.finalize(self, self._file.close)
        self._shared: list[Any] = []
        self._numbers: dict[int, int] = {}  # of shared objects, by their identity
        self._size = 0

    def append(self, block: Sequence[Any]) -> tuple[int, int]:
        """Write a block; where it starts and ends."""
        pickled = io.BytesIO()
        _Pickler(pickled, self._shared, self._numbers).dump(block)
        start = self._size
        with disk_errors(self._folder):
            self._file.write(pickled.getbuffer())
            self._file.flush()
        self._size += len(pickled.getbuffer())
        return start, self._size

    def read(self, start: int, end: int) -> list[Any]:
        """A block."""
        with disk_errors(self._folder):
            pickled = self._bytes(start, end)
        block: list[Any] = _Unpickler(io.BytesIO(pickled), self._shared).load()
        return block

    def _bytes(self, start: int, end: int) -> bytes:
        """A part of the file. Forked processes share the place of a file, so none is kept where the system can do without."""
        if hasattr(os, "pread"):
            return os.pread(self._file.fileno(), end - start, start)
        self._file.seek(start)
        return self._file.read(end - start)


class _Blocks(Generic[Item]):
    """Blocks of items in a file. The one that was read last is in memory."""

    def __init__(self, file: _File) -> None:
        self._file = file
        self._places = array("q")  # where each starts and ends
        self._last: tuple[int, list[Item]] = -1, []  # its number

    def __len__(self) -> int:
        return len(self._places) // 2

    def append(self, block: Sequence[Item]) -> None:
        """Write a block."""
        self._places.extend(self._file.append(block))

    def read(self, number: int) -> list[Item]:
        """A block by its number."""
        if self._last[0] != number:
            self._last = number, self._file.read(*self._places[2 * number : 2 * number + 2])
        return self._last[1]


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
