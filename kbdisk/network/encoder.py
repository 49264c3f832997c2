"""Entity encoder: rows of an entity look at what is visible of it.

    x (N, D)   seen rows first (one for its class per entity, then its visible properties), then those asked for

Asked rows query and are never looked at, so a belief depends on what is visible and on its own path, on nothing else.
Visible rows are needed only as far as somebody looks at them: the last layer works on asked rows alone.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.leaves.layers import Dropout, Linear
from kbdisk.network.layout import Layout


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
