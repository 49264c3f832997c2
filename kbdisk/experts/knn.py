"""Kin: known entities that are alike in what is visible, and what they say of one property.

A number is told by means of the nearest, which count the more the nearer they are, more or less steeply; by surfaces
through them (kbdisk.experts.kriging); and by the mean of all. A label is told by the nearest.

m asked   M known entities of one class with the property   N known entities   K nearest   F columns   E ways of telling
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from torch import Tensor

from kbdisk.experts import kriging
from kbdisk.experts.base import Labels, Said, Seen
from kbdisk.experts.knn_metric import distances

TOLD = ("number", "category", "link")  # kinds of values that they tell
STEEP = (0.5, 1.0, 2.0, 4.0)  # how fast others count less, in parts of how fast they did where it was learnt
WAYS = len(STEEP) + len(kriging.SURFACES) + 1  # of telling a number; the last: the mean of all
NEAR = 8  # lengths of surfaces are in parts of the distance to this one
ROOM = 1 << 22  # distances, or columns of neighbours, at once
SLIGHT = 1e-6  # of a distance


@dataclass(frozen=True)
class Known:
    """Known entities, of all classes."""

    columns: Tensor  # (N, F) float16, NaN where nothing is known
    who: Tensor  # (N,)
    held: Tensor  # (N,) whether that was held out in training

    @property
    def apart(self) -> Tensor:
        """Who was held out."""
        return self.who[self.held]

    def and_others(self, others: Known) -> Known:
        """Both, these first."""
        return Known(*(torch.cat([getattr(one, field.name) for one in (self, others)]) for field in fields(Known)))


class Near(NamedTuple):
    """The nearest of each of m entities."""

    rows: Tensor  # (m, K) which of the M
    square: Tensor  # (m, K) float64 how far, ascending; infinite where there is none
    unfit: Tensor  # (m, M) who has no say


@dataclass(frozen=True)
class Kin:
    """Who knows one property by who is alike: an expert."""

    known: Known
    rows: Tensor  # (M,) which of the known ones have it
    values: Tensor  # (M,) float64 numbers, or codes of labels
    weights: Tensor  # (F,) what each column counts in a distance
    ways: Tensor  # (E,) float64, what each way of telling is worth
    nearest: int

    @property
    def is_number(self) -> bool:
        """Whether it is a number that they know, and not a label."""
        return self.values.is_floating_point()

    def tell(self, seen: Seen) -> Said:
        """Numbers, or who has which label and how much that counts."""
        parts = [self._tell(Seen(*some)) for some in zip(*(one.split(self.part) for one in seen), strict=True)]
        if self.is_number:
            return torch.cat([one for one in parts if not isinstance(one, Labels)])
        codes, mass = zip(*parts, strict=True)
        return Labels(torch.cat(codes), torch.cat(mass))

    @property
    def part(self) -> int:
        """Of how many entities it is told at once."""
        return max(ROOM // max(len(self.rows), self.nearest * len(self.weights)), 1)

    def _tell(self, seen: Seen) -> Said:
        near = self.near(seen)
        if not self.is_number:
            return Labels(self.values[near.rows], torch.einsum("e,mek->mk", self.ways, counts(near)))
        told: Tensor = self.answers(seen, near, self.ways > 0) @ self.ways
        return told

    def near(self, seen: Seen) -> Near:
        """Who is nearest: nobody is his own kin, nor is who was held out that of others who were."""
        columns = self.known.columns[self.rows]
        square = distances(self.weights, seen.columns, columns.float()).clamp(min=0)
        apart = torch.isin(seen.who, self.known.apart)
        unfit = (seen.who[:, None] == self.known.who[self.rows]) | (apart[:, None] & self.known.held[self.rows])
        found = square.masked_fill(unfit, torch.inf).topk(min(self.nearest, len(self.rows)), largest=False)
        return Near(found.indices, found.values.double(), unfit)

    def answers(self, seen: Seen, near: Near, wanted: Tensor) -> Tensor:
        """(m, E) float64, the number that is told in each way; anything but NaN in those that are not wanted (E,).

        Where nobody is near, all tell the mean.
        """
        numbers, mean = self.values[near.rows], self._means(near)[:, None]  # (m, K), (m, 1)
        every = [counts(near), self._surfaces(seen, near, wanted[len(STEEP) : -1])]
        told = [torch.einsum("mek,mk->me", one, numbers - mean) + mean for one in every]
        return torch.cat([*told, mean], 1)

    def _means(self, near: Near) -> Tensor:
        """(m,) of all who have a say; of all there are where nobody has."""
        fit = (~near.unfit).to(self.values.dtype)
        count = fit.sum(1)
        return torch.where(count > 0, fit @ self.values / count.clamp(min=1), self.values.mean())

    def _surfaces(self, seen: Seen, near: Near, wanted: Tensor) -> Tensor:
        m, K = near.rows.shape
        there = ~seen.columns.isnan()
        weights = self.weights.sqrt()
        columns = self.known.columns[self.rows[near.rows]].float().nan_to_num() * weights  # (m, K, F)
        places = (columns * there[:, None]).flatten(0, 1)
        scale = near.square[:, min(NEAR, K) - 1 : min(NEAR, K)].nan_to_num(posinf=1.0) + SLIGHT
        every = torch.arange(m * K, device=places.device).view(m, K)
        at = seen.columns.nan_to_num() * weights
        return kriging.counts(at, places, every, near.square.isfinite(), scale, wanted)

    def among(self, known: Known, rows: Tensor, values: Tensor) -> Kin:
        """Itself with more who have the property, of more who are known."""
        return replace(self, known=known, rows=torch.cat([self.rows, rows]), values=torch.cat([self.values, values]))


def counts(near: Near) -> Tensor:
    """(m, S, K) float64, what each counts, however steeply: they add up to 1, or to 0 where there is none."""
    there = near.square.isfinite()
    over = (near.square - near.square[:, :1]).nan_to_num(nan=torch.inf, posinf=torch.inf)
    told = torch.stack([(-over * steep).softmax(1) for steep in STEEP], 1)
    return told.nan_to_num() * there[:, None]
