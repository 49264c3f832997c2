"""Scratch files: what a job needs again, and memory has no room for.

A scratch file has no name. So no killed process leaves one, no other process can change it, and its room on the disk is free
again when it is closed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path as FilePath
from typing import IO

from kbdisk.errors import WriteError


def scratch_file(folder: FilePath | None) -> IO[bytes]:
    """An open scratch file in a folder; without one, in the system's folder for temporary files."""
    with disk_errors(folder):
        return tempfile.TemporaryFile(dir=folder)


@contextmanager
def disk_errors(folder: FilePath | None) -> Iterator[None]:
    """Turns an error of the folder of a scratch file, such as a full disk, into a WriteError."""
    try:
        yield
    except OSError as error:
        fact = (error.strerror or str(error)).lower()
        raise WriteError.without_room(str(folder or tempfile.gettempdir()), fact) from None
