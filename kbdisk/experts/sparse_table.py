"""A table of features that are nearly all 0 or unknown: only the others are kept.

`OneHotFeatures` have several columns for each slot, a flag for each label. Flags of other labels are 0 for an entity that has the
slot, and unknown for one that lacks it. So a table keeps which slots an entity has, and the cells that are not 0.

n of B rows   f of F columns   U slots with columns   z cells
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kbdisk.data.dataset import within

ROWS_AT_ONCE = 4096  # of a dense table that are made


@dataclass(frozen=True)
class SparseTable:
    """Some rows of features."""

    slot: Tensor  # (F,) which of the U slots each column is of
    known: Tensor  # (B, U) bool
    start: Tensor  # (B + 1,) the first cell of each row
    column: Tensor  # (z,) int32
    value: Tensor  # (z,) float32; of several values in one cell the greatest counts

    def __len__(self) -> int:
        return len(self.known)

    @classmethod
    def of(cls, slot: Tensor, known: Tensor, row: Tensor, column: Tensor, value: Tensor) -> SparseTable:
        """A table by its cells (z,), in any order."""
        row, order = row.sort()
        start = torch.searchsorted(row, torch.arange(len(known) + 1, device=row.device))
        return cls(slot, known, start, column[order].int(), value[order].float())

    @classmethod
    def joined(cls, tables: Sequence[SparseTable]) -> SparseTable:
        """Several tables with the same columns, of which at least one, below each other."""
        cells = torch.tensor([0, *(len(table.column) for table in tables)]).cumsum(0).tolist()
        starts = [table.start[:-1] + before for table, before in zip(tables, cells[:-1], strict=True)]
        return cls(
            tables[0].slot,
            torch.cat([table.known for table in tables]),
            torch.cat([*starts, torch.tensor(cells[-1:])]),
            torch.cat([table.column for table in tables]),
            torch.cat([table.value for table in tables]),
        )

    def cpu(self) -> SparseTable:
        """Itself on the CPU."""
        return SparseTable(*(part.cpu() for part in vars(self).values()))

    def is_visible(self, rows: Tensor, columns: Tensor) -> Tensor:
        """(f,) whether anything is known in each of some columns (f,), in at least one of some rows (n,)."""
        known = torch.zeros(self.known.shape[1], dtype=torch.bool, device=self.known.device)
        for block in rows.split(ROWS_AT_ONCE):
            known |= self.known[block].any(0)
        return known[self.slot[columns]]

    def dense(self, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        """(n, f) float32, some rows (n,) of some columns (f,), or of all; NaN where unknown."""
        if columns is None:
            columns = torch.arange(len(self.slot), device=rows.device)
        place = columns.new_full((len(self.slot),), -1)  # of each column among those that are wanted
        place[columns] = torch.arange(len(columns), device=columns.device)
        dense = torch.full((len(rows), len(columns)), torch.nan, device=rows.device)
        for block, of_block in zip(dense.split(ROWS_AT_ONCE), rows.split(ROWS_AT_ONCE), strict=True):
            block[self.known[of_block].index_select(1, self.slot[columns])] = 0.0
            row, cell = within(self.start, of_block)
            column = place[self.column[cell]]
            kept = (column >= 0).nonzero()[:, 0]
            cells = row[kept] * len(columns) + column[kept]
            block.view(-1).scatter_reduce_(0, cells, self.value[cell[kept]], "amax", include_self=False)
        return dense
