"""Numbers to vectors: an embedding of the code and of the atom it may be, the path, and residual GLU blocks.

n rows   D width   A atoms   G groups
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from kbdisk.blocks import GLUBlock
from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.number.codec import NumberCodec
from kbdisk.leaves.number.embeddings import EMBEDDINGS


class NumberEncoder(nn.Module):
    """One for all number properties; each group of them has its own weights."""

    group: Tensor

    def __init__(self, codecs: Sequence[NumberCodec], setting: Setting) -> None:
        super().__init__()
        self.embedding = EMBEDDINGS[setting.config.embedding](codecs, setting)
        self.most = max((len(codec.atoms) for codec in codecs), default=0)
        # within a group that several properties share, atoms share by rank
        self.atoms = nn.Parameter(torch.randn(setting.sets * self.most, setting.width) * 0.02)  # (G A, D)
        self.register_buffer("group", torch.tensor(list(setting.groups), dtype=torch.long), persistent=False)
        self.blocks = nn.ModuleList(
            GLUBlock(setting.sets, setting.width, dropout=setting.dropout) for _ in range(setting.blocks)
        )

    def forward(self, codes: Tensor, rows: Rows) -> Tensor:
        """(n, 4) -> (n, D)."""
        x: Tensor = self.embedding(codes[:, 0], rows) + rows.path  # (n, D)
        if self.most:
            index = codes[:, 3].long()
            atoms = self.atoms[self.group[rows.slot] * self.most + index.clamp(min=0)]  # (n, D)
            x = x + atoms * (index >= 0)[:, None]
        for block in self.blocks:
            x = block(x, rows.counts)
        return x
