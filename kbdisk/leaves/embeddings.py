"""Embeddings of labels, learnt or computed from their text, and the scores of rows against the labels of their slots.

By their text even labels can be read and predicted that training never had. The labels of all slots are numbered through,
slot by slot, so that one table holds them. Slots that share a codec are one here: the rows' `slot` is their column.

Scores are computed in parts, each of rows with about as many labels, so that little is padded. Slots with enough rows and
labels get a matrix product of their own; for the others, many slots of few rows and labels, the labels are gathered.

n rows or labels asked for   m rows of a part   V labels of a slot, at most   S slots   N labels in all   D width
U distinct texts   L tokens of the longest text   b blocks
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.labels import Labels, log_frequencies
from kbdisk.leaves.layers import GroupedLinear, Readout, linear, lookup_table, score_table

Integers = npt.NDArray[np.int64]

MAX_TEXTS = 4096  # that are read at once in evaluation
NO_NEW_LABELS = 'expected labels that are read by their text, as there are new ones, got labels = "learnt"'

# ---------------------------------------------------------------- embeddings


class TextVectors(nn.Module):
    """The vectors of texts, by the network's text reader; equal texts are read once, empty ones are 0."""

    ids: Tensor
    text: Tensor
    is_full: Tensor

    def __init__(self, texts: Sequence[str], setting: Setting) -> None:
        super().__init__()
        if setting.reader is None or setting.tokenizer is None:
            raise ValueError("expected a text encoder, as labels are to be read by their text, got none")
        # a tuple, so that its parameters are not this module's: the network owns it
        self._reader, self._tokenizer, self.width = (setting.reader,), setting.tokenizer, setting.width
        self.replace_texts(texts)

    def replace_texts(self, texts: Sequence[str]) -> None:
        """Take other texts."""
        number = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        device = self.ids.device if hasattr(self, "ids") else None
        ids = self._tokenizer.encode(list(number)) if number else torch.zeros(0, 1, dtype=torch.long)
        self.register_buffer("ids", ids.to(device), persistent=False)  # (U, L)
        self.register_buffer("is_full", ids.any(1).to(device), persistent=False)  # (U,)
        text = torch.tensor([number[text] for text in texts], dtype=torch.long)
        self.register_buffer("text", text.to(device), persistent=False)  # (N,)
        self._cached: tuple[object, Tensor] | None = None

    def forward(self, which: Tensor) -> Tensor:
        """(n,) numbers of texts -> (n, D)"""
        if torch.is_grad_enabled() or self.training:
            needed, place = self.text[which].unique(return_inverse=True)
            return self._read(needed)[place]
        return self._all()[self.text[which]]

    def _read(self, texts: Tensor) -> Tensor:
        full = self.is_full[texts].nonzero()[:, 0]
        vectors = self._reader[0](self.ids[texts[full]]).float() if len(full) else self.ids.new_zeros(0, self.width)
        return torch.zeros(len(texts), self.width, device=full.device).index_copy(0, full, vectors.float())

    def _all(self) -> Tensor:
        """(U, D) the vectors of all texts, cached until the reader's weights change."""
        key = tuple((weight.data_ptr(), weight._version) for weight in self._reader[0].parameters())
        if self._cached is None or self._cached[0] != key:
            chunks = torch.arange(len(self.ids), device=self.ids.device).split(MAX_TEXTS)
            vectors = torch.cat([self._read(texts) for texts in chunks] or [torch.zeros(0, self.width)])
            self._cached = key, vectors
        return self._cached[1]


class LearntLabels(nn.Module):
    """A learnt vector for each label and, in each slot, one for unknown labels."""

    starts: Tensor

    def __init__(self, labels: Sequence[Labels], setting: Setting) -> None:
        super().__init__()
        self.register_buffer("starts", starts_of(labels, len(labels)), persistent=False)  # (S,)
        self.table = lookup_table(len(labels) + sum(map(len, labels)), setting.width)  # (S + N, D)

    def replace_labels(self, labels: Sequence[Labels]) -> None:
        """Refused: labels that training never had have no vector here."""
        raise ValueError(NO_NEW_LABELS)

    def forward(self, codes: Tensor, slot: Tensor) -> Tensor:
        """(n,) codes and their slots -> (n, D)"""
        return F.embedding(torch.where(codes < 0, slot, self.starts[slot] + codes), self.table)


