"""Questions about known values: masked tokens of entities, from which experts and their weights are fitted.

Every value is masked alone, as it is in an entity that lacks it, and every composite as a whole; then rounds mask many
values at once. Some values of rare slots can be asked for besides.

T tokens   B entities of a batch   N entities   C classes
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import torch
from torch import Generator, Tensor

from kbdisk.data.dataset import CHUNK, Batch, Layout, Tokens
from kbdisk.experts.base import LITTLE_VISIBLE, visibility_levels, visible_amount
from kbdisk.model.masking import Hidden, Hiding, hide, shuffled

MAX_HELD_OUT_VALUES = 1 << 14  # that weights are fitted to
RARE_SHARE = 0.5  # of the entities: a slot that fewer have is rare
VALUES_OF_RARE = 32  # of a rare slot, that are asked for
BELOW_USUAL = 0.1  # of the entities of a class have less visible than is usual

Question: TypeAlias = tuple[Batch, Hidden, Tensor]  # entities, their masks, and (B,) the level of each entity


def usual_amounts(tokens: Tokens) -> Tensor:
    """(C,) the usual amount: what nearly every entity of a class has visible where one of its values is masked alone."""
    amounts = torch.cat(
        [visible_amount(part.owner, part.units, part.free, len(part)) for part in tokens.parts()]
    )  # (N,)
    usual = torch.zeros(len(tokens.layout.offsets) - 1, dtype=torch.long, device=amounts.device)
    for of_class in tokens.classes.unique().tolist():
        ascending = amounts[tokens.classes == of_class].sort().values
        usual[of_class] = ascending[int(BELOW_USUAL * len(ascending))] - 1
    return usual


def draw_entities(tokens: Tokens, max_values: int, generator: Generator, among: Tensor | None = None) -> Tensor:
    """Random entities with so many values in all, at most; the smallest first. `among`: only these (n,)."""
    count = len(tokens) if among is None else len(among)
    order = torch.randperm(count, generator=generator, device=tokens.slot.device)
    order = order if among is None else among[order]
    order = order[tokens.sizes[order] <= max_values]  # a larger one would leave no room for any other
    drawn = order[tokens.sizes[order].cumsum(0) <= max_values]
    return drawn[tokens.sizes[drawn].argsort(stable=True)]


def chunks(tokens: Tokens, entities: Tensor, size: int = CHUNK) -> Iterator[Tensor]:
    """Entities in chunks of about `size` tokens."""
    chunk = tokens.sizes[entities].cumsum(0) // size
    yield from entities.split(chunk.unique_consecutive(return_counts=True)[1].tolist())


def questions_about(
    tokens: Tokens,
    entities: Tensor,
    usual_amount: Tensor,
    rounds: int,
    generator: Generator,
    report: Callable[[int], None] = lambda count: None,
) -> Iterator[Question]:
    """The `questions` of some entities, chunk by chunk; `report` gets the number of entities of each finished chunk."""
    for chunk in chunks(tokens, entities):
        yield from questions(tokens.batch(chunk), tokens.layout, usual_amount, rounds, generator)
        report(len(chunk))


def questions(
    batch: Batch, layout: Layout, usual_amount: Tensor, rounds: int, generator: Generator
) -> Iterator[Question]:
    """`questions_alone`, then `questions_in_rounds`."""
    yield from questions_alone(batch, layout, usual_amount, generator)
    yield from questions_in_rounds(batch, layout, usual_amount, rounds, generator)


def questions_alone(
    batch: Batch, layout: Layout, usual_amount: Tensor, generator: Generator, left_out: Tensor | None = None
) -> Iterator[Question]:
    """Masks every value of some entities alone, but for tokens (T,) that are left out, and every composite as a whole.

    With the length of a list its items are masked: an entity that lacks the length has no items.
    """
    free = batch.known & ~batch.fixed
    unit, count = batch.unit.unique(return_inverse=True)[1], batch.unit.new_zeros(len(batch))
    in_composite = count.index_add(0, unit, free.long())[unit] > 1
    single = torch.arange(len(batch), device=free.device)
    alone = free if left_out is None else free & ~left_out
    for among, group in ((alone, single), (free & in_composite, batch.unit)):
        place, size = shuffled(batch, among, generator, group)
        for turn in range(int(size.max()) if len(size) else 0):
            masked = among & (place == turn)
            visible, levels = _remaining(batch, layout, masked, usual_amount)
            yield batch, Hidden(visible, masked, masked.float()), levels


def rare_values(tokens: Tokens, slots: Collection[int], generator: Generator) -> dict[int, Tensor]:
    """Some entities (n,) that have a value, for each of the slots that few have: the rarest slot first."""
    free = tokens.free.nonzero()[:, 0]
    free = free[torch.randperm(len(free), generator=generator, device=free.device)]
    free = free[tokens.slot[free].argsort(stable=True)]  # by slot, in random order within each
    count = tokens.slot[free].bincount(minlength=len(tokens.layout.fixed))
    of_slots = dict(enumerate(free.split(count.tolist())))
    rare = [slot for slot in sorted(slots) if 0 < len(of_slots[slot]) < RARE_SHARE * len(tokens)]
    drawn = {slot: of_slots[slot][:VALUES_OF_RARE] for slot in sorted(rare, key=lambda slot: len(of_slots[slot]))}
    return {slot: tokens.owners_of(values).unique() for slot, values in drawn.items()}


def questions_about_rare(tokens: Tokens, rare: Mapping[int, Tensor], usual_amount: Tensor) -> Iterator[Question]:
    """Masks the `rare_values`, those of one slot in each question. Questions about random entities would reach them late, or never."""
    for slot, entities in rare.items():
        for chunk in chunks(tokens, entities):
            batch = tokens.batch(chunk)
            masked = batch.known & (batch.slot == slot)
            visible, levels = _remaining(batch, tokens.layout, masked, usual_amount)
            yield batch, Hidden(visible, masked, masked.float()), levels


class Masked(NamedTuple):
    """Tokens that are masked, each alone or with the tokens that depend on it, and the tokens that are visible beside each."""

    tokens: Tensor  # (T,)
    visible: Tensor  # (T,) may show a masked token itself, which its slot's own features have to hide
    levels: Tensor  # (T,) of the entity of each masked token

    def narrowed(self, batch: Batch) -> tuple[Batch, Masked, Tensor]:
        """The batch with only the entities of masked tokens, the same masks of its tokens, and the entities (m,), ascending."""
        has_masked = torch.zeros(batch.size, dtype=torch.bool, device=batch.entity.device)
        has_masked[batch.entity[self.tokens]] = True
        part, kept = batch.of_entities(has_masked)
        return part, Masked(*(mask[kept] for mask in self)), has_masked.nonzero()[:, 0]


def masked_alone(batch: Batch, layout: Layout, usual_amount: Tensor, generator: Generator) -> Iterator[Masked]:
    """The `questions_alone`, those about independent tokens all at once: beside each all known tokens are visible."""
    independent, known = independent_tokens(batch, layout), batch.seen(batch.known)
    counted = known & ~batch.fixed
    parts = batch.unit.new_zeros(len(batch)).index_add(0, batch.unit, counted.long())[batch.unit]
    amount = visible_amount(batch.entity, batch.unit, counted, batch.size)[batch.entity] - (parts == 1).long()
    yield Masked(independent, known, (amount < usual_amount[batch.classes][batch.entity]).long())
    for _, hidden, levels in questions_alone(batch, layout, usual_amount, generator, left_out=independent):
        yield Masked(hidden.asked, hidden.visible, levels[batch.entity])


def independent_tokens(batch: Batch, layout: Layout) -> Tensor:
    """(T,) known values with which nothing else is masked: no evidence came over them, and they are no length of a list."""
    is_length = torch.zeros(len(layout.fixed), dtype=torch.bool, device=batch.slot.device)
    is_length[layout.lists[layout.lists >= 0]] = True
    independent = batch.known & ~batch.fixed & ~is_length[batch.slot]
    return independent.index_fill(0, batch.needs[:, 1], False)


def questions_in_rounds(
    batch: Batch, layout: Layout, usual_amount: Tensor, rounds: int, generator: Generator
) -> Iterator[Question]:
    """Masks many values of some entities at once in each round, all of them in the first.

    Only those entities are asked about of which little is left visible: all values of the others are masked alone.
    """
    for turn in range(rounds):
        hidden = hide(batch, Hiding(rate="count", everything=float(turn == 0)), generator)
        visible, levels = _remaining(batch, layout, hidden.asked, usual_amount)
        has_little = (levels == LITTLE_VISIBLE)[batch.entity]
        yield batch, Hidden(visible, hidden.asked & has_little, hidden.weight * has_little), levels


def _remaining(batch: Batch, layout: Layout, masked: Tensor, usual_amount: Tensor) -> tuple[Tensor, Tensor]:
    """(T,) the tokens that are visible beside masked tokens (T,), and (B,) the levels."""
    visible = batch.seen(batch.known & ~masked & ~layout.places(batch, masked))
    return visible, visibility_levels(batch, visible, usual_amount)


def reserved_questions(
    training: Tokens,
    complete: Tokens,
    usual_amount: Tensor,
    generator: Generator | None = None,
    slots: Collection[int] | None = None,
) -> Iterator[Question]:
    """Asks for the values that were reserved from training, all of an entity's at once, given its training values.

    With `slots`, for those of these slots alone. With a generator in random order, as there may not be time for all.
    """
    is_wanted = torch.full_like(complete.layout.fixed, slots is None)  # (S,)
    is_wanted[sorted(slots or ())] = True
    is_asked = complete.known & ~training.known & is_wanted[complete.slot]
    entities = complete.owners_of(is_asked.nonzero()[:, 0]).unique()
    batches = list(chunks(complete, entities[complete.sizes[entities].argsort(stable=True)]))
    order: Iterable[int] = range(len(batches))
    if generator is not None:
        order = torch.randperm(len(batches), generator=generator, device=generator.device).tolist()
    for chunk in map(batches.__getitem__, order):
        batch, known = complete.batch(chunk), training.batch(chunk).known
        masked, visible = batch.known & ~known & ~batch.fixed & is_wanted[batch.slot], batch.seen(known)
        yield batch, Hidden(visible, masked, masked.float()), visibility_levels(batch, visible, usual_amount)
