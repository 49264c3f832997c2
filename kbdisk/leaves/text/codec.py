"""The codec of texts: texts and their token ids, and the settings of text.

A row of ids holds as many tokens as a text may have at most, so that rows of all slots fit.

n texts   L tokens of a text at most
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from torch import Tensor
from torch.nn import functional as F

from kbdisk.entity import Text as TextValue
from kbdisk.leaves.tokenizer import MIN_VOCABULARY, Tokenizer
from kbdisk.schemas.kinds import Text

DECODINGS = ("beam", "greedy")


@dataclass(frozen=True)
class TextConfig:
    """The settings of text: the sizes of the reader and the writer, and how the likeliest text is sought."""

    layers: int = 2  # of the reader, and as many of the writer
    heads: int = 4  # attention heads of a layer
    hidden: int = 4  # times the width: of a layer's two maps
    vocabulary: int = 2048  # tokens at most; the cost of writing grows with it
    grams: int = 2**14  # hash buckets of the reader's character n-grams and words; 0: it has none
    blank: float = 0.3  # the share of a text's tokens and n-grams that is dropped in a step of training
    most: int = 48  # tokens of a text; longer texts are cut
    decoding: str = "beam"  # how the likeliest text is sought: beam or greedy
    beams: int = 4  # of a beam search
    temperature: float = 1.0  # of draws, times the one that is asked for
    draws: int = 4  # from which the entropy is estimated
    sentence_encoder: str | None = None  # the name of a pretrained one that replaces the reader

    def __post_init__(self) -> None:
        if self.decoding not in DECODINGS:
            raise ValueError(f"expected one of {', '.join(DECODINGS)} for decoding, got {self.decoding!r}")
        if self.vocabulary < MIN_VOCABULARY:
            raise ValueError(f"expected at least {MIN_VOCABULARY} for vocabulary, got {self.vocabulary}")
        if self.grams < 0:
            raise ValueError(f"expected at least 0 for grams, got {self.grams}")
        if not 0 <= self.blank < 1:
            raise ValueError(f"expected at least 0 and less than 1 for blank, got {self.blank}")
        if not self.temperature > 0:
            raise ValueError(f"expected a temperature above 0, got {self.temperature}")
        for name in ("layers", "heads", "hidden", "most", "beams", "draws"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected at least 1 for {name}, got {getattr(self, name)}")


@dataclass(frozen=True)
class TextCodec:
    """The bounds and the language of one text property, and the tokenizer that all texts share."""

    most: int  # L, tokens
    language: str = ""  # that values are tagged with; empty: they are plain strings
    min_length: int = 0  # characters
    max_length: int | None = None
    tokenizer: Tokenizer = field(default_factory=Tokenizer, repr=False)  # of bytes alone where the KB has no text

    @classmethod
    def fit(
        cls, leaf: Text, values: Sequence[Any], config: TextConfig | None = None, tokenizer: Tokenizer | None = None
    ) -> Self:
        """The codec of a leaf. The values are not used: the tokenizer is fitted to the text of all properties."""
        most = (config or TextConfig()).most
        return cls(most, leaf.language or "", leaf.min_length, leaf.max_length, tokenizer or Tokenizer())

    def encode(self, values: Sequence[Any]) -> Tensor:
        """(n, L) token ids. A text that was cut to L tokens has no end, so that none is scored."""
        texts = [value.text if isinstance(value, TextValue) else value for value in values]
        for text in texts:
            if not isinstance(text, str):
                raise ValueError(f"expected text, got {text!r}")
        ids = self.tokenizer.encode(texts, self.most)
        return F.pad(ids, (0, self.most - ids.shape[1]))

    def decode(self, codes: Tensor) -> list[str | TextValue]:
        """The texts, cut to as many characters as are allowed, in the property's language where it has one."""
        texts = [text[: self.max_length] for text in self.tokenizer.decode(codes)]
        return [TextValue(text, self.language) for text in texts] if self.language else list(texts)

    def to_json(self) -> dict[str, Any]:
        """The codec as plain data, without the tokenizer."""
        return {name: getattr(self, name) for name in ("most", "language", "min_length", "max_length")}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], tokenizer: Tokenizer | None = None) -> Self:
        """The codec of plain data."""
        return cls(**data, tokenizer=tokenizer or Tokenizer())
