"""The heap: memory that a stage has freed goes back to the operating system.

The C library keeps what is freed, for the next allocations of the same sizes. The peak of a job is then nearer to the sum of its
stages than to the largest of them.
"""

from __future__ import annotations

import ctypes
from functools import cache


def return_freed_memory() -> None:
    """Give freed memory back to the operating system, where the C library can: glibc has `malloc_trim`, others have not."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> ctypes._NamedFuncPointer | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library; Windows has no library of the program itself
        return None
