"""What labels mean: vectors learnt by heart, or made of their text, so that a label never met can be read, too.

The labels of all slots are numbered through, slot by slot, so that one table holds them.

n labels asked for   S slots   N labels in all   D width   L tokens of the longest text
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.leaves.base import Setting
from kbdisk.leaves.labels import Labels
from kbdisk.leaves.layers import lookup_table

BY_HEART = 'expected labels that are read by their text, as there are new ones, got labels = "learnt"'
CHUNK = 4096  # texts read at once where none learns


class TextVectors(nn.Module):
    """The vectors of texts, by the network's text reader; equal texts are read once, empty ones are 0."""

    ids: Tensor
    text: Tensor
    full: Tensor

    def __init__(self, texts: Sequence[str], setting: Setting) -> None:
        super().__init__()
        if setting.reader is None or setting.tokenizer is None:
            raise ValueError("expected a text encoder, as labels are to be read by their text, got none")
        self._reader, self._words, self.width = (
            (setting.reader,),
            setting.tokenizer,
            setting.width,
        )  # the network owns it
        self.lay(texts)

    def lay(self, texts: Sequence[str]) -> None:
        """Take other texts."""
        place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        device = self.ids.device if hasattr(self, "ids") else None
        ids = self._words.encode(list(place)) if place else torch.zeros(0, 1, dtype=torch.long)
        self.register_buffer("ids", ids.to(device), persistent=False)  # (U, L)
        self.register_buffer("full", ids.any(1).to(device), persistent=False)  # (U,)
        text = torch.tensor([place[text] for text in texts], dtype=torch.long)
        self.register_buffer("text", text.to(device), persistent=False)  # (N,)
        self._kept: tuple[object, Tensor] | None = None

    def forward(self, which: Tensor) -> Tensor:
        """(n,) numbers of texts -> (n, D)"""
        if torch.is_grad_enabled() or self.training:
            needed, place = self.text[which].unique(return_inverse=True)
            return self._read(needed)[place]
        return self._all()[self.text[which]]

    def _read(self, texts: Tensor) -> Tensor:
        full = self.full[texts].nonzero()[:, 0]
        vectors = self._reader[0](self.ids[texts[full]]).float() if len(full) else self.ids.new_zeros(0, self.width)
        return torch.zeros(len(texts), self.width, device=full.device).index_copy(0, full, vectors.float())

    def _all(self) -> Tensor:
        """Every text's vector, kept until the reader's weights change."""
        key = tuple((weight.data_ptr(), weight._version) for weight in self._reader[0].parameters())
        if self._kept is None or self._kept[0] != key:
            texts = torch.arange(len(self.ids), device=self.ids.device)
            self._kept = (
                key,
                torch.cat([self._read(some) for some in texts.split(CHUNK)] or [torch.zeros(0, self.width)]),
            )
        return self._kept[1]


class LearntLabels(nn.Module):
    """A vector for each label and, in each slot, one for labels never met."""

    starts: Tensor

    def __init__(self, labels: Sequence[Labels], setting: Setting) -> None:
        super().__init__()
        self.register_buffer("starts", starts(labels, len(labels)), persistent=False)  # (S,)
        self.table = lookup_table(len(labels) + sum(map(len, labels)), setting.width)  # (S + N, D)

    def lay(self, labels: Sequence[Labels]) -> None:
        """Labels that training never had have no vector here."""
        raise ValueError(BY_HEART)

    def forward(self, codes: Tensor, slot: Tensor) -> Tensor:
        """(n,) codes and their slots -> (n, D)"""
        return F.embedding(torch.where(codes < 0, slot, self.starts[slot] + codes), self.table)


class TextLabels(nn.Module):
    """The vector of each label's text and, in each slot, one for labels that the codec does not have."""

    starts: Tensor

    def __init__(self, labels: Sequence[Labels], setting: Setting) -> None:
        super().__init__()
        self.others = lookup_table(len(labels), setting.width)  # (S, D)
        self.register_buffer("starts", starts(labels), persistent=False)  # (S,)
        self.texts = TextVectors(all_texts(labels), setting)

    def lay(self, labels: Sequence[Labels]) -> None:
        """Take other labels."""
        self.starts = starts(labels).to(self.starts.device)
        self.texts.lay(all_texts(labels))

    def forward(self, codes: Tensor, slot: Tensor) -> Tensor:
        """(n,) codes and their slots -> (n, D)"""
        x = F.embedding(slot, self.others)  # (n, D)
        known = (codes >= 0).nonzero()[:, 0]
        return x.index_copy(0, known, self.texts(self.starts[slot[known]] + codes[known]).to(x.dtype))


def starts(labels: Sequence[Labels], begin: int = 0) -> Tensor:
    """(S,) the number of each slot's first label."""
    sizes = torch.tensor([begin, *map(len, labels)])
    return sizes.cumsum(0)[:-1]


def all_texts(labels: Sequence[Labels]) -> list[str]:
    """The labels of all slots as texts: (N,)."""
    return [text for own in labels for text in own.texts]
