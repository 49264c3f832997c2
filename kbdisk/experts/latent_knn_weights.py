"""What remembered values are worth: by what several experts said of held-out ones.

A held-out value is believed by the network, and by its neighbours within each reach by each kernel; a number is answered
by the network, by means of its neighbours and by surfaces through them. Slots with few held-out values go by what all
of their kind have in common.

s steps   n hidden values of one slot   E experts, the network first
K neighbours   R reaches   P kernels   G surfaces   W widths
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from kbdisk.experts.config import LatentKNNConfig
from kbdisk.experts.latent_knn import Place
from kbdisk.experts.latent_knn_index import OWN, Shelf, Values
from kbdisk.experts.weights import chances, each_least, each_masses
from kbdisk.leaves.base import Recalling
from kbdisk.leaves.number.around import log_masses
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.leaves.text.belief import TextBelief
from kbdisk.leaves.words import PAD

FEW = 50  # held-out values of a kind: of fewer nothing is learnt
WORTH = 0.02  # of the mass, or of an answer: what neighbours are worth at least, or a slot is not remembered
TINY = 1e-30  # of a mass, whose log is taken


@dataclass
class Heard:
    """Held-out values of one shelf, and what the network said of them."""

    values: list[Values] = field(default_factory=list)
    logs: list[Tensor] = field(default_factory=list)  # (s,) log p of each step in which they were told
    whose: list[Tensor] = field(default_factory=list)  # (s,) whose value each step tells
    answers: list[Tensor] = field(default_factory=list)  # (n, OWN) of numbers
    belief: Recalling | None = None  # about the first of them

    def take(self, values: Values, belief: Recalling) -> None:
        """Some more of them."""
        self.values.append(values)
        self.logs.append(belief.steps(values.codes))
        steps = (values.codes != PAD).sum(1) if isinstance(belief, TextBelief) else 1
        self.whose.append(values.who.repeat_interleave(steps))
        if isinstance(belief, NumberBelief):
            self.answers.append(belief.answers())
        self.belief = self.belief or belief


@dataclass(frozen=True)
class Experts:
    """What each expert said of the held-out values of one shelf."""

    logs: Tensor  # (s, E) float64, the log of the chance that each gave to each step, the network first
    wrong: Tensor | None = None  # (n, OWN + R + G) how far off each was, of numbers
    truth: Tensor | None = None  # (n,) the numbers
    belief: NumberBelief | None = None  # about one of them, again and again

    def around(self, values: Values, said: Tensor, mass: Tensor) -> Tensor:
        """(n, 1 + W) the chances of numbers with these masses (E,), and around what is answered by these shares."""
        assert self.wrong is not None
        assert self.truth is not None
        assert self.belief is not None
        answering = self.belief.answering(self.truth + self.wrong @ said)
        own = (self.logs + mass.clamp(min=TINY).log()).logsumexp(1)
        return chances(torch.cat([own[:, None], log_masses(answering, values.codes).double()], 1))


def weighed(
    shelves: Mapping[Place, Shelf], heard: Mapping[Place, Heard], config: LatentKNNConfig
) -> dict[Place, Shelf]:
    """The shelves of one kind that are worth it, with what they are worth; the held-out values are put there, too."""
    both = {place: (shelves[place], Values.joined(one.values)) for place, one in heard.items() if place in shelves}
    experts = {place: _experts(shelf, heard[place], config.neighbours) for place, (shelf, _) in both.items()}
    if sum(len(one.logs) for one in experts.values()) < FEW:
        return {}
    whose = {place: torch.cat(one.whose) for place, one in heard.items() if place in both}
    mass = each_masses({place: chances(one.logs) for place, one in experts.items()}, config.prior, whose)
    wrong = {place: one.wrong for place, one in experts.items() if one.wrong is not None}
    said = each_least(wrong, config.prior, whose, OWN)
    near = {place: experts[place].around(both[place][1], own, mass[place]) for place, own in said.items()}
    around = each_masses(near, config.prior, whose)
    kept = {}
    for place, (shelf, values) in both.items():
        shelf = replace(
            shelf,
            mass=mass[place][1:].view(len(shelf.mass), -1),
            said=said.get(place, shelf.said),
            around=around[place][1:] if place in around else shelf.around,
        )
        if max(shelf.mass.sum(), shelf.said[OWN:].sum(), shelf.around.sum()) > WORTH:
            kept[place] = shelf.with_values(values, held=True)
    return kept


def _experts(shelf: Shelf, heard: Heard, nearest: int) -> Experts:
    values, own, belief = Values.joined(heard.values), torch.cat(heard.logs), heard.belief
    assert belief is not None
    near = shelf.nearest(values.vectors, values.who, torch.zeros_like(values.who, dtype=torch.bool), nearest)
    logs = [own]
    for reach in near.counts.unbind(1):  # (n, K)
        for kernel in range(belief.kernels):
            mass = reach.new_zeros(len(reach), belief.kernels, reach.shape[1])
            mass[:, kernel] = reach
            logs.append(belief.steps_recalled(values.codes, own, near.codes, mass))
    found = torch.stack(logs, 1).double()
    if not isinstance(belief, NumberBelief):
        return Experts(found)
    belief = belief.pick(torch.zeros_like(values.who))  # it is only asked for what stands in the tables of its slot
    others = shelf.answers(near, belief.numbers(near.codes))
    truth = belief.numbers(values.codes[:, None])
    return Experts(found, torch.cat([torch.cat(heard.answers), others], 1) - truth, truth[:, 0], belief)
