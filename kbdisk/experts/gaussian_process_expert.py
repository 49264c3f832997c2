"""A smooth function of what is visible that tells one property: a number, or how likely each label is.

What is hidden counts as usual. Nobody's own value has a say in what is told of him. Of a number that is far from even,
such as a price, what is told may be its code.

m asked   N known entities   n of them with the property   F columns   P knots   t numbers that are told: 1, or one for each label
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from kbdisk.experts.base import Labels, Said, Seen
from kbdisk.experts.gaussian_process import Kernel, inverse

ROOM = 1 << 22  # of what is alike, at once
BEYOND = 0.5  # of the span of known numbers: none is told to be further outside


@dataclass(frozen=True)
class Points:
    """Known entities, of all classes."""

    columns: Tensor  # (N, F) float32, NaN where nothing is known
    who: Tensor  # (N,)


@dataclass(frozen=True)
class Function:
    """Who knows one property by a function of all others: an expert."""

    points: Points
    rows: Tensor  # (n,) which of the points have it
    counts: Tensor  # (n, t) float64, what each of these counts
    kernel: Kernel
    mean: Tensor  # (t,) float64, what is told far from all points
    scale: Tensor  # (t,) float64, of what is told
    span: Tensor  # (2,) float64, the least and the greatest known number
    knots: Tensor  # (2, P) float64, numbers and their codes, ascending, where it is a code that is told; else none
    labels: Tensor  # (t,) the codes of labels; none of a number
    steep: Tensor  # () float64, how sure of the likeliest label it is

    def tell(self, seen: Seen) -> Said:
        """A number, or how likely each label is."""
        size = max(ROOM // max(len(self.rows), 1), 1)
        parts = zip(*(one.split(size) for one in seen), strict=True)
        told = torch.cat([self._tell(Seen(*part)) for part in parts])
        if len(self.labels):
            return Labels(self.labels.expand(len(told), -1), (self.steep * told).softmax(1))
        room = BEYOND * (self.span[1] - self.span[0])
        return self.numbers(told)[:, 0].clamp(self.span[0] - room, self.span[1] + room)

    def numbers(self, told: Tensor) -> Tensor:
        """What is told, as numbers."""
        return along(self.knots.flip(0), told)

    def _tell(self, seen: Seen) -> Tensor:
        """(m, t)"""
        alike = self.kernel.between(seen.columns.nan_to_num().double(), self._known)
        told = alike @ self.counts
        his, own = (seen.who[:, None] == self.points.who[self.rows]).nonzero().unbind(1)
        if len(his):
            inverse = self._inverse[:, own]  # (n, k)
            share = (alike[his] * inverse.T).sum(1) / inverse[own, torch.arange(len(own), device=own.device)]
            told[his] -= share[:, None] * self.counts[own]
        return told * self.scale + self.mean

    @cached_property
    def _known(self) -> Tensor:
        """(n, F)"""
        return self.points.columns[self.rows].nan_to_num().double()

    @cached_property
    def _inverse(self) -> Tensor:
        """(n, n)"""
        return inverse(self.kernel, self._known)


def along(knots: Tensor, values: Tensor) -> Tensor:
    """Values on the lines between knots (2, P), and on beyond them; without knots as they are."""
    if not knots.shape[1]:
        return values
    start, end = knots
    right = torch.searchsorted(start, values.contiguous()).clamp(1, len(start) - 1)
    part = (values - start[right - 1]) / (start[right] - start[right - 1])
    found: Tensor = end[right - 1] + part * (end[right] - end[right - 1])
    return found
