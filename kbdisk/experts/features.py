"""What is visible of entities as vectors, of which likeness is told: each property has a few columns, NaN where hidden.

    number            its code, itself standardised, and signs by its hash: equal numbers have equal ones
    category, link    signs by its hash
    text              what its spelling tells (kbdisk.leaves.text.grams), projected at random

The columns of one such part are a block, and a metric weighs blocks. Entities of different classes have the same
columns for different properties: they are never compared.

B entities   T tokens   n of them of one kind   S slots   F columns   G blocks
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.data import Codec
from kbdisk.data.batch import Batch
from kbdisk.leaves.number.tables import Tables
from kbdisk.leaves.text.grams import Grams

SIGN, NAME, SPELT = 8, 12, 48  # columns of a number's sign, a label's sign, a text
BLOCKS: Mapping[str, tuple[int, ...]] = {"number": (1, 1, SIGN), "category": (NAME,), "link": (NAME,), "text": (SPELT,)}
LABELLED = ("category", "link")
BUCKETS = 1 << 15  # of grams
FURTHEST = 4.0  # deviations: no number is further from others than these
ODD = -0x61C8864680B583EB  # mixes the bits of what is hashed


@dataclass(frozen=True)
class Features:
    """Which columns each slot has."""

    start: Tensor  # (S,) where its columns begin; -1: it has none
    blocks: Tensor  # (S,) where its blocks begin, likewise
    width: int  # F
    first: Mapping[str, int]  # kind -> its first slot
    kinds: Mapping[str, Any]  # kind -> what turns codes (n, ...) of the kind's slots (n,) into columns (n, f)

    @classmethod
    def of(cls, codec: Codec, slots: Tensor) -> Features:
        """The columns of some slots of a codec, ascending."""
        start, blocks = torch.full((2, len(codec.slots)), -1).unbind(0)
        wide: dict[str, int] = {}
        many: dict[str, int] = {}
        for number in slots.tolist():
            slot, of = codec.slots[number], codec.together(number)
            start[number], blocks[number] = wide.get(of, 0), many.get(of, 0)
            wide[of] = int(start[number]) + sum(BLOCKS[slot.kind])
            many[of] = int(blocks[number]) + len(BLOCKS[slot.kind])
        numbers = [slot.codec for slot in codec.slots if slot.kind == "number"]
        kinds: dict[str, Any] = {"number": _Numbers(numbers), "category": _signed_labels, "link": _signed_labels}
        if codec.words:
            kinds["text"] = _Spelt(codec.words.spelling)
        first = {kind: next((n for n, slot in enumerate(codec.slots) if slot.kind == kind), 0) for kind in kinds}
        return cls(start, blocks, max(wide.values(), default=0), first, kinds)

    def to(self, device: torch.device) -> Features:
        """Itself on a device."""
        for one in self.kinds.values():
            if isinstance(one, nn.Module):
                one.to(device)
        return replace(self, start=self.start.to(device), blocks=self.blocks.to(device))

    def block(self, codec: Codec, beside: int) -> Tensor:
        """(F,) which block each column is of, for entities that have a slot; -1: of none."""
        found = torch.full((self.width,), -1)
        for number, slot in enumerate(codec.slots):
            if codec.together(number) == codec.together(beside) and self.start[number] >= 0:
                sizes = torch.tensor(BLOCKS[slot.kind])
                own = torch.arange(len(sizes)).repeat_interleave(sizes)
                start = int(self.start[number])
                found[start : start + len(own)] = int(self.blocks[number]) + own
        return found

    def table(self, batch: Batch, visible: Tensor) -> Tensor:
        """(B, F) of what is visible (T,); NaN elsewhere. What comes several times, such as links from others, is a mean."""
        table = torch.full((batch.size, self.width), torch.nan, device=batch.entity.device)
        for kind in batch.spans.keys() & self.kinds.keys():
            start, end = batch.spans[kind]
            own = named(batch, kind, visible[start:end] & (self.start[batch.slot[start:end]] >= 0))
            if len(own):
                told = self.kinds[kind](batch.values[kind][own], batch.slot[start + own] - self.first[kind])
                column = self.start[batch.slot[start + own], None] + torch.arange(told.shape[1], device=own.device)
                place = batch.entity[start + own, None] * self.width + column
                table.view(-1).scatter_reduce_(0, place.flatten(), told.flatten(), "mean", include_self=False)
        return table


def fullest(codec: Codec, most: int) -> Tensor:
    """The slots of each class that most entities have, ascending."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, slot in enumerate(codec.slots):
        if slot.kind in BLOCKS and slot.count:
            found[codec.together(number)].append((-slot.count, number))
    return torch.tensor(sorted(number for own in found.values() for _, number in sorted(own)[:most]), dtype=torch.long)


def named(batch: Batch, kind: str, among: Tensor) -> Tensor:
    """Which of a kind's tokens, of some (n,) of them: labels without a name are not all the same, and tell nothing."""
    own = among.nonzero()[:, 0]
    return own[batch.values[kind][own] >= 0] if kind in LABELLED else own


class _Numbers(nn.Module):
    moments: Tensor

    def __init__(self, codecs: list[Any]) -> None:
        super().__init__()
        self.tables = Tables(codecs)
        moments = torch.tensor([one.moments for one in codecs], dtype=torch.float64).view(-1, 2)
        self.register_buffer("moments", moments, persistent=False)

    def forward(self, codes: Tensor, slot: Tensor) -> Tensor:
        """(n, 4) -> (n, 2 + SIGN)"""
        mean, deviation = self.moments[slot].unbind(1)
        numbers = self.tables.inverse(slot, codes[:, :1].double())[:, 0]
        plain = torch.stack([codes[:, 0], ((numbers - mean) / deviation).float()], 1).clamp(-FURTHEST, FURTHEST)
        return torch.cat([plain, signs((codes[:, 0] + 0.0).view(torch.int32).long(), SIGN)], 1)


def _signed_labels(codes: Tensor, slot: Tensor) -> Tensor:
    """(n,) -> (n, NAME)"""
    return signs(codes.long(), NAME)


class _Spelt(nn.Module):
    def __init__(self, spelling: list[bytes]) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            self.grams = Grams(spelling, SPELT, BUCKETS).requires_grad_(False).eval()
        every = torch.arange(BUCKETS)  # not drawn: what is kept of entities has to fit for ever
        self.grams.table.copy_(torch.cat([signs(every, SPELT // 2), signs(every + BUCKETS, SPELT // 2)], 1))

    def forward(self, codes: Tensor, slot: Tensor) -> Tensor:
        """(n, L) -> (n, SPELT)"""
        told: Tensor = F.normalize(self.grams(codes), dim=1)
        return told


def signs(keys: Tensor, count: int) -> Tensor:
    """(n,) -> (n, count): equal for equal keys; those of others are some 1 away, squared."""
    key = keys * ODD
    key = (key ^ (key >> 29 & (1 << 35) - 1)) * ODD
    bits = key[:, None] >> torch.arange(24, 24 + count, device=keys.device) & 1
    told: Tensor = (2.0 * bits - 1) / (2 * count) ** 0.5
    return told
