"""Random number generation: a seed for each part of a run, a generator for each thread, items in random blocks.

Dropout in training draws from the generator of its thread, or from torch's own where none is set. So no thread changes what
another draws.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from torch import Generator

T = TypeVar("T")


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


def random_blocks(items: Sequence[T], size: int, generator: random.Random) -> list[list[T]]:
    """The items in random order, cut into blocks of a size: the first blocks are a random sample of all items."""
    shuffled = list(items)
    generator.shuffle(shuffled)
    return [shuffled[start : start + size] for start in range(0, len(shuffled), size)]


def derive_seed(seed: int, number: int, salt: int = 0) -> int:
    """A seed for each step, batch or thread of a run, by its number; draws with different salts are independent."""
    mixed = (seed * 0x9E3779B97F4A7C15 + number * 0xBF58476D1CE4E5B9 + salt) & (1 << 63) - 1
    return mixed ^ mixed >> 31
