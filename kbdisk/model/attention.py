"""Entity encoder: a transformer over the rows of each entity, padded in buckets of similar length.

    x (N, D)   seen rows first (one for the class of each entity, then its visible properties), then asked rows

Asked rows are queries only, never keys, so a belief depends on what is visible and on its own path, on nothing else.
Seen rows are needed only as keys: the last layer computes asked rows alone.

Rows stay flat; only queries, keys and values are padded, to the longest entity of a bucket. Lengths of a bucket differ by
a factor of two at most, so padding at most doubles the rows: memory is linear in tokens, however uneven entities are.

N rows   b entities of a bucket   L the longest of them   H heads   D width   d width of a head
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.leaves.layers import AttentionMaps, Dropout

MIN_BUCKET_LENGTH = 16  # entities of up to so many rows share a bucket
MAX_UNFUSED_LENGTH = 64  # up to this length, small bfloat16 products beat the fused kernel sevenfold on a CPU


class EntityEncoder(nn.Module):
    """A transformer over the rows of each entity: seen rows are keys and queries, asked rows are queries alone."""

    def __init__(self, width: int, layers: int, heads: int, hidden: int, dropout: float, scale: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, heads, hidden, dropout, scale) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, seen: int, all_rows: Layout, asked_rows: Layout) -> Tensor:
        """(N, D) -> the asked rows (N - seen, D). The layouts have all rows, or the asked rows alone, as queries."""
        for number, layer in enumerate(self.layers, start=1):
            is_last = number == len(self.layers)
            x = layer(x, seen, asked_rows if is_last else all_rows, is_last)
        out: Tensor = self.norm(x)
        return out

    def encode_seen(self, x: Tensor, layout: Layout) -> Tensor:
        """(N, D) seen rows alone -> (N, D) the rows of which the last layer takes its keys and values."""
        *before, last = self.layers
        for layer in before:
            x = layer(x, len(x), layout, False)
        assert isinstance(last, Layer)
        out: Tensor = last.before_attention(x)
        return out


class Layer(AttentionMaps):
    """A transformer layer: attention, then a two-layer perceptron of each row, both residual."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float, scale: float) -> None:
        super().__init__(width, heads, hidden, scale)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, seen: int, layout: Layout, is_last: bool) -> Tensor:
        """(N, D), of which the first `seen` rows are keys -> (N, D); from the last layer the asked rows (N - seen, D)."""
        # DIFF(paper): normalised before each part rather than after it, which needs no warm-up to be stable.
        h = self.before_attention(x)
        key, value = self.key_value(h[:seen]).chunk(2, -1)  # (seen, D) each
        if is_last:
            h, x = h[seen:], x[seen:]
        x = x + self.dropout(self.mix(layout.attend(self.query(h), key, value, self.heads, self.scale)))
        mapped: Tensor = self.dropout(self.narrow(F.relu(self.widen(self.before_map(x)))))
        return x + mapped


@dataclass(frozen=True)
class Padding:
    """The rows of the entities of a bucket, and the (b * L) places that they are padded to."""

    rows: Tensor  # (r,) which rows
    places: Tensor  # (r,) the place of each
    shape: tuple[int, int]  # b, L

    def pad(self, x: Tensor) -> Tensor:
        """(N, D) -> (b, L, D), zeros where there is no row."""
        zeros = x.new_zeros(self.shape[0] * self.shape[1], x.shape[1])
        padded: Tensor = zeros.index_copy(0, self.places, x.index_select(0, self.rows)).unflatten(0, self.shape)
        return padded

    def mask(self) -> Tensor:
        """(b, 1, 1, L) the padding mask: True where there is no row."""
        mask = torch.ones(self.shape[0] * self.shape[1], dtype=torch.bool, device=self.places.device)
        return mask.index_fill(0, self.places, False).view(self.shape[0], 1, 1, self.shape[1])


@dataclass(frozen=True)
class Bucket:
    """Entities of similar length: their queries, their keys, and where the keys are padding."""

    queries: Padding
    keys: Padding
    mask: Tensor  # (b, 1, 1, L)


