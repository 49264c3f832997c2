"""Masking, the forward process: which known properties are visible to the model, and the loss weight of each hidden one.

The paper (Prop. 1) draws a masking rate pi, masks, masks one more, and weights by C(pi). Integrating over the rate
leaves an equal and simpler rule, the rate "count": hide M of the D properties of an entity, M uniform in 1..D, weight D / M.
    E over pi ~ U(0, 1), N ~ Binomial(D, pi) of C(pi), where M = N + 1    =    1 / M    =    P(M) * D / M

B entities   T tokens   D tokens of an entity may be hidden   M of them are
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from kbdisk.data.dataset import Batch

KEY_BITS = 40  # of a sort key: the number of the entity above, these bits of a key within the entity below


@dataclass(frozen=True)
class Hiding:
    """How known properties are masked.

    With `patterns`, with `ordered`, or at a rate other than "count" and "paper", the loss is no bound on -log p.
    """

    rate: str = "count"  # how many properties of an entity are hidden, one of RATES
    share: float = 0.5  # share of an entity's properties that is hidden at the rate "fixed"
    together: float = 0.5  # share of entities in which the parts of a composite are hidden together
    patterns: float = 0.0  # share of entities that hide the properties which another entity of the class lacks
    everything: float = 0.0  # share of entities that hide all properties, which the rate "few" does seldom
    nothing: float = 0.0  # share of entities that hide nothing, so that presence is learnt with all values visible
    ordered: float | None = 0.0  # share of entities that hide the last in the schema's order; none: fitted to the data

    def __post_init__(self) -> None:
        if self.rate not in RATES:
            raise ValueError(f"expected one of {', '.join(RATES)} for rate, got {self.rate!r}")
        for name in ("share", "together", "patterns", "everything", "ordered"):
            value = getattr(self, name)
            if not (name == "ordered" and value is None) and not 0 <= value <= 1:
                raise ValueError(f"expected 0 to 1 for {name}, got {value!r}")
        if not 0 <= self.nothing < 1:
            raise ValueError(f"expected 0 to below 1 for nothing, got {self.nothing!r}")

    @property
    def is_in_order(self) -> bool:
        """Whether the order of the schema is learnt, and entities are drawn in it."""
        return self.ordered is None or self.ordered > 0


@dataclass(frozen=True)
class Hidden:
    """The masks of one draw: which tokens are visible, which are asked for, and the loss weight of each."""

    visible: Tensor  # (T,)
    asked: Tensor  # (T,) the hidden ones; evidence over a hidden link is neither visible nor asked for
    weight: Tensor  # (T,) 0 where not asked

    def only(self, kept: Tensor) -> Hidden:
        """The masks of the kept tokens (T,)."""
        return Hidden(self.visible[kept], self.asked[kept], self.weight[kept])


def hide(batch: Batch, hiding: Hiding, generator: Generator | None = None, order: Tensor | None = None) -> Hidden:
    """Hide some properties of each entity; evidence and given properties are hidden only with the link they came over.

    `order` (S,) is the place of each slot in the schema: entities that are hidden in order hide the last ones.

    Parts hidden together count as one property of the D and the M in the weight D / M. The sum of their log-probabilities is
    that of the composite, so this is the bound for entities of composites; a mean of the two bounds is a bound, too.
    """
    if hiding.ordered is None:
        raise ValueError(
            "expected a share of entities to be hidden in order; got none, before it was fitted to the data"
        )
    free = batch.known & ~batch.fixed
    is_split = torch.rand(batch.size, generator=generator, device=free.device) >= hiding.together  # (B,)
    unit = torch.where(is_split[batch.entity], torch.arange(len(batch), device=free.device), batch.unit)
    rank, D = shuffled(batch, free, generator, unit)
    if hiding.ordered:
        hides_last = torch.rand(batch.size, generator=generator, device=free.device) < hiding.ordered  # (B,)
        last_rank, last_count = _from_last(batch, free, order, unit)
        rank, D = torch.where(hides_last[batch.entity], last_rank, rank), torch.where(hides_last, last_count, D)
    M, weight = RATES[hiding.rate](D, hiding.share, generator)  # (B,) each
    if hiding.everything:
        hides_everything = torch.rand(batch.size, generator=generator, device=free.device) < hiding.everything  # (B,)
        M, weight = torch.where(hides_everything, D, M), torch.where(hides_everything, 1, weight)
    asked, weight = free & (rank < M[batch.entity]), weight[batch.entity]  # (T,) each
    if hiding.patterns:
        borrowed, borrowed_weight = _borrow_pattern(batch, free, hiding.patterns, generator)
        borrows = borrowed_weight > 0  # (T,)
        asked, weight = torch.where(borrows, borrowed, asked), torch.where(borrows, borrowed_weight, weight)
    if hiding.nothing:  # the other entities have a larger weight in return, so that the bound holds
        hides_nothing = torch.rand(batch.size, generator=generator, device=free.device) < hiding.nothing  # (B,)
        asked, weight = asked & ~hides_nothing[batch.entity], weight / (1 - hiding.nothing)
    weight = weight.where(asked, 0)
    return Hidden(batch.seen(batch.known & ~asked), weight > 0, weight)


def masks_in_order(
    batch: Batch, among: Tensor, order: Tensor, passes: int, generator: Generator | None = None
) -> Iterator[Hidden]:
    """One property of each entity in each pass, given those before it in an order of slots (S,): the masks of ordered drawing.

    The tokens `among` (T,) are asked for, at ranks spread evenly over those of an entity; with as many passes as it has,
    each once. Of the others only tokens that are never hidden are visible. The weights make the sum over the passes an
    unbiased estimate of the loss of all of them.
    """
    rank, D = rank_by_key(batch, among, order[batch.slot], torch.arange(len(batch), device=among.device))
    start = _uniform(D, generator).double().clamp(max=1 - 2**-20)
    count = D.clamp(max=passes)  # (B,) passes that ask for a token of the entity
    weight = (D / count.clamp(min=1))[batch.entity]
    for turn in range(int(count.max()) if batch.size else 0):
        due = ((start + turn) * D / count.clamp(min=1)).long().clamp(max=D - 1).where(turn < count, -1)[batch.entity]
        asked = among & (rank == due)
        visible = batch.seen(batch.known & (batch.fixed | among & (rank < due)))
        yield Hidden(visible, asked, weight * asked)


def _count(D: Tensor, share: float, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """M uniform in 1..D, stratified."""
    M = (1 + (_uniform(D, generator) * D).long()).clamp(max=D)  # a draw may be rounded up to 1, and D may be 0
    return M, D / M.clamp(min=1)


def _few(D: Tensor, share: float, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """M in 1..D with probability in proportion to 1 / M, stratified. Weighed D / M, so entities with few hidden count most."""
    largest = int(D.max()) if len(D) else 0
    harmonic = (1 / torch.arange(1, largest + 1, device=D.device)).cumsum(0)  # (largest,) the harmonic numbers
    draw = _uniform(D, generator)
    M = (1 + torch.searchsorted(harmonic, draw * harmonic[(D - 1).clamp(min=0)])).minimum(D) if largest else D
    return M, D / M.clamp(min=1)


def _uniform(D: Tensor, generator: Generator | None) -> Tensor:
    """(B,) stratified uniform draws from 0 to 1: each entity draws from one of B equal intervals, dealt at random."""
    interval = torch.randperm(len(D), generator=generator, device=D.device)
    return (interval + torch.rand(len(D), generator=generator, device=D.device)) / max(len(D), 1)


def _paper(D: Tensor, share: float, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """The paper's draw: mask at a rate pi ~ U(0, 1), and one more."""
    pi = torch.rand(len(D), generator=generator, device=D.device)
    N = torch.binomial(D.float(), pi, generator=generator)
    return (N.long() + 1).clamp(max=D), paper_weight(D, N, pi)


