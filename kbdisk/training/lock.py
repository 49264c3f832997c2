"""The training lock: one process at a time trains into a folder. The lock ends with its process; no torch is loaded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path as FilePath

from kbdisk.errors import CheckpointError
from kbdisk.locks import release, take

SUFFIX = ".training.lock"


def refuse_busy(model: FilePath) -> None:
    """CheckpointError where another process trains this model; checked before anything is read."""
    if model.parent.is_dir():
        with training_lock(model):
            pass


@contextlib.contextmanager
def training_lock(model: FilePath) -> Iterator[None]:
    """Holds the lock of a model folder for the length of the block; CheckpointError where another process holds it."""
    file = model.with_name(model.name + SUFFIX)
    try:
        model.parent.mkdir(parents=True, exist_ok=True)
        descriptor = take(file)
    except OSError as error:
        raise CheckpointError(str(model), f"cannot be made: {(error.strerror or str(error)).lower()}.") from None
    if descriptor is None:
        raise CheckpointError(str(model), "another process is training it. Wait until that is done, or stop it.")
    try:
        yield
    finally:
        release(file, descriptor)
