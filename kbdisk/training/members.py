"""How many networks a run trains, one after the other, and what each one's own run is.

A time budget is shared evenly. Where networks are done before their time, and a whole share is left, there may be more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kbdisk.rng import derive_seed
from kbdisk.training.config import MOST
from kbdisk.training.run import Run

SHORTEST = 120.0  # seconds of a network's training, or there are fewer of them
APART = 2  # what other networks' seeds are mixed with


def several(run: Run, seconds: float | None = None) -> list[Run]:
    """A run for each network: each has a beginning of its own, and its part of the time; fewer where that is short.

    All of them have so many `seconds`, or else what the budget leaves beside the experts' share.
    """
    count, share = _shared(run, seconds)
    return [_own(run, number, share) for number in range(count)]


def another(run: Run, spent: Sequence[float], kept: bool = False, seconds: float | None = None) -> Run | None:
    """A run for one network more, with as much time as each has, where as much is left.

    Those before it took so many seconds each. One that was begun, and is kept, goes on whatever clocks say by now.
    """
    count, share = _shared(run, seconds)
    if share is None or len(spent) >= min(count + run.train.more, MOST):
        return None
    return _own(run, len(spent), share) if kept or share * count - sum(spent) >= share else None


def as_planned(run: Run, own: Run) -> Run:
    """A network's run with the seconds that were planned for it, whatever the experts left in fact: what it is known by."""
    _, share = _shared(run, None)
    return replace(own, train=replace(own.train, seconds=share))


def _shared(run: Run, seconds: float | None) -> tuple[int, float | None]:
    """How many networks share a time budget, and the seconds that each has of it."""
    count = run.train.members
    if run.train.seconds is None:
        return count, None
    planned = run.train.seconds * (1 - run.experts_share)
    count = min(count, max(int(planned / SHORTEST), 1))
    return count, (planned if seconds is None else seconds) / count


def _own(run: Run, number: int, seconds: float | None) -> Run:
    seed = run.seed if number == 0 else derive_seed(run.seed, number, APART)
    return replace(run, seed=seed, train=replace(run.train, seconds=seconds))
