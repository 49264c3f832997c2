"""A new folder takes an old one's place at once: whoever looks sees the one or the other, whole."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from kbdisk.atomic import part_of, remove_dead_parts, sync_folder, umask
from kbdisk.locks import is_locked

AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux


@contextlib.contextmanager
def replacing(place: Path) -> Iterator[Path]:
    """A new empty folder beside `place`, that takes its name once it is filled; if it isn't, nothing has changed."""
    place.parent.mkdir(parents=True, exist_ok=True)
    remove_dead_parts(place)
    part = part_of(place)
    try:
        part.mkdir(0o700)
        with _held(part):
            yield part
            part.chmod(0o777 & ~umask())
            sync_folder(part)
            if place.exists() and any(place.iterdir()):
                _exchange(part, place)
            else:
                os.replace(part, place)  # noqa: PTH105 - one call, which a test makes fail
            sync_folder(place.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextlib.contextmanager
def _held(part: Path) -> Iterator[None]:
    """A folder that this process works on is no dead part."""
    if os.name != "posix":
        yield
        return
    descriptor = os.open(part, os.O_RDONLY)
    try:
        is_locked(descriptor)
        yield
    finally:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def put(file: Path, data: bytes) -> None:
    """Write a new file, to the disk and not only to its cache."""
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    with os.fdopen(descriptor, "wb") as stream:
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
