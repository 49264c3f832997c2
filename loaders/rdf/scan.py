"""Turtle and TriG as bytes: what is a bracket, and what only looks like one.

A document is walked token by token, never parsed. Comments, IRIs, the four forms of string and names such as
`ex:a\\[b` or `:a.b` are each one token, so nothing inside them is ever taken for structure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

CHUNK = 1 << 20
BOM = rb"\A\xef\xbb\xbf"

SPACE = rb"[ \t\r\n]"
COMMENT = rb"#[^\r\n]*+"
IRI = rb'<[^\x00-\x20<>"{}|^`]*+>'
LANGUAGE = rb"@[A-Za-z][A-Za-z0-9-]*+"
SHORT = rb'"[^"\\\r\n]*+(?:\\[^\r\n][^"\\\r\n]*+)*+"|' + rb"'[^'\\\r\n]*+(?:\\[^\r\n][^'\\\r\n]*+)*+'"
LONG = rb'"""(?:[^"\\]++|\\[\s\S]|"(?!""))*+"""|' + rb"'''(?:[^'\\]++|\\[\s\S]|'(?!''))*+'''"
_CHAR = rb"[\w\x80-\xff-]"
LABEL = rb"_:[\w\x80-\xff]" + _CHAR + rb"*+(?:\.++" + _CHAR + rb"++)*+"
NUMBER = rb"[+-]?(?:\d++\.\d*+[eE][+-]?\d++|\d*+\.\d++(?:[eE][+-]?\d++)?|\d++(?:[eE][+-]?\d++)?)"
PREFIX_NAME = rb"[A-Za-z\x80-\xff]" + _CHAR + rb"*+(?:\.++" + _CHAR + rb"++)*+"
_LOCAL = rb"(?:[\w:%\x80-\xff-]++|\\[^\r\n]|\.++(?=[\w:%\\\x80-\xff-]))*+"
NAME = rb"(?:" + PREFIX_NAME + rb")?+:" + _LOCAL + rb"|" + PREFIX_NAME
STRING = rb"(?:" + LONG + rb"|(?!\"\"\"|''')(?:" + SHORT + rb"))(?:" + LANGUAGE + rb")?+"
VALUE = rb"(?!(?i:prefix|base|version)(?:[\s#<]|\Z))(?:" + NAME + rb")|" + IRI + rb"|" + STRING + rb"|" + NUMBER
OPEN_SHORT = rb'"[^"\\\r\n]*+(?:\\[^\r\n][^"\\\r\n]*+)*+|' + rb"'[^'\\\r\n]*+(?:\\[^\r\n][^'\\\r\n]*+)*+"
OPEN_LONG = rb'"""(?:[^"\\]++|\\[\s\S]|"(?!""))*+|' + rb"'''(?:[^'\\]++|\\[\s\S]|'(?!''))*+"
STRUCTURE = rb"<<\(?|\)?>>|\{\||\|\}|[\[\](){}.;,~]|" + LABEL
BLANK = rb"(?:" + SPACE + rb"|" + COMMENT + rb")*+"
PREFIX = rb"(?i:@prefix|prefix(?=[\s#]))" + BLANK + rb"(?:" + PREFIX_NAME + rb")?+:" + BLANK + IRI

_BLANK = re.compile(BLANK)
_TOKEN = re.compile(
    rb"(?:%s++|%s|%s|%s)*+(?:(?P<token>%s)|(?P<prefix>%s)|%s|%s|[\s\S]|\Z)"
    % (SPACE, BOM, VALUE, COMMENT, STRUCTURE, PREFIX, OPEN_LONG, OPEN_SHORT)
)


class Token(NamedTuple):
    """A piece of structure: a bracket, a mark, a label `_:b0`, or the start of a directive, `@prefix ex: <iri>`."""

    start: int
    text: bytes


def tokens(data: bytes) -> Iterator[Token]:
    """The structure of a document, in order."""
    for match in _TOKEN.finditer(data):
        kind = match.lastgroup
        if kind is not None:
            yield Token(match.start(kind), match[kind])


def after_blank(data: bytes, place: int) -> int:
    """The place of the first byte from here on that is neither white space nor in a comment."""
    blank = _BLANK.match(data, place)
    assert blank is not None
    return blank.end()


def overlapping(stream: BinaryIO, reach: int = 128) -> Iterator[bytes]:
    """A stream in chunks, each beginning with the end of the one before, so that nothing short is cut in all of them."""
    kept = b""
    while chunk := stream.read(CHUNK):
        yield kept + chunk
        kept = (kept + chunk)[-reach:]


def newline_of(sample: bytes) -> bytes:
    """How a file ends its lines, told by the first of them."""
    end = sample.find(b"\n")
    return b"\r\n" if end > 0 and sample[end - 1 : end] == b"\r" else b"\n"
