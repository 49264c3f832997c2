"""Where bytes go: a temporary file beside the target that takes its name only once it is whole.

Nothing half-written ever stands under the target's name. `-` is standard output, streamed.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from kbdisk.errors import WriteError

COMPRESSED = (".gz", ".bz2", ".zst")


@contextlib.contextmanager
def writing(target: str | os.PathLike[str], *, replace: bool = True) -> Iterator[BinaryIO]:
    """A stream whose bytes become `target`, all of them or none."""
    if str(target) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(target)
    if path.is_dir():
        raise WriteError(str(path), "expected a file to write, got a directory.")
    if path.exists() and not replace:
        raise WriteError(str(path), "exists already. Say --force to replace it.")
    place = path.resolve()  # a symbolic link stays one: what it points to is replaced
    part: Path | None = None
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=place.parent)
        part = Path(name)
        with os.fdopen(descriptor, "wb", buffering=1 << 18) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.chmod(path.stat().st_mode if path.exists() else 0o666 & ~_umask())
        part.replace(place)
    except OSError as error:
        raise WriteError(str(path), f"cannot be written: {(error.strerror or str(error)).lower()}.") from error
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


def compression_of(name: str) -> str | None:
    """gz, bz2 or zst, as the suffix says."""
    return next((suffix[1:] for suffix in COMPRESSED if name.lower().endswith(suffix)), None)


def without_compression(name: str) -> str:
    """A file's name without the suffix of its compression."""
    return next((name[: -len(suffix)] for suffix in COMPRESSED if name.lower().endswith(suffix)), name)


@contextlib.contextmanager
def compressing(file: BinaryIO, kind: str | None, *, lazily: bool = False) -> Iterator[BinaryIO]:
    """What is written comes out compressed; `lazily` writes nothing at all where nothing is written."""
    if kind is None:
        yield file
        return
    if lazily:
        kept = io.BytesIO()
        yield kept
        if kept.tell():
            with compressing(file, kind) as stream:
                stream.write(kept.getbuffer())
        return
    with _compressor(file, kind) as stream:
        yield cast(BinaryIO, stream)


def _compressor(file: BinaryIO, kind: str) -> Any:
    match kind:
        case "gz":
            return gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0)  # the same bytes every time
        case "bz2":
            return bz2.BZ2File(file, "wb")
    try:
        import zstandard
    except ImportError:
        raise WriteError("zstd", "is not installed. Run: pip install 'kbdisk[zstd]'") from None
    return zstandard.ZstdCompressor().stream_writer(file, closefd=False)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
