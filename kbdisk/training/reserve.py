"""Reserved values: a sample of each property's known values that training leaves out, to weigh experts by.

They measure experts as they are used: the other values of an entity with a gap are known, and so are the values of the
entities that it links to. Of an entity that is held out together with its neighbours much less is known.

T tokens   E needs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Generator, Tensor

from kbdisk.data.dataset import Tokens, within
from kbdisk.rng import derive_seed

MIN_VALUES_TO_RESERVE = 20  # of a slot, below which none is reserved
RESERVED_SHARE, MAX_RESERVED = 0.1, 100  # of a slot's values
RESERVED_SHARE_OF_FEW, ENOUGH_RESERVED = 0.2, 30  # the larger share, up to so many reserved values
SEED = 11  # mixed with the run's seed


def without_reserved(tokens: Tokens, seed: int) -> Tokens:
    """The tokens without reserved values: composites as a whole, and the evidence over reserved links."""
    slot = tokens.slot
    lead = torch.cat([_is_leading(part) for part in tokens.parts()]).nonzero()[:, 0]
    lead = lead[torch.randperm(len(lead), generator=Generator().manual_seed(derive_seed(seed, SEED)))]
    lead = lead[slot[lead].argsort(stable=True)]  # by slot, in random order within each
    count = slot[lead].bincount(minlength=len(tokens.layout.fixed))
    rank = torch.arange(len(lead)) - (count.cumsum(0) - count)[slot[lead]]
    quota = torch.maximum(RESERVED_SHARE * count, (RESERVED_SHARE_OF_FEW * count).clamp(max=ENOUGH_RESERVED)).long()
    quota = quota.clamp(max=MAX_RESERVED).where(count >= MIN_VALUES_TO_RESERVE, 0)
    chosen = lead[rank < quota[slot[lead]]]
    entities = tokens.owners_of(chosen).unique()
    owner, token = within(tokens.offsets, entities)
    unit = tokens.offsets[entities[owner]] + tokens.unit[token]
    return _without(tokens, token[torch.isin(unit, chosen)])


def _is_leading(tokens: Tokens) -> Tensor:
    """(T,) whether each token is a known value, and the first of its composite."""
    return tokens.free & (tokens.units == torch.arange(len(tokens.slot)))


def without_slots(tokens: Tokens, reserved: Mapping[str, Sequence[int]]) -> Tokens:
    """The same tokens with the values in some slots not known, by the ids of entities, and what came over such links."""
    numbers = {id: number for number, id in enumerate(tokens.ids) if id in reserved}
    slots = len(tokens.layout.fixed)
    keys = torch.tensor([number * slots + slot for id, number in numbers.items() for slot in reserved[id]])
    entities = torch.tensor(list(numbers.values()), dtype=torch.long)
    owner, token = within(tokens.offsets, entities)
    known = tokens.known[token] & ~tokens.layout.fixed[tokens.slot[token]]
    return _without(tokens, token[torch.isin(entities[owner] * slots + tokens.slot[token], keys) & known])


def _without(tokens: Tokens, reserved: Tensor) -> Tokens:
    """The same tokens with some (n,) not known, and what came over links that are among them."""
    is_reserved = torch.zeros(len(tokens.slot), dtype=torch.bool).index_fill(0, reserved, True)
    parts = list(tokens.parts())
    known = []
    for part, gone in zip(parts, is_reserved.split([len(part.slot) for part in parts]), strict=True):
        entity = torch.arange(len(part)).repeat_interleave(part.need_offsets.diff())
        needs = part.needs + part.offsets[entity][:, None]  # (E, 2)
        known.append(part.known & ~gone.index_fill(0, needs[gone[needs[:, 1]], 0], True))
    return replace(tokens, known=torch.cat(known))


def reserved_slots(training: Tokens, complete: Tokens) -> dict[str, list[int]]:
    """The slots of reserved values, by the ids of entities: those that `complete` has and training lacks, without evidence."""
    reserved = (complete.free & ~training.known).cpu()
    slots: dict[str, list[int]] = {}
    entities = complete.owners_of(reserved.nonzero()[:, 0].to(complete.offsets.device))
    for entity, slot in zip(entities.tolist(), complete.slot[reserved].tolist(), strict=True):
        slots.setdefault(complete.ids[entity], []).append(slot)
    return slots
