"""Columns: slots that have one codec are one, and share the vectors of its labels.

All places of a list have one codec, and what links bring has that of what is read at their other end. The paths tell
them apart.

n rows   S slots   C columns   D width
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from kbdisk.leaves.base import Rows

Codec = TypeVar("Codec")


def distinct(codecs: Sequence[Codec]) -> list[Codec]:
    """Each codec once, in the order of the slots; equal ones of two properties are two."""
    return list({id(codec): codec for codec in codecs}.values())


class Columns(nn.Module, Generic[Codec]):
    """The column of each slot."""

    of: Tensor

    def __init__(self, codecs: Sequence[Codec]) -> None:
        super().__init__()
        place: dict[int, int] = {}
        of = [place.setdefault(id(codec), len(place)) for codec in codecs]
        self.register_buffer("of", torch.tensor(of, dtype=torch.long), persistent=False)  # (S,)
        self.sorted = of == sorted(of)

    def forward(self, slot: Tensor) -> Tensor:
        """(n,) slots -> (n,) columns"""
        return self.of[slot]

    def arrange(self, h: Tensor, rows: Rows) -> tuple[Tensor, Rows, Tensor | None]:
        """Rows (n, D) sorted by column, not by slot, and where each came from; None where they stay.

        A column's slots are of one group, and columns are numbered as their first slots come, so groups stay in order.
        """
        column = self.of[rows.slot]
        if self.sorted:
            return h, Rows(column, rows.counts, rows.path), None
        column, order = column.sort(stable=True)
        return h[order], Rows(column, rows.counts, rows.path[order]), order
