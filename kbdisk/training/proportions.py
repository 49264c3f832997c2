"""Labels, and numbers that come again and again, are drawn as often as training had them.

A network that has learnt rows by heart takes what is common too often for others: of one table 20 % of the rows were of
customers who had left, and of those that were drawn 18 %. So what has learnt to draw in one order draws once more,
entities with the properties of real ones, and the bias of each label moves by how much more or less often it was
believed than it occurs: Newton's steps, each by new entities, each counting less than those before it. Of a number the
labels are its atoms and all other values, where it has weights of its own.

L labels, of all columns   S slots   C columns
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from kbdisk.codec import Codec
from kbdisk.diffusion import reveal
from kbdisk.leaves.category import CategoryDecoder
from kbdisk.leaves.number.decoder import NumberDecoder
from kbdisk.leaves.scoring import LearntScores
from kbdisk.network.beliefs import Asked, Beliefs
from kbdisk.network.disk import DiSK
from kbdisk.randomness import mixed
from kbdisk.tokens import Tokens, batches
from kbdisk.training.looking import drawn

ENTITIES = 16_384  # that are drawn, in all
MOST, TOKENS = 1024, 1 << 14  # entities, and values of them, that are drawn at once
SURE = 2.0  # that count against moving: what is rarer among those drawn at once moves less
FAR = 1.0  # no step is longer
FULL = 1  # after how many further steps each begins to count less than the one before
SEED = 7  # what this draws by is mixed of that and the run's seed


@dataclass(frozen=True)
class Biases:
    """The biases of all labels of a kind of leaf, column by column, and how common each is in training."""

    kind: str
    bias: Tensor  # (L,) a view of the network's own
    column: Tensor  # (L,) whose each label is, from 0
    start: Tensor  # (S,) of the codec's slots: where the labels of each begin; -1 where it has none, or not here
    common: Tensor  # (L,) float64, of its column's values

    @classmethod
    def of(cls, network: DiSK, codec: Codec, tokens: Tokens) -> list[Biases]:
        """Those of a network, by what it was trained on."""
        found = [_labels(network, codec), _atoms(network, codec)]
        return [replace(one, common=one._shares(one._met(tokens))) for one in found if one is not None]

    def probs(self, belief: Any) -> Tensor:
        """(q, V) float64, how likely each label is to be drawn."""
        if self.kind == "number":
            shares: Tensor = belief.shares.double().exp()
            return shares
        probs: Tensor = belief.probs.double()
        return probs / probs.sum(1, keepdim=True)  # labels never met are not drawn

    def _numbers(self, codes: Tensor) -> Tensor:
        """(n,) which label of its column each code is; -1 for one never met."""
        return codes[:, 3].long() + 1 if self.kind == "number" else codes

    def _met(self, tokens: Tokens) -> Tensor:
        """(L,) how often each label is among what is drawn of entities."""
        count = torch.zeros_like(self.common)
        for _, batch in batches(tokens):
            begin, end = batch.spans[self.kind]
            label, place = self._numbers(batch.values[self.kind]), self.start[batch.slot[begin:end]]
            there = drawn(batch)[begin:end] & (label >= 0) & (place >= 0)
            count += (place + label)[there].bincount(minlength=len(count))
        return count

    def _shares(self, count: Tensor) -> Tensor:
        return count / self.by_column(count).clamp(min=1)[self.column]

    def by_column(self, labels: Tensor) -> Tensor:
        """(L,) -> (C,) their sums."""
        columns = int(self.column[-1]) + 1
        return torch.zeros(columns, dtype=labels.dtype, device=labels.device).index_add_(0, self.column, labels)


def _labels(network: DiSK, codec: Codec) -> Biases | None:
    """Those of categories; None where labels have no biases."""
    decoder = dict(network.kinds.decoders.items()).get("category")
    if not isinstance(decoder, CategoryDecoder) or not isinstance(decoder.scores, LearntScores):
        return None
    size, start = (torch.from_numpy(one) for one in (decoder.scores.sizes, decoder.scores.starts))
    own = [slot.kind == "category" for slot in codec.slots]
    where = torch.full((len(own),), -1)
    columns = decoder.columns.of.cpu()
    where[torch.tensor(own)] = start[columns].where(~decoder.ordered.cpu()[columns], -1)
    return _biases("category", decoder.scores.bias, size, where)


def _atoms(network: DiSK, codec: Codec) -> Biases | None:
    """Those of numbers that have atoms, and weights of their own for them; None where none has."""
    decoder = dict(network.kinds.decoders.items()).get("number")
    if not isinstance(decoder, NumberDecoder) or decoder.atoms.linear is None:
        return None
    bias = decoder.atoms.linear.bias  # (G, V) of each group
    assert bias is not None
    sharing = Counter(slot.group for slot in codec.slots if slot.kind == "number")
    groups, each = bias.shape
    alone = [slot.kind == "number" and sharing[slot.group] == 1 and len(slot.codec.atoms) > 0 for slot in codec.slots]
    where = torch.tensor([slot.group * each if own else -1 for slot, own in zip(codec.slots, alone, strict=True)])
    return _biases("number", bias, torch.full((groups,), each), where)


def _biases(kind: str, bias: Tensor, size: Tensor, start: Tensor) -> Biases | None:
    if not bool((start >= 0).any()):
        return None
    column = torch.arange(len(size)).repeat_interleave(size).to(bias.device)
    return Biases(kind, bias.view(-1), column, start.to(bias.device), torch.zeros_like(column, dtype=torch.float64))


class Believed:
    """How often each label was believed to be, (L,) each, and how surely."""

    def __init__(self, biases: Biases) -> None:
        self.biases = biases
        self.mass, self.unsure = torch.zeros_like(biases.common), torch.zeros_like(biases.common)

    def add(self, asked: Asked, slot: Tensor) -> None:
        """Take in what is believed of the asked tokens; `slot` (T,) is the batch's."""
        probs, start = self.biases.probs(asked.belief), self.biases.start[slot[asked.tokens]][:, None]
        place = start + torch.arange(probs.shape[1], device=probs.device)
        there = (probs > 0) & (start >= 0)
        for whole, part in ((self.mass, probs), (self.unsure, probs * (1 - probs))):
            whole.index_add_(0, place[there], part[there])

    def step(self) -> Tensor:
        """(L,) Newton's, by which each label's bias would move for it to be believed as often as it occurs."""
        biases = self.biases
        rows, labels = (biases.by_column(one)[biases.column] for one in (self.mass, (self.mass > 0).double()))
        # In a column of two labels both move, and either would be enough: Boehning's bound has it for any number.
        step: Tensor = (1 - 1 / labels.clamp(min=1)) * (biases.common * rows - self.mass) / (self.unsure + SURE)
        return step.clamp(-FAR, FAR)


