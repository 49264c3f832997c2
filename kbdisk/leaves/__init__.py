"""The one table that says how each kind of leaf becomes tensors and back.

To add a kind: write its dataclass in kbdisk.schemas.kinds, its codec, encoder, decoder and belief in one file here,
and one row. tests/leaves/test_leaves.py then asks for an example, and checks that it keeps the promises of base.py.
"""

from __future__ import annotations

from kbdisk.leaves.base import LeafKind
from kbdisk.leaves.category import CategoryCodec, CategoryConfig, CategoryDecoder, CategoryEncoder
from kbdisk.leaves.link import LinkCodec, LinkConfig, LinkDecoder, LinkEncoder
from kbdisk.leaves.number import NumberCodec, NumberConfig, NumberDecoder, NumberEncoder
from kbdisk.leaves.sets import SetCodec, SetConfig, SetDecoder, SetEncoder
from kbdisk.leaves.text import TextCodec, TextConfig, TextDecoder, TextEncoder
from kbdisk.schemas.kinds import Boolean, Category, Link, Number, Set, Text

CATEGORY = LeafKind("category", CategoryCodec, CategoryEncoder, CategoryDecoder, CategoryConfig)

KINDS: dict[type, LeafKind] = {
    Number: LeafKind("number", NumberCodec, NumberEncoder, NumberDecoder, NumberConfig),
    Category: CATEGORY,
    Boolean: CATEGORY,
    Text: LeafKind("text", TextCodec, TextEncoder, TextDecoder, TextConfig),
    Link: LeafKind("link", LinkCodec, LinkEncoder, LinkDecoder, LinkConfig),
    Set: LeafKind("set", SetCodec, SetEncoder, SetDecoder, SetConfig),
}