def paper_weight(D: Tensor, N: Tensor, pi: Tensor) -> Tensor:
    """C(pi) of Proposition 1: D times the unmasked share over its expectation 1 - pi, divided by the N + 1 masked in the end."""
    return D * (1 - N / D.clamp(min=1)) / (1 - pi) / (N + 1)


def _fixed(D: Tensor, share: float, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """Masked modelling: mask each property with the same probability, at least one. No bound."""
    return _at_rate(D, torch.full_like(D, share, dtype=torch.float), generator)


def _batch(D: Tensor, share: float, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """The rule of the authors' code: mask each property with a probability drawn once for the batch, at least one."""
    return _at_rate(D, torch.rand((), generator=generator, device=D.device).expand(len(D)), generator)


def _at_rate(D: Tensor, rate: Tensor, generator: Generator | None) -> tuple[Tensor, Tensor]:
    M = torch.binomial(D.float(), rate, generator=generator).long().clamp(min=1).minimum(D)
    # DIFF(paper): its masked modelling sums what is hidden; D / M keeps one scale, and one learning rate, for all rates.
    return M, D / M.clamp(min=1)


RATES: dict[str, Callable[[Tensor, float, Generator | None], tuple[Tensor, Tensor]]] = {
    "count": _count,  # M uniform in 1..D: the bound
    "paper": _paper,  # the literal draw of the paper: the same bound, but of infinite variance
    "few": _few,  # small M more often
    "fixed": _fixed,
    "batch": _batch,
}


def shuffled(
    batch: Batch, among: Tensor, generator: Generator | None = None, unit: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The rank (T,) of each of the tokens `among` (T,) in a random order within its entity, and their count (B,).

    Tokens of an entity with the same number in `unit` (T,) share a rank, and count once.
    """
    seed = torch.randint(2**62, (), generator=generator, device=among.device)
    unit = torch.arange(len(batch), device=among.device) if unit is None else unit
    return rank_by_key(batch, among, _splitmix64(seed + batch.entity * 0x632BE59BD9B4E019 + unit), unit)


def rank_by_key(batch: Batch, among: Tensor, key: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    """The rank (T,) of each of the tokens `among` (T,) within its entity by a key of 40 bits, and their count (B,)."""
    owner = batch.entity.where(among, batch.size)  # the other tokens come last
    order = (owner << KEY_BITS | key).argsort()
    owner, unit = owner[order], unit[order]
    is_first = torch.ones_like(among)
    is_first[1:] = (owner[1:] != owner[:-1]) | (unit[1:] != unit[:-1])
    count = torch.zeros(batch.size + 1, dtype=torch.long, device=among.device).index_add_(0, owner, is_first.long())
    rank = is_first.cumsum(0) - 1 - (count.cumsum(0) - count)[owner]
    return torch.empty_like(rank).index_copy_(0, order, rank), count[:-1]


def _from_last(batch: Batch, among: Tensor, order: Tensor | None, unit: Tensor) -> tuple[Tensor, Tensor]:
    """The rank (T,) of each of the tokens `among` (T,) in the order of the schema, from the last, and their count (B,).

    The length of a list and each of its items have places of their own in that order, and each counts.
    """
    if order is None:
        raise ValueError("expected the order of slots, as some entities are hidden in order; got none")
    return rank_by_key(batch, among, order.max() - order[batch.slot], unit)


def _splitmix64(x: Tensor) -> Tensor:
    """Pseudo-random numbers of 40 bits, a hash of x: splitmix64, with its shifts unsigned."""
    x = x * -0x61C8864680B583EB
    x = (x ^ (x >> 30 & (1 << 34) - 1)) * -0x40A7B892E31B1A47
    x = (x ^ (x >> 27 & (1 << 37) - 1)) * -0x6B2FB644ECCEEE15
    return x >> 64 - KEY_BITS & (1 << KEY_BITS) - 1


def _borrow_pattern(batch: Batch, free: Tensor, share: float, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """The tokens that some entities hide because another entity of the class lacks them; D / M, or 0 where not: (T,) each."""
    draw = torch.randint(2**KEY_BITS, (batch.size,), generator=generator, device=free.device)
    order = (batch.classes << KEY_BITS | draw).argsort()  # class by class
    ordered = batch.classes[order]
    first = order[torch.searchsorted(ordered, ordered)]  # (B,) the first of the class
    following = order.roll(-1)
    following = following.where(batch.classes[following] == ordered, first)
    lender = torch.empty_like(order).index_copy(0, order, following)  # (B,)

    slots = batch.slot.max() + 1 if len(batch) else 1
    owned = (batch.entity * slots + batch.slot).where(batch.known, -1).sort().values
    wanted = lender[batch.entity] * slots + batch.slot
    is_owned = owned[torch.searchsorted(owned, wanted).clamp(max=max(len(batch) - 1, 0))] == wanted

    chosen = torch.rand(batch.size, generator=generator, device=free.device) < share
    hidden = free & ~is_owned & chosen[batch.entity]
    D, M = (
        torch.zeros(batch.size, device=free.device).index_add_(0, batch.entity, tokens.float())
        for tokens in (free, hidden)
    )
    weight = (D / M.clamp(min=1)).where(M > 0, 0)
    return hidden, weight[batch.entity]
