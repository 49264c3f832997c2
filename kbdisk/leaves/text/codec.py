"""Texts and their token ids. A row holds as many tokens as a text may have at most, so that rows of all slots fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from torch import Tensor
from torch.nn import functional as F

from kbdisk.entity import Text as TextValue
from kbdisk.leaves.text.config import TextConfig
from kbdisk.leaves.words import Words
from kbdisk.schemas.kinds import Text


@dataclass(frozen=True)
class TextCodec:
    """One text property's bounds and language, and the tokenizer that all texts share."""

    most: int  # L, tokens
    language: str = ""  # that values are tagged with; empty: they are plain strings
    min_length: int = 0  # characters
    max_length: int | None = None
    words: Words = field(default_factory=Words, repr=False)  # of bytes alone where the KB has no text

    @classmethod
    def fit(
        cls, leaf: Text, values: Sequence[Any], config: TextConfig | None = None, words: Words | None = None
    ) -> Self:
        """Nothing is learnt from the values here: the tokenizer is fitted to the text of all properties."""
        most = (config or TextConfig()).most
        return cls(most, leaf.language or "", leaf.min_length, leaf.max_length, words or Words())

    def encode(self, values: Sequence[Any]) -> Tensor:
        """(n, L) token ids. A text that was cut to L tokens has no end, so that none is scored."""
        texts = [value.text if isinstance(value, TextValue) else value for value in values]
        for text in texts:
            if not isinstance(text, str):
                raise ValueError(f"expected text, got {text!r}")
        ids = self.words.encode(texts, self.most)
        return F.pad(ids, (0, self.most - ids.shape[1]))

    def decode(self, codes: Tensor) -> list[str | TextValue]:
        """The texts, cut to as many characters as are allowed, in the property's language where it has one."""
        texts = [text[: self.max_length] for text in self.words.decode(codes)]
        return [TextValue(text, self.language) for text in texts] if self.language else list(texts)

    def to_json(self) -> dict[str, Any]:
        """Itself as plain data, but for the tokenizer."""
        return {name: getattr(self, name) for name in ("most", "language", "min_length", "max_length")}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], words: Words | None = None) -> Self:
        """Itself again."""
        return cls(**data, words=words or Words())
