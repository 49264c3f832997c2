"""A delimited file as rows of text: its header, its rows, and what is wrong with a row, by its line."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from typing import BinaryIO

from kbdisk.entity import Path
from kbdisk.errors import ConfigError, LoadError
from kbdisk.loaders.files import Source
from kbdisk.loaders.records import Record, Records, cells_of, delimiter_of
from kbdisk.loaders.values.columns import paths_of

LOOK = 1 << 16  # bytes that tell the delimiter
Row = tuple[int, Record, list[str]]  # its number from 1, where it stands, its cells


class Rows:
    """The rows of a delimited file, to be read again and again; its header is read when it is made."""

    def __init__(self, source: Source, format: str, encoding: str) -> None:
        self.source = source
        self.encoding = _known(encoding)
        with source.open() as stream:
            start = stream.read(LOOK)
        if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise LoadError(source.name, "expected UTF-8, got UTF-16. Convert it first: iconv -f UTF-16 -t UTF-8")
        self.delimiter = delimiter_of(start, b"\t" if format == "tsv" else b"")
        self.paths = self._header()

    def records(self, stream: BinaryIO) -> Records:
        """The records of the opened file, the header and blank lines among them."""
        return Records(stream, self.delimiter)

    def numbered(self, records: Records) -> Iterator[tuple[int, Record]]:
        """Every record with its row's number; the header and blank lines have none, which is 0."""
        number = -1  # the header is no row
        for record in records:
            if record.is_blank:
                yield 0, record
            else:
                number += 1
                yield number, record

    def read(self, skip: Callable[[LoadError], None]) -> Iterator[Row]:
        """The rows that can be read; what is wrong with any other goes to `skip`."""
        with self.source.open() as stream:
            for number, record in self.numbered(self.records(stream)):
                if number == 0:
                    continue
                try:
                    cells = self.cells(record)
                except LoadError as error:
                    skip(error)
                    continue
                yield number, record, cells

    def cells(self, record: Record) -> list[str]:
        """The cells of a row, as many as the header has."""
        cells = self._text(record)
        if len(cells) != len(self.paths):
            wanted = f"expected {len(self.paths)} cells as in the header, got {len(cells)}"
            raise LoadError(
                self.source.name, f"{wanted}. Mend the row, or leave it out with --skip-errors.", record.line
            )
        return cells

    def _text(self, record: Record) -> list[str]:
        name, (line, raw, _, fault) = self.source.name, record
        if fault:
            raise LoadError(name, fault, line)
        if b"\0" in raw:
            raise LoadError(name, "expected text, got a NUL byte. Take it out.", line + _line_of(raw, raw.index(b"\0")))
        try:
            return cells_of(record, self.delimiter, self.encoding)
        except UnicodeDecodeError:
            at = _undecodable(raw, self.encoding)
        other = "latin-1, or what else it is in" if self.encoding == "utf-8" else "what it is in"
        problem = f"expected {self.encoding.upper()}, got the byte 0x{raw[at]:02X}. Say --encoding {other}."
        raise LoadError(name, problem, line + _line_of(raw, at))

    def _header(self) -> list[Path]:
        """The columns' paths. A file without any row is refused here."""
        name = self.source.name
        with self.source.open() as stream:
            records = (record for record in self.records(stream) if not record.is_blank)
            header = next(records, None)
            if header is None:
                raise LoadError(name, "expected a header and rows, got blank lines.")
            try:
                paths = paths_of([cell.strip() for cell in self._text(header)])
            except ValueError as error:
                raise LoadError(name, str(error), header.line) from None
            if next(records, None) is None:
                raise LoadError(name, "expected rows below the header, got no rows.", header.line)
        return paths


def _known(encoding: str) -> str:
    """Python's name of an encoding in which a delimiter is one byte, as records.py needs it."""
    try:
        name = codecs.lookup(encoding.removesuffix("-sig")).name
        if ',;\t\r\n"'.encode(name) == b',;\t\r\n"':
            return name
    except LookupError:
        raise ConfigError(
            "--encoding",
            f"unknown encoding {encoding!r}. Known ones: utf-8, latin-1, cp1252, and what else Python knows.",
        ) from None
    raise ConfigError(
        "--encoding",
        f"expected an encoding that extends ASCII, got {encoding!r}. Convert the file first: iconv -f {encoding} -t UTF-8",
    )


def _undecodable(raw: bytes, encoding: str) -> int:
    """Where the first byte is that cannot be decoded."""
    try:
        raw.decode(encoding)
    except UnicodeDecodeError as error:
        return error.start
    raise AssertionError


def _line_of(raw: bytes, at: int) -> int:
    """On which line of a record a byte stands, from 0."""
    return len(raw[: at + 1].splitlines()) - 1
