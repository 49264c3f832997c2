"""What is dropped while training is drawn from the generator of its thread, so that threads do not draw from each other's.

Where none is set, from torch's own.
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
