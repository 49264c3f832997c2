"""Features of the visible part of an entity, NaN where hidden.

`HashedFeatures`, for distances and kernels, has a few columns for each property:

    number            its code, itself standardised, and signs of its hash: equal numbers have equal ones
    category, link    signs of its hash
    text              its character n-grams (kbdisk.leaves.text.encoder), projected at random
    any other kind    the columns of its row in KINDS, if it has any

The columns of one such part are a block, and a metric weighs blocks. Entities of different classes have the same columns
for different properties: they are never compared.

`OneHotFeatures`, for trees and regressions, has one column for each number, one for each of a property's most frequent labels,
and, where they are asked for, one for each of the most frequent words of a text (pieces of its tokenizer), and one with the key of
a property's value: equal labels and equal texts have equal keys.

B entities   T tokens   n of them of one kind   S slots   F columns   G blocks
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.data import Codec
from kbdisk.data.dataset import Batch
from kbdisk.experts.base import SET
from kbdisk.experts.sparse_table import SparseTable
from kbdisk.leaves.number.codec import CodecTables
from kbdisk.leaves.registry import LEARNT_KINDS
from kbdisk.leaves.text.encoder import CharacterNgrams
from kbdisk.leaves.tokenizer import FIRST_PIECE, PAD
from kbdisk.plugins import load_part
from kbdisk.schemas.kinds import KINDS

NUMBER, TEXT = "number", "text"
NUMBER_HASH, LABEL_HASH, TEXT_HASH = 8, 12, 48  # columns of a number's hash, of a label's, of a text
LABELLED = ("category", "link")
BUCKETS = 1 << 15  # of character n-grams
MAX_DEVIATIONS = 4.0  # of a number from the mean: larger ones count as this
MIXER = -0x61C8864680B583EB  # odd, mixes the bits of hashed keys

ONE_HOT_KINDS = {NUMBER, *LABELLED, SET}
NUMBER_COLUMN, KEY_COLUMN, SIZE_COLUMN = -1, -2, -3  # in the place of a column's label; the last is the least
KEYS = 1 << 24  # below which float32 has every integer
UNKNOWN_KEY = 0.0  # of a label that the codec does not know
MIN_REPEATED = 10  # values of a property that another entity has, too, below which it has no keys
MAX_LABEL_COLUMNS = 64  # of one property
MAX_WORD_COLUMNS = 512  # of all texts: the most frequent
MIN_WORD_COUNT = 4  # texts that have a word, below which it has no column


# ---------------------------------------------------------------- for distances and kernels


class HashedColumns(NamedTuple):
    """The columns of a kind: the part `features` of its row."""

    blocks: tuple[int, ...]  # the sizes of the blocks; f in all
    make: Callable[
        [list[Any], Any], Any
    ]  # (the codecs of its slots, tokenizer) -> columns (n, f) of codes and slots (n,)


def blocks_of(kind: str) -> tuple[int, ...]:
    """The sizes of the blocks of a kind; none where it has no columns."""
    columns = _columns_of(kind)
    return () if columns is None else columns.blocks


def _columns_of(kind: str) -> HashedColumns | None:
    columns: HashedColumns | None = load_part(KINDS[kind].features)
    return columns


@dataclass(frozen=True)
class HashedFeatures:
    """The columns of each slot."""

    start: Tensor  # (S,) the first column of a slot; -1: it has none
    blocks: Tensor  # (S,) the first block of a slot, likewise
    width: int  # F
    first: Mapping[str, int]  # kind -> its first slot
    kinds: Mapping[str, Any]  # kind -> makes columns (n, f) of codes (n, ...) and of the kind's slots (n,)

    @classmethod
    def of(cls, codec: Codec, slots: Tensor) -> HashedFeatures:
        """The columns of some slots of a codec, ascending."""
        start, blocks = torch.full((2, len(codec.slots)), -1).unbind(0)
        widths: dict[str, int] = {}
        block_counts: dict[str, int] = {}
        for number in slots.tolist():
            slot, group = codec.slots[number], codec.group_of(number)
            start[number], blocks[number] = widths.get(group, 0), block_counts.get(group, 0)
            widths[group] = int(start[number]) + sum(blocks_of(slot.kind))
            block_counts[group] = int(blocks[number]) + len(blocks_of(slot.kind))
        made = {
            kind: columns.make([slot.codec for slot in codec.slots if slot.kind == kind], codec.tokenizer)
            for kind in LEARNT_KINDS
            if (columns := _columns_of(kind)) is not None
        }
        kinds = {kind: make for kind, make in made.items() if make is not None}
        first = {kind: next((n for n, slot in enumerate(codec.slots) if slot.kind == kind), 0) for kind in kinds}
        return cls(start, blocks, max(widths.values(), default=0), first, kinds)

    def to(self, device: torch.device) -> HashedFeatures:
        """The same on a device."""
        for maker in self.kinds.values():
            if isinstance(maker, nn.Module):
                maker.to(device)
        return replace(self, start=self.start.to(device), blocks=self.blocks.to(device))

    def block(self, codec: Codec, slot: int) -> Tensor:
        """(F,) the block of each column for entities that have a slot; -1: none."""
        block = torch.full((self.width,), -1)
        for number, other in enumerate(codec.slots):
            if codec.group_of(number) == codec.group_of(slot) and self.start[number] >= 0:
                sizes = torch.tensor(blocks_of(other.kind))
                of_columns = torch.arange(len(sizes)).repeat_interleave(sizes)
                start = int(self.start[number])
                block[start : start + len(of_columns)] = int(self.blocks[number]) + of_columns
        return block

    def hide(self, table: Tensor, codec: Codec, slot: int) -> Tensor:
        """A table (n, F) whose columns of a slot become NaN."""
        start = int(self.start[slot])
        if start >= 0:
            table[:, start : start + sum(blocks_of(codec.slots[slot].kind))] = torch.nan
        return table

    def table(self, batch: Batch, visible: Tensor) -> Tensor:
        """(B, F) of the visible tokens (T,); NaN elsewhere. Several values of one slot, such as incoming links, are a mean."""
        table = torch.full((batch.size, self.width), torch.nan, device=batch.entity.device)
        for kind in batch.spans.keys() & self.kinds.keys():
            start, end = batch.spans[kind]
            has_columns = self.start[batch.slot[start:end]] >= 0
            tokens = known_labels(batch, kind, visible[start:end] & has_columns)
            if len(tokens):
                slots = batch.slot[start + tokens]
                values = self.kinds[kind](batch.values[kind][tokens], slots - self.first[kind])
                columns = self.start[slots, None] + torch.arange(values.shape[1], device=tokens.device)
                cells = batch.entity[start + tokens, None] * self.width + columns
                table.view(-1).scatter_reduce_(0, cells.flatten(), values.flatten(), "mean", include_self=False)
        return table


def most_frequent_slots(codec: Codec, most: int) -> Tensor:
    """The slots of each class that most entities have, ascending."""
    slots: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, slot in enumerate(codec.slots):
        if blocks_of(slot.kind) and slot.count:
            slots[codec.group_of(number)].append((-slot.count, number))
    chosen = sorted(number for group in slots.values() for _, number in sorted(group)[:most])
    return torch.tensor(chosen, dtype=torch.long)


def known_labels(batch: Batch, kind: str, among: Tensor) -> Tensor:
    """The tokens of a kind that are among some (n,), without labels that the codec does not know (-1)."""
    tokens = among.nonzero()[:, 0]
    return tokens[batch.values[kind][tokens] >= 0] if kind in LABELLED else tokens


class _NumberColumns(nn.Module):
    moments: Tensor

    def __init__(self, codecs: list[Any]) -> None:
        super().__init__()
        self.tables = CodecTables(codecs)
        moments = torch.tensor([codec.moments for codec in codecs], dtype=torch.float64).view(-1, 2)
        self.register_buffer("moments", moments, persistent=False)

    def forward(self, codes: Tensor, slot: Tensor) -> Tensor:
        """(n, 4) -> (n, 2 + NUMBER_HASH)"""
        mean, deviation = self.moments[slot].unbind(1)
        numbers = self.tables.inverse(slot, codes[:, :1].double())[:, 0]
        standardised = ((numbers - mean) / deviation).float()
        plain = torch.stack([codes[:, 0], standardised], 1).clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS)
        return torch.cat([plain, hash_signs((codes[:, 0] + 0.0).view(torch.int32).long(), NUMBER_HASH)], 1)


def _label_columns(codes: Tensor, slot: Tensor) -> Tensor:
    """(n,) -> (n, LABEL_HASH)"""
    return hash_signs(codes.long(), LABEL_HASH)


class _TextColumns(nn.Module):
    def __init__(self, tokenizer: Any) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            self.grams = CharacterNgrams(tokenizer.spelling, TEXT_HASH, BUCKETS).requires_grad_(False).eval()
        buckets = torch.arange(BUCKETS)  # hashed, not drawn: stored features have to fit in every process
        signs = hash_signs(buckets, TEXT_HASH // 2), hash_signs(buckets + BUCKETS, TEXT_HASH // 2)
        self.grams.table.copy_(torch.cat(signs, 1))

    def forward(self, codes: Tensor, slot: Tensor) -> Tensor:
        """(n, L) -> (n, TEXT_HASH)"""
        columns: Tensor = F.normalize(self.grams(codes), dim=1)
        return columns


def hash_signs(keys: Tensor, count: int) -> Tensor:
    """(n,) -> (n, count): equal for equal keys; the squared distance of different ones is about 1."""
    key = keys * MIXER
    key = (key ^ (key >> 29 & (1 << 35) - 1)) * MIXER
    bits = key[:, None] >> torch.arange(24, 24 + count, device=keys.device) & 1
    signs: Tensor = (2.0 * bits - 1) / (2 * count) ** 0.5
    return signs


NUMBER_COLUMNS = HashedColumns((1, 1, NUMBER_HASH), lambda codecs, tokenizer: _NumberColumns(codecs))
LABEL_COLUMNS = HashedColumns((LABEL_HASH,), lambda codecs, tokenizer: _label_columns)
TEXT_COLUMNS = HashedColumns((TEXT_HASH,), lambda codecs, tokenizer: _TextColumns(tokenizer) if tokenizer else None)


# ---------------------------------------------------------------- for trees and regressions


@dataclass(frozen=True)
class OneHotFeatures:
    """The slot and the label of each column, those of one slot side by side."""

    slot: Tensor  # (F,) ascending
    label: Tensor  # (F,) of the slot's labels; or NUMBER_COLUMN, KEY_COLUMN or SIZE_COLUMN

    def __len__(self) -> int:
        return len(self.slot)

    def of(self, slot: int) -> Tensor:
        """(o,) the columns of a slot."""
        return (self.slot == slot).nonzero()[:, 0]

    def numbers_of(self, slot: int) -> Tensor:
        """(1,) the column of the numbers of a slot; (0,) where it has none."""
        return ((self.slot == slot) & (self.label == NUMBER_COLUMN)).nonzero()[:, 0]

    def without(self, slot: int) -> Tensor:
        """(f,) the columns of other slots."""
        return (self.slot != slot).nonzero()[:, 0]

    def table(self, batch: Batch, visible: Tensor) -> Tensor:
        """(B, F) float32 of the visible tokens (T,); NaN elsewhere. A label's column is 1 where the value is that, else 0.

        Where a slot has several labels, such as links from several entities or the words of a text, the column of each is 1.
        """
        return self.sparse_table(batch, visible).dense(torch.arange(batch.size, device=self.slot.device))

    def sparse_table(self, batch: Batch, visible: Tensor) -> SparseTable:
        """The same table as its cells that are not 0."""
        slots, slot_of_column = self.slot.unique(return_inverse=True)
        at = torch.searchsorted(slots, batch.slot)
        has_columns = visible & (F.pad(slots, (0, 1), value=-1)[at] == batch.slot)
        known = torch.zeros(batch.size, len(slots), dtype=torch.bool, device=self.slot.device)
        known[batch.entity[has_columns], at[has_columns]] = True
        cells = [self._cells(*features) for features in self._features(batch, has_columns)]
        none = self.slot[:0]
        row, column, value = (torch.cat([none, *parts]) for parts in zip(*cells, strict=True)) if cells else [none] * 3
        return SparseTable.of(slot_of_column, known, row, column, value)

    @staticmethod
    def _features(batch: Batch, shown: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """(n,) each: the entities, slots, labels and features of the shown tokens (T,), kind by kind."""
        for kind in batch.spans.keys() & {*ONE_HOT_KINDS, TEXT}:
            start, end = batch.spans[kind]
            tokens = shown[start:end].nonzero()[:, 0]
            entity, slot, codes = batch.entity[start + tokens], batch.slot[start + tokens], batch.values[kind][tokens]
            if kind == NUMBER:
                yield entity, slot, torch.full_like(tokens, NUMBER_COLUMN), codes[:, 0]
                continue
            labels = codes.flatten(1) if codes.ndim > 1 else codes[:, None]  # a set and a text have several
            row, place = (labels >= 0).nonzero().unbind(1)
            flagged = labels[row, place]
            yield entity[row], slot[row], flagged, torch.ones_like(flagged)
            if kind != SET:
                yield entity, slot, torch.full_like(tokens, KEY_COLUMN), keys_of(kind, codes)
            if kind != TEXT:
                entity, slot, sizes = label_counts(kind, entity, slot, codes)
                yield entity, slot, torch.full_like(slot, SIZE_COLUMN), sizes

    def _cells(self, entity: Tensor, slot: Tensor, label: Tensor, feature: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The entities, columns and features of those whose slot and label have a column."""
        labels = int(self.label.max()) + 1 - SIZE_COLUMN if len(self) else 0
        columns = self.slot * labels + self.label - SIZE_COLUMN  # ascending
        wanted = slot * labels + label - SIZE_COLUMN
        column = torch.searchsorted(columns, wanted)
        is_column = (F.pad(columns, (0, 1), value=-1)[column] == wanted) & (label < labels + SIZE_COLUMN)
        return entity[is_column], column[is_column], feature[is_column].float()

    @classmethod
    def fit(
        cls, batch: Batch, most: int, *, words: bool = False, keys: bool = False, sizes: bool = True
    ) -> OneHotFeatures:
        """The `most` frequent columns of the known values of some entities.

        With `words`, columns that other values leave unused go to the most frequent words of texts. With `keys`, slots of
        labels and texts have a column of keys besides; with `sizes`, slots have one of the number of an entity's labels,
        where that number differs.
        """
        columns: list[tuple[int, int, int]] = []  # how many values, slot, label
        for kind in batch.spans.keys() & ONE_HOT_KINDS:
            start, end = batch.spans[kind]
            known = batch.known[start:end]
            slots, codes = batch.slot[start:end][known], batch.values[kind][known]
            for slot in slots.unique().tolist():
                values = codes[slots == slot].flatten() if kind == SET else codes[slots == slot]
                if kind == NUMBER:
                    columns.append((len(values), slot, NUMBER_COLUMN))
                else:
                    labels, counts = values[values >= 0].unique(return_counts=True)
                    commonest = counts.argsort(descending=True, stable=True)[:MAX_LABEL_COLUMNS]
                    columns += [(int(counts[at]), slot, int(labels[at])) for at in commonest]
        kept = sorted(columns, reverse=True)[:most]
        if words and TEXT in batch.spans:
            kept += _words(batch)[: max(most - len(kept), 0)]
        more = (_key_columns(batch) if keys else []) + (_size_columns(batch) if sizes else [])
        pairs = sorted([(slot, label) for _, slot, label in kept] + more)
        slot, label = torch.tensor(pairs, dtype=torch.long, device=batch.slot.device).view(-1, 2).unbind(1)
        return cls(slot.contiguous(), label.contiguous())


