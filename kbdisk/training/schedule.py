"""The learning-rate schedule, the times of evaluations, and the number of steps that a time budget buys."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kbdisk.errors import ConfigError
from kbdisk.training.config import TrainConfig
from kbdisk.training.validation import State

MIN_RATE_FACTOR = 0.01  # of the peak rate, at the last step
DECAY_SHARE = 0.3  # of the steps: the last ones, in which the rate decays linearly
EVALUATION_INTERVAL = 100  # steps between evaluations while the number of steps is unknown
MIN_EVALUATIONS_FOR_EARLY = 10  # affordable evaluations from which on a few early ones are added
MAX_EVALUATION_SHARE = 0.2  # of a time budget: the most for evaluations
SPARE = 0.01  # of a time budget: what is done when it is up ends within it
MIN_TIMED, EARLY_SHARE = (
    5,
    0.1,
)  # steps, and the share of a budget: after these a budget becomes a number of steps early
UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}
BUDGET = re.compile(r"\s*+(\d+(?:\.\d*)?)\s*+(s|m|min|h|)\s*+")


def seconds_of(budget: str | float) -> float:
    """A time budget as seconds: 90, "90s", "10m", "1.5h"."""
    found = BUDGET.fullmatch(str(budget))
    seconds = float(found[1]) * UNITS[found[2]] if found else 0.0
    if seconds <= 0:
        raise ConfigError("--budget", f"expected a time such as 90s, 10m or 2h, got {budget!r}.")
    return seconds


def rate_factor(step: int, total: int | None, warmup: int, falls: int = 0) -> float:
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
    return MIN_RATE_FACTOR + (1 - MIN_RATE_FACTOR) * (1 - done if falls else (1 + math.cos(math.pi * done)) / 2)


def decay_start(total: int) -> int:
    """From which step on the rate falls evenly, of so many: a last part of them."""
    return max(round(total * (1 - DECAY_SHARE)), 1)


def steps_with_decay_from(step: int, total: int | None) -> int:
    """How many steps there are in all where the rate falls from this one on, instead of later: of no more than were planned."""
    found = max(round(step / (1 - DECAY_SHARE)), step + 1)
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
        return max(min(falls, decay_start(fewer)), step)
    left = (total - step) / max(total - falls, 1)  # of the highest rate
    return max(round((step - (1 - left) * fewer) / left), 1) if left > 0 else falls


def is_look(step: int, total: int | None, evaluations: int, early: bool = False) -> bool:
    """Whether the held-out part is looked at after a step: evenly spread, and after the last one.

    `early`: within the first of many steps, too, at ever longer intervals, where looks are cheap.
    """
    if total is None:
        return step % EVALUATION_INTERVAL == 0
    if is_early(step, total, evaluations):
        return (
            early
            and evaluations >= MIN_EVALUATIONS_FOR_EARLY
            and step % EVALUATION_INTERVAL == 0
            and (step // EVALUATION_INTERVAL).bit_count() == 1
        )
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
    return max(1, min(evaluations, int(MAX_EVALUATION_SHARE * seconds / max(look, 1e-9))))


def is_timed(times: Sequence[float], spent: float, seconds: float, timed: int) -> bool:
    """Whether enough steps have been timed: a few will do where steps are slow beside the budget."""
    if len(times) >= timed or spent > seconds:
        return True
    return len(times) >= MIN_TIMED and spent > EARLY_SHARE * seconds


def typical(times: Sequence[float]) -> float:
    """How long a step takes: the median of those timed but for the first, which do what is done once."""
    later = sorted(times[max(len(times) // 5, min(len(times) - 1, 2)) :])
    return later[len(later) // 2]


def bought(seconds: float, spent: float, done: int, step: float, look: float, looks: int) -> int:
    """How many steps a budget buys in all, once `done` have taken `spent` seconds and what a step and a look take."""
    left = max(seconds - spent - look * looks, 0.0)
    return done + int(left / max(step, 1e-9))


KEPT = 0.97  # of a time budget: the rest is for steps that take a little longer than those that were timed
MORE = 1.05  # times as many steps, at least, where there are to be more
MIN_TIMED_HOPELESS, HOPELESS_FACTOR = 3, 2.0  # steps that show that a budget is too short by such a factor
ALL_STEPS = 0.4  # of a budget, about: what is left for steps beside what follows them
MAX_STEPS_UNVALIDATED = 1000  # the most steps without validation entities, as overfitting would not be seen


@dataclass(frozen=True)
class Schedule:
    """The schedule of a run: reads and adjusts its state."""

    config: TrainConfig
    state: State
    is_watched: bool  # whether anything is held out

    @property
    def ahead(self) -> int | None:
        """How many steps there will be in all, as far as that is known: a budget may make it fewer."""
        return self.state.total or self.config.steps

    @property
    def planned(self) -> int | None:
        """The same before the first step."""
        if self.config.seconds is not None:
            return None
        return self.config.steps or (None if self.is_watched else MAX_STEPS_UNVALIDATED)

    @property
    def is_over(self) -> bool:
        """Whether all steps were taken, the time is up, or more steps would make nothing better."""
        over = self.ahead is not None and self.state.step >= self.ahead
        late = self.config.seconds is not None and self.state.seconds + self.state.spare >= self.config.seconds
        return over or (late and self.state.total is not None) or self.state.worse >= self.config.patience

    @property
    def falls(self) -> int:
        """The step from which the rate falls evenly; 0 where its course is another."""
        if self.config.course != "plateau":
            return 0
        return self.state.falls or (decay_start(self.ahead) if self.ahead is not None else 1 << 60)

    @property
    def rate(self) -> float:
        """The rate of the next step."""
        return self.config.rate * rate_factor(self.state.step, self.ahead, self.config.warmup, self.falls)

    def is_look_due(self, early: bool) -> bool:
        """Whether the held-out part is to be looked at after this step."""
        if not self.is_watched or (self.ahead is None and self.config.seconds is not None):
            return False
        return is_look(self.state.step, self.ahead, self.state.evaluations, early)

    # ------------------------------------------------------------ a budget

    def is_hopeless(self, least: int) -> bool:
        """Whether the first steps were so slow that the budget will not buy the `least` that are of any use."""
        seconds, times = self.config.seconds, self.state.timing
        return (
            seconds is not None
            and len(times) >= MIN_TIMED_HOPELESS
            and least * min(times[1:]) > HOPELESS_FACTOR * ALL_STEPS * seconds
        )

    def is_timed(self, seconds: float, least: int = 0) -> bool:
        """Take in how long a step took: whether the budget is to become a number of steps by now, which it does once.

        That is known early where it is good for fewer than the `least` that are of any use.
        """
        state, config = self.state, self.config
        if state.total is not None or config.seconds is None:
            return False
        state.timing.append(seconds)
        are_few = len(state.timing) >= MIN_TIMED and least * typical(state.timing) > ALL_STEPS * config.seconds
        is_last = state.step == config.steps  # what follows the steps is planned by then
        return (
            are_few
            or is_last
            or self.is_hopeless(least)
            or is_timed(state.timing, state.seconds + seconds, config.seconds, config.timed)
        )

    def buy(self, budget: float, spent: float, look: float, least: int = 0) -> bool:
        """The budget becomes a number of steps, where so much of it is spent and a look takes so long.

        False where that is fewer than the `least` that are of any use: then no more are taken.
        """
        state, config = self.state, self.config
        state.evaluations = affordable(budget, look, config.evaluations)
        step = typical(state.timing)
        total = bought(KEPT * budget - state.spare, spent, state.step, step, look, state.evaluations)
        most = config.steps or (total if self.is_watched else MAX_STEPS_UNVALIDATED)
        is_enough = total >= min(least, config.steps or least)
        if is_enough:
            state.total = max(min(total, most), state.step)
        return is_enough

    def give_up(self) -> None:
        """End the run after the steps that were taken: the budget does not buy enough of them."""
        self.state.total, self.state.is_silent = self.state.step, True

    def adjust(self) -> None:
        """Fewer steps where they have become slower than those that were timed, so that a budget is kept.

        More where they have become faster, so that it is used: until the rate falls, or is near its end.
        """
        state, budget = self.state, self.config.seconds
        if budget is None or state.total is None or state.stopped:
            return
        fewer, more = (self._affordable(state.total, part * budget) for part in (1, KEPT))
        if fewer is not None and fewer < state.total:
            if self.config.course == "plateau":
                state.falls = fall_again(state.step, self.falls, state.total, fewer)
            state.total = fewer
        elif more is not None and state.step < (self.falls or decay_start(state.total)):
            more = min(more, self.config.steps or more)
            if more >= MORE * state.total:
                state.total, state.falls = more, 0

    def _affordable(self, total: int, budget: float) -> int | None:
        """How many steps a budget is good for in all, as fast as they were by now."""
        state = self.state
        # Early looks are close together, and steps would seem slow by them.
        even = [one for one in state.history if not is_early(one["step"], total, state.evaluations)]
        left = affordable_steps(even, budget - state.spare - state.seconds)
        return None if left is None else state.step + left

    # ------------------------------------------------------------ the plateau

    def cool(self) -> None:
        """Where it gets no better at a rate that stays, let it fall."""
        state, ahead = self.state, self.ahead
        tired = self.config.course == "plateau" and state.worse >= self.config.tired
        if tired and state.step < self.falls:
            state.falls, state.worse = state.step, 0
            state.total = steps_with_decay_from(state.step, ahead)
