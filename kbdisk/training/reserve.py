"""Known values that nothing learns from: they tell what experts are worth where a value is missing among others.

A gap to be filled stands in an entity of which other values are known, and those that it links to as well. Entities held
out as a whole, with those that they are linked to, are harder than that.

T tokens
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Generator

from kbdisk.randomness import mixed
from kbdisk.tokens import Tokens

SHARE, MOST = 0.1, 100  # of the values of a slot, and how many at most
FIFTH, ENOUGH = 0.2, 20  # of few values: up to so many
FEWEST = 20  # values of a slot, of which some are reserved
SEED = 11  # which are reserved is mixed of that and the run's seed


def without_reserved(tokens: Tokens, seed: int) -> Tokens:
    """The same with some values no longer known, composites as a whole, and what came over links that are gone."""
    generator = Generator().manual_seed(mixed(seed, SEED))
    owner = torch.arange(len(tokens)).repeat_interleave(tokens.sizes.cpu())
    offsets = tokens.offsets.cpu()
    unit, slot = offsets[owner] + tokens.unit.cpu(), tokens.slot.cpu()
    free = (tokens.known & ~tokens.layout.fixed[tokens.slot]).cpu()
    lead = (free & (unit == torch.arange(len(unit)))).nonzero()[:, 0]
    lead = lead[torch.randperm(len(lead), generator=generator)]
    lead = lead[slot[lead].argsort(stable=True)]  # by slot, in random order within each
    count = slot[lead].bincount(minlength=len(tokens.layout.fixed))
    rank = torch.arange(len(lead)) - (count.cumsum(0) - count)[slot[lead]]
    wanted = torch.maximum(SHARE * count, (FIFTH * count).clamp(max=ENOUGH)).long().clamp(max=MOST)
    wanted = torch.where(count >= FEWEST, wanted, 0)
    reserved = torch.zeros(len(unit), dtype=torch.bool).index_fill(0, lead[rank < wanted[slot[lead]]], True)
    gone = reserved[unit]
    needy = torch.arange(len(tokens)).repeat_interleave(tokens.need_offsets.cpu().diff())
    needs = tokens.needs.cpu() + offsets[needy][:, None]  # (E, 2)
    gone = gone.index_fill(0, needs[gone[needs[:, 1]], 0], True)
    return replace(tokens, known=tokens.known & ~gone.to(tokens.known.device))
