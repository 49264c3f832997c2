"""The training loop. Every draw of a step is made from the seed and the step's number, so a run resumed is the run unbroken.

T  tokens of all training entities, from which each step gathers a batch
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from kbdisk.codec import Codec
from kbdisk.diffusion import loss
from kbdisk.network import mup
from kbdisk.network.disk import DiSK
from kbdisk.training import schedule
from kbdisk.training.averaging import Average
from kbdisk.training.data import Data
from kbdisk.training.looking import Look, look
from kbdisk.training.precision import computing
from kbdisk.training.run import Run


@dataclass
class State:
    """How far a run is; with the tensors, all that a resumed one needs."""

    step: int = 0
    total: int | None = None  # None until a time budget has become a number of steps
    seconds: float = 0.0  # spent in steps and looks
    best: float = math.inf  # the least nats that the held-out part cost
    best_step: int = 0
    worse: int = 0  # looks since then
    history: list[dict[str, Any]] = field(default_factory=list)
    timing: list[float] = field(default_factory=list)  # of the first steps


@dataclass(frozen=True)
class Progress:
    """What a watcher is told after each step."""

    step: int
    total: int | None
    seconds: float
    loss: float  # of this step, nats per entity
    look: Look | None = None  # where there was one


Watch = Callable[[Progress], None]


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
        groups = mup.parameter_groups(self.network, grown, 1.0, self.config.decay)
        self.shares = [group["lr"] for group in groups]
        self.optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=True)
        self.average = Average(self.network, self.config.smoothing)
        self.best: list[Tensor] = [one.clone() for one in self.average.weights]
        self.balance = self._balance() if self.config.balance else None
        self.state = State(total=None if self.config.seconds else self.config.steps)

    def _balance(self) -> Tensor:
        entropies = torch.tensor([slot.entropy for slot in self.codec.slots])
        return entropies.clamp(min=0.5).to(self.device)

    # ------------------------------------------------------------ steps

    def advance(self) -> float:
        """One step; the loss in nats per entity."""
        state, config = self.state, self.config
        generator = torch.Generator(self.device).manual_seed(_mixed(self.run.seed, state.step))
        torch.manual_seed(_mixed(self.run.seed, ~state.step))  # of dropout
        batch = self.tokens.batch(self._chosen(state.step), config.absent, generator)
        self.network.train()
        with computing(config.precision, self.device):
            found = loss(
                self.network,
                batch,
                self.run.hiding,
                objective=config.objective,
                balance=self.balance,
                presence=config.presence,
                generator=generator,
            )
        self.optimizer.zero_grad()
        found.total.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), config.clip)
        rate = config.rate * schedule.share(state.step, state.total, config.warmup)
        for group, share in zip(self.optimizer.param_groups, self.shares, strict=True):
            group["lr"] = rate * share
        self.optimizer.step()
        state.step += 1
        self.average.update(state.step)
        return float(found.nats)

    def _chosen(self, step: int) -> Tensor:
        """The entities of a step: every one once before any comes again, in an order drawn anew each time."""
        N, size = len(self.tokens), self.config.batch
        first, last = step * size // N, ((step + 1) * size - 1) // N
        rounds = [
            torch.randperm(N, generator=torch.Generator().manual_seed(_mixed(self.run.seed, 1 << 40 | turn)))
            for turn in range(first, last + 1)
        ]
        start = step * size - first * N
        return torch.cat(rounds)[start : start + size]

    # ------------------------------------------------------------ the whole way

    def run_through(self, watch: Watch) -> None:
        """Step until the steps or the budget are used up, or the held-out part has stopped getting better."""
        state, config = self.state, self.config
        while not self.is_done:
            begun = time.monotonic()
            nats = self.advance()
            self._time(time.monotonic() - begun)
            seen = None
            if state.total is not None and state.step in schedule.looks(state.total, config.evaluations):
                seen = self.look()
                self._judge(seen)
            state.seconds += time.monotonic() - begun
            watch(Progress(state.step, state.total, state.seconds, nats, seen))

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to do."""
        over = self.state.total is not None and self.state.step >= self.state.total
        return over or self.state.worse >= self.config.patience

    def _time(self, seconds: float) -> None:
        """Take in how long a step took; after enough of them the budget becomes a number of steps, once."""
        state, config = self.state, self.config
        if state.total is not None or config.seconds is None:
            return
        state.timing.append(seconds)
        if len(state.timing) >= config.timed or state.seconds + seconds > config.seconds:
            begun = time.monotonic()
            self.look()
            taken = time.monotonic() - begun
            later = sorted(state.timing[len(state.timing) // 5 :])
            step = later[len(later) // 2]
            spent = state.seconds + seconds + taken
            total = schedule.bought(config.seconds, spent, state.step, step, taken, config.evaluations)
            state.total = min(total, config.steps or total)

    def look(self) -> Look:
        """What the held-out part costs with the averaged weights."""
        self.network.eval()
        with self.average.applied(), computing(self.config.precision, self.device):
            return look(self.network, self.held_out, len(self.codec.slots), self.run.seed, self.state.step)

    def _judge(self, seen: Look) -> None:
        state = self.state
        if len(self.held_out) == 0 or seen.nats < state.best:
            state.best, state.best_step, state.worse = seen.nats, state.step, 0
            self.best = [one.clone() for one in self.average.weights]
        else:
            state.worse += 1
        state.history.append({"step": state.step, "seconds": round(state.seconds, 1), "nats": seen.nats})


def _mixed(seed: int, number: int) -> int:
    """A seed for each number of a run's."""
    mixed = (seed * 0x9E3779B97F4A7C15 + number * 0xBF58476D1CE4E5B9) & (1 << 63) - 1
    return mixed ^ mixed >> 31
