"""The tokenizer: a sentencepiece byte-pair model of a knowledge base's own text; any string to token ids and back, exactly.

    0 padding    1 unused    2 beginning of a text    3 end of a text    4 to 259 the bytes    260 ... pieces

The ids of a text end with 3, also those of the empty one: a row without a 3 was cut, and a row of zeros is no text.
Text that no piece covers is spelt in bytes, so no token is unknown. A piece that begins a word begins with its space, the
first word's too, as that makes "Nokia" one piece wherever it stands; decoding drops that one space again.

n texts   L tokens in the longest   V tokens of the vocabulary
"""

from __future__ import annotations

import io
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import sentencepiece
import torch
from torch import Tensor

PAD, BOS, EOS = 0, 2, 3
FIRST_WRITABLE = EOS  # tokens with smaller ids are in no text
FIRST_BYTE = 4
FIRST_PIECE = FIRST_BYTE + 256
MIN_VOCABULARY = 512  # tokens: bytes, and some room for characters

_SPACE = "\u2581"  # sentencepiece spells spaces by it, so the character itself is spelt in bytes, like lone surrogates
_SPELT_IN_BYTES = re.compile(f"([{_SPACE}\ud800-\udfff]+)")
_RESERVED = str.maketrans(
    {"\t": " ", "\u2585": " ", "\0": " ", _SPACE: " "}
)  # sentencepiece skips sentences with these

MAX_CHARACTERS = 2_000_000  # of text to train on
MAX_SENTENCE = 2_000  # characters; longer lines are split
CHARACTERS_PER_PIECE = 16  # of text at least, so that little text is not memorised


