"""Where a model may be written. Asked before anything is read, so nothing here loads torch."""

from __future__ import annotations

import os
from pathlib import Path as FilePath

from kbdisk.errors import CheckpointError
from kbdisk.training.configfile import CONFIG, is_model
from kbdisk.training.files import CARD, LATER, NEEDED, OPTIONAL

DESKTOP = (".DS_Store", "Thumbs.db", "desktop.ini")  # which file managers leave wherever they look


def refuse_place(folder: str | os.PathLike[str], force: bool = False) -> None:
    """CheckpointError where a model could not be saved: best asked before it is trained."""
    place, named = FilePath(folder), str(folder)
    if place.name in ("", ".."):
        raise CheckpointError(named, "expected a folder of its own, got one that you are in. Name another folder.")
    try:
        held = {one.name for one in place.iterdir()}
    except FileNotFoundError:
        return
    except NotADirectoryError:
        got = "a file" if place.exists() else "a file on the way to it"
        raise CheckpointError(named, f"expected a folder or nothing, got {got}. Name another folder.") from None
    except (OSError, ValueError) as error:
        fact = getattr(error, "strerror", None) or str(error)
        raise CheckpointError(named, f"cannot be written: {fact.lower()}.") from None
    if not held:
        return
    if not is_model(place):
        raise CheckpointError(
            named, "expected a model, nothing, or an empty folder, got other files. Name another folder."
        )
    if not force:
        raise CheckpointError(named, "a model is there already. Say force=True to replace it.")
    foreign = sorted(held - {CONFIG, CARD, *NEEDED, *OPTIONAL, *LATER, *DESKTOP})
    if foreign:
        problem = f"expected a model alone, got {foreign[0]!r} beside it. Move that elsewhere: it would be lost."
        raise CheckpointError(named, problem)
