"""Scores of rows against the labels of their own slots, which all stand in one table.

Slots of some rows and labels get a matrix product of their own; the labels of the others, many slots of few rows and
labels, are gathered. Slots that share a codec count as one here: the rows' `slot` is their column. Rows are put together with those of about as many labels, so that little is padded.

n rows   m of them together   V labels, at most, of a slot   S slots   N labels in all   D width
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
from kbdisk.leaves.labels import Labels
from kbdisk.leaves.layers import GroupedLinear, Readout, linear, score_table
from kbdisk.leaves.reading import BY_HEART, TextVectors, all_texts

Numbers = npt.NDArray[np.int64]
NARROW = 32  # labels that are never worth a part of their own; parts grow fourfold from here
BLOCK = 4  # rows of one slot that share a gathered copy of its labels
ALONE = 256  # rows times labels of a slot from which a product of its own is faster than gathering


class Scores(NamedTuple):
    """The scores of some rows."""

    rows: Tensor  # (m,)
    values: Tensor  # (m, V) -inf beyond the labels of a row's slot


class Slots(NamedTuple):
    """The slots that some rows are of, and where each one's rows and labels begin and how many they are."""

    rows: Numbers
    first: Numbers
    labels: Numbers
    start: Numbers

    def some(self, which: Any) -> Slots:
        return Slots(*(each[which] for each in self))


def present(slot: Tensor) -> tuple[Numbers, Numbers]:
    """The slots that rows, sorted by slot, are of; how many rows each has."""
    slots, counts = slot.unique_consecutive(return_counts=True)
    return slots.numpy(force=True), counts.numpy(force=True)


def score(h: Tensor, table: Tensor, bias: Tensor | None, slots: Slots) -> Iterator[Scores]:
    """Score rows (n, D) against the labels (N, D) of their slots, part by part; a slot without labels is left out."""
    grown = np.ceil(np.log2(np.maximum(slots.labels, 1) / NARROW) / 2).clip(0).astype(int)
    for part in np.unique(grown[slots.labels > 0]):
        own = slots.some((grown == part) & (slots.labels > 0))
        alone = own.rows * own.labels >= ALONE
        width = int(own.labels.max())
        pieces = []
        if alone.any():
            pieces.append(_multiplied(h, table, bias, own.some(alone), width))
        if not alone.all():
            pieces.append(_gathered(h, table, bias, own.some(~alone), width))
        yield Scores(torch.cat([each.rows for each in pieces]), torch.cat([each.values for each in pieces]))


def _multiplied(h: Tensor, table: Tensor, bias: Tensor | None, slots: Slots, width: int) -> Scores:
    """One product for each slot. What it reads is split off, not sliced: else each gradient would be a whole table."""
    rows, labels = _cut(h, slots.first, slots.rows), _cut(table, slots.start, slots.labels)
    offsets = [None] * len(labels) if bias is None else _cut(bias, slots.start, slots.labels)
    values = [
        F.pad(linear(x, own, offset).float(), (0, width - len(own)), value=-torch.inf)
        for x, own, offset in zip(rows, labels, offsets, strict=True)
    ]
    return Scores(torch.from_numpy(_ranges(slots.first, slots.rows)).to(h.device), torch.cat(values))