class Tokenizer:
    """Token ids of strings. Without a model every string is spelt in bytes."""

    def __init__(self, model: bytes = b"") -> None:
        self.model = model

    @classmethod
    def fit(cls, texts: Sequence[str], size: int = 2048, seed: int = 0) -> Tokenizer | None:
        """Pieces for the text of a knowledge base, at most `size` tokens; None where there is no text at all."""
        if size < MIN_VOCABULARY:
            raise ValueError(f"expected a vocabulary of at least {MIN_VOCABULARY}, got {size}")
        sentences = _sentences(texts, seed)
        if not sentences:
            return cls() if texts else None
        return cls(_trained(sentences, size))

    def to_bytes(self) -> bytes:
        """The model, as a model folder keeps it."""
        return self.model

    @classmethod
    def from_bytes(cls, model: bytes) -> Tokenizer:
        """The tokenizer of a model; ValueError where the bytes are no such model."""
        tokenizer = cls(model)
        if model:
            try:
                pieces = tokenizer._processor
            except RuntimeError as error:
                raise ValueError("expected a sentencepiece model, got other bytes") from error
            if not (pieces.eos_id() == EOS and pieces.bos_id() == BOS and pieces.id_to_piece(FIRST_BYTE) == "<0x00>"):
                raise ValueError("expected a sentencepiece model that kbdisk trained, got another")
        return tokenizer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.model == other.model

    def __hash__(self) -> int:
        return hash(self.model)

    def __len__(self) -> int:
        """How many tokens there are, padding included."""
        return len(self.spelling)

    def encode(self, texts: Sequence[str], max_tokens: int | None = None) -> Tensor:
        """Token ids (n, L), padded with 0; a text of more than `max_tokens` is cut, and has no end."""
        rows = [self._ids(text) for text in texts] if any(map(_SPELT_IN_BYTES.search, texts)) else self._plain(texts)
        lengths = np.fromiter(map(len, rows), np.int64, len(rows)) + 1
        kept_lengths = lengths if max_tokens is None else lengths.clip(max=max_tokens)
        ids = np.full((len(rows), int(kept_lengths.max(initial=0))), PAD, np.int64)
        filled = np.arange(ids.shape[1]) < kept_lengths[:, None]  # (n, L)
        ids[filled] = [token for row in rows for token in (*row, EOS)[:max_tokens]]
        return torch.from_numpy(ids)

    def decode(self, ids: Tensor) -> list[str]:
        """The strings of ids (n, L), each to its end; bytes that make no character are dropped."""
        spelling = self.spelling
        texts = []
        for row in ids.tolist():
            end = row.index(EOS) if EOS in row else len(row)
            spelt = b"".join([spelling[token] for token in row[:end]])
            texts.append(_decoded(spelt).removeprefix(" "))
        return texts

    @cached_property
    def lengths(self) -> Tensor:
        """(V,) how many characters each token adds to a text."""
        return torch.tensor([sum(byte & 0xC0 != 0x80 for byte in piece) for piece in self.spelling])

    @cached_property
    def starts_with_space(self) -> Tensor:
        """(V,) whether each token begins with a space, which is dropped at the beginning of a text."""
        return torch.tensor([piece[:1] == b" " for piece in self.spelling])

    def _plain(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts without characters that are spelt in bytes, without their ends."""
        if not self.model:
            return [[FIRST_BYTE + byte for byte in f" {text}".encode()] if text else [] for text in texts]
        ids: list[list[int]] = self._processor.encode([text and f" {text}" for text in texts])
        return ids

    def _ids(self, text: str) -> list[int]:
        """The ids of any text, with characters that sentencepiece reserves spelt in bytes."""
        ids: list[int] = []
        for place, part in enumerate(_SPELT_IN_BYTES.split(f" {text}" if text else "")):
            if place % 2:
                ids.extend(FIRST_BYTE + byte for byte in part.encode(errors="surrogatepass"))
            elif self.model:
                ids.extend(self._processor.encode(part))
            else:
                ids.extend(FIRST_BYTE + byte for byte in part.encode())
        return ids

    @cached_property
    def _processor(self) -> sentencepiece.SentencePieceProcessor:
        return sentencepiece.SentencePieceProcessor(model_proto=self.model)

    @cached_property
    def spelling(self) -> list[bytes]:
        """The bytes that each token spells: V of them."""
        size = self._processor.vocab_size() if self.model else FIRST_PIECE
        tokens = range(FIRST_PIECE, size)
        pieces = [self._processor.id_to_piece(token).replace(_SPACE, " ").encode() for token in tokens]
        return [b""] * FIRST_BYTE + [bytes([byte]) for byte in range(256)] + pieces

    def __getstate__(self) -> bytes:
        return self.model

    def __setstate__(self, model: bytes) -> None:
        self.model = model


def _decoded(spelt: bytes) -> str:
    """Bytes as text; lone surrogates are kept, and bytes that make no character are dropped."""
    try:
        return spelt.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return spelt.decode(errors="ignore")


def _sentences(texts: Sequence[str], seed: int) -> list[str]:
    """Lines of text to train on: of a random sample of the texts, where all are too many."""
    order = list(range(len(texts)))
    random.Random(seed).shuffle(order)
    chosen, room = [], MAX_CHARACTERS
    for place in order:
        if room <= 0:
            break
        for line in _lines(texts[place]):
            chosen.append(line)
            room -= len(line)
    return chosen


def _lines(text: str) -> Iterator[str]:
    """A text's lines as sentencepiece takes them, none too long and none blank."""
    for line in text[:MAX_CHARACTERS].translate(_RESERVED).encode(errors="ignore").decode().splitlines():
        for start in range(0, len(line), MAX_SENTENCE):
            if line[start : start + MAX_SENTENCE].strip():
                yield " " + line[start : start + MAX_SENTENCE]


def _trained(sentences: list[str], size: int) -> bytes:
    """A byte-pair model: as compact as a unigram model here, and twenty times as fast to train."""
    counts = Counter(character for line in sentences for character in line)
    common = counts.most_common((size - FIRST_PIECE) // 2)  # rarer characters are spelt in bytes
    rare = {ord(character): " " for character in counts.keys() - dict(common).keys()}
    supported = FIRST_PIECE + len(common) + counts.total() // CHARACTERS_PER_PIECE
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line.translate(rare) for line in sentences] if rare else sentences),
        model_writer=out,
        model_type="bpe",
        vocab_size=min(size, supported),
        hard_vocab_limit=False,
        character_coverage=1.0,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
        max_sentence_length=4 * MAX_SENTENCE + 8,
        num_threads=1,
        pad_id=PAD,
        unk_id=1,
        bos_id=BOS,
        eos_id=EOS,
        minloglevel=3,
    )
    return out.getvalue()
