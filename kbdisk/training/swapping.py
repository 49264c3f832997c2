"""A new folder takes an old one's place at once: whoever looks sees the one or the other, whole."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux


@contextlib.contextmanager
def replacing(place: Path) -> Iterator[Path]:
    """A new empty folder beside `place`, that takes its name once it is filled; if it isn't, nothing has changed."""
    place.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{place.name[:40]}.", suffix=".part", dir=place.parent))
    try:
        yield part
        part.chmod(0o777 & ~_umask())
        _synchronise(part)
        if place.exists() and any(place.iterdir()):
            _exchange(part, place)
        else:
            part.replace(place)
        _synchronise(place.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def put(file: Path, data: bytes) -> None:
    """Write a new file, to the disk and not only to its cache."""
    with file.open("xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _exchange(part: Path, place: Path) -> None:
    """Swap two folders: at once where the system can, else with a moment in which neither has the name."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if hasattr(libc, "renameat2"):
            names = os.fsencode(part), os.fsencode(place)
            if libc.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0:
                return  # some file systems cannot
    old = part.with_suffix(".old")
    place.rename(old)
    try:
        part.rename(place)
    except OSError:
        old.rename(place)
        raise
    old.rename(part)


def _synchronise(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
