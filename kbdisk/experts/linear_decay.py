"""Linear decay of a learning rate, over a number of steps or over a time."""

from __future__ import annotations

import time
from collections.abc import Iterator

from kbdisk.model.optimizers import AdamW


def linear_decay(optimizer: AdamW, rate: float, steps: int, seconds: float | None = None) -> Iterator[int]:
    """Yields each step after setting its learning rate, which falls from `rate` to 0 over the steps or the time, if shorter."""
    begun = time.monotonic()
    for step in range(steps):
        spent = 0.0 if seconds is None else (time.monotonic() - begun) / max(seconds, 1e-9)
        done = max(step / steps, spent)
        if done >= 1:
            return
        for group in optimizer.param_groups:
            group["lr"] = rate * (1 - done)
        yield step
