"""An expert that somebody else might add: it predicts the median of a number among the entities of the same class.

`EXPERTS["class_median"] = CLASS_MEDIAN` registers it, as a package would when it is imported.

C classes   m entities   n known values
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from kbdisk.data import Codec
from kbdisk.data.dataset import Batch, Tokens
from kbdisk.experts import ExpertKind
from kbdisk.experts.base import (
    USUALLY_VISIBLE,
    Candidates,
    ExpertGroup,
    Inputs,
    Report,
    Sides,
    SlotLevel,
    WeightedExpert,
    ignored,
)
from kbdisk.experts.serialize import (
    DOUBLE,
    USUAL_AMOUNT,
    WEIGHT,
    Format,
    Spec,
    Tensors,
    attributes,
    take_weight,
)
from kbdisk.model.estimates import decode_codes


@dataclass(frozen=True)
class ClassMedianConfig:
    """The settings: a share of the time budget."""

    share: float = 0.0


class ClassFeature:
    """One feature: the number of an entity's class."""

    def table(self, batch: Batch, visible: Tensor) -> Tensor:
        return batch.classes[:, None].double()


@dataclass(frozen=True)
class ClassMedian:
    """The expert of one number."""

    medians: Tensor  # (C,) float64, NaN where a class has no values

    def predict(self, inputs: Inputs) -> Tensor:
        return self.medians[inputs.features[:, 0].long()]


def fit(
    codec: Codec,
    sides: Sides,
    *,
    config: ClassMedianConfig,
    seed: int,
    seconds: float | None = None,
    report: Report = ignored,
) -> Candidates:
    """The medians of all numbers, of training entities."""
    usual_amount = torch.zeros(len(codec.classes), dtype=torch.long)  # every amount of visible values is usual
    experts = {
        (slot, USUALLY_VISIBLE): WeightedExpert.unweighted(ClassMedian(medians))
        for slot, medians in class_medians(codec, sides.training).items()
    }

    report(1, 1)

    def refitted(group: ExpertGroup, seconds: float | None = None, report: Report = ignored) -> ExpertGroup:
        return group

    return Candidates(ExpertGroup(ClassFeature(), usual_amount, experts), refitted)


def class_medians(codec: Codec, tokens: Tokens) -> dict[int, Tensor]:
    """(C,) the medians of each number, by its slot."""
    found = {}
    for slot in tokens.slot[tokens.free].unique().tolist():
        if codec.slots[slot].kind == "number":
            known = tokens.free & (tokens.slot == slot)
            codes = tokens.codes["number"].gather(tokens.row[known])
            numbers = torch.tensor(decode_codes(codec, tokens.slot[known], codes), dtype=torch.float64)  # (n,)
            classes = tokens.classes[tokens.owner[known]]
            found[slot] = torch.stack([numbers[classes == name].nanmedian() for name in range(len(codec.classes))])
    return found


MEDIANS = {"medians": Spec(DOUBLE, ("classes",), may_be_nan=True)}


def write(group: ExpertGroup) -> tuple[Tensors, Mapping[SlotLevel, Tensors]]:
    return {"usual_amount": group.usual_amount}, {
        key: attributes(weighted.expert, MEDIANS) | attributes(weighted, WEIGHT)
        for key, weighted in group.experts.items()
    }


def read(codec: Codec, shared: Tensors, properties: Mapping[SlotLevel, dict[str, Tensor]]) -> ExpertGroup:
    experts = {}
    for key, tensors in properties.items():
        weight = take_weight(tensors)
        experts[key] = WeightedExpert(ClassMedian(**tensors), *weight)
    return ExpertGroup(ClassFeature(), shared["usual_amount"], experts)


CLASS_MEDIAN = ExpertKind(
    ClassMedianConfig,
    fit,
    Format(USUAL_AMOUNT, MEDIANS | WEIGHT, write, read),
    title="median of the class",
    doing="computing medians",
)
