"""The learning rate's course, when the held-out part is looked at, and how many steps a time budget buys."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kbdisk.errors import ConfigError

LEAST = 0.01  # of the highest rate, at the end
COOLING = 0.3  # of the steps: the last ones, in which the rate falls evenly
EVERY = 100  # steps between looks, where it is not known how many there will be
CHEAP = 10  # looks that are affordable, from which on a few early ones are, too
LOOKING = 0.2  # of a time budget: what looks take of it at most
SPARE = 0.01  # of a time budget: what is done when it is up ends within it
FEWEST, EARLY = 5, 0.1  # steps, and the share of a budget: after these a budget becomes a number of steps early
UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}
BUDGET = re.compile(r"\s*+(\d+(?:\.\d*)?)\s*+(s|m|min|h|)\s*+")


def seconds_of(budget: str | float) -> float:
    """A time budget as seconds: 90, "90s", "10m", "1.5h"."""
    found = BUDGET.fullmatch(str(budget))
    seconds = float(found[1]) * UNITS[found[2]] if found else 0.0
    if seconds <= 0:
        raise ConfigError("--budget", f"expected a time such as 90s, 10m or 2h, got {budget!r}.")
    return seconds


def share(step: int, total: int | None, warmup: int, falls: int = 0) -> float:
    """Of the highest rate, at a step counted from 0: rises in equal parts; falls as a cosine to a hundredth, or evenly.

    `falls`: the step from which it falls evenly; until then it stays. 0: it falls as a cosine, from the first.
    """
    if total is not None:
        warmup = min(warmup, max(total // 5, 1))
    if step < warmup:
        return (step + 1) / warmup
    if total is None or step < falls:
        return 1.0
    start = falls or warmup
    done = min((step - start) / max(total - start, 1), 1.0)
    return LEAST + (1 - LEAST) * (1 - done if falls else (1 + math.cos(math.pi * done)) / 2)


def cooling(total: int) -> int:
    """From which step on the rate falls evenly, of so many: a last part of them."""
    return max(round(total * (1 - COOLING)), 1)


def cooled(step: int, total: int | None) -> int:
    """How many steps there are in all where the rate falls from this one on, instead of later: of no more than were planned."""
    found = max(round(step / (1 - COOLING)), step + 1)
    return found if total is None else min(total, found)


def affordable_steps(history: Sequence[Mapping[str, Any]], seconds: float) -> int | None:
    """How many steps so many seconds are good for, as fast as they were from the first look to the last; None before."""
    if len(history) < 2:
        return None
    first, last = history[0], history[-1]
    each = (last["seconds"] - first["seconds"]) / max(last["step"] - first["step"], 1)
    return max(int(seconds / each), 0) if each > 0 else None


def fall_again(step: int, falls: int, total: int, fewer: int) -> int:
    """From which step on the rate falls evenly where there are to be fewer steps: it goes on from where it is by now."""
    if step < falls:
        return max(min(falls, cooling(fewer)), step)
    left = (total - step) / max(total - falls, 1)  # of the highest rate
    return max(round((step - (1 - left) * fewer) / left), 1) if left > 0 else falls


def is_look(step: int, total: int | None, evaluations: int, early: bool = False) -> bool:
    """Whether the held-out part is looked at after a step: evenly spread, and after the last one.

    `early`: within the first of many steps, too, at ever longer intervals, where looks are cheap.
    """
    if total is None:
        return step % EVERY == 0
    if is_early(step, total, evaluations):
        return early and evaluations >= CHEAP and step % EVERY == 0 and (step // EVERY).bit_count() == 1
    return step * evaluations // total > (step - 1) * evaluations // total


def is_early(step: int, total: int, evaluations: int) -> bool:
    """Whether a step is before the first of evenly spread looks."""
    return step * evaluations < total


def still_for(share: float, budget: float, spent: float, later: float) -> float:
    """The seconds of what has a share of a budget: of all that is left its part, beside the shares of what comes later."""
    left = max((1 - SPARE) * budget - spent, 0.0)
    return left * share / (share + later) if share else 0.0


def affordable(seconds: float, look: float, evaluations: int) -> int:
    """How many looks of so many seconds a budget has room for: they take at most a share of it."""
    return max(1, min(evaluations, int(LOOKING * seconds / max(look, 1e-9))))


def is_timed(times: Sequence[float], spent: float, seconds: float, timed: int) -> bool:
    """Whether enough steps have been timed: a few will do where steps are slow beside the budget."""
    if len(times) >= timed or spent > seconds:
        return True
    return len(times) >= FEWEST and spent > EARLY * seconds


def typical(times: Sequence[float]) -> float:
    """How long a step takes: the median of those timed but for the first, which do what is done once."""
    later = sorted(times[max(len(times) // 5, min(len(times) - 1, 2)) :])
    return later[len(later) // 2]


def bought(seconds: float, spent: float, done: int, step: float, look: float, looks: int) -> int:
    """How many steps a budget buys in all, once `done` have taken `spent` seconds and what a step and a look take."""
    left = max(seconds - spent - look * looks, 0.0)
    return done + int(left / max(step, 1e-9))
