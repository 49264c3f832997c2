"""A second opinion: what a model says of numbers by what is always given, alone.

Of nuclei z and n are always given, and tell the radius better than they do with a half-life beside them. What else is
visible helps with most properties and leads astray with some, a little of it more than much. So a model is asked twice,
once with nothing visible but what has the role given; what the second answer is worth, held-out values tell, property
by property. Who lacks what most of his class are given is asked about once.

B entities   T tokens   S slots   C classes
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from kbdisk.data import Codec
from kbdisk.data.batch import Batch
from kbdisk.data.dataset import Tokens
from kbdisk.diffusion import Model
from kbdisk.experts.base import Guide, Guided, Guiding, Said, Seen
from kbdisk.experts.latent_knn import ENOUGH, LESS, Place
from kbdisk.experts.queries import usual
from kbdisk.experts.stacking import judged
from kbdisk.leaves.number.belief import NumberBelief

MOST = 0.5  # of a class that have something given: more, and nothing is said of who lacks it


@dataclass(frozen=True)
class GivenOnlyConfig:
    """How long it may take to learn what second opinions are worth."""

    share: float = 0.0  # of a time budget that is for it; 0: there are none
    rounds: int = 3  # in how many ways, with much hidden, held-out entities are asked for

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ValueError(f"share: expected at least 0 and less than 1, got {self.share!r}")
        if self.rounds < 0:
            raise ValueError(f"rounds: expected at least 0, got {self.rounds!r}")


@dataclass(frozen=True)
class Given:
    """What is given of whom."""

    slots: Tensor  # (S,) whether it has the role
    needed: Tensor  # (S,) whether most of the class have it, too
    count: Tensor  # (C,) how many of these a class has
    told: tuple[int, ...]  # the slots of numbers of classes that have any

    @classmethod
    def of(cls, codec: Codec) -> Given:
        """As the schema has it, and as training entities had it."""
        needed = [slot.role == "given" and slot.fill > MOST for slot in codec.slots]
        tables = [codec.index.tables[name].slot.values() for name in codec.classes]
        counts = [sum(needed[number] for number in own) for own in tables]
        have = {number for own, count in zip(tables, counts, strict=True) if count for number in own}
        told = (n for n, slot in enumerate(codec.slots) if slot.kind == "number" and not slot.fixed and n in have)
        slots = torch.tensor([slot.role == "given" for slot in codec.slots], dtype=torch.bool)
        return cls(slots, torch.tensor(needed, dtype=torch.bool), torch.tensor(counts), tuple(told))

    def to(self, device: torch.device) -> Given:
        """Itself on a device."""
        return Given(self.slots.to(device), self.needed.to(device), self.count.to(device), self.told)

    def visible(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(T,) what is given, and (B,) of whom all is that should be."""
        seen = batch.seen(batch.known & self.slots[batch.slot])
        count = torch.zeros_like(batch.classes).index_add_(0, batch.entity, (seen & self.needed[batch.slot]).long())
        needed = self.count[batch.classes]
        return seen, (count == needed) & (needed > 0)


@dataclass(frozen=True)
class ByGiven:
    """What a model answers by what is given alone, as columns: one for each slot."""

    model: Model
    given: Given
    slots: Tensor  # the slots that it is asked for

    def table(self, batch: Batch, visible: Tensor) -> Tensor:
        """(B, S) float64 of the numbers that are not visible (T,); NaN elsewhere."""
        shape = batch.size, len(self.given.slots)
        found = torch.full(shape, math.nan, dtype=torch.float64, device=visible.device)
        seen, whole = self.given.visible(batch)
        wanted = ~(visible | batch.absent) & torch.isin(batch.slot, self.slots) & whole[batch.entity]
        if bool(wanted.any()):
            for one in self.model(batch, seen, wanted).kinds.values():
                if isinstance(one.belief, NumberBelief):
                    found[batch.entity[one.tokens], batch.slot[one.tokens]] = one.belief.expected()
        return found


@dataclass(frozen=True)
class Second:
    """The second opinion on one slot: an expert."""

    slot: int

    def tell(self, seen: Seen) -> Said:
        """What was answered, of m entities; NaN of those about whom nothing was."""
        return seen.columns[:, self.slot]


@dataclass(frozen=True)
class Opinions:
    """What second opinions are worth: by slot, and by how much is visible."""

    given: Given
    enough: Tensor  # (C,) how much of an entity of each class is visible where that is as much as usual (memory.amount)
    places: Mapping[Place, Guiding]

    def __len__(self) -> int:
        return len({slot for slot, _ in self.places})

    def beside(self, model: Model) -> Guided:
        """A model that is asked twice."""
        slots = torch.tensor(sorted({slot for slot, _ in self.places}), device=self.enough.device)
        return Guided(model, Guide(ByGiven(model, self.given, slots), self.enough, self.places))


@torch.no_grad()
def weigh(
    model: Model,
    codec: Codec,
    tokens: Tokens,
    held_out: Tokens,
    config: GivenOnlyConfig,
    *,
    seed: int,
    seconds: float | None = None,
    told: Callable[[int, int], None] | None = None,
) -> Opinions | None:
    """What second opinions are worth beside a model's first, as what is held out has it; None if they are worth nothing."""
    device = tokens.slot.device
    given = Given.of(codec).to(device)
    if not len(held_out) or not given.told:
        return None
    places = {(slot, level): Guiding.unweighed(Second(slot)) for slot in given.told for level in (ENOUGH, LESS)}
    sight = ByGiven(model, given, torch.tensor(given.told, device=device))
    generator = Generator(device).manual_seed(seed)
    kept = judged(Guide(sight, usual(tokens), places), model, held_out, config.rounds, generator, seconds)
    if told is not None:
        told(1, 1)
    return None if kept is None else Opinions(given, kept.enough, kept.places)
