"""The time budget of a job, shared by its stages: each has its share of what the stages before it left.

The budget bounds all of a job: reading, training, measuring the model and, in a completion, filling the gaps. Setting up the data
takes as long as it takes. What then is left is planned:

    filling    gaps, in a completion: in proportion to the time of setting up after the source was read, as both look at every
               value; where a part of it was read, to what all would have taken. Where every gap gets a value, each gap adds to it
    the model  networks, the experts and their weights; then entities are read again, in proportion to setting up
    after it   evaluation, trees of presence, calibration, links

What a stage of training leaves goes to later stages of training, and then to the stages after it. Networks that cannot take enough
steps take none. Their time goes to the experts, to boosted trees and label regression first. Where setting up and filling leave
hardly anything, the model has half of the budget all the same, `MOST_EXTENDED` seconds at most: a job that is late then is of some
use.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kbdisk.experts import EXPERTS, experts_of
from kbdisk.experts.base import Report
from kbdisk.training.run import Run
from kbdisk.training.schedule import SPARE, seconds_for
from kbdisk.training.validation import FinalTask, Progress, Watch, unwatched

WEIGHTS_SHARE = 0.15  # of the experts' time: for their weights
SHORT_TIME = 25.0  # seconds of training, below which experts have less time to be fitted again
MIN_SECONDS_EXPERTS_FIRST = 100.0  # of training, from which on experts may be fitted before the networks
FILLING_FACTOR = 1.25  # seconds of reading, asking and writing all entities, for each second of setting up
SECONDS_OF_GAP = 0.00027  # of predicting and writing a value on one core, where every gap gets one
SECONDS_OF_GAP_WITH_NETWORKS = 0.00055  # the same by a model with networks
SERIAL_SHARE = 0.2  # of it, that is not divided among processes
PASSES_FACTOR = 0.1  # seconds of reading entities again after training, for each second of setting up
MAX_FILLING_SHARE = 0.5  # of what is left after setting up
MIN_MODEL_SHARE = 0.5  # of a budget, for training and measuring the model, however little is left
MOST_EXTENDED = 15.0  # seconds that the model has in this way; a longer budget leaves them, as a rule
KEPT_SHARE = 0.7  # of the time that was planned for a stage after training, however long the stages before it took
MIN_SECONDS_AFTER = 0.2  # of a stage after training: with less it is left out
MIN_OVERRUN, MIN_SECONDS_OVER = 1.15, 2.0  # of a budget, and seconds beyond it, from which on the overrun is reported
NETWORKS, WEIGHTS, EVALUATION, CALIBRATION = "networks", "weights", "evaluation", "calibration"  # beside the experts


class Limits(NamedTuple):
    """The time of a stage after training: a share of what is left, and seconds."""

    share: float
    least: float  # even where the budget is used up
    most: float


def share_seconds(left: float, shares: Mapping[str, float], most: Mapping[str, float]) -> dict[str, float]:
    """Seconds divided by shares. A stage has at most its `most` seconds; the rest goes to the others."""
    seconds: dict[str, float] = {}
    while True:
        open_shares = {name: share for name, share in shares.items() if name not in seconds}
        total = sum(open_shares.values())
        even = {name: left * share / total if share else 0.0 for name, share in open_shares.items()}
        satisfied = {name: most[name] for name, part in even.items() if part > most.get(name, math.inf)}
        if not satisfied:
            return seconds | even
        seconds |= satisfied
        left -= sum(satisfied.values())


class Clock:
    """The time of a job since it began, and that of each stage once it is planned."""

    def __init__(
        self,
        begun: float | None = None,
        *,
        fills: str | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        """`begun` is when the job began, by `time.monotonic()`; without it now.

        `fills` says which gaps are filled after training, as in `CompletionConfig.fill`; None: none are. `report` is called
        with a line about the plan.
        """
        self.begun = time.monotonic() if begun is None else begun
        self.fills, self.report = fills, report
        self.read = 0.0  # seconds until the source was read
        self.budget: float | None = None
        self.before, self.steps = 0.0, 0  # seconds of networks of a stopped run that is resumed; steps of the networks
        self.set_up, self.trained = 0.0, 0.0  # seconds until training began, and until the model was there
        self.filling = 0.0  # planned seconds of filling
        self.gaps, self.processes, self.seconds_of_gap = 0, 1, SECONDS_OF_GAP
        self.unread = 0.0  # seconds that preparing the rest of the source would have taken, if a part of it was read
        self.passes = 0.0  # planned seconds between training and measuring the model, in which entities are read again
        self.extension = 0.0  # seconds beyond the budget that the model has, as setting up and filling leave too little
        self.planned: Mapping[str, float] = {}  # seconds of the stages after training, when training began
        self.for_training: float | None = None  # seconds that were left for networks and experts when training began
        self.experts_come_first = False  # whether experts are fitted before the networks
        self.shares: Mapping[str, float] = {}
        self.kept: Mapping[str, float] = {}  # of its planned time, that a stage of training has in any case
        self.most: dict[str, float] = {}  # seconds of stages of training that are known to need no more
        self.after: Mapping[str, Limits] = {}
        self.watch: Watch = unwatched
        self.left_out: list[str] = []  # experts that there was no time for

    # ------------------------------------------------------------ the plan

    def start(
        self,
        budget: float | None,
        watch: Watch,
        gaps: int = 0,
        after: Mapping[str, Limits] | None = None,
        processes: int = 1,
        unread: float = 0.0,
    ) -> None:
        """Plan the time that is left when training begins, with so many `gaps` to fill after it by so many processes.

        Preparing the entities that are filled and were not read would have taken `unread` seconds more.
        """
        self.unread = unread
        self.watch, self.budget, self.after, self.set_up = watch, budget, after or {}, self.spent
        self.gaps, self.processes = gaps, processes
        if budget is None:
            return
        if self.fills is not None:
            self.filling = min(self._seconds_of_filling(), MAX_FILLING_SHARE * self.left)
        self.passes = PASSES_FACTOR * (self.set_up - self.read)
        self.extension = max(min(MIN_MODEL_SHARE * budget, MOST_EXTENDED) - self._unextended, 0.0)
        self.planned = self._planned_after(1.0)
        self.for_training = max(self.left - sum(self.planned.values()), 0.0)
        if self.report is not None:
            self.report(self._plan_line())

    def expect_networks(self) -> None:
        """Plan the filling by a model with networks. A plan begins without them, as they may turn out too slow."""
        if self.budget is None or self.fills is None:
            return
        left, self.seconds_of_gap = self.left + self.filling, SECONDS_OF_GAP_WITH_NETWORKS
        self.filling = max(self.filling, min(self._seconds_of_filling(), MAX_FILLING_SHARE * left))

    def _seconds_of_filling(self) -> float:
        share = SERIAL_SHARE + (1 - SERIAL_SHARE) / self.processes
        for_gaps = self.seconds_of_gap * share * self.gaps if self.fills == "all" else 0.0
        return FILLING_FACTOR * (self.set_up - self.read + self.unread) + for_gaps

    def _plan_line(self) -> str:
        stages = [f"{self.set_up:,.0f} s before training", f"{self.for_training:,.0f} s of training"]
        if self.planned:
            stages.append(f"{sum(self.planned.values()):,.0f} s of measuring the model")
        if self.fills is not None:
            stages.append(f"about {self.filling:,.0f} s for {self.gaps:,} gaps")
        return f"plan: {', '.join(stages)}"

    def plan(self, run: Run, *, are_silent: bool = False) -> None:
        """Share the time between the networks and the experts of a run; `are_silent`: the networks took too few steps, and leave their time."""
        stacked = experts_of("stack")
        shares = {
            name: (1 - WEIGHTS_SHARE) * run.experts[name].share * (kind.factor_if_silent if are_silent else 1.0)
            for name, kind in stacked.items()
        }
        refits = {
            name: (kind.short_refit_share if self.is_short or are_silent else kind.refit_share) * shares[name]
            for name, kind in stacked.items()
        }
        fits = {name: share - refits[name] for name, share in shares.items()}
        networks = {NETWORKS: 1 - run.experts_share}
        self.shares = fits | networks if self.experts_come_first else networks | fits
        self.shares |= {WEIGHTS: WEIGHTS_SHARE * sum(run.experts[name].share for name in stacked)}
        self.shares |= {f"{name} again": share for name, share in refits.items()}
        self.shares |= {name: run.experts[name].share for name in experts_of("answer")}
        # without weights all experts are lost
        self.kept = {WEIGHTS: 1.0} | {name: kind.kept_share for name, kind in stacked.items()}

    def put_experts_first(self, run: Run) -> None:
        """Plan anew, with the experts before the networks."""
        self.experts_come_first = True
        self.plan(run)

    @property
    def is_long(self) -> bool:
        """Whether there is time enough to fit experts before the networks."""
        return self.for_training is not None and self.for_training >= MIN_SECONDS_EXPERTS_FIRST

    @property
    def is_short(self) -> bool:
        """Whether there is little time for training."""
        return self.for_training is not None and self.for_training < SHORT_TIME

    # ------------------------------------------------------------ what is left

    @property
    def spent(self) -> float:
        """Seconds since the job began, with those of networks of a stopped run that it resumes."""
        return self.before + time.monotonic() - self.begun

    @property
    def left(self) -> float:
        """The seconds that are left for what is not yet done, but for filling."""
        return max(self._unextended + self.extension, 0.0)

    @property
    def _unextended(self) -> float:
        """The same of the budget alone; negative if it is used up."""
        assert self.budget is not None
        return (1 - SPARE) * self.budget - self.spent - self.passes - self.filling

    def seconds(self, name: str) -> float | None:
        """The seconds that a stage has, if they are limited."""
        if self.budget is None:
            return None
        if name in self.after:
            return self._seconds_after(name)
        stages = list(self.shares)
        shares = {stage: self.shares[stage] for stage in stages[stages.index(name) :]}
        whole = sum(self.shares.values())
        planned = sum(self._planned_after(sum(shares.values()) / whole).values())
        least = self.kept.get(name, 0.0) * self.shares[name] / whole * (self.for_training or 0.0)
        return max(share_seconds(max(self.left - planned, 0.0), shares, self.most)[name], least)

    def note_fit(self, name: str, seconds: float) -> None:
        """Note the seconds of an expert's first fit, which bound the time of its refit."""
        self.most[f"{name} again"] = EXPERTS[name].max_refit_factor * seconds

    def is_enough_for(self, name: str, values: int) -> bool:
        """Whether an expert has time to go through so many values."""
        seconds = self.seconds(name)
        return seconds is None or seconds >= EXPERTS[name].least_seconds(values)

    def _planned_after(self, training: float) -> dict[str, float]:
        """The seconds of each stage after training, where such a share of training is left: at most those planned when it began."""
        left, whole = self.left, training + sum(limits.share for limits in self.after.values())
        return {
            name: min(left * limits.share / whole, limits.most, self.planned.get(name, math.inf))
            for name, limits in self.after.items()
        }

    def _seconds_after(self, name: str) -> float:
        """The seconds of a stage after training: its part of what is left for it and those that follow."""
        stages, limits = list(self.after), self.after[name]
        later = sum(self.after[other].share for other in stages[stages.index(name) + 1 :])
        least = max(limits.least, KEPT_SHARE * self.planned[name])
        left = max(self._unextended + self.extension + self.passes, 0.0)  # entities have been read again
        return max(min(seconds_for(limits.share, left, later), limits.most), least)

    def has_time_for(self, name: str, values: int = 0) -> bool:
        """Whether an expert that is fitted after training has time for so many values. An expert without a share needs none."""
        seconds, least = self.seconds(name), max(EXPERTS[name].least_seconds(values), MIN_SECONDS_AFTER)
        return seconds is None or seconds >= least or not self.after[name].share

    def leave_out(self, *names: str) -> None:
        """Note the experts that there was no time for."""
        self.left_out += [EXPERTS[name].title for name in names]

    # ------------------------------------------------------------ what is said

    def lines(self) -> Iterator[str]:
        """A line about experts that there was no time for, and one about a budget that was exceeded by more than a little."""
        if self.left_out:
            yield f"left out for lack of time: {', '.join(self.left_out)}. A longer budget includes them"
        spent, budget = self.spent, self.budget
        if budget is not None and spent > MIN_OVERRUN * budget and spent > budget + MIN_SECONDS_OVER:
            trained = self.trained or spent
            stages = [f"{self.set_up:,.0f} s before training", f"{trained - self.set_up:,.0f} s of training"]
            stages += [] if self.fills is None else [f"{spent - trained:,.0f} s of filling"]
            yield f"took {spent:,.0f} s, more than the budget of {budget:,.0f} s: {', '.join(stages)}"

    def stage(self, name: str, doing: str) -> tuple[float | None, Report]:
        """The seconds that a stage has, and the function that reports its progress."""

        def report(done: int, total: int) -> None:
            task = FinalTask(doing, done, total)
            self.watch(Progress(self.steps, self.steps, self.spent, math.nan, ended=True, final_task=task))

        return self.seconds(name), report
