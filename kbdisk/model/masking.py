"""The forward process: which known properties the model may see, and what those weigh that it may not.

The paper (Prop. 1) draws a masking rate pi, masks, masks one more, and weighs by C(pi). Integrating over the rate
leaves an equal and simpler rule, the default here: of an entity's D properties hide M, M uniform in 1..D; weigh D / M.
    E over pi ~ U(0, 1), N ~ Binomial(D, pi) of C(pi), where M = N + 1    =    1 / M    =    P(M) * D / M

B entities   T tokens   D of an entity's tokens may be hidden   M of them are
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from kbdisk.data.batch import Batch

KEY = 40  # bits of a random number beneath an entity's own, in one integer to sort by


@dataclass(frozen=True)
class Hiding:
    """How known properties are hidden. With `patterns`, in order, or at a rate of its own, the loss is no bound any more."""

    rate: str = "count"  # a row of RATES
    share: float = 0.5  # of an entity's properties, for the rate "fixed"
    together: float = 0.5  # in how many entities the parts of a composite are hidden as one
    patterns: float = 0.0  # in how many entities what is hidden is what another one of the class does not have
    everything: float = 0.0  # in how many entities: so what little tells is learnt where mostly few are hidden
    nothing: float = 0.0  # in how many entities: so presence is learnt where all that is known is visible, too
    ordered: float | None = 0.0  # in how many entities the last by the schema are hidden; None: as fits the data

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
        """Whether the schema's order is learnt, and entities are drawn in it."""
        return self.ordered is None or self.ordered > 0


@dataclass(frozen=True)
class Hidden:
    """What the model may see, what it is asked for, and what each answer weighs."""

    visible: Tensor  # (T,)
    asked: Tensor  # (T,) what was hidden; evidence that went with a hidden link is neither visible nor asked for
    weight: Tensor  # (T,) 0 where not asked


def hide(batch: Batch, hiding: Hiding, generator: Generator | None = None, order: Tensor | None = None) -> Hidden:
    """Hide some of what each entity has; evidence and given properties go only with the link they came over.

    `order` (S,) is the place of each slot in the schema: of entities that are hidden in order the last are.

    Parts hidden as one count as one property, and weigh D / M of those. The sum of their log-probabilities is that of a
    distribution of the whole, so this is the bound for entities of such wholes; and whichever share of entities is
    treated so, a mean of bounds is a bound.
    """
    if hiding.ordered is None:
        raise ValueError(
            "expected a share of entities to be hidden in order; got none, before it was fitted to the data"
        )
    free = batch.known & ~batch.fixed
    alone = torch.rand(batch.size, generator=generator, device=free.device) >= hiding.together  # (B,)
    whole = torch.where(alone[batch.entity], torch.arange(len(batch), device=free.device), batch.unit)
    place, D = shuffled(batch, free, generator, whole)
    if hiding.ordered:
        some = torch.rand(batch.size, generator=generator, device=free.device) < hiding.ordered  # (B,)
        last, count = _from_last(batch, free, order, whole)
        place, D = torch.where(some[batch.entity], last, place), torch.where(some, count, D)
    M, weight = RATES[hiding.rate](D, hiding.share, generator)  # (B,) each
    if hiding.everything:
        every = torch.rand(batch.size, generator=generator, device=free.device) < hiding.everything  # (B,)
        M, weight = torch.where(every, D, M), torch.where(every, 1, weight)
    asked, weight = free & (place < M[batch.entity]), weight[batch.entity]  # (T,) each
    if hiding.patterns:
        lent, lent_weight = _borrow(batch, free, hiding.patterns, generator)
        asked, weight = torch.where(lent_weight > 0, lent, asked), torch.where(lent_weight > 0, lent_weight, weight)
    if hiding.nothing:  # the rest weighs more for it, and the bound stays what it is
        spared = torch.rand(batch.size, generator=generator, device=free.device) < hiding.nothing  # (B,)
        asked, weight = asked & ~spared[batch.entity], weight / (1 - hiding.nothing)
    weight = weight.where(asked, 0)
    return Hidden(batch.seen(batch.known & ~asked), weight > 0, weight)


