"""Blocks of kbdisk in a given document: finding them, reading with or without them, and those within brackets.

    # kbdisk: begin - values filled in by kbdisk, not given: ...           an appended block: complete statements
    # kbdisk: begin inserted - values filled in by kbdisk, not given: ...  within a bracket: properties of its node
    # kbdisk: end
    # kbdisk: end - the line goes on                                       of an inserted block that splits a line in two

A delimiter is a comment alone on its line; the same words within a string or an IRI delimit nothing. A block without an end
goes to the begin of the next, or to the end of the file, and is reported.

Anonymous blank nodes are written as brackets `[ ... ]`, and new properties go in before the close. An anonymous node has
no name, and pyoxigraph gives it a random id at each parse; only its number stays, the order in which nodes first appear in
the quads, subject before object. `locate_brackets` marks every bracket with a triple, parses that, and so learns which
number is which bracket.
"""

from __future__ import annotations

import io
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, BinaryIO, TypeAlias, cast

import pyoxigraph

from kbdisk.loaders.edits import apply_changes
from kbdisk.loaders.rdf import syntax
from kbdisk.loaders.rdf.blank_nodes import ANONYMOUS, blank_nodes
from kbdisk.loaders.rdf.syntax import Token

BEGIN_MARK = b"# kbdisk: begin"
_EXPLANATION = b" - values filled in by kbdisk, not given: to make one yours, move it out of here"
BEGIN = BEGIN_MARK + _EXPLANATION
INSERTED = BEGIN_MARK + b" inserted" + _EXPLANATION
END = b"# kbdisk: end"
LINE_GOES_ON = b" - the line goes on"


class PieceKind(Enum):
    """The origin of a piece of a document: given, or of kbdisk."""

    GIVEN = auto()
    DIRECTIVE = auto()  # given: a prefix or a base, which holds for the text after it
    APPENDED = auto()  # a block of kbdisk: complete statements
    INSERTED = auto()  # a block of kbdisk within a bracket
    END = auto()  # the delimiter that ends either


_SUBJECT = rb"(?:(?:%s)?+:)?+" % syntax.PREFIX_NAME  # the declared prefix; nothing for a base
_WORD = rb"(?i:prefix|base|version)(?=[\s#<]|\Z)"
_REST = rb"%s%s%s(?:%s|%s)" % (syntax.BLANK, _SUBJECT, syntax.BLANK, syntax.IRI, syntax.STRING)
_EVENT = re.compile(
    rb"(?:%s++|%s|%s|%s|[\[\](){}.;,~^])*+" % (syntax.SPACE, syntax.BOM, syntax.VALUE, syntax.LABEL)
    + rb"(?:(?P<comment>%s)|(?P<directive>@%s%s%s\.|%s%s)" % (syntax.COMMENT, _WORD, _REST, syntax.BLANK, _WORD, _REST)
    + rb"|(?P<open>(?P<string>\"\"\"|''')|@?%s)|%s|[\s\S]|\Z)" % (_WORD, syntax.OPEN_SHORT)
)
_DELIMITER = re.compile(rb"# kbdisk: (?:begin(?P<inserted> inserted)?|(?P<end>end))(?![^\s])[^\r\n]*+")
_BEFORE = re.compile(rb"(?:\A|[\r\n])[ \t]*+\Z")
_MAX_BLANKS = 100  # white space before a delimiter
_VISIBLE = re.compile(rb"[^\r\n]")
_LABEL = re.compile(rb"kbdisk\d++")
_LINE_END, _LAST_LINE_END = re.compile(rb"\A\r?\n"), re.compile(rb"\r?\n\Z")

Event = tuple[int, int, PieceKind]
OnEndlessBlock: TypeAlias = Callable[[int], None]


def has_blocks(stream: BinaryIO) -> bool:
    """Whether there may be a block of kbdisk: its words occur, perhaps in a string."""
    return any(BEGIN_MARK in chunk for chunk in syntax.overlapping(stream))


