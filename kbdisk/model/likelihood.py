"""Log-likelihood of any set of properties given any others, under drawing in random order.

    log p(x)  =  log mean over orders of  prod_i p(x_i | those before it)     exact, over the lattice of subsets
             >=  mean over orders of  sum_i log p(x_i | those before it)      the bound, of which -loss is one draw

B entities   T tokens   N of an entity are scored   R sets of visible tokens in one pass
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from kbdisk.data.dataset import Batch
from kbdisk.model.diffusion import Model
from kbdisk.model.masking import rank_by_key, shuffled

MAX_EXACT_PROPERTIES = 8  # entities of up to so many scored properties are exact: from 2^8 conditionals
MAX_EXACT_ALLOWED = 16
TOKENS_PER_PASS = 1 << 15  # tokens in one pass, unless a batch has more


@dataclass(frozen=True)
class LogProb:
    """The log-probability of each entity (B,), in nats."""

    bound: Tensor  # a lower bound on the log-probability: exact where `exact` is, else estimated without bias
    exact: Tensor  # the log-probability; NaN where there are too many properties
    stderr: Tensor  # of the bound: 0 where that is exact, NaN where a single order was taken


@dataclass(frozen=True)
class _Question:
    """Which tokens of a batch are scored, and which are given."""

    model: Model
    batch: Batch
    scored: Tensor  # (T,)
    given: Tensor  # (T,)

    def log_prob(self, visible: Tensor, asked: Tensor) -> Tensor:
        """(T, R) of the asked tokens of each of R cases (T, R), given the visible ones."""
        repeated = self.batch.repeat(visible.shape[1])
        beliefs = self.model(repeated, repeated.seen(visible.flatten()), asked.flatten())
        return beliefs.log_prob(repeated).double().view(visible.shape).where(asked, 0)

    def sum(self, x: Tensor) -> Tensor:
        """(T, ...) -> (B, ...)"""
        return x.new_zeros(self.batch.size, *x.shape[1:]).index_add_(0, self.batch.entity, x)

    def chunks(self, cases: int) -> list[Tensor]:
        """The numbers of so many cases, split by pass."""
        size = max(1, TOKENS_PER_PASS // max(len(self.batch), 1))
        turns = torch.arange(cases, device=self.scored.device)
        return [turns[start : start + size] for start in range(0, cases, size)]


@torch.no_grad()
def log_prob(
    model: Model,
    batch: Batch,
    *,
    of: Tensor | None = None,
    given: Tensor | None = None,
    orders: int = 4,
    steps: int | None = None,
    exact: int = MAX_EXACT_PROPERTIES,
    generator: Generator | None = None,
) -> LogProb:
    """log p(of | given) of each entity; by default of all known properties, given only those that are never hidden.

    All tokens outside `of` (T,) and `given` (T,) are hidden. The log-probability of entities with at most `exact` scored
    tokens is exact. The bound of the others is a mean over `orders` random orders, each also taken backwards, at all or at
    most `steps` of its points.
    """
    counts = (
        ("orders", orders, 1, 1 << 20),
        ("steps", 1 if steps is None else steps, 1, 1 << 20),
        ("exact", exact, 0, MAX_EXACT_ALLOWED),
    )
    for name, value, minimum, maximum in counts:
        if not minimum <= value <= maximum:
            raise ValueError(f"expected {minimum} to {maximum} for {name}, got {value}")
    given = torch.zeros_like(batch.known) if given is None else given
    of = batch.known & ~batch.fixed & ~given if of is None else of
    if bool((of & (given | batch.fixed | ~batch.known)).any()):
        raise ValueError("expected properties to score that are known, not given, and not evidence")
    batch = replace(batch, absent=torch.zeros_like(batch.absent))  # nothing here is about presence
    is_exact = batch.classes.new_zeros(batch.size).index_add_(0, batch.entity, of.long()) <= exact  # (B,)
    base = (given | batch.fixed) & batch.known
    small = is_exact[batch.entity]
    lattice = _lattice(_Question(model, batch, of & small, base & small))
    walks = _walks(_Question(model, batch, of & ~small, base & ~small), orders, steps, generator)
    return LogProb(
        bound=lattice.bound.where(is_exact, walks.bound),
        exact=lattice.exact.where(is_exact, torch.nan),
        stderr=lattice.stderr.where(is_exact, walks.stderr),
    )


@torch.no_grad()
def in_order(model: Model, batch: Batch, order: Tensor) -> Tensor:
    """(B,) log p of all known properties, in nats, under drawing in one order of slots (S,): exact."""
    batch = replace(batch, absent=torch.zeros_like(batch.absent))
    scored = batch.known & ~batch.fixed
    question = _Question(model, batch, scored, batch.fixed & batch.known)
    place, count = rank_by_key(batch, scored, order[batch.slot], torch.arange(len(batch), device=scored.device))
    total = torch.zeros(batch.size, dtype=torch.double, device=scored.device)
    for chunk in question.chunks(int(count.max()) if batch.size else 0):
        due = (chunk < count[:, None])[batch.entity]  # (T, R)
        visible = (question.given[:, None] | scored[:, None] & (place[:, None] < chunk)) & due
        asked = scored[:, None] & (place[:, None] == chunk)
        total += question.sum(question.log_prob(visible, asked)).sum(1)
    return total


def _lattice(question: _Question) -> LogProb:
    """Dynamic programming over the lattice of subsets: each member of a set is equally likely to be revealed last."""
    step, sets = _conditionals(question)
    n = step.shape[1]
    exact, bound = step.new_zeros(2, question.batch.size, 1 << n)
    for subset in range(1, 1 << n):
        last = torch.tensor([j for j in range(n) if subset >> j & 1], device=step.device)
        before = subset ^ (1 << last)
        exact[:, subset] = (exact[:, before] + step[:, last, before]).logsumexp(1) - math.log(len(last))
        bound[:, subset] = (bound[:, before] + step[:, last, before]).mean(1)
    full_set = sets[:, None] - 1
    return LogProb(bound.gather(1, full_set)[:, 0], exact.gather(1, full_set)[:, 0], step.new_zeros(len(sets)))


def _conditionals(question: _Question) -> tuple[Tensor, Tensor]:
    """(B, n, 2^n) log p of the n-th property of an entity given each set of the others; (B,) the count of sets: 2^N."""
    batch, scored = question.batch, question.scored
    number = torch.arange(len(batch), device=scored.device)
    place, N = rank_by_key(batch, scored, number, number)
    sets, n = 1 << N, int(N.max()) if batch.size else 0
    step = torch.zeros(batch.size, n, 1 << n, dtype=torch.double, device=scored.device)
    for chunk in question.chunks((1 << n) - 1):  # without the full set, which leaves nothing to score
        due = (chunk < sets[:, None] - 1)[batch.entity]  # (T, R)
        inside = (chunk >> place[:, None] & 1).bool()
        visible = (question.given[:, None] | scored[:, None] & inside) & due
        log_p = question.log_prob(visible, scored[:, None] & ~inside & due)
        step[batch.entity[scored, None], place[scored, None], chunk] = log_p[scored]
    return step, sets


def _walks(question: _Question, orders: int, steps: int | None, generator: Generator | None) -> LogProb:
    """The bound as a mean over orders; nothing is exact."""
    means = torch.stack([_walk(question, steps, generator) for _ in range(orders)])  # (orders, B)
    mean, unknown = means.mean(0), torch.full_like(means[0], torch.nan)
    stderr = ((means - mean).square().sum(0) / (orders - 1) / orders).sqrt() if orders > 1 else unknown
    return LogProb(mean, unknown, stderr)


def _walk(question: _Question, steps: int | None, generator: Generator | None) -> Tensor:
    """(B,) the estimate of the bound along a random order, averaged with that along the reversed order.

    With all points of an order it sums log p of the next token. With n of its D points it sums the mean log p of the tokens
    still hidden, any of which could be next, times D / n.
    """
    batch, scored = question.batch, question.scored
    place, D = shuffled(batch, scored, generator)
    points = D if steps is None else D.clamp(max=steps)  # (B,)
    takes_all = (points == D)[batch.entity, None]  # (T, 1) the next token alone is asked for
    offset = torch.rand(batch.size, 1, dtype=torch.double, generator=generator, device=scored.device)
    total = torch.zeros(batch.size, dtype=torch.double, device=scored.device)
    for chunk in question.chunks(int(points.max()) if batch.size else 0):
        due = chunk < points[:, None]  # (B, R)
        for rank, point_offset in ((place, offset), (D[batch.entity] - 1 - place, 1 - offset)):
            shown = (
                ((chunk + point_offset) * (D / points.clamp(min=1))[:, None]).long().minimum(D[:, None] - 1)
            )  # (B, R)
            later = (rank[:, None] - shown[batch.entity]).masked_fill(~due[batch.entity], -1)  # (T, R) 0 is the next
            hidden = scored[:, None] & (later >= 0)
            visible = (question.given[:, None] | scored[:, None] & ~hidden) & due[batch.entity]
            asked = hidden & ((later == 0) | ~takes_all)
            total += (question.sum(question.log_prob(visible, asked)) / question.sum(asked.double()).clamp(min=1)).sum(
                1
            )
    return total / 2 * D / points.clamp(min=1)
