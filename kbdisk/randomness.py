"""Where random numbers come from: a seed for each number of a run's, and a generator for each thread.

What is dropped while training is drawn from that of its thread, so that threads do not draw from each other's; where none
is set, from torch's own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Generator


class _Own(threading.local):
    generator: Generator | None = None


_own = _Own()


def source() -> Generator | None:
    """What to draw from here."""
    return _own.generator


@contextmanager
def drawing_from(generator: Generator) -> Iterator[None]:
    """For a while this thread draws from a generator."""
    before, _own.generator = _own.generator, generator
    try:
        yield
    finally:
        _own.generator = before


def mixed(seed: int, number: int, salt: int = 0) -> int:
    """A seed for each number of a run's; another salt for what must not be drawn alike."""
    whole = (seed * 0x9E3779B97F4A7C15 + number * 0xBF58476D1CE4E5B9 + salt) & (1 << 63) - 1
    return whole ^ whole >> 31
