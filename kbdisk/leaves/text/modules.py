"""Text in and out: the shared reader and writer, with each group's own blocks beside them.

n rows   L tokens of a text at most   D width   S slots
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.layers import GLUBlock
from kbdisk.leaves.text.belief import TextBelief
from kbdisk.leaves.text.codec import TextCodec
from kbdisk.leaves.text.config import TextConfig
from kbdisk.leaves.text.grams import Grams
from kbdisk.leaves.text.reader import Reader
from kbdisk.leaves.text.sentences import SentenceEncoder, SentenceReader, load_sentence_encoder
from kbdisk.leaves.text.writer import Writer
from kbdisk.leaves.words import Words


def build_reader(setting: Setting, encoder: SentenceEncoder | None = None) -> nn.Module:
    """What reads all text of a knowledge base: token ids (n, L) -> (n, D). A sentence encoder that is given reads it."""
    config: TextConfig = setting.config
    words = setting.tokenizer or Words()
    if encoder is None and config.sentence_encoder:
        encoder = load_sentence_encoder(config.sentence_encoder)
    if encoder is not None:
        return SentenceReader(encoder, words, setting.width)
    grams = Grams(words.spelling, setting.width, config.grams, config.blank) if config.grams else None
    return Reader(len(words), setting.width, config, setting.base, grams)


class TextEncoder(nn.Module):
    """What a text means where it stands: what the reader makes of it, and its path, through the group's blocks."""

    def __init__(self, codecs: Sequence[TextCodec], setting: Setting) -> None:
        super().__init__()
        self._shared: tuple[nn.Module, ...] = (
            () if setting.reader is None else (setting.reader,)
        )  # a tuple: the network owns it
        self.own = None if self._shared else build_reader(setting)
        self.blocks = nn.ModuleList(
            GLUBlock(setting.sets, setting.width, dropout=setting.dropout) for _ in range(setting.blocks)
        )

    def forward(self, codes: Tensor, rows: Rows) -> Tensor:
        """(n, L) -> (n, D)"""
        reader = self.own or self._shared[0]
        x: Tensor = reader(codes) + rows.path
        for block in self.blocks:
            x = block(x, rows.counts)
        return x


class TextDecoder(nn.Module):
    """What is believed of a text: what the network makes of it, and its path, through the group's blocks, written."""

    least: Tensor

    def __init__(self, codecs: Sequence[TextCodec], setting: Setting) -> None:
        super().__init__()
        self.config, self.words = setting.config, setting.tokenizer or Words()
        self.blocks = nn.ModuleList(
            GLUBlock(setting.sets, setting.width, dropout=setting.dropout) for _ in range(setting.blocks)
        )
        self.writer = Writer(len(self.words), setting.width, setting.config, setting.base)
        self.register_buffer("least", torch.tensor([codec.min_length for codec in codecs]), persistent=False)  # (S,)
        self.bounded = any(codec.min_length for codec in codecs)

    def forward(self, h: Tensor, rows: Rows) -> TextBelief:
        """(n, D) -> beliefs about the text of each."""
        x = h + rows.path
        for block in self.blocks:
            x = block(x, rows.counts)
        least = self.least[rows.slot] if self.bounded else None
        return TextBelief(self.writer, x.float(), self.config, self.words, least)
