"""Compressed bytes read as plain ones: gz, bz2, zst, told by their first bytes.

Every fault of the file system or of a compressed stream comes out as one LoadError, whoever reads.
"""

from __future__ import annotations

import bz2
import gzip
import io
import math
import zlib
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from kbdisk.errors import LoadError
from kbdisk.loaders.bounds import refuse_unpacked

BUFFER = 1 << 18
STEP = 1 << 15  # compressed bytes at a time, so that what comes out stays small

_BZ2 = (b"1AY&SY", b"\x17rE8P\x90")  # what follows BZh and a digit: a block, or the end at once


def compression_of_bytes(start: bytes) -> str | None:
    """gz, bz2, zst or None, by the first ten bytes."""
    if start.startswith(b"\x1f\x8b"):
        return "gz"
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return "zst"
    return "bz2" if start[:3] == b"BZh" and start[3:4].isdigit() and start[4:10] in _BZ2 else None


def decompressed(raw: IO[bytes], kind: str | None, name: str, limit: float = math.inf) -> BinaryIO:
    """A buffered stream of the plain bytes, at most `limit` of a compressed file; closing it closes `raw`."""
    match kind:
        case "gz":
            stream = cast(IO[bytes], gzip.GzipFile(fileobj=raw))
        case "bz2":
            stream = cast(IO[bytes], bz2.BZ2File(raw))
        case "zst":
            stream = cast(IO[bytes], _Zstd(raw, name))
        case _:
            stream = raw
    return cast(BinaryIO, io.BufferedReader(_Whole(stream, raw, name, math.inf if kind is None else limit), BUFFER))


class _Whole(io.RawIOBase):
    """A stream that says plainly when it ends too early, is damaged, or cannot be read on."""

    def __init__(self, stream: IO[bytes], raw: IO[bytes], name: str, limit: float) -> None:
        self.stream = stream
        self.raw = raw  # which a decompressor leaves open
        self.name = name
        self.limit = limit
        self.given = 0  # bytes so far

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self.stream.read(len(buffer))
        except EOFError:
            raise LoadError(self.name, "the compressed file ends in the middle. Get all of it again.") from None
        except (OSError, zlib.error, ValueError) as error:
            raise LoadError(self.name, self._fault(error)) from error
        self.given += len(data)
        if self.given > self.limit:
            refuse_unpacked(self.name, self.limit)
        buffer[: len(data)] = data
        return len(data)

    def _fault(self, error: Exception) -> str:
        if isinstance(error, OSError) and error.strerror:  # a system call's, not a decompressor's
            return f"cannot be read: {error.strerror.lower()}."
        return f"the compressed file is damaged: {error}. Get it again."

    def close(self) -> None:
        self.stream.close()
        self.raw.close()
        super().close()


class _Zstd:
    """Zstandard frames one after the other. zstandard's own reader takes a file cut short for a whole one."""

    def __init__(self, raw: IO[bytes], name: str) -> None:
        self.raw = raw
        self.module = _zstandard(name)
        self.frame: Any = None  # None between frames
        self.rest = b""  # compressed, not used yet
        self.out = memoryview(b"")

    def read(self, size: int) -> bytes:
        while not self.out:
            chunk = self.rest or self.raw.read(STEP)
            if not chunk:
                if self.frame is not None:
                    raise EOFError
                return b""
            self.out = memoryview(self._decompressed(chunk))
        piece, self.out = self.out[:size], self.out[size:]
        return bytes(piece)

    def _decompressed(self, chunk: bytes) -> bytes:
        if self.frame is None:
            self.frame = self.module.ZstdDecompressor().decompressobj()
        try:
            data: bytes = self.frame.decompress(chunk)
        except self.module.ZstdError as error:
            raise ValueError(error) from None
        self.rest = b""
        if self.frame.eof:
            self.rest = self.frame.unused_data
            self.frame = None
        return data

    def close(self) -> None:
        self.out = memoryview(b"")


def _zstandard(name: str) -> Any:
    try:
        import zstandard
    except ImportError:
        raise LoadError(name, "is zstd-compressed. Run: pip install 'kbdisk[zstd]'") from None
    return zstandard


def stored_length(path: Path, kind: str, text: IO[bytes]) -> int | None:
    """How many bytes of a compressed file, to the end of one of its members, say a text; None where no such beginning does."""
    text.seek(0)
    with path.open("rb") as raw:
        member, rest, read = _member(kind, str(path)), b"", 0
        while chunk := rest or raw.read(STEP):
            read += 0 if rest else len(chunk)
            rest = b""
            data = member.decompress(chunk)
            if text.read(len(data)) != data:
                return None
            if member.eof:
                rest = member.unused_data
                member = _member(kind, str(path))
                here = text.tell()
                if not text.read(1):
                    return read - len(rest)
                text.seek(here)
    return None


def _member(kind: str, name: str) -> Any:
    """What decompresses one member."""
    match kind:
        case "gz":
            return zlib.decompressobj(wbits=31)
        case "bz2":
            return bz2.BZ2Decompressor()
    return _zstandard(name).ZstdDecompressor().decompressobj()
