"""Writer: a vector in, a text out, token by token: the transformer decoder that all text properties share.

    begin, a, b      what the decoder reads, each with the property's vector added
    a, b, end        what it is to say next

The tokens that are in no text (padding, never used, begin) cannot be said, so what is said sums to 1 over all texts:
those that end within the most tokens, and the beginnings of the others.

n texts   L tokens in the longest   T tokens of all   V tokens there are   t tokens said   D width
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from kbdisk.leaves.text.config import TextConfig
from kbdisk.leaves.text.layers import Cache, Tokens, Transformer
from kbdisk.leaves.text.packing import packed
from kbdisk.leaves.words import BOS, PAD, SPECIAL

SCORES = 2**26  # scores of tokens that are held at once; of more, only the sums are kept


class Writer(nn.Module):
    """A transformer decoder over token ids, given a vector for each text."""

    # DIFF(paper): one writer for all text properties, told apart by the vector; the GLU blocks before it are of each.
    # DIFF(paper): the vector is added at every place, not only put before the first: no place is far from it.

    def __init__(self, vocabulary: int, width: int, config: TextConfig, base: int = 64, dropout: float = 0.0) -> None:
        super().__init__()
        self.tokens = Tokens(vocabulary, width, dropout)
        self.transformer = Transformer(width, config, base)
        self.scores = nn.Linear(width, vocabulary - SPECIAL)

    def forward(self, h: Tensor, ids: Tensor) -> Tensor:
        """(n, D), (n, L) -> (n,) how likely these ids are, the end included where they have it."""
        packing = packed((ids != PAD).sum(1))
        said = packing.take(ids)  # (T,)
        read = packing.take(F.pad(ids[:, :-1], (1, 0), value=BOS))  # (T,)
        x = self.tokens(read, packing) + h[packing.row]  # (T, D)
        x, row = self.transformer(x, packing, causal=True), packing.row
        if packing.real is not None:
            x, said, row = x[packing.real], said[packing.real], row[packing.real]
        return h.new_zeros(len(h), dtype=torch.float32).index_add(0, row, self._log_prob(x, said))

    def _log_prob(self, x: Tensor, said: Tensor) -> Tensor:
        """(T, D), (T,) -> (T,). Many scores are made twice rather than kept."""
        rows = max(SCORES // self.scores.out_features, 1)
        if len(x) <= rows:
            return self._scored(x, said)
        parts = zip(x.split(rows), said.split(rows), strict=True)
        return torch.cat([checkpoint(self._scored, *part, use_reentrant=False) for part in parts])

    def _scored(self, x: Tensor, said: Tensor) -> Tensor:
        return -F.cross_entropy(self.scores(x).float(), said - SPECIAL, reduction="none")

    def begin(self, h: Tensor) -> Prefixes:
        """(n, D) -> texts of which nothing has been said."""
        return Prefixes(self, h, self.transformer.caches(h), 0)


@dataclass
class Prefixes:
    """The beginnings of some texts, all of t tokens."""

    writer: Writer
    h: Tensor  # (n, D)
    caches: list[Cache]
    length: int  # t

    def next(self, last: Tensor) -> Tensor:
        """(n,) the last token of each -> (n, V) how likely each token is to be the next; those before the end never."""
        x = self.writer.tokens.next(last, self.length) + self.h
        self.length += 1
        scores = self.writer.scores(self.writer.transformer.step(x, self.caches)).float()
        return F.pad(scores.log_softmax(1), (SPECIAL, 0), value=-torch.inf)

    def pick(self, rows: Tensor) -> Prefixes:
        """Some of them, in any order, also several times."""
        return Prefixes(self.writer, self.h[rows], [cache.pick(rows) for cache in self.caches], self.length)
