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

from kbdisk.leaves.layers import Dropout, Linear

SHORT = 16  # entities of up to so many rows share a bucket
PLAIN = 64  # up to this length, small bfloat16 products beat the fused kernel sevenfold on a CPU


class EntityEncoder(nn.Module):
    """A transformer over each entity's rows."""

    def __init__(self, width: int, layers: int, heads: int, hidden: int, dropout: float, scale: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, heads, hidden, dropout, scale) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, seen: int, whole: Layout, asked: Layout) -> Tensor:
        """(N, D) -> what is made of the asked rows (N - seen, D)."""
        for place, layer in enumerate(self.layers, start=1):
            last = place == len(self.layers)
            x = layer(x, seen, asked if last else whole, last)
        out: Tensor = self.norm(x)
        return out

    def looked_at(self, x: Tensor, layout: Layout) -> Tensor:
        """(N, D) seen rows alone -> what those asked would look at in the last layer (N, D)."""
        *before, last = self.layers
        for layer in before:
            x = layer(x, len(x), layout, False)
        assert isinstance(last, Layer)
        out: Tensor = last.before_attention(x)
        return out


class Layer(nn.Module):
    """Attention, then a two-layer map of each row; both add to what came."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float, scale: float) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(width)
        self.query = Linear(width, width)
        self.key_value = Linear(width, 2 * width)
        self.mix = Linear(width, width)
        self.before_map = nn.LayerNorm(width)
        self.widen = Linear(width, hidden)
        self.narrow = Linear(hidden, width)
        self.dropout = Dropout(dropout)
        self.heads, self.scale = heads, scale

    def forward(self, x: Tensor, seen: int, layout: Layout, last: bool) -> Tensor:
        """(N, D) -> (N, D), or of the last layer (N - seen, D)."""
        # DIFF(paper): normalised before each part rather than after it, which needs no warm-up to be stable.
        h = self.before_attention(x)
        key, value = self.key_value(h[:seen]).chunk(2, -1)  # (seen, D) each
        if last:
            h, x = h[seen:], x[seen:]
        x = x + self.dropout(self.mix(layout.attend(self.query(h), key, value, self.heads, self.scale)))
        mapped: Tensor = self.dropout(self.narrow(F.relu(self.widen(self.before_map(x)))))
        return x + mapped


@dataclass(frozen=True)
class Padding:
    """Where the rows of a bucket's entities go: (b * L) places, row by row."""

    rows: Tensor  # (r,) which rows
    places: Tensor  # (r,) where each goes
    shape: tuple[int, int]  # b, L

    def pad(self, x: Tensor) -> Tensor:
        """(N, D) -> (b, L, D), zeros where there is no row."""
        blank = x.new_zeros(self.shape[0] * self.shape[1], x.shape[1])
        padded: Tensor = blank.index_copy(0, self.places, x.index_select(0, self.rows)).unflatten(0, self.shape)
        return padded

    def blank(self) -> Tensor:
        """(b, 1, 1, L): where there is no row."""
        blank = torch.ones(self.shape[0] * self.shape[1], dtype=torch.bool, device=self.places.device)
        return blank.index_fill(0, self.places, False).view(self.shape[0], 1, 1, self.shape[1])


@dataclass(frozen=True)
class Bucket:
    """Entities of like length: their queries, what these look at, and where that is padding."""

    asking: Padding
    seen: Padding
    blank: Tensor


@dataclass(frozen=True)
class Layout:
    """Which rows look at which: the queries of an entity at its seen rows, of which each entity has one at least."""

    buckets: tuple[Bucket, ...]

    def attend(self, query: Tensor, key: Tensor, value: Tensor, heads: int, scale: float) -> Tensor:
        """(Nq, D), (Nk, D), (Nk, D) -> (Nq, D)."""
        rows, mixed = [], []
        for one in self.buckets:
            q, k, v = (_heads(part, heads) for part in (one.asking.pad(query), one.seen.pad(key), one.seen.pad(value)))
            out = _attend(q, k, v, one.blank, scale).transpose(1, 2).flatten(2).flatten(0, 1)  # (b * L, D)
            rows.append(one.asking.rows)
            mixed.append(out.index_select(0, one.asking.places))
        if not rows:
            return query
        return torch.empty_like(query).index_copy(0, torch.cat(rows), torch.cat(mixed))


def arrange(asking: Tensor, seen: Tensor, size: int) -> Layout:
    """The layout of query rows (Nq,) and seen rows (Nk,), given as whose entity's each is, of `size` entities."""
    queries, keys = asking.bincount(minlength=size), seen.bincount(minlength=size)  # (B,)
    length = torch.maximum(queries, keys).clamp(min=SHORT)
    bucket = (length - 1).float().log2().floor().masked_fill(queries == 0, -1)  # (B,) lengths in (2^k, 2^(k + 1)]
    sorted_asking, sorted_seen = _sorted(asking, queries), _sorted(seen, keys)
    buckets = []
    for which in bucket.unique().tolist():
        if which >= 0:
            chosen = bucket == which
            pads = [_padding(rows, chosen, counts) for rows, counts in ((sorted_asking, queries), (sorted_seen, keys))]
            buckets.append(Bucket(pads[0], pads[1], pads[1].blank()))
    return Layout(tuple(buckets))


def _sorted(entity: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows entity by entity, whose each is, and its place among the entity's."""
    order = entity.argsort(stable=True)
    whose = entity[order]
    start = counts.cumsum(0) - counts
    return order, whose, torch.arange(len(order), device=order.device) - start[whose]


def _padding(rows: tuple[Tensor, Tensor, Tensor], chosen: Tensor, counts: Tensor) -> Padding:
    """The padding of the chosen entities' rows."""
    order, whose, place = rows
    local, length = chosen.cumsum(0) - 1, int(counts[chosen].max())  # (B,) an entity's place in the bucket
    if not bool(chosen.all()):
        here = chosen[whose]
        order, whose, place = order[here], whose[here], place[here]
    return Padding(order, local[whose] * length + place, (int(chosen.sum()), length))


def _heads(x: Tensor, heads: int) -> Tensor:
    """(b, L, D) -> (b, H, L, d)."""
    apart: Tensor = x.unflatten(2, (heads, -1))
    return apart.transpose(1, 2)


def _attend(q: Tensor, k: Tensor, v: Tensor, blank: Tensor, scale: float) -> Tensor:
    """(b, H, Lq, d) and (b, H, Lk, d) twice -> (b, H, Lq, d)."""
    if q.dtype is torch.bfloat16 and q.device.type == "cpu" and max(q.shape[2], k.shape[2]) <= PLAIN:
        scores = (q @ k.transpose(2, 3) * scale).masked_fill(blank, -torch.inf)
        return scores.softmax(-1) @ v
    return F.scaled_dot_product_attention(q, k, v, attn_mask=~blank, scale=scale)
