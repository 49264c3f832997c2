"""Reader: texts in, one vector for each out: what a transformer makes of the token that each text begins with, and grams.

One reader serves all text of a knowledge base, its labels, too; the network owns it.

n texts   L tokens in the longest   T tokens of all   D width
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.leaves.text.config import TextConfig
from kbdisk.leaves.text.layers import Tokens, Transformer
from kbdisk.leaves.text.packing import packed
from kbdisk.leaves.words import BOS, PAD


class Reader(nn.Module):
    """A transformer encoder over token ids, beside what their spelling tells."""

    # DIFF(paper): the grams. Makers of phones are told from names ten times as early, and from names of no known word.

    def __init__(
        self,
        vocabulary: int,
        width: int,
        config: TextConfig,
        base: int = 64,
        grams: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.grams = grams
        self.tokens = Tokens(vocabulary, width, config.blank)
        self.transformer = Transformer(width, config, base)

    def forward(self, ids: Tensor) -> Tensor:
        """(n, L) token ids, 0 where a text has ended -> (n, D)"""
        whole = F.pad(ids, (1, 0), value=BOS)  # (n, 1 + L)
        packing = packed((whole != PAD).sum(1))
        x = self.tokens(packing.take(whole), packing)  # (T, D)
        read: Tensor = self.transformer(x, packing, first=True)  # (n, D), in order of length
        whole_text = torch.empty_like(read).index_copy(0, packing.order, read)
        return whole_text if self.grams is None else whole_text + self.grams(ids)
