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

DRAWN_ENTITIES = 16_384  # in all
COUNTED_AT_ONCE = 1 << 16  # values
MIN_VALUES_READ = 1 << 20  # that may be read in any run, however short
MAX_LENGTH_RATIO = 4  # of the values of an entity to the median: longer entities are not drawn
PRIOR_COUNT = 2.0  # added to the slope: labels that are rarer in a sample move less
MAX_STEP = 1.0  # of a bias
FULL_STEPS = 1  # after these each step counts less than the one before
EPSILON = 1e-9  # the least divisor
SEED = 7  # mixed with the run's seed


@dataclass(frozen=True)
class Biases:
    """The biases of all labels of a kind of leaf, column by column, and the frequency of each label in training."""

    kind: ClassVar[str]
    bias: Tensor  # (L,) a view of the network's biases
    column: Tensor  # (L,) the column of each label
    start: Tensor  # (S,) the first label of each slot; -1 where it has none here
    frequency: Tensor  # (L,) float64, in its column, in training

    @classmethod
    def counted(cls, bias: Tensor, size: Tensor, start: Tensor, tokens: Tokens) -> Self | None:
        """The biases of columns of `size` labels (C,), with the frequencies in training; None where no slot has labels."""
        if not bool((start >= 0).any()):
            return None
        column = torch.arange(len(size)).repeat_interleave(size).to(bias.device)
        biases = cls(bias.view(-1), column, start.to(bias.device), torch.zeros_like(column, dtype=torch.float64))
        count = biases._count(tokens)
        return replace(biases, frequency=count / biases.by_column(count).clamp(min=1)[column])

    @abstractmethod
    def shares(self, belief: Any) -> tuple[Tensor, Tensor]:
        """(q, V) float64, the probability that each label is drawn, and its derivative by the bias."""

    @abstractmethod
    def numbers(self, codes: Tensor) -> Tensor:
        """(n,) the label of each code within its column; -1 for none."""

    def by_column(self, labels: Tensor) -> Tensor:
        """(L,) -> (C,) the sums of columns."""
        columns = int(self.column[-1]) + 1
        return torch.zeros(columns, dtype=labels.dtype, device=labels.device).index_add_(0, self.column, labels)

    def _count(self, tokens: Tokens) -> Tensor:
        """(L,) the count of each label among the values that are drawn."""
        count = torch.zeros_like(self.frequency)
        for _, batch in batches(tokens, COUNTED_AT_ONCE):
            begin, end = batch.spans[self.kind]
            label, place = self.numbers(batch.values[self.kind]), self.start[batch.slot[begin:end]]
            is_counted = drawable(batch)[begin:end] & (label >= 0) & (place >= 0)
            count += (place + label)[is_counted].bincount(minlength=len(count))
        return count


class CategoryBiases(Biases):
    """The biases of the labels of categories."""

    kind = "category"

    @classmethod
    def of(cls, decoder: nn.Module | None, codec: Codec, tokens: Tokens) -> Self | None:
        """None where labels have no biases."""
        if not isinstance(decoder, CategoryDecoder) or not isinstance(decoder.scores, LearntScores):
            return None
        size, begin = (torch.from_numpy(numbers) for numbers in (decoder.scores.sizes, decoder.scores.starts))
        columns, own = (
            decoder.columns.column_of_slot.cpu(),
            torch.tensor([slot.kind == cls.kind for slot in codec.slots]),
        )
        start = torch.full((len(own),), -1)
        start[own] = begin[columns].where(~decoder.ordered.cpu()[columns], -1)
        return cls.counted(decoder.scores.bias, size, start, tokens)

    def shares(self, belief: Any) -> tuple[Tensor, Tensor]:
        """The probabilities without that of unknown labels, which are not drawn."""
        probs: Tensor = belief.probs.double()
        probs = probs / probs.sum(1, keepdim=True).clamp(min=EPSILON)
        return probs, probs * (1 - probs)

    def numbers(self, codes: Tensor) -> Tensor:
        """Codes are labels."""
        return codes


class AtomBiases(Biases):
    """The biases of the atoms of numbers; label 0 is every other number."""

    kind = "number"

    @classmethod
    def of(cls, decoder: nn.Module | None, codec: Codec, tokens: Tokens) -> Self | None:
        """None where no number has atoms with weights of its own."""
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
        """An atom is also drawn where the density rounds to it, which its bias does not change."""
        atoms = belief.atom_probabilities()
        rest, own = 1 - atoms.sum(1, keepdim=True), belief.shares.double().exp()
        slope = torch.cat([rest * (1 - own[:, :1]), own[:, 1:] * (1 - atoms)], 1)
        return torch.cat([rest, atoms], 1), slope

    def numbers(self, codes: Tensor) -> Tensor:
        """A code has the number of its atom, or -1."""
        return codes[:, 3].long() + 1


