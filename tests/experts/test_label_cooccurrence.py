"""How often labels occur beside a single value of another property: counts without the entity that is asked about."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from kbdisk.experts.label_cooccurrence import Column, Cooccurrence, Evidence, Rows, Sparse, best_cooccurrences

NAN = torch.nan


def rows_of(label: Tensor, entities: Tensor, labels: int) -> Rows:
    """Rows that count one each."""
    return Rows.of(label, entities, torch.ones(len(label)), labels)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(1, 5)), max_size=30))
def test_sparse_counts_are_those_of_a_dense_table(triples):
    dense = torch.zeros(5, 3)
    for row, label, weight in triples:
        dense[row, label] += weight
    row, label, weight = torch.tensor(triples, dtype=torch.long).view(-1, 3).unbind(1)
    sparse = Sparse.counts(row, label, weight, 5, 3)
    assert torch.equal(sparse.dense(torch.arange(5), 3), dense)
    rows = torch.tensor([3, -1, 3, 0])
    assert torch.equal(sparse.dense(rows, 3), dense[rows] * (rows >= 0)[:, None])


def test_an_entity_is_no_evidence_of_itself():
    rows = rows_of(torch.tensor([0, 0, 1]), torch.tensor([7, 8, 9]), 2)
    features = torch.tensor([5.0, 5.0, 5.0])
    counts = Cooccurrence.of(Column.of(0, features, False), features, rows)
    assert counts.others(rows, torch.arange(3)).tolist() == [[1, 1], [1, 1], [2, 0]]


def test_an_entity_that_is_asked_about_twice_counts_once():
    once = rows_of(torch.tensor([0, 1, 1]), torch.tensor([7, 8, 9]), 2)
    twice = rows_of(torch.tensor([0, 0, 1, 1]), torch.tensor([7, 7, 8, 9]), 2)
    assert torch.equal(once.share, twice.share)
    features = torch.tensor([5.0, 5.0, 5.0, 5.0])
    counts = Cooccurrence.of(Column.of(0, features, False), features, twice)
    assert counts.others(twice, torch.arange(4)).tolist() == [[0, 2], [0, 2], [1, 1], [1, 1]]


def test_counts_and_shares_are_of_weighted_rows():
    rows = Rows.of(torch.tensor([0, 1, 1]), torch.tensor([7, 7, 8]), torch.tensor([0.5, 0.5, 1.0]), 2)
    assert rows.share.tolist() == pytest.approx([1 / 3, 2 / 3])  # 0.5 and 1.5 rows, and half a row of each
    features = torch.tensor([5.0, 5.0, 5.0])
    counts = Cooccurrence.of(Column.of(0, features, False), features, rows)
    assert counts.others(rows, torch.arange(3)).tolist() == [[0, 1], [0, 1], [0.5, 0.5]]


def test_the_members_of_a_set_are_no_evidence_of_each_other():
    rows = rows_of(torch.tensor([0, 1, 1]), torch.tensor([7, 7, 8]), 2)  # entity 7 has both labels
    features = torch.tensor([5.0, 5.0, 5.0])
    counts = Cooccurrence.of(Column.of(0, features, False), features, rows)
    assert counts.others(rows, torch.arange(3)).tolist() == [[0, 1], [0, 1], [1, 1]]


def test_evidence_is_the_logarithm_of_what_a_value_adds_to_a_share():
    rows = rows_of(torch.tensor([0, 0, 1, 1]), torch.arange(4), 2)
    features = torch.tensor([3.0, 3.0, 4.0, NAN])
    counts = Cooccurrence.of(Column.of(2, features, False), features, rows, strength=4.0)
    evidence = Evidence.of([counts], [0.5], rows)
    asked = torch.tensor([[0.0, 0.0, 3.0], [0.0, 0.0, 4.0], [0.0, 0.0, 9.0], [0.0, 0.0, NAN]])
    first, second = 0.5 * math.log1p(2 / (4 * 0.5)), 0.5 * math.log1p(1 / (4 * 0.5))
    expected = torch.tensor([[first, 0], [0, second], [0, 0], [0, 0]])
    assert torch.allclose(evidence(asked, 2), expected)


def test_numbers_are_evidence_by_ranges():
    features = torch.arange(64.0)
    column = Column.of(0, features, True)
    places = column.places(torch.tensor([-5.0, 0.0, 31.0, 32.0, 99.0, NAN]))
    assert places.tolist() == [0, 0, 7, 8, 15, -1]


def test_a_column_that_nothing_has_is_no_evidence():
    rows = rows_of(torch.tensor([0, 1]), torch.arange(2), 2)
    hidden = torch.full((2,), NAN)
    for is_number in (False, True):
        counts = Cooccurrence.of(Column.of(0, hidden, is_number), hidden, rows)
        assert counts.evidence(rows, torch.arange(2)).tolist() == [[0, 0], [0, 0]]
        assert Evidence.of([counts], [1.0], rows)(torch.tensor([[3.0]]), 2).tolist() == [[0, 0]]


def test_columns_that_tell_nothing_are_left_out():
    draw = torch.Generator().manual_seed(0)
    label = torch.randint(3, (300,), generator=draw)
    chance = torch.randint(5, (300,), generator=draw).float()
    features = torch.stack([chance, label + 10.0, torch.full((300,), 1.0), torch.full((300,), NAN)], 1)
    rows = rows_of(label, torch.arange(300), 3)
    chosen = best_cooccurrences(features, [4, 6, 8, 9], [False, False, False, False], rows)
    assert [counts.column.number for counts in chosen] == [6]


@pytest.mark.parametrize("name", ["value_column", "values", "entry_value"])
def test_the_order_of_stored_evidence_is_checked(name):
    evidence = Evidence(
        torch.tensor([0, 1]),
        torch.tensor([False, False]),
        torch.tensor([0, 0, 1]),
        torch.tensor([1.0, 2.0, 1.0]),
        torch.tensor([0, 1, 2]),
        torch.tensor([0, 0, 0]),
        torch.ones(3),
    )
    assert evidence.is_sorted
    parts = {**vars(evidence), name: getattr(evidence, name).flip(0)}
    if name == "values":
        parts[name] = torch.tensor([2.0, 1.0, 1.0])
    assert not Evidence(**parts).is_sorted
