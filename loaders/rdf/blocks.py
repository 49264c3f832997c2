"""Our own blocks in somebody's file: the comment lines around them, finding them, and reading with or without them.

    # kbdisk: begin - values filled in by kbdisk, not given: ...           an appended block: whole statements
    # kbdisk: begin inserted - values filled in by kbdisk, not given: ...  within a bracket: properties of its node
    # kbdisk: end
    # kbdisk: end - the line goes on                                       of an inserted one that parts a line in two

A delimiter is a comment alone on its line; the same words within a string or an IRI delimit nothing. A block without an
end goes to that of the next, or of the file, which is told.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Any, BinaryIO, TypeAlias, cast

from kbdisk.loaders.rdf import syntax

MARK = b"# kbdisk: begin"
WORDS = b" - values filled in by kbdisk, not given: to make one yours, move it out of here"
BEGIN = MARK + WORDS
INSERTED = MARK + b" inserted" + WORDS
END = b"# kbdisk: end"
GOES_ON = b" - the line goes on"
LINES = frozenset({"ntriples", "nquads"})  # formats where no string goes on over the end of a line


class Kind(Enum):
    """Whose a piece of a document is."""

    GIVEN = auto()
    DIRECTIVE = auto()  # given, and what follows is to be read by it: a prefix or a base
    APPENDED = auto()  # ours, whole statements
    INSERTED = auto()  # ours, within a bracket
    END = auto()  # the delimiter that ends either


_SUBJECT = rb"(?:(?:%s)?+:)?+" % syntax.PREFIX_NAME  # what is declared: nothing for a base
_WORD = rb"(?i:prefix|base|version)(?=[\s#<]|\Z)"
_REST = rb"%s%s%s(?:%s|%s)" % (syntax.BLANK, _SUBJECT, syntax.BLANK, syntax.IRI, syntax.STRING)
_EVENT = re.compile(
    rb"(?:%s++|%s|%s|%s|[\[\](){}.;,~^])*+" % (syntax.SPACE, syntax.BOM, syntax.VALUE, syntax.LABEL)
    + rb"(?:(?P<comment>%s)|(?P<directive>@%s%s%s\.|%s%s)" % (syntax.COMMENT, _WORD, _REST, syntax.BLANK, _WORD, _REST)
    + rb"|(?P<open>(?P<string>\"\"\"|''')|@?%s)|%s|[\s\S]|\Z)" % (_WORD, syntax.OPEN_SHORT)
)
_DELIMITER = re.compile(rb"# kbdisk: (?:begin(?P<inserted> inserted)?|(?P<end>end))(?![^\s])[^\r\n]*+")
_BEFORE = re.compile(rb"(?:\A|[\r\n])[ \t]*+\Z")
_REACH = 100  # white space before a delimiter
_SEEN = re.compile(rb"[^\r\n]")
_LABEL = re.compile(rb"kbdisk\d++")
_LINE_END, _LAST_LINE_END = re.compile(rb"\A\r?\n"), re.compile(rb"\r?\n\Z")

Event = tuple[int, int, Kind]
Endless: TypeAlias = Callable[[int], None]


def has_blocks(stream: BinaryIO) -> bool:
    """Whether there may be a block of ours: whether the words are there at all, be it in a string."""
    return any(MARK in chunk for chunk in syntax.overlapping(stream))


def without_blocks(stream: BinaryIO, format: str = "turtle", endless: Endless = lambda line: None) -> BinaryIO:
    """The document with our blocks blanked: it keeps its length and its lines, so every place in it stays right."""
    texts = (
        text if kind in (Kind.GIVEN, Kind.DIRECTIVE) else _SEEN.sub(b" ", text)
        for kind, text in pieces(stream, format, endless)
    )
    return cast(BinaryIO, io.BufferedReader(_Texts(stream, texts), syntax.CHUNK_SIZE))


def only_blocks(stream: BinaryIO, format: str = "turtle") -> bytes:
    """The appended blocks alone, as a document of their own: the prefixes and bases around them stay, and the lines."""
    return b"".join(
        text if kind in (Kind.APPENDED, Kind.DIRECTIVE) else _SEEN.sub(b"", text)
        for kind, text in pieces(stream, format)
    )


def cut(
    stream: BinaryIO, format: str = "turtle", is_cut: Callable[[int], bool] = lambda number: True
) -> Iterator[bytes]:
    """The document without those of our blocks, counted from 0, that are to be cut: each with the line ends that came with it.

    ValueError with the line of a block that has no end: nobody knows how far it goes.
    """
    given, block = b"", b""
    number = -1

    def fail(line: int) -> None:
        raise ValueError(line)

    for kind, text in pieces(stream, format, fail):
        if kind not in (Kind.GIVEN, Kind.DIRECTIVE):
            number += not block
            block += text
        elif text:
            if block and is_cut(number):
                given = _before(given, block)
                text = _LINE_END.sub(b"", text, count=1)
            given, block = given + (b"" if is_cut(number) else block) + text, b""
            yield given[:-_REACH]
            given = given[-_REACH:]
    if block and is_cut(number):
        given, block = _LAST_LINE_END.sub(b"", _before(given, block)), b""
    yield given + block


def _before(given: bytes, block: bytes) -> bytes:
    """What was given before a block, as it was without it."""
    given = given.rstrip(b" \t")
    return _LAST_LINE_END.sub(b"", given) if block.endswith(GOES_ON) else given


def pieces(stream: BinaryIO, format: str, endless: Endless = lambda line: None) -> Iterator[tuple[Kind, bytes]]:
    """A document cut into pieces that say whose they are; together they are the document.

    `endless` is told the lines of blocks that do not end before another begins, or at all.
    """
    ours: Kind | None = None
    lines = begun = 0
    for data, events in _read(stream, format):
        place = counted = 0
        for start, end, kind in events:
            lines += data.count(b"\n", counted, start)
            counted = start
            if kind in (Kind.APPENDED, Kind.INSERTED):
                if ours is not None:
                    endless(begun)
                begun = lines + 1
            if ours is None and kind is not Kind.END:
                yield Kind.GIVEN, data[place:start]
                place = start
                ours = None if kind is Kind.DIRECTIVE else kind
            if kind is (Kind.END if ours else Kind.DIRECTIVE):
                yield ours or kind, data[place:end]
                place, ours = end, None
        yield ours or Kind.GIVEN, data[place:]
        lines += data.count(b"\n", counted)
    if ours is not None:
        endless(begun)


def _read(stream: BinaryIO, format: str) -> Iterator[tuple[bytes, list[Event]]]:
    """The document in chunks that cut no line and no token, each with what happens in it."""
    look = _events_in_lines if format in LINES else _events
    kept, size = b"", syntax.CHUNK_SIZE
    while chunk := stream.read(size):
        data = kept + chunk
        end = max(data.rfind(b"\n"), data.rfind(b"\r", 0, -1)) + 1
        events, end = look(data[:end], False)
        kept = data[end:]
        size = max(syntax.CHUNK_SIZE, len(kept))  # a long token is read twice over at most
        yield data[:end], events
    yield kept, look(kept, True)[0]


def _events(data: bytes, last: bool) -> tuple[list[Event], int]:
    """The delimiters and directives of some Turtle or TriG, and where a token begins that is not whole."""
    events: list[Event] = []
    for match in _EVENT.finditer(data):
        found = match.lastgroup
        if found is None:
            continue
        start, end = match.span(found)
        if found == "open" and not last:
            return events, start
        if match["string"]:
            break  # it never ends
        if found == "directive":
            events.append((start, end, Kind.DIRECTIVE))
        elif found == "comment" and (kind := _delimiter(data, start)):
            events.append((start, end, kind))
    return events, len(data)


def _events_in_lines(data: bytes, last: bool) -> tuple[list[Event], int]:
    """The delimiters of some N-Triples or N-Quads."""
    found = ((match.span(), _delimiter(data, match.start())) for match in _DELIMITER.finditer(data))
    return [(*span, kind) for span, kind in found if kind], len(data)


def _delimiter(data: bytes, start: int) -> Kind | None:
    """What a comment delimits, where it stands alone on its line."""
    match = _DELIMITER.match(data, start)
    if match is None or _BEFORE.search(data, max(0, start - _REACH), start) is None:
        return None
    return Kind.END if match["end"] else Kind.INSERTED if match["inserted"] else Kind.APPENDED


class _Texts(io.RawIOBase):
    """Pieces of text as a stream; closing it closes what they are read from."""

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
        self.taken = {found for chunk in syntax.overlapping(stream) for found in _LABEL.findall(chunk)}
        self.count = 0

    def mint(self) -> str:
        """A new label, without its `_:`."""
        self.count += 1
        while b"kbdisk%d" % self.count in self.taken:
            self.count += 1
        return f"kbdisk{self.count}"
