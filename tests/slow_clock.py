"""`make test-slow-machine`: the clocks of a test run go fast, so that the machine looks slower than it is.

A pytest plugin: `pytest -p slow_clock`, with KBDISK_SLOWER as the factor, 8 without it. A test that passes
here does not depend on how much a machine does within a time budget.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

SLOWER = float(os.environ.get("KBDISK_SLOWER", "8"))


def faster(clock: Callable[[], float]) -> Callable[[], float]:
    """A clock that shows the present time now, and then goes so many times as fast."""
    begun = clock()
    return lambda: begun + SLOWER * (clock() - begun)


for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
    setattr(time, name, faster(getattr(time, name)))
