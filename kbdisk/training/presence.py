"""The refit of the presence head: a logistic regression on the trained network's vectors.

In the loss values weigh twenty times as much as presence, and they decide when a run is at its best. With few entities
that is early, and presence is then hardly learnt: cars were given legs. So the few weights of the presence head are fitted
to the end on training entities: on their values, masked one by one, and on the properties that they lack, with nothing
masked, as in completion. The validation loss selects how far the weights may move; nothing else changes.

A property that is absent along with all others beneath its first key, as a height is with a whole size, is masked along
with them as often as that is so: else a width that is there would imply a height, and an absent width its absence.

T  tokens   q  queries   D  width   S  slots
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from kbdisk.data.dataset import Batch, Layout, Tokens
from kbdisk.experts.queries import chunks, draw_entities
from kbdisk.model.masking import shuffled
from kbdisk.model.network import DiSK
from kbdisk.model.optimizers import LBFGS

MAX_VALUES = 1 << 15  # values of the entities that it is fitted on, at most
VALIDATION_FACTOR = 0.25  # of as many validation values
MAX_MASKED = 8  # values of an entity that are masked, each alone
MAX_LACKING = 16  # properties of an entity's class that it lacks: fewer, where entities are so many that these are most
PENALTIES = (100.0, 10.0, 1.0, 0.1, 0.01)  # of the distance from the learnt weights: nats per half of a square
STEPS = 50  # of L-BFGS, from the strongest penalty to the weakest
SECONDS_PER_QUERY = 4e-5  # on a slow core


class PresenceExamples(NamedTuple):
    """Properties that are present or absent, with the vectors of their queries."""

    vectors: Tensor  # (q, D) float64, the network's last hidden layer
    prior: Tensor  # (q,) float64, the log odds where nothing else is known
    present: Tensor  # (q,) float64, 1 or 0
    weight: Tensor  # (q,) float64, the number of properties that it stands for

    def nats(self, head: nn.Linear) -> Tensor:
        """() -log p of all."""
        logits = head(self.vectors)[:, 0] + self.prior
        return F.binary_cross_entropy_with_logits(logits, self.present, self.weight, reduction="sum")


def refit(
    network: DiSK,
    tokens: Tokens,
    held_out: Tokens,
    seed: int,
    report: Callable[[int, int], None] | None = None,
    most: int = MAX_VALUES,
) -> bool:
    """Refit the presence head on `most` values; whether the validation loss improved, else the head is unchanged."""
    generator = Generator(tokens.slot.device).manual_seed(seed)
    sides = draw_entities(tokens, most, generator), draw_entities(held_out, int(VALIDATION_FACTOR * most), generator)
    lacking, together = _lacking(most, len(sides[0])), lacking_together(tokens)
    done, total = 0, sum(map(len, sides))
    examples: list[PresenceExamples] = []
    for side, entities in zip((tokens, held_out), sides, strict=True):
        of_chunks = []
        for chunk in chunks(side, entities) if len(entities) else ():
            of_chunks.append(
                _presence_examples(network, side.batch(chunk, lacking, generator), side.layout, together, generator)
            )
            done += len(chunk)
            if report is not None:
                report(done, total)
        examples += [PresenceExamples(*map(torch.cat, zip(*of_chunks, strict=True)))] if of_chunks else []
    if len(examples) < len(sides) or not bool((examples[0].present == 0).any()):  # nothing is absent
        return False
    return _select(network.presence, *examples)


def seconds(pass_of_one: float, tokens: Tokens, most: int) -> float:
    """Estimated seconds of a refit on `most` values, given the seconds of a forward pass of one entity."""
    size = max(len(tokens.slot) / max(len(tokens), 1), 1.0)
    entities = min(most / size, len(tokens))
    turns = min(size, MAX_MASKED)
    answers = turns + _lacking(most, int(entities))
    return (1 + VALIDATION_FACTOR) * entities * ((1 + turns) * pass_of_one + answers * SECONDS_PER_QUERY)


def _lacking(most: int, entities: int) -> int:
    """The number of lacking properties of each entity that are asked for."""
    return max(1, min(MAX_LACKING, most // max(entities, 1)))


def lacking_together(tokens: Tokens) -> Tensor:
    """(S,) of the entities that lack a property, the share that also lacks all others below its first key; 0 for evidence."""
    layout, count = tokens.layout, len(tokens.layout.fixed)
    sizes = tokens.classes.bincount(minlength=len(layout.offsets) - 1)  # (C,)
    having = tokens.slot[tokens.known].bincount(minlength=count)
    having_any = torch.zeros_like(having)  # (S,) entities that have a property of a block, by its first slot
    for part in tokens.parts():
        own = part.free
        blocks = (part.owner[own] * count + layout.blocks[part.slot[own]]).unique() % count
        having_any += blocks.bincount(minlength=count)
    any_of = having_any[layout.blocks]
    members = sizes.repeat_interleave(layout.offsets.diff())  # of the class of each own slot
    of_all = torch.zeros(count, dtype=torch.long, device=having.device).index_add_(0, layout.own, members)  # (S,)
    share = torch.zeros(count, device=having.device)
    share[layout.own] = ((of_all - any_of) / (of_all - having).clamp(min=1))[layout.own]
    return share


@torch.no_grad()
def _presence_examples(
    network: DiSK, batch: Batch, layout: Layout, together: Tensor, generator: Generator
) -> PresenceExamples:
    """The values of some entities, masked one by one, and the properties that they lack.

    `together` (S,) is the share of absent properties whose block is absent, too.
    """
    free = batch.known & ~batch.fixed
    place, size = shuffled(batch, free, generator)
    along = torch.rand(len(batch), generator=generator, device=free.device) < together[batch.slot]
    block = batch.entity * len(together) + layout.blocks[batch.slot]
    asked = size.clamp(max=MAX_MASKED)  # (B,)
    examples = []
    for turn in range(-1, int(asked.max())):
        hidden = free & (place == turn)
        masked = batch if turn < 0 else replace(batch, absent=torch.zeros_like(free))
        gone = hidden | free & torch.isin(block, block[hidden & along])
        visible = masked.seen(masked.known & ~gone & ~layout.places(masked, gone))
        queries, vectors = network.encode_asked_and_absent(masked, visible, hidden)
        absent, owner = masked.absent[queries], masked.entity[queries]
        weight = masked.rarity[queries].where(absent, (size / asked.clamp(min=1))[owner])
        prior = network.presence_prior[masked.slot[queries]]
        examples.append(PresenceExamples(*(part.double() for part in (vectors, prior, ~absent, weight))))
    return PresenceExamples(*map(torch.cat, zip(*examples, strict=True)))


def _select(head: nn.Linear, training: PresenceExamples, validation: PresenceExamples) -> bool:
    """Fit under each penalty and keep the weights with the lowest validation loss; whether these are new."""
    before = deepcopy(head).double()
    best, lowest = before, float(validation.nats(before).detach())
    fitted = before
    for penalty in PENALTIES:
        fitted = _fit(fitted, before, training, penalty)
        loss = float(validation.nats(fitted).detach())
        if loss < lowest:
            best, lowest = fitted, loss
    head.load_state_dict(best.state_dict())
    return best is not before


@torch.enable_grad()
def _fit(start: nn.Linear, before: nn.Linear, training: PresenceExamples, penalty: float) -> nn.Linear:
    """Fit the weights, with a squared penalty on their distance from those before."""
    head = deepcopy(start)
    weights, learnt = list(head.parameters()), [parameter.detach() for parameter in before.parameters()]
    solver = LBFGS(weights, max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        head.zero_grad()
        distance = torch.stack([(new - old).square().sum() for new, old in zip(weights, learnt, strict=True)]).sum()
        total = training.nats(head) + penalty / 2 * distance
        total.backward()
        return total.detach()

    solver.step(loss)  # type: ignore[no-untyped-call]
    return head
