"""What the trees of one slot say.

m entities   F columns   f of them that trees see   K labels
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kbdisk.forest.trees import Trees
from kbdisk.forest.units import Units
from kbdisk.guides import Labels, Said, Seen


@dataclass(frozen=True)
class Grown:
    """The trees of one slot: an expert."""

    trees: Trees
    columns: Tensor  # (f,) which of all they see
    labels: Tensor  # (K,) the codes of what they tell apart; none: they tell a number
    kept: Tensor  # () float64, the share of all values that are one of these labels
    units: Units | None = None  # in which a number is told

    def tell(self, seen: Seen) -> Said:
        """Numbers, or how likely each label is."""
        told = self.trees(seen.columns[:, self.columns])
        if not len(self.labels):
            return (
                told[:, 0]
                if self.units is None
                else torch.from_numpy(self.units.back(told[:, 0].cpu().numpy())).to(told)
            )
        return Labels(self.labels.expand(len(told), -1), self.kept * told.softmax(1))
