"""Where bytes come from: a file, standard input, a pipe, memory; uncompressed on the way.

A source can be opened again and again: standard input, and whatever else is no file, is kept in a
temporary one. Every fault of the file system comes out as one LoadError, whoever reads.
"""

from __future__ import annotations

import atexit
import hashlib
import io
import math
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from kbdisk.errors import LoadError
from kbdisk.loaders.bounds import unpacked_limit
from kbdisk.loaders.decompress import BUFFER, compression_of_bytes, decompressed

MAX_DIGESTED = 16 << 20  # bytes of a file whose content tells whether it changed
Progress = Callable[[int, int], None]  # bytes read as stored, bytes in all


class Source:
    """Bytes that can be read more than once, uncompressed on the way."""

    def __init__(self, origin: str | os.PathLike[str] | bytes, name: str | None = None) -> None:
        self.progress: Progress | None = None
        self.max_size: float | None = None  # bytes that it may unpack to; None: see `bounds`
        self._bytes = origin if isinstance(origin, bytes) else None
        self.name = name or ("<memory>" if isinstance(origin, bytes) else "<stdin>" if origin == "-" else str(origin))
        self.path = None if isinstance(origin, bytes) else _file(origin, self.name)
        self.check()
        self._stamp = self._stamped()

    def refuse_changed(self) -> None:
        """Fail where the file is no longer as it was when this source was made."""
        if self._stamp is not None and not self._stamp.is_of(self._stamped()):
            raise LoadError(self.name, "changed since it was read; run again.")

    def accept_change(self) -> None:
        """Take the file as it is now: it was changed by us."""
        self._stamp = self._stamped()

    def _stamped(self) -> _Stamp | None:
        return None if self.path is None else _Stamp.read(self.path)

    def check(self) -> None:
        """Fail now, not at the first entity, where the source cannot be read at all."""
        if self.path is not None and os.path.isdir(self.path):  # noqa: PTH112 - Path.is_dir raises for odd names
            raise LoadError(self.name, "expected a file, got a directory. Name the files in it.")
        self._raw().close()

    def refuse_empty(self) -> None:
        """Fail where there is nothing in it."""
        with self.open() as stream:
            if not stream.read(1):
                what = f"nothing inside its {self.compression}" if self.compression else "an empty file"
                raise LoadError(self.name, f"expected some data, got {what}.")

    @cached_property
    def compression(self) -> str | None:
        """gz, bz2, zst, or None, told by the first bytes and not by the name."""
        with decompressed(self._raw(), None, self.name) as stream:
            return compression_of_bytes(stream.read(10))

    @property
    def plain_path(self) -> Path | None:
        """The path, where whoever can read files itself may read this one (nothing to uncompress or to count)."""
        return self.path if self.compression is None and self.progress is None else None

    @property
    def size(self) -> int:
        """Bytes as stored."""
        return len(self._bytes or b"") if self.path is None else self.path.stat().st_size

    def stored(self) -> BinaryIO:
        """The bytes as stored, compressed or not."""
        return decompressed(self._raw(), None, self.name)

    def open(self) -> BinaryIO:
        """The bytes uncompressed, buffered."""
        kind = self.compression
        raw: IO[bytes] = self._raw()
        if self.progress is not None:
            raw = io.BufferedReader(_Counted(raw, self.size, self.progress), BUFFER)
        limit = unpacked_limit(self.size, self.max_size) if kind is not None else math.inf
        return decompressed(raw, kind, self.name, limit)

    def read(self) -> bytes:
        """All of it, uncompressed."""
        with self.open() as stream:
            return stream.read()

    def _raw(self) -> BinaryIO:
        if self._bytes is not None:
            return io.BytesIO(self._bytes)
        assert self.path is not None
        return _opened(self.path, self.name)


@dataclass(frozen=True)
class _Stamp:
    """What tells a file from what it was."""

    status: tuple[int, ...]
    digest: bytes | None  # of a file small enough to be read twice

    @classmethod
    def read(cls, path: Path) -> _Stamp | None:
        """The stamp of a file; None where it is gone."""
        try:
            told = path.stat()
            small = stat.S_ISREG(told.st_mode) and told.st_size <= MAX_DIGESTED
            digest = hashlib.blake2b(path.read_bytes()).digest() if small else None
        except OSError:
            return None
        return cls((told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns), digest)

    def is_of(self, now: _Stamp | None) -> bool:
        """Whether a file is the same: by its content, or where it is large by its status."""
        if now is None:
            return False
        return self.digest == now.digest if self.digest and now.digest else self.status == now.status


class _Counted(io.RawIOBase):
    """Tells how far it has been read."""

    def __init__(self, raw: IO[bytes], total: int, progress: Progress) -> None:
        self.raw, self.total, self.progress = raw, total, progress

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = cast(BinaryIO, self.raw).readinto(buffer)  # type: ignore[attr-defined]
        self.progress(self.raw.tell(), self.total)
        return count or 0

    def close(self) -> None:
        self.raw.close()
        super().close()


def _opened(path: Path, name: str) -> BinaryIO:
    try:
        return path.open("rb", buffering=BUFFER)
    except FileNotFoundError:
        raise LoadError(name, "no such file.") from None
    except OSError as error:
        raise LoadError(name, f"cannot be read: {(error.strerror or str(error)).lower()}.") from error
    except ValueError as error:  # a NUL in the name
        raise LoadError(repr(name), f"is no name of a file: {error}.") from None


def _file(origin: str | os.PathLike[str], name: str) -> Path:
    """A file that can be read again: the one named, or what comes from a pipe or a device kept in one."""
    if origin == "-":
        if sys.stdin is None:
            raise LoadError(name, "expected some data, got a closed standard input.")
        return _kept(sys.stdin.buffer, name)
    path = Path(origin)
    if not _is_stream(path):
        return path
    with _opened(path, name) as stream:
        return _kept(stream, name)


def _is_stream(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False  # said when it is opened
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _kept(stream: IO[bytes], name: str) -> Path:
    """A stream's bytes as a file that is there until the program ends."""
    try:
        with tempfile.NamedTemporaryFile(prefix="kbdisk-", delete=False) as file:
            path = Path(file.name)
            atexit.register(path.unlink, missing_ok=True)
            shutil.copyfileobj(stream, file, BUFFER)
    except OSError as error:
        raise LoadError(
            name, f"cannot be kept in a temporary file: {(error.strerror or str(error)).lower()}."
        ) from error
    return path
