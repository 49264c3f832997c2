"""Known values with what is visible beside each: what an expert of one property learns from.

n values of one slot   F features   K labels
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor

from kbdisk.data.dataset import Tokens
from kbdisk.experts.base import SET, by_slot_and_level
from kbdisk.experts.features import ONE_HOT_KINDS, OneHotFeatures
from kbdisk.experts.queries import questions_about

MIN_LABEL_VALUES = 2  # values of a label, below which it is not told from others


@dataclass
class Examples:
    """Known values of one slot, on the CPU."""

    features: list[Tensor] = field(default_factory=list)  # (n, F) what was visible beside each
    codes: list[Tensor] = field(default_factory=list)  # (n, ...)
    entities: list[Tensor] = field(default_factory=list)  # (n,) the number of each value's entity

    def __len__(self) -> int:
        return sum(map(len, self.codes))


def examples_of(
    tokens: Tokens, chosen: Tensor, enough: Tensor, columns: OneHotFeatures, generator: Generator
) -> Mapping[int, Examples]:
    """Every number and label of the chosen entities, by its slot."""
    examples: dict[int, Examples] = defaultdict(Examples)
    for batch, hidden, level in questions_about(tokens, chosen, enough, 0, generator):
        table = columns.table(batch, hidden.visible)
        for kind in batch.spans.keys() & ONE_HOT_KINDS:
            start, end = batch.spans[kind]
            rows_of_kind = hidden.asked[start:end].nonzero()[:, 0]
            entity, kind_codes = batch.entity[start + rows_of_kind], batch.values[kind][rows_of_kind]
            for (slot, _), rows in by_slot_and_level(batch.slot[start + rows_of_kind], level[entity]):
                features, codes, entities = table[entity[rows]], kind_codes[rows], batch.who[entity[rows]]
                if kind == SET:  # each member is a value
                    row, member = (codes >= 0).nonzero().unbind(1)
                    features, codes, entities = features[row], codes[row, member], entities[row]
                examples[slot].features.append(features.cpu())
                examples[slot].codes.append(codes.cpu())
                examples[slot].entities.append(entities.cpu())
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
