"""Training: the recipe from entities and a schema to a model, with its networks, their sizes and the experts.

Sizes that a run leaves open are fitted to the data: small data is learnt best by a small network in small batches. Measured
at equal time on one core: 6,800 entities of 24 classes, 270 values a property, were learnt better at width 64 than at 128,
with little dropout; 118 chemical elements with much; 9,600 phones, 7,700 values a property, better at 64 than at 128 and in
batches of 512 than of 256, half on each of two cores; 2,900 nuclei of 18 properties in batches of 512 than of 128. Where
tables are drawn in one order, 500 to 6,400 rows learnt in that order alone were soon overfitted; 12,000 and more were not,
and the last columns were predicted better.

Networks share a time budget evenly. Where networks finish early and a share of the budget is left, there may be more.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path as FilePath
from typing import Any

import torch

from kbdisk.entity import Entity
from kbdisk.errors import KBDiskWarning, TrainingError, setting
from kbdisk.experts import boosted_trees, gaussian_process, given_only, knn, label_regression
from kbdisk.experts.base import Candidates, Report
from kbdisk.experts.config import FITTED_ON_HELD_OUT
from kbdisk.experts.gaussian_process import few_valued_slots
from kbdisk.experts.given_only import GivenProperties
from kbdisk.experts.queries import Sides
from kbdisk.experts.stacking import ROUNDS, stack
from kbdisk.model.network import DiSK
from kbdisk.rng import derive_seed
from kbdisk.schemas.schema import Schema
from kbdisk.styles.styles import Styles
from kbdisk.training.checkpoint import Checkpoint, Interrupted, folder_of, is_there, run_identity, stopping
from kbdisk.training.config import MAX_NETWORKS
from kbdisk.training.data import Data
from kbdisk.training.loop import Trainer, within_memory
from kbdisk.training.reserve import reserved_slots
from kbdisk.training.run import Run
from kbdisk.training.schedule import still_for
from kbdisk.training.trained import Member, Record, Trained
from kbdisk.training.validation import After, Progress, Watch

EXPERTS: Mapping[str, tuple[str, Callable[..., Candidates]]] = {  # what the progress bar says, and what fits each
    "knn": ("comparing", knn.fit),
    "gaussian_process": ("fitting functions", gaussian_process.fit),
    "label_regression": ("fitting labels", label_regression.fit),
    "boosted_trees": ("growing trees", boosted_trees.fit),
}
WEIGHING = 0.25  # of the experts' time: for their weights
REFITTING = {"boosted_trees": 0.4}  # of an expert's time: for what is fitted once there are weights
# of a short budget, in seconds, less: first trees that had too little time gain more by it than an average of several
REFITTING_IN_SHORT, SHORT_BUDGET = {"boosted_trees": 0.1}, 30.0


def train(
    schema: Schema,
    entities: Sequence[Entity],
    run: Run,
    device: torch.device,
    watch: Watch,
    *,
    held_out: Sequence[Entity] = (),
    source: Mapping[str, Any] | None = None,
    checkpoint: FilePath | None = None,
    resume: bool = False,
    force: bool = False,
    start: Trained | None = None,
) -> Trained:
    """A model of the entities; what is `held_out` tells when to stop, else a share of them does.

    Its networks continue from those of `start`, a model of an earlier state of the same entities: with its codec, its
    settings, and what it had held out.

    With a `checkpoint`, a folder, the run is kept there as it goes: SIGINT and SIGTERM end it with `Interrupted`, and
    `resume` goes on from there, or begins where nothing is kept. `force` gives up a run that is kept. The folder stays
    until `checkpoint.remove`, when the model is safe.
    """
    if start is None:
        data = Data.prepare(schema, entities, run, held_out)
        asked, run = run, fit_sizes(run, data)
    else:
        data = Data.continuing(start, entities)
        asked, run = run, start.run
    keeping = Keeping(checkpoint, source or {}, resume, force)
    experts = Experts(run, data, device, watch)
    if experts.come_first:
        experts.fit()
    with torch.random.fork_rng(), within_memory(run.train.batch, run.model.width):
        trainers, members = _networks(
            run,
            data,
            device,
            watch,
            keeping,
            experts.seconds_for_networks,
            [] if start is None else [member.network for member in start.members],
            may_shrink=not asked.model.width,
        )
    first, *others = members
    run = replace(run, model=trainers[0].run.model)  # a silent network is narrow
    record, styles = _record(trainers, len(members), data, keeping.source), Styles.learn(data.codec.schema, entities)
    reserved = {} if data.whole is None else reserved_slots(data.training, data.whole)
    trained = Trained(
        data.codec, first.network, run, record, styles, first.latent_knn, tuple(others), reserved=reserved
    )
    return experts.beside(trained)


class Experts:
    """The experts of a run: each learns from training, is weighed beside the networks, then learns from the rest, too.

    Within a budget of some minutes they are fitted before the networks, which have all the time that the experts leave. A
    shorter budget begins with the network: one that can't take enough steps leaves its time to the experts.
    """

    def __init__(self, run: Run, data: Data, device: torch.device, watch: Watch) -> None:
        self.run, self.data, self.device = run, data, device
        self.are_used = bool(run.experts_share) and len(data.validation) > 0  # which their weights are fitted to
        self.clock = Clock(run, watch, self.come_first)
        self.candidates: dict[str, Candidates] = {}

    @property
    def come_first(self) -> bool:
        """Whether they are fitted before the networks."""
        return (
            self.are_used and self.run.train.seconds is not None and self.run.train.seconds >= MIN_SECONDS_EXPERTS_FIRST
        )

    @property
    def seconds_for_networks(self) -> float | None:
        """What they leave to all networks; None where the networks come first, or there is no budget."""
        seconds = self.clock.seconds(NETWORKS) if self.come_first else None
        return None if seconds is None else max(seconds, MIN_SECONDS_LEFT)

    @cached_property
    def sides(self) -> Sides:
        """What they learn from."""
        return Sides(self.data.training, self.data.validation, self.data.whole).to(self.device)

    def fit(self) -> None:
        """Have each learn from training."""
        for name in EXPERTS:
            if getattr(self.run, name).share:
                doing, fit = EXPERTS[name]
                config, seed = getattr(self.run, name), self.run.seed
                with self.clock.stage(name, doing) as (seconds, report):
                    self.candidates[name] = fit(
                        self.data.codec, self.sides, config=config, seed=seed, seconds=seconds, report=report
                    )

    def beside(self, trained: Trained) -> Trained:
        """The networks with the experts that have a weight."""
        run, clock = self.run, self.clock
        facts = trained.record.facts
        clock.steps = facts["steps"]
        clock.spent += facts["seconds"]
        if not self.are_used:
            return trained
        if not self.come_first:
            self.fit()
        with clock.stage(WEIGHTS, "weighing") as (seconds, report):
            generator = torch.Generator(self.sides.training.slot.device).manual_seed(run.seed)
            groups = [candidates.group for candidates in self.candidates.values()]
            stacked = stack(groups, trained.believer, self.sides, ROUNDS, generator, seconds, report)
            weighted = dict(zip(self.candidates, stacked, strict=True))
        trained = replace(
            trained, judged={name: group for name, group in weighted.items() if group and name in FITTED_ON_HELD_OUT}
        )
        for name, group in weighted.items():
            if group is not None:
                with clock.stage(f"{name} again", f"{EXPERTS[name][0]} again") as (seconds, report):
                    changes: dict[str, Any] = {name: self.candidates[name].refitted(group, seconds, report)}
                    trained = replace(trained, **changes)
        if run.given_only.share:
            with clock.stage(GIVEN_ONLY, "asking again") as (seconds, report):
                config, seed = run.given_only, run.seed
                answers = given_only.fit(
                    trained.fair, trained.codec, self.sides, config=config, seed=seed, seconds=seconds, report=report
                )
                trained = replace(trained, given_only=answers)
        facts["seconds"] = round(clock.spent, 1)
        return trained


MIN_SECONDS_LEFT = 0.1  # of a budget that experts have used up, for networks: they take a few steps
MIN_SECONDS_EXPERTS_FIRST = 120.0  # seconds of a budget, from which on experts are fitted before the networks
NETWORKS, WEIGHTS, GIVEN_ONLY = "networks", "weights", "given_only"  # stages beside the experts' own


class Clock:
    """The time of each stage of a run: its part of what the stages before left."""

    def __init__(self, run: Run, watch: Watch, come_first: bool) -> None:
        self.watch, self.budget = watch, run.train.seconds
        self.spent, self.steps = 0.0, 0
        own = {name: (1 - WEIGHING) * getattr(run, name).share for name in EXPERTS}
        is_short = self.budget is not None and self.budget < SHORT_BUDGET
        refitting = REFITTING_IN_SHORT if is_short else REFITTING
        again = {name: share * own[name] for name, share in refitting.items()}
        self.shares = {name: share - again.get(name, 0.0) for name, share in own.items()}
        self.shares |= {NETWORKS: 1 - run.experts_share} if come_first else {}
        self.shares[WEIGHTS] = WEIGHING * sum(getattr(run, name).share for name in EXPERTS)
        self.shares |= {f"{name} again": again.get(name, 0.0) for name in EXPERTS}
        self.shares[GIVEN_ONLY] = run.given_only.share

    def seconds(self, name: str) -> float | None:
        """The seconds that a stage has, if they are limited."""
        if self.budget is None:
            return None
        stages = list(self.shares)
        later = sum(self.shares[other] for other in stages[stages.index(name) + 1 :])
        least = self.shares[name] * self.budget if name == WEIGHTS else 0.0  # experts without weights are lost
        return max(still_for(self.shares[name], self.budget, self.spent, later), least)

    @contextmanager
    def stage(self, name: str, doing: str) -> Iterator[tuple[float | None, Report]]:
        """The seconds that a stage has, and what it reports to."""
        begun = time.monotonic()

        def report(done: int, total: int) -> None:
            after, so_far = After(doing, done, total), self.spent + time.monotonic() - begun
            self.watch(Progress(self.steps, self.steps, so_far, math.nan, ended=True, after=after))

        yield self.seconds(name), report
        self.spent += time.monotonic() - begun


def _network_runs(
    run: Run, trainers: Sequence[Trainer], is_kept: Callable[[int], bool], seconds: float | None
) -> Iterator[tuple[Run, int]]:
    """Each network's run, and how many there are as far as is known.

    `trainers` are those of the networks before; `is_kept` tells which of a run that is resumed were begun.
    """
    planned = network_runs(run, seconds)
    yield from ((own, len(planned)) for own in planned)
    while (
        own := additional_run(run, [one.state.seconds for one in trainers], is_kept(len(trainers)), seconds)
    ) is not None:
        yield own, len(trainers) + 1


def _networks(
    run: Run,
    data: Data,
    device: torch.device,
    watch: Watch,
    keeping: Keeping,
    seconds: float | None,
    starts: Sequence[DiSK],
    *,
    may_shrink: bool,
) -> tuple[list[Trainer], list[Member]]:
    """Every network as it was trained, and those that are any good. The first ones continue from `starts`.

    A silent one is left out if there are others, else it is the only one. It is narrow where it `may_shrink`, as its width
    was left open.
    """
    trainers: list[Trainer] = []
    members: list[Member] = []
    for own, count in _network_runs(run, trainers, keeping.is_begun, seconds):
        number = len(trainers)
        trainer = Trainer(data, own, device, starts[number] if number < len(starts) else None)
        watching = partial(_watched, watch, (len(trainers) + 1, count))
        known = keeping.go(trainer, data, len(trainers), watching, planned_run(run, own))
        if trainer.state.is_silent and members:
            break
        trainers.append(trainer)
        if trainer.state.stopped and not (known and trainer.state.best_step):
            _refuse_stopped(trainers, keeping.folder is not None)
        if trainer.state.best_step or not trainer.state.stopped:
            trainer.finish()
            if trainer.state.is_silent:
                trainer.finish_silent(may_shrink=may_shrink)
            trainer.match_label_frequencies(watching)
            trainer.refit_presence(watching)
            members.append(Member(trainer.network, trainer.fit_latent_knn(watching)))
        if trainer.state.is_silent:
            break
    return trainers, members


@dataclass(frozen=True)
class Keeping:
    """Where a run is kept as it goes, if anywhere: each network in a folder of its own."""

    folder: FilePath | None
    source: Mapping[str, Any]
    resume: bool
    force: bool

    def is_begun(self, number: int) -> bool:
        """Whether a network of a run that is resumed was begun."""
        return self.resume and self.folder is not None and is_there(folder_of(self.folder, number))

    def go(self, trainer: Trainer, data: Data, number: int, watch: Watch, planned: Run) -> bool:
        """All steps of a network; whether it was known before that it could not go on."""
        if self.folder is None:
            _go(trainer, watch)
            return False
        folder, of = folder_of(self.folder, number), run_identity(data, planned, self.source)
        if self.resume and is_there(folder):
            kept = Checkpoint.resume(folder, of, trainer)
        else:
            kept = Checkpoint.begin(folder, of, force=self.force or number > 0)
        known = bool(trainer.state.stopped)
        _go_kept(trainer, watch, kept)
        return known


def _watched(watch: Watch, member: tuple[int, int], progress: Progress) -> None:
    watch(replace(progress, member=member))


def _go(trainer: Trainer, watch: Watch) -> None:
    for progress in trainer.steps():
        watch(progress)


def _go_kept(trainer: Trainer, watch: Watch, checkpoint: Checkpoint) -> None:
    state = trainer.state
    if state.stopped:  # it is resumed, and the last good weights are wanted
        return
    with stopping() as stop:
        try:
            for progress in trainer.steps():
                checkpoint.log(progress, trainer)
                watch(progress)
                if stop.signal is not None:
                    break
                if progress.look is not None or checkpoint.is_due:
                    checkpoint.save(trainer)
        finally:
            checkpoint.close()
        if state.best_step or not state.stopped:
            checkpoint.save(trainer)
        if stop.signal is not None:  # also one that came with the last step, or while it was kept
            raise Interrupted(stop.signal, state.step, trainer.ahead, checkpoint.folder)


def _refuse_stopped(trainers: Sequence[Trainer], is_kept: bool) -> None:
    """TrainingError where the first network could not go on; of another one only a warning, as there is a model without it."""
    state, number = trainers[-1].state, len(trainers)
    advice = f"Lower train.rate ({trainers[-1].config.rate:g})"
    good = f"the weights of step {state.best_step:,}, which were good" if state.best_step else ""
    if number > 1:
        left = f"It has {good}" if good else "It is left out"
        warnings.warn(f"train: network {number}: {state.stopped}. {left}. {advice}.", KBDiskWarning, stacklevel=4)
        return
    way_out = f"; {setting('resume')} makes a model of {good}" if good and is_kept else ""
    raise TrainingError("train", f"{state.stopped}. {advice}{way_out}.")


def _record(trainers: Sequence[Trainer], networks: int, data: Data, source: Mapping[str, Any]) -> Record:
    """How the first of several networks came about, and how long all of them took."""
    trainer, state = trainers[0], trainers[0].state
    facts: dict[str, Any] = {
        "networks": networks,
        "steps": state.step,
        "best_step": state.best_step,
        "seconds": round(sum(one.state.seconds for one in trainers), 1),
        "parameters": sum(one.numel() for each in trainers for one in each.network.parameters()),
    }
    stopped = next((one.state.stopped for one in trainers if one.state.stopped), "")
    facts |= {"stopped": stopped} if stopped else {}
    return Record(
        dict(source),
        list(data.validation.ids),
        list(data.training.ids),
        state.history,
        facts=facts,
        constants=trainer.validator.constants.to_json(),
    )


# ---------------------------------------------------------------- sizes


NARROW_WIDTH, WIDE_WIDTH = 64, 128
MIN_VALUES_WIDE = 20_000  # values of a property from which on the network is wide
TOKENS_PER_BATCH = 8000  # in a step, about
MAX_BATCH_SHARE = 1 / 4  # of the entities in a batch, at most
FEW_ENTITIES, DROPOUT_OF_FEW = 1000, 0.3  # entities below which dropout is higher, and that dropout
MIN_FITTED_BATCH, MAX_FITTED_BATCH = 64, 512  # entities in a batch
MIN_ENTITIES_ONE_ORDER = 10_000  # entities from which on one order is all that is learnt
SHARE_IN_ORDER = 0.5  # of the entities: those that are learnt in it where there are fewer


def fit_sizes(run: Run, data: Data) -> Run:
    """The run with a width, dropout, a batch size and an order fitted to the data where it leaves them open."""
    entities, tokens = len(data.training), max(len(data.training.slot), 1)
    width = run.model.width or (WIDE_WIDTH if tokens >= MIN_VALUES_WIDE * len(data.codec.slots) else NARROW_WIDTH)
    most = max(1 << max(int(entities * MAX_BATCH_SHARE).bit_length() - 1, 0), MIN_FITTED_BATCH)
    wanted = 1 << max(round(math.log2(TOKENS_PER_BATCH * entities / tokens)), 0) if entities else MIN_FITTED_BATCH
    batch = run.train.batch or min(max(wanted, MIN_FITTED_BATCH), most, MAX_FITTED_BATCH)
    dropout = DROPOUT_OF_FEW if not run.model.width and entities < FEW_ENTITIES else run.model.dropout
    is_asked = len(data.validation) and GivenProperties.of(data.codec).numbers  # otherwise its share would be unused
    given_only = run.given_only if is_asked else replace(run.given_only, share=0.0)
    gaussian_process = run.gaussian_process
    if not few_valued_slots(data.training, gaussian_process).any():
        gaussian_process = replace(gaussian_process, share=0.0)
    hiding = run.hiding
    if hiding.ordered is None:
        hiding = replace(hiding, ordered=1.0 if entities >= MIN_ENTITIES_ONE_ORDER else SHARE_IN_ORDER)
    model, train_config = replace(run.model, width=width, dropout=dropout), replace(run.train, batch=batch)
    return replace(
        run, model=model, train=train_config, hiding=hiding, given_only=given_only, gaussian_process=gaussian_process
    )


def left_open(run: Run) -> list[tuple[str, str]]:
    """The settings, by table and name, that are fitted to the data."""
    model = [("model", "width"), ("model", "dropout")] if not run.model.width else []
    hiding = [("hiding", "ordered")] if run.hiding.ordered is None else []
    experts = [(name, "share") for name in ("given_only", "gaussian_process") if getattr(run, name).share]
    return model + hiding + experts + ([("train", "batch")] if not run.train.batch else [])


# ---------------------------------------------------------------- networks


MIN_NETWORK_SECONDS = 120.0  # seconds of a network's training; a shorter budget trains fewer networks
NETWORK_SEED = 2  # mixed with the seeds of further networks


def network_runs(run: Run, seconds: float | None = None) -> list[Run]:
    """A run for each network: each has a beginning of its own, and its part of the time; fewer where that is short.

    All of them have so many `seconds`, or else what the budget leaves beside the experts' share.
    """
    count, share = _shared(run, seconds)
    return [_network_run(run, number, share) for number in range(count)]


def additional_run(run: Run, spent: Sequence[float], kept: bool = False, seconds: float | None = None) -> Run | None:
    """A run for one network more, with as much time as each has, where as much is left.

    Those before it took so many seconds each. One that was begun, and is kept, goes on whatever clocks say by now.
    """
    count, share = _shared(run, seconds)
    if share is None or len(spent) >= min(count + run.train.more, MAX_NETWORKS):
        return None
    return _network_run(run, len(spent), share) if kept or share * count - sum(spent) >= share else None


def planned_run(run: Run, own: Run) -> Run:
    """A network's run with the seconds that were planned for it, whatever the experts left in fact: what it is known by."""
    _, share = _shared(run, None)
    return replace(own, train=replace(own.train, seconds=share))


def _shared(run: Run, seconds: float | None) -> tuple[int, float | None]:
    """How many networks share a time budget, and the seconds that each has of it."""
    count = run.train.members
    if run.train.seconds is None:
        return count, None
    planned = run.train.seconds * (1 - run.experts_share)
    count = min(count, max(int(planned / MIN_NETWORK_SECONDS), 1))
    return count, (planned if seconds is None else seconds) / count


def _network_run(run: Run, number: int, seconds: float | None) -> Run:
    seed = run.seed if number == 0 else derive_seed(run.seed, number, NETWORK_SEED)
    return replace(run, seed=seed, train=replace(run.train, seconds=seconds))
