"""The training loop: masked entities, gradients in parallel chunks, early stopping, then the tasks after the last step.

Every draw of a step is made from the seed and the step's number, so a resumed run is the unbroken run.

On a CPU the operations of a small network are too short to be shared by cores: two cores on each operation took as long as
one, and twice as long where they slept in between. So a step's entities are split into chunks, one for each core, whose
gradients are summed once a step. The chunks depend on the run, not on the machine: one core works on them in turn. The processes of a
data-parallel training divide the chunks among them (distributed.py).

A timed forward pass gives the estimated seconds of the tasks after the last step. A task that would take too much of the budget
is done with fewer values, and no index is built where even the fewest would take too much.

T  tokens of all training entities, from which each step gathers a batch
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from kbdisk.data import Codec
from kbdisk.data.dataset import Batch, Tokens
from kbdisk.errors import ConfigError, TrainingError
from kbdisk.experts import EXPERTS, latent_knn
from kbdisk.experts.config import LatentKNNConfig
from kbdisk.experts.latent_knn import LatentKNN, measure
from kbdisk.experts.latent_knn import seconds as latent_knn_seconds
from kbdisk.model import mup
from kbdisk.model.diffusion import Loss, loss
from kbdisk.model.masking import Hidden, hide
from kbdisk.model.network import DiSK, ModelConfig
from kbdisk.rng import derive_seed, use_generator
from kbdisk.training.data import Data
from kbdisk.training.distributed import Piece, Processes
from kbdisk.training.label_frequencies import match_label_frequencies
from kbdisk.training.optimizer import EMA, autocast, build_optimizer
from kbdisk.training.presence import MAX_VALUES, refit
from kbdisk.training.presence import seconds as presence_seconds
from kbdisk.training.run import Run
from kbdisk.training.schedule import HOPELESS_FACTOR, Schedule
from kbdisk.training.validation import FinalTask, Progress, State, ValidationLoss, Validator, Watch, finite

MIN_STEPS = 150  # with fewer a network is of little use, and experts get its time
PROBED_PARTS = 16, 4  # one in so many entities of the first step
PROBES = 2  # of each part: the first time includes work that is done once
CONTINUED_RATE = 0.3  # of the learning rate, where training continues from a network that was trained before
SILENT_WIDTH = 16  # of a network without enough steps: only its presence head learns
PIECE_SEED = 1 << 32  # mixed with the seeds of dropout, for a piece of a chunk
LABEL_VALUES_SHARE = 0.5  # of the values that training read: the most that are read to match label frequencies


def shapes_at_any_width(codec: Codec, model: ModelConfig) -> mup.Shapes:
    """The shapes of a network's parameters at any width. It need not be made for that."""
    heads = math.lcm(model.heads, *(getattr(settings, "heads", 1) for settings in codec.config.kinds.values()))
    return mup.Shapes.of(lambda width: DiSK(codec, replace(model, width=width)), heads)


def build(codec: Codec, run: Run, shapes: mup.Shapes) -> DiSK:
    """A network before its first step; the same for the same seed."""
    torch.manual_seed(run.seed)
    network = DiSK(codec, run.model)
    mup.shrink_readouts(network, shapes.growths(run.model.width, run.model.base))
    return network


