"""How many networks a run trains, one after the other, and what each one's own run is.

A time budget is shared evenly. Where networks are done before their time, and a whole share is left, there may be more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kbdisk.randomness import mixed
from kbdisk.training.config import MOST
from kbdisk.training.run import Run

SHORTEST = 120.0  # seconds of a network's training, or there are fewer of them
APART = 2  # what other networks' seeds are mixed with


def several(run: Run) -> list[Run]:
    """A run for each network: each has a beginning of its own, and its part of the time; fewer where that is short."""
    count, share = _shared(run)
    return [_own(run, number, share) for number in range(count)]


def another(run: Run, spent: Sequence[float], kept: bool = False) -> Run | None:
    """A run for one network more, with as much time as each has, where as much is left.

    Those before it took so many seconds each. One that was begun, and is kept, goes on whatever clocks say by now.
    """
    count, share = _shared(run)
    if share is None or len(spent) >= min(count + run.train.more, MOST):
        return None
    return _own(run, len(spent), share) if kept or share * count - sum(spent) >= share else None


def _shared(run: Run) -> tuple[int, float | None]:
    """How many networks share a time budget, and the seconds that each has of it."""
    count, seconds = run.train.members, run.train.seconds
    if seconds is None:
        return count, None
    seconds *= 1 - run.experts_share
    count = min(count, max(int(seconds / SHORTEST), 1))
    return count, seconds / count


def _own(run: Run, number: int, seconds: float | None) -> Run:
    seed = run.seed if number == 0 else mixed(run.seed, number, APART)
    return replace(run, seed=seed, train=replace(run.train, seconds=seconds))
