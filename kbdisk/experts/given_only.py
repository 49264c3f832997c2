"""The given-only answer: the model is asked a second time for numbers, with only the given properties visible.

For nuclei z and n are always given, and predict the radius better than together with a half-life. Other visible values help
with most properties and mislead with some. So the second answer is an expert like others: its weight is fitted to held-out
values, property by property. It is left out for entities that lack given properties which most of their class have.

B entities   T tokens   S slots   C classes
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from kbdisk.data import Codec
from kbdisk.data.dataset import Batch, Tokens
from kbdisk.experts.base import (
    LITTLE_VISIBLE,
    USUALLY_VISIBLE,
    ExpertGroup,
    Inputs,
    Prediction,
    Report,
    Sides,
    SlotLevel,
    Stacked,
    WeightedExpert,
    ignored,
)
from kbdisk.experts.config import GivenOnlyConfig
from kbdisk.experts.queries import usual_amounts
from kbdisk.experts.stacking import stack
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.model.diffusion import Model

REQUIRED_FILL = 0.5  # of a class: a given property that more entities have is required for a second answer


@dataclass(frozen=True)
class GivenProperties:
    """The properties with the role `given`, and the numbers that are predicted from them."""

    slots: Tensor  # (S,) whether a slot is given
    required: Tensor  # (S,) whether most of its class have it, too
    count: Tensor  # (C,) how many required slots a class has
    numbers: tuple[int, ...]  # the slots of numbers that are predicted

    @classmethod
    def of(cls, codec: Codec) -> GivenProperties:
        """By the schema's roles and the fill of the training entities."""
        required = [slot.role == "given" and slot.kind != "text" and slot.fill > REQUIRED_FILL for slot in codec.slots]
        slots_of_classes = [codec.index.tables[name].slot.values() for name in codec.classes]
        counts = [sum(required[number] for number in slots) for slots in slots_of_classes]
        answered = {number for slots, count in zip(slots_of_classes, counts, strict=True) if count for number in slots}
        numbers = (
            n for n, slot in enumerate(codec.slots) if slot.kind == "number" and not slot.fixed and n in answered
        )
        given = torch.tensor([slot.role == "given" for slot in codec.slots], dtype=torch.bool)
        return cls(given, torch.tensor(required, dtype=torch.bool), torch.tensor(counts), tuple(numbers))

    def to(self, device: torch.device) -> GivenProperties:
        """The same on a device."""
        slots, required, count = (tensor.to(device) for tensor in (self.slots, self.required, self.count))
        return GivenProperties(slots, required, count, self.numbers)

    def visible(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(T,) the given tokens, and (B,) which entities have all required ones."""
        given = batch.seen(batch.known & self.slots[batch.slot])
        count = torch.zeros_like(batch.classes)
        count = count.index_add_(0, batch.entity, (given & self.required[batch.slot]).long())
        required = self.count[batch.classes]
        return given, (count == required) & (required > 0)


@dataclass(frozen=True)
class GivenOnlyFeatures:
    """A model's answers from given properties alone, as features: one for each slot."""

    model: Model
    given: GivenProperties
    slots: Tensor  # the slots that the model is asked for

    def table(self, batch: Batch, visible: Tensor) -> Tensor:
        """(B, S) float64 of the numbers that are not visible (T,); NaN elsewhere."""
        shape = batch.size, len(self.given.slots)
        answers = torch.full(shape, math.nan, dtype=torch.float64, device=visible.device)
        given, is_complete = self.given.visible(batch)
        asked = ~(visible | batch.absent) & torch.isin(batch.slot, self.slots) & is_complete[batch.entity]
        if bool(asked.any()):
            for of_kind in self.model(batch, given, asked).kinds.values():
                if isinstance(of_kind.belief, NumberBelief):
                    answers[batch.entity[of_kind.tokens], batch.slot[of_kind.tokens]] = of_kind.belief.expected()
        return answers


@dataclass(frozen=True)
class GivenOnlyAnswer:
    """The second answer for one slot: an expert."""

    slot: int

    def predict(self, inputs: Inputs) -> Prediction:
        """The model's answer for m entities; NaN where it was not asked."""
        return inputs.features[:, self.slot]


@dataclass(frozen=True)
class GivenOnly:
    """The weights of second answers, for any model that they are asked of."""

    given: GivenProperties
    usual_amount: Tensor  # (C,) the amount that is usually visible of an entity of each class
    experts: Mapping[SlotLevel, WeightedExpert]

    def __len__(self) -> int:
        return len({slot for slot, _ in self.experts})

    def beside(self, model: Model) -> Stacked:
        """A model that is asked twice."""
        slots = torch.tensor(sorted({slot for slot, _ in self.experts}), device=self.usual_amount.device)
        group = ExpertGroup(GivenOnlyFeatures(model, self.given, slots), self.usual_amount, self.experts)
        return Stacked(model, [group])


def applies(codec: Codec, training: Tokens, held_out: Tokens, config: GivenOnlyConfig) -> bool:
    """Whether some number may have a second answer, and values that are held out to weigh it."""
    return len(held_out) > 0 and bool(GivenProperties.of(codec).numbers)


@torch.no_grad()
def fit(
    model: Model,
    codec: Codec,
    sides: Sides,
    *,
    config: GivenOnlyConfig,
    seed: int,
    seconds: float | None = None,
    report: Report = ignored,
) -> GivenOnly | None:
    """The second answers that have a weight beside a model's first, by the held-out values; None if none has."""
    device = sides.training.slot.device
    given = GivenProperties.of(codec).to(device)
    if not given.numbers:
        return None
    experts = {
        (slot, level): WeightedExpert.unweighted(GivenOnlyAnswer(slot))
        for slot in given.numbers
        for level in (USUALLY_VISIBLE, LITTLE_VISIBLE)
    }
    features = GivenOnlyFeatures(model, given, torch.tensor(given.numbers, device=device))
    generator = Generator(device).manual_seed(seed)
    group = ExpertGroup(features, usual_amounts(sides.training), experts)
    kept = stack([group], model, sides, config.rounds, generator, seconds, report)[0]
    return None if kept is None else GivenOnly(given, kept.usual_amount, kept.experts)
