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
SPARE = 0.01  # of a time budget: for the work that is under way when it is used up
MIN_TIMED, EARLY_SHARE = (
    5,
    0.1,
)  # steps, and the share of a budget: after these a budget becomes a number of steps early
UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}
BUDGET = re.compile(r"\s*+(\d+(?:\.\d*)?)\s*+(s|m|min|h|)\s*+")


def seconds_of(budget: str | float) -> float:
    """A time budget as seconds: 90, "90s", "10m", "1.5h"."""
    match = BUDGET.fullmatch(str(budget))
    seconds = float(match[1]) * UNITS[match[2]] if match else 0.0
    if seconds <= 0:
        raise ConfigError("--budget", f"expected a time such as 90s, 10m or 2h, got {budget!r}.")
    return seconds


def rate_factor(step: int, total: int | None, warmup: int, falls: int = 0) -> float:
    """The learning rate at a step, from 0, as a factor of the peak rate: a linear warmup, then a decay to a hundredth.

    `falls`: the step from which the rate decays linearly, being constant until then; 0: a cosine from the end of the warmup.
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
    """The step from which the rate decays linearly: for the last DECAY_SHARE of all steps."""
    return max(round(total * (1 - DECAY_SHARE)), 1)


def steps_with_decay_from(step: int, total: int | None) -> int:
    """The total number of steps where the rate decays from this step on, earlier than planned; at most the planned total."""
    earlier = max(round(step / (1 - DECAY_SHARE)), step + 1)
    return earlier if total is None else min(total, earlier)


def affordable_steps(history: Sequence[Mapping[str, Any]], seconds: float) -> int | None:
    """The steps that fit into some seconds, at the speed between the first evaluation and the last; None before two."""
    if len(history) < 2:
        return None
    first, last = history[0], history[-1]
    seconds_per_step = (last["seconds"] - first["seconds"]) / max(last["step"] - first["step"], 1)
    return max(int(seconds / seconds_per_step), 0) if seconds_per_step > 0 else None


def decay_start_of_fewer(step: int, falls: int, total: int, fewer: int) -> int:
    """The step from which the rate decays where there are to be fewer steps: the decay continues from the present rate."""
    if step < falls:
        return max(min(falls, decay_start(fewer)), step)
    left = (total - step) / max(total - falls, 1)  # of the peak rate
    return max(round((step - (1 - left) * fewer) / left), 1) if left > 0 else falls


def is_evaluated(step: int, total: int | None, evaluations: int, early: bool = False) -> bool:
    """Whether a step is followed by an evaluation: these are evenly spread, and the last follows the last step.

    `early`: also among the first steps, at ever longer intervals, where evaluations are cheap.
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
    """Whether a step is before the first of evenly spread evaluations."""
    return step * evaluations < total


def seconds_for(share: float, left: float, later: float) -> float:
    """The seconds of a stage with a share of the time: its part of what is left, beside the shares of later stages."""
    return left * share / (share + later) if share else 0.0


def affordable_evaluations(seconds: float, evaluation: float, evaluations: int) -> int:
    """The number of evaluations that take at most MAX_EVALUATION_SHARE of a budget; `evaluation` is the seconds of one."""
    return max(1, min(evaluations, int(MAX_EVALUATION_SHARE * seconds / max(evaluation, 1e-9))))


def is_timed(times: Sequence[float], spent: float, seconds: float, timed: int) -> bool:
    """Whether enough steps have been timed: fewer where steps are slow beside the budget."""
    if len(times) >= timed or spent > seconds:
        return True
    return len(times) >= MIN_TIMED and spent > EARLY_SHARE * seconds


