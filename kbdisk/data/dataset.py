"""A data set as tensors: `Tokens`, all entities encoded once, and `Batch`, some of them gathered from it.

A token is a property that an entity has or is asked for. Within a data set the tokens of an entity stand together, sorted by
slot (a class's path); `offsets` says where each entity begins. Codes are kept once for each kind, and a token has the number
of its row there; row 0 is the blank, of a value that is not known.

The tokens of a batch are sorted by slot, and slots by kind: the tokens of a kind are one slice, those of a slot are one slice
of it. Nothing is as long as the schema: the cost grows with the values that entities have.

N entities of the data set, B of a batch   T tokens, n of them of one kind   S slots   C classes   E needs   L nested lists
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from kbdisk.schemas.kinds import KINDS

NO_ID = -1  # the hash of an entity without an id
PER_TOKEN = ("entity", "slot", "known", "fixed", "absent", "rarity")  # attributes of a batch that are (T,)
CHUNK = 4096  # tokens in a batch of a pass without gradients
ENTITIES_PER_PART = 20_000  # of a pass over all tokens
DIVIDED = {  # offsets, and the arrays that they divide by entity
    "offsets": ("slot", "row", "known", "unit"),
    "need_offsets": ("needs",),
    "held_offsets": ("held",),
}
Movable = TypeVar("Movable", bound="Layout | Codes | RaggedCodes | Tokens")


@dataclass(frozen=True)
class Batch:
    """Some entities as tensors. A token is known, absent, or asked for; it may be fixed: never hidden by itself nor predicted."""

    classes: Tensor  # (B,) the class of each entity
    entity: Tensor  # (T,) the entity of each token, within the batch
    slot: Tensor  # (T,) the codec's slot of each token, ascending
    known: Tensor  # (T,) the value is known; a token that is neither known nor absent is asked for
    values: Mapping[str, Tensor]  # kind -> (n, ...) codes of its tokens, in order; any where not known
    spans: Mapping[str, tuple[int, int]]  # kind -> start and end of its tokens
    fixed: Tensor  # (T,) evidence: visible where the link is that it came over, never hidden by itself, never predicted
    unit: Tensor  # (T,) the first token of the composite that each is part of, or itself
    needs: Tensor  # (E, 2) a token, and the token of the link that its value came over, without which it is not visible
    absent: Tensor  # (T,) drawn from the properties that the entity lacks, to learn presence
    rarity: Tensor  # (T,) the number of lacking properties that each drawn one stands for
    id_hash: Tensor  # (B,) the hash of each entity's id; NO_ID where it has none

    @property
    def size(self) -> int:
        """The number of entities."""
        return len(self.classes)

    def __len__(self) -> int:
        return len(self.entity)

    @property
    def asked(self) -> Tensor:
        """(T,) tokens to be predicted: neither known nor absent."""
        return ~self.known & ~self.absent

    def seen(self, visible: Tensor) -> Tensor:
        """(T,) the visible tokens without evidence over links that are not visible."""
        if len(self.needs) == 0:
            return visible
        lacking = self.needs[~visible[self.needs[:, 1]], 0]
        return visible.index_fill(0, lacking, False)

    def without(self, kind: str, some: Tensor) -> Tensor:
        """(T,) some tokens without those of a kind."""
        start, end = self.spans.get(kind, (0, 0))
        return some.index_fill(0, torch.arange(start, end, device=some.device), False)

    def only(self, kept: Tensor) -> Batch:
        """Itself with only the kept tokens (T,)."""
        place = F.pad(kept.cumsum(0), (1, 0))  # (T + 1,) the number of kept tokens before each
        first = place.new_zeros(len(kept)).scatter_reduce(
            0, self.unit[kept], place[:-1][kept], "amin", include_self=False
        )
        per_token: dict[str, Any] = {name: vars(self)[name][kept] for name in PER_TOKEN}
        return replace(
            self,
            **per_token,
            values={kind: codes[kept[slice(*self.spans[kind])]] for kind, codes in self.values.items()},
            spans={kind: (int(place[start]), int(place[end])) for kind, (start, end) in self.spans.items()},
            unit=first[self.unit[kept]],
            needs=place[self.needs[kept[self.needs].all(1)]],
        )

    def of_entities(self, wanted: Tensor) -> tuple[Batch, Tensor]:
        """Only the entities that are wanted (B,), and which tokens (T,) are theirs."""
        kept = wanted[self.entity]
        tokens, place = self.only(kept), wanted.cumsum(0) - 1
        part = replace(tokens, classes=self.classes[wanted], entity=place[tokens.entity], id_hash=self.id_hash[wanted])
        return part, kept

    def with_values(self, kind: str, rows: Tensor, codes: Tensor) -> Batch:
        """Itself with codes for some tokens of a kind (indices within the kind), which become known."""
        old = self.values[kind]
        padding = KINDS[kind].padding
        if padding is not None:
            longest = max(old.shape[1], codes.shape[1])
            old, codes = (F.pad(part, (0, longest - part.shape[1]), value=padding) for part in (old, codes))
        values = {**self.values, kind: old.index_copy(0, rows, codes)}
        known = self.known.index_fill(0, rows + self.spans[kind][0], True)
        return replace(self, values=values, known=known)

    def repeat(self, times: int) -> Batch:
        """Each entity repeated: token t becomes the tokens t * times, t * times + 1, ..."""
        turns = torch.arange(times, device=self.entity.device)
        repeated: dict[str, Any] = {
            name: value.repeat_interleave(times, 0) for name, value in vars(self).items() if torch.is_tensor(value)
        }
        repeated["entity"] = (self.entity[:, None] * times + turns).flatten()
        repeated["unit"] = (self.unit[:, None] * times + turns).flatten()
        repeated["needs"] = (self.needs[:, None] * times + turns[:, None]).flatten(0, 1)
        values = {kind: codes.repeat_interleave(times, 0) for kind, codes in self.values.items()}
        spans = {kind: (start * times, end * times) for kind, (start, end) in self.spans.items()}
        return replace(self, **repeated, values=values, spans=spans)

    def to(self, device: torch.device | str) -> Batch:
        """Itself on a device."""
        moved: dict[str, Any] = {
            name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **moved, values={kind: codes.to(device) for kind, codes in self.values.items()})


def plain_batch(classes: Tensor, entity: Tensor, slot: Tensor, known: Tensor, values: Mapping[str, Tensor]) -> Batch:
    """A batch without evidence, composites and absent tokens; kinds in the given order."""
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
        id_hash=torch.full_like(classes, NO_ID),
    )


@dataclass(frozen=True)
class Layout:
    """Facts about slots, by their numbers."""

    spans: Mapping[str, tuple[int, int]]  # kind -> start and end of its slots
    fixed: Tensor  # (S,) evidence, never hidden by itself nor predicted
    own: Tensor  # the slots that entities may lack, class by class, ascending
    offsets: Tensor  # (C + 1,) the start of each class's part of `own`
    order: Tensor  # (S,) the place of each slot in the order of drawing: that of the schema, then lists, then texts
    lists: Tensor  # (S, L) the slots of the lengths of the lists that each slot is in; -1 for none
    blocks: Tensor  # (S,) the first slot of the class that has the same first key

    def places(self, batch: Batch, lengths: Tensor) -> Tensor:
        """(T,) the items of the lists whose lengths are among some tokens (T,): items disclose a length."""
        lists, slots = self.lists[batch.slot], len(self.fixed)  # (T, L)
        length_of = (batch.entity[:, None] * slots + lists).where(lists >= 0, -1)
        return torch.isin(length_of, (batch.entity * slots + batch.slot)[lengths]).any(1)


@dataclass(frozen=True)
class Codes:
    """The codes of one kind, row by row; row 0 is the blank."""

    rows: Tensor  # (R, ...) integers of any size
    dtype: torch.dtype  # of what is gathered

    def gather(self, rows: Tensor) -> Tensor:
        """(n,) -> (n, ...)"""
        return self.rows.index_select(0, rows).to(self.dtype)


@dataclass(frozen=True)
class RaggedCodes:
    """The codes of one kind whose rows have different lengths; row 0 is empty."""

    flat: Tensor  # all rows, one after the other; integers of any size
    offsets: Tensor  # (R + 1,)
    padding: int
    dtype: torch.dtype  # of what is gathered

    def gather(self, rows: Tensor) -> Tensor:
        """(n,) -> (n, L), padded to the longest of these."""
        start = self.offsets[rows]
        length = self.offsets[rows + 1] - start  # (n,)
        longest = max(int(length.max()), 1) if len(rows) else 1
        place = torch.arange(longest, device=rows.device)
        is_code = place < length[:, None]  # (n, L)
        codes = torch.full(is_code.shape, self.padding, dtype=self.dtype, device=rows.device)
        codes[is_code] = self.flat[(start[:, None] + place)[is_code]].to(self.dtype)
        return codes


@dataclass(frozen=True)
class Tokens:
    """A data set, encoded once.

    Those of its arrays that are as long as its tokens have integers of any size, and may be memory-mapped: see `shards`. Batches
    are of int64.
    """

    layout: Layout
    ids: tuple[str, ...]  # by which links find the entities
    id_hash: Tensor  # (N,) of each id
    classes: Tensor  # (N,)
    offsets: Tensor  # (N + 1,)
    slot: Tensor  # (T,)
    row: Tensor  # (T,) of the codes of its kind
    known: Tensor  # (T,)
    unit: Tensor  # (T,) the first token of the composite that it is part of, counted within the entity
    needs: Tensor  # (E, 2) a token, and the link that it came over, counted within the entity
    need_offsets: Tensor  # (N + 1,)
    held: Tensor  # (H,) for each slot of its class that an entity does not lack, the number of slots before it that it lacks: ascending within the entity
    held_offsets: Tensor  # (N + 1,)
    codes: Mapping[str, Codes | RaggedCodes]
    unread: tuple[str, ...] = ()  # values that could not be encoded, and why

    def __len__(self) -> int:
        return len(self.classes)

    def part(self, start: int, end: int) -> Tokens:
        """The entities from `start` to before `end`, as views of the same arrays."""
        cut: dict[str, Any] = {name: getattr(self, name)[start:end] for name in ("ids", "id_hash", "classes")}
        for offsets, divided in DIVIDED.items():
            bounds = getattr(self, offsets)[start : end + 1]
            for name in divided:
                cut[name] = getattr(self, name)[bounds[0] : bounds[-1]]
            cut[offsets] = bounds - bounds[0]
        return replace(self, **cut)

    def parts(self) -> Iterator[Tokens]:
        """All entities, some at a time: what is computed of each token, in int64, is then a fraction of the tokens' memory."""
        for start in range(0, max(len(self), 1), ENTITIES_PER_PART):
            yield self.part(start, min(start + ENTITIES_PER_PART, len(self)))

    def owners_of(self, tokens: Tensor) -> Tensor:
        """(n,) the entities of some tokens (n,)."""
        return torch.searchsorted(self.offsets, tokens, right=True) - 1

    @property
    def sizes(self) -> Tensor:
        """(N,) the number of tokens of each entity."""
        return self.offsets.diff()

    @property
    def lacks(self) -> Tensor:
        """(N,) the number of slots of its class that each entity lacks; slots that are asked for count as held."""
        return self.layout.offsets.diff()[self.classes] - self.held_offsets.diff()

    @property
    def owner(self) -> Tensor:
        """(T,) the entity of each token."""
        return torch.arange(len(self), device=self.slot.device).repeat_interleave(self.sizes)

    @property
    def units(self) -> Tensor:
        """(T,) the first token of the composite that each is part of, counted through all entities."""
        return self.offsets[self.owner] + self.unit

    @property
    def free(self) -> Tensor:
        """(T,) known values that are no evidence."""
        return self.known & ~self.layout.fixed[self.slot]

    def batch(self, indices: Tensor, absent: int = 0, generator: Generator | None = None) -> Batch:
        """Some of the entities; with `absent`, up to so many drawn slots that each entity lacks."""
        indices = indices.to(self.slot.device)
        entity, token = within(self.offsets, indices)  # (t,), t tokens of the data set
        first = (self.offsets[indices + 1] - self.offsets[indices]).cumsum(0) - self.sizes[indices]  # (B,)
        lacking, drawn, rarity = self._lacking(indices, absent, generator)
        t = len(token)

        slot, order = torch.cat([self.slot[token].long(), drawn]).sort(stable=True)  # (T,) each
        place = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
        unit = torch.cat([first[entity] + self.unit[token], torch.arange(t, len(order), device=order.device)])
        row = torch.cat([self.row[token].long(), torch.zeros_like(drawn)])[order]
        owner, need = within(self.need_offsets, indices)
        spans = self._spans(slot)
        return Batch(
            classes=self.classes[indices],
            entity=torch.cat([entity, lacking])[order],
            slot=slot,
            known=torch.cat([self.known[token], torch.zeros_like(drawn, dtype=torch.bool)])[order],
            values={kind: self.codes[kind].gather(row[start:end]) for kind, (start, end) in spans.items()},
            spans=spans,
            fixed=self.layout.fixed[slot],
            unit=place[unit[order]],
            needs=place[self.needs[need] + first[owner][:, None]],
            absent=order >= t,
            rarity=torch.cat([rarity.new_ones(t), rarity])[order],
            id_hash=self.id_hash[indices],
        )

    def to(self, device: torch.device | str) -> Tokens:
        """Itself on a device, where batches are then gathered."""
        codes = {kind: _moved(of_kind, device) for kind, of_kind in self.codes.items()}
        return replace(_moved(self, device), layout=_moved(self.layout, device), codes=codes)

    def _spans(self, slot: Tensor) -> dict[str, tuple[int, int]]:
        """The start and end of the tokens of each kind among sorted ones."""
        bounds = [0, *(end for _, end in self.layout.spans.values())]
        ends = torch.searchsorted(slot, torch.tensor(bounds, device=slot.device)).tolist()
        return {kind: (ends[i], ends[i + 1]) for i, kind in enumerate(self.layout.spans)}

    def _lacking(self, indices: Tensor, most: int, generator: Generator | None) -> tuple[Tensor, Tensor, Tensor]:
        """(a,) each: the entities, the drawn slots that they lack, and the number of lacking slots that each stands for.

        Drawn slots are evenly spread from a random start. Lacking slot r of an entity, from 0, has r + j slots of the class
        before it, where j counts the slots that the entity holds with at most r lacking slots before them.
        """
        layout, device = self.layout, indices.device
        held = self.held_offsets[indices + 1] - self.held_offsets[indices]  # (B,)
        classes = self.classes[indices]
        lacks = layout.offsets.diff()[classes] - held  # (B,)
        count = lacks.clamp(max=most)
        owner = torch.arange(len(indices), device=device).repeat_interleave(count)  # (a,)
        turn = torch.arange(len(owner), device=device) - (count.cumsum(0) - count)[owner]
        rarity = (lacks / count)[owner]
        start = torch.rand(len(indices), dtype=torch.float64, device=device, generator=generator) if most else lacks
        number = ((start[owner] + turn) * lacks[owner] / count[owner]).long().minimum(lacks[owner] - 1)

        holder, place = within(self.held_offsets, indices)
        stride = len(layout.own) + 1  # between the numbers of two entities
        before = torch.searchsorted(holder * stride + self.held[place], owner * stride + number, right=True)
        before -= (held.cumsum(0) - held)[owner]
        return owner, layout.own[layout.offsets[classes][owner] + number + before], rarity

    def lacking(self, indices: Tensor) -> Tensor:
        """(B, S) the slots of its class that each of some entities lacks; slots that are asked for count as held."""
        layout, classes = self.layout, self.classes[indices]
        slots_of_classes = torch.zeros(len(layout.offsets) - 1, len(layout.fixed), dtype=torch.bool)
        owner = torch.arange(len(slots_of_classes)).repeat_interleave(layout.offsets.diff().cpu())
        slots_of_classes[owner, layout.own.cpu()] = True
        lacking = slots_of_classes.to(self.slot.device)[classes]
        entity, place = within(self.held_offsets, indices)
        number = self.held[place] + place - self.held_offsets[indices][entity]
        lacking[entity, layout.own[layout.offsets[classes][entity] + number]] = False
        return lacking