class TextLabels(nn.Module):
    """The vector of each label's text and, in each slot, a learnt one for unknown labels."""

    starts: Tensor

    def __init__(self, labels: Sequence[Labels], setting: Setting) -> None:
        super().__init__()
        self.others = lookup_table(len(labels), setting.width)  # (S, D)
        self.register_buffer("starts", starts_of(labels), persistent=False)  # (S,)
        self.texts = TextVectors(texts_of(labels), setting)

    def replace_labels(self, labels: Sequence[Labels]) -> None:
        """Take other labels."""
        self.starts = starts_of(labels).to(self.starts.device)
        self.texts.replace_texts(texts_of(labels))

    def forward(self, codes: Tensor, slot: Tensor) -> Tensor:
        """(n,) codes and their slots -> (n, D)"""
        x = F.embedding(slot, self.others)  # (n, D)
        known = (codes >= 0).nonzero()[:, 0]
        return x.index_copy(0, known, self.texts(self.starts[slot[known]] + codes[known]).to(x.dtype))


LABEL_EMBEDDINGS: dict[str, type[LearntLabels | TextLabels]] = {"learnt": LearntLabels, "text": TextLabels}


def starts_of(labels: Sequence[Labels], begin: int = 0) -> Tensor:
    """(S,) the number of each slot's first label."""
    sizes = torch.tensor([begin, *map(len, labels)])
    return sizes.cumsum(0)[:-1]


def texts_of(labels: Sequence[Labels]) -> list[str]:
    """The labels of all slots as texts: (N,)."""
    return [text for slot_labels in labels for text in slot_labels.texts]


# ---------------------------------------------------------------- scores

WIDTH_OF_FIRST_PART = 32  # labels; parts grow fourfold from here
BLOCK = 4  # rows of a slot that share a gathered copy of its labels
MIN_PRODUCT = 256  # rows times labels of a slot from which a matrix product of its own is faster than gathering


class Scores(NamedTuple):
    """The scores of some rows."""

    rows: Tensor  # (m,)
    values: Tensor  # (m, V) -inf beyond the labels of a row's slot


class Slots(NamedTuple):
    """The slots of some rows: how many rows and labels each has, and the numbers of the first of them."""

    rows: Integers
    first_row: Integers
    labels: Integers
    first_label: Integers

    def pick(self, which: Any) -> Slots:
        """Some of the slots."""
        return Slots(*(part[which] for part in self))


def slots_of_rows(slot: Tensor) -> tuple[Integers, Integers]:
    """The slots of rows that are sorted by slot, and how many rows each has."""
    slots, counts = slot.unique_consecutive(return_counts=True)
    return slots.numpy(force=True), counts.numpy(force=True)


def score(h: Tensor, table: Tensor, bias: Tensor | None, slots: Slots) -> Iterator[Scores]:
    """Score rows (n, D) against the labels (N, D) of their slots, part by part; a slot without labels is left out."""
    growth = np.ceil(np.log2(np.maximum(slots.labels, 1) / WIDTH_OF_FIRST_PART) / 2).clip(0).astype(int)
    for part in np.unique(growth[slots.labels > 0]):
        part_slots = slots.pick((growth == part) & (slots.labels > 0))
        is_large = part_slots.rows * part_slots.labels >= MIN_PRODUCT
        width = int(part_slots.labels.max())
        pieces = []
        if is_large.any():
            pieces.append(_multiplied(h, table, bias, part_slots.pick(is_large), width))
        if not is_large.all():
            pieces.append(_gathered(h, table, bias, part_slots.pick(~is_large), width))
        yield Scores(torch.cat([piece.rows for piece in pieces]), torch.cat([piece.values for piece in pieces]))


def _multiplied(h: Tensor, table: Tensor, bias: Tensor | None, slots: Slots, width: int) -> Scores:
    """One product for each slot. Its operands are split off, not sliced: the gradient of a slice is a whole table."""
    rows, labels = _pieces(h, slots.first_row, slots.rows), _pieces(table, slots.first_label, slots.labels)
    biases = [None] * len(labels) if bias is None else _pieces(bias, slots.first_label, slots.labels)
    values = [
        F.pad(linear(x, slot_labels, offset).float(), (0, width - len(slot_labels)), value=-torch.inf)
        for x, slot_labels, offset in zip(rows, labels, biases, strict=True)
    ]
    return Scores(torch.from_numpy(_ranges(slots.first_row, slots.rows)).to(h.device), torch.cat(values))


