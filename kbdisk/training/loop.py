"""The training loop. Every draw of a step is made from the seed and the step's number, so a run resumed is the run unbroken.

T  tokens of all training entities, from which each step gathers a batch
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from kbdisk.batch import Batch
from kbdisk.codec import Codec
from kbdisk.diffusion import Loss, score
from kbdisk.hiding import Hidden, hide
from kbdisk.memory import Memory, remember
from kbdisk.memory.learning import seconds as remembering
from kbdisk.network import mup
from kbdisk.network.disk import DiSK
from kbdisk.randomness import drawing_from, mixed
from kbdisk.training import schedule
from kbdisk.training.averaging import Average
from kbdisk.training.data import Data
from kbdisk.training.looking import Look
from kbdisk.training.optimizer import optimizer
from kbdisk.training.parts import Parts
from kbdisk.training.precision import computing
from kbdisk.training.run import Run
from kbdisk.training.state import After, Progress, State, Watch, finite
from kbdisk.training.watching import Watching

KEPT = 0.97  # of a time budget: the rest is for steps that take a little longer than those that were timed
REMEMBERING = 0.2  # of a time budget, at most: what it takes to remember
UNWATCHED = 1000  # steps at most where nothing is held out, so that nobody would see it getting worse


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
        network, grown = build(data.codec, run)
        self.network = network.to(device)
        self.optimizer = optimizer(self.network, data.codec, run, grown)
        self.shares = [group["lr"] for group in self.optimizer.param_groups]
        self.parts = Parts(self.network, self.config.parts if device.type == "cpu" else 1)
        self.average = Average(self.network, self.config.smoothing)
        self.watching = Watching(self.network, self.average, data.codec, data.training, self.held_out, run, device)
        self.best: list[Tensor] = [one.clone() for one in self.average.weights]
        self.balance = self._balance() if self.config.balance else None
        values = run.memory.values if self.config.seconds is None else None
        self.state = State(total=self._steps(), evaluations=self.config.evaluations, values=values)

    def _steps(self) -> int | None:
        """How many steps there will be, where that is known before the first."""
        if self.config.seconds is not None:
            return None
        return self.config.steps or (None if len(self.held_out) else UNWATCHED)

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
        rate = config.rate * schedule.share(state.step, self.ahead, config.warmup, self._falls())
        for group, share in zip(self.optimizer.param_groups, self.shares, strict=True):
            group["lr"] = rate * share
        self.optimizer.step()
        state.step += 1
        self.average.update(state.step)
        return found.nats

    def _cost(self, entities: Tensor, part: int) -> Loss:
        """What some entities of a step cost, some of their properties hidden."""
        config = self.config
        batch, hidden = self.shown(entities, self.state.step, part)
        dropped = self._drawing(~self._number(self.state.step, part))
        with computing(config.precision, self.device, self.run.model.width), drawing_from(dropped):
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
        return torch.Generator(self.device).manual_seed(mixed(self.run.seed, number))

    def chosen(self, step: int) -> Tensor:
        """The entities of a step: every one once before any comes again, in an order drawn anew each time."""
        N, size = len(self.tokens), self.config.batch
        first, last = step * size // N, ((step + 1) * size - 1) // N
        rounds = [
            torch.randperm(N, generator=torch.Generator().manual_seed(mixed(self.run.seed, 1 << 40 | turn)))
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
                self._hurry()
            measure = self.watching.measure if seen and not state.stopped else None
            yield Progress(state.step, self.ahead, state.seconds, nats, seen, self.is_done, measure)

    @property
    def ahead(self) -> int | None:
        """How many steps there will be in all, as far as that is known: a budget may make it fewer."""
        return self.state.total or self.config.steps

    def _falls(self) -> int:
        """The step from which the rate falls evenly; 0 where its course is another."""
        if self.config.course != "plateau":
            return 0
        return self.state.falls or (schedule.cooling(self.ahead) if self.ahead is not None else 1 << 60)

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to do."""
        over = self.ahead is not None and self.state.step >= self.ahead
        return over or self.state.worse >= self.config.patience or bool(self.state.stopped)

    def _budget(self, seconds: float) -> None:
        """Take in how long a step took; after enough of them the budget becomes a number of steps, once."""
        state, config = self.state, self.config
        if state.total is not None or config.seconds is None:
            return
        state.timing.append(seconds)
        if not schedule.is_timed(state.timing, state.seconds + seconds, config.seconds, config.timed):
            return
        begun = time.monotonic()
        self.watching.look(state.step)
        taken = time.monotonic() - begun
        state.evaluations = schedule.affordable(config.seconds, taken, config.evaluations)
        spent = state.seconds + seconds + taken
        step = schedule.typical(state.timing)
        state.spare = self._reserved(config.seconds)
        kept = KEPT * config.seconds - state.spare
        total = schedule.bought(kept, spent, state.step, step, taken, state.evaluations)
        most = config.steps or (total if len(self.held_out) else UNWATCHED)
        state.total = max(min(total, most), state.step)

    def _reserved(self, budget: float) -> float:
        """The seconds that remembering takes of the budget; of what would take too many less is remembered."""
        memory = self.run.memory
        if not memory.nearest or not len(self.held_out):
            return 0.0
        each = remembering(self.network, self.tokens)
        self.state.values = min(memory.values, int(REMEMBERING * budget / max(each, 1e-9)))
        return each * min(self.state.values, len(self.tokens.slot))

    def _seen(self) -> Look | None:
        """What the held-out part costs, where it is to be looked at after this step."""
        state, ahead = self.state, self.ahead
        if not len(self.held_out) or (ahead is None and self.config.seconds is not None):
            return None
        # What is drawn is learnt by heart soon where there is little of it.
        early = self.run.hiding.is_in_order
        due = schedule.is_look(state.step, ahead, state.evaluations, early)
        return self.watching.look(state.step) if due else None

    def _judge(self, seen: Look) -> None:
        state = self.state
        if math.isnan(seen.nats):
            self._stop("loss on the held-out part")
            return
        cost = self.watching.cost(seen)
        if cost < state.best or not state.best_step:
            self._prefer(cost)
        else:
            state.worse += 1
            self._cool()
        state.history.append(
            {"step": state.step, "seconds": round(state.seconds, 1), "nats": finite(seen.nats), "cost": finite(cost)}
        )

    def _cool(self) -> None:
        """Where it gets no better at a rate that stays, let it fall."""
        state, ahead = self.state, self.ahead
        tired = self.config.course == "plateau" and state.worse >= self.config.tired
        if tired and ahead is not None and state.step < self._falls():
            state.falls, state.worse = state.step, 0
            state.total = schedule.cooled(state.step, ahead)

    def _hurry(self) -> None:
        """Where steps have become slower than those that were timed, there are fewer, so that a budget is kept."""
        state, budget = self.state, self.config.seconds
        if budget is None or state.total is None or state.stopped:
            return
        # Early looks are close together, and steps would seem slow by them.
        even = [one for one in state.history if not schedule.is_early(one["step"], state.total, state.evaluations)]
        left = schedule.affordable_steps(even, budget - state.spare - state.seconds)
        if left is not None and state.step + left < state.total:
            fewer = state.step + left
            if self.config.course == "plateau":
                state.falls = schedule.fall_again(state.step, self._falls(), state.total, fewer)
            state.total = fewer

    def _prefer(self, cost: float) -> None:
        """The averaged weights are the best so far."""
        self.state.best, self.state.best_step, self.state.worse = cost, self.state.step, 0
        self.best = [one.clone() for one in self.average.weights]

    def _stop(self, what: str) -> None:
        """It cannot go on, and the best weights stay; where none were looked at the last ones, if they are any good."""
        state = self.state
        state.stopped = f"expected a {what} that is a number, got none after step {state.step:,}"
        if not state.best_step and state.step:
            nats = self.watching.look(state.step, self.held_out if len(self.held_out) else self.tokens).nats
            if math.isfinite(nats):
                self._prefer(nats)

    def finish(self) -> None:
        """The network with the weights that are to be kept: the best ones, or the last where none were looked at."""
        if not self.state.best_step:
            self._prefer(self.state.best)
        self.average.put(self.best)
        self.network.eval()

    def remembered(self, watch: Watch) -> Memory | None:
        """What the finished network remembers of what it has learnt from."""
        state, begun = self.state, time.monotonic()
        config = self.run.memory if state.values is None else replace(self.run.memory, values=state.values)

        def told(done: int, of: int) -> None:
            spent = state.seconds + time.monotonic() - begun
            watch(Progress(state.step, self.ahead, spent, math.nan, ended=True, after=After("remembering", done, of)))

        memory = remember(self.network, self.tokens, self.held_out, config, self.run.seed, told)
        state.seconds += time.monotonic() - begun
        return memory