def biases(network: DiSK, codec: Codec, tokens: Tokens) -> list[Biases]:
    """The biases of a network whose frequencies in its training entities are known."""
    decoders = dict(network.kinds.decoders.items())
    of_kinds = (kind.of(decoders.get(kind.kind), codec, tokens) for kind in (CategoryBiases, AtomBiases))
    return [of_kind for of_kind in of_kinds if of_kind is not None]


class DrawnFrequencies:
    """Sums over drawn tokens, (L,) each: of the probabilities of labels, of their squares, and of their derivatives."""

    def __init__(self, biases: Biases) -> None:
        self.biases = biases
        self.mass, self.squared, self.slope = (torch.zeros_like(biases.frequency) for _ in range(3))

    def add(self, asked: Asked, slot: Tensor) -> None:
        """Add the beliefs about asked tokens; `slot` (T,) is the batch's."""
        shares, slope = self.biases.shares(asked.belief)
        start = self.biases.start[slot[asked.tokens]]  # (q,)
        for begin in start[start >= 0].unique().tolist():
            own = start == begin
            end = begin + shares.shape[1]
            for total, part in ((self.mass, shares), (self.squared, shares.square()), (self.slope, slope)):
                total[begin:end] += part[own].sum(0)[: len(total) - begin]

    def step(self) -> Tensor:
        """(L,) Newton's step of each bias towards the frequency of its label in training.

        A label that follows from values that were drawn before it is as frequent as these happened to be: it moves little.
        """
        own = self.biases
        rows, labels = (own.by_column(sums)[own.column] for sums in (self.mass, (self.mass > 0).double()))
        chance = (self.squared - self.mass.square() / rows.clamp(min=1)).clamp(min=0)  # the variance of the mass
        lacking = own.frequency * rows - self.mass
        # In a column of two labels both move, and either would be enough: Boehning's bound has it for any number.
        bound = 1 - 1 / labels.clamp(min=1)
        step: Tensor = bound * lacking / (self.slope + PRIOR_COUNT + chance / self.slope.clamp(min=EPSILON))
        return step.clamp(-MAX_STEP, MAX_STEP)


@torch.no_grad()
def match_label_frequencies(
    network: DiSK, codec: Codec, tokens: Tokens, seed: int, most: int, report: Callable[[int, int], None]
) -> None:
    """Move the biases of a network's labels until it draws them as often as training has them.

    At most `most` values are read. That bounds the time without a clock, so that the result is the same each time.
    """
    of_kinds = biases(network, codec, tokens) if len(tokens) else []
    if not of_kinds:
        return
    # One long list would make all entities slow.
    usual = (tokens.sizes <= MAX_LENGTH_RATIO * tokens.sizes.median()).nonzero()[:, 0]
    longest = max(int(tokens.sizes[usual].max()), 1)
    size = at_once(longest)
    turns = min(math.ceil(DRAWN_ENTITIES / size), max(most, MIN_VALUES_READ) // (size * longest * (longest + 1) // 2))
    generator = torch.Generator(tokens.slot.device).manual_seed(derive_seed(seed, SEED))
    for turn in range(1, turns + 1):
        drawn = usual[torch.randint(len(usual), (size,), generator=generator, device=usual.device)]
        frequencies = {of_kind.kind: DrawnFrequencies(of_kind) for of_kind in of_kinds}
        _draw(network, tokens, drawn, generator, frequencies)
        for of_kind in frequencies.values():
            of_kind.biases.bias.add_((of_kind.step() / max(turn - FULL_STEPS, 1)).to(of_kind.biases.bias))
        report(turn, turns)


def _draw(
    network: DiSK,
    tokens: Tokens,
    entities: Tensor,
    generator: torch.Generator,
    frequencies: Mapping[str, DrawnFrequencies],
) -> None:
    """Draw the values of some entities anew, as `sampling` does, with nothing given."""
    batch = tokens.batch(entities)
    batch = batch.only(drawable(batch))
    batch = replace(batch, known=torch.zeros_like(batch.known))

    def draw(beliefs: Beliefs) -> Mapping[str, Tensor]:
        for kind in frequencies.keys() & beliefs.kinds.keys():
            frequencies[kind].add(beliefs.kinds[kind], batch.slot)
        return beliefs.sample_within_training(generator)

    reveal(network, batch, order=tokens.layout.order, generator=generator, say=draw)
