"""One process at a time trains into a folder: a lock beside it, which goes with its process, however that ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path as FilePath

from kbdisk.errors import CheckpointError

SUFFIX = ".training.lock"


def refuse_busy(model: FilePath) -> None:
    """CheckpointError where a model is being trained: best asked before anything is read."""
    if model.parent.is_dir():
        with alone(model):
            pass


@contextlib.contextmanager
def alone(model: FilePath) -> Iterator[None]:
    """Nobody else trains a model into this folder meanwhile; CheckpointError where somebody does already."""
    file = model.with_name(model.name + SUFFIX)
    try:
        model.parent.mkdir(parents=True, exist_ok=True)
        lock = _locked(model, file)
    except OSError as error:
        raise CheckpointError(str(model), f"cannot be made: {(error.strerror or str(error)).lower()}.") from None
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(lock)


def _locked(model: FilePath, file: FilePath) -> int:
    """The lock file, held. One that its last owner has just removed is no lock: then there is a new one."""
    while True:
        lock = os.open(file, os.O_CREAT | os.O_RDWR, 0o666)
        if not _taken(lock):
            os.close(lock)
            raise CheckpointError(str(model), "another process is training it. Wait until that is done, or stop it.")
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), file.stat()):
                return lock
        os.close(lock)


def _taken(lock: int) -> bool:
    """Whether the lock could be taken; also where a system or its files know no locks."""
    if os.name != "posix":
        return True
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError)
    return True
