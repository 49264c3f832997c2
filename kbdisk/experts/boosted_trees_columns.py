"""What is visible of entities as rows of a table: a column for each number, one for each of a property's commonest labels.

B entities   T tokens   F columns   S slots
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kbdisk.data.batch import Batch
from kbdisk.data.dataset import within
from kbdisk.experts.base import SET

NUMBER = "number"
KINDS = {NUMBER, "category", "link", SET}  # that columns are of, and that trees tell: numbers themselves, and labels
SEVERAL = 64  # labels of one property that have columns, at most


@dataclass(frozen=True)
class Columns:
    """Which columns there are, those of one slot side by side."""

    slot: Tensor  # (F,) ascending
    label: Tensor  # (F,) whose column it is, of the slot's labels; -1: of a number

    def __len__(self) -> int:
        return len(self.slot)

    def but(self, slot: int) -> Tensor:
        """(f,) which columns are not of this slot."""
        return (self.slot != slot).nonzero()[:, 0]

    def table(self, batch: Batch, visible: Tensor) -> Tensor:
        """(B, F) float32 of what is visible (T,); NaN elsewhere. A label's column has 1 where it is that, else 0.

        Of labels that come several times, such as links from several entities, each has 1.
        """
        table = torch.full((batch.size, len(self)), torch.nan, device=self.slot.device)
        slots = int(batch.slot.max()) + 2 if len(batch) else 0
        offsets = torch.searchsorted(self.slot, torch.arange(slots, device=self.slot.device))
        for kind in batch.spans.keys() & KINDS:
            start, end = batch.spans[kind]
            own = visible[start:end].nonzero()[:, 0]
            row, column = within(offsets, batch.slot[start + own])
            codes = batch.values[kind][own[row]]
            label = self.label[column]
            if kind == NUMBER:
                told = codes[:, 0]
            else:
                told = (codes == label[:, None]).any(1) if kind == SET else codes == label
            place = batch.entity[start + own[row]] * len(self) + column
            table.view(-1).scatter_reduce_(0, place, told.float(), "amax", include_self=False)
        return table

    @classmethod
    def fitted(cls, batch: Batch, most: int) -> Columns:
        """The fullest columns of what is known of some entities."""
        found: list[tuple[int, int, int]] = []  # how full, slot, label
        for kind in batch.spans.keys() & KINDS:
            start, end = batch.spans[kind]
            known = batch.known[start:end]
            slots, codes = batch.slot[start:end][known], batch.values[kind][known]
            for one in slots.unique().tolist():
                of = codes[slots == one].flatten() if kind == SET else codes[slots == one]
                if kind == NUMBER:
                    found.append((len(of), one, -1))
                else:
                    labels, counts = of[of >= 0].unique(return_counts=True)
                    common = counts.argsort(descending=True, stable=True)[:SEVERAL]
                    found += [(int(counts[at]), one, int(labels[at])) for at in common]
        kept = sorted((slot, label) for _, slot, label in sorted(found, reverse=True)[:most])
        slot, label = torch.tensor(kept, dtype=torch.long, device=batch.slot.device).view(-1, 2).unbind(1)
        return cls(slot.contiguous(), label.contiguous())
