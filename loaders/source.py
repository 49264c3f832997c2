"""Where bytes come from: a file, standard input, memory; and what compresses them, by magic bytes.

A source can be opened again and again: standard input is kept in a temporary file. Every fault of the
file system or of a compressed stream comes out as one LoadError, whoever reads.
"""

from __future__ import annotations

import bz2
import gzip
import io
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from kbdisk.errors import LoadError

MAGIC = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zst"}
BUFFER = 1 << 18

Progress = Callable[[int, int], None]  # bytes read as stored, bytes in all


class Source:
    """Bytes that can be read more than once, uncompressed on the way."""

    def __init__(self, origin: str | os.PathLike[str] | bytes, name: str | None = None) -> None:
        self.progress: Progress | None = None
        self._bytes = origin if isinstance(origin, bytes) else None
        self.path: Path | None = None
        if not isinstance(origin, bytes):
            self.path = _standard_input() if origin == "-" else Path(origin)
        self.name = name or ("<memory>" if isinstance(origin, bytes) else "<stdin>" if origin == "-" else str(origin))
        self.check()

    def check(self) -> None:
        """Fail now, not at the first entity, where the file cannot be read at all."""
        if self.path is not None and self.path.is_dir():
            raise LoadError(self.name, "expected a file, got a directory. Name the files in it.")
        with self._raw() as stream:
            if not stream.read(1):
                raise LoadError(self.name, "expected some data, got an empty file.")

    @cached_property
    def compression(self) -> str | None:
        """gz, bz2, zst, or None, told by the first bytes and not by the name."""
        with self._raw() as stream:
            start = stream.read(4)
        return next((name for magic, name in MAGIC.items() if start.startswith(magic)), None)

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
        return self._raw()

    def open(self) -> BinaryIO:
        """The bytes uncompressed, buffered."""
        raw: IO[bytes] = self._raw()
        if self.progress is not None:
            raw = io.BufferedReader(_Counted(raw, self.size, self.progress), BUFFER)
        stream: IO[bytes]
        match self.compression:
            case "gz":
                stream = cast(IO[bytes], gzip.GzipFile(fileobj=raw))
            case "bz2":
                stream = bz2.BZ2File(raw)
            case "zst":
                stream = _zstandard(self.name).ZstdDecompressor().stream_reader(raw, read_across_frames=True)
            case _:
                return cast(BinaryIO, raw)
        return cast(BinaryIO, io.BufferedReader(_Whole(stream, raw, self.name), BUFFER))

    def read(self) -> bytes:
        """All of it, uncompressed."""
        with self.open() as stream:
            return stream.read()

    def _raw(self) -> BinaryIO:
        if self._bytes is not None:
            return io.BytesIO(self._bytes)
        assert self.path is not None
        try:
            return self.path.open("rb", buffering=BUFFER)
        except FileNotFoundError:
            raise LoadError(self.name, "no such file.") from None
        except OSError as error:
            raise LoadError(self.name, f"cannot be read: {(error.strerror or str(error)).lower()}.") from error


class _Whole(io.RawIOBase):
    """A decompressed stream that says plainly when it ends too early or is damaged."""

    def __init__(self, stream: IO[bytes], raw: IO[bytes], name: str) -> None:
        self.stream = stream
        self.raw = raw  # which the decompressor leaves open
        self.name = name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self.stream.read(len(buffer))
        except EOFError:
            raise LoadError(self.name, "the compressed file ends in the middle. Get all of it again.") from None
        except (OSError, zlib.error, ValueError, *_zstandard_errors()) as error:
            raise LoadError(self.name, f"the compressed file is damaged: {error}. Get it again.") from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self.stream.close()
        self.raw.close()
        super().close()


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


def _standard_input() -> Path:
    """Standard input as a file that is there until the program ends."""
    with tempfile.NamedTemporaryFile(prefix="kbdisk-", suffix=".stdin", delete=False) as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    import atexit

    atexit.register(Path(file.name).unlink, missing_ok=True)
    return Path(file.name)


def _zstandard(name: str) -> Any:
    try:
        import zstandard
    except ImportError:
        raise LoadError(name, "is zstd-compressed. Run: pip install 'kbdisk[zstd]'") from None
    return zstandard


def _zstandard_errors() -> tuple[type[Exception], ...]:
    module = sys.modules.get("zstandard")
    return (module.ZstdError,) if module else ()
