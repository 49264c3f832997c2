"""Writer: a vector in, a text out, token by token: the transformer decoder that all text properties share.

    begin, a, b      what the decoder reads, each with the property's vector added
    a, b, end        what it is to say next

The tokens that are in no text (padding, never used, begin) cannot be said, so what is said sums to 1 over all texts:
those that end within the most tokens, and the beginnings of the others.

n texts   L tokens in the longest   T tokens of all   V tokens there are   t tokens said   D width
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.leaves.text.config import TextConfig
from kbdisk.leaves.text.layers import Cache, Tokens, Transformer
from kbdisk.leaves.text.packing import packed
from kbdisk.leaves.words import BOS, PAD, SPECIAL

PIECE = {"cpu": 2**19}  # scores that are worked on at once: what stays in the cache
LARGE = 2**26  # the same where there is none to speak of


class Writer(nn.Module):
    """A transformer decoder over token ids, given a vector for each text."""

    # DIFF(paper): one writer for all text properties, told apart by the vector; the GLU blocks before it are of each.
    # DIFF(paper): the vector is added at every place, not only put before the first: no place is far from it.

    def __init__(self, vocabulary: int, width: int, config: TextConfig, base: int = 64) -> None:
        super().__init__()
        self.tokens = Tokens(vocabulary, width, config.blank)
        self.transformer = Transformer(width, config, base)
        self.scores = nn.Linear(width, vocabulary - SPECIAL)

    def forward(self, h: Tensor, ids: Tensor) -> Tensor:
        """(n, D), (n, L) -> (n,) how likely these ids are, the end included where they have it."""
        return self.by_token(h, ids).sum(1)

    def by_token(self, h: Tensor, ids: Tensor) -> Tensor:
        """(n, D), (n, L) -> (n, L) how likely each is after those before it; 0 beyond a text's end."""
        packing = packed((ids != PAD).sum(1))
        said = packing.take(ids)  # (T,)
        read = packing.take(F.pad(ids[:, :-1], (1, 0), value=BOS))  # (T,)
        x = self.tokens(read, packing) + h[packing.row]  # (T, D)
        x, row, place = self.transformer(x, packing, causal=True), packing.row, packing.place
        if packing.real is not None:
            x, said, row, place = (one[packing.real] for one in (x, said, row, place))
        return torch.zeros(ids.shape, device=h.device).index_put((row, place), self._log_prob(x, said))

    def _log_prob(self, x: Tensor, said: Tensor) -> Tensor:
        """(T, D), (T,) -> (T,)"""
        dtype = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype
        weight, bias = self.scores.weight.to(dtype), self.scores.bias
        log_prob: Tensor = LogProb.apply(x.to(dtype), weight, bias, said - SPECIAL)  # type: ignore[no-untyped-call]
        return log_prob

    def begin(self, h: Tensor) -> Prefixes:
        """(n, D) -> texts of which nothing has been said."""
        return Prefixes(self, h, self.transformer.caches(h), 0)


class LogProb(torch.autograd.Function):
    """The log-probability of one score of many, each by a linear map: (T, D), (V, D), (V,), (T,) -> (T,).

    A softmax over a vocabulary is the writer's widest step. Done piece by piece, with what the gradient needs left in
    the scores' own place and type, in bfloat16 it takes half of the time and a fifth of the memory that torch's own parts do.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, said: Tensor) -> Tensor:
        scores = F.linear(x, weight)  # (T, V)
        log_prob = torch.empty(len(x), dtype=torch.float32, device=x.device)
        bias, rows = bias.float(), max(PIECE.get(x.device.type, LARGE) // len(weight), 1)
        for part, own, out in zip(scores.split(rows), said[:, None].split(rows), log_prob.split(rows), strict=True):
            log_p = (part + bias).log_softmax(1)  # (rows, V) in float32, as the bias is
            out.copy_(log_p.gather(1, own)[:, 0])
            part.copy_(log_p.exp_().scatter_add_(1, own, -torch.ones_like(own, dtype=log_p.dtype)))
        ctx.save_for_backward(x, weight, scores)
        return log_prob

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, errors = ctx.saved_tensors
        grad = -grad[:, None]
        by_row = (grad * x).to(x.dtype)  # (T, D): as good as weighing the far wider errors
        return (
            (grad * (errors @ weight)).to(x.dtype),
            errors.T @ by_row,
            (errors.T @ grad.to(x.dtype))[:, 0].float(),
            None,
        )


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
