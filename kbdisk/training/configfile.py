"""config.json of a model folder: how it is read before anything is known of it, and what every format says there.

`kbdisk`, `format` and `checksum` mean the same in every format: which version wrote the folder, how, and that nothing
in config.json was changed since. It lists the size and SHA-256 of the other files, and so vouches for them. That is
against accidents; somebody who wants to can write a folder that fits, so all that is read may be anything.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
from pathlib import Path as FilePath
from typing import Any, TypeAlias

from kbdisk.errors import RESTORE, CheckpointError
from kbdisk.printable import plain_line

Told: TypeAlias = dict[str, Any]

CONFIG = "config.json"
LARGEST = 1 << 24  # bytes
VERSION = re.compile(r"[\w.+-]{1,40}", re.ASCII)
WANTED = "Name a folder that kbdisk train wrote."


def is_model(folder: FilePath) -> bool:
    """Whether a folder is a model, of any format; whether its other files are sound is another matter."""
    try:
        read_config(folder)
    except CheckpointError:
        return False
    return True


def read_config(folder: FilePath) -> Told:
    """What config.json says, as far as every format says it."""
    path = folder / CONFIG
    with opened(path) as stream:
        data = stream.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise CheckpointError(str(path), f"expected at most {LARGEST:,} bytes, got more. {RESTORE}")
    told = parsed(data, str(path))
    if not isinstance(told, dict) or not {"kbdisk", "format", "checksum"} <= told.keys():
        raise CheckpointError(str(path), f"expected that of a kbdisk model, got another program's. {WANTED}")
    try:
        digest = checksum(told)
    except RecursionError:  # what is read goes deeper than what is written
        raise CheckpointError(str(path), f"expected JSON, got what is nested too deep. {RESTORE}") from None
    if told["checksum"] != digest:
        raise CheckpointError(str(path), f"expected what was written, got what was changed since. {RESTORE}")
    if not isinstance(told["kbdisk"], str) or not VERSION.fullmatch(told["kbdisk"]) or type(told["format"]) is not int:
        raise CheckpointError(str(path), f"expected a version and the number of a format, got others. {RESTORE}")
    return told


def checksum(config: Told) -> str:
    """What config.json says, but for this very number: whatever is changed there changes this."""
    rest = {key: value for key, value in config.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def refuse_no_folder(place: FilePath) -> None:
    """A word for each thing that may stand where a model folder should."""
    try:
        held = sorted(one.name for one in place.iterdir())
    except FileNotFoundError:
        raise CheckpointError(str(place), f"no such folder. {WANTED}") from None
    except NotADirectoryError:
        hint = "Name the folder that it is in." if is_model(place.parent) else WANTED
        raise CheckpointError(str(place), f"expected a model folder, got a file. {hint}") from None
    except (OSError, ValueError) as error:
        fact = getattr(error, "strerror", None) or str(error)
        raise CheckpointError(plain_line(str(place)), f"cannot be read: {fact.lower()}.") from None
    if not held:
        raise CheckpointError(str(place), f"expected a model folder, got an empty one. {WANTED}")
    if CONFIG not in held:
        some = plain_line(", ".join(held[:3])) + (f" and {len(held) - 3} more" if len(held) > 3 else "")
        advice = RESTORE if "model.safetensors" in held else WANTED
        raise CheckpointError(str(place), f"expected a model folder, got one with {some} and no {CONFIG}. {advice}")


def opened(path: FilePath) -> io.BufferedReader:
    """A regular file, to be read; a pipe or a device never makes anybody wait. A link to a file is a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise CheckpointError(str(path), f"expected a file, got none. {RESTORE}") from None
    except OSError as error:
        raise CheckpointError(str(path), f"cannot be read: {(error.strerror or str(error)).lower()}.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CheckpointError(str(path), f"expected a file, got a folder, a pipe or a device. {RESTORE}")
    return os.fdopen(descriptor, "rb")


def parsed(data: bytes, name: str) -> Any:
    """JSON, strictly: no NaN, and no deeper than Python goes."""
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_no_number)
    except RecursionError:
        raise CheckpointError(name, f"expected JSON, got what is nested too deep. {RESTORE}") from None
    except ValueError as error:  # UTF-8, JSON, numbers of thousands of digits
        fact = plain_line(str(error)).rstrip(".")
        raise CheckpointError(name, f"expected JSON, got what is none: {fact}. {RESTORE}") from None


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")