def _gathered(h: Tensor, table: Tensor, bias: Tensor | None, slots: Slots, width: int) -> Scores:
    """Blocks of a few rows, each against a copy of its slot's labels, padded."""
    blocks = -(-slots.rows // BLOCK)
    first, of = blocks.cumsum() - blocks, np.repeat(np.arange(len(blocks)), blocks)
    place = torch.from_numpy(_ranges(first * BLOCK, slots.rows)).to(h.device)  # (m,) where each row is in the blocks
    rows = torch.from_numpy(_ranges(slots.first, slots.rows)).to(h.device)  # (m,)
    start, size = (torch.from_numpy(each[of])[:, None].to(h.device) for each in (slots.start, slots.labels))  # (b, 1)
    label = torch.arange(width, device=h.device)
    which = start + torch.minimum(label, size - 1)  # (b, V)
    with torch.autocast(h.device.type, enabled=False):  # a copy in halves would cost more than it saves
        x = h.new_zeros(len(of) * BLOCK, h.shape[1], dtype=table.dtype).index_copy(0, place, h[rows].to(table.dtype))
        values = torch.bmm(
            x.view(len(of), BLOCK, -1), F.embedding(which, table).transpose(1, 2)
        ).float()  # (b, BLOCK, V)
    if bias is not None:
        values = values + F.embedding(which, bias[:, None]).transpose(1, 2)
    values = values.masked_fill((label >= size)[:, None], -torch.inf)
    return Scores(rows, values.flatten(0, 1)[place])


def _cut(x: Tensor, first: Numbers, size: Numbers) -> Sequence[Tensor]:
    """These pieces of a tensor, which stand in order."""
    bounds = np.stack([first, first + size], 1).ravel()
    lengths = np.diff(bounds, prepend=0, append=len(x)).tolist()
    pieces: Sequence[Tensor] = x.split(lengths)
    return pieces[1::2]


def _ranges(first: Numbers, size: Numbers) -> Numbers:
    """first, first + 1, ... of each, one after the other."""
    before = size.cumsum() - size
    return np.repeat(first - before, size) + np.arange(size.sum(), dtype=np.int64)


class LearntScores(Readout):
    """Against a vector and a bias for each label. The bias begins at how common the label is in training."""

    weight_names: ClassVar[tuple[str, ...]] = ("table",)

    def __init__(self, labels: Sequence[Labels], setting: Setting, bias: Tensor | None = None) -> None:
        super().__init__()
        self.sizes = np.array([len(own) for own in labels], np.int64)  # (S,)
        self.starts = self.sizes.cumsum() - self.sizes  # (S,)
        self.table = score_table(int(self.sizes.sum()), setting.width)  # (N, D)
        # DIFF(paper): the bias begins at the labels' log frequency, not at 0: training starts from the marginals
        self.bias = nn.Parameter(torch.cat([torch.zeros(0), *map(marginal, labels)]) if bias is None else bias)  # (N,)

    def lay(self, labels: Sequence[Labels]) -> None:
        """Labels that training never had have no vector here."""
        raise ValueError(BY_HEART)

    def forward(self, h: Tensor, rows: Rows) -> Iterator[Scores]:
        """(n, D) -> scores of all rows, part by part"""
        slots, counts = present(rows.slot)
        return score(
            h, self.table, self.bias, Slots(counts, counts.cumsum() - counts, self.sizes[slots], self.starts[slots])
        )


class TextScores(Readout):
    """Against the vectors of the labels' texts. Costs a reading of the texts of the slots in each training step."""

    weight_names: ClassVar[tuple[str, ...]] = ("query.weight", "query.bias")

    def __init__(self, labels: Sequence[Labels], setting: Setting, bias: Tensor | None = None) -> None:
        super().__init__()
        self.query = GroupedLinear(setting.sets, setting.width, setting.width)
        self.scale = setting.base**0.5 / setting.width  # muP: 1 / D, and 1 / sqrt(D) at the base width
        self.texts = TextVectors([], setting)
        self.lay(labels)

    def lay(self, labels: Sequence[Labels]) -> None:
        """Take other labels."""
        self.sizes = np.array([len(own) for own in labels], np.int64)  # (S,)
        self.starts = self.sizes.cumsum() - self.sizes  # (S,)
        self.texts.lay(all_texts(labels))

    def forward(self, h: Tensor, rows: Rows) -> Iterator[Scores]:
        """(n, D) -> scores of all rows, part by part"""
        slots, counts = present(rows.slot)
        sizes = self.sizes[slots]
        which = torch.from_numpy(_ranges(self.starts[slots], sizes)).to(h.device)
        table = self.texts(which).to(h.dtype) * self.scale  # (labels of these slots, D)
        h = self.query(h, rows.counts)  # (n, D)
        return score(h, table, None, Slots(counts, counts.cumsum() - counts, sizes, sizes.cumsum() - sizes))


def marginal(labels: Labels) -> Tensor:
    """(V,) the log of how common each label is."""
    counts = torch.tensor(labels.counts, dtype=torch.float32) + 0.5
    return (counts / counts.sum()).log()


def named(labels: Labels) -> Labels:
    """The labels of a slot; where it has none, one without a name, so that there is something to believe."""
    return labels if len(labels) else Labels(("",), (0,), open=True)


def dense(parts: Iterable[Scores], rows: int) -> Tensor:
    """The scores of all rows, in order: (n, V), -inf beyond the labels of a row's slot."""
    parts = list(parts)
    widest = max(part.values.shape[1] for part in parts) if parts else 1
    padded = [F.pad(part.values, (0, widest - part.values.shape[1]), value=-torch.inf) for part in parts]
    if not parts:
        return torch.zeros(rows, 1)
    return torch.cat(padded)[torch.cat([part.rows for part in parts]).argsort()]
