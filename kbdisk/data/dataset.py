"""A data set as tensors: `Tokens`, all entities encoded once, and `Batch`, some of them gathered from it.

A token is a property that an entity has or is asked for. Within a data set the tokens of an entity stand together, sorted by
slot (a class's path); `offsets` says where each entity begins. Codes are kept once for each kind, and a token has the number
of its row there; row 0 is the blank, of a value that is not known.

The tokens of a batch are sorted by slot, and slots by kind: the tokens of a kind are one slice, those of a slot are one slice
of it. Nothing is as long as the schema: the cost grows with the values that entities have.

N entities of the data set, B of a batch   T tokens, n of them of one kind   S slots   C classes   E needs   L nested lists
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

NOBODY = -1  # the number of an entity without an id
FLAT = ("entity", "slot", "known", "fixed", "absent", "rarity")  # of a batch: what is true of tokens, one by one
PADDING = {"text": 0, "set": -1}  # the kinds whose codes (n, L) are of any length, and what fills up the shorter ones
CHUNK = 4096  # tokens in a batch of a pass that asks and does not learn
WINDOW = 64  # batches whose entities are sorted by length among themselves
Of = TypeVar("Of", bound="Layout | Codes | RaggedCodes | Tokens")


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
        if kind in PADDING:
            longest = max(old.shape[1], codes.shape[1])
            old, codes = (F.pad(one, (0, longest - one.shape[1]), value=PADDING[kind]) for one in (old, codes))
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


@dataclass(frozen=True)
class Layout:
    """What is true of slots, by their numbers."""

    spans: Mapping[str, tuple[int, int]]  # kind -> where its slots begin and end
    fixed: Tensor  # (S,) evidence, never hidden by itself nor predicted
    own: Tensor  # the slots that entities may lack, class by class, ascending
    offsets: Tensor  # (C + 1,) where those of each class begin
    order: Tensor  # (S,) the place of each in the schema, what stands in lists after all else, texts last
    lists: Tensor  # (S, L) the lengths of the lists that each stands in, by their slots; -1 where there is none
    blocks: Tensor  # (S,) the first slot of the class that has the same first key

    def places(self, batch: Batch, lengths: Tensor) -> Tensor:
        """(T,) what stands in the lists whose lengths are among some tokens (T,): it would tell them."""
        lists, slots = self.lists[batch.slot], len(self.fixed)  # (T, L)
        of = (batch.entity[:, None] * slots + lists).where(lists >= 0, -1)
        return torch.isin(of, (batch.entity * slots + batch.slot)[lengths]).any(1)


@dataclass(frozen=True)
class Codes:
    """The codes of one kind, row by row; row 0 is the blank."""

    rows: Tensor  # (R, ...)

    def gather(self, rows: Tensor) -> Tensor:
        """(n,) -> (n, ...)"""
        return self.rows.index_select(0, rows)


@dataclass(frozen=True)
class RaggedCodes:
    """The codes of one kind whose rows have lengths of their own; row 0 is empty."""

    flat: Tensor  # all rows, one after the other
    offsets: Tensor  # (R + 1,)
    padding: int

    def gather(self, rows: Tensor) -> Tensor:
        """(n,) -> (n, L), padded to the longest of these."""
        start = self.offsets[rows]
        length = self.offsets[rows + 1] - start  # (n,)
        longest = max(int(length.max()), 1) if len(rows) else 1
        place = torch.arange(longest, device=rows.device)
        there = place < length[:, None]  # (n, L)
        codes = torch.full(there.shape, self.padding, dtype=self.flat.dtype, device=rows.device)
        codes[there] = self.flat[(start[:, None] + place)[there]]
        return codes


@dataclass(frozen=True)
class Tokens:
    """A data set."""

    layout: Layout
    ids: tuple[str, ...]  # that links find the entities by
    who: Tensor  # (N,) a number of each id
    classes: Tensor  # (N,)
    offsets: Tensor  # (N + 1,)
    slot: Tensor  # (T,)
    row: Tensor  # (T,) in its kind's codes
    known: Tensor  # (T,)
    unit: Tensor  # (T,) the first token of the composite that it is part of, counted within the entity
    needs: Tensor  # (E, 2) a token, and the link that it came over, counted within the entity
    need_offsets: Tensor  # (N + 1,)
    held: Tensor  # (H,) for each slot of its class that an entity does not lack, how many before it it lacks
    held_offsets: Tensor  # (N + 1,)
    codes: Mapping[str, Codes | RaggedCodes]
    unread: tuple[str, ...] = ()  # values that could not be coded, and why

    def __len__(self) -> int:
        return len(self.classes)

    @property
    def sizes(self) -> Tensor:
        """(N,) how many tokens each entity has."""
        return self.offsets.diff()

    @property
    def owner(self) -> Tensor:
        """(T,) which entity each token belongs to."""
        return torch.arange(len(self), device=self.slot.device).repeat_interleave(self.sizes)

    @property
    def units(self) -> Tensor:
        """(T,) the first token of the composite that each is part of, counted through all entities."""
        return self.offsets[self.owner] + self.unit

    @property
    def free(self) -> Tensor:
        """(T,) known values of an entity's own: no evidence."""
        return self.known & ~self.layout.fixed[self.slot]

    def batch(self, indices: Tensor, absent: int = 0, generator: Generator | None = None) -> Batch:
        """Some of the entities, and of each so many of the slots that its class has and it lacks, drawn."""
        indices = indices.to(self.slot.device)
        entity, token = within(self.offsets, indices)  # (t,), t tokens of the data set
        first = (self.offsets[indices + 1] - self.offsets[indices]).cumsum(0) - self.sizes[indices]  # (B,)
        lacking, drawn, rarity = self._lacking(indices, absent, generator)
        t = len(token)

        slot, order = torch.cat([self.slot[token], drawn]).sort(stable=True)  # (T,) each
        place = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
        unit = torch.cat([first[entity] + self.unit[token], torch.arange(t, len(order), device=order.device)])
        row = torch.cat([self.row[token], torch.zeros_like(drawn)])[order]
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
            who=self.who[indices],
        )

    def to(self, device: torch.device | str) -> Tokens:
        """Itself on a device, where batches are then gathered."""
        codes = {kind: _moved(one, device) for kind, one in self.codes.items()}
        return replace(_moved(self, device), layout=_moved(self.layout, device), codes=codes)

    def _spans(self, slot: Tensor) -> dict[str, tuple[int, int]]:
        """Where the tokens of each kind begin and end among sorted ones."""
        bounds = [0, *(end for _, end in self.layout.spans.values())]
        ends = torch.searchsorted(slot, torch.tensor(bounds, device=slot.device)).tolist()
        return {kind: (ends[i], ends[i + 1]) for i, kind in enumerate(self.layout.spans)}

    def _lacking(self, indices: Tensor, most: int, generator: Generator | None) -> tuple[Tensor, Tensor, Tensor]:
        """Whose, which slots, and how many each stands for: (a,) each. Evenly spread from a random start.

        Of what an entity lacks, numbered from 0, number r is the slot that has r + j places of its class before it, where
        it holds j slots that have at most r lacking ones before them.
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

        key = indices[owner] * self._stride + number
        before = torch.searchsorted(self.held, key, right=True) - self.held_offsets[indices][owner]
        return owner, layout.own[layout.offsets[classes][owner] + number + before], rarity

    def lacking(self, indices: Tensor) -> Tensor:
        """(B, S) which slots of its class each of some entities lacks; what is asked for counts as held."""
        layout, classes = self.layout, self.classes[indices]
        slots_of_classes = torch.zeros(len(layout.offsets) - 1, len(layout.fixed), dtype=torch.bool)
        owner = torch.arange(len(slots_of_classes)).repeat_interleave(layout.offsets.diff().cpu())
        slots_of_classes[owner, layout.own.cpu()] = True
        lacking = slots_of_classes.to(self.slot.device)[classes]
        entity, place = within(self.held_offsets, indices)
        before = place - self.held_offsets[indices][entity]
        number = self.held[place] - indices[entity] * self._stride + before
        lacking[entity, layout.own[layout.offsets[classes][entity] + number]] = False
        return lacking

    @property
    def _stride(self) -> int:
        """What each entity's part of `held` is apart from the next's."""
        return len(self.layout.own) + 1


def shuffled(sizes: Tensor, batch: int, generator: Generator | None = None, *, alike: bool = False) -> Iterator[Tensor]:
    """Every entity once, in batches of so many, in random order; with `alike` those of like size (N,) stand together."""
    order = torch.randperm(len(sizes), generator=generator)
    if not alike:
        yield from torch.split(order, batch)
        return
    windows = [one[sizes[one].argsort(stable=True)] for one in torch.split(order, batch * WINDOW)]
    batches = [one for window in windows for one in torch.split(window, batch)]
    for place in torch.randperm(len(batches), generator=generator).tolist():
        yield batches[place]


def batches(
    tokens: Tokens, size: int = CHUNK, places: Tensor | None = None, costs: Tensor | None = None
) -> Iterator[tuple[range, Batch]]:
    """All entities in order, or those at some places, in batches of some `size` tokens, each with their numbers.

    Where entities have `costs` (N,), these count instead of their tokens.
    """
    chosen = torch.arange(len(tokens)) if places is None else places
    ends = [0, *(tokens.sizes if costs is None else costs)[chosen.to(tokens.slot.device)].cumsum(0).tolist()]
    start = 0
    while start < len(chosen):
        end = start + 1
        while end < len(chosen) and ends[end + 1] - ends[start] <= size:
            end += 1
        yield range(start, end), tokens.batch(chosen[start:end])
        start = end


def by_chance(count: int, most: int, seed: int) -> Tensor:
    """The places of all of a count of things, or of so many of them by chance; ascending."""
    if count <= most:
        return torch.arange(count)
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))[:most].sort().values


def within(offsets: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """Whose and which: all that stands between the offsets of some entities, these counted through."""
    start = offsets[indices]
    count = offsets[indices + 1] - start  # (B,)
    owner = torch.arange(len(indices), device=indices.device).repeat_interleave(count)
    return owner, torch.arange(len(owner), device=indices.device) + (start - count.cumsum(0) + count)[owner]


def _moved(whole: Of, device: torch.device | str) -> Of:
    moved: dict[str, Any] = {name: one.to(device) for name, one in vars(whole).items() if isinstance(one, Tensor)}
    return replace(whole, **moved)
