"""EASE, a linear autoencoder of sets: which further members go with all that an entity has (Steck 2019).

An entity is a row x of 0 and 1, with a column for each pair of a relation and a tail: members of sets, links, labels, classes and
ranges of numbers (see kbdisk.data.triples). Ridge regression predicts each column by all others. With P = (X'X + l I)^-1 the
weight of column s for column t is -P[s, t] / P[t, t]; that of t for itself is 0. So the score of a member does not depend on
whether it is visible.

An entity is scored by the weights of all other entities: its own weights would have learnt that what is not known is not there.
By the formula of Sherman and Morrison, with z = x P and h = z x', the inverse without this entity is P + z'z / (1 - h). So one
inverse serves all entities.

N entities   F columns   n rows   C columns of a relation
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from kbdisk.data.triples import Triples

RIDGE = 30.0  # added to the diagonal of X'X
MAX_COLUMNS = 3000  # the most frequent pairs of a relation and a tail
MIN_ENTITIES = 2  # that have a pair, below which it says nothing of others
ROWS_AT_ONCE = 1024


class Scores(NamedTuple):
    """The scores of the members of a relation for some entities, each by all other entities."""

    members: Tensor  # (C,) nodes
    score: Tensor  # (n, C) an estimate of the probability that an entity has a member, if it does not say so
    is_known: Tensor  # (n, C) whether an entity is known to have it


@dataclass(frozen=True, eq=False)
class LinearAutoencoder:
    """The rows of all entities of some triples, and the regularised inverse of their Gram matrix."""

    pairs: Tensor  # (F, 2) relation and tail of each column, ascending
    starts: Tensor  # (N + 1,) where the columns of each entity begin
    columns: Tensor  # of all entities, one after the other
    inverse: Tensor  # (F, F) P

    @classmethod
    def fit(cls, triples: Triples) -> Self:
        """Fit to the triples of a knowledge base."""
        keys, column, counts = (triples.numbered[:, 1].long() * triples.nodes + triples.numbered[:, 2]).unique(
            return_inverse=True, return_counts=True
        )
        order = counts.argsort(descending=True, stable=True)[:MAX_COLUMNS]
        kept = order[counts[order] >= MIN_ENTITIES].sort().values
        place = torch.full((len(keys),), -1).index_put_((kept,), torch.arange(len(kept)))[column]
        pairs = torch.stack([keys[kept] // triples.nodes, keys[kept] % triples.nodes], 1)
        heads, columns = triples.numbered[place >= 0, 0], place[place >= 0]  # heads ascend
        sizes = torch.bincount(heads, minlength=len(triples.entities))
        fitted = cls(pairs, torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]), columns, torch.eye(len(pairs)))
        gram = RIDGE * torch.eye(len(pairs))
        for part in torch.arange(len(triples.entities)).split(ROWS_AT_ONCE):
            x = fitted._rows(part)
            gram += torch.sparse.mm(x.T.to_sparse(), x)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram))
        return cls(
            pairs, fitted.starts, columns, inverse.contiguous()
        )  # LAPACK's columns make sums of rows 25 times slower

    def _rows(self, heads: Tensor) -> Tensor:
        """(n, F) the rows of some entities."""
        starts, columns = self._columns_of(heads)
        sizes = torch.cat([starts, starts.new_tensor([len(columns)])]).diff()
        x = torch.zeros(len(heads), len(self.pairs))
        x[torch.arange(len(heads)).repeat_interleave(sizes), columns] = 1
        return x

    def _columns_of(self, heads: Tensor) -> tuple[Tensor, Tensor]:
        """(n,) where the columns of each of some entities begin, and the columns of all, one after the other."""
        sizes = self.starts[heads + 1] - self.starts[heads]
        starts = sizes.cumsum(0) - sizes
        within = torch.arange(int(sizes.sum())) - starts.repeat_interleave(sizes)
        return starts, self.columns[self.starts[heads].repeat_interleave(sizes) + within]

    def has_members(self, relation: int) -> bool:
        """Whether any member of a relation is common enough to have a column."""
        return bool((self.pairs[:, 0] == relation).any())

    def scores(self, relation: int, heads: Tensor, hidden: Tensor | None = None) -> Scores:
        """The scores of the members of a relation for some entities (n,).

        With `hidden`, of each entity one known member (n,), a node, is not visible.
        """
        own = (self.pairs[:, 0] == relation).nonzero()[:, 0]
        places = range(0, len(heads), ROWS_AT_ONCE)
        parts = [slice(start, start + ROWS_AT_ONCE) for start in places]
        scored = [self._scores(own, heads[part], None if hidden is None else hidden[part]) for part in parts]
        score, is_known = torch.zeros(0, len(own)), torch.zeros(0, len(own), dtype=torch.bool)
        return Scores(
            self.pairs[own, 1],
            torch.cat([score, *(of_part for of_part, _ in scored)]),
            torch.cat([is_known, *(of_part for _, of_part in scored)]),
        )

    def _scores(self, own: Tensor, heads: Tensor, hidden: Tensor | None) -> tuple[Tensor, Tensor]:
        starts, columns = self._columns_of(heads)
        x = self._rows(heads)[:, own]
        z = F.embedding_bag(
            columns, self.inverse[:, own].contiguous(), starts, mode="sum"
        )  # (n, C) of x P, as x is sparse
        scale = 1 / (1 - self._leverages[heads])[:, None]  # (n, 1)
        diagonal = self.inverse.diagonal()[own] + scale * z * z  # (n, C) of P without the entity
        score, is_known = x - scale * z / diagonal, x > 0
        if hidden is not None:
            rows, places = (self.pairs[own, 1] == hidden[:, None]).nonzero(as_tuple=True)
            of_column = self.inverse[own[places]][:, own] + (scale[rows, 0] * z[rows, places])[:, None] * z[rows]
            taken = (
                of_column / diagonal[rows]
            )  # the weights of the hidden member for the others, with the opposite sign
            taken[torch.arange(len(rows)), places] = 0
            score[rows] += taken
            is_known[rows, places] = False
        return score, is_known

    def weights(self, head: int, relation: int, member: int) -> tuple[Tensor, Tensor]:
        """The columns (m,) that an entity has, and what each adds to the score (m,) of a member."""
        [column] = ((self.pairs[:, 0] == relation) & (self.pairs[:, 1] == member)).nonzero()[:, 0].tolist()
        heads = torch.tensor([head])
        _, columns = self._columns_of(heads)
        columns = columns[columns != column]
        z = F.embedding_bag(self._columns_of(heads)[1], self.inverse, torch.zeros(1, dtype=torch.long), mode="sum")[0]
        scale = 1 / (1 - self._leverages[head])
        of_column = self.inverse[columns, column] + scale * z[columns] * z[column]
        return columns, -of_column / (self.inverse[column, column] + scale * z[column] * z[column])

    def similar(self, head: int, relation: int, member: int, k: int) -> list[tuple[int, float]]:
        """The k other entities with a member that have the most columns in common with an entity, each with the cosine of both."""
        [column] = ((self.pairs[:, 0] == relation) & (self.pairs[:, 1] == member)).nonzero()[:, 0].tolist()
        rows = torch.arange(len(self.starts) - 1).repeat_interleave(self.starts.diff())
        others = rows[self.columns == column]
        others = others[others != head]
        own = self._rows(torch.tensor([head]))[0]
        found: list[tuple[int, float]] = []
        for part in others.split(ROWS_AT_ONCE):
            x = self._rows(part)
            cosine = (x @ own) / (x.sum(1).sqrt() * own.sum().sqrt()).clamp(min=1)
            found += zip(part.tolist(), cosine.tolist(), strict=True)
        return sorted(found, key=lambda pair: -pair[1])[:k]

    @cached_property
    def _leverages(self) -> Tensor:
        """(N,) x P x' of each entity."""
        entities = torch.arange(len(self.starts) - 1)
        parts = [entities[:0].float()]
        for heads in entities.split(ROWS_AT_ONCE):
            starts, columns = self._columns_of(heads)
            z = F.embedding_bag(columns, self.inverse, starts, mode="sum")
            parts.append((z * self._rows(heads)).sum(1))
        return torch.cat(parts)
