"""The training loop: masked entities, gradients in parallel chunks, early stopping, then the tasks after the last step.

Every draw of a step is made from the seed and the step's number, so a resumed run is the unbroken run.

On a CPU the operations of a small network are too short to be shared by cores: two cores on each operation took as long as
one, and twice as long where they slept in between. So a step's entities are split into chunks, one for each core, whose
gradients are summed once a step. The chunks depend on the run, not on the machine: one core works on them in turn.

A timed forward pass tells how long the tasks after the last step will take. A task that would take too much of the budget
is done with fewer values, and no index is built where even the fewest would take too much.

T  tokens of all training entities, from which each step gathers a batch
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import NamedTuple

import torch
from torch import Tensor, nn

from kbdisk.data import Codec
from kbdisk.data.batch import Batch
from kbdisk.data.dataset import Tokens
from kbdisk.errors import ConfigError, TrainingError
from kbdisk.experts import latent_knn
from kbdisk.experts.config import LatentKNNConfig
from kbdisk.experts.latent_knn import LatentKNN, measure
from kbdisk.experts.latent_knn import seconds as latent_knn_seconds
from kbdisk.model import mup
from kbdisk.model.diffusion import Loss, score
from kbdisk.model.masking import Hidden, hide
from kbdisk.model.network import DiSK, ModelConfig
from kbdisk.rng import derive_seed, use_generator
from kbdisk.training.data import Data
from kbdisk.training.label_frequencies import match_label_frequencies
from kbdisk.training.optimizer import EMA, autocast, build_optimizer
from kbdisk.training.presence import MAX_VALUES, refit
from kbdisk.training.presence import seconds as presence_seconds
from kbdisk.training.run import Run
from kbdisk.training.schedule import Schedule
from kbdisk.training.validation import After, Progress, State, ValidationLoss, Validator, Watch, finite

MIN_STEPS = 100  # with fewer a network tells little: where there are experts they have its time
CONTINUED_RATE = 0.3  # of the learning rate, where training continues from a network that was trained before
SILENT_WIDTH = 16  # of a network without enough steps: only its presence head learns
EVENING = 0.5  # of the values that training has read: what may be read to have labels drawn as often as they should be


def build(codec: Codec, run: Run) -> tuple[DiSK, dict[str, mup.Growth]]:
    """A network as it is before its first step, the same for the same seed."""
    torch.manual_seed(run.seed)
    network = DiSK(codec, run.model)
    base = DiSK(codec, replace(run.model, width=run.model.base, heads=1))
    grown = mup.growths(network, base)
    mup.shrink_readouts(network, grown)
    return network, grown


class Trainer:
    """A network on its way; with a `start`, another one's weights are where it begins, and what it falls back to."""

    def __init__(self, data: Data, run: Run, device: torch.device, start: DiSK | None = None) -> None:
        self.config, self.run, self.device = run.train, run, device
        if start is not None:
            self.config = replace(run.train, rate=CONTINUED_RATE * run.train.rate)
        self.codec = data.codec
        self.tokens, self.held_out = data.training.to(device), data.validation.to(device)
        self.is_continued = start is not None and len(self.held_out) > 0
        check_memory(data.codec, run.model, device)
        network, grown = build(data.codec, run)
        if start is not None:
            network.load_state_dict(start.state_dict())
        self.network = network.to(device)
        self.optimizer = build_optimizer(self.network, data.codec, run, grown)
        self.shares = [group["lr"] for group in self.optimizer.param_groups]
        least = min_entities(len(self.tokens), len(self.tokens.slot))
        self.gradients = ParallelGradients(self.network, self.config.parts if device.type == "cpu" else 1, least)
        self.ema = EMA(self.network, self.config.smoothing)
        self.validator = Validator(self.network, self.ema, data.codec, data.training, self.held_out, run, device)
        self.best: list[Tensor] = [one.clone() for one in self.ema.weights]
        self.balance = self._balance() if self.config.balance else None
        values = run.latent_knn.values if self.config.seconds is None else None
        self.state = State(evaluations=self.config.evaluations, values=values)
        self.state.total = self.schedule.planned

    @property
    def schedule(self) -> Schedule:
        """How many steps there are to be."""
        return Schedule(self.config, self.state, is_watched=len(self.held_out) > 0)

    def _balance(self) -> Tensor:
        entropies = torch.tensor([slot.entropy for slot in self.codec.slots])
        return entropies.clamp(min=0.5).to(self.device)

    # ------------------------------------------------------------ steps

    def advance(self) -> float:
        """One step; the loss in nats per entity. Where that is no number no step is taken, and the weights stay."""
        state, config = self.state, self.config
        self.network.train()
        found = self.gradients.compute(self.chosen(state.step), self._cost)
        length = torch.nn.utils.clip_grad_norm_(self.network.parameters(), config.clip)
        if not math.isfinite(found.total + float(length)):
            return math.nan
        rate = self.schedule.rate
        for group, share in zip(self.optimizer.param_groups, self.shares, strict=True):
            group["lr"] = rate * share
        self.optimizer.step()
        state.step += 1
        self.ema.update(state.step)
        return found.nats

    def _cost(self, entities: Tensor, part: int) -> Loss:
        """What some entities of a step cost, some of their properties hidden."""
        config = self.config
        batch, hidden = self.shown(entities, self.state.step, part)
        dropped = self._drawing(~self._number(self.state.step, part))
        with autocast(config.precision, self.device, self.run.model.width), use_generator(dropped):
            return score(
                self.network,
                batch,
                hidden,
                objective=config.objective,
                balance=self.balance,
                presence=config.presence,
            )

    def shown(self, entities: Tensor, step: int, part: int = 0) -> tuple[Batch, Hidden]:
        """Some entities of a step, and what is hidden of them."""
        generator = self._drawing(self._number(step, part))
        batch = self.tokens.batch(entities, self.config.absent, generator)
        return batch, hide(batch, self.run.hiding, generator, self.tokens.layout.order)

    def _number(self, step: int, part: int) -> int:
        return step * self.config.parts + part

    def _drawing(self, number: int) -> torch.Generator:
        return torch.Generator(self.device).manual_seed(derive_seed(self.run.seed, number))

    def chosen(self, step: int) -> Tensor:
        """The entities of a step: every one once before any comes again, in an order drawn anew each time."""
        N, size = len(self.tokens), self.config.batch
        first, last = step * size // N, ((step + 1) * size - 1) // N
        rounds = [
            torch.randperm(N, generator=torch.Generator().manual_seed(derive_seed(self.run.seed, 1 << 40 | turn)))
            for turn in range(first, last + 1)
        ]
        start = step * size - first * N
        return torch.cat(rounds)[start : start + size]

    # ------------------------------------------------------------ the whole way

    def steps(self) -> Iterator[Progress]:
        """Step until the steps or the budget are used up, or the held-out part is no longer getting better.

        Between two of them the run is as `state` says, and can be kept. What cannot go on ends with `state.stopped`.
        """
        state, last = self.state, time.monotonic()
        if self.is_continued and state.step == 0:
            state.best = self.validator.cost(self.validator.evaluate(0))
        while not self.is_done:
            begun = time.monotonic()
            nats = self.advance()
            if math.isnan(nats):
                self._stop("loss")
                return
            self._budget(time.monotonic() - begun)
            seen = self._seen()
            now = time.monotonic()
            state.seconds, last = state.seconds + now - last, now
            if seen is not None:
                self._judge(seen)
                self.schedule.adjust()
            measure = self.validator.measure if seen and not state.stopped else None
            yield Progress(state.step, self.ahead, state.seconds, nats, seen, self.is_done, measure)

    @property
    def ahead(self) -> int | None:
        """How many steps there will be in all, as far as that is known."""
        return self.schedule.ahead

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to do."""
        return self.schedule.is_over or bool(self.state.stopped)

    def _budget(self, seconds: float) -> None:
        """Take in how long a step took; after enough of them see what else takes of a budget, and what is left buys steps."""
        state, budget = self.state, self.config.seconds
        enough = min(MIN_STEPS, self.config.steps or MIN_STEPS)
        least = enough if self.run.experts_share and len(self.held_out) and not self.is_continued else 0
        if not self.schedule.is_timed(seconds, least) or budget is None:
            return
        if self.schedule.is_hopeless(least):
            self._give_up()
            return
        begun = time.monotonic()
        self.validator.evaluate(state.step)
        taken = time.monotonic() - begun
        spent = state.seconds + seconds + taken
        state.values, state.recorded, state.spare = self._plan_after_training(budget)
        if not self.schedule.buy(budget, spent, taken, least):
            self._give_up()

    def _plan_after_training(self, budget: float) -> AfterTraining:
        return plan_after_training(
            self.network, self.tokens, self.held_out, budget, self.run.latent_knn, records=self._records
        )

    def _give_up(self) -> None:
        """Silence the network, which has learnt nothing: not even what neighbours could be found by."""
        self.schedule.give_up()
        self.network.silence()
        self.ema.restart()

    def finish_silent(self, *, may_shrink: bool) -> None:
        """Replace a silent network by a narrow one, which has the same beliefs in a fraction of the time.

        It has learnt nothing, not even what neighbours could be found by; only its presence head will learn.
        """
        if may_shrink:
            self.run = replace(self.run, model=replace(self.run.model, width=SILENT_WIDTH))
            network, _ = build(self.codec, self.run)
            network.silence()
            self.network = network.to(self.device).eval()
        if self.config.seconds is not None:
            self.state.recorded = self._plan_after_training(self.config.seconds).recorded
        self.state.values = 0

    def _seen(self) -> ValidationLoss | None:
        """What the held-out part costs, where it is to be looked at after this step."""
        if self.state.is_silent:
            return None
        # What is drawn is learnt by heart soon where there is little of it.
        early = self.run.hiding.is_in_order
        return self.validator.evaluate(self.state.step) if self.schedule.is_look_due(early) else None

    def _judge(self, seen: ValidationLoss) -> None:
        state = self.state
        if math.isnan(seen.nats):
            self._stop("loss on the held-out part")
            return
        cost = self.validator.cost(seen)
        if cost < state.best or not (state.best_step or self.is_continued):
            self._prefer(cost)
        else:
            state.worse += 1
            self.schedule.cool()
        state.history.append(
            {"step": state.step, "seconds": round(state.seconds, 1), "nats": finite(seen.nats), "cost": finite(cost)}
        )

    def _prefer(self, cost: float) -> None:
        """The averaged weights are the best so far."""
        self.state.best, self.state.best_step, self.state.worse = cost, self.state.step, 0
        self.best = [one.clone() for one in self.ema.weights]

    def _stop(self, what: str) -> None:
        """It cannot go on, and the best weights stay; where none were looked at the last ones, if they are any good."""
        state = self.state
        state.stopped = f"expected a {what} that is a number, got none after step {state.step:,}"
        if not state.best_step and state.step:
            nats = self.validator.evaluate(state.step, self.held_out if len(self.held_out) else self.tokens).nats
            if math.isfinite(nats):
                self._prefer(nats)

    def finish(self) -> None:
        """The network with the weights that are to be kept: the best ones, or the last where none were looked at."""
        if not self.state.best_step and not self.is_continued:
            self._prefer(self.state.best)
        self.ema.put(self.best)
        self.network.eval()

    def match_label_frequencies(self, watch: Watch) -> None:
        """Where entities are drawn in order, have the finished network draw labels as often as training has them."""
        if self.run.hiding.is_in_order:
            read = self.state.step * self.config.batch * len(self.tokens.slot) / len(self.tokens)
            numbers = autocast(self.config.precision, self.device, self.run.model.width)
            with self._after("weighing labels", watch) as told, numbers:
                match_label_frequencies(self.network, self.codec, self.tokens, self.run.seed, int(EVENING * read), told)

    def refit_presence(self, watch: Watch) -> None:
        """Have the finished network learn what is recorded to the end, where it learnt that at all."""
        if self._records and len(self.held_out):
            most = MAX_VALUES if self.state.recorded is None else self.state.recorded
            with self._after("learning what is recorded", watch) as told:
                refit(self.network, self.tokens, self.held_out, self.run.seed, told, most)

    @property
    def _records(self) -> bool:
        """Whether the network learns what is recorded at all."""
        return bool(self.config.absent and self.config.presence)

    def fit_latent_knn(self, watch: Watch) -> LatentKNN | None:
        """The latent nearest neighbours of the finished network."""
        values = self.state.values
        config = self.run.latent_knn if values is None else replace(self.run.latent_knn, values=values)
        with self._after("indexing", watch) as told:
            return latent_knn.fit(self.network, self.tokens, self.held_out, config, self.run.seed, told)

    @contextmanager
    def _after(self, doing: str, watch: Watch) -> Iterator[Callable[[int, int], None]]:
        """Something that is done after the last step takes its time of the run's, and tells how far it is."""
        state, begun = self.state, time.monotonic()

        def told(done: int, of: int) -> None:
            spent = state.seconds + time.monotonic() - begun
            watch(Progress(state.step, self.ahead, spent, math.nan, ended=True, after=After(doing, done, of)))

        yield told
        state.seconds += time.monotonic() - begun


