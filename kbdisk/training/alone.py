"""One process at a time trains into a folder: a lock beside it, which goes with its process, however that ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path as FilePath

from kbdisk.errors import CheckpointError
from kbdisk.locks import release, take

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
        descriptor = take(file)
    except OSError as error:
        raise CheckpointError(str(model), f"cannot be made: {(error.strerror or str(error)).lower()}.") from None
    if descriptor is None:
        raise CheckpointError(str(model), "another process is training it. Wait until that is done, or stop it.")
    try:
        yield
    finally:
        release(file, descriptor)
