"""Label frequencies: the biases of labels, and of atoms of numbers, are moved until drawing has training's frequencies.

A network that has overfitted rows draws common labels too rarely: of one table 20 % of the rows were of customers who had
left, and of those that were drawn 18 %. So a network that has learnt to draw in one order draws entities with the
properties of real ones, and the bias of each label moves by how far its believed frequency is from that in training:
Newton's steps, each by new entities, each counting less than those before it. The labels of a number are its atoms and all
other values, where it has weights of its own; density that is rounded to an atom counts with the atom. Sets, links,
ordered labels and labels embedded by their text are left as they are.

L  labels of all columns   S  slots   C  columns
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from kbdisk.data import Codec
from kbdisk.data.dataset import Tokens, batches
from kbdisk.leaves.category import CategoryDecoder
from kbdisk.leaves.embeddings import LearntScores
from kbdisk.leaves.number.decoder import NumberDecoder
from kbdisk.model.beliefs import Asked, Beliefs
from kbdisk.model.diffusion import at_once, reveal
from kbdisk.model.network import DiSK
from kbdisk.rng import derive_seed
from kbdisk.training.validation import drawable

ENTITIES = 16_384  # that are drawn, in all
CHUNK = 1 << 16  # values that are counted at once
MIN_READ = 1 << 20  # values that may be read on the way, of however short a run
MAX_LENGTH_RATIO = 4  # times as many values as half of the entities have at most: what is longer is not drawn
PRIOR_COUNT = 2.0  # that count against moving: what is rarer among those drawn at once moves less
MAX_STEP = 1.0  # no step is longer
FULL_STEPS = 1  # after how many further steps each begins to count less than the one before
EPSILON = 1e-9  # of what is divided by
SEED = 7  # what this draws by is mixed of that and the run's seed


@dataclass(frozen=True)
class Biases:
    """The biases of all labels of a kind of leaf, column by column, and how common each is in training."""

    kind: ClassVar[str]
    bias: Tensor  # (L,) a view of the network's own
    column: Tensor  # (L,) whose each label is, from 0
    start: Tensor  # (S,) of the codec's slots: where the labels of each begin; -1 where it has none, or not here
    common: Tensor  # (L,) float64, of its column's values

    @classmethod
    def counted(cls, bias: Tensor, size: Tensor, start: Tensor, tokens: Tokens) -> Self | None:
        """Those of columns of so many labels (C,), by what training has; None where no slot has any."""
        if not bool((start >= 0).any()):
            return None
        column = torch.arange(len(size)).repeat_interleave(size).to(bias.device)
        found = cls(bias.view(-1), column, start.to(bias.device), torch.zeros_like(column, dtype=torch.float64))
        count = found._met(tokens)
        return replace(found, common=count / found.by_column(count).clamp(min=1)[column])

    @abstractmethod
    def shares(self, belief: Any) -> tuple[Tensor, Tensor]:
        """(q, V) float64, how likely each label is to be drawn, and how fast that grows with its bias."""

    @abstractmethod
    def numbers(self, codes: Tensor) -> Tensor:
        """(n,) which label of its column each code is; -1 for one never met."""

    def by_column(self, labels: Tensor) -> Tensor:
        """(L,) -> (C,) their sums."""
        columns = int(self.column[-1]) + 1
        return torch.zeros(columns, dtype=labels.dtype, device=labels.device).index_add_(0, self.column, labels)

    def _met(self, tokens: Tokens) -> Tensor:
        """(L,) how often each label is among what is drawn of entities."""
        count = torch.zeros_like(self.common)
        for _, batch in batches(tokens, CHUNK):
            begin, end = batch.spans[self.kind]
            label, place = self.numbers(batch.values[self.kind]), self.start[batch.slot[begin:end]]
            there = drawable(batch)[begin:end] & (label >= 0) & (place >= 0)
            count += (place + label)[there].bincount(minlength=len(count))
        return count


class CategoryBiases(Biases):
    """Those of categories."""

    kind = "category"

    @classmethod
    def of(cls, decoder: nn.Module | None, codec: Codec, tokens: Tokens) -> Self | None:
        """None where labels have no biases."""
        if not isinstance(decoder, CategoryDecoder) or not isinstance(decoder.scores, LearntScores):
            return None
        size, begin = (torch.from_numpy(one) for one in (decoder.scores.sizes, decoder.scores.starts))
        columns, own = (
            decoder.columns.column_of_slot.cpu(),
            torch.tensor([slot.kind == cls.kind for slot in codec.slots]),
        )
        start = torch.full((len(own),), -1)
        start[own] = begin[columns].where(~decoder.ordered.cpu()[columns], -1)
        return cls.counted(decoder.scores.bias, size, start, tokens)

    def shares(self, belief: Any) -> tuple[Tensor, Tensor]:
        """What has never been met is not drawn."""
        probs: Tensor = belief.probs.double()
        probs = probs / probs.sum(1, keepdim=True).clamp(min=EPSILON)
        return probs, probs * (1 - probs)

    def numbers(self, codes: Tensor) -> Tensor:
        """They are numbered as they are."""
        return codes


class AtomBiases(Biases):
    """Those of numbers: label 0 is all that is no atom."""

    kind = "number"

    @classmethod
    def of(cls, decoder: nn.Module | None, codec: Codec, tokens: Tokens) -> Self | None:
        """None where no number has atoms, and weights of its own for them."""
        if not isinstance(decoder, NumberDecoder) or decoder.atoms.linear is None:
            return None
        bias = decoder.atoms.linear.bias  # (G, V) of each group
        assert bias is not None
        groups, each = bias.shape
        own = [slot.kind == cls.kind for slot in codec.slots]
        sharing = Counter(slot.group for slot, there in zip(codec.slots, own, strict=True) if there)
        alone = [
            there and sharing[slot.group] == 1 and slot.codec.atoms
            for slot, there in zip(codec.slots, own, strict=True)
        ]
        start = [slot.group * each if there else -1 for slot, there in zip(codec.slots, alone, strict=True)]
        return cls.counted(bias, torch.full((groups,), each), torch.tensor(start), tokens)

    def shares(self, belief: Any) -> tuple[Tensor, Tensor]:
        """An atom is also drawn where the curve is drawn within its step, which no bias of its own changes."""
        atoms = belief.atom_probabilities()
        rest, own = 1 - atoms.sum(1, keepdim=True), belief.shares.double().exp()
        slope = torch.cat([rest * (1 - own[:, :1]), own[:, 1:] * (1 - atoms)], 1)
        return torch.cat([rest, atoms], 1), slope

    def numbers(self, codes: Tensor) -> Tensor:
        """A code tells which atom it is, -1 where it is none."""
        return codes[:, 3].long() + 1


def biases(network: DiSK, codec: Codec, tokens: Tokens) -> list[Biases]:
    """All that a network has, by what it was trained on."""
    decoders = dict(network.kinds.decoders.items())
    every = (kind.of(decoders.get(kind.kind), codec, tokens) for kind in (CategoryBiases, AtomBiases))
    return [one for one in every if one is not None]


class Believed:
    """How often each label was believed to be drawn, (L,) each: in all, squared, and what a bias would change of it."""

    def __init__(self, biases: Biases) -> None:
        self.biases = biases
        self.mass, self.squared, self.slope = (torch.zeros_like(biases.common) for _ in range(3))

    def add(self, asked: Asked, slot: Tensor) -> None:
        """Take in what is believed of the asked tokens; `slot` (T,) is the batch's."""
        shares, slope = self.biases.shares(asked.belief)
        start = self.biases.start[slot[asked.tokens]]  # (q,)
        for begin in start[start >= 0].unique().tolist():
            own = start == begin
            end = begin + shares.shape[1]
            for whole, part in ((self.mass, shares), (self.squared, shares.square()), (self.slope, slope)):
                whole[begin:end] += part[own].sum(0)[: len(whole) - begin]

    def step(self) -> Tensor:
        """(L,) Newton's, by which each label's bias would move for it to be believed as often as it occurs.

        What is told by what was drawn before it is as often as that happened to be: such a label moves by little.
        """
        own = self.biases
        rows, labels = (own.by_column(one)[own.column] for one in (self.mass, (self.mass > 0).double()))
        chance = (self.squared - self.mass.square() / rows.clamp(min=1)).clamp(min=0)  # the variance of the mass
        lacking = own.common * rows - self.mass
        # In a column of two labels both move, and either would be enough: Boehning's bound has it for any number.
        bound = 1 - 1 / labels.clamp(min=1)
        step: Tensor = bound * lacking / (self.slope + PRIOR_COUNT + chance / self.slope.clamp(min=EPSILON))
        return step.clamp(-MAX_STEP, MAX_STEP)


