"""Tiny worlds, models and batches: `from toys import World, Table, Small, batch_of`.

A world is a joint distribution over a few categories; its table of conditionals is the model that knows it exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from kbdisk.data.dataset import Batch, plain_batch
from kbdisk.leaves.category import CategoryBelief
from kbdisk.model.beliefs import Asked, Beliefs


class World:
    """A random joint distribution over properties with so many labels each."""

    def __init__(self, sizes: Sequence[int], seed: int = 0, sharpness: float = 2.0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.sizes = list(sizes)
        self.states = torch.cartesian_prod(*map(torch.arange, sizes)).view(-1, len(sizes))  # (X, S)
        logits = sharpness * torch.randn(len(self.states), generator=generator, dtype=torch.double)
        self.probs = logits.softmax(0)  # (X,)

    @property
    def entropy(self) -> float:
        return float(torch.special.entr(self.probs).sum())

    def draw(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """(count, S)"""
        drawn = torch.rand(count, dtype=torch.double, generator=generator)
        return self.states[torch.searchsorted(self.probs.cumsum(0), drawn).clamp(max=len(self.probs) - 1)]

    def marginal(self, properties: Sequence[int]) -> Tensor:
        """(X,) of each state, the probability of what it has at these properties."""
        same = (self.states[:, None, list(properties)] == self.states[None, :, list(properties)]).all(-1)
        return same.double() @ self.probs

    def index(self, values: Tensor) -> Tensor:
        """(B,) which state each row (B, S) of values is."""
        strides = torch.tensor(self.sizes).flip(0).cumprod(0).roll(1)
        strides[0] = 1
        return (values * strides.flip(0)).sum(1)


def batch_of(values: Tensor, known: Tensor | None = None, has: Tensor | None = None) -> Batch:
    """Entities (B, S) of labels as tokens: all those that they have, of which some are known and the others asked."""
    known = torch.ones_like(values, dtype=torch.bool) if known is None else known
    has = torch.ones_like(known) if has is None else has
    slot, entity = has.T.nonzero(as_tuple=True)
    codes = values[entity, slot].where(known[entity, slot], 0)
    return plain_batch(
        torch.zeros(len(values), dtype=torch.long), entity, slot, known[entity, slot], {"category": codes}
    )


def dense(batch: Batch, visible: Tensor, slots: int) -> tuple[Tensor, Tensor]:
    """(B, S) twice: what is visible, and the labels there (0 elsewhere)."""
    shown, labels = torch.zeros(2, batch.size, slots, dtype=torch.long)
    seen = visible.nonzero()[:, 0]
    at = batch.entity[seen], batch.slot[seen]
    return shown.index_put(at, torch.ones_like(seen)).bool(), labels.index_put(at, batch.values["category"][seen])


def beliefs_of(batch: Batch, asked: Tensor, logits: Tensor) -> Beliefs:
    """What the logits (B, S, V) say of the asked tokens."""
    rows = asked.nonzero()[:, 0]
    belief = CategoryBelief(logits[batch.entity[rows], batch.slot[rows]])
    return Beliefs({"category": Asked(rows, 0, torch.zeros(len(rows), 1), belief)}, len(batch))


class Table:
    """The exact conditionals of a world, asked or not; counts its passes."""

    def __init__(self, world: World) -> None:
        self.world, self.passes = world, 0

    def __call__(self, batch: Batch, visible: Tensor, asked: Tensor, memo: dict | None = None) -> Beliefs:
        self.passes += 1
        states, sizes = self.world.states, self.world.sizes
        shown, labels = dense(batch, visible, len(sizes))
        fits = ((labels[:, None] == states) | ~shown[:, None]).all(-1)  # (B, X)
        mass = fits * self.world.probs
        columns = [mass @ nn.functional.one_hot(states[:, s], max(sizes)).double() for s in range(len(sizes))]
        return beliefs_of(batch, asked, torch.stack(columns, 1).log())


class Small(nn.Module):
    """A perceptron over the visible labels."""

    def __init__(self, sizes: Sequence[int], width: int = 64) -> None:
        super().__init__()
        self.sizes = list(sizes)
        known = len(sizes) * (max(sizes) + 1)
        self.layers = nn.Sequential(
            nn.Linear(known, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, known - len(sizes))
        )
        beyond = torch.tensor([[label >= size for label in range(max(sizes))] for size in sizes])
        self.register_buffer("beyond", beyond)

    def forward(self, batch: Batch, visible: Tensor, asked: Tensor, memo: dict | None = None) -> Beliefs:
        shown, labels = dense(batch, visible, len(self.sizes))
        read = nn.functional.one_hot((labels + 1) * shown, max(self.sizes) + 1).float()  # (B, S, V + 1)
        logits = self.layers(read.flatten(1)).unflatten(1, (len(self.sizes), -1))
        return beliefs_of(batch, asked, logits.masked_fill(self.beyond, -torch.inf))


class Wrong(Table):
    """Conditionals that contradict one another: each table entry multiplied by noise of its own set and label."""

    def __call__(self, batch: Batch, visible: Tensor, asked: Tensor, memo: dict | None = None) -> Beliefs:
        exact = super().__call__(batch, visible, asked).kinds["category"]
        shown, labels = dense(batch, visible, len(self.world.sizes))
        digits = 7 ** torch.arange(len(self.world.sizes))
        sets = ((shown * (labels + 1)) * digits).sum(1)[batch.entity[exact.rows]]  # which table
        noise = torch.sin(
            sets[:, None] * 3.7 + batch.slot[exact.rows, None] * 1.3 + torch.arange(max(self.world.sizes))
        )
        belief = CategoryBelief(exact.belief.logits + noise)
        return Beliefs({"category": Asked(exact.rows, 0, exact.vectors, belief)}, len(batch))
