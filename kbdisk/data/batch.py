"""A batch: some entities as flat tokens, one for each property that an entity has or is asked for.

Tokens are sorted by slot (a class's path), and slots by kind: the tokens of a kind are one slice, those of a slot
are one slice of it. Nothing is as long as the schema: cost grows with what the entities have.

B entities   T tokens   n of them of one kind
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from kbdisk.schemas.kinds import KINDS

NOBODY = -1  # the number of an entity without an id
FLAT = ("entity", "slot", "known", "fixed", "absent", "rarity")  # of a batch: what is true of tokens, one by one


@dataclass(frozen=True)
class Batch:
    """Some entities as tensors. What is true of a token: known (there), fixed (never hidden nor predicted), absent."""

    classes: Tensor  # (B,) which class each entity is of
    entity: Tensor  # (T,) whose each token is
    slot: Tensor  # (T,) which of the codec's slots, ascending
    known: Tensor  # (T,) the value is there; what is neither known nor absent is asked for
    values: Mapping[str, Tensor]  # kind -> (n, ...) codes of its tokens, in order; anything where not known
    spans: Mapping[str, tuple[int, int]]  # kind -> where its tokens begin and end
    fixed: Tensor  # (T,) evidence: visible wherever what it came over is, never hidden by itself, never predicted
    unit: Tensor  # (T,) the first token of the composite that each is part of, or itself
    needs: Tensor  # (E, 2) a token, and one without which it is not seen: the link that its value came over
    absent: Tensor  # (T,) drawn from what the entity does not have, to learn presence by
    rarity: Tensor  # (T,) how many absent properties each drawn one stands for
    who: Tensor  # (B,) a number of each entity's id, by which it is told from others; -1 where it has none

    @property
    def size(self) -> int:
        """How many entities."""
        return len(self.classes)

    def __len__(self) -> int:
        return len(self.entity)

    @property
    def asked(self) -> Tensor:
        """(T,) what is to be predicted: not there, and not known to be absent."""
        return ~self.known & ~self.absent

    def seen(self, visible: Tensor) -> Tensor:
        """What is visible once everything that came over a link which is not has gone, too: (T,)."""
        if len(self.needs) == 0:
            return visible
        lacking = self.needs[~visible[self.needs[:, 1]], 0]
        return visible.index_fill(0, lacking, False)

    def without(self, kind: str, some: Tensor) -> Tensor:
        """Those of some tokens (T,) that are not of a kind."""
        start, end = self.spans.get(kind, (0, 0))
        return some.index_fill(0, torch.arange(start, end, device=some.device), False)

    def only(self, kept: Tensor) -> Batch:
        """Itself with some of its tokens (T,) alone."""
        place = F.pad(kept.cumsum(0), (1, 0))  # (T + 1,) how many of them come before each
        first = place.new_zeros(len(kept)).scatter_reduce(
            0, self.unit[kept], place[:-1][kept], "amin", include_self=False
        )
        own: dict[str, Any] = {name: vars(self)[name][kept] for name in FLAT}
        return replace(
            self,
            **own,
            values={kind: codes[kept[slice(*self.spans[kind])]] for kind, codes in self.values.items()},
            spans={kind: (int(place[start]), int(place[end])) for kind, (start, end) in self.spans.items()},
            unit=first[self.unit[kept]],
            needs=place[self.needs[kept[self.needs].all(1)]],
        )

    def with_values(self, kind: str, rows: Tensor, codes: Tensor) -> Batch:
        """Itself with these codes at some of a kind's tokens (indices within the kind), now known."""
        old = self.values[kind]
        padding = KINDS[kind].padding
        if padding is not None:
            longest = max(old.shape[1], codes.shape[1])
            old, codes = (F.pad(one, (0, longest - one.shape[1]), value=padding) for one in (old, codes))
        values = {**self.values, kind: old.index_copy(0, rows, codes)}
        known = self.known.index_fill(0, rows + self.spans[kind][0], True)
        return replace(self, values=values, known=known)

    def repeat(self, times: int) -> Batch:
        """Each entity so many times: token t becomes the tokens t * times, t * times + 1, ..."""
        turns = torch.arange(times, device=self.entity.device)
        each: dict[str, Any] = {
            name: value.repeat_interleave(times, 0) for name, value in vars(self).items() if torch.is_tensor(value)
        }
        each["entity"] = (self.entity[:, None] * times + turns).flatten()
        each["unit"] = (self.unit[:, None] * times + turns).flatten()
        each["needs"] = (self.needs[:, None] * times + turns[:, None]).flatten(0, 1)
        values = {kind: codes.repeat_interleave(times, 0) for kind, codes in self.values.items()}
        spans = {kind: (start * times, end * times) for kind, (start, end) in self.spans.items()}
        return replace(self, **each, values=values, spans=spans)

    def to(self, device: torch.device | str) -> Batch:
        """Itself on a device."""
        moved: dict[str, Any] = {
            name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **moved, values={kind: codes.to(device) for kind, codes in self.values.items()})


def plain(classes: Tensor, entity: Tensor, slot: Tensor, known: Tensor, values: Mapping[str, Tensor]) -> Batch:
    """A batch of tokens that stand alone: no evidence, no composites, nothing absent; kinds in the order given."""
    ends = torch.tensor([0, *(len(codes) for codes in values.values())]).cumsum(0).tolist()
    return Batch(
        classes=classes,
        entity=entity,
        slot=slot,
        known=known,
        values=values,
        spans=dict(zip(values, pairwise(ends), strict=True)),
        fixed=torch.zeros_like(known),
        unit=torch.arange(len(entity)),
        needs=entity.new_zeros(0, 2),
        absent=torch.zeros_like(known),
        rarity=torch.ones(len(entity)),
        who=torch.full_like(classes, NOBODY),
    )