def without_blocks(stream: BinaryIO, format: str = "turtle", endless: OnEndlessBlock = lambda line: None) -> BinaryIO:
    """The document with the blocks of kbdisk blanked: length and lines stay, so every place in it stays right."""
    texts = (
        text if kind in (PieceKind.GIVEN, PieceKind.DIRECTIVE) else _VISIBLE.sub(b" ", text)
        for kind, text in pieces(stream, format, endless)
    )
    return cast(BinaryIO, io.BufferedReader(_TextStream(stream, texts), syntax.CHUNK_SIZE))


def only_blocks(stream: BinaryIO, format: str = "turtle") -> bytes:
    """The appended blocks alone, as a separate document: the prefixes and bases around them stay, and the lines."""
    return b"".join(
        text if kind in (PieceKind.APPENDED, PieceKind.DIRECTIVE) else _VISIBLE.sub(b"", text)
        for kind, text in pieces(stream, format)
    )


def cut_blocks(
    stream: BinaryIO, format: str = "turtle", is_cut: Callable[[int], bool] = lambda number: True
) -> Iterator[bytes]:
    """The document without some blocks of kbdisk, counted from 0: each is cut with the line ends that came with it.

    ValueError with the line of a block without an end: its extent is unknown.
    """
    given, block = b"", b""
    number = -1

    def fail(line: int) -> None:
        raise ValueError(line)

    for kind, text in pieces(stream, format, fail):
        if kind not in (PieceKind.GIVEN, PieceKind.DIRECTIVE):
            number += not block
            block += text
        elif text:
            if block and is_cut(number):
                given = _text_before_block(given, block)
                text = _LINE_END.sub(b"", text, count=1)
            given, block = given + (b"" if is_cut(number) else block) + text, b""
            yield given[:-_MAX_BLANKS]
            given = given[-_MAX_BLANKS:]
    if block and is_cut(number):
        given, block = _LAST_LINE_END.sub(b"", _text_before_block(given, block)), b""
    yield given + block


def _text_before_block(given: bytes, block: bytes) -> bytes:
    """The given text before a block, as it was without the block."""
    given = given.rstrip(b" \t")
    return _LAST_LINE_END.sub(b"", given) if block.endswith(LINE_GOES_ON) else given


def pieces(
    stream: BinaryIO, format: str, on_endless: OnEndlessBlock = lambda line: None
) -> Iterator[tuple[PieceKind, bytes]]:
    """A document cut into pieces of known origin; joined they are the document.

    `on_endless` is called with the line of each block that does not end before another begins, or at all.
    """
    kind_now: PieceKind | None = None
    lines = begin_line = 0
    for data, events in _read(stream, format):
        place = counted = 0
        for start, end, kind in events:
            lines += data.count(b"\n", counted, start)
            counted = start
            if kind in (PieceKind.APPENDED, PieceKind.INSERTED):
                if kind_now is not None:
                    on_endless(begin_line)
                begin_line = lines + 1
            if kind_now is None and kind is not PieceKind.END:
                yield PieceKind.GIVEN, data[place:start]
                place = start
                kind_now = None if kind is PieceKind.DIRECTIVE else kind
            if kind is (PieceKind.END if kind_now else PieceKind.DIRECTIVE):
                yield kind_now or kind, data[place:end]
                place, kind_now = end, None
        yield kind_now or PieceKind.GIVEN, data[place:]
        lines += data.count(b"\n", counted)
    if kind_now is not None:
        on_endless(begin_line)


def _read(stream: BinaryIO, format: str) -> Iterator[tuple[bytes, list[Event]]]:
    """The document in chunks that cut no line and no token, each with its delimiters and directives."""
    find_events = _events_in_lines if format in syntax.LINES else _events
    tail, size = b"", syntax.CHUNK_SIZE
    while chunk := stream.read(size):
        data = tail + chunk
        end = max(data.rfind(b"\n"), data.rfind(b"\r", 0, -1)) + 1
        events, end = find_events(data[:end], False)
        tail = data[end:]
        size = max(syntax.CHUNK_SIZE, len(tail))  # a long token is read twice over at most
        yield data[:end], events
    yield tail, find_events(tail, True)[0]


