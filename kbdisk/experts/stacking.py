"""What experts are worth beside a model: by what both said of held-out values.

Places with few of them go by what all of their kind have in common: numbers, or labels, with as much visible.

Every value is hidden alone once, every composite as a whole, and in some rounds many at once, as it is when a model is
asked.

n values of one place   W widths
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Generator, Tensor

from kbdisk.data.dataset import Tokens
from kbdisk.diffusion import Model
from kbdisk.experts.base import SET, Guide, Labels, Said, Seen, spoken
from kbdisk.experts.latent_knn import Place, by_place
from kbdisk.experts.queries import JUDGED, Question, parts, questions, some
from kbdisk.experts.weights import SURE, chances, each_least, each_masses
from kbdisk.leaves.base import Belief, Recalling
from kbdisk.leaves.number.around import WIDTHS, log_masses
from kbdisk.leaves.number.belief import NumberBelief

FEWER = 128  # entities that are asked for at once: what can be stopped after
FEW = 50  # held-out values of all places of a kind: by fewer nobody is judged, nor kept
FEW_UNPROVEN = 20  # the same where the weights of experts need not be significant
WORTH = 0.02  # of an answer, or of the mass: what experts are worth at least, or they are not kept
PRIOR = 20.0  # held-out values of a place, as many as what all of its kind have in common counts
TINY = 1e-30  # of a chance, whose log is taken


@dataclass
class Heard:
    """Held-out values of one place, and what was said of them by the model and by the expert."""

    logs: list[Tensor] = field(default_factory=list)  # (n, 2) log p of the truth by both; by the model alone of numbers
    said: list[Tensor] = field(default_factory=list)  # (n, 2) numbers
    codes: list[Tensor] = field(default_factory=list)  # (n, ...)
    whose: list[Tensor] = field(default_factory=list)  # (n,)
    belief: NumberBelief | None = None  # about the first of them

    def __len__(self) -> int:
        return sum(map(len, self.codes))

    def take(self, kind: str, codes: Tensor, whose: Tensor, belief: Belief, said: Said) -> None:
        """Some more of them; none of a belief that no expert can join."""
        logs = belief.log_prob(codes).double()[:, None]
        if isinstance(belief, NumberBelief):
            assert not isinstance(said, Labels)
            self.said.append(torch.stack([belief.expected(), said], 1))
            self.belief = self.belief or belief
        elif kind == SET and isinstance(said, Labels):
            theirs: Any = belief
            logs = torch.cat([logs, theirs.weighted(said.codes, said.mass).log_prob(codes).double()[:, None]], 1)
        elif isinstance(belief, Recalling) and isinstance(said, Labels):
            chance = (said.mass * (codes[:, None] == said.codes)).sum(1, keepdim=True)
            logs = torch.cat([logs, chance.clamp(min=TINY).log()], 1)
        else:
            return
        self.logs.append(logs)
        self.codes.append(codes)
        self.whose.append(whose)

    @property
    def wrong(self) -> Tensor:
        """(n, 2) how far off numbers were, on the scale of their property."""
        belief = self._belief
        truth = belief.numbers(torch.cat(self.codes)[:, None])
        return self._scaled - belief.tables.scaled(belief.slot, truth)

    @property
    def _scaled(self) -> Tensor:
        return self._belief.tables.scaled(self._belief.slot, torch.cat(self.said))

    def around(self, shares: Tensor) -> Tensor:
        """(n, 1 + W) the chances of numbers by the model, and around what is answered by these shares."""
        belief = self._belief
        answer = belief.tables.unscaled(belief.slot, (self._scaled @ shares)[:, None])[:, 0]
        near = log_masses(belief.answering(answer), torch.cat(self.codes)).double()
        return chances(torch.cat([torch.cat(self.logs), near], 1))

    @property
    def _belief(self) -> NumberBelief:
        """One belief, as often as there are values: it is only asked for what stands in the tables of its slot."""
        assert self.belief is not None
        return self.belief.pick(torch.zeros(len(self), dtype=torch.long, device=self.codes[0].device))


def weighed(heard: Mapping[Place, Heard], sure: float = SURE) -> dict[Place, tuple[Tensor, Tensor]]:
    """For places that are alike: the share of each expert, and (W,) what is around answers."""
    if sum(map(len, heard.values())) < (FEW if sure > 0 else FEW_UNPROVEN):
        return {}
    whose = {place: torch.cat(one.whose) for place, one in heard.items()}
    numbers = {place: one for place, one in heard.items() if one.belief is not None}
    shares = each_least({place: one.wrong for place, one in numbers.items()}, PRIOR, whose, sure=sure)
    around = each_masses({place: one.around(shares[place]) for place, one in numbers.items()}, PRIOR, whose, sure)
    labels = {place: chances(torch.cat(one.logs)) for place, one in heard.items() if one.belief is None}
    found = {place: (own[1], around[place][1:]) for place, own in shares.items()}
    masses = each_masses(labels, PRIOR, whose, sure)
    return found | {place: (own[1], own.new_zeros(len(WIDTHS))) for place, own in masses.items()}


def judged(
    guide: Guide, model: Model, held_out: Tokens, rounds: int, generator: Generator, seconds: float | None = None
) -> Guide | None:
    """The experts that are worth it beside a model, with what they are worth; None if none are.

    Once the time is used, what was heard by then has to do.
    """
    return weighed_by(guide, model, _asked(held_out, guide.enough, rounds, generator, seconds))


@torch.no_grad()
def weighed_by(guide: Guide, model: Model, asked: Iterable[Question], sure: float = SURE) -> Guide | None:
    """The experts with their weights, by what they and a model say to some questions; None if none has a weight.

    An expert has a weight only where it gains more than `sure` standard errors on the other half of the entities.
    """
    if not guide.places:
        return None
    heard: dict[Place, Heard] = defaultdict(Heard)
    for question in asked:
        _hear(guide, model, question, heard)
    kept = {}
    groups: dict[tuple[int, bool], dict[Place, Heard]] = defaultdict(dict)
    for place, own in heard.items():
        if len(own):
            groups[place[1], own.belief is None][place] = own
    for group in groups.values():
        for place, (share, around) in weighed(group, sure).items():
            if share > WORTH:
                kept[place] = replace(guide.places[place], share=share, around=around)
    return replace(guide, places=dict(sorted(kept.items()))) if kept else None


def _hear(guide: Guide, model: Model, question: Question, heard: dict[Place, Heard]) -> None:
    """What the model and the experts say to one question."""
    batch, hidden, level = question
    table = guide.sight.table(batch, hidden.visible)
    for kind, one in model(batch, hidden.visible, hidden.asked).kinds.items():
        entity = batch.entity[one.tokens]
        for place, rows in by_place(batch.slot[one.tokens], level[entity]):
            if place not in guide.places:
                continue
            whose = entity[rows]
            said, there = spoken(guide.places[place].expert.tell(Seen(table[whose], batch.who[whose])), rows)
            if len(there):
                codes, who = batch.values[kind][one.rows[there]], batch.who[entity[there]]
                heard[place].take(kind, codes, who, one.belief.pick(there), said)


def _asked(
    held_out: Tokens, enough: Tensor, rounds: int, generator: Generator, seconds: float | None
) -> Iterator[Question]:
    """What is asked of held-out entities, some at a time, in any order: there may not be time for all."""
    begun = time.monotonic()
    every = [few for part in parts(held_out, some(held_out, JUDGED, generator)) for few in part.split(FEWER)]
    for place in torch.randperm(len(every), generator=generator, device=generator.device).tolist():
        for question in questions(held_out.batch(every[place]), held_out.layout, enough, rounds, generator):
            yield question
            if seconds is not None and time.monotonic() - begun > seconds:
                return
