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

from kbdisk.data.dataset import Tokens
from kbdisk.rng import derive_seed

MIN_VALUES_TO_RESERVE = 20  # of a slot, below which none is reserved
RESERVED_SHARE, MAX_RESERVED = 0.1, 100  # of a slot's values
RESERVED_SHARE_OF_FEW, ENOUGH_RESERVED = 0.2, 30  # the larger share, up to so many reserved values
SEED = 11  # mixed with the run's seed


def without_reserved(tokens: Tokens, seed: int) -> Tokens:
    """The tokens without reserved values: composites as a whole, and the evidence over reserved links."""
    units, slot = tokens.units, tokens.slot
    lead = (tokens.free & (units == torch.arange(len(units)))).nonzero()[:, 0]
    lead = lead[torch.randperm(len(lead), generator=Generator().manual_seed(derive_seed(seed, SEED)))]
    lead = lead[slot[lead].argsort(stable=True)]  # by slot, in random order within each
    count = slot[lead].bincount(minlength=len(tokens.layout.fixed))
    rank = torch.arange(len(lead)) - (count.cumsum(0) - count)[slot[lead]]
    quota = torch.maximum(RESERVED_SHARE * count, (RESERVED_SHARE_OF_FEW * count).clamp(max=ENOUGH_RESERVED)).long()
    quota = quota.clamp(max=MAX_RESERVED).where(count >= MIN_VALUES_TO_RESERVE, 0)
    reserved = torch.zeros(len(units), dtype=torch.bool).index_fill(0, lead[rank < quota[slot[lead]]], True)[units]
    return _without(tokens, reserved)


def without_slots(tokens: Tokens, reserved: Mapping[str, Sequence[int]]) -> Tokens:
    """The same tokens with the values in some slots not known, by the ids of entities, and what came over such links."""
    numbers = {id: number for number, id in enumerate(tokens.ids)}
    slots = len(tokens.layout.fixed)
    keys = [numbers[id] * slots + slot for id, of_entity in reserved.items() if id in numbers for slot in of_entity]
    return _without(tokens, torch.isin(tokens.owner * slots + tokens.slot, torch.tensor(keys)) & tokens.free)


def _without(tokens: Tokens, reserved: Tensor) -> Tokens:
    """The same tokens with those that are reserved (T,) not known, and what came over links that are."""
    entity = torch.arange(len(tokens)).repeat_interleave(tokens.need_offsets.diff())
    needs = tokens.needs + tokens.offsets[entity][:, None]  # (E, 2)
    reserved = reserved.index_fill(0, needs[reserved[needs[:, 1]], 0], True)
    return replace(tokens, known=tokens.known & ~reserved)


def reserved_slots(training: Tokens, complete: Tokens) -> dict[str, list[int]]:
    """The slots of reserved values, by the ids of entities: those that `complete` has and training lacks, without evidence."""
    reserved = (complete.free & ~training.known).cpu()
    slots: dict[str, list[int]] = {}
    for entity, slot in zip(complete.owner[reserved].tolist(), complete.slot[reserved].tolist(), strict=True):
        slots.setdefault(complete.ids[entity], []).append(slot)
    return slots
