"""Ordered labels: one number says where on their scale a row stands, cuts between the labels say which that is.

    P(label <= k) = sigmoid((cut k - place) / spread)

m rows   V labels, at most, of a slot   O slots of ordered labels   D width
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.leaves.labels import Labels
from kbdisk.leaves.layers import Readout, score_table

LEAST = 1e-3  # between two cuts, so that no label is ever impossible
FLATTEST = 4.0  # of the log of the spread


class CumulativeScores(Readout):
    """The log probabilities of ordered labels. Slots without any (None) have no weights here."""

    weight_names: ClassVar[tuple[str, ...]] = ("table",)
    sizes: Tensor
    own: Tensor
    starts: Tensor

    def __init__(self, labels: Sequence[Labels | None], width: int) -> None:
        super().__init__()
        ordered = [own for own in labels if own is not None]
        sizes = torch.tensor([len(own) for own in ordered])  # (O,)
        self.register_buffer("sizes", sizes, persistent=False)
        self.register_buffer("starts", sizes.cumsum(0) - sizes, persistent=False)
        places = torch.tensor([own is not None for own in labels]).cumsum(0) - 1
        self.register_buffer("own", places, persistent=False)  # (S,) which of the ordered ones a slot is
        self.table = score_table(2 * len(ordered), width)  # (2 O, D): place, log of the spread
        self.cuts = nn.Parameter(torch.cat([_cuts(own) for own in ordered]))  # (labels in all,) the first, then gaps

    def forward(self, h: Tensor, slot: Tensor) -> Tensor:
        """(m, D) and their slots -> (m, V), -inf beyond the labels of a row's slot"""
        own = self.own[slot]
        size = self.sizes[own][:, None]  # (m, 1)
        heads = F.embedding(torch.stack([2 * own, 2 * own + 1], 1), self.table)  # (m, 2, D)
        place, spread = torch.einsum("mkd,md->mk", heads, h).float().unbind(1)
        steep = (-spread.clamp(-FLATTEST, FLATTEST)).exp()[:, None]  # (m, 1)
        k = torch.arange(int(size.max()) if len(size) else 1, device=h.device)  # (V,)
        cuts = self.cuts[self.starts[own][:, None] + torch.minimum(k, size - 1)].float()  # (m, V)
        gap = F.softplus(cuts) + LEAST
        cut = cuts[:, :1] + F.pad(gap[:, 1:], (1, 0)).cumsum(1)  # (m, V); the last is used by no label
        upper = (cut - place[:, None]) * steep
        lower, gap = F.pad(upper[:, :-1], (1, 0)), gap * steep  # (m, V) of label k: cuts k - 1 and k, and between
        last = k == size - 1
        # sigmoid(u) - sigmoid(l) = sigmoid(u) sigmoid(-l) (1 - exp(l - u)), each factor exact however far out
        values = F.logsigmoid(upper).masked_fill(last, 0) + F.logsigmoid(-lower).masked_fill(k == 0, 0)
        values = values + (-torch.expm1(-gap)).log().masked_fill(last | (k == 0), 0)
        return values.masked_fill(k >= size, -torch.inf)


def _cuts(labels: Labels) -> Tensor:
    """(V,) the first cut, and what makes the gaps to the next ones: at how common the labels are in training."""
    counts = torch.tensor(labels.counts, dtype=torch.float64) + 0.5
    cut = (counts.cumsum(0) / counts.sum())[:-1].logit()
    gaps = (cut.diff() - LEAST).clamp(min=LEAST).expm1().log()
    return torch.cat([cut[:1], gaps, torch.zeros(1)]).float()