def _events(data: bytes, last: bool) -> tuple[list[Event], int]:
    """The delimiters and directives of some Turtle or TriG, and the place of a token that is incomplete."""
    events: list[Event] = []
    for match in _EVENT.finditer(data):
        group = match.lastgroup
        if group is None:
            continue
        start, end = match.span(group)
        if group == "open" and not last:
            return events, start
        if match["string"]:
            break  # it never ends
        if group == "directive":
            events.append((start, end, PieceKind.DIRECTIVE))
        elif group == "comment" and (kind := _delimiter(data, start)):
            events.append((start, end, kind))
    return events, len(data)


def _events_in_lines(data: bytes, last: bool) -> tuple[list[Event], int]:
    """The delimiters of some N-Triples or N-Quads."""
    delimiters = ((match.span(), _delimiter(data, match.start())) for match in _DELIMITER.finditer(data))
    return [(*span, kind) for span, kind in delimiters if kind], len(data)


def _delimiter(data: bytes, start: int) -> PieceKind | None:
    """The kind of block that a comment delimits, where it is alone on its line."""
    match = _DELIMITER.match(data, start)
    if match is None or _BEFORE.search(data, max(0, start - _MAX_BLANKS), start) is None:
        return None
    return PieceKind.END if match["end"] else PieceKind.INSERTED if match["inserted"] else PieceKind.APPENDED


class _TextStream(io.RawIOBase):
    """Pieces of text as a stream; closing it closes their source."""

    def __init__(self, stream: BinaryIO, texts: Iterator[bytes]) -> None:
        self.stream, self.texts = stream, texts
        self.rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.rest:
            text = next(self.texts, None)
            if text is None:
                return 0
            self.rest = memoryview(text)
        count = min(len(buffer), len(self.rest))
        buffer[:count], self.rest = self.rest[:count], self.rest[count:]
        return count

    def close(self) -> None:
        self.stream.close()
        super().close()


class FreshLabels:
    """Blank node labels that stand nowhere in a document: kbdisk1, kbdisk2, ... without those it has."""

    def __init__(self, stream: BinaryIO) -> None:
        self.taken = {label for chunk in syntax.overlapping(stream) for label in _LABEL.findall(chunk)}
        self.count = 0

    def mint(self) -> str:
        """A new label, without its `_:`."""
        self.count += 1
        while b"kbdisk%d" % self.count in self.taken:
            self.count += 1
        return f"kbdisk{self.count}"


# ---------------------------------------------------------------- anonymous brackets


_HEX = re.compile(rb"_:([a-f][0-9a-f]{15,31})")
_PREFIX = re.compile(rb"(?i:@?prefix)" + syntax.BLANK + rb"([^\s#:]*+):" + syntax.BLANK + rb"<([^>]*+)>")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_BRACKET_MARKER = "urn:kbdisk:bracket"
_NESTED = (b"<<", b"<<(")  # triples within triples: their subjects and objects take no properties
_INDENT_OF_LINE = re.compile(rb"[\r\n]([ \t]*+)[^\s][^\r\n]*+\s*+\Z")
_ALONE = re.compile(rb"[\r\n]([ \t]*+)\Z")
_INDENT_REACH = 400  # bytes searched back for the indentation of a line


@dataclass(frozen=True, slots=True)
class BracketPlace:
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
    place: BracketPlace | None = None  # known once it is closed


def hex_labels(stream: BinaryIO) -> set[str]:
    """The labels of a document that look like ids of anonymous nodes, and perhaps words that look like such labels."""
    chunks = (chunk for chunk in syntax.overlapping(stream) if b"_:" in chunk)
    return {label.decode() for chunk in chunks for label in _HEX.findall(chunk)}