@torch.no_grad()
def even(
    network: DiSK, codec: Codec, tokens: Tokens, seed: int, seconds: float, told: Callable[[int, int], None]
) -> None:
    """Move the biases of a network's labels until it draws them as often as training has them, for so long at most."""
    every = Biases.of(network, codec, tokens) if len(tokens) else []
    if not every:
        return
    begun = time.monotonic()
    size = max(1, min(MOST, TOKENS // max(int(tokens.sizes.max()), 1)))
    total = math.ceil(ENTITIES / size)
    generator = torch.Generator(tokens.slot.device).manual_seed(mixed(seed, SEED))
    for turn in range(1, total + 1):
        some = torch.randint(len(tokens), (size,), generator=generator, device=tokens.slot.device)
        believed = {one.kind: Believed(one) for one in every}
        _draw(network, tokens, some, generator, believed)
        for one in believed.values():
            one.biases.bias.add_((one.step() / max(turn - FULL, 1)).to(one.biases.bias))
        told(turn, total)
        if time.monotonic() - begun > seconds:
            return


def _draw(
    network: DiSK, tokens: Tokens, some: Tensor, generator: torch.Generator, believed: Mapping[str, Believed]
) -> None:
    """Draw the values of some entities anew, as `sampling` does."""
    batch = tokens.batch(some)
    batch = replace(batch, known=batch.known & ~drawn(batch))

    def say(beliefs: Beliefs) -> Mapping[str, Tensor]:
        for kind in believed.keys() & beliefs.kinds.keys():
            believed[kind].add(beliefs.kinds[kind], batch.slot)
        return beliefs.met(generator)

    reveal(network, batch, order=tokens.layout.order, generator=generator, say=say)
