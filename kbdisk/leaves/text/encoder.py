"""The encoder of texts: token ids to vectors, by a reader that all text of a knowledge base shares, its labels included.

The reader is a transformer encoder beside character n-grams, or a pretrained sentence encoder. Each group of properties
adds its path and has residual blocks of its own.

n texts   L tokens of a text   T tokens of all texts   D width   V tokens of the vocabulary
c characters (bytes) of all texts   g n-grams of all texts   E width of a sentence encoder
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.layers import residual_blocks
from kbdisk.leaves.text.codec import TextCodec, TextConfig
from kbdisk.leaves.text.transformer import TokenEmbedding, Transformer, pack
from kbdisk.leaves.tokenizer import BOS, EOS, PAD, Tokenizer
from kbdisk.rng import thread_generator

# ---------------------------------------------------------------- character n-grams

MAX_NGRAM = 3  # characters of an n-gram
MAX_CHARACTERS_READ = 64  # of a text: names are short, and of prose the transformer reads the words one by one
HASH_BASE = 0x100000001B3  # its powers weigh the characters of an n-gram
INITIAL_STD = 0.1  # of the vectors: those of rare n-grams are to be learnt from the n-grams beside them


class CharacterNgrams(nn.Module):
    """Hashed character n-grams and words: the sum of their vectors, divided by the root of how many there are.

    A transformer must learn that "SM-G901F" is like "SM-G900F"; n-grams of three characters show it from the start.
    Each n-gram counts in three spellings: as it is, with 0 for every digit, and with letters replaced by their case.
    N-grams are numbered by a hash, so there is no list of them to keep.
    """

    spelling: Tensor
    length: Tensor
    spellings: Tensor
    power: Tensor

    def __init__(self, spelling: Sequence[bytes], width: int, buckets: int, blank: float = 0.0) -> None:
        """`spelling`: the bytes of each token."""
        super().__init__()
        self.table = nn.Parameter(torch.randn(buckets, width) * INITIAL_STD)
        tokens = [b" " if token == EOS else piece for token, piece in enumerate(spelling)]  # a word ends with its text
        longest = max(map(len, tokens), default=1)
        rows = [list(piece.ljust(longest, b" ")) for piece in tokens]
        self._keep("spelling", torch.tensor(rows, dtype=torch.long).view(len(tokens), longest))
        self._keep("length", torch.tensor([len(piece) for piece in tokens], dtype=torch.long))
        self._keep("spellings", torch.tensor([[spell(byte) for byte in range(256)] for spell in SPELLINGS]))
        self._keep("power", torch.full((MAX_CHARACTERS_READ,), HASH_BASE).cumprod(0))
        self.blank = blank

    def _keep(self, name: str, tensor: Tensor) -> None:
        self.register_buffer(name, tensor, persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        """(n, L) token ids, 0 where a text has ended -> (n, D)"""
        row, ngram = self.ngrams(ids)
        if self.training and self.blank:
            kept = torch.rand(len(row), generator=thread_generator(), device=row.device) >= self.blank
            row, ngram = row[kept], ngram[kept]
        row, order = row.sort(stable=True)
        count = row.bincount(minlength=len(ids))
        summed = F.embedding_bag(ngram[order], self.table, count.cumsum(0) - count, mode="sum")
        return summed * count.clamp(min=1).rsqrt()[:, None]

    def ngrams(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """(g,) each: the text of each n-gram or word, and its number."""
        row, character, place = self._characters(ids)
        parts = []
        for number, table in enumerate(self.spellings):
            spelt = table[character]
            keys = (*self._runs(row, spelt), self._words(row, spelt, character, place))
            parts += [(rows, _hashed(key * len(self.spellings) + number) % len(self.table)) for rows, key in keys]
        rows, ngrams = zip(*parts, strict=True)
        return torch.cat(rows), torch.cat(ngrams)

    def _characters(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(c,) each: the text of each character, the character, and its place in the text."""
        length = self.length[ids]  # (n, L)
        exists = torch.arange(self.spelling.shape[1], device=ids.device) < length[:, :, None]  # (n, L, longest)
        row, column, within = exists.nonzero().unbind(1)
        character = self.spelling[ids[row, column], within]
        count = length.sum(1)
        place = torch.arange(len(row), device=row.device) - (count.cumsum(0) - count)[row]
        is_read = place < MAX_CHARACTERS_READ
        return row[is_read], character[is_read], place[is_read]

    def _runs(self, row: Tensor, spelt: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The text and a key of each n-gram, for n from 1 on; spaces count as characters."""
        key = spelt.new_zeros(len(spelt))
        for size in range(min(MAX_NGRAM, len(spelt))):
            count = len(spelt) - size
            key = key[:count] + (spelt[size:] + 1) * self.power[size]
            within_text = row[:count] == row[size:]
            yield row[:count][within_text], key[within_text] * 2

    def _words(self, row: Tensor, spelt: Tensor, character: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        """The text and a key of each word: what stands between spaces."""
        begins = (character == SPACE) | (place == 0)
        word = begins.cumsum(0) - 1  # (c,) the word of each character, with the space before it
        first = begins.nonzero()[:, 0]
        within = torch.arange(len(word), device=word.device) - first[word]
        weighed = (spelt + 1) * self.power[within]
        keys = weighed.new_zeros(len(first)).index_add(0, word, weighed)
        return row[first], keys * 2 + 1


SPACE = ord(" ")


def _as_it_is(byte: int) -> int:
    return byte


def _zero_for_digits(byte: int) -> int:
    return ord("0") if chr(byte).isdigit() and byte < 128 else byte


def _case_for_letters(byte: int) -> int:
    if byte >= 128:
        return 128
    return ord("A") if chr(byte).isupper() else ord("a") if chr(byte).islower() else _zero_for_digits(byte)


SPELLINGS = (_as_it_is, _zero_for_digits, _case_for_letters)


def _hashed(key: Tensor) -> Tensor:
    """Keys as evenly spread numbers from 0."""
    key = (key ^ (key >> 32 & (1 << 32) - 1)) * -0x4B9F3D4C9B5C2D35
    return key >> 24 & (1 << 39) - 1


# ---------------------------------------------------------------- the reader


class Reader(nn.Module):
    """A transformer encoder: the output for the token that each text begins with, plus the text's n-grams."""

    # DIFF(paper): the n-grams. They predict the makers of phones from names after a tenth of the steps, and from unknown words.

    def __init__(
        self,
        vocabulary: int,
        width: int,
        config: TextConfig,
        base: int = 64,
        grams: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.grams = grams
        self.tokens = TokenEmbedding(vocabulary, width, config.blank)
        self.transformer = Transformer(width, config, base)

    def forward(self, ids: Tensor) -> Tensor:
        """(n, L) token ids, 0 where a text has ended -> (n, D)"""
        tokens = F.pad(ids, (1, 0), value=BOS)  # (n, 1 + L)
        packing = pack((tokens != PAD).sum(1))
        x = self.tokens(packing.take(tokens), packing)  # (T, D)
        by_length: Tensor = self.transformer(x, packing, first=True)  # (n, D), in order of length
        vectors = torch.empty_like(by_length).index_copy(0, packing.order, by_length)
        return vectors if self.grams is None else vectors + self.grams(ids)


# ---------------------------------------------------------------- pretrained sentence encoders


class SentenceEncoder(Protocol):
    """A pretrained model that makes vectors of sentences: any object with this method."""

    def encode(self, sentences: list[str], /) -> Any:
        """An array (n, E), or a value that torch converts to one."""


class SentenceVectors:
    """The vectors of a sentence encoder, by text; each distinct text is encoded once.

    Copies of a network share them: they never change.
    """

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
        new_texts = [text for text in dict.fromkeys(texts) if text not in self.places]
        if new_texts:
            self.table = torch.cat([self.table, self._encode(new_texts)])
            self.places.update(zip(new_texts, range(len(self.places), len(self.table)), strict=True))
        return self.table[[self.places[text] for text in texts]]

    def _encode(self, texts: list[str]) -> Tensor:
        vectors = torch.as_tensor(self.encoder.encode(texts)).detach().float().cpu()
        if vectors.dim() != 2 or len(vectors) != len(texts):
            raise ValueError(f"expected {len(texts)} vectors of the sentence encoder, got shape {tuple(vectors.shape)}")
        return F.layer_norm(vectors, vectors.shape[1:])  # to the same size, whatever the encoder's

    def __deepcopy__(self, memo: Any) -> SentenceVectors:
        return self


class SentenceReader(nn.Module):
    """A reader that decodes token ids, encodes the texts by a frozen sentence encoder, and learns a linear map after it.

    It is given what the codes spell, so of a text that was cut only what is left.
    """

    def __init__(self, encoder: SentenceEncoder, tokenizer: Tokenizer, width: int) -> None:
        super().__init__()
        self.vectors, self.tokenizer = SentenceVectors(encoder), tokenizer
        self.project = nn.Linear(self.vectors.width, width)

    def forward(self, ids: Tensor) -> Tensor:
        """(n, L) token ids -> (n, D)"""
        vectors = self.vectors(self.tokenizer.decode(ids)).to(self.project.weight.device)  # (n, E)
        projected: Tensor = self.project(vectors)
        return projected


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


# ---------------------------------------------------------------- the encoder


def build_reader(setting: Setting, encoder: SentenceEncoder | None = None) -> nn.Module:
    """The reader of all text of a knowledge base: token ids (n, L) -> (n, D); by the sentence encoder if one is given."""
    config: TextConfig = setting.config
    tokenizer = setting.tokenizer or Tokenizer()
    if encoder is None and config.sentence_encoder:
        encoder = load_sentence_encoder(config.sentence_encoder)
    if encoder is not None:
        return SentenceReader(encoder, tokenizer, setting.width)
    grams = CharacterNgrams(tokenizer.spelling, setting.width, config.grams, config.blank) if config.grams else None
    return Reader(len(tokenizer), setting.width, config, setting.base, grams)


class TextEncoder(nn.Module):
    """The reader's vector of each text and its path, through the group's residual blocks."""

    def __init__(self, codecs: Sequence[TextCodec], setting: Setting) -> None:
        super().__init__()
        # a tuple, so that its parameters are not this module's: the network owns it
        self._shared: tuple[nn.Module, ...] = () if setting.reader is None else (setting.reader,)
        self.own = None if self._shared else build_reader(setting)
        self.blocks = residual_blocks(setting)

    def forward(self, codes: Tensor, rows: Rows) -> Tensor:
        """(n, L) -> (n, D)"""
        reader = self.own or self._shared[0]
        x: Tensor = reader(codes) + rows.path
        for block in self.blocks:
            x = block(x, rows.counts)
        return x
