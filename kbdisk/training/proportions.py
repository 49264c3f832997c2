"""Labels are drawn as often as training had them.

A network that has learnt rows by heart takes the commoner label too often for others: of one table 20 % of the rows were
of customers who had left, and of those that were drawn 18 %. So what has learnt to draw in one order draws once more,
entities with the properties of real ones, and the bias of each label moves by how much more or less often it was
believed than it occurs: Newton's steps, each by new entities, each counting less than those before it.

L labels, of all columns
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from kbdisk.diffusion import reveal
from kbdisk.leaves.category import CategoryDecoder
from kbdisk.leaves.scoring import LearntScores
from kbdisk.network.beliefs import Beliefs
from kbdisk.network.disk import DiSK
from kbdisk.randomness import mixed
from kbdisk.tokens import Tokens, batches
from kbdisk.training.looking import drawn

KIND = "category"
ENTITIES = 8192  # that are drawn, in all
MOST, TOKENS = 1024, 1 << 14  # entities, and values of them, that are drawn at once
SURE = 10.0  # that count against moving: what is rarer among those drawn at once hardly moves a label
FAR = 1.0  # no step is longer
SEED = 7  # what this draws by is mixed of that and the run's seed


@dataclass(frozen=True)
class Biases:
    """The biases of all labels, column by column, and how common each label is in training."""

    decoder: CategoryDecoder
    scores: LearntScores
    first: int  # slot of the kind
    column: Tensor  # (L,) whose each label is
    start: Tensor  # (C,) where each column's labels begin
    common: Tensor  # (L,) float64, of its column's values

    @classmethod
    def of(cls, network: DiSK, tokens: Tokens) -> Biases | None:
        """Those of a network, by what it was trained on; None where labels have no biases."""
        if KIND not in network.kinds.decoders:
            return None
        decoder = network.kinds.decoders[KIND]
        assert isinstance(decoder, CategoryDecoder)
        if not isinstance(decoder.scores, LearntScores) or not len(decoder.scores.bias):
            return None
        size, start = (
            torch.from_numpy(one).to(tokens.slot.device) for one in (decoder.scores.sizes, decoder.scores.starts)
        )
        column = torch.arange(len(size), device=size.device).repeat_interleave(size)
        found = cls(
            decoder,
            decoder.scores,
            network.kinds.first[KIND],
            column,
            start,
            torch.zeros_like(column, dtype=torch.float64),
        )
        return replace(found, common=found._shares(found._met(tokens)))

    def places(self, slot: Tensor) -> Tensor:
        """(q,) slots -> where the labels of each begin; -1 where it has none of its own here."""
        own = self.decoder.columns(slot - self.first)
        return self.start[own].where(~self.decoder.ordered[own], -1)

    def _met(self, tokens: Tokens) -> Tensor:
        """(L,) how often each label is among what is drawn of entities."""
        count = torch.zeros_like(self.common)
        for _, batch in batches(tokens):
            begin, end = batch.spans[KIND]
            codes, place = batch.values[KIND], self.places(batch.slot[begin:end])
            there = drawn(batch)[begin:end] & (codes >= 0) & (place >= 0)
            count += (place + codes)[there].bincount(minlength=len(count))
        return count

    def _shares(self, count: Tensor) -> Tensor:
        whole = torch.zeros(len(self.start), dtype=count.dtype, device=count.device).index_add_(0, self.column, count)
        return count / whole.clamp(min=1)[self.column]


class Believed:
    """How often each label was believed to be, (L,) each, and how surely."""

    def __init__(self, biases: Biases) -> None:
        self.biases = biases
        self.mass, self.unsure = torch.zeros_like(biases.common), torch.zeros_like(biases.common)

    def add(self, beliefs: Beliefs, slot: Tensor) -> None:
        """Take in what is believed of the asked tokens; `slot` (T,) is the batch's."""
        asked = beliefs.kinds.get(KIND)
        if asked is None:
            return
        belief: Any = asked.belief  # a CategoryBelief, or several as one
        probs = belief.probs.double()  # (q, V)
        probs = probs / probs.sum(1, keepdim=True)  # labels never met are not drawn
        place = self.biases.places(slot[asked.tokens])[:, None] + torch.arange(probs.shape[1], device=probs.device)
        there = (probs > 0) & (self.biases.places(slot[asked.tokens]) >= 0)[:, None]
        for whole, part in ((self.mass, probs), (self.unsure, probs * (1 - probs))):
            whole.index_add_(0, place[there], part[there])

    def step(self) -> Tensor:
        """(L,) Newton's, by which each label's bias would move for it to be believed as often as it occurs."""
        biases = self.biases
        rows, size = (
            torch.zeros(len(biases.start), dtype=torch.float64, device=self.mass.device).index_add_(
                0, biases.column, one
            )
            for one in (self.mass, torch.ones_like(self.mass))
        )
        lacking = biases.common * rows[biases.column] - self.mass
        # In a column of two labels both move, and either would be enough: Boehning's bound has it for any number.
        step: Tensor = (1 - 1 / size[biases.column]) * lacking / (self.unsure + SURE)
        return step.clamp(-FAR, FAR)


@torch.no_grad()
def even(network: DiSK, tokens: Tokens, seed: int, seconds: float, told: Callable[[int, int], None]) -> None:
    """Move the biases of a network's labels until it draws them as often as training has them, for so long at most."""
    biases = Biases.of(network, tokens) if len(tokens) else None
    if biases is None:
        return
    begun = time.monotonic()
    size = max(1, min(MOST, TOKENS // max(int(tokens.sizes.max()), 1)))
    total = math.ceil(ENTITIES / size)
    generator = torch.Generator(tokens.slot.device).manual_seed(mixed(seed, SEED))
    for turn in range(1, total + 1):
        some = torch.randint(len(tokens), (size,), generator=generator, device=tokens.slot.device)
        believed = Believed(biases)
        _draw(network, tokens, some, generator, believed)
        biases.scores.bias.add_((believed.step() / turn).to(biases.scores.bias))
        told(turn, total)
        if time.monotonic() - begun > seconds:
            return


def _draw(network: DiSK, tokens: Tokens, some: Tensor, generator: torch.Generator, believed: Believed) -> None:
    """Draw the values of some entities anew, as `sampling` does."""
    batch = tokens.batch(some)
    batch = replace(batch, known=batch.known & ~drawn(batch))

    def say(beliefs: Beliefs) -> Mapping[str, Tensor]:
        believed.add(beliefs, batch.slot)
        return beliefs.met(generator)

    reveal(network, batch, order=tokens.layout.order, generator=generator, say=say)
