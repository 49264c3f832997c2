"""How many steps a run has, and its rate on the way: by what was chosen, by a time budget, and by how it gets on."""

from __future__ import annotations

from dataclasses import dataclass

from kbdisk.training import schedule
from kbdisk.training.config import TrainConfig
from kbdisk.training.validation import State

KEPT = 0.97  # of a time budget: the rest is for steps that take a little longer than those that were timed
MORE = 1.05  # times as many steps, at least, where there are to be more
ALL_STEPS = 0.4  # of a budget, about: what is left for steps beside what follows them
UNWATCHED = 1000  # steps at most where nothing is held out, so that nobody would see it getting worse


@dataclass(frozen=True)
class Pace:
    """What is told of a run's state, and what is changed in it."""

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
        return self.config.steps or (None if self.is_watched else UNWATCHED)

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
        return self.state.falls or (schedule.cooling(self.ahead) if self.ahead is not None else 1 << 60)

    @property
    def rate(self) -> float:
        """The rate of the next step."""
        return self.config.rate * schedule.share(self.state.step, self.ahead, self.config.warmup, self.falls)

    def is_look_due(self, early: bool) -> bool:
        """Whether the held-out part is to be looked at after this step."""
        if not self.is_watched or (self.ahead is None and self.config.seconds is not None):
            return False
        return schedule.is_look(self.state.step, self.ahead, self.state.evaluations, early)

    # ------------------------------------------------------------ a budget

    def is_timed(self, seconds: float, least: int = 0) -> bool:
        """Take in how long a step took: whether the budget is to become a number of steps by now, which it does once.

        That is known early where it is good for fewer than the `least` that are of any use.
        """
        state, config = self.state, self.config
        if state.total is not None or config.seconds is None:
            return False
        state.timing.append(seconds)
        are_few = (
            len(state.timing) >= schedule.FEWEST and least * schedule.typical(state.timing) > ALL_STEPS * config.seconds
        )
        return are_few or schedule.is_timed(state.timing, state.seconds + seconds, config.seconds, config.timed)

    def buy(self, budget: float, spent: float, look: float, least: int = 0) -> bool:
        """The budget becomes a number of steps, where so much of it is spent and a look takes so long.

        False where that is fewer than the `least` that are of any use: then no more are taken.
        """
        state, config = self.state, self.config
        state.evaluations = schedule.affordable(budget, look, config.evaluations)
        step = schedule.typical(state.timing)
        total = schedule.bought(KEPT * budget - state.spare, spent, state.step, step, look, state.evaluations)
        most = config.steps or (total if self.is_watched else UNWATCHED)
        is_enough = total >= min(least, config.steps or least)
        state.total = max(min(total, most), state.step) if is_enough else state.step
        return is_enough

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
                state.falls = schedule.fall_again(state.step, self.falls, state.total, fewer)
            state.total = fewer
        elif more is not None and state.step < (self.falls or schedule.cooling(state.total)):
            more = min(more, self.config.steps or more)
            if more >= MORE * state.total:
                state.total, state.falls = more, 0

    def _affordable(self, total: int, budget: float) -> int | None:
        """How many steps a budget is good for in all, as fast as they were by now."""
        state = self.state
        # Early looks are close together, and steps would seem slow by them.
        even = [one for one in state.history if not schedule.is_early(one["step"], total, state.evaluations)]
        left = schedule.affordable_steps(even, budget - state.spare - state.seconds)
        return None if left is None else state.step + left

    # ------------------------------------------------------------ how it gets on

    def cool(self) -> None:
        """Where it gets no better at a rate that stays, let it fall."""
        state, ahead = self.state, self.ahead
        tired = self.config.course == "plateau" and state.worse >= self.config.tired
        if tired and state.step < self.falls:
            state.falls, state.worse = state.step, 0
            state.total = schedule.cooled(state.step, ahead)
