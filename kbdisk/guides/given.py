"""A second opinion: what a model says of numbers by what is always given, alone.

Of nuclei z and n are always given, and tell the radius better than they do with a half-life beside them. What else is
visible helps with most properties and leads astray with some, a little of it more than much. So a model is asked twice,
once with nothing visible but what has the role given; what the second answer is worth, held-out values tell, property
by property.

B entities   S slots
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from kbdisk.batch import Batch
from kbdisk.codec import Codec
from kbdisk.diffusion import Model
from kbdisk.guides.guide import Guide, Guided, Guiding, Said, Seen
from kbdisk.guides.judging import judged
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.memory.learning import usual
from kbdisk.memory.memory import ENOUGH, LESS, Place
from kbdisk.tokens import Tokens

NUMBER = "number"  # the kind of which there are second opinions


@dataclass(frozen=True)
class GivenConfig:
    """How long it may take to learn what second opinions are worth."""

    share: float = 0.0  # of a time budget that is for it; 0: there are none
    rounds: int = 3  # in how many ways, with much hidden, held-out entities are asked for

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ValueError(f"share: expected at least 0 and less than 1, got {self.share!r}")
        if self.rounds < 0:
            raise ValueError(f"rounds: expected at least 0, got {self.rounds!r}")


@dataclass(frozen=True)
class ByGiven:
    """What a model answers by what is given alone, as columns: one for each slot."""

    model: Model
    slots: int

    def table(self, batch: Batch, visible: Tensor) -> Tensor:
        """(B, S) float64 of the numbers that are not visible (T,); NaN elsewhere."""
        found = torch.full((batch.size, self.slots), math.nan, dtype=torch.float64, device=visible.device)
        wanted = torch.zeros_like(visible)
        start, end = batch.spans.get(NUMBER, (0, 0))
        wanted[start:end] = True
        wanted &= ~(visible | batch.fixed | batch.absent) & (batch.slot < self.slots)
        told = self.model(batch, batch.seen(batch.known & batch.fixed), wanted)
        for one in told.kinds.values():
            if isinstance(one.belief, NumberBelief):
                found[batch.entity[one.tokens], batch.slot[one.tokens]] = one.belief.expected()
        return found


@dataclass(frozen=True)
class Second:
    """The second opinion on one slot: an expert."""

    slot: int

    def tell(self, seen: Seen) -> Said:
        """What was answered, of m entities."""
        return seen.columns[:, self.slot]


@dataclass(frozen=True)
class Opinions:
    """What second opinions are worth: by slot, and by how much is visible."""

    enough: Tensor  # (C,) how many values of an entity of each class are visible where it is as many as usual
    places: Mapping[Place, Guiding]

    def __len__(self) -> int:
        return len({slot for slot, _ in self.places})

    def beside(self, model: Model) -> Guided:
        """A model that is asked twice."""
        slots = 1 + max(slot for slot, _ in self.places)
        return Guided(model, Guide(ByGiven(model, slots), self.enough, self.places))


def are_any(codec: Codec) -> bool:
    """Whether there is anything that is always given."""
    return any(slot.role == "given" for slot in codec.slots)


@torch.no_grad()
def weigh(
    model: Model,
    codec: Codec,
    tokens: Tokens,
    held_out: Tokens,
    config: GivenConfig,
    *,
    seed: int,
    seconds: float | None = None,
    told: Callable[[int, int], None] | None = None,
) -> Opinions | None:
    """What second opinions are worth beside a model's first, as what is held out has it; None if they are worth nothing."""
    numbers = [number for number, slot in enumerate(codec.slots) if slot.kind == NUMBER and not slot.fixed]
    if not len(held_out) or not numbers or not are_any(codec):
        return None
    places = {(slot, level): Guiding.unweighed(Second(slot)) for slot in numbers for level in (ENOUGH, LESS)}
    generator = Generator(tokens.slot.device).manual_seed(seed)
    guide = Guide(ByGiven(model, len(codec.slots)), usual(tokens), places)
    kept = judged(guide, model, held_out, config.rounds, generator, seconds)
    if told is not None:
        told(1, 1)
    return None if kept is None else Opinions(kept.enough, kept.places)
