"""The time budget of a job, shared by its stages: each has its share of what the stages before it left.

The budget bounds all of a job: reading, training, measuring the model and, in a completion, filling the gaps. Setting up the data
takes as long as it takes. What then is left is planned:

    filling    gaps, in a completion: some times what preparing the data took, as both read every value
    the model  networks, the experts and their weights
    after it   evaluation, trees of presence, calibration, links

A stage that needs less than its share leaves the rest to later ones. Where nothing is left for training, experts are left out, and
networks take a step or two: rules and the commonest values remain.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from kbdisk.experts import experts_of
from kbdisk.experts.base import Report
from kbdisk.training.run import Run
from kbdisk.training.schedule import SPARE, seconds_for
from kbdisk.training.validation import FinalTask, Progress, Watch

WEIGHTS_SHARE = 0.25  # of the experts' time: for their weights
SHORT_BUDGET = 30.0  # seconds of a budget below which experts have less time to be fitted again
FILLING_FACTOR, MAX_FILLING_SHARE = 1.5, 0.4  # of the seconds of preparing the data; of what is left after it
MIN_SHARE_LEFT = 0.05  # of a budget, for training: with less, experts are left out
MIN_OVERRUN, MIN_SECONDS_OVER = 1.15, 2.0  # of a budget, and seconds beyond it, from which on it is said
NETWORKS, WEIGHTS, EVALUATION, CALIBRATION = "networks", "weights", "evaluation", "calibration"  # beside the experts


class Limits(NamedTuple):
    """The time of a stage after training: a share of what is left, and seconds."""

    share: float
    least: float  # even where the budget is used up
    most: float


class Clock:
    """The time of a job since it began, and that of each stage once it is planned."""

    def __init__(self, begun: float | None = None, *, fills: bool = False) -> None:
        """`begun` is when the job began, by `time.monotonic()`; without it now. `fills`: gaps are filled after training."""
        self.begun = time.monotonic() if begun is None else begun
        self.fills = fills
        self.budget: float | None = None
        self.set_up = 0.0  # seconds before training
        self.before, self.steps = 0.0, 0  # seconds of a stopped run that this one continues; steps of the networks
        self.filling = 0.0  # seconds that are left for it
        self.shares: Mapping[str, float] = {}
        self.after: Mapping[str, Limits] = {}
        self.watch: Watch = _unwatched
        self.left_out = ""  # what there was no time for

    @property
    def is_used_up(self) -> bool:
        """Whether hardly anything is left of the budget for training."""
        return self.budget is not None and self._left < MIN_SHARE_LEFT * self.budget

    @property
    def spent(self) -> float:
        """Seconds since the job began, with those of a stopped run that it continues."""
        return self.before + time.monotonic() - self.begun

    def plan(
        self, run: Run, watch: Watch, preparing: float, *, experts_first: bool, after: Mapping[str, Limits]
    ) -> None:
        """Share what is left of the budget. `preparing`: the seconds that preparing the data took."""
        self.watch, self.budget, self.after, self.set_up = watch, run.train.seconds, after, self.spent
        stacked = experts_of("stack")
        shares = {name: (1 - WEIGHTS_SHARE) * run.experts[name].share for name in stacked}
        is_short = self.budget is not None and self.budget < SHORT_BUDGET
        refits = {
            name: (kind.short_refit_share if is_short else kind.refit_share) * shares[name]
            for name, kind in stacked.items()
        }
        fits = {name: share - refits[name] for name, share in shares.items()}
        networks = {NETWORKS: 1 - run.experts_share}
        self.shares = fits | networks if experts_first else networks | fits
        self.shares |= {WEIGHTS: WEIGHTS_SHARE * sum(run.experts[name].share for name in stacked)}
        self.shares |= {f"{name} again": share for name, share in refits.items()}
        self.shares |= {name: run.experts[name].share for name in experts_of("answer")}
        if self.fills and self.budget is not None:
            self.filling = min(FILLING_FACTOR * preparing, MAX_FILLING_SHARE * self._left)

    @property
    def overrun(self) -> str:
        """The line about a budget that was exceeded by more than a little; empty where it was kept."""
        spent, budget = self.spent, self.budget
        if budget is None or spent < MIN_OVERRUN * budget or spent < budget + MIN_SECONDS_OVER:
            return ""
        left_out = f"; left out: {self.left_out}" if self.left_out else ""
        before = f"{self.set_up:,.0f} s passed before training"
        return f"took {spent:,.0f} s, more than the budget of {budget:,.0f} s: {before}{left_out}"

    @property
    def _left(self) -> float:
        """The seconds that are left of the budget for what is not yet done, but for filling."""
        assert self.budget is not None
        return max((1 - SPARE) * self.budget - self.spent - self.filling, 0.0)

    def seconds(self, name: str) -> float | None:
        """The seconds that a stage has, if they are limited."""
        if self.budget is None:
            return None
        if name in self.after:
            return self._seconds_after(name)
        stages = list(self.shares)
        later = sum(self.shares[other] for other in stages[stages.index(name) + 1 :])
        planned = self._planned_after((self.shares[name] + later) / sum(self.shares.values()))
        least = self.shares[name] * self.budget if name == WEIGHTS else 0.0  # experts without weights are lost
        return max(seconds_for(self.shares[name], max(self._left - planned, 0.0), later), least)

    def _planned_after(self, training: float) -> float:
        """The seconds of all stages after training, where such a share of training is left."""
        left, whole = self._left, training + sum(limits.share for limits in self.after.values())
        return sum(min(left * limits.share / whole, limits.most) for limits in self.after.values())

    def _seconds_after(self, name: str) -> float:
        """The seconds of a stage after training: its part of what is left for it and those that follow."""
        stages, limits = list(self.after), self.after[name]
        later = sum(self.after[other].share for other in stages[stages.index(name) + 1 :])
        return max(min(seconds_for(limits.share, self._left, later), limits.most), limits.least)

    @contextmanager
    def stage(self, name: str, doing: str) -> Iterator[tuple[float | None, Report]]:
        """A stage; yields its seconds, and a function that reports its progress."""

        def report(done: int, total: int) -> None:
            task = FinalTask(doing, done, total)
            self.watch(Progress(self.steps, self.steps, self.spent, math.nan, ended=True, final_task=task))

        yield self.seconds(name), report


def _unwatched(progress: Progress) -> None:
    pass
