"""Forests, and models that they guide: what networks believe of a number or a label, and what trees say of it, as one.

A forest is asked where as much of an entity is visible as is usual; how much it counts was learnt from what is held out
(kbdisk.forest.growing). Of a number it moves what is answered, and some of the belief is around that.

q asked tokens of one kind   m of one slot   K labels   W widths
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from kbdisk.batch import Batch
from kbdisk.diffusion import Model
from kbdisk.forest.columns import Columns
from kbdisk.forest.trees import Trees
from kbdisk.leaves.base import Recalling
from kbdisk.leaves.number.around import WIDTHS, centred
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.memory.memory import ENOUGH, by_place, levels
from kbdisk.network.beliefs import Asked, Beliefs, Memo


@dataclass(frozen=True)
class Grown:
    """The trees of one slot."""

    trees: Trees
    columns: Tensor  # (f,) which of all they see
    labels: Tensor  # (K,) the codes of what they tell apart; none: they tell a number
    share: Tensor  # () float64, of an answer or of the mass: what they are worth
    around: Tensor  # (W,) float64, of the mass of a belief in numbers that has their answer: for what is around that

    def tell(self, table: Tensor) -> Tensor:
        """(m, F) -> (m,) numbers, or (m, K) how likely each label is."""
        told = self.trees(table[:, self.columns])
        return told.softmax(1) if len(self.labels) else told[:, 0]


@dataclass(frozen=True)
class Forest:
    """All trees of a model."""

    columns: Columns
    enough: Tensor  # (C,) how many values of an entity of each class are visible where it is as many as usual
    slots: Mapping[int, Grown]

    def __len__(self) -> int:
        return len(self.slots)

    def join(self, told: Beliefs, batch: Batch, visible: Tensor) -> Beliefs:
        """Beliefs, given what is visible (T,), with what trees say in them."""
        level = levels(batch, visible, self.enough)
        table = self.columns.table(batch, visible)
        kinds = {kind: self._joined(one, batch, level, table) for kind, one in told.kinds.items()}
        return replace(told, kinds=kinds)

    def _joined(self, asked: Asked, batch: Batch, level: Tensor, table: Tensor) -> Asked:
        entity, belief = batch.entity[asked.tokens], asked.belief
        grown = [
            (rows, self.slots[slot], self.slots[slot].tell(table[entity[rows]]))
            for (slot, at), rows in by_place(batch.slot[asked.tokens], level[entity])
            if at == ENOUGH and slot in self.slots
        ]
        if grown and isinstance(belief, NumberBelief):
            answer = belief.expected().clone()
            around = answer.new_zeros(len(answer), len(WIDTHS))
            for rows, one, said in grown:
                answer[rows] += one.share * (said - answer[rows])
                around[rows] = one.around
            return replace(asked, belief=centred(belief.answering(answer), around))
        if grown and isinstance(belief, Recalling):
            most = max(len(one.labels) for _, one, _ in grown)
            codes = torch.zeros(len(entity), most, dtype=torch.long, device=entity.device)
            weights = torch.zeros(len(entity), 1, most, dtype=torch.float64, device=entity.device)
            for rows, one, said in grown:
                codes[rows, : len(one.labels)] = one.labels
                weights[rows, 0, : len(one.labels)] = one.share * said
            return replace(asked, belief=belief.recalled(codes, weights))
        return asked


class Guided:
    """A model, and trees that have a say: a model."""

    def __init__(self, model: Model, forest: Forest) -> None:
        self.model, self.forest = model, forest

    def __call__(self, batch: Batch, visible: Tensor, asked: Tensor, memo: Memo | None = None) -> Beliefs:
        """Beliefs about the asked tokens (T,), given the visible ones (T,) alone."""
        return self.forest.join(self.model(batch, visible, asked, memo), batch, visible)