# ---------------------------------------------------------------- parallel chunks


MIN_TOKENS = 800  # of a part: with fewer each would take as long as with these

Cost = Callable[[Tensor, int], Loss]  # of the entities of a part, by its number


@dataclass(frozen=True)
class StepLoss:
    """The loss of a step, a mean over its entities."""

    total: float
    nats: float


@dataclass(frozen=True)
class ChunkLoss(StepLoss):
    """Some of that, and some of its gradient."""

    gradients: Sequence[Tensor | None]


class ParallelGradients:
    """Computes gradients in up to `most` chunks at once, each of at least `least` entities."""

    def __init__(self, network: nn.Module, most: int, least: int) -> None:
        self.parameters = list(network.parameters())
        self.most, self.least = most, least
        self.threads = torch.get_num_threads()
        workers = min(most, self.threads)
        self.pool = ThreadPoolExecutor(workers) if workers > 1 else None
        self.each = max(self.threads // workers, 1)

    def compute(self, entities: Tensor, cost: Cost) -> StepLoss:
        """Put the gradient of what these entities cost into the parameters."""
        parts = entities.chunk(max(min(self.most, len(entities) // self.least), 1))
        shares = [len(part) / len(entities) for part in parts]
        if self.pool is None or len(parts) == 1:
            found = list(map(partial(self._one, cost), parts, shares, count()))
        else:
            found = list(self.pool.map(partial(self._threaded, cost), parts, shares, count()))
            torch.set_num_threads(self.threads)  # for threads to come: the workers' own number is theirs
        for parameter, several in zip(
            self.parameters, zip(*(one.gradients for one in found), strict=True), strict=True
        ):
            parameter.grad = _sum(several)
        return StepLoss(sum(one.total for one in found), sum(one.nats for one in found))

    def _threaded(self, cost: Cost, entities: Tensor, share: float, number: int) -> ChunkLoss:
        if torch.get_num_threads() != self.each:
            torch.set_num_threads(self.each)
        return self._one(cost, entities, share, number)

    def _one(self, cost: Cost, entities: Tensor, share: float, number: int) -> ChunkLoss:
        loss = cost(entities, number)
        gradients = torch.autograd.grad(loss.total * share, self.parameters, allow_unused=True)
        return ChunkLoss(float(loss.total.detach()) * share, float(loss.nats) * share, gradients)


def min_entities(entities: int, tokens: int) -> int:
    """The entities of a part, at least, where so many have so many tokens."""
    return max(round(MIN_TOKENS * entities / max(tokens, 1)), 1)


def _sum(gradients: Sequence[Tensor | None]) -> Tensor | None:
    """Of the parts, in their order, so that it is the same each time."""
    total: Tensor | None = None
    for one in gradients:
        total = one if total is None else total if one is None else total + one
    return total


# ---------------------------------------------------------------- after the last step


INDEX_SHARE, PRESENCE_SHARE = (
    0.2,
    0.1,
)  # of a budget, at most: for the latent kNN index, and for the refit of the presence head
MIN_INDEX_VALUES = 500  # values of an index; a smaller one is of no use
AFTER_SHARE = 0.5  # of a budget, at most, for all of it


class AfterTraining(NamedTuple):
    """The values that each task after the last step uses, and the seconds that are kept for them."""

    remembered: int
    recorded: int
    seconds: float


def plan_after_training(
    network: DiSK, tokens: Tokens, held_out: Tokens, budget: float, latent_knn_config: LatentKNNConfig, *, records: bool
) -> AfterTraining:
    """What a budget is good for, where something is held out; `records` tells whether the network learns what is recorded."""
    if not len(held_out) or not (latent_knn_config.neighbours or records):
        return AfterTraining(latent_knn_config.values, MAX_VALUES, 0.0)
    once = measure(network, tokens, latent_knn_config.neighbours)
    values, spent = _affordable(
        latent_knn_config.values, INDEX_SHARE * budget, lambda most: latent_knn_seconds(once, tokens, held_out, most)
    )
    if spent > INDEX_SHARE * budget:
        values, spent = 0, 0.0
    recorded, more = _affordable(
        MAX_VALUES, PRESENCE_SHARE * budget, lambda most: presence_seconds(once.forward, tokens, most)
    )
    taken = spent * bool(latent_knn_config.neighbours) + more * records
    return AfterTraining(values, recorded, min(taken, AFTER_SHARE * budget))


def _affordable(most: int, budget: float, seconds: Callable[[int], float]) -> tuple[int, float]:
    """How many values can be had for a budget, by halves of the most there are, and what they take."""
    while most > MIN_INDEX_VALUES and seconds(most) > budget:
        most //= 2
    return most, seconds(most)


# ---------------------------------------------------------------- memory


COPIES = 6  # of a network at least: itself, its average, its best, its gradients, and two moments of each
OUT_OF_MEMORY = ("can't allocate memory", "not enough memory")  # what torch says where a CPU has no memory left
MEMORY_SHARE = 0.9  # of a machine's memory: the rest is for data, for what a step computes, and for others


def check_memory(codec: Codec, model: ModelConfig, device: torch.device) -> None:
    """A ConfigError where a network and all that its training holds is more than the memory there is."""
    memory = _memory()
    if device.type != "cpu" or memory is None:
        return
    available, count = int(MEMORY_SHARE * memory), count_parameters(codec, model)
    needed = COPIES * count * torch.finfo(torch.float32).bits // 8
    if needed > available:
        problem = (
            f"expected a network that can be trained in {_gigabytes(available)} of memory, got {count / 1e6:,.0f} million "
            f"parameters, which need {_gigabytes(needed)}. Give a smaller width, or the default preset."
        )
        raise ConfigError(f"model.width = {model.width}", problem)


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


def count_parameters(codec: Codec, model: ModelConfig) -> int:
    """The number of parameters, extrapolated from three narrow networks: it is quadratic in the width."""
    least = math.lcm(model.heads, *(getattr(one, "heads", 1) for one in codec.config.kinds.values()))
    one, two, three = (_counted(codec, replace(model, width=times * least)) for times in (1, 2, 3))
    times = model.width // least
    slope, bend = two - one, three - 2 * two + one
    return one + (times - 1) * slope + (times - 1) * (times - 2) // 2 * bend


def _counted(codec: Codec, model: ModelConfig) -> int:
    return sum(one.numel() for one in DiSK(codec, model).parameters())


def _memory() -> int | None:
    """The bytes of this machine; None where it does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows has no such question
        return None


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.{0 if count >= 1e11 else 1}f} GB"
