"""Grams: what the spelling of a text tells at once. Short runs of its characters, and its words, have a vector each.

A transformer must learn what "SM-G901F" has in common with "SM-G900F"; runs of three characters have it from the start.
Each is taken three times: as it is, with 0 for every digit, and with letters told by their case alone. Runs are numbered
by a hash, so that there is no list of them to keep.

n texts   L tokens of a text   c characters of all texts (bytes)   g grams of all texts   V tokens there are   D width
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.leaves.words import EOS
from kbdisk.rng import thread_generator

LONGEST = 3  # characters of a run
READ = 64  # characters of a text that are read so: names are short, and of prose the words are read one by one
ODD = 0x100000001B3  # its powers weigh the characters of a run
START = 0.1  # standard deviation of the vectors at the start: what a rare run tells is to be learnt from its neighbours


class Grams(nn.Module):
    """The sum of a text's vectors, over the root of how many there are."""

    spelling: Tensor
    length: Tensor
    drawings: Tensor
    power: Tensor

    def __init__(self, spelling: Sequence[bytes], width: int, buckets: int, blank: float = 0.0) -> None:
        """`spelling`: the bytes of each token."""
        super().__init__()
        self.table = nn.Parameter(torch.randn(buckets, width) * START)
        spelt = [b" " if token == EOS else piece for token, piece in enumerate(spelling)]  # a word ends with its text
        longest = max(map(len, spelt), default=1)
        rows = [list(piece.ljust(longest, b" ")) for piece in spelt]
        self._keep("spelling", torch.tensor(rows, dtype=torch.long).view(len(spelt), longest))
        self._keep("length", torch.tensor([len(piece) for piece in spelt], dtype=torch.long))
        self._keep("drawings", torch.tensor([[draw(byte) for byte in range(256)] for draw in DRAWINGS]))
        self._keep("power", torch.full((READ,), ODD).cumprod(0))
        self.blank = blank

    def _keep(self, name: str, tensor: Tensor) -> None:
        self.register_buffer(name, tensor, persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        """(n, L) token ids, 0 where a text has ended -> (n, D)"""
        row, gram = self.found(ids)
        if self.training and self.blank:
            kept = torch.rand(len(row), generator=thread_generator(), device=row.device) >= self.blank
            row, gram = row[kept], gram[kept]
        row, order = row.sort(stable=True)
        count = row.bincount(minlength=len(ids))
        summed = F.embedding_bag(gram[order], self.table, count.cumsum(0) - count, mode="sum")
        return summed * count.clamp(min=1).rsqrt()[:, None]

    def found(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Whose each gram is, and its number: (g,) each."""
        row, character, place = self._characters(ids)
        parts = []
        for drawing, table in enumerate(self.drawings):
            drawn = table[character]
            runs = (*self._runs(row, drawn), self._words(row, drawn, character, place))
            parts += [(of, _mixed(key * len(self.drawings) + drawing) % len(self.table)) for of, key in runs]
        rows, grams = zip(*parts, strict=True)
        return torch.cat(rows), torch.cat(grams)

    def _characters(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(c,) each: whose, which, and where in its text."""
        length = self.length[ids]  # (n, L)
        there = torch.arange(self.spelling.shape[1], device=ids.device) < length[:, :, None]  # (n, L, longest)
        row, column, within = there.nonzero().unbind(1)
        character = self.spelling[ids[row, column], within]
        count = length.sum(1)
        place = torch.arange(len(row), device=row.device) - (count.cumsum(0) - count)[row]
        near = place < READ
        return row[near], character[near], place[near]

    def _runs(self, row: Tensor, drawn: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Whose, and a key, of each run of so many characters, spaces among them."""
        key = drawn.new_zeros(len(drawn))
        for size in range(min(LONGEST, len(drawn))):
            count = len(drawn) - size
            key = key[:count] + (drawn[size:] + 1) * self.power[size]
            whole = row[:count] == row[size:]  # within one text
            yield row[:count][whole], key[whole] * 2

    def _words(self, row: Tensor, drawn: Tensor, character: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        """Whose, and a key, of each word: what stands between spaces."""
        ends = (character == SPACE) | (place == 0)
        word = ends.cumsum(0) - 1  # (c,) each with the space before it
        first = ends.nonzero()[:, 0]
        within = torch.arange(len(word), device=word.device) - first[word]
        weighed = (drawn + 1) * self.power[within]
        keys = weighed.new_zeros(len(first)).index_add(0, word, weighed)
        return row[first], keys * 2 + 1


SPACE = ord(" ")


def _plain(byte: int) -> int:
    return byte


def _numbered(byte: int) -> int:
    return ord("0") if chr(byte).isdigit() and byte < 128 else byte


def _cased(byte: int) -> int:
    if byte >= 128:
        return 128
    return ord("A") if chr(byte).isupper() else ord("a") if chr(byte).islower() else _numbered(byte)


DRAWINGS = (_plain, _numbered, _cased)


def _mixed(key: Tensor) -> Tensor:
    """Keys as evenly spread numbers from 0."""
    key = (key ^ (key >> 32 & (1 << 32) - 1)) * -0x4B9F3D4C9B5C2D35
    return key >> 24 & (1 << 39) - 1
