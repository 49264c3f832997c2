"""CSV and TSV: a row is an entity, a column a path; new values go into the bytes of blank cells.

The file is read twice. The first pass judges each column as a whole (table/cells.py) and finds ragged rows and undecodable
bytes before there is any output; the second makes entities, one at a time. A missing value is a gap that is asked for: an
empty cell, any spelling in `Options.missing`, and `NA` and the like in a column of numbers.

The id is the column that the user names, else `@id`, `id` or `_id` where it has a value in every row, else the number of
the row from 1, the header not counted; a first column without a name is an index (values/columns.py). The label is
`label`, `name` or `title`; `@type` holds the class. The delimiter is a comma; for a .csv whose header has none, a semicolon
or a tab; or the one in a first line `sep=;`.

A cell that a spreadsheet would run as a formula is kept where the source or a person gives it, with a warning. A value with
a confidence, which a model fills in, may begin so only where given cells of its column do (values/formulas.py).

Records are bytes (RFC 4180, as Python's csv reads it): a quote opens a cell only as its first character, lines end in LF,
CRLF or CR. Nothing is decoded or dropped, so joining all `raw` gives the file back. This holds for every encoding in which a
delimiter, a quote and a line end are the same single byte as in ASCII, and part of no other character.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

from kbdisk.entity import Completion, Entity, Path, Quantity, show
from kbdisk.errors import ConfigError, LoadError, WriteError
from kbdisk.loaders.files import Source
from kbdisk.loaders.kb import KB, MISSING, NOT_NOTED, Options, Placeless, Report, Retraction
from kbdisk.loaders.replaced import Was
from kbdisk.loaders.table.cells import Column
from kbdisk.loaders.values import formulas
from kbdisk.loaders.values.columns import INDEX, Index, Layout, leaves_of, paths_of, table_of
from kbdisk.schemas.text.numerals import is_number
from kbdisk.styles.numbers import NUMBER, Separators

ROWS_PER_PASS = 1024  # rows judged at once
MAX_COLUMNS_SHOWN = 5  # columns that are named
NO_COLUMN = "has no column of its own any more"


def load(source: Source, format: str, options: Options) -> TableKB:
    """A knowledge base over a delimited file."""
    return TableKB(source, format, options)


def write(items: Iterable[Entity | Completion], stream: BinaryIO, format: str, only_new: bool) -> Report:
    """Write all entities as a table (values/columns.py), gathered first: the columns are known only at the end."""
    table = table_of(items, only_new)
    table.refuse_formulas()
    delimiter = "\t" if format == "tsv" else ","
    lines = [table.columns.values()] if table.columns else []
    if name := next((name for name in table.columns.values() if "\0" in name), None):
        raise WriteError(format, f"a NUL character has no place in a table, got the column {name!r}. Rename it.")
    for cells in (*lines, *(table.cells(row, _checked_cell) for row in range(len(table.rows)))):
        line = delimiter.join(quoted(cell, delimiter) for cell in cells)
        stream.write((line or '""').encode() + b"\n")
    return table.done()


class TableKB(KB):
    """Entities from the rows of a delimited file."""

    def __init__(self, source: Source, format: str, options: Options) -> None:
        super().__init__(source, format, options)
        self.rows = Rows(source, format, options.encoding)
        self.missing = options.missing | {""}
        self._judged: tuple[list[Column], Layout] | None = None

    def read(self) -> Iterator[Entity]:
        """One entity for each row."""
        columns, layout = self.judge()
        for doubt in filter(
            None,
            (
                layout.doubt,
                _single_column_doubt(columns),
                _missing_doubt(columns),
                *(column.doubt for column in columns),
            ),
        ):
            self.odd.note(doubt, self.name)
        readers = [column.reader(self.missing) for column in columns]
        wanted_classes = set(self.options.classes)
        for number, record, cells in self.rows.read(self.skip):
            values = [reader[cell] for reader, cell in zip(readers, cells, strict=True)]
            if layout.id is not None and values[layout.id] is None:
                problem = f"expected an id in column {columns[layout.id].name!r}, got none. Fill it in."
                self.skip(LoadError(self.name, problem, record.line))
                continue
            classes = layout.classes_of(values)
            if wanted_classes and wanted_classes.isdisjoint(classes):
                continue
            id = str(number) if layout.id is None else cells[layout.id]
            tree, label, nameless = layout.tree(values), layout.label_of(values), layout.id is None
            yield Entity(id, tree, classes, label, position=number, source=self, nameless=nameless)

    def splice(self, completions: Iterable[Completion], stream: BinaryIO, insert: bool = False) -> Report:
        """Write the file as it is, with new values in the blank cells where they belong."""
        report = Report()
        due = _checked_order(completions, self.name)
        completion = next(due, None)
        splicer = Splicer(self, report) if completion else None
        with self.rows.source.open() as file:
            records = self.rows.records(file)
            stream.write(records.bom)
            for number, record in self.rows.numbered(records):
                raw = record.raw
                while splicer and completion and completion.entity.position == number:
                    record = splicer.fill(record, completion)
                    raw, completion = record.raw, next(due, None)
                stream.write(raw)
        if completion:
            raise WriteError(self.name, f"has no row {completion.entity.position} any more. Load it again.")
        return report

    def restore(self, retractions: Iterable[Retraction], stream: BinaryIO) -> list[Placeless]:
        unrestored: list[Placeless] = []
        due = {retraction.entity.position: retraction for retraction in retractions}
        columns = {show(path): i for i, path in enumerate(self.rows.paths)}
        with self.rows.source.open() as file:
            records = self.rows.records(file)
            stream.write(records.bom)
            for number, record in self.rows.numbered(records):
                retraction = due.pop(number, None) if number else None
                if retraction is None:
                    stream.write(record.raw)
                    continue
                cells: dict[int, bytes] = {}
                for path, (value, was) in retraction.values.items():
                    was = _replaced_blank(path, value, columns) if was is None else was
                    if was is None or not was.keys() <= columns.keys():
                        unrestored.append((retraction.entity.id, path, NOT_NOTED if was is None else NO_COLUMN))
                    else:
                        cells |= {columns[name]: text.encode(self.rows.encoding) for name, text in was.items()}
                stream.write(_with_cells(record, cells, self.rows.delimiter).raw)
        return unrestored

    def judge(self) -> tuple[list[Column], Layout]:
        """The columns and their layout, by a first pass over all rows."""
        if self._judged is None:
            comma = self.rows.delimiter != b","
            columns = [Column(show(path), self.options.units.get(path), Separators(comma)) for path in self.rows.paths]
            index, ids = self.rows.paths[0] == INDEX, set[str]()
            rows = self.rows.read(_ignore if self.options.skip_errors else self.skip)
            while rows_now := list(islice(rows, ROWS_PER_PASS)):
                for column, down in zip(columns, zip(*(cells for _, _, cells in rows_now), strict=True), strict=True):
                    column.observe(Counter(down), self.missing)
                for _, record, cells in rows_now:
                    _see_quotes(columns, record, cells)
                if index:
                    ids.update(cells[0] for _, _, cells in rows_now)
            marks = [column.separators for column in columns if column.kind == "number"]
            if any(column_separators.tells_commas for column_separators in marks) and not any(
                column_separators.tells_points for column_separators in marks
            ):
                for column in columns:
                    column.separators.comma_is_decimal = True
            self._judged = columns, self._layout(columns, len(ids) == columns[0].cells)
        return self._judged

    def _layout(self, columns: list[Column], unique: bool) -> Layout:
        try:
            index: Index = "" if columns[0].blank or not unique else "count" if columns[0].kind == "number" else "names"
            layout = Layout.from_columns(
                self.rows.paths, self.options.id, lambda i: not columns[i].blank, lambda _: index
            )
        except ValueError as error:
            raise LoadError(self.name, str(error)) from None
        layout.check_classes(self.options.classes, self.name)
        return layout


class Splicer:
    """Fills the blank cells of rows, as bytes."""

    def __init__(self, kb: TableKB, report: Report) -> None:
        self.kb = kb
        self.report = report
        self.columns, self.layout = kb.judge()
        self.readers = [column.reader(kb.missing) for column in self.columns]

    def fill(self, record: Record, completion: Completion) -> Record:
        """The row with filled values."""
        entity = completion.entity
        cells = self.kb.rows.cells(record)
        if entity.id != (str(entity.position) if self.layout.id is None else cells[self.layout.id]):
            raise WriteError(
                self.kb.name,
                f"expected {entity.id!r} in row {entity.position}, got another. Load it again: it has changed.",
            )
        new: dict[int, str] = {}
        for path, filled in completion.filled.items():
            try:
                places = self._places(path, filled.value, cells, new)
                formula_count = self._formulas(places, is_ours=filled.confidence is not None)
            except ValueError as reason:
                self.report.unwritable.append((entity.id, path, str(reason)))
                continue
            new |= places
            self.report.was.add(entity.id, path, self._replaced(record, places))
            self.report.written += 1
            self.report.formulas += formula_count
            if (read := self._value_read(filled.value, places)) is not None:
                self.report.spelt[entity.id, path] = read
        return self._with(record, new)

    def _replaced(self, record: Record, places: Iterable[int]) -> Was:
        """The bytes of some cells as text, quotes included, by the names of their columns."""
        spans, paths = spans_of(record, self.kb.rows.delimiter), self.kb.rows.paths
        return {show(paths[i]): record.raw[slice(*spans[i])].decode(self.kb.rows.encoding) for i in places}

    def _value_read(self, value: Any, places: Mapping[int, str]) -> Any:
        """A rounded number or quantity as it will be read, where its column has fewer decimals; None where it is exact."""
        amount = value.value if isinstance(value, Quantity) else value
        if not is_number(amount):
            return None
        read = [self.readers[i][cell] for i, cell in places.items() if self.columns[i].kind == "number"]
        numbers = [value_read.value if isinstance(value_read, Quantity) else value_read for value_read in read]
        if len(numbers) != 1 or not is_number(numbers[0]) or numbers[0] == amount:
            return None
        return replace(value, value=numbers[0]) if isinstance(value, Quantity) else numbers[0]

    def _places(self, path: Path, value: Any, cells: list[str], taken: Mapping[int, str]) -> dict[int, str]:
        """The text of each cell that a value takes; ValueError where it has no place."""
        columns = self.layout.columns
        parts = [(path, value)] if path in columns else list(leaves_of(path, value))
        places: dict[int, str] = {}
        for at, leaf in parts:
            if at not in columns:
                raise ValueError(
                    f"the table has no column {show(at)!r}: add it to the header, with a blank cell in each row"
                )
            i = columns[at]
            given = self.readers[i][cells[i]]
            if leaf is None or (len(parts) > 1 and given == leaf):
                continue
            if given is not None or i in taken:
                raise ValueError(f"the cell has the value {taken.get(i, cells[i])!r} already")
            places[i] = _checked_cell(self.columns[i].write(leaf), self.kb.missing, self.kb.rows.encoding)
        if not places:
            raise ValueError("there is nothing to write")
        return places

    def _formulas(self, places: Mapping[int, str], is_ours: bool) -> int:
        """How many of some cells a spreadsheet would run; ValueError for a filled one in a column without any."""
        cells = [(i, cell) for i, cell in places.items() if formulas.start_of(cell)]
        for i, cell in cells:
            if is_ours and formulas.start_of(cell) not in self.columns[i].starts:
                raise ValueError(formulas.refusal(cell))
        return 0 if is_ours else len(cells)

    def _with(self, record: Record, new: Mapping[int, str]) -> Record:
        """The record with some cells replaced; the others keep their bytes."""
        delimiter, spans = self.kb.rows.delimiter, spans_of(record, self.kb.rows.delimiter)
        cells: dict[int, bytes] = {}
        for i, text in new.items():
            cell, column = record.raw[slice(*spans[i])], self.columns[i]
            always = cell[:1] == b'"' or column.quoted * 2 > column.filled
            blanks = cell if column.kind == "number" and not cell.strip(b" \t") else b""  # given, and no part of it
            text_quoted = quoted(text, delimiter.decode(), always and not blanks)
            cells[i] = blanks + text_quoted.encode(self.kb.rows.encoding)
        return _with_cells(record, cells, delimiter)


def _with_cells(record: Record, cells: Mapping[int, bytes], delimiter: bytes) -> Record:
    """The record with other bytes in some cells."""
    raw, spans, at = bytearray(), Spans(), 0
    for i, (start, end) in enumerate(spans_of(record, delimiter)):
        cell = cells.get(i, record.raw[start:end])
        raw += record.raw[at:start] + cell
        spans.append((len(raw) - len(cell), len(raw)))
        at = end
    return Record(record.line, bytes(raw + record.raw[at:]), spans)


def _replaced_blank(path: Path, value: Any, columns: Collection[str]) -> Was | None:
    """The blank that a value of one cell replaced, where that was not noted; None for a value of several cells, as some may
    have been given.
    """
    parts = [path] if show(path) in columns else [at for at, leaf in leaves_of(path, value) if leaf is not None]
    return {show(parts[0]): ""} if len(parts) == 1 else None


def _checked_order(completions: Iterable[Completion], name: str) -> Iterator[Completion]:
    """The completions with filled values; WriteError where they are not in the order of the source, which is read with them."""
    last = -1
    for completion in completions:
        if completion.entity.position < last:
            raise WriteError(
                name, "completions came in another order than the file's. Pass them as a list, which is sorted."
            )
        last = completion.entity.position
        if completion.filled:
            yield completion


def _single_column_doubt(columns: list[Column]) -> str:
    """A remark where the only column looks like several, separated by blanks; else an empty string."""
    column, words = columns[0], len(columns[0].name.split())
    if len(columns) > 1 or words < 2 or column.quoted or not column.examples:
        return ""
    rows = [cell.split() for cell in column.examples]
    if any(len(row) != words or not any(map(NUMBER.fullmatch, row)) for row in rows):
        return ""
    return f"all is one column {column.name!r}: if it is several, part them by commas, semicolons or tabs"


def _missing_doubt(columns: list[Column]) -> str:
    """A remark where columns of numbers have cells that are taken for missing; else an empty string."""
    names = [repr(column.name) for column in columns if column.missing_spellings]
    if not names:
        return ""
    spelt = ", ".join(sorted({repr(spelling) for column in columns for spelling in column.missing_spellings}))
    shown = ", ".join(names[:MAX_COLUMNS_SHOWN]) + (
        f" and {len(names) - MAX_COLUMNS_SHOWN} more" if len(names) > MAX_COLUMNS_SHOWN else ""
    )
    return f"{spelt} is no value beside numbers or truths, in column{'s' * (len(names) > 1)} {shown}"


def _see_quotes(columns: list[Column], record: Record, cells: list[str]) -> None:
    for column, (start, _), cell in zip(columns, record.spans or (), cells, strict=False):
        column.quoted += bool(cell) and record.raw[start] == ord('"')


def _checked_cell(text: str, missing: frozenset[str] = MISSING, encoding: str = "utf-8") -> str:
    """The text as it is; ValueError where it could not be read back."""
    if text.strip() in missing:
        raise ValueError(f"{text!r} would be read as a missing value")
    if "\0" in text:
        raise ValueError("a NUL character has no place in a table")
    try:
        text.encode(encoding)
    except UnicodeEncodeError as error:
        raise ValueError(f"{text[error.start]!r} cannot be written in {encoding}") from None
    return text


def _ignore(error: LoadError) -> None:
    """Ignore an error: it is counted when the rows are read."""


# ---------------------------------------------------------------- records of a delimited file


CHUNK_SIZE = 1 << 18
MAX_QUOTED_RECORD = 1 << 24  # bytes in a quoted record: beyond, a quote was forgotten
BLANK_LINES = frozenset({b"\n", b"\r\n", b"\r"})
BOM = b"\xef\xbb\xbf"

Spans = list[tuple[int, int]]  # of each cell, its quotes within

_SEPARATOR_LINE = re.compile(
    rb'"?sep=([\t !#-/:-@[-`{-~])"?(?:\r\n?|\n)'
)  # a first line that spreadsheets take for no row
_QUOTED_CELL = re.compile(rb'"(?:[^"]++|"")*+"')


class Record(NamedTuple):
    """A record with its line end. `spans` is None where it has no quote; `fault` says what is wrong with it."""

    line: int
    raw: bytes
    spans: Spans | None = None
    fault: str = ""

    @property
    def is_blank(self) -> bool:
        """Whether it is no row: a blank line, or a first line that names the delimiter."""
        return self.raw in BLANK_LINES or (self.line == 1 and _SEPARATOR_LINE.fullmatch(self.raw) is not None)


def delimiter_of(start: bytes, default: bytes = b"") -> bytes:
    """The delimiter that the first line names; else the default; else a comma, or, where the header has none outside quotes,
    a semicolon or a tab, or, where it has neither, a bar.
    """
    start = start.removeprefix(BOM)
    if match := _SEPARATOR_LINE.match(start):
        return match[1]
    if default:
        return default
    header = _QUOTED_CELL.sub(b"", start).lstrip(b"\r\n")
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
        self._again: deque[bytes] = deque()  # lines read ahead while a quote was open
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
        """The record that begins on the first line read ahead, and its number of lines."""
        raw = bytearray(self._again[0])
        height, at, spans = 1, 0, Spans()
        while True:
            at, ended = self._scan(raw, at, spans)
            if ended:
                for _ in range(height):
                    self._again.popleft()
                return Record(line, bytes(raw), spans), height
            if _QUOTED_CELL.match(raw, at):
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
                if following is None or len(raw) > MAX_QUOTED_RECORD:
                    self._again.extend([following] if following else [])
                    return None
                self._again.append(following)
            raw += self._again[height + added]
            quotes += self._again[height + added].count(b'"')
            added += 1
        return added

    def _broken(self, line: int, fault: str) -> Record:
        return Record(line, self._again.popleft(), None, fault)


def _lines(stream: BinaryIO, unfinished: bytes) -> Iterator[bytes]:
    """Lines with their ends. One that grows is read in ever larger pieces."""
    while chunk := stream.read(max(CHUNK_SIZE, len(unfinished))):
        pieces = (unfinished + chunk).splitlines(keepends=True)
        unfinished = pieces.pop()  # not whole yet; or its CR is half of a CRLF
        yield from pieces
    yield from unfinished.splitlines(keepends=True)  # several only where the file is as short as what was read first


def cells_of(record: Record, delimiter: bytes, encoding: str) -> list[str]:
    """The cells as text, without quotes; UnicodeDecodeError where they are in another encoding."""
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
    """The ranges of the cells in `raw`, quotes included."""
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


# ---------------------------------------------------------------- rows of text


DELIMITER_SAMPLE = 1 << 16  # bytes that tell the delimiter
Row = tuple[int, Record, list[str]]  # the number from 1, the record, the cells


class Rows:
    """The rows of a delimited file, to be read again and again; its header is read when it is made."""

    def __init__(self, source: Source, format: str, encoding: str) -> None:
        self.source = source
        self.encoding = _checked_encoding(encoding)
        with source.open() as stream:
            start = stream.read(DELIMITER_SAMPLE)
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
        """The rows that can be read; the errors of all others go to `skip`."""
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
            problem = f"expected {len(self.paths)} cells as in the header, got {len(cells)}"
            raise LoadError(
                self.source.name, f"{problem}. Mend the row, or leave it out with --skip-errors.", record.line
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


def _checked_encoding(encoding: str) -> str:
    """Python's name of an encoding in which a delimiter is one byte, as records need it."""
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
    """The place of the first byte that cannot be decoded."""
    try:
        raw.decode(encoding)
    except UnicodeDecodeError as error:
        return error.start
    raise AssertionError


def _line_of(raw: bytes, at: int) -> int:
    """On which line of a record a byte stands, from 0."""
    return len(raw[: at + 1].splitlines()) - 1
