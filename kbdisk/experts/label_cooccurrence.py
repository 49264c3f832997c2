"""Naive Bayes with a weight for each attribute: how often each label of a property occurs beside a value of another.

The evidence of a value v of another property for a label k is

    log(1 + n(v, k) / (strength * p(k)))

with n(v, k) entities that have both, and the share p(k) of all values that are k. That is the logarithm of the label's chance
beside v, estimated by its frequency there and, as by `strength` values more, by its share of all values; less the logarithm of its
share of all values; and less a constant of v. So a label that has been seen once beside a rare value has evidence, where a
regression with a flag for each value has none: it would need a weight for each value and label. The evidence of a property has a
single weight, which the regression of labels fits.

In training, the counts for an entity leave out the entity itself (leave-one-out).

n rows, of E entities   J columns of other properties   V values   K labels   z counts that are not 0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from kbdisk.experts.feature_screening import BINS

STRENGTHS = (1.0, 4.0)  # values that a label's share of all values counts as, that are tried
MAX_COLUMNS = 8  # that are evidence of one property, at most
MIN_KNOWN = 10  # rows with a value, below which a column is no evidence
MIN_GAIN = 2.0  # nats of all rows together, that the evidence of a column gains by itself
MAX_CELLS_SCREENED = 1 << 22  # rows times labels, by which columns are chosen


@dataclass(frozen=True)
class Sparse:
    """Sparse rows: of each row its labels, and a number for each of these."""

    start: Tensor  # (R + 1,) the first entry of each row
    label: Tensor  # (z,)
    number: Tensor  # (z,) float32

    @classmethod
    def counts(cls, row: Tensor, label: Tensor, weight: Tensor, rows: int, labels: int) -> Sparse:
        """The weights (m,) of pairs of a row (m,) and a label (m,), summed."""
        pair, place = (row * labels + label).unique(return_inverse=True)
        summed = torch.zeros(len(pair), dtype=torch.float64).index_add_(0, place, weight.double())
        start = torch.searchsorted(pair, torch.arange(rows + 1) * labels)
        return cls(start, pair % labels, summed.float())

    def dense(self, rows: Tensor, labels: int) -> Tensor:
        """(m,) -> (m, K) some rows; none (-1) is 0."""
        if not len(self.number):
            return torch.zeros(len(rows), labels, dtype=self.number.dtype, device=rows.device)
        first = self.start[rows.clamp(min=0)]
        length = torch.where(rows < 0, first, self.start[rows.clamp(min=0) + 1]) - first
        of_row = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), length)
        entry = torch.arange(len(of_row), device=rows.device) + (first - length.cumsum(0) + length)[of_row]
        dense = torch.zeros(len(rows) * labels, dtype=self.number.dtype, device=rows.device)
        dense[of_row * labels + self.label[entry]] = self.number[entry]
        return dense.view(len(rows), labels)


@dataclass(frozen=True)
class Rows:
    """The rows that counts are taken of. Rows of one entity with the same label count as their mean."""

    labels: int  # K
    label: Tensor  # (n,)
    entity: Tensor  # (n,) from 0
    weight: Tensor  # (n,) float32
    share: Tensor  # (K,) float32, of all values

    @classmethod
    def of(cls, label: Tensor, entities: Tensor, weights: Tensor, labels: int) -> Rows:
        """Rows by their labels (n,), the numbers of their entities (n,) and how much each counts (n,)."""
        entity = entities.unique(return_inverse=True)[1]
        _, place, count = (entity * labels + label).unique(return_inverse=True, return_counts=True)
        weight = weights / count[place].float()
        share = torch.bincount(label, weight, minlength=labels) + 0.5
        return cls(labels, label, entity, weight, (share / share.sum()).float())


@dataclass(frozen=True)
class Column:
    """The values of another property, as its column of features has them."""

    number: int  # of all columns
    is_number: bool
    values: Tensor  # (V,) float32 ascending: keys, or the least number of each range

    @classmethod
    def of(cls, number: int, features: Tensor, is_number: bool) -> Column:
        """The values of a column (n,); those of a number are ranges with about as many rows."""
        known = features[~features.isnan()].sort().values
        if is_number and len(known):
            known = known[torch.arange(BINS) * len(known) // BINS]
        return cls(number, is_number, known.unique())

    def places(self, features: Tensor) -> Tensor:
        """(n,) -> (n,) the place of each value; -1: it is hidden, or not among the values."""
        if not len(self.values):
            return torch.full_like(features, -1, dtype=torch.long)
        place = (torch.searchsorted(self.values, features.contiguous(), right=True) - 1).clamp(min=0)
        is_known = ~features.isnan() if self.is_number else self.values[place] == features
        return place.where(is_known, -1)


@dataclass(frozen=True)
class Cooccurrence:
    """The labels beside each value of another property, in some rows."""

    column: Column
    strength: float
    of_value: Sparse  # V rows of counts
    place: Tensor  # (n,) of each row's value
    of_entity: Sparse  # E rows: what each entity adds to the counts of its value

    @classmethod
    def of(cls, column: Column, features: Tensor, rows: Rows, strength: float = STRENGTHS[0]) -> Cooccurrence:
        """The co-occurrence of labels with a column of features (n,)."""
        place = column.places(features)
        known = place >= 0
        label, weight = rows.label[known], rows.weight[known]
        of_value = Sparse.counts(place[known], label, weight, len(column.values), rows.labels)
        of_entity = Sparse.counts(rows.entity[known], label, weight, int(rows.entity.max()) + 1, rows.labels)
        return cls(column, strength, of_value, place, of_entity)

    def again(self, features: Tensor, rows: Rows) -> Cooccurrence:
        """The co-occurrence in other rows; the ranges of a number stay."""
        column = self.column if self.column.is_number else Column.of(self.column.number, features, False)
        return Cooccurrence.of(column, features, rows, self.strength)

    def others(self, rows: Rows, some: Tensor) -> Tensor:
        """(m,) -> (m, K) the counts beside the values of some rows, without what their own entities add."""
        place = self.place[some]
        own = self.of_entity.dense(rows.entity[some].where(place >= 0, -1), rows.labels)
        return (self.of_value.dense(place, rows.labels) - own).clamp(min=0)

    def evidence(self, rows: Rows, some: Tensor) -> Tensor:
        """(m,) -> (m, K) the evidence of some rows for each label, from these counts."""
        return torch.log1p(self.others(rows, some) / (self.strength * rows.share))

    def weighted(self, rows: Rows, weight: float) -> Sparse:
        """The evidence of each value, from all counts, times a weight."""
        evidence = torch.log1p(self.of_value.number / (self.strength * rows.share[self.of_value.label]))
        return replace(self.of_value, number=weight * evidence)

    def with_best_strength(self, rows: Rows) -> tuple[float, Cooccurrence]:
        """The nats that the evidence gains by itself, about, and the same with the strength that gains most."""
        known = (self.place >= 0).nonzero()[:, 0]
        some = known[:: max(len(known) * rows.labels // MAX_CELLS_SCREENED, 1)]
        others, label = self.others(rows, some), rows.label[some]
        count, total, share = others.gather(1, label[:, None])[:, 0], others.sum(1), rows.share[label]
        gains = {}
        for strength in STRENGTHS:
            chance = (count + strength * share) / (total + strength)
            gains[strength] = float((rows.weight[some] * (chance / share).log()).sum()) * len(known) / max(len(some), 1)
        best = max(STRENGTHS, key=gains.__getitem__)
        return gains[best], replace(self, strength=best)


def best_cooccurrences(
    features: Tensor, columns: Sequence[int], is_number: Sequence[bool], rows: Rows
) -> list[Cooccurrence]:
    """The columns of features (n, f) whose evidence gains most by itself, best first."""
    gaining = []
    for values, number, of_number in zip(features.unbind(1), columns, is_number, strict=True):
        if int((~values.isnan()).sum()) >= MIN_KNOWN:
            column = Column.of(number, values, of_number)
            gain, cooccurrence = Cooccurrence.of(column, values, rows).with_best_strength(rows)
            if gain > MIN_GAIN:
                gaining.append((gain, cooccurrence))
    gaining.sort(key=lambda pair: pair[0], reverse=True)
    return [cooccurrence for _, cooccurrence in gaining[:MAX_COLUMNS]]


@dataclass(frozen=True)
class Evidence:
    """The evidence of all values of some columns for each label, times the weights of the columns."""

    of_columns: Tensor  # (J,) the number of each among all columns
    are_numbers: Tensor  # (J,)
    value_column: Tensor  # (V,) ascending, which of the J
    values: Tensor  # (V,) float32, ascending within a column
    entry_value: Tensor  # (z,) ascending, which of the V
    entry_label: Tensor  # (z,) which of the K
    entry_number: Tensor  # (z,) float32

    @classmethod
    def of(cls, cooccurrences: Sequence[Cooccurrence], weights: Sequence[float], rows: Rows) -> Evidence:
        """The evidence of all counts of some columns."""
        columns = [cooccurrence.column for cooccurrence in cooccurrences]
        numbers = torch.arange(len(columns))
        sizes = torch.tensor([len(column.values) for column in columns], dtype=torch.long)
        values = torch.cat([torch.zeros(0), *(column.values for column in columns)])
        weighted = [c.weighted(rows, weight) for c, weight in zip(cooccurrences, weights, strict=True)]
        lengths = torch.cat([sizes[:0], *(sparse.start.diff() for sparse in weighted)])
        return cls(
            torch.tensor([column.number for column in columns], dtype=torch.long),
            torch.tensor([column.is_number for column in columns], dtype=torch.bool),
            numbers.repeat_interleave(sizes),
            values,
            torch.arange(len(values)).repeat_interleave(lengths),
            torch.cat([sizes[:0], *(sparse.label for sparse in weighted)]),
            torch.cat([torch.zeros(0), *(sparse.number for sparse in weighted)]),
        )

    def __call__(self, features: Tensor, labels: int) -> Tensor:
        """(m, F) -> (m, K)"""
        total = torch.zeros(len(features), labels, device=features.device)
        ends = torch.searchsorted(self.value_column, torch.arange(len(self.of_columns) + 1, device=features.device))
        starts = torch.searchsorted(self.entry_value, torch.arange(len(self.values) + 1, device=features.device))
        by_value = Sparse(starts, self.entry_label, self.entry_number)
        for number, (column, is_number) in enumerate(
            zip(self.of_columns.tolist(), self.are_numbers.tolist(), strict=True)
        ):
            first, end = int(ends[number]), int(ends[number + 1])
            place = Column(column, is_number, self.values[first:end]).places(features[:, column])
            total += by_value.dense(torch.where(place < 0, -1, place + first), labels)
        return total

    @property
    def is_sorted(self) -> bool:
        """Whether columns, the values of each, and entries are in the order in which they are searched."""
        same_column = self.value_column.diff() == 0
        return not bool(
            (self.value_column.diff() < 0).any()
            | (same_column & (self.values.diff() <= 0)).any()
            | (self.entry_value.diff() < 0).any()
        )

    def to(self, device: torch.device) -> Evidence:
        """The same on a device."""
        return Evidence(*(tensor.to(device) for tensor in vars(self).values()))
