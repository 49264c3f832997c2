"""Anonymous blank nodes and the brackets `[ ... ]` they were written as; new properties spliced in before the close.

An anonymous node has no name: pyoxigraph gives it a random id at each parse. What stays is its number, the order in
which the nodes first appear in the quads, subject before object. `locate` marks every bracket with a triple of its own,
parses that, and so learns which number stands where.
"""

from __future__ import annotations

import io
import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyoxigraph

from kbdisk.loaders.edits import spliced
from kbdisk.loaders.rdf import blocks, syntax
from kbdisk.loaders.rdf.blank_nodes import ANONYMOUS, blank_nodes
from kbdisk.loaders.rdf.syntax import Token

_HEX = re.compile(rb"_:([a-f][0-9a-f]{15,31})")
_PREFIX = re.compile(rb"(?i:@?prefix)" + syntax.BLANK + rb"([^\s#:]*+):" + syntax.BLANK + rb"<([^>]*+)>")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_MARKER = "urn:kbdisk:bracket"
_NESTED = (b"<<", b"<<(")  # triples within triples: their subjects and objects take no properties
_LINE = re.compile(rb"[\r\n]([ \t]*+)[^\s][^\r\n]*+\s*+\Z")
_ALONE = re.compile(rb"[\r\n]([ \t]*+)\Z")
_LOOK = 400  # bytes looked back for the indentation of a line


@dataclass(frozen=True, slots=True)
class Place:
    """Where a bracket takes new properties: just before its close, after a separator; and the prefixes there."""

    offset: int
    separator: bytes
    prefixes: Mapping[str, str]


@dataclass(slots=True)
class _Bracket:
    open: int
    prefixes: Mapping[str, str]
    takes: bool  # properties, where it stands
    empty: bool = False
    place: Place | None = None  # known once it is closed


def hex_labels(stream: BinaryIO) -> set[str]:
    """The labels of a document that look like ids of anonymous nodes (and perhaps words that look like labels)."""
    chunks = (chunk for chunk in syntax.overlapping(stream) if b"_:" in chunk)
    return {label.decode() for chunk in chunks for label in _HEX.findall(chunk)}


def locate(data: bytes, format: str, base: str | None = None) -> dict[int, Place]:
    """The places of the anonymous nodes of a document, by number; what stands in our own blocks takes no numbers.

    A node that cannot take properties (a list, a graph's name, within a triple term) is not among them.
    """
    if format not in ("turtle", "trig", "n3"):
        return {}
    if data.startswith(BOM_UTF8):
        data = b"   " + data[3:]
    if blocks.MARK in data:
        data = blocks.without_blocks(io.BytesIO(data), format).read()
    found = list(_brackets(data))
    marker = _MARKER
    while marker.encode() in data:
        marker += "x"
    rdf_format = pyoxigraph.RdfFormat.TRIG if format == "trig" else pyoxigraph.RdfFormat.TURTLE
    quads = pyoxigraph.parse(_marked(data, found, marker), rdf_format, base_iri=base)
    numbers = _numbers(quads, pyoxigraph.NamedNode(marker), hex_labels(io.BytesIO(data)))
    return {number: place for number, index in numbers.items() if (place := found[index].place)}


def insert(data: bytes, places: Mapping[int, Place], additions: Mapping[int, list[bytes]]) -> bytes:
    """The document with new `predicate object` pairs in the brackets of some nodes; every other byte as it was."""
    newline = syntax.newline_of(data[: syntax.CHUNK_SIZE])
    changes = []
    for number, pairs in additions.items():
        if pairs:
            place = places[number]
            changes.append((place.offset, place.offset, _inserted(data, place, pairs, newline)))
    return spliced(data, changes)


def _inserted(data: bytes, place: Place, pairs: list[bytes], newline: bytes) -> bytes:
    """Some pairs between delimiters, each with a `;` after it so that another block may follow."""
    look = max(0, place.offset - _LOOK)
    line, alone = _LINE.search(data, look, place.offset), _ALONE.search(data, look, place.offset)
    indent, last = line[1] if line else b"", alone[1] if alone else b""
    closed = [pair + b" ;" for pair in (place.separator + pairs[0], *pairs[1:])]
    end = blocks.END if alone else blocks.END + blocks.GOES_ON
    text = newline.join(indent + line for line in (blocks.INSERTED, *closed, end)) + newline + last
    return text.removeprefix(last) if alone else newline + text


def _brackets(data: bytes) -> Iterator[_Bracket]:
    """The brackets of a document by where they open."""
    open_now: list[_Bracket] = []
    nested = 0
    prefixes: Mapping[str, str] = {}
    before = Token(-1, b"")
    for token in syntax.tokens(data):
        text = token.text
        if text == b"[":
            bracket = _Bracket(token.start, prefixes, takes=not nested and before.text != b"~")
            open_now.append(bracket)
            yield bracket
        elif text == b"]" and open_now:
            _close(data, open_now.pop(), token.start, before)
        elif text in _NESTED:
            nested += 1
        elif text in (b">>", b")>>"):
            nested -= 1
        elif text[:1] in b"@pP":
            prefixes = _declared(prefixes, text)
        before = token


def _close(data: bytes, bracket: _Bracket, close: int, before: Token) -> None:
    """What is known of a bracket at its end; `before` is the last structure before it."""
    bracket.empty = syntax.after_blank(data, bracket.open + 1) == close
    following = syntax.after_blank(data, close + 1)
    names_graph = data[following : following + 1] == b"{" and data[following + 1 : following + 2] != b"|"
    bracket.takes = bracket.takes and not names_graph
    if bracket.takes:
        ended = before.text == b";" and syntax.after_blank(data, before.start + 1) == close
        bracket.place = Place(close, b"" if bracket.empty or ended else b"; ", bracket.prefixes)


def _declared(prefixes: Mapping[str, str], directive: bytes) -> Mapping[str, str]:
    """The prefixes after one more directive; one that is relative, or spelt with escapes, is known to nobody here."""
    match = _PREFIX.fullmatch(directive)
    assert match is not None
    name, iri = match[1].decode(), match[2].decode()
    others = {known: its for known, its in prefixes.items() if known != name}
    return {**others, name: iri} if _ABSOLUTE.match(iri) and "\\" not in iri else others


def _marked(data: bytes, found: Iterable[_Bracket], marker: str) -> bytes:
    """The document with a triple in every bracket that says which one it is."""
    changes = []
    for index, bracket in enumerate(found):
        if bracket.place:
            mark = f" <{marker}> {index} {'' if bracket.empty else ';'}".encode()
            changes.append((bracket.open + 1, bracket.open + 1, mark))
    return spliced(data, changes)


def _numbers(quads: Iterable[Any], marker: pyoxigraph.NamedNode, labels: set[str]) -> dict[int, int]:
    """Which number has which bracket."""
    numbers: dict[str, int] = {}
    brackets: dict[str, int] = {}
    for quad in quads:
        if quad.predicate == marker:
            brackets[quad.subject.value] = int(quad.object.value)
            continue
        for id in (node.value for node in blank_nodes(quad.subject, quad.object)):
            if id not in numbers and ANONYMOUS.fullmatch(id) and id not in labels:
                numbers[id] = len(numbers)
    return {number: brackets[id] for id, number in numbers.items() if id in brackets}
