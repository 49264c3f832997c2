"""A pretrained sentence encoder in the reader's place: it stays as it is, only a linear map after it learns.

Any object with `encode(list[str]) -> array` will do. Each distinct text is encoded once. It is given what the codes
spell, so of a text that was cut only what is left.

n texts   E width of the sentence encoder   D our own
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.leaves.words import Words


class SentenceEncoder(Protocol):
    """What makes vectors of sentences."""

    def encode(self, sentences: list[str], /) -> Any:
        """An array (n, E), or what makes one."""


class SentenceVectors:
    """The vectors that a sentence encoder gave, by text. Copies of a network share them: they never change."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder = encoder
        self.places: dict[str, int] = {}
        self.table = self._encode([""])
        self.places[""] = 0

    @property
    def width(self) -> int:
        """E."""
        return self.table.shape[1]

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """(n, E)"""
        new = [text for text in dict.fromkeys(texts) if text not in self.places]
        if new:
            self.table = torch.cat([self.table, self._encode(new)])
            self.places.update(zip(new, range(len(self.places), len(self.table)), strict=True))
        return self.table[[self.places[text] for text in texts]]

    def _encode(self, texts: list[str]) -> Tensor:
        vectors = torch.as_tensor(self.encoder.encode(texts)).detach().float().cpu()
        if vectors.dim() != 2 or len(vectors) != len(texts):
            raise ValueError(f"expected {len(texts)} vectors of the sentence encoder, got shape {tuple(vectors.shape)}")
        return F.layer_norm(vectors, vectors.shape[1:])  # of one size, whatever the encoder's

    def __deepcopy__(self, memo: Any) -> SentenceVectors:
        return self


class SentenceReader(nn.Module):
    """Reads token ids by a sentence encoder: they are spelt, encoded once, and mapped to the network's width."""

    def __init__(self, encoder: SentenceEncoder, words: Words, width: int) -> None:
        super().__init__()
        self.vectors, self.words = SentenceVectors(encoder), words
        self.project = nn.Linear(self.vectors.width, width)

    def forward(self, ids: Tensor) -> Tensor:
        """(n, L) token ids -> (n, D)"""
        vectors = self.vectors(self.words.decode(ids)).to(self.project.weight.device)  # (n, E)
        read: Tensor = self.project(vectors)
        return read


@lru_cache(maxsize=4)
def load_sentence_encoder(name: str) -> SentenceEncoder:
    """A model of the package sentence-transformers, by its name or folder; it must need no code of its own."""
    try:
        from sentence_transformers import SentenceTransformer
    except ModuleNotFoundError as error:
        if error.name != "sentence_transformers":  # it is there, and broken
            raise
        raise ValueError(
            f"expected the package sentence-transformers, as {name!r} is to read text, got none. "
            "Run: pip install 'kbdisk[sentences]'"
        ) from error
    encoder: SentenceEncoder = SentenceTransformer(name, trust_remote_code=False)
    return encoder
