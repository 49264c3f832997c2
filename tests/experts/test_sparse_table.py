"""A table of features without its zeros."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from kbdisk.experts import sparse_table
from kbdisk.experts.sparse_table import SparseTable

SLOT = torch.tensor([0, 0, 1, 2, 2, 2])


@st.composite
def tables(draw: st.DrawFn) -> tuple[SparseTable, Tensor]:
    """A table, and the same one dense."""
    size = draw(st.integers(0, 7))
    known = torch.tensor(draw(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=size, max_size=size)))
    known = known.bool().view(size, 3)
    dense = torch.where(known[:, SLOT], 0.0, torch.nan)
    cells = []
    for row in range(size):
        for column in draw(st.lists(st.sampled_from(range(6)))):
            if known[row, SLOT[column]]:
                cells.append((row, column, float(draw(st.integers(-3, 3)))))
    for row, column in {cell[:2] for cell in cells}:
        dense[row, column] = max(value for *place, value in cells if tuple(place) == (row, column))
    row, column, value = zip(*draw(st.permutations(cells)), strict=True) if cells else ((), (), ())
    table = SparseTable.of(
        SLOT, known, torch.tensor(row).long(), torch.tensor(column).long(), torch.tensor(value).float()
    )
    return table, dense


@given(tables(), st.data())
def test_cells_are_where_they_were_put(some, data):
    table, dense = some
    every = torch.arange(len(dense))
    torch.testing.assert_close(table.dense(every), dense, equal_nan=True)
    rows = torch.tensor(data.draw(st.lists(st.sampled_from(every.tolist()), max_size=9) if len(every) else st.just([])))
    columns = torch.tensor(data.draw(st.lists(st.sampled_from(range(6)), unique=True).map(sorted)))
    rows, columns = rows.long(), columns.long()
    torch.testing.assert_close(table.dense(rows, columns), dense[rows][:, columns], equal_nan=True)


@given(tables(), st.data())
def test_a_column_is_visible_where_some_row_is_known_in_it(some, data):
    table, dense = some
    rows = torch.tensor(
        data.draw(st.lists(st.sampled_from(range(len(dense))), max_size=9) if len(dense) else st.just([]))
    )
    columns = torch.tensor(data.draw(st.lists(st.sampled_from(range(6)), unique=True).map(sorted)))
    rows, columns = rows.long(), columns.long()
    is_known = ~dense[rows][:, columns].isnan()
    assert table.is_visible(rows, columns).tolist() == is_known.any(0).tolist()


@given(st.lists(tables(), min_size=1, max_size=3))
def test_joined_tables_are_below_each_other(some):
    joined = SparseTable.joined([table for table, _ in some])
    expected = torch.cat([dense for _, dense in some])
    torch.testing.assert_close(joined.dense(torch.arange(len(joined))), expected, equal_nan=True)


def test_rows_are_made_in_blocks(monkeypatch):
    known = torch.ones(10, 3, dtype=torch.bool)
    table = SparseTable.of(SLOT, known, torch.arange(10), torch.arange(10) % 6, torch.arange(10.0) + 1)
    whole = table.dense(torch.arange(10).flip(0))
    monkeypatch.setattr(sparse_table, "ROWS_AT_ONCE", 3)
    assert torch.equal(table.dense(torch.arange(10).flip(0)), whole)
    assert whole.sum() == 55
