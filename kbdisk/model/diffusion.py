"""Masked diffusion over properties: loss and sampler. The whole state is one boolean tensor, `visible` (T,).

hide      the forward process: choose which known properties are visible (masking.py)
loss      an upper bound on -log p(entity), by the beliefs about the hidden ones
reveal    the reverse process: draw the asked tokens, some at a time, each given all drawn before it
beliefs   the beliefs about any properties given any others, in one pass

The model is any callable from visible and asked tokens to beliefs.

B entities   T tokens   S slots
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from itertools import count
from typing import Protocol

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from kbdisk.data.dataset import Batch
from kbdisk.model.beliefs import Beliefs, Memo
from kbdisk.model.masking import Hidden, rank_by_key, shuffled

MAX_ENTITIES_AT_ONCE, MAX_TOKENS_AT_ONCE = 1024, 1 << 14  # drawn in one batch: in smaller ones each draw takes longer


def at_once(longest: int) -> int:
    """The number of entities to draw in one batch, of `longest` values each at most."""
    return max(1, min(MAX_ENTITIES_AT_ONCE, MAX_TOKENS_AT_ONCE // max(longest, 1)))


class Model(Protocol):
    """The network, as diffusion calls it."""

    def __call__(self, batch: Batch, visible: Tensor, asked: Tensor, memo: Memo | None = None) -> Beliefs:
        """Beliefs about the asked tokens (T,), given the visible ones (T,) alone."""


@dataclass(frozen=True)
class Loss:
    """The loss of a batch, in nats per entity."""

    total: Tensor  # () the loss that training minimises
    nats: Tensor  # () the bound on -log p(entity), whatever the objective and the balance
    presence: Tensor  # () -log p of which properties are recorded
    tokens: Tensor  # (T,) -log p of each hidden one, detached; 0 of the others
    hidden: Hidden

    def by_slot(self, batch: Batch, slots: int) -> tuple[Tensor, Tensor]:
        """(S,) twice: -log p of each slot, summed over its hidden tokens, and the count of these."""
        zeros = self.tokens.new_zeros(slots)
        return (
            zeros.index_add(0, batch.slot, self.tokens),
            zeros.index_add(0, batch.slot, self.hidden.asked.to(zeros.dtype)),
        )


def loss(
    model: Model,
    batch: Batch,
    hidden: Hidden,
    *,
    objective: str = "bound",
    balance: Tensor | None = None,
    presence: float = 1.0,
    entities: tuple[int, int] | None = None,
) -> Loss:
    """The bound of the hidden tokens, or another objective; what training minimises is its `total`.

    `balance` (S,) divides the loss of each slot's values, `presence` weighs the loss of which properties are recorded.
    With `entities`, from one to before another, the loss is the sum of their terms in the loss of the batch.
    """
    if objective not in OBJECTIVES:
        raise ValueError(f"expected one of {', '.join(OBJECTIVES)} for objective, got {objective!r}")
    size = max(batch.size, 1)
    share, bound = OBJECTIVES[objective](batch, hidden), _bound(batch, hidden)  # (T,) of each token in the total
    if entities is not None:
        wanted = torch.zeros_like(batch.classes, dtype=torch.bool)
        wanted[slice(*entities)] = True
        batch, kept = batch.of_entities(wanted)
        hidden, share, bound = hidden.only(kept), share[kept], bound[kept]
    beliefs = model(batch, hidden.visible, hidden.asked)
    nats = -beliefs.log_prob(batch).where(hidden.asked, 0)  # (T,)
    costs = (nats if balance is None else nats / balance[batch.slot]) + beliefs.auxiliary_loss(batch)
    recorded = _presence(batch, hidden, beliefs) / size
    return Loss(
        total=(share * costs).sum() + presence * recorded,
        nats=(bound * nats.detach()).sum(),
        presence=recorded.detach(),
        tokens=nats.detach(),
        hidden=hidden,
    )


def _bound(batch: Batch, hidden: Hidden) -> Tensor:
    """Proposition 1, a mean over entities."""
    return hidden.weight / max(batch.size, 1)


def _field_mean(batch: Batch, hidden: Hidden) -> Tensor:
    """The objective of the authors' code: the mean over slots of the mean over their hidden tokens."""
    asked = hidden.asked.float()
    place = (batch.slot.diff(prepend=batch.slot[:1]) != 0).cumsum(0)  # (T,) the slot among those that occur
    counts = asked.new_zeros(len(batch)).index_add_(0, place, asked)
    return asked / counts[place].clamp(min=1) / (counts > 0).sum().clamp(min=1)


OBJECTIVES: dict[str, Callable[[Batch, Hidden], Tensor]] = {"bound": _bound, "field-mean": _field_mean}


def _presence(batch: Batch, hidden: Hidden, beliefs: Beliefs) -> Tensor:
    """-log p of presence, summed: hidden tokens are recorded; absent ones, a sample of all that are absent, are not.

    A hidden token weighs as in the bound, an absent one by how many it stands for (`rarity`).
    """
    if beliefs.presence is None:
        return torch.zeros((), device=batch.entity.device)
    tokens, logits = beliefs.presence["tokens"], beliefs.presence["logits"]
    absent = batch.absent[tokens]
    weight = batch.rarity[tokens].where(absent, hidden.weight[tokens])
    return F.binary_cross_entropy_with_logits(logits, (~absent).to(logits.dtype), weight, reduction="sum")