def locate_brackets(data: bytes, format: str, base: str | None = None) -> dict[int, BracketPlace]:
    """The places of the anonymous nodes of a document, by number; nodes in blocks of kbdisk take no numbers.

    A node that cannot take properties (a list, a graph's name, within a triple term) is not among them.
    """
    if format not in ("turtle", "trig", "n3"):
        return {}
    if data.startswith(BOM_UTF8):
        data = b"   " + data[3:]
    if BEGIN_MARK in data:
        data = without_blocks(io.BytesIO(data), format).read()
    all_brackets = list(_brackets(data))
    marker = _BRACKET_MARKER
    while marker.encode() in data:
        marker += "x"
    rdf_format = pyoxigraph.RdfFormat.TRIG if format == "trig" else pyoxigraph.RdfFormat.TURTLE
    quads = pyoxigraph.parse(_mark_brackets(data, all_brackets, marker), rdf_format, base_iri=base)
    numbers = _numbers(quads, pyoxigraph.NamedNode(marker), hex_labels(io.BytesIO(data)))
    return {number: place for number, index in numbers.items() if (place := all_brackets[index].place)}


def insert_in_brackets(data: bytes, places: Mapping[int, BracketPlace], additions: Mapping[int, list[bytes]]) -> bytes:
    """The document with new `predicate object` pairs in the brackets of some nodes; every other byte as it was."""
    newline = syntax.newline_of(data[: syntax.CHUNK_SIZE])
    changes = []
    for number, pairs in additions.items():
        if pairs:
            place = places[number]
            changes.append((place.offset, place.offset, _block_within_bracket(data, place, pairs, newline)))
    return apply_changes(data, changes)


def _block_within_bracket(data: bytes, place: BracketPlace, pairs: list[bytes], newline: bytes) -> bytes:
    """Some pairs between delimiters, each with a `;` after it so that another block may follow."""
    reach = max(0, place.offset - _INDENT_REACH)
    line, alone = _INDENT_OF_LINE.search(data, reach, place.offset), _ALONE.search(data, reach, place.offset)
    indent, last = line[1] if line else b"", alone[1] if alone else b""
    closed = [pair + b" ;" for pair in (place.separator + pairs[0], *pairs[1:])]
    end = END if alone else END + LINE_GOES_ON
    text = newline.join(indent + line for line in (INSERTED, *closed, end)) + newline + last
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
            prefixes = _add_prefix(prefixes, text)
        before = token


def _close(data: bytes, bracket: _Bracket, close: int, before: Token) -> None:
    """Note the place of a bracket at its end; `before` is the last token before it."""
    bracket.empty = syntax.after_blank(data, bracket.open + 1) == close
    following = syntax.after_blank(data, close + 1)
    names_graph = data[following : following + 1] == b"{" and data[following + 1 : following + 2] != b"|"
    bracket.takes = bracket.takes and not names_graph
    if bracket.takes:
        ended = before.text == b";" and syntax.after_blank(data, before.start + 1) == close
        bracket.place = BracketPlace(close, b"" if bracket.empty or ended else b"; ", bracket.prefixes)


def _add_prefix(prefixes: Mapping[str, str], directive: bytes) -> Mapping[str, str]:
    """The prefixes after one more directive; one that is relative, or spelt with escapes, is left out."""
    match = _PREFIX.fullmatch(directive)
    assert match is not None
    name, iri = match[1].decode(), match[2].decode()
    others = {known: its for known, its in prefixes.items() if known != name}
    return {**others, name: iri} if _ABSOLUTE.match(iri) and "\\" not in iri else others


def _mark_brackets(data: bytes, brackets: Iterable[_Bracket], marker: str) -> bytes:
    """The document with a triple in every bracket that holds its index."""
    changes = []
    for index, bracket in enumerate(brackets):
        if bracket.place:
            mark = f" <{marker}> {index} {'' if bracket.empty else ';'}".encode()
            changes.append((bracket.open + 1, bracket.open + 1, mark))
    return apply_changes(data, changes)


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