@torch.no_grad()
def match_label_frequencies(
    network: DiSK, codec: Codec, tokens: Tokens, seed: int, most: int, told: Callable[[int, int], None]
) -> None:
    """Move the biases of a network's labels until it draws them as often as training has them.

    No more than so many values are read for it: how long that takes is no matter of the clock, so it is the same again.
    """
    every = biases(network, codec, tokens) if len(tokens) else []
    if not every:
        return
    usual = (tokens.sizes <= MAX_LENGTH_RATIO * tokens.sizes.median()).nonzero()[
        :, 0
    ]  # one long list would make all of them slow
    longest = max(int(tokens.sizes[usual].max()), 1)
    size = at_once(longest)
    turns = min(math.ceil(ENTITIES / size), max(most, MIN_READ) // (size * longest * (longest + 1) // 2))
    generator = torch.Generator(tokens.slot.device).manual_seed(derive_seed(seed, SEED))
    for turn in range(1, turns + 1):
        some = usual[torch.randint(len(usual), (size,), generator=generator, device=usual.device)]
        believed = {one.kind: Believed(one) for one in every}
        _draw(network, tokens, some, generator, believed)
        for one in believed.values():
            one.biases.bias.add_((one.step() / max(turn - FULL_STEPS, 1)).to(one.biases.bias))
        told(turn, turns)


def _draw(
    network: DiSK, tokens: Tokens, some: Tensor, generator: torch.Generator, believed: Mapping[str, Believed]
) -> None:
    """Draw the values of some entities anew, as `sampling` does: with nothing else to go by."""
    batch = tokens.batch(some)
    batch = batch.only(drawable(batch))
    batch = replace(batch, known=torch.zeros_like(batch.known))

    def say(beliefs: Beliefs) -> Mapping[str, Tensor]:
        for kind in believed.keys() & beliefs.kinds.keys():
            believed[kind].add(beliefs.kinds[kind], batch.slot)
        return beliefs.met(generator)

    reveal(network, batch, order=tokens.layout.order, generator=generator, say=say)
