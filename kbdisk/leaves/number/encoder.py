"""Numbers to vectors: an embedding of the code, of the atom it may be, of remainders; the path; residual GLU blocks.

n rows   D width   A atoms   G groups
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.layers import GLUBlock
from kbdisk.leaves.number.codec import NumberCodec
from kbdisk.leaves.number.embeddings import EMBEDDINGS
from kbdisk.leaves.number.waves import Waves


class NumberEncoder(nn.Module):
    """One for all number properties; each group of them has its own weights."""

    group: Tensor

    def __init__(self, codecs: Sequence[NumberCodec], setting: Setting) -> None:
        super().__init__()
        self.embedding = EMBEDDINGS[setting.config.embedding](codecs, setting)
        self.most = max((len(codec.atoms) for codec in codecs), default=0)
        # row 0 is for what is no atom; within a group that several properties share, atoms share by rank
        self.atoms = nn.Embedding(1 + setting.sets * self.most, setting.width, padding_idx=0) if self.most else None
        if self.atoms is not None:
            nn.init.normal_(self.atoms.weight[1:], std=0.02)
        self.register_buffer("group", torch.tensor(list(setting.groups), dtype=torch.long), persistent=False)
        whole = setting.config.waves and any(codec.whole for codec in codecs)
        self.waves = Waves(codecs, setting) if whole else None
        self.blocks = nn.ModuleList(
            GLUBlock(setting.sets, setting.width, dropout=setting.dropout) for _ in range(setting.blocks)
        )

    def forward(self, codes: Tensor, rows: Rows) -> Tensor:
        """(n, 4) -> (n, D)."""
        x: Tensor = self.embedding(codes[:, 0], rows) + rows.path  # (n, D)
        if self.atoms is not None:
            index = codes[:, 3].long()
            x = x + self.atoms(torch.where(index < 0, 0, 1 + self.group[rows.slot] * self.most + index))  # (n, D)
        if self.waves is not None:
            x = x + self.waves(codes[:, 0], rows)
        for block in self.blocks:
            x = block(x, rows.counts)
        return x