def _gathered(h: Tensor, table: Tensor, bias: Tensor | None, slots: Slots, width: int) -> Scores:
    """Blocks of a few rows, each against a copy of its slot's labels, padded."""
    blocks = -(-slots.rows // BLOCK)
    first, slot_of_block = blocks.cumsum() - blocks, np.repeat(np.arange(len(blocks)), blocks)
    place = torch.from_numpy(_ranges(first * BLOCK, slots.rows)).to(h.device)  # (m,) where each row is in the blocks
    rows = torch.from_numpy(_ranges(slots.first_row, slots.rows)).to(h.device)  # (m,)
    start, size = (
        torch.from_numpy(slot_values[slot_of_block])[:, None].to(h.device)
        for slot_values in (slots.first_label, slots.labels)
    )  # (b, 1)
    label = torch.arange(width, device=h.device)
    which = start + torch.minimum(label, size - 1)  # (b, V)
    with torch.autocast(h.device.type, enabled=False):  # a copy in half precision would cost more than it saves
        x = h.new_zeros(len(slot_of_block) * BLOCK, h.shape[1], dtype=table.dtype)
        x = x.index_copy(0, place, h[rows].to(table.dtype)).view(len(slot_of_block), BLOCK, -1)
        values = torch.bmm(x, F.embedding(which, table).transpose(1, 2)).float()  # (b, BLOCK, V)
    if bias is not None:
        values = values + F.embedding(which, bias[:, None]).transpose(1, 2)
    values = values.masked_fill((label >= size)[:, None], -torch.inf)
    return Scores(rows, values.flatten(0, 1)[place])


def _pieces(x: Tensor, first: Integers, size: Integers) -> Sequence[Tensor]:
    """These pieces of a tensor, which are in order."""
    bounds = np.stack([first, first + size], 1).ravel()
    lengths = np.diff(bounds, prepend=0, append=len(x)).tolist()
    pieces: Sequence[Tensor] = x.split(lengths)
    return pieces[1::2]


def _ranges(first: Integers, size: Integers) -> Integers:
    """The concatenated ranges first, first + 1, ... of these sizes."""
    before = size.cumsum() - size
    return np.repeat(first - before, size) + np.arange(size.sum(), dtype=np.int64)


class LearntScores(Readout):
    """Scores against a learnt vector and a bias for each label."""

    weight_names: ClassVar[tuple[str, ...]] = ("table",)

    def __init__(self, labels: Sequence[Labels], setting: Setting, bias: Tensor | None = None) -> None:
        super().__init__()
        self.sizes = np.array([len(slot_labels) for slot_labels in labels], np.int64)  # (S,)
        self.starts = self.sizes.cumsum() - self.sizes  # (S,)
        self.table = score_table(int(self.sizes.sum()), setting.width)  # (N, D)
        # DIFF(paper): the bias begins at the labels' log frequency, not at 0: training starts from the marginals
        if bias is None:
            bias = torch.cat([torch.zeros(0), *map(log_frequencies, labels)])
        self.bias = nn.Parameter(bias)  # (N,)

    def replace_labels(self, labels: Sequence[Labels]) -> None:
        """Refused: labels that training never had have no vector here."""
        raise ValueError(NO_NEW_LABELS)

    def forward(self, h: Tensor, rows: Rows) -> Iterator[Scores]:
        """(n, D) -> scores of all rows, part by part"""
        slots, counts = slots_of_rows(rows.slot)
        first_row = counts.cumsum() - counts
        return score(h, self.table, self.bias, Slots(counts, first_row, self.sizes[slots], self.starts[slots]))


class TextScores(Readout):
    """Scores against the vectors of the labels' texts. A training step reads the texts of all labels of its slots."""

    weight_names: ClassVar[tuple[str, ...]] = ("query.weight", "query.bias")

    def __init__(self, labels: Sequence[Labels], setting: Setting, bias: Tensor | None = None) -> None:
        super().__init__()
        self.query = GroupedLinear(setting.sets, setting.width, setting.width)
        self.scale = setting.base**0.5 / setting.width  # muP: 1 / D, and 1 / sqrt(D) at the base width
        self.texts = TextVectors([], setting)
        self.replace_labels(labels)

    def replace_labels(self, labels: Sequence[Labels]) -> None:
        """Take other labels."""
        self.sizes = np.array([len(slot_labels) for slot_labels in labels], np.int64)  # (S,)
        self.starts = self.sizes.cumsum() - self.sizes  # (S,)
        self.texts.replace_texts(texts_of(labels))

    def forward(self, h: Tensor, rows: Rows) -> Iterator[Scores]:
        """(n, D) -> scores of all rows, part by part"""
        slots, counts = slots_of_rows(rows.slot)
        sizes = self.sizes[slots]
        which = torch.from_numpy(_ranges(self.starts[slots], sizes)).to(h.device)
        table = self.texts(which).to(h.dtype) * self.scale  # (labels of these slots, D)
        h = self.query(h, rows.counts)  # (n, D)
        return score(h, table, None, Slots(counts, counts.cumsum() - counts, sizes, sizes.cumsum() - sizes))


LABEL_SCORES: dict[str, type[LearntScores | TextScores]] = {"learnt": LearntScores, "text": TextScores}


def dense(parts: Iterable[Scores], rows: int) -> Tensor:
    """(n, V) the scores of all rows, in order; -inf beyond the labels of a row's slot."""
    parts = list(parts)
    widest = max(part.values.shape[1] for part in parts) if parts else 1
    padded = [F.pad(part.values, (0, widest - part.values.shape[1]), value=-torch.inf) for part in parts]
    if not parts:
        return torch.zeros(rows, 1)
    return torch.cat(padded)[torch.cat([part.rows for part in parts]).argsort()]
