"""Values of known entities, found again by what the network made of all else that was visible of them.

Asked for a property, the network makes a vector of what it sees. Entities of which it makes nearly the same have nearly
the same value, often the very same: so a belief gives some of its mass to the values of the nearest, and one in numbers
to what is around an answer that they help to make. How much, was learnt for each slot from what is held out
(kbdisk.experts.latent_knn_weights). Nobody's own value is recalled for him, and what was held out is not recalled for what was.

Slots have two shelves: one for entities of which as much is visible as usually is, one for those of which less is.

q asked rows of one kind   m of them of one slot   K nearest   R reaches   P kernels   W widths
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from kbdisk.data.batch import Batch
from kbdisk.experts.latent_knn_index import OWN, Shelf, wide
from kbdisk.leaves.base import Recalling
from kbdisk.leaves.number.around import WIDTHS, centred
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.network.beliefs import Asked, Beliefs, Memo
from kbdisk.network.disk import DiSK

ENOUGH, LESS = 0, 1  # which shelf: by how much is visible
Place = tuple[int, int]  # a slot, and which of its shelves


@dataclass(frozen=True)
class Memory:
    """What is remembered."""

    shelves: Mapping[Place, Shelf]
    enough: Tensor  # (C,) how much of an entity of each class is visible where that is as much as usual (`amount`)
    held: Tensor  # ascending, who was held out in training
    nearest: int

    def __len__(self) -> int:
        return sum(map(len, self.shelves.values()))

    def recall(self, told: Beliefs, batch: Batch, visible: Tensor) -> Beliefs:
        """Beliefs, given what is visible (T,), with what is remembered in them."""
        level = levels(batch, visible, self.enough)
        kinds = {kind: self._recalled(batch, kind, one, level) for kind, one in told.kinds.items()}
        return replace(told, kinds=kinds)

    def _recalled(self, batch: Batch, kind: str, asked: Asked, level: Tensor) -> Asked:
        entity, slots = batch.entity[asked.tokens], batch.slot[asked.tokens]
        known = [(rows, self.shelves[at]) for at, rows in by_place(slots, level[entity]) if at in self.shelves]
        if not known or not isinstance(asked.belief, Recalling):
            return asked
        who = batch.who[entity]
        held = torch.isin(who, self.held)
        n, K, kernels = len(slots), self.nearest, asked.belief.kernels
        numbers = isinstance(asked.belief, NumberBelief)
        shape = max(shelf.codes.shape[1:] for _, shelf in known)
        codes = batch.values[kind].new_zeros(n, K, *shape)
        mass = torch.zeros(n, kernels, K, dtype=torch.float64, device=slots.device)
        said, around = mass.new_zeros(n, OWN + K), mass.new_zeros(n, len(WIDTHS))
        said[:, :OWN] = 1 / OWN  # of slots of which nothing is remembered
        for rows, shelf in known:
            near = shelf.nearest(asked.vectors[rows], who[rows], held[rows], K)
            found = near.counts.shape[2]  # fewer where there are no more
            codes[rows, :found] = wide(near.codes, shape)
            mass[rows, :, :found] = shelf.believing(near)
            if numbers:
                said[rows, : OWN + found], around[rows] = shelf.saying(near), shelf.surrounding(near)
        belief = asked.belief.recalled(codes, mass, said)
        return replace(asked, belief=centred(belief, around) if isinstance(belief, NumberBelief) else belief)


class Remembering:
    """A network, and what it remembers: a model."""

    def __init__(self, network: DiSK, memory: Memory) -> None:
        self.network, self.memory = network, memory

    def __call__(self, batch: Batch, visible: Tensor, asked: Tensor, memo: Memo | None = None) -> Beliefs:
        """Beliefs about the asked tokens (T,), given the visible ones (T,) alone."""
        return self.memory.recall(self.network(batch, visible, asked, memo), batch, visible)


def levels(batch: Batch, visible: Tensor, enough: Tensor) -> Tensor:
    """(B,) ENOUGH or LESS, by how much of each entity is visible (T,)."""
    return (amount(batch.entity, batch.unit, visible & ~batch.fixed, batch.size) < enough[batch.classes]).long()


def amount(entity: Tensor, unit: Tensor, some: Tensor, size: int) -> Tensor:
    """(size,) how much of each entity is among some tokens (T,): a composite, whatever there is of it, counts once.

    So as much is visible where a composite is hidden as a whole as where one number is. Evidence is not to be among
    them, for the same reason: it goes with the link that it came over.
    """
    there = torch.zeros_like(some).index_fill(0, unit[some], True)
    return torch.zeros(size, dtype=torch.long, device=entity.device).index_add_(0, entity, there.long())


def by_place(slots: Tensor, level: Tensor) -> Iterator[tuple[Place, Tensor]]:
    """Rows, by their slots (q,) and their entities' levels (q,)."""
    place = 2 * slots + level
    order = place.argsort(stable=True)
    found, counts = place[order].unique_consecutive(return_counts=True)
    for one, rows in zip(found.tolist(), order.split(counts.tolist()), strict=True):
        yield (one // 2, one % 2), rows