class Trainer:
    """Trains one network, and runs the tasks after the last step.

    With a `start` its first weights are those of another network, and it falls back to these. Of several `processes` each has
    such a trainer, and all take the same steps.
    """

    def __init__(
        self,
        data: Data,
        run: Run,
        device: torch.device,
        start: DiSK | None = None,
        processes: Processes = Processes(),  # noqa: B008 - it is frozen
    ) -> None:
        self.config, self.run, self.device, self.processes = run.train, run, device, processes
        if start is not None:
            self.config = replace(run.train, rate=CONTINUED_RATE * run.train.rate)
        self.codec = data.codec
        self.tokens, self.held_out = data.training.to(device), data.validation.to(device)
        self.is_continued = start is not None and len(self.held_out) > 0
        self.shapes = shapes_at_any_width(data.codec, run.model)
        check_memory(self.shapes, run.model.width, device)
        network = build(data.codec, run, self.shapes)
        if start is not None:
            network.load_state_dict(start.state_dict())
        self.network = network.to(device)
        self.optimizer = build_optimizer(self.network, run, self.shapes)
        self.shares = [group["lr"] for group in self.optimizer.param_groups]
        least = min_entities(len(self.tokens), len(self.tokens.slot))
        chunks = self.config.parts if device.type == "cpu" else 1
        self.gradients = ParallelGradients(self.network, chunks, least, processes)
        self.ema = EMA(self.network, self.config.smoothing)
        self.validator = Validator(
            self.network, self.ema, data.codec, data.training, self.held_out, run, device, processes
        )
        # Evaluations keep copies. Before the first one only a network that continues has weights to fall back to.
        self.best: list[Tensor] = [weight.clone() for weight in self.ema.weights] if start else self.ema.weights
        self.balance = self._balance() if self.config.balance else None
        values = run.experts["latent_knn"].values if self.config.seconds is None else None
        self.state = State(evaluations=self.config.evaluations, values=values)
        self.state.total = self.schedule.planned

    @property
    def schedule(self) -> Schedule:
        """The schedule by the present state."""
        return Schedule(self.config, self.state, has_validation=len(self.held_out) > 0)

    def _balance(self) -> Tensor:
        """(S,) by what the loss of each slot is divided in training: the entropy of its training values, at least 0.5 nats."""
        entropies = torch.tensor([slot.entropy for slot in self.codec.slots])
        return entropies.clamp(min=0.5).to(self.device)

    # ------------------------------------------------------------ steps

    def advance(self) -> float:
        """Take one step; the loss in nats per entity. No step is taken where the loss is NaN or infinite."""
        state, config = self.state, self.config
        self.network.train()
        step_loss = self.gradients.compute(self.entities_of(state.step), self._loss)
        length = torch.nn.utils.clip_grad_norm_(self.network.parameters(), config.clip)
        if not math.isfinite(step_loss.total + float(length)):
            return math.nan
        rate = self.schedule.rate
        for group, share in zip(self.optimizer.param_groups, self.shares, strict=True):
            group["lr"] = rate * share
        self.optimizer.step()
        state.step += 1
        self.ema.update(state.step)
        return step_loss.nats

    def _loss(self, entities: Tensor, piece: Piece) -> Loss:
        """The loss of a chunk of a step's entities, with some of their properties masked, or the terms of a piece in it."""
        config = self.config
        batch, hidden = self.masked_batch(entities, self.state.step, piece.chunk)
        salt = 0 if piece.is_whole else PIECE_SEED + piece.start
        dropout_generator = self._generator(~self._number(self.state.step, piece.chunk), salt)
        with autocast(config.precision, self.device, self.run.model.width), use_generator(dropout_generator):
            return loss(
                self.network,
                batch,
                hidden,
                objective=config.objective,
                balance=self.balance,
                presence=config.presence,
                entities=None if piece.is_whole else (piece.start, piece.end),
            )

    def masked_batch(self, entities: Tensor, step: int, part: int = 0) -> tuple[Batch, Hidden]:
        """Some entities of a step, and their masks."""
        generator = self._generator(self._number(step, part))
        batch = self.tokens.batch(entities, self.config.absent, generator)
        return batch, hide(batch, self.run.hiding, generator, self.tokens.layout.order)

    def _number(self, step: int, part: int) -> int:
        return step * self.config.parts + part

    def _generator(self, number: int, salt: int = 0) -> torch.Generator:
        return torch.Generator(self.device).manual_seed(derive_seed(self.run.seed, number, salt))

    def entities_of(self, step: int) -> Tensor:
        """The entities of a step: epochs in random order, without replacement."""
        N, size = len(self.tokens), self.config.batch
        first, last = step * size // N, ((step + 1) * size - 1) // N
        rounds = [
            torch.randperm(N, generator=torch.Generator().manual_seed(derive_seed(self.run.seed, 1 << 40 | turn)))
            for turn in range(first, last + 1)
        ]
        start = step * size - first * N
        return torch.cat(rounds)[start : start + size]

    # ------------------------------------------------------------ the run

    def steps(self) -> Iterator[Progress]:
        """Steps until the steps or the budget are used up, or early stopping ends the run.

        Between two steps the run is as `state` says, and can be saved. A run that cannot continue ends with `state.stopped`.
        """
        state, last = self.state, time.monotonic()
        if self.is_continued and state.step == 0:
            state.best = self.validator.cost(self.validator.evaluate(0))
        if state.step == 0 and self._are_too_slow(PROBED_PARTS, HOPELESS_FACTOR):
            self._give_up()
        while not self.is_done:
            begun = time.monotonic()
            nats = self.advance()
            if math.isnan(nats):
                self._stop("loss")
                return
            self._time_step(self._shared_seconds(time.monotonic() - begun))
            validation_loss = self._evaluate_if_due()
            now = time.monotonic()
            state.seconds, last = state.seconds + self._shared_seconds(now - last), now
            if validation_loss is not None:
                self._record(validation_loss)
                self.schedule.adjust()
            measure = self.validator.measure if validation_loss and not state.stopped else None
            yield Progress(state.step, self.total, state.seconds, nats, validation_loss, self.is_done, measure)

    def _shared_seconds(self, seconds: float) -> float:
        """The seconds of process 0 where decisions depend on them."""
        return seconds if self.config.seconds is None else self.processes.share_number(seconds)

    @property
    def total(self) -> int | None:
        """The total number of steps, as far as that is known."""
        return self.schedule.total

    @property
    def is_done(self) -> bool:
        """Whether no further steps are taken."""
        return self.schedule.is_over or bool(self.state.stopped)

    @property
    def _least_steps(self) -> int:
        """With fewer steps the network is given up, and experts get its time; 0 where there is nothing in its place."""
        enough = min(MIN_STEPS, self.config.steps or MIN_STEPS)
        return enough if self.run.experts_share and len(self.held_out) and not self.is_continued else 0

    def may_be_given_up(self) -> bool:
        """Whether the steps seem too slow for the budget. The first one is timed for that, smaller parts of it before."""
        return self._are_too_slow((*PROBED_PARTS, 1), 1.0)

    def _are_too_slow(self, parts: Iterable[int], factor: float) -> bool:
        """Whether the least steps would take more than `factor` times their time even if each took as long as a part of the first."""
        least = self._least_steps
        if not least or self.config.seconds is None:
            return False
        return any(self.schedule.are_too_slow(self._seconds_of_part(part), least, factor) for part in parts)

    def _seconds_of_part(self, part: int) -> float:
        """The seconds of the gradient of one in so many entities of the first step."""
        self.network.train()
        entities, seconds = self.entities_of(0)[::part], math.inf
        for _ in range(PROBES):
            begun = time.monotonic()
            self.gradients.compute(entities, self._loss)
            seconds = min(seconds, self._shared_seconds(time.monotonic() - begun))
        return seconds

    def _time_step(self, seconds: float) -> None:
        """Record the seconds of a step; after enough steps plan the tasks after the last step, and convert the budget to steps."""
        state, budget, least = self.state, self.config.seconds, self._least_steps
        if not self.schedule.is_timed(seconds, least) or budget is None:
            return
        if self.schedule.is_hopeless(least):
            self._give_up()
            return
        begun = time.monotonic()
        self.validator.evaluate(state.step)
        evaluation = self._shared_seconds(time.monotonic() - begun)
        spent = state.seconds + seconds + evaluation
        tasks = self._plan_final_tasks(budget) if self.processes.is_first else FinalTasks(0, 0, 0.0)
        state.values, state.recorded, state.spare = self.processes.share(lambda: tasks)
        if not self.schedule.set_total(budget, spent, evaluation, least):
            self._give_up()

    def _plan_final_tasks(self, budget: float) -> FinalTasks:
        return plan_after_training(
            self.network,
            self.tokens,
            self.held_out,
            budget,
            self.run.experts["latent_knn"],
            learns_presence=self._learns_presence,
        )

    def _give_up(self) -> None:
        """Silence the network, which has learnt nothing: also no latent space in which neighbours could be found."""
        self.schedule.give_up()
        self.optimizer.zero_grad()
        self.network.zero_readouts()
        self.ema.restart()

    def finish_silent(self, *, may_shrink: bool) -> None:
        """Replace a silent network by a narrow one, which has the same beliefs in a fraction of the time.

        It has learnt nothing, also no latent space in which neighbours could be found; only its presence head will learn.
        """
        if may_shrink:
            self.run = replace(self.run, model=replace(self.run.model, width=SILENT_WIDTH))
            network = build(self.codec, self.run, self.shapes)
            network.zero_readouts()
            self.network = network.to(self.device).eval()
        if self.config.seconds is not None:
            self.state.recorded = self._plan_final_tasks(self.config.seconds).presence_values
        self.state.values = 0

    def _evaluate_if_due(self) -> ValidationLoss | None:
        """The validation loss, where this step is followed by an evaluation."""
        if self.state.is_silent:
            return None
        # One order of few rows is soon overfitted.
        early = self.run.hiding.is_in_order
        return self.validator.evaluate(self.state.step) if self.schedule.is_evaluation_due(early) else None

    def _record(self, loss: ValidationLoss) -> None:
        state = self.state
        if math.isnan(loss.nats):
            self._stop("loss on the held-out part")
            return
        cost = self.validator.cost(loss)
        if cost < state.best or not (state.best_step or self.is_continued):
            self._keep_weights(cost)
        else:
            state.worse += 1
            self.schedule.decay_on_plateau()
        state.history.append(
            {"step": state.step, "seconds": round(state.seconds, 1), "nats": finite(loss.nats), "cost": finite(cost)}
        )

    def _keep_weights(self, cost: float) -> None:
        """Keep the averaged weights as the best ones so far."""
        self.state.best, self.state.best_step, self.state.worse = cost, self.state.step, 0
        self.best = [weight.clone() for weight in self.ema.weights]

    def _stop(self, what: str) -> None:
        """Stop for an error. The best weights stay; without an evaluation so far the last ones, if their loss is finite."""
        state = self.state
        state.stopped = f"expected a {what} that is a number, got none after step {state.step:,}"
        if not state.best_step and state.step:
            nats = self.validator.evaluate(state.step, self.held_out if len(self.held_out) else self.tokens).nats
            if math.isfinite(nats):
                self._keep_weights(nats)

    def finish(self) -> None:
        """Put the best weights into the network; the last ones where there was no evaluation."""
        if not self.state.best_step and not self.is_continued:
            self._keep_weights(self.state.best)
        self.ema.put(self.best)
        self.network.eval()

    def match_label_frequencies(self, watch: Watch) -> None:
        """Match the label frequencies of the finished network to those of training, where entities are drawn in order."""
        if self.run.hiding.is_in_order:
            read = self.state.step * self.config.batch * len(self.tokens.slot) / len(self.tokens)
            numbers = autocast(self.config.precision, self.device, self.run.model.width)
            with self._final_task("weighing labels", watch) as report, numbers:
                match_label_frequencies(
                    self.network, self.codec, self.tokens, self.run.seed, int(LABEL_VALUES_SHARE * read), report
                )

    def refit_presence(self, watch: Watch) -> None:
        """Refit the presence head of the finished network, where the network learns presence."""
        if self._learns_presence and len(self.held_out):
            most = MAX_VALUES if self.state.recorded is None else self.state.recorded
            with self._final_task("learning what is recorded", watch) as report:
                refit(self.network, self.tokens, self.held_out, self.run.seed, report, most)

    @property
    def _learns_presence(self) -> bool:
        """Whether the network learns the presence of properties."""
        return bool(self.config.absent and self.config.presence)

    def fit_latent_knn(self, watch: Watch) -> LatentKNN | None:
        """The latent nearest neighbours of the finished network."""
        values, config = self.state.values, self.run.experts["latent_knn"]
        config = config if values is None else replace(config, values=values)
        with self._final_task(EXPERTS["latent_knn"].doing, watch) as report:
            return latent_knn.fit(self.network, self.tokens, self.held_out, config, self.run.seed, report)

    @contextmanager
    def _final_task(self, doing: str, watch: Watch) -> Iterator[Callable[[int, int], None]]:
        """Times a task after the last step; yields a function that reports its progress."""
        state, begun = self.state, time.monotonic()

        def report(done: int, total: int) -> None:
            spent = state.seconds + time.monotonic() - begun
            watch(
                Progress(state.step, self.total, spent, math.nan, ended=True, final_task=FinalTask(doing, done, total))
            )

        yield report
        state.seconds += time.monotonic() - begun


