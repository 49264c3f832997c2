"""The trees of one property as tensors: they need no library that grows trees, and are stored as numbers.

Two kinds: trees of labels are symmetric (oblivious), as CatBoost grows them; trees of numbers grow leaf-wise, as scikit-learn's
histogram boosting grows them.

n values   f features   T trees   d levels   S splits   L leaves   K labels, or 1
"""

from __future__ import annotations

import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from catboost import CatBoost

CACHED_ANSWERS = 1 << 16  # of all trees at once: as many as fit a processor's cache
ANSWERS_ELSEWHERE = 1 << 22  # the same of a GPU, which each operation keeps waiting
MAX_LEAVES = 31  # of a leaf-wise tree: the bits of a positive int32


@dataclass(frozen=True)
class Trees(ABC):
    """The trees of one property, whose leaves are added.

    A split asks whether a feature is above a border.
    """

    column: Tensor  # (T, splits) features
    border: Tensor  # (T, splits) float32; infinite where a tree has fewer splits
    leaves: Tensor  # (T, leaves, K) float32
    start: Tensor  # (K,) float64

    @abstractmethod
    def __call__(self, x: Tensor) -> Tensor:
        """(n, f) float32 features, NaN where unknown -> (n, K) float64 raw scores"""

    def _rows_at_once(self, x: Tensor) -> int:
        """How many rows are answered together."""
        at_once = CACHED_ANSWERS if x.device.type == "cpu" else ANSWERS_ELSEWHERE
        return max(at_once // max(len(self.column) * len(self.start), 1), 1)

    def _answers(self, by_feature: Tensor) -> Iterator[Tensor]:
        """Of each split of all trees, (T, n) int32 whether rows are above its border, by features (f, n): 0 or 1. The next overwrites it."""
        borders = self.border.T[:, :, None]
        numbers = by_feature.new_empty(len(self.column), by_feature.shape[1])
        above = torch.empty_like(numbers, dtype=torch.int32)
        for columns, border in zip(self.column.T, borders, strict=True):
            torch.index_select(by_feature, 0, columns, out=numbers)
            yield torch.gt(numbers, border, out=above)

    @abstractmethod
    def padded(self, splits: int) -> Self:
        """The same trees with so many splits: no row is above the borders that are added."""

    @classmethod
    def averaged(cls, boosters: Sequence[Self]) -> Self:
        """The trees of all boosters, each with its share of the average."""
        splits = max(booster.column.shape[1] for booster in boosters)
        padded = [booster.padded(splits) for booster in boosters]
        joined = {part.name: torch.cat([getattr(booster, part.name) for booster in padded]) for part in fields(cls)}
        start = torch.stack([booster.start for booster in padded]).mean(0)
        return cls(**{**joined, "leaves": joined["leaves"] / len(padded), "start": start})

    def to(self, device: torch.device) -> Self:
        """The same on a device."""
        return type(self)(**{name: tensor.to(device) for name, tensor in vars(self).items()})


@dataclass(frozen=True)
class SymmetricTrees(Trees):
    """Symmetric (oblivious) trees: all nodes of a level compare the same feature with the same border.

    The answers of d levels are the bits of the number of one of 2 ** d leaves.
    """

    def __call__(self, x: Tensor) -> Tensor:
        """(n, f) float32 features, NaN where unknown -> (n, K) float64 raw scores"""
        T, K = len(self.column), len(self.start)
        scores = []
        for rows in x.split(self._rows_at_once(x)):
            leaf = torch.zeros(T, len(rows), dtype=torch.int32, device=x.device)
            for level, above in enumerate(self._answers(rows.T.contiguous())):  # NaN is above no border
                leaf.add_(above, alpha=1 << level)
            values = self.leaves.gather(1, leaf.long()[:, :, None].expand(-1, -1, K))  # (T, n, K)
            scores.append(values.sum(0, dtype=torch.float64))
        return torch.cat(scores) + self.start

    def padded(self, splits: int) -> SymmetricTrees:
        """The same trees with so many levels."""
        levels = splits - self.column.shape[1]
        leaves = (1 << splits) - self.leaves.shape[1]
        return replace(
            self,
            column=F.pad(self.column, (0, levels)),
            border=F.pad(self.border, (0, levels), value=torch.inf),
            leaves=F.pad(self.leaves, (0, 0, 0, leaves)),
        )

    def among(self, outputs: Tensor, count: int) -> SymmetricTrees:
        """The same trees with so many outputs, among which theirs are those (K,); the others are 0."""
        leaves = self.leaves.new_zeros(*self.leaves.shape[:2], count).index_copy_(2, outputs, self.leaves)
        return replace(self, leaves=leaves, start=self.start.new_zeros(count).index_copy_(0, outputs, self.start))

    @classmethod
    def of(cls, booster: CatBoost) -> SymmetricTrees:
        """The trees of a fitted CatBoost whose features are all numbers."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "trees.json"
            booster.save_model(str(file), format="json")
            model = json.loads(file.read_bytes())
        scale, start = model["scale_and_bias"]
        return cls._read(model["oblivious_trees"], scale, start)

    @classmethod
    def _read(cls, trees: Sequence[Mapping[str, Any]], scale: float, start: Sequence[float]) -> SymmetricTrees:
        K = len(start)
        d = max((len(tree["splits"] or ()) for tree in trees), default=0)
        column = torch.zeros(len(trees), d, dtype=torch.long)
        border = torch.full((len(trees), d), torch.inf)
        leaves = torch.zeros(len(trees), 1 << d, K)
        for number, tree in enumerate(trees):
            values = torch.tensor(tree["leaf_values"], dtype=torch.float64).view(-1, K) * scale
            leaves[number, : len(values)] = values.float()
            for level, split in enumerate(tree["splits"] or ()):
                column[number, level] = split["float_feature_index"]
                border[number, level] = split["border"]
        return cls(column, border, leaves, torch.tensor(start, dtype=torch.float64))


@dataclass(frozen=True)
class LeafwiseTrees(Trees):
    """Trees in which each leaf may be split in a way of its own, whose predictions are numbers; asked as QuickScorer does (Lucchese et al. 2015).

    Leaves are numbered from left to right, and are the bits of an integer. A split whose number is above its border rules out the leaves of its
    left branch, whether the split is reached or not. The remaining leaf with the lowest number is the one that is reached. So all rows
    ask all splits, without a jump.

    Of f features, column c + f is feature c, too; there an unknown value counts as above the border.
    """

    left: Tensor  # (T, S) the leaves of the split's left branch, as bits

    def __call__(self, x: Tensor) -> Tensor:
        """(n, f) float32 features, NaN where unknown -> (n, 1) float64"""
        T, left = len(self.column), self.left.T.to(torch.int32)[:, :, None]
        scores = []
        for rows in x.split(self._rows_at_once(x)):
            both = torch.cat([rows.nan_to_num(nan=-torch.inf), rows.nan_to_num(nan=torch.inf)], 1)
            passed = torch.zeros(T, len(rows), dtype=torch.int32, device=x.device)
            for of_split, above in zip(left, self._answers(both.T.contiguous()), strict=True):
                passed |= above.mul_(of_split)
            reached = ~passed
            leaf = ((reached & -reached).float().view(torch.int32) >> 23) - 127  # the exponent of a power of two
            scores.append(self.leaves[:, :, 0].gather(1, leaf.long()).sum(0, dtype=torch.float64))
        return torch.cat(scores)[:, None] + self.start

    def padded(self, splits: int) -> LeafwiseTrees:
        """The same trees with so many splits."""
        added = splits - self.column.shape[1]
        return replace(
            self,
            column=F.pad(self.column, (0, added)),
            border=F.pad(self.border, (0, added), value=torch.inf),
            left=F.pad(self.left, (0, added)),
            leaves=F.pad(self.leaves, (0, 0, 0, added)),
        )

    @classmethod
    def of(cls, nodes: Sequence[NDArray[np.void]], features: int, start: float) -> LeafwiseTrees:
        """Of the nodes of each tree, as scikit-learn's histogram boosting has them, and the number of features."""
        T, S = len(nodes), max((int((tree["is_leaf"] == 0).sum()) for tree in nodes), default=0)
        column, border = np.zeros((T, S), np.int64), np.full((T, S), np.inf, np.float32)
        left, leaves = np.zeros((T, S), np.int64), np.zeros((T, S + 1, 1), np.float32)
        for number, tree in enumerate(nodes):
            splits = tree[tree["is_leaf"] == 0]
            in_order, bits = _from_left_to_right(tree)
            column[number, : len(splits)] = splits["feature_idx"] + features * (splits["missing_go_to_left"] == 0)
            border[number, : len(splits)] = _below(splits["num_threshold"])
            left[number, : len(splits)] = bits
            leaves[number, : len(in_order), 0] = tree["value"][in_order]
        of_splits = torch.from_numpy(column), torch.from_numpy(border)
        starts = torch.tensor([start], dtype=torch.float64)
        return cls(*of_splits, torch.from_numpy(leaves), starts, torch.from_numpy(left))


def _from_left_to_right(tree: NDArray[np.void]) -> tuple[list[int], list[int]]:
    """The nodes that are leaves, from left to right; and of each split, in the order of nodes, the leaves of its left branch as bits."""
    is_leaf, lefts, rights = (tree[name].tolist() for name in ("is_leaf", "left", "right"))
    leaves: list[int] = []
    bits = dict.fromkeys((node for node, leaf in enumerate(is_leaf) if not leaf), 0)
    waiting = [(0, False)]  # nodes, and whether all leaves left of them were counted
    while waiting:
        node, has_left = waiting.pop()
        if has_left:
            bits[node] = (1 << len(leaves)) - bits[node]
            waiting.append((rights[node], False))
        elif is_leaf[node]:
            leaves.append(node)
        else:
            bits[node] = 1 << len(leaves)
            waiting += [(node, True), (lefts[node], False)]
    return leaves, list(bits.values())


def _below(borders: NDArray[np.float64]) -> NDArray[np.float32]:
    """Borders rounded down to float32: a float32 number is above the rounded border exactly where it is above the border.

    They stay finite, so unknown values, which count as infinity, are above.
    """
    finite = np.minimum(borders, np.finfo(np.float32).max)
    rounded = finite.astype(np.float32)
    return np.where(rounded > finite, np.nextafter(rounded, np.float32(-np.inf)), rounded)
