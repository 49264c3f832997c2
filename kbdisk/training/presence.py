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
PENALTIES = (
    100.0,
    10.0,
    1.0,
    0.1,
    0.01,
)  # what it costs to go from what the network had learnt, in nats of half a square
STEPS = 50  # of L-BFGS, from the nearest on
SECONDS_PER_QUERY = 4e-5  # seconds of a slow core for each answer that it is learnt by


class PresenceExamples(NamedTuple):
    """Properties that are present or absent, with the vectors of their queries."""

    vectors: Tensor  # (q, D) float64, what the network makes of the rest
    usual: Tensor  # (q,) float64, the log odds that it has where nothing else is known
    there: Tensor  # (q,) float64, 1 or 0
    weight: Tensor  # (q,) float64, for how many it stands

    def nats(self, head: nn.Linear) -> Tensor:
        """() -log p of all."""
        logits = head(self.vectors)[:, 0] + self.usual
        return F.binary_cross_entropy_with_logits(logits, self.there, self.weight, reduction="sum")


def refit(
    network: DiSK,
    tokens: Tokens,
    held_out: Tokens,
    seed: int,
    told: Callable[[int, int], None] | None = None,
    most: int = MAX_VALUES,
) -> bool:
    """Refit the presence head on `most` values; whether the validation loss improved, else the head is unchanged."""
    generator = Generator(tokens.slot.device).manual_seed(seed)
    sides = draw_entities(tokens, most, generator), draw_entities(held_out, int(VALIDATION_FACTOR * most), generator)
    lacking, together = _lacking(most, len(sides[0])), lacking_together(tokens)
    done, total = 0, sum(map(len, sides))
    found: list[PresenceExamples] = []
    for side, chosen in zip((tokens, held_out), sides, strict=True):
        several = []
        for part in chunks(side, chosen) if len(chosen) else ():
            several.append(
                _presence_examples(network, side.batch(part, lacking, generator), side.layout, together, generator)
            )
            done += len(part)
            if told is not None:
                told(done, total)
        found += [PresenceExamples(*map(torch.cat, zip(*several, strict=True)))] if several else []
    if len(found) < len(sides) or not bool((found[0].there == 0).any()):  # all that there is is recorded
        return False
    return _select(network.presence, *found)


def seconds(pass_of_one: float, tokens: Tokens, most: int) -> float:
    """Estimated seconds of a refit on `most` values, given the seconds of a forward pass of one entity."""
    size = max(len(tokens.slot) / max(len(tokens), 1), 1.0)
    entities = min(most / size, len(tokens))
    turns = min(size, MAX_MASKED)
    answers = turns + _lacking(most, int(entities))
    return (1 + VALIDATION_FACTOR) * entities * ((1 + turns) * pass_of_one + answers * SECONDS_PER_QUERY)


def _lacking(most: int, entities: int) -> int:
    """How many properties that each of so many entities lacks are asked for."""
    return max(1, min(MAX_LACKING, most // max(entities, 1)))


def lacking_together(tokens: Tokens) -> Tensor:
    """(S,) of the entities that lack a property, the share that lacks all beneath its first key, too; 0 of evidence."""
    layout, count = tokens.layout, len(tokens.layout.fixed)
    known, own = tokens.known, tokens.free
    sizes = tokens.classes.bincount(minlength=len(layout.offsets) - 1)  # (C,)
    entity = tokens.owner
    having = tokens.slot[known].bincount(minlength=count)
    blocks = (entity[own] * count + layout.blocks[tokens.slot[own]]).unique() % count
    any_of = blocks.bincount(minlength=count)[layout.blocks]
    members = sizes.repeat_interleave(layout.offsets.diff())  # of the class of each own slot
    of_all = torch.zeros(count, dtype=torch.long, device=known.device).index_add_(0, layout.own, members)  # (S,)
    share = torch.zeros(count, device=known.device)
    share[layout.own] = ((of_all - any_of) / (of_all - having).clamp(min=1))[layout.own]
    return share


@torch.no_grad()
def _presence_examples(
    network: DiSK, batch: Batch, layout: Layout, together: Tensor, generator: Generator
) -> PresenceExamples:
    """What some entities have, hidden one by one, and what they lack; `together` (S,) tells how often with its block."""
    free = batch.known & ~batch.fixed
    place, size = shuffled(batch, free, generator)
    along = torch.rand(len(batch), generator=generator, device=free.device) < together[batch.slot]
    block = batch.entity * len(together) + layout.blocks[batch.slot]
    asked = size.clamp(max=MAX_MASKED)  # (B,)
    several = []
    for turn in range(-1, int(asked.max())):
        hidden = free & (place == turn)
        one = batch if turn < 0 else replace(batch, absent=torch.zeros_like(free))
        gone = hidden | free & torch.isin(block, block[hidden & along])
        visible = one.seen(one.known & ~gone & ~layout.places(one, gone))
        queries, vectors = network.queried(one, visible, hidden)
        absent, owner = one.absent[queries], one.entity[queries]
        weight = one.rarity[queries].where(absent, (size / asked.clamp(min=1))[owner])
        usual = network.usual[one.slot[queries]]
        several.append(PresenceExamples(*(each.double() for each in (vectors, usual, ~absent, weight))))
    return PresenceExamples(*map(torch.cat, zip(*several, strict=True)))


def _select(head: nn.Linear, learnt: PresenceExamples, judging: PresenceExamples) -> bool:
    """Fit under each penalty and keep the weights with the lowest validation loss; whether these are new."""
    before = deepcopy(head).double()
    best, least = before, float(judging.nats(before).detach())
    one = before
    for near in PENALTIES:
        one = _fit(one, before, learnt, near)
        cost = float(judging.nats(one).detach())
        if cost < least:
            best, least = one, cost
    head.load_state_dict(best.state_dict())
    return best is not before


@torch.enable_grad()
def _fit(start: nn.Linear, before: nn.Linear, learnt: PresenceExamples, near: float) -> nn.Linear:
    """Fit the weights, with a squared penalty `near` on their distance from those before."""
    head = deepcopy(start)
    ours, theirs = list(head.parameters()), [one.detach() for one in before.parameters()]
    solver = LBFGS(ours, max_iter=STEPS, line_search_fn="strong_wolfe")

    def cost() -> Tensor:
        head.zero_grad()
        far = torch.stack([(one - other).square().sum() for one, other in zip(ours, theirs, strict=True)]).sum()
        total = learnt.nats(head) + near / 2 * far
        total.backward()
        return total.detach()

    solver.step(cost)  # type: ignore[no-untyped-call]
    return head
