"""Propagated numbers as predictions: what chains of links say of a number, as it is.

The network and the other experts see the same estimate as evidence (kbdisk.data.propagation), but none of them repeats a
number to its last digit. Two experts do, in two stages:

    propagation        weighed together with the other experts, wherever there is an estimate
    close_propagation  combined with the answer of them all, where the estimate is of one of the first grades. The weights of
                       the stack are those that suit the largest errors; this one suits small ones.

B entities   T tokens   S slots   P columns, one for each slot of such evidence
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from kbdisk.data import Codec
from kbdisk.data.dataset import Batch, Tokens
from kbdisk.data.graph import pattern
from kbdisk.data.propagation import GRADES
from kbdisk.data.slots import Source
from kbdisk.experts.base import (
    USUALLY_VISIBLE,
    Candidates,
    ExpertGroup,
    Inputs,
    Prediction,
    Report,
    Sides,
    Stacked,
    WeightedExpert,
    ignored,
)
from kbdisk.experts.config import PropagationConfig
from kbdisk.experts.queries import usual_amounts
from kbdisk.experts.stacking import ROUNDS, stack
from kbdisk.leaves.number.codec import CodecTables
from kbdisk.model.diffusion import Model

NUMBER = "number"
CLOSE_GRADES = GRADES[:2]


@dataclass(frozen=True)
class PropagatedFeatures:
    """The visible propagated numbers of entities."""

    columns: Tensor  # (S,) of each slot; -1: none
    first: int  # slot of the numbers
    tables: CodecTables
    count: int  # P

    @classmethod
    def of(cls, codec: Codec, grades: Sequence[str]) -> PropagatedFeatures:
        """The features of a codec's slots."""
        slots = [number for of_number in predicting_slots(codec, grades).values() for number in of_number]
        columns = torch.full((len(codec.slots),), -1)
        columns[torch.tensor(slots, dtype=torch.long)] = torch.arange(len(slots))
        numbers = [number for number, slot in enumerate(codec.slots) if slot.kind == NUMBER]
        tables = CodecTables([codec.slots[number].codec for number in numbers])
        return cls(columns, min(numbers, default=0), tables, len(slots))

    def table(self, batch: Batch, visible: Tensor) -> Tensor:
        """(B, P) float64 of the visible tokens (T,); NaN elsewhere."""
        table = torch.full((batch.size, self.count), torch.nan, dtype=torch.float64, device=visible.device)
        if NUMBER in batch.spans:
            start, end = batch.spans[NUMBER]
            column = self.columns[batch.slot[start:end]]
            tokens = (visible[start:end] & (column >= 0)).nonzero()[:, 0]
            codes = batch.values[NUMBER][tokens, :1].double()
            values = self.tables.inverse(batch.slot[start + tokens] - self.first, codes)
            table[batch.entity[start + tokens], column[tokens]] = values[:, 0]
        return table

    def to(self, device: torch.device) -> PropagatedFeatures:
        """The same on a device."""
        return replace(self, columns=self.columns.to(device), tables=self.tables.to(device))


@dataclass(frozen=True)
class PropagatedNumber:
    """The estimate of one number: an expert."""

    columns: tuple[int, ...]

    def predict(self, inputs: Inputs) -> Prediction:
        """The estimate of each entity, of which at most one column is known; NaN where there is none."""
        values = inputs.features[:, list(self.columns)]
        is_unknown = values.isnan()
        return values.nan_to_num().sum(1).masked_fill(is_unknown.all(1), torch.nan)


@dataclass(frozen=True)
class ClosePropagation:
    """Close estimates with weights beside the answer of a model."""

    group: ExpertGroup

    def __len__(self) -> int:
        return len(self.group)

    def beside(self, model: Model) -> Stacked:
        """A model whose answers move towards close estimates."""
        return Stacked(model, [self.group])


def predicting_slots(codec: Codec, grades: Sequence[str]) -> dict[int, list[int]]:
    """By the slot of a number, those of the propagated numbers of some grades that predict it."""
    by_source: dict[Source, list[int]] = defaultdict(list)
    for number, slot in enumerate(codec.slots):
        if slot.over is not None and slot.over.aggregate in grades:
            by_source[Source(slot.over.class_name, slot.over.read)].append(number)
    own = {
        number: codec.pools.source(slot.class_name, pattern(slot.path))
        for number, slot in enumerate(codec.slots)
        if slot.role == "value" and slot.kind == NUMBER
    }
    return {number: by_source[source] for number, source in own.items() if source in by_source}


def unweighted_group(codec: Codec, grades: Sequence[str], usual_amount: Tensor) -> ExpertGroup:
    """The experts of all numbers with an estimate of some grades.

    Every amount is usual (C,): an estimate does not depend on the entity's own values.
    """
    features = PropagatedFeatures.of(codec, grades)
    experts = {
        (slot, USUALLY_VISIBLE): WeightedExpert.unweighted(PropagatedNumber(tuple(features.columns[slots].tolist())))
        for slot, slots in predicting_slots(codec, grades).items()
    }
    return ExpertGroup(features.to(usual_amount.device), torch.zeros_like(usual_amount), experts)


def applies(codec: Codec, training: Tokens, held_out: Tokens, config: PropagationConfig) -> bool:
    """Whether any number is propagated, and there are values that are held out to weigh the estimates."""
    return len(held_out) > 0 and bool(predicting_slots(codec, GRADES))


def fit(
    codec: Codec,
    sides: Sides,
    *,
    config: PropagationConfig,
    seed: int,
    seconds: float | None = None,
    report: Report = ignored,
) -> Candidates:
    """The experts of all propagated numbers. There is nothing to fit: the codec has the chains."""

    def refitted(group: ExpertGroup, seconds: float | None = None, report: Report = ignored) -> ExpertGroup:
        return group

    return Candidates(unweighted_group(codec, GRADES, usual_amounts(sides.training)), refitted)


@torch.no_grad()
def fit_close(
    model: Model,
    codec: Codec,
    sides: Sides,
    *,
    config: PropagationConfig,
    seed: int,
    seconds: float | None = None,
    report: Report = ignored,
) -> ClosePropagation | None:
    """The close estimates that have a weight beside a model's answer, by the held-out values; None if none has."""
    usual_amount = usual_amounts(sides.training)
    group = unweighted_group(codec, CLOSE_GRADES, usual_amount)
    generator = Generator(usual_amount.device).manual_seed(seed)
    kept = stack([group], model, sides, ROUNDS, generator, seconds, report)[0]
    return None if kept is None else ClosePropagation(kept)
