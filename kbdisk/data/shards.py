"""Data sets in shards: `Tokens` put together from the tokens of some entities at a time, memory-mapped where they are many.

Arrays of tokens have the smallest integers that hold their values. Those of few entities stay in memory. Those of many are
written to scratch files in a folder beside the run, and mapped into memory: the operating system reads the pages that a batch
needs, and takes them back when memory is short.

N entities   T tokens   S slots   R rows of codes
"""

from __future__ import annotations

import weakref
from pathlib import Path as FilePath
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kbdisk.data.dataset import DIVIDED, Codes, Layout, RaggedCodes, Tokens
from kbdisk.data.scratch import disk_errors, scratch_file

ENTITIES_PER_SHARD = 4096
MAX_ENTITIES_IN_MEMORY = 20_000
ROWS_WIDENED_AT_ONCE = 1 << 20
OF_ENTITIES = ("id_hash", "classes")
OF_TOKENS = ("known", "unit", "needs", "held")
INDICES = ("slot", "row")  # of tokens, too: torch takes no indices below int32
INTEGERS = (np.int8, np.int16, np.int32, np.int64)

Array = npt.NDArray[Any]


class ShardedTokens:
    """Puts a data set together from the tokens of its shards."""

    def __init__(self, folder: FilePath | None = None) -> None:
        """Files are in the `folder`; without one in the system's folder for temporary files."""
        self._folder = folder
        self._layout: Layout | None = None
        self._ids: list[str] = []
        self._unread: list[str] = []
        self._arrays = {name: GrowingArray(np.int64) for name in (*OF_ENTITIES, *DIVIDED)}
        self._arrays |= {name: GrowingArray(np.int32) for name in INDICES}
        self._arrays |= {name: GrowingArray() for name in OF_TOKENS}
        self._codes: dict[str, GrowingCodes] = {}

    def append(self, shard: Tokens) -> None:
        """Add the tokens of some entities, all of one codec."""
        if self._layout is None:
            self._layout = shard.layout
            self._codes = {kind: GrowingCodes(codes) for kind, codes in shard.codes.items()}
            for name in DIVIDED:
                self._arrays[name].append(np.zeros(1, np.int64))
        if len(self._ids) + len(shard.ids) > MAX_ENTITIES_IN_MEMORY:
            for array in self._arrays.values():
                array.move_to_file(self._folder)
            for of_kind in self._codes.values():
                of_kind.move_to_file(self._folder)
        self._ids += shard.ids
        self._unread += shard.unread
        for name, (divided, *_) in DIVIDED.items():
            self._arrays[name].append(getattr(shard, name)[1:].numpy() + len(self._arrays[divided]))
        for name in (*OF_ENTITIES, *OF_TOKENS, "slot"):
            self._arrays[name].append(getattr(shard, name).numpy())
        self._arrays["row"].append(self._rows(shard).numpy())
        for kind, codes in shard.codes.items():
            self._codes[kind].append(codes)

    def _rows(self, shard: Tokens) -> Tensor:
        """(T,) the rows of a shard's tokens among the codes of all shards."""
        before = torch.zeros(len(shard.layout.fixed), dtype=torch.long)  # (S,) codes of the kind
        for kind, (start, end) in shard.layout.spans.items():
            before[start:end] = len(self._codes[kind])
        return torch.where(shard.row > 0, shard.row + before[shard.slot], 0)

    def tokens(self) -> Tokens:
        """The data set of all shards, of which there is one at least."""
        assert self._layout is not None
        arrays: dict[str, Any] = {name: array.tensor() for name, array in self._arrays.items()}
        codes = {kind: growing.codes() for kind, growing in self._codes.items()}
        return Tokens(layout=self._layout, ids=tuple(self._ids), **arrays, codes=codes, unread=tuple(self._unread))


