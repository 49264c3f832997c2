"""Texts of many lengths as one flat row of tokens: nothing but attention sees where a text ends.

Texts are sorted by length, and those of about one length lie together as (texts, length). Up to 16 tokens lengths are
exact, beyond they are rounded up by an eighth at most. So hardly any work is done on padding, and what is made of a
text depends neither on how wide its row was padded nor on what stands beside it.

n texts   L tokens in the longest row   T tokens of all   H heads   d width of one   D = H d
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

EXACT = 16  # tokens: up to here no text is padded
LADDER = torch.tensor([*range(EXACT), *(EXACT * 2**power * step // 8 for power in range(16) for step in range(8, 16))])


@dataclass(frozen=True)
class Packing:
    """Where each token of a flat row belongs."""

    order: Tensor  # (n,) the texts by length
    row: Tensor  # (T,) which text each token is of
    place: Tensor  # (T,) where in it
    first: Tensor  # (n,) where each text begins, in order
    buckets: tuple[tuple[int, int], ...]  # texts, tokens of each
    real: Tensor | None  # (T,) what is no padding; None where nothing is

    def take(self, padded: Tensor) -> Tensor:
        """(n, L) -> (T,); what lies beyond the row is padding."""
        lacking = max((length for _, length in self.buckets), default=0) - padded.shape[1]
        return (F.pad(padded, (0, lacking)) if lacking > 0 else padded)[self.row, self.place]

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, heads: int, scale: float, causal: bool = False
    ) -> Tensor:
        """(T, D), or (n, D) with one query for each text, in order; keys and values (T, D) -> as many as queries.

        Each looks at its own text; if causal, at what does not follow, which padding always does.
        """
        with steady(query.device):
            return self._attend([exact(part) for part in (query, key, value)], heads, scale, causal)

    def _attend(self, given: list[Tensor], heads: int, scale: float, causal: bool) -> Tensor:
        query, key, value = given
        sizes = [texts * length for texts, length in self.buckets]
        asking = sizes if len(query) == len(key) else [texts for texts, _ in self.buckets]
        real = [None] * len(sizes) if self.real is None or causal else self.real.split(sizes)
        parts = []
        for *whole, own, (texts, length) in zip(
            query.split(asking), key.split(sizes), value.split(sizes), real, self.buckets, strict=True
        ):
            q, k, v = (part.view(texts, -1, heads, part.shape[-1] // heads).transpose(1, 2) for part in whole)
            seen = None if own is None or length <= EXACT else own.view(texts, 1, 1, length)
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, is_causal=causal, scale=scale)
            parts.append(out.transpose(1, 2).flatten(2).flatten(0, 1))  # (texts * length, D)
        return torch.cat(parts) if parts else query


def exact(x: Tensor) -> Tensor:
    """What attention takes: on a CPU float32, as bfloat16 takes it three times as long on texts as short as these."""
    return x.float() if x.device.type == "cpu" else x


def steady(device: torch.device) -> AbstractContextManager[Any]:
    """Where attention is worked out: on a CPU as it is given."""
    return torch.autocast("cpu", enabled=False) if device.type == "cpu" else nullcontext()


def packed(lengths: Tensor) -> Packing:
    """How texts of so many tokens (n,) are packed; those of none are nowhere."""
    ladder = LADDER.to(lengths.device)
    room = ladder[torch.searchsorted(ladder, lengths)]  # (n,)
    order = room.argsort(stable=True)
    sizes = room[order]
    buckets = torch.stack(sizes.unique_consecutive(return_counts=True), 1).tolist()
    total = sum(length * texts for length, texts in buckets)
    row = order.repeat_interleave(sizes, output_size=total)  # (T,)
    begin = sizes.cumsum(0) - sizes  # (n,)
    place = torch.arange(total, device=row.device) - begin.repeat_interleave(sizes, output_size=total)  # (T,)
    padded = any(length > EXACT for length, _ in buckets)
    real = place < lengths[row] if padded else None
    return Packing(order, row, place, begin, tuple((texts, length) for length, texts in buckets if length), real)
