"""Steps whose rate falls."""

from __future__ import annotations

import time
from collections.abc import Iterator

from kbdisk.network.adamw import AdamW


def falling(optimizer: AdamW, rate: float, steps: int, seconds: float | None = None) -> Iterator[int]:
    """So many steps, for each of which the rate is set: it falls evenly with them, or with the time where that is shorter."""
    begun = time.monotonic()
    for step in range(steps):
        spent = 0.0 if seconds is None else (time.monotonic() - begun) / max(seconds, 1e-9)
        done = max(step / steps, spent)
        if done >= 1:
            return
        for group in optimizer.param_groups:
            group["lr"] = rate * (1 - done)
        yield step