def keys_of(kind: str, codes: Tensor) -> Tensor:
    """(n,) the keys of labels (n,) or of texts (n, L), from 0 to below KEYS: equal values have equal ones."""
    if kind in LABELLED:
        return torch.where(codes < KEYS - 1, codes + 1, UNKNOWN_KEY).long()
    pieces = torch.arange(1, codes.shape[1] + 1, device=codes.device)
    mixed = ((codes.long() + 1) * MIXER ^ pieces * MIXER) * MIXER
    of_text = (mixed * (codes != PAD)).sum(1)
    return (of_text ^ of_text >> 32).remainder(KEYS - 1) + 1


def label_counts(kind: str, entity: Tensor, slot: Tensor, codes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(m,) each: entities, slots, and the number of labels that each entity has in the slot, of tokens (n,) with codes (n, ...)."""
    if kind == SET:
        return entity, slot, (codes >= 0).sum(1)
    slots = int(slot.max()) + 1 if len(slot) else 1
    pair, counts = (entity * slots + slot).unique(return_counts=True)
    return pair // slots, pair % slots, counts


def _size_columns(batch: Batch) -> list[tuple[int, int]]:
    """The slots that have a column of sizes, with SIZE_COLUMN: entities have a different number of labels there."""
    columns = []
    for kind in batch.spans.keys() & {*LABELLED, SET}:
        start, end = batch.spans[kind]
        known = batch.known[start:end]
        tokens = (batch.entity[start:end][known], batch.slot[start:end][known], batch.values[kind][known])
        _, slots, counts = label_counts(kind, *tokens)
        for slot in slots.unique().tolist():
            if len(counts[slots == slot].unique()) > 1:
                columns.append((slot, SIZE_COLUMN))
    return columns


def _key_columns(batch: Batch) -> list[tuple[int, int]]:
    """The slots that have a column of keys, with KEY_COLUMN: enough values occur twice, and an entity has one of them."""
    columns = []
    for kind in batch.spans.keys() & {*LABELLED, TEXT}:
        start, end = batch.spans[kind]
        known = batch.known[start:end]
        slots, entities = batch.slot[start:end][known], batch.entity[start:end][known]
        keys = keys_of(kind, batch.values[kind][known])
        for slot in slots.unique().tolist():
            of_slot = slots == slot
            _, counts = keys[of_slot].unique(return_counts=True)
            is_single = len(entities[of_slot].unique()) == int(of_slot.sum())
            if is_single and int(counts[counts > 1].sum()) >= MIN_REPEATED:
                columns.append((slot, KEY_COLUMN))
    return columns


def _words(batch: Batch) -> list[tuple[int, int, int]]:
    """How many texts have each word, its slot, and its token: the most frequent first."""
    start, end = batch.spans[TEXT]
    known = batch.known[start:end]
    codes, slots = batch.values[TEXT][known], batch.slot[start:end][known]
    row, place = (codes >= FIRST_PIECE).nonzero().unbind(1)
    of_texts = torch.stack([row, slots[row], codes[row, place].long()], 1).unique(dim=0)  # a word counts once in a text
    pairs, counts = of_texts[:, 1:].unique(dim=0, return_counts=True)
    commonest = counts.argsort(descending=True, stable=True)[:MAX_WORD_COLUMNS].tolist()
    return [(int(counts[at]), *pairs[at].tolist()) for at in commonest if counts[at] >= MIN_WORD_COUNT]