# ---------------------------------------------------------------- parallel chunks


MIN_CHUNK_TOKENS = 800  # a smaller chunk takes as long

ChunkLossOf = Callable[[Tensor, Piece], Loss]  # of the piece that this process has of the entities of a chunk


@dataclass(frozen=True)
class StepLoss:
    """The loss of a step, a mean over its entities."""

    total: float
    nats: float


@dataclass(frozen=True)
class ChunkLoss(StepLoss):
    """The part of a chunk, with its part of the gradient."""

    gradients: Sequence[Tensor | None]


class ParallelGradients:
    """Computes gradients in up to `most` chunks at once, each of at least `least` entities, in one process or several."""

    def __init__(self, network: nn.Module, most: int, least: int, processes: Processes = Processes()) -> None:  # noqa: B008
        self.parameters, self.processes = list(network.parameters()), processes
        self.most, self.least = most, least
        self.threads = torch.get_num_threads()
        workers = min(most, self.threads)
        self.pool = ThreadPoolExecutor(workers) if workers > 1 else None
        self.threads_each = max(self.threads // workers, 1)

    def compute(self, entities: Tensor, loss_of: ChunkLossOf) -> StepLoss:
        """Put the gradient of the loss of some entities into the parameters."""
        parts = entities.chunk(max(min(self.most, len(entities) // self.least), 1))
        pieces = self.processes.pieces([len(part) for part in parts])
        chosen = [parts[piece.chunk] for piece in pieces]
        shares = [len(part) / len(entities) for part in chosen]
        if self.pool is None or len(chosen) == 1:
            chunks = list(map(partial(self._chunk, loss_of), chosen, shares, pieces))
        else:
            chunks = list(self.pool.map(partial(self._threaded, loss_of), chosen, shares, pieces))
            torch.set_num_threads(self.threads)  # for new threads: each worker has set its own number
        for place, parameter in enumerate(self.parameters):
            parameter.grad = _sum([chunk.gradients[place] for chunk in chunks])
        step_loss = StepLoss(sum(chunk.total for chunk in chunks), sum(chunk.nats for chunk in chunks))
        return step_loss if self.processes.size == 1 else self._add_up(step_loss)

    def _add_up(self, step_loss: StepLoss) -> StepLoss:
        """Sum the gradients and the loss over all processes. A parameter that no process needs has no gradient."""
        gradients = [parameter.grad for parameter in self.parameters]
        needed = [gradient is not None for gradient in gradients]
        numbers = torch.tensor([step_loss.total, step_loss.nats, *needed], dtype=torch.float64)
        self.processes.add(numbers)
        total, nats, *processes_that_need = numbers.tolist()
        flat = torch.cat(
            [
                (torch.zeros_like(parameter) if gradient is None else gradient).flatten()
                for parameter, gradient in zip(self.parameters, gradients, strict=True)
            ]
        )
        self.processes.add(flat)
        parts = flat.split([parameter.numel() for parameter in self.parameters])
        for parameter, part, is_needed in zip(self.parameters, parts, processes_that_need, strict=True):
            parameter.grad = part.view_as(parameter) if is_needed else None
        return StepLoss(total, nats)

    def _threaded(self, loss_of: ChunkLossOf, entities: Tensor, share: float, piece: Piece) -> ChunkLoss:
        if torch.get_num_threads() != self.threads_each:
            torch.set_num_threads(self.threads_each)
        return self._chunk(loss_of, entities, share, piece)

    def _chunk(self, loss_of: ChunkLossOf, entities: Tensor, share: float, piece: Piece) -> ChunkLoss:
        loss = loss_of(entities, piece)
        gradients = torch.autograd.grad(loss.total * share, self.parameters, allow_unused=True)
        return ChunkLoss(float(loss.total.detach()) * share, float(loss.nats) * share, gradients)


def min_entities(entities: int, tokens: int) -> int:
    """The least number of entities in a chunk, for a data set of so many entities and tokens."""
    return max(round(MIN_CHUNK_TOKENS * entities / max(tokens, 1)), 1)


def _sum(gradients: Sequence[Tensor | None]) -> Tensor | None:
    """The sum in the order of the chunks, so that it is the same each time."""
    total: Tensor | None = None
    for gradient in gradients:
        total = gradient if total is None else total if gradient is None else total + gradient
    return total


# ---------------------------------------------------------------- after the last step


INDEX_SHARE, PRESENCE_SHARE = 0.2, 0.1  # of a budget, at most: for the latent kNN index; to refit the presence head
MIN_INDEX_VALUES = 500  # values of an index; a smaller one is of no use
FINAL_TASKS_SHARE = 0.5  # of a budget, at most, for all tasks after the last step


class FinalTasks(NamedTuple):
    """The values that each task after the last step uses, and the seconds that are kept for them."""

    index_values: int
    presence_values: int
    seconds: float


def plan_after_training(
    network: DiSK,
    tokens: Tokens,
    held_out: Tokens,
    budget: float,
    latent_knn_config: LatentKNNConfig,
    *,
    learns_presence: bool,
) -> FinalTasks:
    """The values that the tasks after the last step can use within a budget."""
    if not len(held_out) or not (latent_knn_config.neighbours or learns_presence):
        return FinalTasks(latent_knn_config.values, MAX_VALUES, 0.0)
    once = measure(network, tokens, latent_knn_config.neighbours)
    values, spent = _affordable(
        latent_knn_config.values, INDEX_SHARE * budget, lambda most: latent_knn_seconds(once, tokens, held_out, most)
    )
    if spent > INDEX_SHARE * budget:
        values, spent = 0, 0.0
    recorded, more = _affordable(
        MAX_VALUES, PRESENCE_SHARE * budget, lambda most: presence_seconds(once.forward, tokens, most)
    )
    taken = spent * bool(latent_knn_config.neighbours) + more * learns_presence
    return FinalTasks(values, recorded, min(taken, FINAL_TASKS_SHARE * budget))


def _affordable(most: int, budget: float, seconds: Callable[[int], float]) -> tuple[int, float]:
    """The most values that a budget allows, found by halving, and their seconds."""
    while most > MIN_INDEX_VALUES and seconds(most) > budget:
        most //= 2
    return most, seconds(most)


# ---------------------------------------------------------------- memory


COPIES = 6  # of the parameters, at least: weights, EMA, best weights, gradients, and two moments
OUT_OF_MEMORY = ("can't allocate memory", "not enough memory")  # in torch's message where a CPU has no memory left
MEMORY_SHARE = 0.9  # of a machine's memory: the rest is for data, activations and other processes


def check_memory(shapes: mup.Shapes, width: int, device: torch.device) -> None:
    """ConfigError where a network of some width and its training state do not fit into memory."""
    memory = _memory()
    if device.type != "cpu" or memory is None:
        return
    available, count = int(MEMORY_SHARE * memory), shapes.count(width)
    needed = COPIES * count * torch.finfo(torch.float32).bits // 8
    if needed > available:
        problem = (
            f"expected a network that can be trained in {_gigabytes(available)} of memory, got {count / 1e6:,.0f} million "
            f"parameters, which need {_gigabytes(needed)}. Give a smaller width, or the default preset."
        )
        raise ConfigError(f"model.width = {width}", problem)


@contextmanager
def within_memory(batch: int, width: int) -> Iterator[None]:
    """Turns a failed allocation into a TrainingError that names the settings to lower."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # torch.OutOfMemoryError is a RuntimeError
        is_full = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not is_full and not any(text in str(error) for text in OUT_OF_MEMORY):
            raise
        problem = f"expected a step that fits into memory, got one of {batch:,} entities at width {width}"
        raise TrainingError("train", f"{problem}. Lower train.batch or model.width.") from error


def _memory() -> int | None:
    """The bytes of memory of this machine; None where that is unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return None


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.{0 if count >= 1e11 else 1}f} GB"
