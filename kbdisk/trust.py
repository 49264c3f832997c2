"""How far a model's beliefs of a property are trusted, beside what is best said to everybody: learnt where the truth was hidden.

    number          constant + trust * (ours - constant)          the trust with the least absolute error
    label, link     trust * ours + (1 - trust) * its share        the trust under which the truth is likeliest

Both lean to full trust: by about one held-out value of labels, and by ten of numbers, whose answers were fitted to held-out
values already. Sets and texts are trusted as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

LEVELS = 20  # of trust that are told apart
LEANING = 10.0  # held-out values of numbers that full trust counts as


def of_numbers(said: Sequence[float], constant: Sequence[float], truth: Sequence[float]) -> float:
    """The trust in some numbers that were said, beside the constant and the truth of each."""
    ours, theirs, true = (torch.tensor(each, dtype=torch.float64) for each in (said, constant, truth))
    levels = torch.linspace(0, 1, LEVELS + 1, dtype=torch.float64)  # (L,)
    errors = (theirs + levels[:, None] * (ours - theirs) - true).abs()  # (L, n)
    scale = (theirs - true).abs().mean()
    return float(levels[_least(errors.sum(1) + LEANING * scale * (1 - levels))])


def of_labels(nats: Sequence[float], constant: Sequence[float]) -> float:
    """The trust in some beliefs, by what the truth costs under them and under the constant ones."""
    ours, theirs = (-torch.tensor(each, dtype=torch.float64)[:, None] for each in (nats, constant))
    levels = torch.linspace(1 / LEVELS, 1, LEVELS, dtype=torch.float64)  # (L,)
    both = torch.logaddexp(ours + levels.log(), theirs + torch.log1p(-levels))  # (n, L)
    return float(levels[_least(-both.sum(0) - levels.log())])


def _least(costs: Tensor) -> int:
    """The last of the least, so that of equal ones it is the greatest trust."""
    return len(costs) - 1 - int(costs.flip(0).argmin())
