"""Training: the recipe from entities and a schema to a model, with its networks, their sizes and the experts.

Sizes that a run leaves open are fitted to the data. Small data needs a small network and small batches. Measured at equal
time on one core: width 64 was better than 128 for 6,800 entities of 24 classes, 270 values a property, with little dropout,
and for 9,600 phones, 7,700 values a property; 118 chemical elements needed much dropout. Batches of 512 were better than of
256 for the phones, half on each of two cores, and better than of 128 for 2,900 nuclei of 18 properties. Where tables are
drawn in one order, 500 to 6,400 rows that were learnt in that order alone were soon overfitted; 12,000 and more were not, and
the last columns were predicted better.

Networks share a time budget evenly. Where networks finish early and a share of the budget is left, there may be more.
"""

from __future__ import annotations

import gc
import math
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path as FilePath
from typing import Any

import torch

from kbdisk.data.parse import Reading
from kbdisk.entity import Entity
from kbdisk.errors import KBDiskWarning, TrainingError, setting
from kbdisk.experts import EXPERTS, ExpertKind, Stage, experts_of
from kbdisk.experts.base import Candidates, Sides
from kbdisk.experts.stacking import ROUNDS, stack
from kbdisk.heap import return_freed_memory
from kbdisk.model.network import DiSK
from kbdisk.parallel import usable_processes
from kbdisk.rng import derive_seed
from kbdisk.schemas.schema import Schema
from kbdisk.styles.styles import Styles
from kbdisk.training.checkpoint import (
    Checkpoint,
    Interrupted,
    fingerprint,
    folder_of,
    is_there,
    run_identity,
    share_state,
    stopping,
)
from kbdisk.training.clock import NETWORKS, WEIGHTS, Clock, Limits
from kbdisk.training.config import MAX_NETWORKS
from kbdisk.training.data import Data
from kbdisk.training.distributed import ProcessEnded, Processes
from kbdisk.training.loop import Trainer, within_memory
from kbdisk.training.reserve import reserved_slots
from kbdisk.training.run import Run
from kbdisk.training.trained import Member, Record, Trained
from kbdisk.training.validation import FinalTask, Progress, Watch


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
    clock: Clock | None = None,
    after: Callable[[Data], Mapping[str, Limits]] | None = None,
    readings: Sequence[Reading] | None = None,
    processes: Processes = Processes(),  # noqa: B008 - it is frozen
    left_out: int = 0,
) -> Trained:
    """A model of the entities. The validation entities are those `held_out`, or else a share of the entities.

    `readings` are those of the entities by the schema, if the caller has them. `left_out` is the number of other entities that the
    source has.

    Its networks continue from those of `start`, a model of an earlier state of the same entities, with its codec, settings and
    validation entities.

    The time budget bounds what the `clock` has counted, and the stages `after` training, whose limits depend on the data;
    without a clock it begins now.

    With a `checkpoint`, a folder, the run is saved there at intervals: SIGINT and SIGTERM end it with `Interrupted`, and
    `resume` continues a saved run, or begins one. `force` gives up a saved run. The folder stays until `checkpoint.remove`,
    when the model is saved.

    Connected `processes` train the networks together. Process 0 does all else and returns the model; `ProcessEnded` ends
    the others after the networks.
    """
    clock, begun = clock or Clock(), time.monotonic()
    beside = checkpoint.parent if checkpoint is not None and checkpoint.parent.is_dir() else None
    with processes.end_together():
        if start is None:
            data = Data.prepare(
                schema, entities, run, held_out, partial(_report_chains, watch, begun), readings, beside
            )
            data = replace(data, left_out=data.left_out + left_out, unread=left_out)
            asked, run = run, fit_sizes(run, data)
        else:
            data = Data.continuing(start, entities, beside)
            asked, run = run, start.run
    prepared = time.monotonic() - begun
    if data.left_out and clock.report is not None:
        learnt = len(data.training) + len(data.validation)
        clock.report(f"learns from {learnt:,} of {learnt + data.left_out:,} entities, a sample that there is time for")
    if processes.is_first:
        _load_experts(run, data)  # before the rest of the time is shared
    return_freed_memory()
    starts = [] if start is None else [member.network for member in start.members]
    if processes.size > 1:
        _refuse_other_data(data, processes)
    if not processes.is_first:
        with torch.random.fork_rng(), within_memory(run.train.batch, run.model.width):
            _train_beside_first(data, device, starts, checkpoint is not None, processes)
        raise ProcessEnded(0)
    limits = None if after is None else after(data)
    seconds_unread = prepared * (data.times_read - 1)
    clock.start(run.train.seconds, watch, data.missing, limits, usable_processes(device), seconds_unread)
    clock.plan(run)
    keeping = Keeping(checkpoint, source or {}, resume, force, processes)
    experts = Experts(run, data, device, clock)
    if experts.may_come_first and not _may_be_given_up(data, experts, starts, processes):
        clock.expect_networks()
        clock.put_experts_first(run)
        experts.fit()
    begun = time.monotonic()
    with torch.random.fork_rng(), within_memory(run.train.batch, run.model.width):
        trainers, members = _networks(
            run,
            data,
            device,
            watch,
            keeping,
            experts.seconds_for_networks,
            starts,
            may_shrink=not asked.model.width,
        )
    are_silent = trainers[0].state.is_silent
    first, *others = members
    run = replace(run, model=trainers[0].run.model)  # a silent network is narrow
    record, styles = _record(trainers, len(members), data, keeping.source), Styles.learn(data.codec.schema, entities)
    trainers.clear()
    gc.collect()  # optimizers are in cycles, with moments and gradients as large as the network
    return_freed_memory()
    clock.before = max(record.facts["seconds"] - (time.monotonic() - begun), 0.0)
    reserved = {} if data.complete is None else reserved_slots(data.training, data.complete)
    trained = Trained(
        data.codec, first.network, run, record, styles, first.latent_knn, tuple(others), reserved=reserved
    )
    trained = experts.beside(trained, are_silent=are_silent)
    trained.record.facts["seconds"] = round(clock.spent, 1)
    return trained


