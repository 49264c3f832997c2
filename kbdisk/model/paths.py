"""Path encoder: the vector of a path, which is added to every query and to every value.

An RNN runs over the keys from the root, class first; paths that begin alike share their first steps, so it runs
over the tree of prefixes, a level at a time, and only over the part of it that a batch needs.

U paths asked for   P keys in the longest path   D width
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from kbdisk.leaves.layers import lookup_table

Keys = tuple[str | int, ...]


class PathEncoder(nn.Module):
    """A one-layer tanh RNN over keys; the state after the last key is the vector of the path."""

    line: Tensor
    key: Tensor

    def __init__(self, paths: Sequence[Keys], width: int, words: Any = None, reader: nn.Module | None = None) -> None:
        super().__init__()
        nodes: dict[Keys, int] = {}
        for path in paths:
            for length in range(1, len(path) + 1):
                nodes.setdefault(path[:length], len(nodes))
        names = {name: number for number, name in enumerate(dict.fromkeys(str(node[-1]) for node in nodes))}
        depth = max(map(len, paths), default=1)
        lines = [[nodes[path[: length + 1]] for length in range(len(path))] for path in paths]
        padded = [[*line, *[-1] * (depth - len(line))] for line in lines]
        self.register_buffer("line", torch.tensor(padded, dtype=torch.long).view(len(paths), depth), persistent=False)
        self.register_buffer("key", torch.tensor([names[str(node[-1])] for node in nodes]), persistent=False)
        self.names = lookup_table(len(names), width)  # (keys, D) the vector of each key, whatever comes before it
        self.step = nn.Linear(width, width)

    def forward(self, paths: Tensor) -> Tensor:
        """(U,) numbers of paths -> (U, D)."""
        lines = self.line[paths]  # (U, P)
        states: list[Tensor] = []  # of the nodes of each level
        last, before, start = torch.zeros_like(paths), torch.zeros_like(paths), 0
        for level in range(lines.shape[1]):
            reaching = (lines[:, level] >= 0).nonzero()[:, 0]  # the paths that are so long
            if len(reaching) == 0:
                break
            nodes, node = lines[reaching, level].unique(return_inverse=True)
            # all paths through a node have the same parent
            parent = torch.zeros_like(nodes).index_copy(0, node, before[reaching])
            x = self.names[self.key[nodes]]
            # DIFF(paper): the authors' RNN ran on through the padding; this one stops at each path's last key.
            states.append(torch.tanh(x if level == 0 else x + self.step(states[-1][parent])))
            before = before.index_copy(0, reaching, node)
            last = last.index_copy(0, reaching, node + start)
            start += len(nodes)
        return torch.cat(states)[last] if states else self.names.new_zeros(0, self.names.shape[1])


class PathReader(nn.Module):
    """The text encoder of the knowledge base over the keys of a path, so that similar names have similar vectors."""

    ids: Tensor

    def __init__(self, paths: Sequence[Keys], width: int, words: Any, reader: nn.Module | None) -> None:
        super().__init__()
        if reader is None:
            raise ValueError("expected text to learn the names of paths from, got none. Take paths = keys.")
        texts = [" ".join(str(key).replace("_", " ") for key in path) for path in paths]
        self.register_buffer("ids", words.encode(texts), persistent=False)  # (paths, L) tokens
        self._shared = (reader,)  # a tuple: the network owns it
        self.out = nn.Linear(width, width)

    def forward(self, paths: Tensor) -> Tensor:
        """(U,) numbers of paths -> (U, D)."""
        return torch.tanh(self.out(self._shared[0](self.ids[paths])))


# How a path is encoded: (paths, width, the KB's tokenizer, its text encoder) -> module.
PATHS: Mapping[str, Callable[[Sequence[Keys], int, Any, nn.Module | None], nn.Module]] = {
    "keys": PathEncoder,
    "text": PathReader,
}