def reveal(
    model: Model,
    batch: Batch,
    *,
    order: str | Tensor = "random",
    leap: int = 1,
    temperature: float = 1.0,
    scale: Tensor | None = None,
    parts: Tensor | None = None,
    generator: Generator | None = None,
    say: Say | None = None,
) -> Batch:
    """The batch with all asked tokens drawn, `leap` of each entity at a time; given values stay.

    In "random" order draws follow the distribution of the model (at leap 1 exactly). "certain" takes the lowest entropy
    first, divided by the `scale` (S,) of its slot; at temperature 0 each draw is the mode. "given" draws each from the given
    values alone, but parts of a composite one after the other, lower `parts` (S,) first. An order may also be the place
    of each slot (S,). `say` replaces drawing: it returns the codes for a belief.
    """
    turns = revealing(
        model,
        batch,
        order=order,
        leap=leap,
        temperature=temperature,
        scale=scale,
        parts=parts,
        generator=generator,
        say=say,
    )
    return reduce(lambda _, last: last, turns, batch)


@torch.no_grad()
def revealing(
    model: Model,
    batch: Batch,
    *,
    order: str | Tensor = "random",
    leap: int = 1,
    temperature: float = 1.0,
    scale: Tensor | None = None,
    parts: Tensor | None = None,
    generator: Generator | None = None,
    say: Say | None = None,
    first: Beliefs | None = None,
) -> Iterator[Batch]:
    """`reveal`, pass by pass: yields the batch after each pass, until nothing is asked for.

    `first` are the beliefs about all asked tokens given the known ones, where the caller has computed them already.
    """
    if isinstance(order, str) and order not in ORDERS:
        raise ValueError(f"expected one of {', '.join(ORDERS)} for order, got {order!r}")
    if leap < 1:
        raise ValueError(f"expected a leap of at least 1, got {leap}")
    # Evidence over an asked link is that of the true link: it stays hidden, whichever link is drawn.
    over_asked_links = batch.known & ~batch.seen(batch.known)
    if isinstance(order, str):
        passes = ORDERS[order](batch, leap, parts, generator)
    else:
        passes = rank_by_key(batch, batch.asked, order[batch.slot], _single_tokens(batch))[0] // leap
    memo: Memo = {}
    part, places = batch, _single_tokens(batch)  # the entities that are left; (t,) the places of their tokens
    for turn in count():
        asked = part.asked
        if not bool(asked.any()):
            return
        unfinished = torch.zeros_like(part.classes, dtype=torch.bool).index_fill_(0, part.entity[asked], True)
        if (turn or first is None) and 2 * int(unfinished.sum()) <= part.size:
            part, kept = part.of_entities(unfinished)
            places, asked, unfinished, memo = places[kept], asked[kept], unfinished[unfinished], {}
        visible = part.known & ~over_asked_links[places] & unfinished[part.entity]  # finished entities cost nothing
        believe = first.pick if turn == 0 and first is not None else partial(model, part, visible, memo=memo)
        chosen = believe(asked if passes is None else asked & (passes[places] <= turn))
        if passes is None:
            chosen = _most_certain(part, chosen, leap, scale)
        in_batch = chosen.moved_to(places, batch)
        drawn = in_batch.sample(temperature, generator) if say is None else say(in_batch)
        for kind, codes in drawn.items():
            batch = batch.with_values(kind, in_batch.kinds[kind].rows, codes)
            part = part.with_values(kind, chosen.kinds[kind].rows, codes)
        yield batch


Say = Callable[[Beliefs], Mapping[str, Tensor]]  # kind -> codes (q, ...) for each asked token
Passes = Callable[[Batch, int, Tensor | None, Generator | None], Tensor | None]  # (T,) the pass of each asked token


def _random_passes(batch: Batch, leap: int, parts: Tensor | None, generator: Generator | None) -> Tensor:
    return shuffled(batch, batch.asked, generator)[0] // leap


def _passes_by_composite(batch: Batch, leap: int, parts: Tensor | None, generator: Generator | None) -> Tensor:
    """All at once, whatever the leap; but of each composite the first part, then the second, and so on."""
    asked = batch.asked.nonzero()[:, 0]
    if parts is not None:
        asked = asked[parts[batch.slot[asked]].argsort(stable=True)]
    unit, order = batch.unit[asked].sort(stable=True)
    sizes = unit.unique_consecutive(return_counts=True)[1]
    rank = torch.arange(len(asked), device=asked.device) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    return torch.zeros_like(batch.entity).index_put_((asked[order],), rank)


def _passes_by_certainty(batch: Batch, leap: int, parts: Tensor | None, generator: Generator | None) -> None:
    """None: each pass takes the most certain tokens of those that are left, see `_most_certain`."""


def _most_certain(batch: Batch, beliefs: Beliefs, leap: int, scale: Tensor | None) -> Beliefs:
    """The `leap` beliefs about each entity that have the lowest entropy, divided by the `scale` (S,) of its slot."""
    entropy = beliefs.entropy() if scale is None else beliefs.entropy() / scale[batch.slot]
    rank, _ = rank_by_key(batch, batch.asked, entropy.argsort().argsort(), _single_tokens(batch))
    return beliefs.pick(batch.asked & (rank < leap))


def _single_tokens(batch: Batch) -> Tensor:
    """(T,) every token by itself."""
    return torch.arange(len(batch), device=batch.entity.device)


GIVEN = "given"
ORDERS: dict[str, Passes] = {
    GIVEN: _passes_by_composite,  # to complete
    "random": _random_passes,  # to sample: every order is equally likely, as in training
    "certain": _passes_by_certainty,  # to complete, each given those drawn before it
}


@torch.no_grad()
def beliefs(model: Model, batch: Batch, asked: Tensor | None = None, visible: Tensor | None = None) -> Beliefs:
    """The beliefs about the asked tokens (T,) given the visible ones (T,), in one pass.

    By default about the tokens that the batch asks for, given all other known ones.
    """
    asked = batch.asked if asked is None else asked
    visible = batch.known if visible is None else visible
    return model(batch, batch.seen(visible & ~asked), asked)