def in_turn(
    batch: Batch, among: Tensor, order: Tensor, passes: int, generator: Generator | None = None
) -> Iterator[Hidden]:
    """One property of each entity in each pass, given those before it by an order of slots (S,): what drawing in it asks.

    Some tokens (T,) are asked for, at places evenly spread over an entity's; with as many passes as it has, each once.
    Of the others nothing is visible but what is never hidden. Weighed so that the sum of all passes is, on average, what
    all of them cost.
    """
    place, D = placed(batch, among, order[batch.slot], torch.arange(len(batch), device=among.device))
    start = _parts(D, generator).double().clamp(max=1 - 2**-20)
    count = D.clamp(max=passes)  # (B,) of passes that ask something of it
    each = (D / count.clamp(min=1))[batch.entity]
    for turn in range(int(count.max()) if batch.size else 0):
        due = ((start + turn) * D / count.clamp(min=1)).long().clamp(max=D - 1).where(turn < count, -1)[batch.entity]
        asked = among & (place == due)
        visible = batch.seen(batch.known & (batch.fixed | among & (place < due)))
        yield Hidden(visible, asked, each * asked)


def _count(D: Tensor, share: float, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """M uniform in 1..D, stratified."""
    M = (1 + (_parts(D, generator) * D).long()).clamp(max=D)  # at most D where a part was rounded up to 1, or D is 0
    return M, D / M.clamp(min=1)


def _few(D: Tensor, share: float, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """M in 1..D, as often as 1 / M, stratified; weighed as if all were as often, so that what is nearly whole counts most."""
    most = int(D.max()) if len(D) else 0
    below = (1 / torch.arange(1, most + 1, device=D.device)).cumsum(0)  # (most,) the harmonic numbers
    M = (1 + torch.searchsorted(below, _parts(D, generator) * below[(D - 1).clamp(min=0)])).minimum(D) if most else D
    return M, D / M.clamp(min=1)


def _parts(D: Tensor, generator: Generator | None) -> Tensor:
    """(B,) evenly spread from 0 to 1: each entity draws from a B-th of its own, dealt out at random."""
    dealt = torch.randperm(len(D), generator=generator, device=D.device)
    return (dealt + torch.rand(len(D), generator=generator, device=D.device)) / max(len(D), 1)


def _paper(D: Tensor, share: float, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """Mask at a rate pi ~ U(0, 1), and one more."""
    pi = torch.rand(len(D), generator=generator, device=D.device)
    N = torch.binomial(D.float(), pi, generator=generator)
    return (N.long() + 1).clamp(max=D), paper_weight(D, N, pi)


def paper_weight(D: Tensor, N: Tensor, pi: Tensor) -> Tensor:
    """C(pi) of Proposition 1: D times the share that is not masked over that expected, by how many are in the end."""
    return D * (1 - N / D.clamp(min=1)) / (1 - pi) / (N + 1)


def _fixed(D: Tensor, share: float, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """Each with one probability, and one at least. No bound: masked modelling, in nats per entity all the same."""
    return _at_rate(D, torch.full_like(D, share, dtype=torch.float), generator)


def _batch(D: Tensor, share: float, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """Each with one probability, and one at least, drawn once for the whole batch: as the authors' code does it."""
    return _at_rate(D, torch.rand((), generator=generator, device=D.device).expand(len(D)), generator)


def _at_rate(D: Tensor, rate: Tensor, generator: Generator | None) -> tuple[Tensor, Tensor]:
    M = torch.binomial(D.float(), rate, generator=generator).long().clamp(min=1).minimum(D)
    # DIFF(paper): its masked modelling sums what is hidden; D / M keeps one scale, and one learning rate, for all rates.
    return M, D / M.clamp(min=1)


RATES: dict[str, Callable[[Tensor, float, Generator | None], tuple[Tensor, Tensor]]] = {
    "count": _count,  # M uniform in 1..D: the bound
    "paper": _paper,  # the paper's literal draw: the same bound, but of endless variance
    "few": _few,  # mostly few
    "fixed": _fixed,
    "batch": _batch,
}


def shuffled(
    batch: Batch, among: Tensor, generator: Generator | None = None, whole: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The place (T,) of each of some tokens in a random order of its entity's, and how many (B,) an entity has.

    Tokens of an entity that have one number in `whole` (T,) share a place, and count once.
    """
    seed = torch.randint(2**62, (), generator=generator, device=among.device)
    whole = torch.arange(len(batch), device=among.device) if whole is None else whole
    return placed(batch, among, _scrambled(seed + batch.entity * 0x632BE59BD9B4E019 + whole), whole)


def placed(batch: Batch, among: Tensor, key: Tensor, whole: Tensor) -> tuple[Tensor, Tensor]:
    """The place (T,) of each of some tokens among its entity's by a key of 40 bits, and how many (B,) there are."""
    owner = batch.entity.where(among, batch.size)  # the others come last
    order = (owner << KEY | key).argsort()
    owner, whole = owner[order], whole[order]
    new = torch.ones_like(among)
    new[1:] = (owner[1:] != owner[:-1]) | (whole[1:] != whole[:-1])
    count = torch.zeros(batch.size + 1, dtype=torch.long, device=among.device).index_add_(0, owner, new.long())
    place = new.cumsum(0) - 1 - (count.cumsum(0) - count)[owner]
    return torch.empty_like(place).index_copy_(0, order, place), count[:-1]


def _from_last(batch: Batch, among: Tensor, order: Tensor | None, whole: Tensor) -> tuple[Tensor, Tensor]:
    """The place (T,) of each of some tokens in the schema's order, counted from the last, and how many (B,) there are.

    A list's length and what stands in it are apart in that order, and count each.
    """
    if order is None:
        raise ValueError("expected the order of slots, as some entities are hidden in order; got none")
    return placed(batch, among, order.max() - order[batch.slot], whole)


def _scrambled(x: Tensor) -> Tensor:
    """Numbers of 40 bits that look random, the same for the same numbers: splitmix64, whose shifts are unsigned."""
    x = x * -0x61C8864680B583EB
    x = (x ^ (x >> 30 & (1 << 34) - 1)) * -0x40A7B892E31B1A47
    x = (x ^ (x >> 27 & (1 << 37) - 1)) * -0x6B2FB644ECCEEE15
    return x >> 64 - KEY & (1 << KEY) - 1


def _borrow(batch: Batch, free: Tensor, share: float, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """What of some entities is hidden because another of the class lacks it; D / M, or 0 where not done: (T,) each."""
    who = torch.arange(batch.size, device=free.device)
    draw = torch.randint(2**KEY, (batch.size,), generator=generator, device=free.device)
    order = (batch.classes << KEY | draw).argsort()  # class by class
    ordered = batch.classes[order]
    first = order[torch.searchsorted(ordered, ordered)]  # of the class
    following = order.roll(-1)
    lender = who.index_copy(0, order, following.where(batch.classes[following] == ordered, first))  # (B,)

    slots = batch.slot.max() + 1 if len(batch) else 1
    owned = (batch.entity * slots + batch.slot).where(batch.known, -1).sort().values
    wanted = lender[batch.entity] * slots + batch.slot
    found = owned[torch.searchsorted(owned, wanted).clamp(max=max(len(batch) - 1, 0))] == wanted

    chosen = torch.rand(batch.size, generator=generator, device=free.device) < share
    hidden = free & ~found & chosen[batch.entity]
    D, M = (
        torch.zeros(batch.size, device=free.device).index_add_(0, batch.entity, some.float()) for some in (free, hidden)
    )
    weight = (D / M.clamp(min=1)).where(M > 0, 0)
    return hidden, weight[batch.entity]