def typical_seconds(times: Sequence[float]) -> float:
    """The seconds of a step: the median of the timed steps without the first, which include work that is done once."""
    later = sorted(times[max(len(times) // 5, min(len(times) - 1, 2)) :])
    return later[len(later) // 2]


def steps_in_budget(seconds: float, spent: float, done: int, step: float, evaluation: float, evaluations: int) -> int:
    """The total number of steps in a budget, once `done` steps took `spent` seconds; `step`, `evaluation`: seconds of one."""
    left = max(seconds - spent - evaluation * evaluations, 0.0)
    return done + int(left / max(step, 1e-9))


STEPS_SHARE = 0.97  # of a time budget: the rest is for steps that take a little longer than those that were timed
MIN_INCREASE = 1.05  # the factor by which the number of steps is increased, at least
MIN_TIMED_HOPELESS, HOPELESS_FACTOR = 2, 2.0  # steps that show that a budget is too short by such a factor
MIN_STEPS_SHARE = 0.4  # of a budget, about: the least that is left for steps beside the tasks after them
MAX_STEPS_UNVALIDATED = 1000  # the most steps without validation entities, as overfitting would not be seen


@dataclass(frozen=True)
class Schedule:
    """The schedule of a run: reads and adjusts its state."""

    config: TrainConfig
    state: State
    has_validation: bool  # whether there are validation entities

    @property
    def total(self) -> int | None:
        """The total number of steps, as far as that is known: a budget may lower it."""
        return self.state.total or self.config.steps

    @property
    def planned(self) -> int | None:
        """The total number of steps before the first one is taken."""
        if self.config.seconds is not None:
            return None
        return self.config.steps or (None if self.has_validation else MAX_STEPS_UNVALIDATED)

    @property
    def is_over(self) -> bool:
        """Whether all steps are taken, the time is up, the network was given up, or early stopping ends the run."""
        over = self.total is not None and self.state.step >= self.total
        late = self.config.seconds is not None and self.state.seconds + self.state.spare >= self.config.seconds
        ended = self.state.is_silent or self.state.worse >= self.config.patience
        return over or (late and self.state.total is not None) or ended

    @property
    def falls(self) -> int:
        """The step from which the rate decays linearly; 0 in another course than `plateau`."""
        if self.config.course != "plateau":
            return 0
        return self.state.falls or (decay_start(self.total) if self.total is not None else 1 << 60)

    @property
    def rate(self) -> float:
        """The learning rate of the next step."""
        return self.config.rate * rate_factor(self.state.step, self.total, self.config.warmup, self.falls)

    def is_evaluation_due(self, early: bool) -> bool:
        """Whether this step is followed by an evaluation."""
        if not self.has_validation or (self.total is None and self.config.seconds is not None):
            return False
        return is_evaluated(self.state.step, self.total, self.state.evaluations, early)

    # ------------------------------------------------------------ a budget

    def is_hopeless(self, least: int) -> bool:
        """Whether the first steps were so slow that the budget does not have the `least` useful steps."""
        times = self.state.timing
        return len(times) >= MIN_TIMED_HOPELESS and self.are_too_slow(min(times[1:]), least)

    def are_too_slow(self, step: float, least: int, factor: float = HOPELESS_FACTOR) -> bool:
        """Whether the `least` useful steps take more than `factor` times the time for steps; `step` is the seconds of one."""
        seconds = self.config.seconds
        return seconds is not None and least * step > factor * MIN_STEPS_SHARE * seconds

    def is_timed(self, seconds: float, least: int = 0) -> bool:
        """Record the seconds of a step; whether the budget can be converted to a number of steps now, which happens once.

        That is early where the budget has fewer than the `least` useful steps.
        """
        state, config = self.state, self.config
        if state.total is not None or config.seconds is None:
            return False
        state.timing.append(seconds)
        are_few = (
            len(state.timing) >= MIN_TIMED and least * typical_seconds(state.timing) > MIN_STEPS_SHARE * config.seconds
        )
        is_last = state.step == config.steps  # the tasks after the last step have to be planned now
        return (
            are_few
            or is_last
            or self.is_hopeless(least)
            or is_timed(state.timing, state.seconds + seconds, config.seconds, config.timed)
        )

    def set_total(self, budget: float, spent: float, evaluation: float, least: int = 0) -> bool:
        """Convert the budget to a number of steps, by the seconds that are spent and those of an evaluation.

        False where that is fewer than the `least` useful steps: then no further steps are taken.
        """
        state, config = self.state, self.config
        state.evaluations = affordable_evaluations(budget, evaluation, config.evaluations)
        step = typical_seconds(state.timing)
        for_steps = STEPS_SHARE * budget - state.spare
        total = steps_in_budget(for_steps, spent, state.step, step, evaluation, state.evaluations)
        most = config.steps or (total if self.has_validation else MAX_STEPS_UNVALIDATED)
        is_enough = total >= min(least, config.steps or least)
        if is_enough:
            state.total = max(min(total, most), state.step)
        return is_enough

    def give_up(self) -> None:
        """End the run after the steps that were taken: the budget does not have enough of them."""
        self.state.total, self.state.is_silent = self.state.step, True

    def adjust(self) -> None:
        """Adjust the number of steps to their speed, so that the budget is kept and used.

        The number rises only before the rate decays.
        """
        state, budget = self.state, self.config.seconds
        if budget is None or state.total is None or state.stopped:
            return
        fewer, more = (self._affordable(state.total, part * budget) for part in (1, STEPS_SHARE))
        if fewer is not None and fewer < state.total:
            if self.config.course == "plateau":
                state.falls = decay_start_of_fewer(state.step, self.falls, state.total, fewer)
            state.total = fewer
        elif more is not None and state.step < (self.falls or decay_start(state.total)):
            more = min(more, self.config.steps or more)
            if more >= MIN_INCREASE * state.total:
                state.total, state.falls = more, 0

    def _affordable(self, total: int, budget: float) -> int | None:
        """The total number of steps in a budget, at the present speed."""
        state = self.state
        # Early evaluations are close together: steps would seem slow by them.
        even = [row for row in state.history if not is_early(row["step"], total, state.evaluations)]
        left = affordable_steps(even, budget - state.spare - state.seconds)
        return None if left is None else state.step + left

    # ------------------------------------------------------------ the plateau

    def decay_on_plateau(self) -> None:
        """Begin the decay of a constant rate where the validation loss has not fallen for `tired` evaluations."""
        state, total = self.state, self.total
        is_plateau = self.config.course == "plateau" and state.worse >= self.config.tired
        if is_plateau and state.step < self.falls:
            state.falls, state.worse = state.step, 0
            state.total = steps_with_decay_from(state.step, total)
