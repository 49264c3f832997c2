"""The learning rate's course, and how many steps a time budget buys."""

from __future__ import annotations

import math


def share(step: int, total: int | None, warmup: int) -> float:
    """Of the highest rate, at a step counted from 0: rises in equal parts, then falls as a cosine to a hundredth."""
    if total is not None:
        warmup = min(warmup, max(total // 5, 1))
    if step < warmup:
        return (step + 1) / warmup
    if total is None:
        return 1.0
    done = (step - warmup) / max(total - warmup, 1)
    return 0.01 + 0.99 * (1 + math.cos(math.pi * min(done, 1.0))) / 2


def bought(seconds: float, spent: float, done: int, step: float, look: float, looks: int) -> int:
    """How many steps a budget buys in all, once `done` have taken `spent` seconds and what a step and a look take."""
    left = max(seconds - spent - look * looks, 0.0)
    return done + int(left / max(step, 1e-9))


def looks(total: int, evaluations: int) -> set[int]:
    """After which steps the held-out part is looked at: evenly spread, the last one included."""
    return {max(1, round(total * turn / evaluations)) for turn in range(1, evaluations + 1)}
