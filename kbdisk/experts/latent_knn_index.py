"""Remembered values of one slot, found by vectors that are near to theirs.

m rows   M remembered values   K nearest   D width   R reaches   G surfaces   P kernels   W widths
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from kbdisk.experts import kriging
from kbdisk.leaves.number.around import WIDTHS
from kbdisk.leaves.words import PAD

SCALE = 8  # reaches are in parts of the squared distance to this neighbour
REACHES = (0.1, 0.4, 1.6, 6.4)
ROOM = 1 << 22  # distances at once
LEAST = 1e-3  # of a deviation
SAME = 1e-6  # of a squared distance, in each dimension
OWN = 2  # answers that a belief in a number has by itself
SAYING = OWN + len(REACHES) + len(kriging.SURFACES)  # who may say a number
TINY = 1e-12  # of an answer, that its own are left where there is nobody near


class Values(NamedTuple):
    """Hidden values of one slot: what the network made of what was visible, what they are, and whose."""

    vectors: Tensor  # (n, D)
    codes: Tensor  # (n, ...)
    who: Tensor  # (n,)

    @classmethod
    def joined(cls, several: Sequence[Values]) -> Values:
        """All of them."""
        vectors, codes, who = zip(*several, strict=True)
        return cls(torch.cat(vectors), together(codes), torch.cat(who))

    def shuffled(self, generator: torch.Generator) -> Values:
        """In any order: so none is preferred to others that are as near."""
        order = torch.randperm(len(self.who), generator=generator, device=self.who.device)
        return Values(*(one[order] for one in self))


class Near(NamedTuple):
    """The nearest values of each of m rows."""

    codes: Tensor  # (m, K, ...)
    counts: Tensor  # (m, R, K) float64, what each counts within each reach: they add up to 1, or 0 where there is none
    at: Tensor  # (m, D) where the rows are, in deviations from the mean
    rows: Tensor  # (m, K) which of what is remembered they are
    there: Tensor  # (m, K) whether there is one
    scale: Tensor  # (m, 1) float64, the squared distance to a near one


@dataclass(frozen=True)
class Shelf:
    """What is remembered of one slot, and what it is worth."""

    keys: Tensor  # (M, D) float16, in deviations from the mean
    mean: Tensor  # (D,)
    deviation: Tensor  # (D,)
    codes: Tensor  # (M, ...)
    who: Tensor  # (M,) whose each value is
    held: Tensor  # (M,) whether that was held out in training
    mass: Tensor  # (R, P) float64, of a belief's mass: for neighbours within a reach, by a kernel
    said: Tensor  # (OWN + R + G,) float64, of a number's answer: the belief's own, neighbours within a reach, surfaces
    around: Tensor  # (W,) float64, of the mass of a belief in numbers that has all this: for what is around its answer

    @classmethod
    def of(cls, values: Values) -> Shelf:
        """Values of training entities, of which nobody knows yet what they are worth."""
        vectors = values.vectors.float()
        mean, deviation = vectors.mean(0), vectors.std(0, correction=0).clamp(min=LEAST)
        mass = vectors.new_zeros(len(REACHES), 0, dtype=torch.float64)
        said = vectors.new_zeros(SAYING, dtype=torch.float64)
        said[:OWN] = 1 / OWN
        codes, who = values.codes[:0], values.who[:0]
        empty = cls(vectors[:0].half(), mean, deviation, codes, who, who > 0, mass, said, said.new_zeros(len(WIDTHS)))
        return empty.with_values(values, held=False)

    def __len__(self) -> int:
        return len(self.keys)

    def with_values(self, values: Values, *, held: bool) -> Shelf:
        """Itself with more values."""
        keys = ((values.vectors.float() - self.mean) / self.deviation).half()
        return replace(
            self,
            keys=torch.cat([self.keys, keys]),
            codes=together([self.codes, values.codes]),
            who=torch.cat([self.who, values.who]),
            held=torch.cat([self.held, torch.full_like(values.who, held, dtype=torch.bool)]),
        )

    def nearest(self, vectors: Tensor, who: Tensor, held: Tensor, most: int) -> Near:
        """Of rows of these vectors (m, D): no value of who (m,) they are of; none that was held out where they were (m,)."""
        at = (vectors.float() - self.mean) / self.deviation
        keys = self.keys.float()
        lengths = keys.square().sum(1)
        parts = [one.split(max(ROOM // len(self), 1)) for one in (at, who, held)]
        found = []
        for some, whose, kept_out in zip(*parts, strict=True):
            square = torch.addmm(lengths, some, keys.T, alpha=-2) + some.square().sum(1, keepdim=True)
            unfit = (whose[:, None] == self.who) | (kept_out[:, None] & self.held)
            found.append(square.clamp(min=0).masked_fill(unfit, torch.inf).topk(min(most, len(keys)), largest=False))
        square, rows = (torch.cat(several).double() for several in zip(*found, strict=True))
        rows, scale = rows.long(), _scale(square) + SAME * at.shape[1]
        return Near(self.codes[rows], _counts(square, scale), at, rows, square.isfinite(), scale)

    def believing(self, near: Near) -> Tensor:
        """(m, P, K) what each neighbour has of a belief's mass."""
        return torch.einsum("rp,mrk->mpk", self.mass, near.counts)

    def says(self, near: Near, *, every: bool = True) -> Tensor:
        """(m, R + G, K) what the number of each neighbour counts, within each reach and on each surface.

        Unless `every` is wanted, nothing counts on surfaces that are worth nothing.
        """
        wanted = self.said[-len(kriging.SURFACES) :] > 0
        if every:
            wanted = torch.ones_like(wanted)
        surfaces = kriging.counts(near.at, self.keys, near.rows, near.there, near.scale, wanted)
        return torch.cat([near.counts, surfaces], 1)

    def answers(self, near: Near, numbers: Tensor) -> Tensor:
        """(m, R + G) what neighbours say who have these numbers (m, K), within each reach and on each surface."""
        return torch.einsum("mrk,mk->mr", self.says(near), numbers)

    def saying(self, near: Near) -> Tensor:
        """(m, OWN + K) what a belief's own answers and the number of each neighbour count in an answer."""
        own = self.said[:OWN].clamp(min=TINY).expand(len(near.rows), OWN)
        said = torch.cat([own, torch.einsum("r,mrk->mk", self.said[OWN:], self.says(near, every=False))], 1)
        return said / said.sum(1, keepdim=True)

    def surrounding(self, near: Near) -> Tensor:
        """(m, W) what is around an answer has of a belief's mass, where there are neighbours at all."""
        return self.around * near.there.any(1, keepdim=True)


def together(several: Sequence[Tensor]) -> Tensor:
    """Codes (n, ...) as one tensor, texts as wide as the longest."""
    shape = max(one.shape[1:] for one in several)
    return torch.cat([wide(one, shape) for one in several])


def wide(codes: Tensor, shape: Sequence[int]) -> Tensor:
    """Codes each of which has this shape: texts are filled up, others have it as they are."""
    return F.pad(codes, (0, shape[0] - codes.shape[-1]), value=PAD) if shape else codes


def _counts(square: Tensor, scale: Tensor) -> Tensor:
    """(m, K) squared distances, ascending, infinite where nothing is, in parts of a scale (m, 1) -> (m, R, K)"""
    there = square.isfinite()
    over = ((square - square[:, :1]) / scale).nan_to_num(nan=0.0, posinf=torch.inf)  # (m, K)
    counts = torch.stack([(-over / reach).softmax(1) for reach in REACHES], 1)
    return counts * there[:, None]


def _scale(square: Tensor) -> Tensor:
    """(m, 1) how far it is to a near one, of squared distances (m, K); 0 where there is none."""
    last = square.isfinite().sum(1, keepdim=True).clamp(1, SCALE) - 1
    return square.gather(1, last).nan_to_num(posinf=0)