@dataclass(frozen=True)
class Layout:
    """Which rows attend to which: the queries of an entity to its keys, of which each entity has one at least."""

    buckets: tuple[Bucket, ...]

    def attend(self, query: Tensor, key: Tensor, value: Tensor, heads: int, scale: float) -> Tensor:
        """(Nq, D), (Nk, D), (Nk, D) -> (Nq, D)."""
        rows, outputs = [], []
        for bucket in self.buckets:
            padded = bucket.queries.pad(query), bucket.keys.pad(key), bucket.keys.pad(value)
            q, k, v = (_split_heads(part, heads) for part in padded)
            output = _attend(q, k, v, bucket.mask, scale).transpose(1, 2).flatten(2).flatten(0, 1)  # (b * L, D)
            rows.append(bucket.queries.rows)
            outputs.append(output.index_select(0, bucket.queries.places))
        if not rows:
            return query
        return torch.empty_like(query).index_copy(0, torch.cat(rows), torch.cat(outputs))


def build_layout(queries: Tensor, keys: Tensor, size: int) -> Layout:
    """The layout of query rows (Nq,) and key rows (Nk,), each given as the number of its entity, of `size` entities."""
    query_counts, key_counts = queries.bincount(minlength=size), keys.bincount(minlength=size)  # (B,)
    length = torch.maximum(query_counts, key_counts).clamp(min=MIN_BUCKET_LENGTH)
    bucket = (length - 1).float().log2().floor().masked_fill(query_counts == 0, -1)  # (B,) lengths in (2^k, 2^(k + 1)]
    sides = (_sort_rows(queries, query_counts), query_counts), (_sort_rows(keys, key_counts), key_counts)
    buckets = []
    for number in bucket.unique().tolist():
        if number >= 0:
            padded_queries, padded_keys = (_padding(rows, bucket == number, counts) for rows, counts in sides)
            buckets.append(Bucket(padded_queries, padded_keys, padded_keys.mask()))
    return Layout(tuple(buckets))


def _sort_rows(entity: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows entity by entity; the entity of each; its place among the rows of that."""
    order = entity.argsort(stable=True)
    entity = entity[order]
    start = counts.cumsum(0) - counts
    return order, entity, torch.arange(len(order), device=order.device) - start[entity]


def _padding(rows: tuple[Tensor, Tensor, Tensor], chosen: Tensor, counts: Tensor) -> Padding:
    """The padding of the rows of the chosen entities (B,)."""
    order, entity, place = rows
    local, length = chosen.cumsum(0) - 1, int(counts[chosen].max())  # (B,) the place of an entity in the bucket
    if not bool(chosen.all()):
        is_chosen = chosen[entity]
        order, entity, place = order[is_chosen], entity[is_chosen], place[is_chosen]
    return Padding(order, local[entity] * length + place, (int(chosen.sum()), length))


def _split_heads(x: Tensor, heads: int) -> Tensor:
    """(b, L, D) -> (b, H, L, d)."""
    split: Tensor = x.unflatten(2, (heads, -1))
    return split.transpose(1, 2)


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float) -> Tensor:
    """(b, H, Lq, d), (b, H, Lk, d), (b, H, Lk, d), the padding mask (b, 1, 1, Lk) -> (b, H, Lq, d)."""
    is_short = max(q.shape[2], k.shape[2]) <= MAX_UNFUSED_LENGTH
    if q.dtype is torch.bfloat16 and q.device.type == "cpu" and (is_short or not _has_fused_bfloat16()):
        scores = (q @ k.transpose(2, 3) * scale).masked_fill(mask, -torch.inf)
        return scores.softmax(-1) @ v
    return F.scaled_dot_product_attention(q, k, v, attn_mask=~mask, scale=scale)


def _has_fused_bfloat16() -> bool:
    """Whether torch's fused kernel for CPUs takes bfloat16. Without AVX-512 it fails on processors with AMX."""
    return "AVX512" in torch.backends.cpu.get_cpu_capability()
