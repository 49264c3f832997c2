"""What several experts are worth: by what each has said of values that are known by now.

n values   E experts
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

import torch
from torch import Tensor

Of = TypeVar("Of")
Each: TypeAlias = Mapping[Of, Tensor]  # of each place what experts said, or their shares

STEPS = 100  # of EM
SLIGHT = 1e-9  # of a form, that it is always definite by
FURTHEST = 5.0  # root mean squared errors of the best expert: what an error counts as at most
LOWEST = -1e4  # nats below the best expert
SURE = 0.5  # standard errors: by so many what experts gain is above nothing, or they have no share
TINY = 1e-30


def chances(logs: Tensor) -> Tensor:
    """(n, E) the logs of the chances that experts gave to each value -> (n, E) them, in parts of the best one's."""
    return (logs - logs.amax(1, keepdim=True)).clamp(min=LOWEST).nan_to_num().exp()


def masses(chances: Tensor, prior: Tensor) -> Tensor:
    """(n, E) what each expert gave to each value -> (E,) the shares by which their mixture gives them most; EM.

    The prior (E,) counts as values that experts have to themselves.
    """
    found = torch.full_like(prior, 1 / len(prior))
    for _ in range(STEPS):
        mine = chances * found
        found = (mine / mine.sum(1, keepdim=True).clamp(min=TINY)).sum(0) + prior
        found = found / found.sum()
    return found


def squares(errors: Tensor) -> Tensor:
    """(n, E) errors of experts -> (E, E) whose form is the squared error of a mean of them, in that of the best."""
    errors = limited(errors)
    return errors.T @ errors / max(len(errors), 1)


def limited(errors: Tensor) -> Tensor:
    """(n, E) errors of experts in parts of the best one's, none of them too large."""
    best = errors.square().mean(0).min().sqrt().clamp(min=TINY)
    return (errors / best).clamp(-FURTHEST, FURTHEST)


def least(form: Tensor) -> Tensor:
    """(E, E) -> (E,) the shares that make the form least; none is below 0, and they add up to 1.

    Where those of some experts are above 0, they alone decide: so all sets of them are tried.
    """
    E = len(form)
    every = torch.arange(E, device=form.device)
    form = form + SLIGHT * form.diagonal().mean().clamp(min=TINY) * torch.eye(E, dtype=form.dtype, device=form.device)
    sets = (torch.arange(1, 1 << E, device=form.device)[:, None] >> every) & 1  # (2 ** E - 1, E)
    inside = sets.to(form.dtype)
    alone = form * inside[:, :, None] * inside[:, None] + torch.diag_embed(1 - inside)
    found = torch.linalg.solve(alone, inside[:, :, None])[:, :, 0]
    found = found / found.sum(1, keepdim=True)
    cost = torch.einsum("se,ef,sf->s", found, form, found).masked_fill((found < 0).any(1), torch.inf)
    best: Tensor = found[cost.argmin()]
    return best


def each_masses(told: Each[Of], prior: float, whose: Each[Of], sure: float = SURE) -> Each[Of]:
    """Of several places, (n, E) chances each, the `masses`; what is so for all of them counts as some values of each.

    Where they are not `proven` to be worth anything by `sure` standard errors, all is the first expert's.
    """

    def learnt(some: Each[Of]) -> Each[Of]:
        every = torch.cat(list(some.values()))
        common = masses(every, every.new_ones(every.shape[1]))
        return {place: masses(own, prior * common) for place, own in some.items()}

    def alone(some: Each[Of]) -> Each[Of]:
        return {place: torch.eye(own.shape[1], dtype=own.dtype, device=own.device)[0] for place, own in some.items()}

    def cost(own: Tensor, shares: Tensor) -> Tensor:
        return -(own @ shares).clamp(min=TINY).log()

    return proven(told, whose, prior, learnt, alone, cost, sure)


def each_least(wrong: Each[Of], prior: float, whose: Each[Of], first: int = 1, sure: float = SURE) -> Each[Of]:
    """Of several places, (n, E) errors each, the shares of `least`, likewise; so many experts are the first."""

    def learnt(some: Each[Of]) -> Each[Of]:
        forms = {place: squares(errors) for place, errors in some.items()}
        common = torch.stack(list(forms.values())).mean(0)
        return {place: least(len(some[place]) * form + prior * common) for place, form in forms.items()}

    def alone(some: Each[Of]) -> Each[Of]:
        own = learnt({place: errors[:, :first] for place, errors in some.items()})
        more = {place: errors.shape[1] - first for place, errors in some.items()}
        return {place: torch.cat([shares, shares.new_zeros(more[place])]) for place, shares in own.items()}

    def cost(errors: Tensor, shares: Tensor) -> Tensor:
        return (limited(errors) @ shares).square()

    return proven(wrong, whose, prior, learnt, alone, cost, sure)


def proven(
    told: Each[Of],
    whose: Each[Of],
    prior: float,
    learnt: Callable[[Each[Of]], Each[Of]],
    alone: Callable[[Each[Of]], Each[Of]],
    cost: Callable[[Tensor, Tensor], Tensor],
    sure: float = SURE,
) -> Each[Of]:
    """The shares that are learnt of values; where they would be worth too little to other values, the first experts' own.

    Learnt of one half of the entities, shares are to cost the other half less than the first experts do, `sure` enough
    that this is no chance. How sure that is of all places counts as some entities of each.
    """
    if not told:
        return {}
    gains: dict[Of, list[Tensor]] = {place: [] for place in told}
    for side in (0, 1):
        mine = {place: who % 2 == side for place, who in whose.items()}
        some = {place: own[mine[place]] for place, own in told.items()}
        ours, theirs = learnt(some), alone(some)
        for place, own in told.items():
            rest, who = own[~mine[place]], whose[place][~mine[place]]
            gain = cost(rest, theirs[place]) - cost(rest, ours[place])
            gains[place].append(_of_each(gain, who))
    every = {place: torch.cat(own) for place, own in gains.items()}
    common = _evidence(torch.cat([own / _size(own) for own in every.values()]))
    ours, theirs = learnt(told), alone(told)
    return {place: (ours if _is_sure(own, common, prior, sure) else theirs)[place] for place, own in every.items()}


def _of_each(values: Tensor, who: Tensor) -> Tensor:
    """(n,) -> (m,) their sums over each entity, who may be asked in several ways."""
    every, place = who.unique(return_inverse=True)
    return values.new_zeros(len(every)).index_add_(0, place, values)


def _is_sure(gains: Tensor, common: float, prior: float, sure: float) -> bool:
    """Whether gains (m,) are above nothing, where so many more are as sure as is `common`."""
    count = len(gains) + prior
    return count > 0 and (_evidence(gains) * len(gains) + prior * common) / math.sqrt(count) > sure


def _size(gains: Tensor) -> Tensor:
    """() their root mean square."""
    return gains.square().mean().sqrt().clamp(min=TINY)


def _evidence(gains: Tensor) -> float:
    """The mean of gains (m,) in their size: times the root of how many there are, about how many standard errors above 0."""
    return float(gains.mean() / _size(gains)) if len(gains) else 0.0
