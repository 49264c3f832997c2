"""Known values with what is visible beside each: what an expert of one property learns from.

n values of one slot   F features   K labels
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor

from kbdisk.data.dataset import Tokens
from kbdisk.experts.base import SET, ExpertGroup, SlotLevel, WeightedExpert, by_slot_and_level
from kbdisk.experts.features import ONE_HOT_KINDS, OneHotFeatures
from kbdisk.experts.queries import Sides, draw_entities, questions_about, usual_amounts

MIN_LABEL_VALUES = 2  # values of a label, below which it is left out


@dataclass
class Examples:
    """Known values of one slot, on the CPU."""

    features: list[Tensor] = field(default_factory=list)  # (n, F) what was visible beside each
    codes: list[Tensor] = field(default_factory=list)  # (n, ...)
    entities: list[Tensor] = field(default_factory=list)  # (n,) the number of each value's entity

    def __len__(self) -> int:
        return sum(map(len, self.codes))


class OneHotExamples:
    """Examples with one-hot features: of the training entities, and once weights are fitted of all."""

    def __init__(
        self, sides: Sides, max_values: int, max_columns: int, seed: int, kinds: Collection[str] = ONE_HOT_KINDS
    ) -> None:
        self.sides, self.max_values, self.kinds = sides, max_values, kinds
        self.generator = Generator(sides.training.slot.device).manual_seed(seed)
        drawn = draw_entities(sides.training, max_values, self.generator)
        self.features = OneHotFeatures.fit(sides.training.batch(drawn), max_columns)
        # Every amount is usual: these experts predict where little is visible, too.
        self.usual_amount = torch.zeros_like(usual_amounts(sides.training))
        self.training = self._of(sides.training, drawn)

    def group(self, experts: Mapping[SlotLevel, WeightedExpert]) -> ExpertGroup:
        """Experts with these features."""
        return ExpertGroup(self.features, self.usual_amount, experts)

    def all(self) -> list[Mapping[int, Examples]]:
        """Those of training entities, with the reserved values, and of held-out ones."""
        complete, held_out = self.sides.complete, self.sides.held_out
        first = self.training if complete is None else self._of(complete, self._drawn(complete))
        return [first, self._of(held_out, self._drawn(held_out))]

    def _drawn(self, tokens: Tokens) -> Tensor:
        return draw_entities(tokens, self.max_values, self.generator)

    def _of(self, tokens: Tokens, entities: Tensor) -> Mapping[int, Examples]:
        """Every number and label of some entities, by its slot."""
        examples: dict[int, Examples] = defaultdict(Examples)
        for batch, hidden, level in questions_about(tokens, entities, self.usual_amount, 0, self.generator):
            table = self.features.table(batch, hidden.visible)
            for kind in batch.spans.keys() & self.kinds:
                start, end = batch.spans[kind]
                asked = hidden.asked[start:end].nonzero()[:, 0]
                entity, values = batch.entity[start + asked], batch.values[kind][asked]
                for (slot, _), rows in by_slot_and_level(batch.slot[start + asked], level[entity]):
                    features, codes, numbers = table[entity[rows]], values[rows], batch.who[entity[rows]]
                    if kind == SET:  # each member is a value
                        row, member = (codes >= 0).nonzero().unbind(1)
                        features, codes, numbers = features[row], codes[row, member], numbers[row]
                    examples[slot].features.append(features.cpu())
                    examples[slot].codes.append(codes.cpu())
                    examples[slot].entities.append(numbers.cpu())
        return examples


def commonest_labels(codes: Tensor, max_labels: int) -> Tensor:
    """(K,) ascending; without labels that are too rare."""
    labels, counts = codes[codes >= 0].unique(return_counts=True)
    commonest = counts.argsort(descending=True, stable=True)[:max_labels]
    kept: Tensor = labels[commonest[counts[commonest] >= MIN_LABEL_VALUES]].sort().values
    return kept


def folds_of(entities: Tensor, count: int, seed: int) -> Tensor:
    """(n,) the fold of each value: all values of an entity are in one."""
    numbers, index = entities.unique(return_inverse=True)
    order = torch.randperm(len(numbers), generator=Generator().manual_seed(seed))
    return (order % count)[index]