def batches(
    tokens: Tokens, size: int = CHUNK, places: Tensor | None = None, costs: Tensor | None = None
) -> Iterator[tuple[range, Batch]]:
    """All entities in order, or those at some places, in batches of about `size` tokens, each with the range of its entities.

    `costs` (N,) of the entities count in the place of their tokens.
    """
    chosen = torch.arange(len(tokens)) if places is None else places
    ends = [0, *(tokens.sizes if costs is None else costs)[chosen.to(tokens.slot.device)].cumsum(0).tolist()]
    for places_of_batch in packed(ends, size):
        yield places_of_batch, tokens.batch(chosen[places_of_batch.start : places_of_batch.stop])


def packed(ends: Sequence[float], most: float) -> Iterator[range]:
    """The places of items in a row, in ranges that cost `most` together, or of a single item. `ends` are the costs up to each, from 0 on."""
    start, count = 0, len(ends) - 1
    while start < count:
        end = start + 1
        while end < count and ends[end + 1] - ends[start] <= most:
            end += 1
        yield range(start, end)
        start = end


def random_sample(count: int, most: int, seed: int) -> Tensor:
    """The numbers below `count`, or a random sample of `most` of them; ascending."""
    if count <= most:
        return torch.arange(count)
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))[:most].sort().values


def within(offsets: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """The items between the offsets of some entities: the place of each item's entity among them, and its number."""
    start = offsets[indices]
    count = offsets[indices + 1] - start  # (B,)
    owner = torch.arange(len(indices), device=indices.device).repeat_interleave(count)
    return owner, torch.arange(len(owner), device=indices.device) + (start - count.cumsum(0) + count)[owner]


def _moved(data: Movable, device: torch.device | str) -> Movable:
    moved: dict[str, Any] = {name: value.to(device) for name, value in vars(data).items() if isinstance(value, Tensor)}
    return replace(data, **moved)
