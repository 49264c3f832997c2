"""The training loop. Every draw of a step is made from the seed and the step's number, so a run resumed is the run unbroken.

T  tokens of all training entities, from which each step gathers a batch
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from kbdisk.data import Codec
from kbdisk.data.batch import Batch
from kbdisk.diffusion import Loss, score
from kbdisk.experts import latent_knn
from kbdisk.experts.latent_knn import LatentKNN
from kbdisk.hiding import Hidden, hide
from kbdisk.network import mup
from kbdisk.network.disk import DiSK
from kbdisk.rng import derive_seed, use_generator
from kbdisk.training.afterwards import planned
from kbdisk.training.data import Data
from kbdisk.training.label_frequencies import match_label_frequencies
from kbdisk.training.optimizer import EMA, autocast, build_optimizer
from kbdisk.training.parts import Parts, min_entities
from kbdisk.training.presence import MAX_VALUES, refit
from kbdisk.training.room import check_room
from kbdisk.training.run import Run
from kbdisk.training.schedule import Schedule
from kbdisk.training.validation import After, Progress, State, ValidationLoss, Validator, Watch, finite

MIN_STEPS = 100  # with fewer a network tells little: where there are experts they have its time
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
    """A network on its way."""

    def __init__(self, data: Data, run: Run, device: torch.device) -> None:
        self.config, self.run, self.device = run.train, run, device
        self.codec = data.codec
        self.tokens, self.held_out = data.training.to(device), data.validation.to(device)
        check_room(data.codec, run.model, device)
        network, grown = build(data.codec, run)
        self.network = network.to(device)
        self.optimizer = build_optimizer(self.network, data.codec, run, grown)
        self.shares = [group["lr"] for group in self.optimizer.param_groups]
        least = min_entities(len(self.tokens), len(self.tokens.slot))
        self.parts = Parts(self.network, self.config.parts if device.type == "cpu" else 1, least)
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
        found = self.parts.gradients(self.chosen(state.step), self._cost)
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
        least = MIN_STEPS if self.run.experts_share and len(self.held_out) else 0
        if not self.schedule.is_timed(seconds, least) or budget is None:
            return
        begun = time.monotonic()
        self.validator.evaluate(state.step)
        taken = time.monotonic() - begun
        spent = state.seconds + seconds + taken
        after = planned(self.network, self.tokens, self.held_out, budget, self.run.latent_knn, records=self._records)
        state.values, state.recorded, state.spare = after
        if not self.schedule.buy(budget, spent, taken, least):
            state.values = 0  # the network has learnt nothing, not even what neighbours could be found by
            self.network.silence()
            self.ema.restart()

    def _seen(self) -> ValidationLoss | None:
        """What the held-out part costs, where it is to be looked at after this step."""
        # What is drawn is learnt by heart soon where there is little of it.
        early = self.run.hiding.is_in_order
        return self.validator.evaluate(self.state.step) if self.schedule.is_look_due(early) else None

    def _judge(self, seen: ValidationLoss) -> None:
        state = self.state
        if math.isnan(seen.nats):
            self._stop("loss on the held-out part")
            return
        cost = self.validator.cost(seen)
        if cost < state.best or not state.best_step:
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
        if not self.state.best_step:
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
