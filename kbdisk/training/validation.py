"""The validation loss, early stopping's state and the progress of a run.

Each evaluation masks the validation entities in the same way, so losses of different steps are comparable. Weights are
those of the EMA. The validation loss is -log p of hidden values, whatever training minimises: the objective, the balance and
the weight of presence of `TrainConfig` do not change it. An objective that this loss is to follow has to be added here.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kbdisk.data import Codec
from kbdisk.data.dataset import Batch, Tokens, batches, random_sample
from kbdisk.metrics import Constants, Marginals, collect_cases, score_rows
from kbdisk.model.diffusion import Model, beliefs, loss
from kbdisk.model.masking import Hidden, Hiding, hide, masks_in_order
from kbdisk.model.network import DiSK
from kbdisk.training.distributed import Processes
from kbdisk.training.optimizer import EMA, autocast
from kbdisk.training.run import Run

MAX_ENTITIES = 2000  # validation entities in an evaluation
MAX_TOKENS_READ = 1 << 17  # tokens read in an evaluation of drawing in order, each counted as often as it is read
MAX_ENTITIES_MEASURED = 200  # validation entities whose errors are measured: predictions take longer than losses


@dataclass(frozen=True)
class ValidationLoss:
    """The loss of the validation entities after a step."""

    step: int
    nats: float  # per entity: the bound, or -log p in the order of drawing, but for texts
    by_slot: dict[int, tuple[float, int]]  # slot -> mean -log p where hidden, and how often it was

    def cost(self, constant: Mapping[int, float]) -> float:
        """The mean -log p of a value, each property capped at that of its constant belief: early stopping minimises it.

        Every hidden value counts once: by neither D / M nor the property's entropy, and presence not at all. A property that
        nothing else determines is overfitted while others still improve; the cap keeps it from ending the run.
        """
        count = sum(often for _, often in self.by_slot.values())
        return sum(
            min(nats, constant.get(slot, math.inf)) * often for slot, (nats, often) in self.by_slot.items()
        ) / max(count, 1)


@torch.no_grad()
def validation_loss(model: Model, tokens: Tokens, hiding: Hiding, slots: int, seed: int, step: int) -> ValidationLoss:
    """The loss of validation entities, masked as in training or as in drawing in order; the masks depend on the seed alone."""
    total, sums, counts = 0.0, torch.zeros(slots), torch.zeros(slots)
    seen = 0
    for batch, masks in _masked_batches(tokens, hiding, seed):
        seen += batch.size
        for hidden in masks:
            batch_loss = loss(model, batch, hidden)
            total += float(batch_loss.nats) * batch.size
            for sum_of_slot, part in zip((sums, counts), batch_loss.by_slot(batch, slots), strict=True):
                sum_of_slot += part.float().cpu()
    asked_slots = counts.nonzero()[:, 0].tolist()
    by_slot = {slot: (float(sums[slot] / counts[slot]), int(counts[slot])) for slot in asked_slots}
    return ValidationLoss(step, total / max(seen, 1), by_slot)


def constant_nats(codec: Codec, tokens: Tokens, hiding: Hiding, seed: int) -> dict[int, float]:
    """slot -> mean -log p by the constant belief, of the values that an evaluation masks."""
    marginals, nats = Marginals(codec), defaultdict[int, list[Tensor]](list)
    for batch, masks in _masked_batches(tokens, hiding, seed):
        for hidden in masks:
            for kind, (start, end) in batch.spans.items():
                asked, slots = hidden.asked[start:end], batch.slot[start:end]
                for slot in slots[asked].unique().tolist():
                    nats[slot].append(marginals.nats(slot, batch.values[kind][asked & (slots == slot)]))
    return {slot: float(torch.cat(parts).mean()) for slot, parts in nats.items()}


def _masked_batches(tokens: Tokens, hiding: Hiding, seed: int) -> Iterator[tuple[Batch, Iterable[Hidden]]]:
    """Batches of validation entities, or of a sample, with their masks: the same at each evaluation."""
    generator, order = torch.Generator(tokens.slot.device).manual_seed(seed), tokens.layout.order
    asked = random_sample(len(tokens), MAX_ENTITIES, seed)
    passes = max(MAX_TOKENS_READ * len(tokens) // max(len(asked) * len(tokens.slot), 1), 1)
    for _, batch in batches(tokens, places=asked):
        if hiding.is_in_order:
            yield batch, masks_in_order(batch, drawable(batch), order, passes, generator)
        else:
            yield batch, [hide(batch, hiding, generator, order)]


def drawable(batch: Batch) -> Tensor:
    """(T,) the values that are drawn: no texts, which are drawn last and only on demand, unless there is nothing else."""
    free = batch.known & ~batch.fixed
    others = batch.without("text", free)
    return others if others.any() else free


@torch.no_grad()
def score_sample(
    model: Model, codec: Codec, constants: Constants, tokens: Tokens, hiding: Hiding, seed: int
) -> list[dict[str, Any]]:
    """Rows of `metrics`: the error of predictions where some of the other properties are masked, too; no texts."""
    generator = torch.Generator(tokens.slot.device).manual_seed(seed)
    batch = tokens.batch(random_sample(len(tokens), MAX_ENTITIES_MEASURED, seed))
    hidden = hide(batch, Hiding(ordered=hiding.ordered), generator, tokens.layout.order)
    asked = batch.without("text", hidden.asked)
    cases = collect_cases(codec, Marginals(codec), batch, beliefs(model, batch, asked, hidden.visible))
    return score_rows(codec, constants, cases)


@dataclass
class Validator:
    """Evaluates a network with its averaged weights, beside the constant of each property."""

    network: DiSK
    ema: EMA
    codec: Codec
    training: Tokens  # where it was encoded
    held_out: Tokens  # where the network is
    run: Run
    device: torch.device
    processes: Processes = Processes()

    def evaluate(self, step: int, tokens: Tokens | None = None) -> ValidationLoss:
        """The loss of the validation entities after a step, or of other `tokens`; process 0 computes it."""
        evaluated = self.held_out if tokens is None else tokens
        loss: Any = None  # in other processes
        if self.processes.is_first:
            with self._averaged():
                loss = validation_loss(
                    self.network, evaluated, self.run.hiding, len(self.codec.slots), self.run.seed, step
                )
        shared: ValidationLoss = self.processes.share(lambda: loss)
        return shared

    def cost(self, loss: ValidationLoss) -> float:
        """The validation loss that early stopping minimises."""
        # Drawing in order uses every conditional as it was learnt: overfitting counts in full.
        is_in_order = self.run.hiding.is_in_order
        return loss.nats if is_in_order else self.processes.share(lambda: loss.cost(self.constant_nats))

    def measure(self) -> list[dict[str, Any]]:
        """The error of predictions on a sample of the validation entities, beside that of the constants."""
        with self._averaged():
            return score_sample(self.network, self.codec, self.constants, self.held_out, self.run.hiding, self.run.seed)

    @cached_property
    def constants(self) -> Constants:
        """The best constant prediction of each property."""
        return Constants.fit(self.codec, self.training)

    @cached_property
    def constant_nats(self) -> dict[int, float]:
        """slot -> mean -log p of its validation values by the constant belief."""
        return constant_nats(self.codec, self.held_out, self.run.hiding, self.run.seed)

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        self.network.eval()
        with self.ema.applied(), autocast(self.run.train.precision, self.device, self.run.model.width):
            yield


@dataclass
class State:
    """How far a run is: with the tensors, all that resuming needs. The names are those of state.json."""

    step: int = 0
    total: int | None = None  # None until a time budget has become a number of steps
    evaluations: int = 0  # evaluations of the run: fewer where they are slow for the budget
    seconds: float = 0.0  # spent in steps, evaluations and saving checkpoints
    falls: int = 0  # the step from which the rate falls, where that was earlier than planned
    spare: float = 0.0  # seconds of a budget that are not for steps
    values: int | None = None  # the most values in the latent kNN index; None until a budget sets it
    recorded: int | None = None  # the most values that the presence head is refitted on; None likewise
    best: float = math.inf  # the lowest validation loss
    best_step: int = 0
    worse: int = 0  # evaluations since then
    history: list[dict[str, Any]] = field(default_factory=list)
    timing: list[float] = field(default_factory=list)  # of the first steps
    stopped: str = ""  # why training cannot go on
    is_silent: bool = False  # whether the network had too few steps: its beliefs are the marginals


class FinalTask(NamedTuple):
    """A task after the last step, and its progress."""

    doing: str
    done: int
    total: int


@dataclass(frozen=True)
class Progress:
    """What a callback receives after each step."""

    step: int
    total: int | None
    seconds: float
    loss: float  # of this step, nats per entity
    validation_loss: ValidationLoss | None = None  # where the step was followed by an evaluation
    ended: bool = False  # whether it was the last
    measure: Callable[[], list[dict[str, Any]]] | None = None  # measures the error of predictions now
    member: tuple[int, int] = (1, 1)  # the number of the network, of how many
    final_task: FinalTask | None = None  # the task after the last step


Watch = Callable[[Progress], None]


def unwatched(progress: Progress) -> None:
    """A watch that ignores progress."""


def finite(number: float) -> float | None:
    """The number, or None for NaN and infinity, which JSON lacks."""
    return number if math.isfinite(number) else None
