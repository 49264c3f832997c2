"""The transformer of texts, with pre-normalisation, over tokens packed without padding; reader and writer are made of it.

**Packing.** Texts of all lengths are one flat row of tokens: only attention sees where a text ends. Texts are sorted by
length, and those of about the same length lie together as (texts, length). Up to 16 tokens lengths are exact, beyond they
are rounded up by an eighth at most. So hardly any work is done on padding, and the output for a text depends neither on
how wide its row was padded nor on its neighbours in the batch.

n texts   L tokens in the longest row   T tokens of all texts   D width   H heads   d = D / H   t tokens so far
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.leaves.layers import AttentionMaps, attention_scale
from kbdisk.leaves.text.codec import TextConfig
from kbdisk.rng import thread_generator

# ---------------------------------------------------------------- packing

MAX_EXACT = 16  # tokens: up to here no text is padded
PADDED_LENGTHS = torch.tensor(
    [*range(MAX_EXACT), *(MAX_EXACT * 2**power * step // 8 for power in range(16) for step in range(8, 16))]
)


@dataclass(frozen=True)
class Packing:
    """The text and the place of each token of a flat row."""

    order: Tensor  # (n,) the texts by length
    row: Tensor  # (T,) the text of each token
    place: Tensor  # (T,) its place in the text
    first: Tensor  # (n,) where each text begins, in order
    buckets: tuple[tuple[int, int], ...]  # texts, tokens of each
    is_token: Tensor | None  # (T,) false for padding; None where there is none

    def take(self, padded: Tensor) -> Tensor:
        """(n, L) -> (T,); places beyond the row are padding."""
        lacking = max((length for _, length in self.buckets), default=0) - padded.shape[1]
        return (F.pad(padded, (0, lacking)) if lacking > 0 else padded)[self.row, self.place]

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, heads: int, scale: float, causal: bool = False
    ) -> Tensor:
        """(T, D), or (n, D) with one query for each text, in order; keys and values (T, D) -> as many as queries.

        Each query attends to its own text; if causal, to the tokens up to it, which padding always follows.
        """
        with without_autocast(query.device):
            return self._attend([for_attention(x) for x in (query, key, value)], heads, scale, causal)

    def _attend(self, inputs: list[Tensor], heads: int, scale: float, causal: bool) -> Tensor:
        query, key, value = inputs
        sizes = [texts * length for texts, length in self.buckets]
        query_sizes = sizes if len(query) == len(key) else [texts for texts, _ in self.buckets]
        masks = [None] * len(sizes) if self.is_token is None or causal else self.is_token.split(sizes)
        outputs = []
        for *of_bucket, is_token, (texts, length) in zip(
            query.split(query_sizes), key.split(sizes), value.split(sizes), masks, self.buckets, strict=True
        ):
            q, k, v = (x.view(texts, -1, heads, x.shape[-1] // heads).transpose(1, 2) for x in of_bucket)
            mask = None if is_token is None or length <= MAX_EXACT else is_token.view(texts, 1, 1, length)
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=scale)
            outputs.append(out.transpose(1, 2).flatten(2).flatten(0, 1))  # (texts * length, D)
        return torch.cat(outputs) if outputs else query


def for_attention(x: Tensor) -> Tensor:
    """float32 on a CPU, where bfloat16 attention takes three times as long on texts as short as these."""
    return x.float() if x.device.type == "cpu" else x


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """The context of attention: no autocast on a CPU."""
    return torch.autocast("cpu", enabled=False) if device.type == "cpu" else nullcontext()


def pack(lengths: Tensor) -> Packing:
    """The packing of texts with so many tokens (n,); texts without tokens are nowhere."""
    ladder = PADDED_LENGTHS.to(lengths.device)
    padded_lengths = ladder[torch.searchsorted(ladder, lengths)]  # (n,)
    order = padded_lengths.argsort(stable=True)
    sizes = padded_lengths[order]
    buckets = torch.stack(sizes.unique_consecutive(return_counts=True), 1).tolist()
    total = sum(length * texts for length, texts in buckets)
    row = order.repeat_interleave(sizes, output_size=total)  # (T,)
    first = sizes.cumsum(0) - sizes  # (n,)
    place = torch.arange(total, device=row.device) - first.repeat_interleave(sizes, output_size=total)  # (T,)
    has_padding = any(length > MAX_EXACT for length, _ in buckets)
    is_token = place < lengths[row] if has_padding else None
    return Packing(order, row, place, first, tuple((texts, length) for length, texts in buckets if length), is_token)


# ---------------------------------------------------------------- layers


@dataclass
class Cache:
    """The keys and values of a layer for the tokens of each text so far: (n, H, t, d)."""

    key: Tensor
    value: Tensor

    def grow(self, key: Tensor, value: Tensor) -> None:
        """Append one token of each text: (n, H, 1, d)."""
        if self.key.shape[2]:
            key, value = torch.cat([self.key, key], 2), torch.cat([self.value, value], 2)
        self.key, self.value = key, value

    def pick(self, rows: Tensor) -> Cache:
        """The cache of some of the texts."""
        return Cache(self.key[rows], self.value[rows])


class TransformerLayer(AttentionMaps):
    """Attention within each text, then a two-layer perceptron of each token; both are residual."""

    def forward(self, x: Tensor, packing: Packing, causal: bool = False, first: bool = False) -> Tensor:
        """(T, D) -> (T, D), or the outputs for the first token of each text (n, D), in the packing's order."""
        h = self.before_attention(x)
        key, value = self.key_value(h).chunk(2, -1)  # (T, D) each
        if first:
            h, x = h[packing.first], x[packing.first]
        return self._map(x + self.mix(packing.attend(self.query(h), key, value, self.heads, self.scale, causal)))

    def step(self, x: Tensor, cache: Cache) -> Tensor:
        """(n, D) of the next token of each text -> (n, D), given the cache of those before it."""
        h = self.before_attention(x)
        query, key, value = (
            for_attention(part).unflatten(-1, (self.heads, 1, -1))  # (n, H, 1, d)
            for part in (self.query(h), *self.key_value(h).chunk(2, -1))
        )
        cache.grow(key, value)
        with without_autocast(x.device):
            out = F.scaled_dot_product_attention(query, cache.key, cache.value, scale=self.scale)
        return self._map(x + self.mix(out.flatten(1)))

    def _map(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.narrow(F.relu(self.widen(self.before_map(x))))
        return out


class Transformer(nn.Module):
    """Layers, and a last normalisation."""

    def __init__(self, width: int, config: TextConfig, base: int) -> None:
        super().__init__()
        if width % config.heads:
            raise ValueError(f"expected a width that the {config.heads} heads of text divide, got {width}")
        scale = attention_scale(width, config.heads, base)
        self.layers = nn.ModuleList(
            TransformerLayer(width, config.heads, config.hidden * width, scale) for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(width)
        self.heads = config.heads

    def forward(self, x: Tensor, packing: Packing, causal: bool = False, first: bool = False) -> Tensor:
        """(T, D) -> (T, D), or the outputs for each text's first token (n, D): the last layer computes those alone."""
        for number, layer in enumerate(self.layers, start=1):
            x = layer(x, packing, causal, first and number == len(self.layers))
        out: Tensor = self.norm(x)
        return out

    def step(self, x: Tensor, caches: list[Cache]) -> Tensor:
        """(n, D) of the next token -> (n, D)."""
        for layer, cache in zip(self.layers, caches, strict=True):
            assert isinstance(layer, TransformerLayer)
            x = layer.step(x, cache)
        out: Tensor = self.norm(x)
        return out

    def caches(self, like: Tensor) -> list[Cache]:
        """Empty caches for the texts of the rows of `like` (n, D)."""
        n, D = like.shape
        empty = like.new_empty(n, self.heads, 0, D // self.heads)
        return [Cache(empty, empty) for _ in self.layers]


class TokenEmbedding(nn.Module):
    """The input of the transformer: a learnt vector for each token, and sines for its place."""

    def __init__(self, vocabulary: int, width: int, blank: float) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.width, self.blank = width, blank

    def forward(self, tokens: Tensor, packing: Packing) -> Tensor:
        """(T,) -> (T, D). While training a share of the tokens is blanked, with one random number for each."""
        x: Tensor = self.table(tokens)
        if self.training and self.blank:
            kept = torch.rand(len(x), 1, generator=thread_generator(), device=x.device) >= self.blank
            x = x * kept
        longest = max((length for _, length in packing.buckets), default=0)
        return x + self.places(longest)[packing.place]

    def next(self, tokens: Tensor, place: int) -> Tensor:
        """(n,) tokens at one place -> (n, D)"""
        x: Tensor = self.table(tokens)
        return x + self.places(place + 1)[place]

    def places(self, length: int) -> Tensor:
        """(length, D) the sinusoidal embeddings of the first places."""
        return sinusoids(length, self.width, self.table.weight.detach())


def sinusoids(length: int, width: int, like: Tensor) -> Tensor:
    """(length, width): sinusoidal position embeddings, of wavelengths from 2 pi to 10,000 times that."""
    half = (width + 1) // 2
    rates = torch.exp(torch.arange(half, device=like.device) * (-math.log(10_000) / half))
    angle = torch.arange(length, device=like.device)[:, None] * rates  # (length, half)
    return torch.cat([angle.sin(), angle.cos()], 1)[:, :width].to(like.dtype)