def _chosen(run: Run, stage: Stage) -> list[tuple[str, ExpertKind]]:
    """The experts of a stage that have a share of the time."""
    return [(name, kind) for name, kind in experts_of(stage).items() if run.experts[name].share]


def _load_experts(run: Run, data: Data) -> None:
    """Import what the experts of a run need to be fitted."""
    if run.experts_share and len(data.validation):
        for _, kind in _chosen(run, "stack"):
            kind.load(data.codec)


def _refuse_other_data(data: Data, processes: Processes) -> None:
    """TrainingError where not all processes have prepared the same data."""
    with processes.end_together():
        first, *others = processes.gather(fingerprint(data))
        for rank, other in enumerate(others, 1):
            if other != first:
                problem = (
                    "expected the entities of process 0, got others. Give all the same source, and the same version."
                )
                raise TrainingError(f"process {rank}", problem)


def _train_beside_first(
    data: Data, device: torch.device, starts: Sequence[DiSK], is_kept: bool, processes: Processes
) -> None:
    """Take the steps of all networks together with process 0, which decides on each network and keeps it."""
    number = 0
    while (own := _next_run(None, processes)) is not None:
        trainer = Trainer(data, own, device, starts[number] if number < len(starts) else None, processes)
        share_state(trainer, processes)
        number += 1
        if trainer.state.stopped:
            continue
        if not is_kept:
            deque(trainer.steps(), maxlen=0)
            continue
        with stopping() as stop:
            for _ in trainer.steps():
                if stop.is_asked(processes):
                    break
            if stop.is_asked(processes):
                raise ProcessEnded(128 + (stop.signal or 0))


def _next_run(own: Run | None, processes: Processes) -> Run | None:
    """The run of the next network, which process 0 sends to the others; None after the last one."""
    return processes.share(lambda: own)


