"""Quads as a new JSON-LD document, or a ValueError that says what JSON-LD cannot say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import BinaryIO

import pyoxigraph
from pyoxigraph import Quad, RdfFormat, Triple


def serialise(quads: Sequence[Quad], stream: BinaryIO, prefixes: Mapping[str, str]) -> None:
    """Write quads."""
    if quoting := next((quad for quad in quads if type(quad.object) is Triple), None):
        raise ValueError(f"expected no triple term, got <<( {quoting.object} )>>")
    pyoxigraph.serialize(quads, stream, format=RdfFormat.JSON_LD, prefixes=dict(prefixes))
