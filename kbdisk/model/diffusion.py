"""Masked diffusion over properties. Its whole state is one boolean tensor, `visible` (T,).

hide      the forward process: choose which known properties the model may see (masking.py)
loss      an upper bound on -log p(entity): score the hidden ones
reveal    the reverse process: draw what is asked for, some at a time, each given all before it
beliefs   what is believed of any properties given any others, in one pass

The model is anything that looks at what is visible and returns its beliefs about what is asked.

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

from kbdisk.data.batch import Batch
from kbdisk.model.beliefs import Beliefs, Memo
from kbdisk.model.masking import Hidden, Hiding, hide, placed, shuffled

MOST, TOKENS = 1024, 1 << 14  # entities, and values of them, that are drawn at once: with fewer, each takes longer


def at_once(longest: int) -> int:
    """How many entities are best drawn at once, where one has so many values at most."""
    return max(1, min(MOST, TOKENS // max(longest, 1)))


class Model(Protocol):
    """What diffusion asks of a network."""

    def __call__(self, batch: Batch, visible: Tensor, asked: Tensor, memo: Memo | None = None) -> Beliefs:
        """Beliefs about the asked tokens (T,), given the visible ones (T,) alone."""


@dataclass(frozen=True)
class Loss:
    """What a batch costs, in nats per entity."""

    total: Tensor  # () what training makes less
    nats: Tensor  # () the bound on -log p(entity), whatever the objective and the balance
    presence: Tensor  # () of what is recorded at all
    tokens: Tensor  # (T,) -log p of each hidden one, detached; 0 of the others
    hidden: Hidden

    def by_slot(self, batch: Batch, slots: int) -> tuple[Tensor, Tensor]:
        """(S,) twice: -log p of each slot, summed over its hidden tokens, and how many these were."""
        blank = self.tokens.new_zeros(slots)
        return (
            blank.index_add(0, batch.slot, self.tokens),
            blank.index_add(0, batch.slot, self.hidden.asked.to(blank.dtype)),
        )


def loss(
    model: Model, batch: Batch, hiding: Hiding, *, objective: str = "bound", generator: Generator | None = None
) -> Loss:
    """The bound, in nats per entity."""
    return score(model, batch, hide(batch, hiding, generator), objective=objective)


def score(
    model: Model,
    batch: Batch,
    hidden: Hidden,
    *,
    objective: str = "bound",
    balance: Tensor | None = None,
    presence: float = 1.0,
) -> Loss:
    """The loss of what was hidden; `balance` (S,) divides each slot's part, `presence` weighs the belief in it."""
    if objective not in OBJECTIVES:
        raise ValueError(f"expected one of {', '.join(OBJECTIVES)} for objective, got {objective!r}")
    beliefs = model(batch, hidden.visible, hidden.asked)
    nats = -beliefs.log_prob(batch).where(hidden.asked, 0)  # (T,)
    share = OBJECTIVES[objective](batch, hidden)  # (T,) of each token in the total
    costs = (nats if balance is None else nats / balance[batch.slot]) + beliefs.aside(batch)
    recorded = _presence(batch, hidden, beliefs)
    return Loss(
        total=(share * costs).sum() + presence * recorded,
        nats=(_bound(batch, hidden) * nats.detach()).sum(),
        presence=recorded.detach(),
        tokens=nats.detach(),
        hidden=hidden,
    )


def _bound(batch: Batch, hidden: Hidden) -> Tensor:
    """Proposition 1, a mean over entities."""
    return hidden.weight / max(batch.size, 1)


def _field_mean(batch: Batch, hidden: Hidden) -> Tensor:
    """What the authors' code has instead: the mean over slots of the mean over those of its tokens that are hidden."""
    asked = hidden.asked.float()
    place = (batch.slot.diff(prepend=batch.slot[:1]) != 0).cumsum(0)  # slots that occur, counted from 0
    counts = asked.new_zeros(len(batch)).index_add_(0, place, asked)
    return asked / counts[place].clamp(min=1) / (counts > 0).sum().clamp(min=1)


OBJECTIVES: dict[str, Callable[[Batch, Hidden], Tensor]] = {"bound": _bound, "field-mean": _field_mean}