def _report_chains(watch: Watch, begun: float, done: int, total: int) -> None:
    """Report how many numbers have their chains of links."""
    task = FinalTask("learning chains of links", done, total)
    watch(Progress(0, 0, time.monotonic() - begun, math.nan, ended=True, final_task=task))


class Experts:
    """The experts of a run: fitted to training entities, weighed beside the networks, then refitted to all entities.

    With some minutes for training they are fitted before the networks, which have all the time that the experts leave. A
    shorter training begins with the network, and so does a longer one whose network may be given up: one that cannot take
    enough steps leaves its time to the experts.
    """

    def __init__(self, run: Run, data: Data, device: torch.device, clock: Clock) -> None:
        self.run, self.data, self.device, self.clock = run, data, device, clock
        self.are_used = bool(run.experts_share) and len(data.validation) > 0
        self.candidates: dict[str, Candidates] = {}

    @property
    def may_come_first(self) -> bool:
        """Whether there is time enough to fit them before the networks."""
        return self.are_used and self.clock.is_long

    @property
    def seconds_for_networks(self) -> float | None:
        """The seconds that experts leave to the networks; None without a budget."""
        seconds = self.clock.seconds(NETWORKS)
        return None if seconds is None else max(seconds, MIN_SECONDS_LEFT)

    @cached_property
    def sides(self) -> Sides:
        """The entities that they are fitted to and weighed on."""
        return Sides(self.data.training, self.data.validation, self.data.complete).to(self.device)

    def fit(self) -> None:
        """Fit each to the training entities."""
        for name, kind in _chosen(self.run, "stack"):
            config, seed = self.run.experts[name], self.run.seed
            if not self.clock.is_enough_for(name, len(self.data.training.slot)):
                self.clock.leave_out(name)
                self.clock.note_fit(name, 0.0)
                continue
            seconds, report = self.clock.stage(name, kind.doing)
            begun = time.monotonic()
            self.candidates[name] = kind.load_fit()(
                self.data.codec, self.sides, config=config, seed=seed, seconds=seconds, report=report
            )
            self.clock.note_fit(name, time.monotonic() - begun)
            return_freed_memory()

    def beside(self, trained: Trained, *, are_silent: bool) -> Trained:
        """The networks with the experts that have a weight; `are_silent`: the networks took too few steps."""
        run, clock = self.run, self.clock
        clock.steps = trained.record.facts["steps"]
        if not self.are_used:
            return trained
        if not are_silent:
            clock.expect_networks()
        clock.plan(run, are_silent=are_silent)
        if not clock.experts_come_first:
            self.fit()
        seconds, report = clock.stage(WEIGHTS, "weighing")
        generator = torch.Generator(self.sides.training.slot.device).manual_seed(run.seed)
        groups = [candidates.group for candidates in self.candidates.values()]
        stacked = stack(groups, trained.full_model, self.sides, ROUNDS, generator, seconds, report)
        weighted = dict(zip(self.candidates, stacked, strict=True))
        experts_before_refit = {
            name: group for name, group in weighted.items() if group and EXPERTS[name].keep_before_refit
        }
        trained = replace(trained, experts_before_refit=experts_before_refit)
        for name in [name for name, group in weighted.items() if group is None]:
            clock.note_fit(name, 0.0)  # it is not fitted again
        for name, group in weighted.items():
            if group is not None:
                seconds, report = clock.stage(f"{name} again", f"{EXPERTS[name].doing} again")
                trained = trained.with_experts(**{name: self.candidates[name].refitted(group, seconds, report)})
            del self.candidates[name]  # with the examples that it was fitted to
        return_freed_memory()
        for name, kind in _chosen(run, "answer"):
            config, seed = run.experts[name], run.seed
            seconds, report = clock.stage(name, kind.doing)
            answers = kind.load_fit()(
                trained.held_out_model,
                trained.codec,
                self.sides,
                config=config,
                seed=seed,
                seconds=seconds,
                report=report,
            )
            trained = trained.with_experts(**{name: answers})
        return trained


