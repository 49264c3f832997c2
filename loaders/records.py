"""The records of a delimited file, as bytes: on which line each begins, and where its cells lie.

RFC 4180, as Python's csv reads it: a quote opens a cell only as its first character, lines end in LF, CRLF or
CR. Nothing is decoded or dropped here, so joining all `raw` gives the file back. Good for every encoding in
which a delimiter, a quote and a line end are the one byte that they are in ASCII, and part of no other character.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

CHUNK = 1 << 18
LIMIT = 1 << 24  # bytes in a quoted record: beyond, a quote was forgotten
BLANK = frozenset({b"\n", b"\r\n", b"\r"})
BOM = b"\xef\xbb\xbf"

Spans = list[tuple[int, int]]  # of each cell, its quotes within

_TOLD = re.compile(rb'"?sep=([\t !#-/:-@[-`{-~])"?(?:\r\n?|\n)')  # a first line that spreadsheets take for no row
_QUOTED = re.compile(rb'"(?:[^"]++|"")*+"')


class Record(NamedTuple):
    """A record with its line end. `spans` is None where no quote is in it, and `fault` says why it is none."""

    line: int
    raw: bytes
    spans: Spans | None = None
    fault: str = ""

    @property
    def is_blank(self) -> bool:
        """Whether it is no row: a blank line, or a first one that tells the delimiter."""
        return self.raw in BLANK or (self.line == 1 and _TOLD.fullmatch(self.raw) is not None)


def delimiter_of(start: bytes, usual: bytes = b"") -> bytes:
    """As the first line tells it; else the usual one; else a comma; or, where the header has none outside quotes, a
    semicolon or a tab; or, where it has neither, a bar."""
    start = start.removeprefix(BOM)
    if told := _TOLD.match(start):
        return told[1]
    if usual:
        return usual
    header = _QUOTED.sub(b"", start).lstrip(b"\r\n")
    header = re.split(rb"[\r\n]", header, maxsplit=1)[0]
    if b"," in header:
        return b","
    return max(b";", b"\t", key=header.count) if re.search(rb"[;\t]", header) else b"|" if b"|" in header else b","


class Records:
    """Iterates over the records of a stream, blank lines among them."""

    def __init__(self, stream: BinaryIO, delimiter: bytes) -> None:
        self.delimiter = delimiter
        start = stream.read(len(BOM))
        self.bom = BOM if start == BOM else b""
        self._lines = _lines(stream, start.removeprefix(BOM))
        self._again: deque[bytes] = deque()  # lines looked at already, while a quote was open
        apart = re.escape(delimiter)
        self._cell = re.compile(rb'(?:"(?:[^"]++|"")*+"|(?!")[^' + apart + rb"\r\n]*+)(" + apart + rb"|\r\n?|\n|\Z)")

    def __iter__(self) -> Iterator[Record]:
        line = 1
        while True:
            for raw in self._lines:
                if b'"' in raw:
                    break
                yield Record(line, raw)
                line += 1
            else:
                return
            self._again.append(raw)
            while self._again:
                record, height = self._quoted(line)
                yield record
                line += height

    def _quoted(self, line: int) -> tuple[Record, int]:
        """The record that begins on a line looked at already, and how many lines it takes."""
        raw = bytearray(self._again[0])
        height, at, spans = 1, 0, Spans()
        while True:
            at, ended = self._scan(raw, at, spans)
            if ended:
                for _ in range(height):
                    self._again.popleft()
                return Record(line, bytes(raw), spans), height
            if _QUOTED.match(raw, at):
                stray = f"expected a {self.delimiter.decode()!r} or the line's end after the closing quote of cell {len(spans) + 1}"
                return self._broken(line, f"{stray}. Double the quotes inside a cell."), 1
            added = self._until_closed(raw, at, height)
            if added is None:
                return self._broken(line, f"the quote that opens cell {len(spans) + 1} is never closed. Close it."), 1
            height += added

    def _scan(self, raw: bytearray, at: int, spans: Spans) -> tuple[int, bool]:
        """Add the cells from `at` on; how far that went, and whether it reached the record's end."""
        for cell in self._cell.finditer(raw, at):
            if cell.start() != at:
                break
            spans.append((at, cell.start(1)))
            at = cell.end()
            if cell[1] != self.delimiter:
                return at, True
        return at, False

    def _until_closed(self, raw: bytearray, at: int, height: int) -> int | None:
        """Add lines until the cell that opens at `at` may be closed: how many, or None at the end of the file."""
        quotes = raw.count(b'"', at)
        added = 0
        while quotes % 2 or not added:
            if height + added == len(self._again):
                following = next(self._lines, None)
                if following is None or len(raw) > LIMIT:
                    self._again.extend([following] if following else [])
                    return None
                self._again.append(following)
            raw += self._again[height + added]
            quotes += self._again[height + added].count(b'"')
            added += 1
        return added

    def _broken(self, line: int, fault: str) -> Record:
        return Record(line, self._again.popleft(), None, fault)


def _lines(stream: BinaryIO, rest: bytes) -> Iterator[bytes]:
    """Lines with their ends. One that grows is read in ever larger pieces."""
    while chunk := stream.read(max(CHUNK, len(rest))):
        pieces = (rest + chunk).splitlines(keepends=True)
        rest = pieces.pop()  # not whole yet; or its CR is half of a CRLF
        yield from pieces
    yield from rest.splitlines(keepends=True)  # several only where the file is as short as what was read first


def cells_of(record: Record, delimiter: bytes, encoding: str) -> list[str]:
    """The cells as text, without their quotes; UnicodeDecodeError where they are in another encoding."""
    _, raw, spans, _ = record
    if spans is None:
        return raw.rstrip(b"\r\n").decode(encoding).split(delimiter.decode())
    return [
        (raw[start + 1 : end - 1].replace(b'""', b'"') if raw[start : start + 1] == b'"' else raw[start:end]).decode(
            encoding
        )
        for start, end in spans
    ]


def spans_of(record: Record, delimiter: bytes) -> Spans:
    """Where the cells lie in `raw`, their quotes within."""
    if record.spans is not None:
        return record.spans
    spans, at = Spans(), 0
    for cell in record.raw.rstrip(b"\r\n").split(delimiter):
        spans.append((at, at + len(cell)))
        at += len(cell) + 1
    return spans


def quoted(text: str, delimiter: str, always: bool = False) -> str:
    """A cell's text, in quotes where it must be."""
    if always or any(char in text for char in ('"', "\r", "\n", delimiter)):
        return '"' + text.replace('"', '""') + '"'
    return text
