"""What several experts are worth: by what each has said of values that are known by now.

n values   E experts
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import Tensor

Of = TypeVar("Of")

STEPS = 100  # of EM
SLIGHT = 1e-9  # of a form, that it is always definite by
FURTHEST = 5.0  # root mean squared errors of the best expert: what an error counts as at most
LOWEST = -1e4  # nats below the best expert
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
    best = errors.square().mean(0).min().sqrt().clamp(min=TINY)
    errors = (errors / best).clamp(-FURTHEST, FURTHEST)
    return errors.T @ errors / max(len(errors), 1)


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


def each_masses(told: Mapping[Of, Tensor], prior: float) -> dict[Of, Tensor]:
    """Of several places, (n, E) chances each, the `masses`; what is so for all of them counts as some values of each."""
    if not told:
        return {}
    every = torch.cat(list(told.values()))
    common = masses(every, torch.ones_like(every[0]))
    return {place: masses(own, prior * common) for place, own in told.items()}


def each_least(wrong: Mapping[Of, Tensor], prior: float) -> dict[Of, Tensor]:
    """Of several places, (n, E) errors each, the shares of `least`, likewise."""
    if not wrong:
        return {}
    forms = {place: squares(own) for place, own in wrong.items()}
    common = torch.stack(list(forms.values())).mean(0)
    return {place: least(len(wrong[place]) * form + prior * common) for place, form in forms.items()}
