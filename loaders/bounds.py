"""How much a source may send: what comes out of a compressed file, and what an endpoint answers.

A few kilobytes can unpack to terabytes, and a server can send for ever. Beyond these bounds reading stops with a
message that names the option which lifts them, `--max-size` (`max_size=` in Python).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from kbdisk.errors import ConfigError, LoadError

FREE_SIZE = 1 << 30  # bytes that any file may unpack to
MAX_RATIO = 100  # of what it unpacks to, to its compressed size, beyond that
MAX_ANSWER = 2 << 30  # bytes of one answer of an endpoint, uncompressed
MAX_ERROR_PAGE = 1 << 20  # bytes of a page that says what is wrong
MAX_SECONDS = 600.0  # for one answer of an endpoint, from the question to its last byte

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,3})?) ?([kmgt]?)b?", re.IGNORECASE)


@dataclass(frozen=True)
class Bounds:
    """What one endpoint may do in one answer."""

    size: float = MAX_ANSWER
    seconds: float = MAX_SECONDS
    redirects: bool = False  # whether it may send on to another host


def unpacked_limit(compressed: int, max_size: float | None) -> float:
    """The bytes that a file of some compressed size may unpack to."""
    return max(FREE_SIZE, MAX_RATIO * compressed) if max_size is None else max_size


def refuse_unpacked(name: str, limit: float) -> None:
    """LoadError for a file that unpacks to more."""
    problem = f"expected at most {show_size(limit)} once it is uncompressed, got more."
    raise LoadError(name, f"{problem} If it is sound, say --max-size with a larger size, or none.")


def read_size(text: str) -> float:
    """A size as a user writes it, such as 500MB, 20 GB, 1e9 bytes as 1000000000, or none for no bound at all."""
    if text.strip().lower() == "none":
        return math.inf
    found = SIZE.fullmatch(text.strip())
    size = float(found[1]) * UNITS[found[2].lower()] if found else 0.0
    if size < 1:
        raise ConfigError("--max-size", f"expected a size such as 500MB or 20GB, or none, got {text!r}.")
    return size


def show_size(size: float) -> str:
    """A size in words: 1.1 GB."""
    for unit in ("TB", "GB", "MB", "kB"):
        if size >= UNITS[unit[0].lower()]:
            return f"{size / UNITS[unit[0].lower()]:.4g} {unit}"
    return f"{size:.0f} bytes"
