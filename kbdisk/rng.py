"""Random number generation: a seed derived for each number of a run's, and a generator for each thread.

What is dropped in training is drawn with the generator of its thread, so that threads do not draw from each other's; where none is
set, from torch's own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Generator


class _ThreadState(threading.local):
    generator: Generator | None = None


_state = _ThreadState()


def thread_generator() -> Generator | None:
    """The generator of this thread."""
    return _state.generator


@contextmanager
def use_generator(generator: Generator) -> Iterator[None]:
    """Within the context this thread draws from a generator."""
    before, _state.generator = _state.generator, generator
    try:
        yield
    finally:
        _state.generator = before


def derive_seed(seed: int, number: int, salt: int = 0) -> int:
    """A seed for each number of a run's; another salt for what must not be drawn alike."""
    mixed = (seed * 0x9E3779B97F4A7C15 + number * 0xBF58476D1CE4E5B9 + salt) & (1 << 63) - 1
    return mixed ^ mixed >> 31