class GrowingCodes:
    """The codes of one kind, of all shards, under one blank."""

    def __init__(self, first: Codes | RaggedCodes) -> None:
        """`first` are codes of the kind, which are not added yet."""
        self._dtype, self._padding = first.dtype, first.padding if isinstance(first, RaggedCodes) else None
        self._rows, self._offsets = GrowingArray(), GrowingArray(np.int64)  # offsets: of ragged codes
        if isinstance(first, Codes):
            self._rows.append(first.rows[:1].numpy())
        else:
            self._offsets.append(first.offsets[:2].numpy())

    def __len__(self) -> int:
        """The number of codes, without the blank."""
        return (len(self._rows) if self._padding is None else len(self._offsets) - 1) - 1

    def append(self, codes: Codes | RaggedCodes) -> None:
        """Add the codes of a shard."""
        if isinstance(codes, Codes):
            self._rows.append(codes.rows[1:].numpy())
        else:
            self._offsets.append(codes.offsets[2:].numpy() + len(self._rows))
            self._rows.append(codes.flat.numpy())

    def move_to_file(self, folder: FilePath | None) -> None:
        """Keep them in files from now on."""
        self._rows.move_to_file(folder)
        self._offsets.move_to_file(folder)

    def codes(self) -> Codes | RaggedCodes:
        """All codes."""
        if self._padding is None:
            return Codes(self._rows.tensor(), self._dtype)
        return RaggedCodes(self._rows.tensor(), self._offsets.tensor(), self._padding, self._dtype)


class GrowingArray:
    """An array that is appended to, in memory or in a file.

    Its integers have the smallest type that holds them, but none smaller than the `least`. A row may be an array.
    """

    def __init__(self, least: type[np.signedinteger[Any]] = np.int8) -> None:
        self._least = least
        self._type: np.dtype[Any] = np.dtype(least)
        self._row_shape: tuple[int, ...] = ()
        self._length = 0
        self._blocks: list[Array] = []  # in memory
        self._file: IO[bytes] | None = None
        self._folder: FilePath | None = None

    def __len__(self) -> int:
        return self._length

    def append(self, block: Array) -> None:
        """Add rows."""
        needed = _smallest_type(block, self._least)
        self._widen(np.promote_types(self._type, needed) if len(self) else needed)
        self._row_shape, self._length = block.shape[1:], self._length + len(block)
        if self._file is None:
            self._blocks.append(block.astype(self._type))
        else:
            self._write(block)

    def _widen(self, wider: np.dtype[Any]) -> None:
        """Change the type of what is there."""
        if wider != self._type and self._file is not None and len(self):
            mapped = self._mapped(self._file)
            self._file, self._type = self._open(), wider
            for start in range(0, len(mapped), ROWS_WIDENED_AT_ONCE):
                self._write(mapped[start : start + ROWS_WIDENED_AT_ONCE])
        self._type = wider

    def move_to_file(self, folder: FilePath | None) -> None:
        """Keep it in a file of the folder from now on."""
        if self._file is None:
            self._folder = folder
            self._file = self._open()
            while self._blocks:
                self._write(self._blocks.pop(0))

    def _open(self) -> IO[bytes]:
        """A file that is closed when this array is gone, though not what is mapped of it."""
        file = scratch_file(self._folder)
        weakref.finalize(self, file.close)
        return file

    def _write(self, block: Array) -> None:
        assert self._file is not None
        if block.size:
            with disk_errors(self._folder):
                self._file.write(np.ascontiguousarray(block, self._type).data.cast("B"))

    def tensor(self) -> Tensor:
        """The whole array. What is changed of a mapped one does not reach its file."""
        if self._file is not None:
            return torch.from_numpy(self._mapped(self._file))
        if len(self._blocks) == 1 and self._blocks[0].dtype == self._type:
            return torch.from_numpy(self._blocks[0])
        return torch.from_numpy(np.concatenate(self._blocks, dtype=self._type))

    def _mapped(self, file: IO[bytes]) -> Array:
        shape = (len(self), *self._row_shape)
        with disk_errors(self._folder):
            file.flush()
        return np.memmap(file, self._type, "c", shape=shape) if len(self) else np.zeros(shape, self._type)


def _smallest_type(block: Array, least: type[np.signedinteger[Any]]) -> np.dtype[Any]:
    """The smallest type for the integers of a block; of other numbers their own."""
    if block.dtype.kind != "i":
        return block.dtype
    low, high = (int(block.min()), int(block.max())) if block.size else (0, 0)
    wide_enough = INTEGERS[INTEGERS.index(least) :]
    return np.dtype(next(kind for kind in wide_enough if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max))
