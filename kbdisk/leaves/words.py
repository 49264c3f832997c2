"""The tokenizer of a knowledge base's own text: any string to token ids and back, exactly.

    0 padding    1 never used    2 where a text begins    3 where it ends    4 to 259 the bytes    260 ... pieces

Ids of a text end with 3, also those of the empty one: a row without a 3 was cut, and a row of zeros is no text.
What no piece covers is spelt in bytes, so nothing is unknown. A piece that begins a word begins with its space, the
first word's too, as that makes "Nokia" one piece wherever it stands; decoding drops that one space again.

n texts   L tokens in the longest
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
SPECIAL = 3  # ids below are in no text: what is written is one of the others
BYTES = 4  # where the bytes begin
PIECES = BYTES + 256  # where the pieces begin
SMALLEST = 512  # tokens: bytes, and some room for characters

_SPACE = "\u2581"  # how sentencepiece spells a space: itself it has to be spelt in bytes, as halves of pairs have
_BARE = re.compile(f"([{_SPACE}\ud800-\udfff]+)")
_RESERVED = str.maketrans({"\t": " ", "\u2585": " ", "\0": " ", _SPACE: " "})  # sentences with these train nothing

CHARACTERS = 2_000_000  # of text are trained on at most
SENTENCE = 2_000  # characters; longer lines are split
SUPPORT = 16  # characters of text for each piece, so that little text is not learnt by heart


class Words:
    """Token ids of strings. Without a model every string is spelt in bytes."""

    def __init__(self, model: bytes = b"") -> None:
        self.model = model

    @classmethod
    def fit(cls, texts: Sequence[str], size: int = 2048, seed: int = 0) -> Words | None:
        """Pieces for the text of a knowledge base, at most `size` tokens; None where there is no text at all."""
        if size < SMALLEST:
            raise ValueError(f"expected a vocabulary of at least {SMALLEST}, got {size}")
        sentences = _sentences(texts, seed)
        if not sentences:
            return cls() if texts else None
        return cls(_trained(sentences, size))

    def to_bytes(self) -> bytes:
        """The model, as a model folder keeps it."""
        return self.model

    @classmethod
    def from_bytes(cls, model: bytes) -> Words:
        """Itself again; ValueError where the bytes are no such model."""
        words = cls(model)
        if model:
            try:
                pieces = words._processor
            except RuntimeError as error:
                raise ValueError("expected a sentencepiece model, got other bytes") from error
            if not (pieces.eos_id() == EOS and pieces.bos_id() == BOS and pieces.id_to_piece(BYTES) == "<0x00>"):
                raise ValueError("expected a sentencepiece model that kbdisk trained, got another")
        return words

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Words) and self.model == other.model

    def __hash__(self) -> int:
        return hash(self.model)

    def __len__(self) -> int:
        """How many tokens there are, padding included."""
        return len(self.spelling)

    def encode(self, texts: Sequence[str], most: int | None = None) -> Tensor:
        """Token ids (n, L), padded with 0; of a text of more than `most` tokens the first `most`, without an end."""
        rows = [self._ids(text) for text in texts] if any(map(_BARE.search, texts)) else self._plain(texts)
        lengths = np.fromiter(map(len, rows), np.int64, len(rows)) + 1
        cut = lengths if most is None else lengths.clip(max=most)
        ids = np.full((len(rows), int(cut.max(initial=0))), PAD, np.int64)
        filled = np.arange(ids.shape[1]) < cut[:, None]  # (n, L)
        ids[filled] = [token for row in rows for token in (*row, EOS)[:most]]
        return torch.from_numpy(ids)

    def decode(self, ids: Tensor) -> list[str]:
        """The strings of ids (n, L), each to its end; bytes that make no character are dropped."""
        spelt = self.spelling
        texts = []
        for row in ids.tolist():
            end = row.index(EOS) if EOS in row else len(row)
            whole = b"".join([spelt[token] for token in row[:end]])
            texts.append(_read(whole).removeprefix(" "))
        return texts

    @cached_property
    def lengths(self) -> Tensor:
        """How many characters each token adds to a text: (V,)."""
        return torch.tensor([sum(byte & 0xC0 != 0x80 for byte in piece) for piece in self.spelling])

    @cached_property
    def begins(self) -> Tensor:
        """Which tokens begin with the space that is dropped where a text begins with it: (V,)."""
        return torch.tensor([piece[:1] == b" " for piece in self.spelling])

    def _plain(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts that sentencepiece spells as they are, without their ends."""
        if not self.model:
            return [[BYTES + byte for byte in f" {text}".encode()] if text else [] for text in texts]
        ids: list[list[int]] = self._processor.encode([text and f" {text}" for text in texts])
        return ids

    def _ids(self, text: str) -> list[int]:
        """The ids of any text: what sentencepiece has another use for is spelt in bytes."""
        ids: list[int] = []
        for place, part in enumerate(_BARE.split(f" {text}" if text else "")):
            if place % 2:
                ids.extend(BYTES + byte for byte in part.encode(errors="surrogatepass"))
            elif self.model:
                ids.extend(self._processor.encode(part))
            else:
                ids.extend(BYTES + byte for byte in part.encode())
        return ids

    @cached_property
    def _processor(self) -> sentencepiece.SentencePieceProcessor:
        return sentencepiece.SentencePieceProcessor(model_proto=self.model)

    @cached_property
    def spelling(self) -> list[bytes]:
        """What each token spells."""
        size = self._processor.vocab_size() if self.model else PIECES
        pieces = [self._processor.id_to_piece(token).replace(_SPACE, " ").encode() for token in range(PIECES, size)]
        return [b""] * BYTES + [bytes([byte]) for byte in range(256)] + pieces

    def __getstate__(self) -> bytes:
        return self.model

    def __setstate__(self, model: bytes) -> None:
        self.model = model


