"""Reserved values: a sample of each property's known values that training leaves out, to weigh experts by.

They measure experts where they are used: a gap stands in an entity whose other values are known, and so are the values of
the entities that it links to. Of an entity that is held out with its neighbours, much less is known.

T tokens   E needs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Generator, Tensor

from kbdisk.data.dataset import Tokens
from kbdisk.rng import derive_seed

MIN_VALUES = 20  # of a slot, below which none is reserved
SHARE, MAX_RESERVED = 0.1, 100  # of a slot's values
SHARE_OF_FEW, ENOUGH_RESERVED = 0.2, 30  # the larger share that counts until so many are reserved
SEED = 11  # mixed with the run's seed


def without_reserved(tokens: Tokens, seed: int) -> Tokens:
    """The same tokens with reserved values not known: whole composites, and what came over links that are reserved."""
    units, slot = tokens.units, tokens.slot
    lead = (tokens.free & (units == torch.arange(len(units)))).nonzero()[:, 0]
    lead = lead[torch.randperm(len(lead), generator=Generator().manual_seed(derive_seed(seed, SEED)))]
    lead = lead[slot[lead].argsort(stable=True)]  # by slot, in random order within each
    count = slot[lead].bincount(minlength=len(tokens.layout.fixed))
    rank = torch.arange(len(lead)) - (count.cumsum(0) - count)[slot[lead]]
    quota = torch.maximum(SHARE * count, (SHARE_OF_FEW * count).clamp(max=ENOUGH_RESERVED)).long()
    quota = quota.clamp(max=MAX_RESERVED).where(count >= MIN_VALUES, 0)
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


def reserved_slots(training: Tokens, whole: Tokens) -> dict[str, list[int]]:
    """By the ids of entities the slots of which the whole has values that training leaves out; evidence does not count."""
    reserved = (whole.free & ~training.known).cpu()
    found: dict[str, list[int]] = {}
    for entity, slot in zip(whole.owner[reserved].tolist(), whole.slot[reserved].tolist(), strict=True):
        found.setdefault(whole.ids[entity], []).append(slot)
    return found