def _presence(batch: Batch, hidden: Hidden, beliefs: Beliefs) -> Tensor:
    """-log p of what is recorded at all: hidden tokens are; absent ones are not, and stand for others like them.

    What is recorded weighs as in the bound: each as much, over all that may be hidden, as what is always absent does.
    """
    if beliefs.presence is None:
        return torch.zeros((), device=batch.entity.device)
    tokens, logits = beliefs.presence["tokens"], beliefs.presence["logits"]
    absent = batch.absent[tokens]
    weight = batch.rarity[tokens].where(absent, hidden.weight[tokens])
    nats = F.binary_cross_entropy_with_logits(logits, (~absent).to(logits.dtype), weight, reduction="sum")
    return nats / max(batch.size, 1)


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
    """The batch with all that it asks for drawn, `leap` of each entity at a time; what was given is as it was.

    In random order draws follow the model's distribution (at leap 1, to the letter). "certain" takes the lowest
    entropy first, each divided by its slot's `scale` (S,); at temperature 0 each is the likeliest. "given" takes each by
    what is given alone, but parts of a composite one after the other, lower `parts` (S,) first. An order may also be the place
    of each slot (S,).
    Instead of being drawn, codes may be what there is to `say` for a belief.
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
    """`reveal`, pass by pass, until nothing is asked for: the batch as it is after each pass.

    Instead of being drawn, codes may be what there is to `say` for a belief. `first` are the beliefs about all that is asked,
    given what is known before the first pass, where they are known already.
    """
    if isinstance(order, str) and order not in ORDERS:
        raise ValueError(f"expected one of {', '.join(ORDERS)} for order, got {order!r}")
    if leap < 1:
        raise ValueError(f"expected a leap of at least 1, got {leap}")
    # What came over a link that is asked for belongs to the true one, and stays unseen whatever link is drawn.
    apart = batch.known & ~batch.seen(batch.known)
    if isinstance(order, str):
        choose = ORDERS[order](batch, leap, scale, parts, generator)
    else:
        choose = _in_turn(placed(batch, batch.asked, order[batch.slot], _each(batch))[0], leap)
    memo: Memo = {}
    for turn in count():
        asked = batch.asked
        if not bool(asked.any()):
            return
        unfinished = torch.zeros_like(batch.classes, dtype=torch.bool).index_fill_(0, batch.entity[asked], True)  # (B,)
        visible = batch.known & ~apart & unfinished[batch.entity]  # entities that are done cost nothing
        believe = first.pick if turn == 0 and first is not None else partial(model, batch, visible, memo=memo)
        chosen = choose(turn, batch, believe)
        said = chosen.sample(temperature, generator) if say is None else say(chosen)
        for kind, codes in said.items():
            batch = batch.with_values(kind, chosen.kinds[kind].rows, codes)
        yield batch


Say = Callable[[Beliefs], Mapping[str, Tensor]]  # kind -> codes (q, ...) for each asked token
Believe = Callable[[Tensor], Beliefs]  # about some asked tokens (T,), given all that is known by now
Choose = Callable[[int, Batch, Believe], Beliefs]  # about those to be drawn in this turn


def _random_order(
    batch: Batch, leap: int, scale: Tensor | None, parts: Tensor | None, generator: Generator | None
) -> Choose:
    return _in_turn(shuffled(batch, batch.asked, generator)[0], leap)


def _in_turn(place: Tensor, leap: int) -> Choose:
    """By the place (T,) of each token that is asked for."""

    def choose(turn: int, batch: Batch, believe: Believe) -> Beliefs:
        return believe(batch.asked & (place < (turn + 1) * leap))

    return choose


def _each(batch: Batch) -> Tensor:
    """(T,) every token by itself."""
    return torch.arange(len(batch), device=batch.entity.device)


def _certain_first(
    batch: Batch, leap: int, scale: Tensor | None, parts: Tensor | None, generator: Generator | None
) -> Choose:
    single = _each(batch)

    def choose(turn: int, batch: Batch, believe: Believe) -> Beliefs:
        beliefs = believe(batch.asked)
        entropy = beliefs.entropy() if scale is None else beliefs.entropy() / scale[batch.slot]
        place, _ = placed(batch, batch.asked, entropy.argsort().argsort(), single)
        return beliefs.pick(batch.asked & (place < leap))

    return choose


def _by_composite(
    batch: Batch, leap: int, scale: Tensor | None, parts: Tensor | None, generator: Generator | None
) -> Choose:
    """All at once, whatever the leap; but of each composite the first part, then the second, and so on."""
    asked = batch.asked.nonzero()[:, 0]
    if parts is not None:
        asked = asked[parts[batch.slot[asked]].argsort(stable=True)]
    unit, order = batch.unit[asked].sort(stable=True)
    sizes = unit.unique_consecutive(return_counts=True)[1]
    rank = torch.arange(len(asked), device=asked.device) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    return _in_turn(torch.zeros_like(batch.entity).index_put_((asked[order],), rank), 1)


GIVEN = "given"
ORDERS: dict[str, Callable[[Batch, int, Tensor | None, Tensor | None, Generator | None], Choose]] = {
    GIVEN: _by_composite,  # to complete
    "random": _random_order,  # to sample: every order is as likely, as in training
    "certain": _certain_first,  # to complete, each by those before it, too
}


@torch.no_grad()
def beliefs(model: Model, batch: Batch, asked: Tensor | None = None, visible: Tensor | None = None) -> Beliefs:
    """What is believed of the asked tokens (T,) given the visible ones (T,), of all in one pass.

    By default of what the batch asks for, given all else that is known.
    """
    asked = batch.asked if asked is None else asked
    visible = batch.known if visible is None else visible
    return model(batch, batch.seen(visible & ~asked), asked)