def _may_be_given_up(data: Data, experts: Experts, starts: Sequence[DiSK], processes: Processes) -> bool:
    """Whether the first network may turn out too slow for its time. One process alone cannot time the steps of several."""
    if processes.size > 1:
        return False
    own = network_runs(experts.run, experts.seconds_for_networks)[0]
    with torch.random.fork_rng(), within_memory(own.train.batch, own.model.width):
        return Trainer(data, own, experts.device, starts[0] if starts else None).may_be_given_up()


MIN_SECONDS_LEFT = 0.1  # of a budget that experts have used up, for networks: few of them can take enough steps in it


def _network_runs(
    run: Run, trainers: Sequence[Trainer], is_kept: Callable[[int], bool], seconds: float | None
) -> Iterator[tuple[Run, int]]:
    """The run of each network, and the number of networks as far as that is known.

    `trainers` are those of the networks before; `is_kept` says which networks of a resumed run were begun.
    """
    planned = network_runs(run, seconds)
    if is_kept(len(planned)):  # there was time for more when the run began
        planned = network_runs(run, None)
    yield from ((network_run, len(planned)) for network_run in planned)
    while (
        own := additional_run(run, [trainer.state.seconds for trainer in trainers], is_kept(len(trainers)), seconds)
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
    """The trainers of all networks, and the networks that have usable weights. The first ones continue from `starts`.

    A silent one is left out if there are others, else it is the only one. It is narrow where it `may_shrink`, as its width
    was left open.
    """
    trainers: list[Trainer] = []
    members: list[Member] = []
    for own, count in _network_runs(run, trainers, keeping.is_begun, seconds):
        number = len(trainers)
        processes = keeping.processes
        _next_run(own, processes)
        trainer = Trainer(data, own, device, starts[number] if number < len(starts) else None, processes)
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
    _next_run(None, keeping.processes)
    return trainers, members


@dataclass(frozen=True)
class Keeping:
    """The checkpoints of a run, if there are any: a folder for each network."""

    folder: FilePath | None
    source: Mapping[str, Any]
    resume: bool
    force: bool
    processes: Processes

    def is_begun(self, number: int) -> bool:
        """Whether a network of a resumed run was begun."""
        return self.resume and self.folder is not None and is_there(folder_of(self.folder, number))

    def go(self, trainer: Trainer, data: Data, number: int, watch: Watch, planned: Run) -> bool:
        """Take all steps of a network; whether it had stopped for an error before."""
        if self.folder is None:
            share_state(trainer, self.processes)
            for progress in trainer.steps():
                watch(progress)
            return False
        folder, identity = folder_of(self.folder, number), run_identity(data, planned, self.source)
        if self.resume and is_there(folder):
            checkpoint = Checkpoint.resume(folder, identity, trainer)
        else:
            checkpoint = Checkpoint.begin(folder, identity, force=self.force or number > 0)
        share_state(trainer, self.processes)
        state = trainer.state
        if state.stopped:  # the run is resumed for its last good weights
            return True
        with stopping() as stop:
            try:
                for progress in trainer.steps():
                    checkpoint.log(progress, trainer)
                    watch(progress)
                    if stop.is_asked(self.processes):
                        break
                    if progress.validation_loss is not None or checkpoint.is_due:
                        checkpoint.save(trainer)
            finally:
                checkpoint.close()
            if state.best_step or not state.stopped:
                checkpoint.save(trainer)
            if stop.is_asked(self.processes):  # also by a signal that came with the last step, or while it was saved
                assert stop.signal is not None
                raise Interrupted(stop.signal, state.step, trainer.total, checkpoint.folder)
        return False


def _watched(watch: Watch, member: tuple[int, int], progress: Progress) -> None:
    watch(replace(progress, member=member))


def _refuse_stopped(trainers: Sequence[Trainer], is_kept: bool) -> None:
    """TrainingError where the first network stopped for an error; a warning for another one, as the model does without it."""
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
    """The record of the first network, with the seconds and parameters of all."""
    first, state = trainers[0], trainers[0].state
    facts: dict[str, Any] = {
        "networks": networks,
        "steps": state.step,
        "best_step": state.best_step,
        "seconds": round(sum(trainer.state.seconds for trainer in trainers), 1),
        "parameters": sum(weights.numel() for trainer in trainers for weights in trainer.network.parameters()),
    }
    stopped = next((trainer.state.stopped for trainer in trainers if trainer.state.stopped), "")
    facts |= {"stopped": stopped} if stopped else {}
    facts |= {"left_out": data.left_out} if data.left_out else {}
    return Record(
        dict(source),
        list(data.validation.ids),
        list(data.training.ids),
        state.history,
        facts=facts,
        constants=first.validator.constants.to_json(),
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
    unused = {  # their share of the time is for the networks
        name: replace(run.experts[name], share=0.0)
        for name, kind in experts_of("stack", "answer").items()
        if not kind.can_be_fitted(data.codec, data.training, data.validation, run.experts[name])
    }
    hiding = run.hiding
    if hiding.ordered is None:
        hiding = replace(hiding, ordered=1.0 if entities >= MIN_ENTITIES_ONE_ORDER else SHARE_IN_ORDER)
    model, train_config = replace(run.model, width=width, dropout=dropout), replace(run.train, batch=batch)
    return replace(run, model=model, train=train_config, hiding=hiding).with_experts(**unused)


def left_open(run: Run) -> list[tuple[str, str]]:
    """The settings, by table and name, that a run leaves to be fitted to the data."""
    model = [("model", "width"), ("model", "dropout")] if not run.model.width else []
    hiding = [("hiding", "ordered")] if run.hiding.ordered is None else []
    experts = [
        (name, "share")
        for name, kind in experts_of("stack", "answer").items()
        if kind.applies and run.experts[name].share
    ]
    return model + hiding + experts + ([("train", "batch")] if not run.train.batch else [])


# ---------------------------------------------------------------- networks


MIN_NETWORK_SECONDS = 120.0  # seconds of a network's training; a shorter budget trains fewer networks
NETWORK_SEED = 2  # mixed with the seeds of further networks


def network_runs(run: Run, seconds: float | None = None) -> list[Run]:
    """A run for each network, with a seed of its own and its part of the time; fewer networks where the time is short.

    All of them have `seconds`, or else the time that the budget leaves beside the experts' share.
    """
    count, share = _shared(run, seconds)
    return [_network_run(run, number, share) for number in range(count)]


def additional_run(run: Run, spent: Sequence[float], kept: bool = False, seconds: float | None = None) -> Run | None:
    """The run of an additional network, where enough time is left for it; `spent` are the seconds of each one before it.

    A network that was begun, and is `kept`, continues in any case.
    """
    count, share = _shared(run, seconds)
    if share is None or len(spent) >= min(count + run.train.more, MAX_NETWORKS):
        return None
    return _network_run(run, len(spent), share) if kept or share * count - sum(spent) >= share else None


def planned_run(run: Run, own: Run) -> Run:
    """A network's run with its planned seconds in the place of those that the experts left: the identity of its checkpoint."""
    _, share = _shared(run, None)
    return replace(own, train=replace(own.train, seconds=share))


def _shared(run: Run, seconds: float | None) -> tuple[int, float | None]:
    """The number of networks that share a time budget, and the seconds of each."""
    count = run.train.members
    if run.train.seconds is None:
        return count, None
    if seconds is None:
        seconds = run.train.seconds * (1 - run.experts_share)
    count = min(count, max(int(seconds / MIN_NETWORK_SECONDS), 1))
    return count, seconds / count


def _network_run(run: Run, number: int, seconds: float | None) -> Run:
    seed = run.seed if number == 0 else derive_seed(run.seed, number, NETWORK_SEED)
    return replace(run, seed=seed, train=replace(run.train, seconds=seconds))