def _read(whole: bytes) -> str:
    """Bytes as text; halves of pairs stay such, and what is no character is dropped."""
    try:
        return whole.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return whole.decode(errors="ignore")


def _sentences(texts: Sequence[str], seed: int) -> list[str]:
    """Lines of text to learn from: some of the texts, drawn, where all would be too many."""
    order = list(range(len(texts)))
    random.Random(seed).shuffle(order)
    chosen, room = [], CHARACTERS
    for place in order:
        if room <= 0:
            break
        for line in _lines(texts[place]):
            chosen.append(line)
            room -= len(line)
    return chosen


def _lines(text: str) -> Iterator[str]:
    """A text's lines as sentencepiece takes them, none too long and none blank."""
    for line in text[:CHARACTERS].translate(_RESERVED).encode(errors="ignore").decode().splitlines():
        for start in range(0, len(line), SENTENCE):
            if line[start : start + SENTENCE].strip():
                yield " " + line[start : start + SENTENCE]


def _trained(sentences: list[str], size: int) -> bytes:
    """A byte-pair model: as compact as a unigram model here, and twenty times as fast to train."""
    counts = Counter(character for line in sentences for character in line)
    common = counts.most_common((size - PIECES) // 2)  # rarer characters are spelt in bytes
    rare = {ord(character): " " for character in counts.keys() - dict(common).keys()}
    room = PIECES + len(common) + counts.total() // SUPPORT
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line.translate(rare) for line in sentences] if rare else sentences),
        model_writer=out,
        model_type="bpe",
        vocab_size=min(size, room),
        hard_vocab_limit=False,
        character_coverage=1.0,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
        max_sentence_length=4 * SENTENCE + 8,
        num_threads=1,
        pad_id=PAD,
        unk_id=1,
        bos_id=BOS,
        eos_id=EOS,
        minloglevel=3,
    )
    return out.getvalue()
