"""Boosted trees as plain tensors: what CatBoost has grown, asked without it, and kept as numbers alone.

Every tree asks the same question of all rows at each of its levels: is this column above that border? The answers are
the digits of a leaf's number.

n rows   F columns   T trees   d levels   K numbers of a leaf
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from catboost import CatBoost

ROOM = 1 << 18  # numbers of leaves at once: what fits the cache is fastest


@dataclass(frozen=True)
class Trees:
    """All trees that tell one property."""

    column: Tensor  # (T, d)
    border: Tensor  # (T, d) float32; infinite where a tree has fewer levels
    leaves: Tensor  # (T, 2 ** d, K) float32
    start: Tensor  # (K,) float64

    def __call__(self, x: Tensor) -> Tensor:
        """(n, F) float32, NaN where nothing is known -> (n, K) float64"""
        T, d = self.column.shape
        K = len(self.start)
        found = []
        for rows in x.split(max(ROOM // max(T * K, 1), 1)):
            across = rows.T.contiguous()  # (F, n): what one question is about lies together
            leaf = torch.zeros(T, len(rows), dtype=torch.int32, device=x.device)
            for level in range(d):  # nothing is above a border where nothing is known
                above = across[self.column[:, level]] > self.border[:, level, None]  # (T, n)
                leaf.add_(above, alpha=1 << level)
            told = self.leaves.gather(1, leaf.long()[:, :, None].expand(-1, -1, K))  # (T, n, K)
            found.append(told.sum(0, dtype=torch.float64))
        return torch.cat(found) + self.start

    @classmethod
    def averaged(cls, boosters: Sequence[Trees]) -> Trees:
        """The trees of all boosters, each with its share of the average."""
        depth = max(booster.column.shape[1] for booster in boosters)
        padded = [booster.padded(depth) for booster in boosters]
        column = torch.cat([booster.column for booster in padded])
        border = torch.cat([booster.border for booster in padded])
        leaves = torch.cat([booster.leaves for booster in padded]) / len(padded)
        return cls(column, border, leaves, torch.stack([booster.start for booster in padded]).mean(0))

    def padded(self, depth: int) -> Trees:
        """The same trees with so many levels: the added ones ask what no row fulfils."""
        levels = depth - self.column.shape[1]
        leaves = (1 << depth) - self.leaves.shape[1]
        return replace(
            self,
            column=F.pad(self.column, (0, levels)),
            border=F.pad(self.border, (0, levels), value=torch.inf),
            leaves=F.pad(self.leaves, (0, 0, 0, leaves)),
        )

    def to(self, device: torch.device) -> Trees:
        """Itself on a device."""
        return Trees(*(one.to(device) for one in vars(self).values()))

    @classmethod
    def of(cls, booster: CatBoost) -> Trees:
        """What a CatBoost of columns that are all numbers has learnt."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "trees.json"
            booster.save_model(str(file), format="json")
            told = json.loads(file.read_bytes())
        scale, start = told["scale_and_bias"]
        return cls._read(told["oblivious_trees"], scale, start)

    @classmethod
    def _read(cls, trees: Sequence[Mapping[str, Any]], scale: float, start: Sequence[float]) -> Trees:
        K = len(start)
        d = max((len(one["splits"] or ()) for one in trees), default=0)
        column = torch.zeros(len(trees), d, dtype=torch.long)
        border = torch.full((len(trees), d), torch.inf)
        leaves = torch.zeros(len(trees), 1 << d, K)
        for number, one in enumerate(trees):
            values = torch.tensor(one["leaf_values"], dtype=torch.float64).view(-1, K) * scale
            leaves[number, : len(values)] = values.float()
            for level, split in enumerate(one["splits"] or ()):
                column[number, level] = split["float_feature_index"]
                border[number, level] = split["border"]
        return cls(column, border, leaves, torch.tensor(start, dtype=torch.float64))
