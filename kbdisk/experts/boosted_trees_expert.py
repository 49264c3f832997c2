"""What the trees of one slot say.

m entities   F columns   f of them that trees see   K labels
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kbdisk.experts.base import Labels, Said, Seen
from kbdisk.experts.boosted_trees_tensors import Trees
from kbdisk.experts.target_scale import Units


@dataclass(frozen=True)
class Grown:
    """The trees of one slot: an expert."""

    trees: Trees
    columns: Tensor  # (f,) which of all they see
    labels: Tensor  # (K,) the codes of what they tell apart; none: they tell a number
    kept: Tensor  # () float64, the share of all values that are one of these labels
    units: Units | None  # of a number; None of labels

    def tell(self, seen: Seen) -> Said:
        """Numbers, or how likely each label is."""
        scores = self.trees(seen.columns[:, self.columns])
        if self.units is not None:
            return torch.from_numpy(self.units.back(scores[:, 0].cpu().numpy())).to(scores)
        return Labels(self.labels.expand(len(scores), -1), self.kept * scores.softmax(1))
