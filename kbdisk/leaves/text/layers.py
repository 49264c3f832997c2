"""A transformer over packed tokens, normalised before each part; the reader and the writer are made of it.

T tokens of all texts   D width   H heads   d = D / H
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.blocks import Linear, attention_scale
from kbdisk.leaves.text.config import TextConfig
from kbdisk.leaves.text.packing import Packing, exact, steady
from kbdisk.rng import thread_generator


@dataclass
class Cache:
    """The keys and values of what a layer has seen of each text: (n, H, t, d)."""

    key: Tensor
    value: Tensor

    def grow(self, key: Tensor, value: Tensor) -> None:
        """One more token each: (n, H, 1, d)."""
        if self.key.shape[2]:
            key, value = torch.cat([self.key, key], 2), torch.cat([self.value, value], 2)
        self.key, self.value = key, value

    def pick(self, rows: Tensor) -> Cache:
        """Those of some of the texts."""
        return Cache(self.key[rows], self.value[rows])


class Layer(nn.Module):
    """Attention within each text, then a two-layer map of each token; both add to what came."""

    def __init__(self, width: int, heads: int, hidden: int, scale: float) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(width)
        self.query = Linear(width, width)
        self.key_value = Linear(width, 2 * width)
        self.mix = Linear(width, width)
        self.before_map = nn.LayerNorm(width)
        self.widen = Linear(width, hidden)
        self.narrow = Linear(hidden, width)
        self.heads, self.scale = heads, scale

    def forward(self, x: Tensor, packing: Packing, causal: bool = False, first: bool = False) -> Tensor:
        """(T, D) -> (T, D), or what is made of the first token of each text (n, D), in the packing's order."""
        h = self.before_attention(x)
        key, value = self.key_value(h).chunk(2, -1)  # (T, D) each
        if first:
            h, x = h[packing.first], x[packing.first]
        return self._map(x + self.mix(packing.attend(self.query(h), key, value, self.heads, self.scale, causal)))

    def step(self, x: Tensor, cache: Cache) -> Tensor:
        """(n, D) of the next token of each text -> (n, D), after what the cache has of it."""
        h = self.before_attention(x)
        query, key, value = (
            exact(part).unflatten(-1, (self.heads, 1, -1))  # (n, H, 1, d)
            for part in (self.query(h), *self.key_value(h).chunk(2, -1))
        )
        cache.grow(key, value)
        with steady(x.device):
            seen = F.scaled_dot_product_attention(query, cache.key, cache.value, scale=self.scale)
        return self._map(x + self.mix(seen.flatten(1)))

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
            Layer(width, config.heads, config.hidden * width, scale) for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(width)
        self.heads = config.heads

    def forward(self, x: Tensor, packing: Packing, causal: bool = False, first: bool = False) -> Tensor:
        """(T, D) -> (T, D), or what is made of each text's first token (n, D): the last layer works on those alone."""
        for place, layer in enumerate(self.layers, start=1):
            x = layer(x, packing, causal, first and place == len(self.layers))
        out: Tensor = self.norm(x)
        return out

    def step(self, x: Tensor, caches: list[Cache]) -> Tensor:
        """(n, D) of the next token -> (n, D)."""
        for layer, cache in zip(self.layers, caches, strict=True):
            assert isinstance(layer, Layer)
            x = layer.step(x, cache)
        out: Tensor = self.norm(x)
        return out

    def caches(self, like: Tensor) -> list[Cache]:
        """Nothing seen yet of any of the texts that `like` (n, D) stands for."""
        n, D = like.shape
        blank = like.new_empty(n, self.heads, 0, D // self.heads)
        return [Cache(blank, blank) for _ in self.layers]


class Tokens(nn.Module):
    """What stands at each place of a text: a learnt vector for the token, and sines for the place."""

    def __init__(self, vocabulary: int, width: int, blank: float) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.width, self.blank = width, blank

    def forward(self, tokens: Tensor, packing: Packing) -> Tensor:
        """(T,) -> (T, D). While training some tokens are blank, at the price of one draw for each."""
        x: Tensor = self.table(tokens)
        if self.training and self.blank:
            kept = torch.rand(len(x), 1, generator=thread_generator(), device=x.device) >= self.blank
            x = x * kept
        longest = max((length for _, length in packing.buckets), default=0)
        return x + self.places(longest)[packing.place]

    def next(self, tokens: Tensor, place: int) -> Tensor:
        """(n,) tokens of one place -> (n, D)"""
        x: Tensor = self.table(tokens)
        return x + self.places(place + 1)[place]

    def places(self, length: int) -> Tensor:
        """The sines of the first places: (length, D)."""
        return sines(length, self.width, self.table.weight.detach())


def sines(length: int, width: int, like: Tensor) -> Tensor:
    """(length, width): waves of every length from 2 pi to 10,000 times that."""
    half = (width + 1) // 2
    rates = torch.exp(torch.arange(half, device=like.device) * (-math.log(10_000) / half))
    angle = torch.arange(length, device=like.device)[:, None] * rates  # (length, half)
    return torch.cat([angle.sin(), angle.cos()], 1)[:, :width].to(like.dtype)
