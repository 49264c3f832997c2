"""KINDS, the one table that says how each kind of leaf becomes tensors and back.

To add a kind: write its dataclass in kbdisk.schemas.kinds, its codec, encoder, decoder and belief in one file here,
and one row. tests/leaves/test_leaves.py then asks for an example, and checks that it keeps the promises of base.py
and belief.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import nn

from kbdisk.leaves.category import CategoryCodec, CategoryConfig, CategoryDecoder, CategoryEncoder
from kbdisk.leaves.link import LinkCodec, LinkConfig, LinkDecoder, LinkEncoder
from kbdisk.leaves.number import NumberCodec, NumberConfig, NumberDecoder, NumberEncoder
from kbdisk.leaves.set import SetCodec, SetConfig, SetDecoder, SetEncoder
from kbdisk.leaves.text import TextCodec, TextConfig, TextDecoder, TextEncoder
from kbdisk.schemas.kinds import Boolean, Category, Link, Number, Set, Text


class LeafKind(NamedTuple):
    """A row of the table: how one kind of leaf becomes tensors and back."""

    name: str
    codec: type[Any]  # a LeafCodec
    encoder: type[nn.Module]  # (codecs, Setting); forward(codes (n, ...), Rows) -> vectors (n, D)
    decoder: type[nn.Module]  # (codecs, Setting); forward(vectors (n, D), Rows) -> Belief
    config: type[Any]  # a frozen dataclass of plain values, all with defaults


CATEGORY = LeafKind("category", CategoryCodec, CategoryEncoder, CategoryDecoder, CategoryConfig)

KINDS: dict[type, LeafKind] = {
    Number: LeafKind("number", NumberCodec, NumberEncoder, NumberDecoder, NumberConfig),
    Category: CATEGORY,
    Boolean: CATEGORY,
    Text: LeafKind("text", TextCodec, TextEncoder, TextDecoder, TextConfig),
    Link: LeafKind("link", LinkCodec, LinkEncoder, LinkDecoder, LinkConfig),
    Set: LeafKind("set", SetCodec, SetEncoder, SetDecoder, SetConfig),
}
