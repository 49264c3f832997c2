"""Sums over all subsets of so many labels, by the last label that each has: the weight of a subset is that of its labels.

The log of the sum over subsets of r labels is the log of an elementary symmetric polynomial of the labels' odds.
All is sums of positive terms in logs, so it is exact at any scale.

n rows   V labels   R members at most
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

NEVER = -1e30  # the log of 0, finite so that gradients are


class Subsets(NamedTuple):
    """Sums over the subsets of 0, 1, ... R labels."""

    total: Tensor  # (n, R + 1) log of the sum over all subsets of r labels; NEVER where there are not so many
    last: list[Tensor]  # R times (n, V): log of the sum over the subsets of r labels of which this one is the last


def subsets(logits: Tensor, most: int) -> Subsets:
    """Of labels with these log odds (n, V); -inf is no label."""
    logits = logits.clamp(min=NEVER)
    totals, last = [torch.zeros_like(logits[:, 0])], []
    before = torch.zeros_like(logits)  # the subsets of r - 1 labels among those before each
    for _ in range(most):
        last.append(logits + before)
        along = last[-1].logcumsumexp(1)
        totals.append(along[:, -1])
        before = _shifted(along)
    return Subsets(torch.stack(totals, 1), last)


def total(logits: Tensor, number: Tensor) -> Tensor:
    """(n,): the log of the elementary symmetric polynomial of degree `number` (n,) of the labels' odds (n, V) in logs.

    NEVER where a row has fewer labels. Each row stops at its own degree, and each turn spans the labels of its rows alone.
    """
    order = number.argsort(descending=True, stable=True)
    logits, sorted_number = logits[order], number[order]
    place = torch.arange(1, logits.shape[1] + 1, device=logits.device)
    widths = torch.where(logits > -torch.inf, place, 0).amax(1).cummax(0).values.tolist() if logits.numel() else []
    rows = sorted_number.bincount().flip(0).cumsum(0).flip(0).tolist()  # by r, how many have r members or more
    logits = logits.clamp(min=NEVER)
    before, done = torch.zeros_like(logits), [logits.new_zeros(len(logits) - (rows[1] if len(rows) > 1 else 0))]
    for r in range(1, len(rows)):
        width = max(widths[rows[r] - 1], 1)
        along = (logits[: rows[r], :width] + before[: rows[r], :width]).logcumsumexp(1)
        done.append(along[rows[r + 1] if r + 1 < len(rows) else 0 :, -1])
        before = _shifted(along)
    return torch.cat(done[::-1])[order.argsort()]


def expected(logits: Tensor, sums: Subsets) -> Tensor:
    """(n, R + 1): how large the sum of the log odds of a subset's labels is, on average, by how many labels it has."""
    real = logits > -torch.inf
    least = logits.masked_fill(~real, torch.inf).amin(1, keepdim=True)  # (n, 1)
    above = (logits - least).masked_fill(~real, 0).log().clamp(min=NEVER)  # (n, V)
    logits = logits.clamp(min=NEVER)
    means, before = [torch.zeros_like(logits[:, 0])], torch.full_like(logits, NEVER)
    for r, last in enumerate(sums.last, 1):
        along = torch.logaddexp(last + above, logits + before).logcumsumexp(1)
        mean = (along[:, -1] - sums.total[:, r]).exp() + r * least[:, 0]
        means.append(torch.where(sums.total[:, r] > NEVER / 2, mean, 0))
        before = _shifted(along)
    return torch.stack(means, 1)


def included(logits: Tensor, sums: Subsets, counts: Tensor) -> Tensor:
    """(n, V): how likely each label is in the subset, where counts (n, R + 1) says how likely it has r labels, in logs."""
    behind = subsets(logits.flip(1), len(sums.last))
    logits = logits.clamp(min=NEVER)
    before = [last - logits for last in sums.last]  # by r - 1 labels before
    after = [last.flip(1) - logits for last in behind.last]
    probs = torch.zeros_like(logits)
    for r in range(1, len(sums.last) + 1):
        ways = torch.stack([before[i] + after[r - 1 - i] for i in range(r)]).logsumexp(0)
        probs = probs + (ways + logits + (counts[:, r] - sums.total[:, r])[:, None]).exp()
    return probs


def draw(sums: Subsets, counts: Tensor, generator: torch.Generator | None) -> Tensor:
    """(n, V) which labels are in a subset of so many (n,), drawn by its weight; the last member first."""
    chosen = torch.zeros_like(sums.last[0], dtype=torch.bool) if sums.last else counts.new_zeros(len(counts), 1).bool()
    bound = torch.full_like(counts, chosen.shape[1])[:, None]
    place = torch.arange(chosen.shape[1], device=counts.device)
    for r in range(len(sums.last), 0, -1):
        own = (counts >= r).nonzero()[:, 0]
        if len(own):
            odds = sums.last[r - 1][own].masked_fill(place >= bound[own], 2 * NEVER)
            member = torch.multinomial(odds.softmax(1), 1, generator=generator)  # (o, 1)
            chosen[own] = chosen[own].scatter(1, member, True)
            bound[own] = member
    return chosen


def _shifted(along: Tensor) -> Tensor:
    """What stands before each."""
    return F.pad(along[:, :-1], (1, 0), value=NEVER)
