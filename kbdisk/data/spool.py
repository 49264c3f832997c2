"""A spool: a long sequence of entities, or of their readings, in a scratch file; one block of them is in memory.

Blocks are pickles. Those are this process's own: a scratch file has no name, so nothing else can have written them. Passes in
order read each block once. What is no plain value, such as the source that entities were read from, is not written: all items
that are read back share it.
"""

from __future__ import annotations

import io
import os
import pickle
import weakref
from array import array
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path as FilePath
from typing import Any, TypeVar, overload

from kbdisk.data.parse import Reading
from kbdisk.data.scratch import disk_errors, scratch_file
from kbdisk.entity import Coordinate, Date, Entity, Link, Quantity, Text

MAX_ITEMS_IN_MEMORY = 50_000
ITEMS_PER_BLOCK = 128
PLAIN = {type(None), bool, int, float, str, bytes, tuple, list, dict, set, frozenset, Decimal}
WRITTEN = PLAIN | {Entity, Reading, Link, Text, Date, Quantity, Coordinate}  # types of what is written

Item = TypeVar("Item")


def spooled(items: Iterable[Item], folder: FilePath | None = None) -> Sequence[Item]:
    """The items as a sequence: few as a list, many as a spool in a folder."""
    remaining = iter(items)
    first = list(islice(remaining, MAX_ITEMS_IN_MEMORY + 1))
    return first if len(first) <= MAX_ITEMS_IN_MEMORY else Spool(chain(first, remaining), folder)


class Spool(Sequence[Item]):
    """Items in a scratch file."""

    def __init__(self, items: Iterable[Item], folder: FilePath | None = None) -> None:
        self._file, self._folder = scratch_file(folder), folder
        weakref.finalize(self, self._file.close)
        self._shared: list[Any] = []
        self._numbers: dict[int, int] = {}  # of shared objects, by their identity
        self._ends = array("q", [0])  # of the blocks in the file
        self._length = 0
        self._block: tuple[int, list[Item]] = -1, []  # the one that was read last, and its number
        remaining = iter(items)
        while block := list(islice(remaining, ITEMS_PER_BLOCK)):
            self._write(block)

    def _write(self, block: list[Item]) -> None:
        pickled = io.BytesIO()
        _Pickler(pickled, self._shared, self._numbers).dump(block)
        with disk_errors(self._folder):
            self._file.write(pickled.getbuffer())
            self._file.flush()
        self._ends.append(self._ends[-1] + len(pickled.getbuffer()))
        self._length += len(block)

    def _read(self, number: int) -> list[Item]:
        if self._block[0] != number:
            with disk_errors(self._folder):
                pickled = self._bytes(self._ends[number], self._ends[number + 1])
            self._block = number, _Unpickler(io.BytesIO(pickled), self._shared).load()
        return self._block[1]

    def _bytes(self, start: int, end: int) -> bytes:
        """A part of the file. Forked processes share the place of a file, so none is kept where the system can do without."""
        if hasattr(os, "pread"):
            return os.pread(self._file.fileno(), end - start, start)
        self._file.seek(start)
        return self._file.read(end - start)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Item]:
        for number in range(len(self._ends) - 1):
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
    """Some items of a sequence; of a spool a spool of their own, as a pass over a few of its items reads all blocks."""
    selection = Selection(items, places)
    return Spool(selection, folder) if isinstance(items, Spool) else selection


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
