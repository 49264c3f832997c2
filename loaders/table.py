"""CSV and TSV: a row is an entity, a column a path; new values go into the bytes of blank cells.

The file is read twice. A first pass judges each column as a whole (cells.py) and finds every ragged row and
wrong byte before there is any output; the second makes entities, one at a time. A missing value - an empty
cell, any spelling in `Options.missing`, `NA` and the like in a column of numbers - is a gap that is asked for.

The id is the column that was named, else `@id`, `id` or `_id` where it has a value in every row, else the row's
number from 1, the header not counted; a first column without a name is an index (columns.py). The label is `label`, `name` or `title`;
`@type` holds the class. The delimiter is a comma; for a .csv whose header has none, a semicolon or a tab; or what
a first line `sep=;` tells.

What a spreadsheet would run as a formula is kept where it is given or told by a person, and warned of; a value with a
confidence, which a model fills in, never begins so unless given cells of its column do (formulas.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, BinaryIO

from kbdisk.entity import Completion, Entity, Path, Quantity, show
from kbdisk.errors import LoadError, WriteError
from kbdisk.loaders import formulas
from kbdisk.loaders.cells import Column
from kbdisk.loaders.columns import INDEX, Index, Layout
from kbdisk.loaders.flat import leaves_of, table_of
from kbdisk.loaders.jsonrestore import UNKNOWN
from kbdisk.loaders.kb import KB, Placeless, Report, Retraction, Was
from kbdisk.loaders.marks import NUMBER, Marks
from kbdisk.loaders.options import MISSING, Options
from kbdisk.loaders.records import Record, Spans, quoted, spans_of
from kbdisk.loaders.rows import Rows
from kbdisk.loaders.source import Source
from kbdisk.schemas.text.numerals import is_number

TOGETHER = 1024  # rows judged at once
SHOWN = 5  # columns that are named
NO_COLUMN = "has no column of its own any more"


def load(source: Source, format: str, options: Options) -> TableKB:
    """A knowledge base over a delimited file."""
    return TableKB(source, format, options)


def write(items: Iterable[Entity | Completion], stream: BinaryIO, format: str, only_new: bool) -> Report:
    """A table of all entities (flat.py), which are gathered: the columns are known only at the end."""
    table = table_of(items, only_new)
    table.refuse_formulas()
    delimiter = "\t" if format == "tsv" else ","
    lines = [table.columns.values()] if table.columns else []
    if name := next((name for name in table.columns.values() if "\0" in name), None):
        raise WriteError(format, f"a NUL character has no place in a table, got the column {name!r}. Rename it.")
    for cells in (*lines, *(table.cells(row, _cell) for row in range(len(table.rows)))):
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
            None, (layout.doubt, _unparted(columns), _nothings(columns), *(column.doubt for column in columns))
        ):
            self.odd.note(doubt, self.name)
        readers = [column.reader(self.missing) for column in columns]
        wanted = set(self.options.classes)
        for number, record, cells in self.rows.read(self.skip):
            values = [said[cell] for said, cell in zip(readers, cells, strict=True)]
            if layout.id is not None and values[layout.id] is None:
                problem = f"expected an id in column {columns[layout.id].name!r}, got none. Fill it in."
                self.skip(LoadError(self.name, problem, record.line))
                continue
            classes = layout.classes_of(values)
            if wanted and wanted.isdisjoint(classes):
                continue
            id = str(number) if layout.id is None else cells[layout.id]
            tree, label, nameless = layout.tree(values), layout.label_of(values), layout.id is None
            yield Entity(id, tree, classes, label, position=number, source=self, nameless=nameless)

    def splice(self, completions: Iterable[Completion], stream: BinaryIO, insert: bool = False) -> Report:
        """The file as it is, with new values in the blank cells where they belong."""
        report = Report()
        due = _in_order(completions, self.name)
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
        left: list[Placeless] = []
        due = {one.entity.position: one for one in retractions}
        columns = {show(path): i for i, path in enumerate(self.rows.paths)}
        with self.rows.source.open() as file:
            records = self.rows.records(file)
            stream.write(records.bom)
            for number, record in self.rows.numbered(records):
                one = due.pop(number, None) if number else None
                if one is None:
                    stream.write(record.raw)
                    continue
                cells: dict[int, bytes] = {}
                for path, (value, was) in one.values.items():
                    was = _blanks(path, value, columns) if was is None else was
                    if was is None or not was.keys() <= columns.keys():
                        left.append((one.entity.id, path, UNKNOWN if was is None else NO_COLUMN))
                    else:
                        cells |= {columns[name]: text.encode(self.rows.encoding) for name, text in was.items()}
                stream.write(_with_cells(record, cells, self.rows.delimiter).raw)
        return left

    def judge(self) -> tuple[list[Column], Layout]:
        """What the columns hold, by a first pass over all rows."""
        if self._judged is None:
            comma = self.rows.delimiter != b","
            columns = [Column(show(path), self.options.units.get(path), Marks(comma)) for path in self.rows.paths]
            index, told = self.rows.paths[0] == INDEX, set[str]()
            rows = self.rows.read(_pass_over if self.options.skip_errors else self.skip)
            while some := list(islice(rows, TOGETHER)):
                for column, down in zip(columns, zip(*(cells for _, _, cells in some), strict=True), strict=True):
                    column.see(Counter(down), self.missing)
                for _, record, cells in some:
                    _see_quotes(columns, record, cells)
                if index:
                    told.update(cells[0] for _, _, cells in some)
            marks = [column.marks for column in columns if column.kind == "number"]
            if any(one.tells_commas for one in marks) and not any(one.tells_points for one in marks):
                for column in columns:
                    column.marks.told = True
            self._judged = columns, self._layout(columns, len(told) == columns[0].cells)
        return self._judged

    def _layout(self, columns: list[Column], unique: bool) -> Layout:
        try:
            index: Index = "" if columns[0].blank or not unique else "count" if columns[0].kind == "number" else "names"
            layout = Layout.of(self.rows.paths, self.options.id, lambda i: not columns[i].blank, lambda _: index)
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
        """The row with what was filled in it."""
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
                told = self._formulas(places, is_ours=filled.confidence is not None)
            except ValueError as reason:
                self.report.unwritable.append((entity.id, path, str(reason)))
                continue
            new |= places
            self.report.was[entity.id, path] = self._was(record, places)
            self.report.written += 1
            self.report.formulas += told
            if (read := self._rounded(filled.value, places)) is not None:
                self.report.spelt[entity.id, path] = read
        return self._with(record, new)

    def _was(self, record: Record, places: Iterable[int]) -> Was:
        """The bytes of some cells as text, their quotes within, by the names of their columns."""
        spans, paths = spans_of(record, self.kb.rows.delimiter), self.kb.rows.paths
        return {show(paths[i]): record.raw[slice(*spans[i])].decode(self.kb.rows.encoding) for i in places}

    def _rounded(self, value: Any, places: Mapping[int, str]) -> Any:
        """A number, or a quantity, as it will be read where its column has fewer decimals; None where it is the same."""
        amount = value.value if isinstance(value, Quantity) else value
        if not is_number(amount):
            return None
        read = [self.readers[i][cell] for i, cell in places.items() if self.columns[i].kind == "number"]
        numbers = [one.value if isinstance(one, Quantity) else one for one in read]
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
            places[i] = _cell(self.columns[i].spell(leaf), self.kb.missing, self.kb.rows.encoding)
        if not places:
            raise ValueError("there is nothing to write")
        return places

    def _formulas(self, places: Mapping[int, str], is_ours: bool) -> int:
        """How many of some cells a spreadsheet would run; ValueError for one of ours in a column without any such."""
        cells = [(i, cell) for i, cell in places.items() if formulas.start_of(cell)]
        for i, cell in cells:
            if is_ours and formulas.start_of(cell) not in self.columns[i].starts:
                raise ValueError(formulas.refusal(cell))
        return 0 if is_ours else len(cells)

    def _with(self, record: Record, new: Mapping[int, str]) -> Record:
        """The record with cells replaced; the others keep their bytes."""
        delimiter, spans = self.kb.rows.delimiter, spans_of(record, self.kb.rows.delimiter)
        cells: dict[int, bytes] = {}
        for i, text in new.items():
            cell, column = record.raw[slice(*spans[i])], self.columns[i]
            always = cell[:1] == b'"' or column.quoted * 2 > column.filled
            before = cell if column.kind == "number" and not cell.strip(b" \t") else b""  # given, and no part of it
            told = quoted(text, delimiter.decode(), always and not before)
            cells[i] = before + told.encode(self.kb.rows.encoding)
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


def _blanks(path: Path, value: Any, columns: Collection[str]) -> Was | None:
    """What stood in the cells of a value where its row does not tell: nothing; None where some of it may have been given."""
    parts = [path] if show(path) in columns else [at for at, leaf in leaves_of(path, value) if leaf is not None]
    return {show(parts[0]): ""} if len(parts) == 1 else None


def _in_order(completions: Iterable[Completion], name: str) -> Iterator[Completion]:
    """Those with something filled, as they come; the source is read beside them, so they must come in its order."""
    last = -1
    for completion in completions:
        if completion.entity.position < last:
            raise WriteError(
                name, "completions came in another order than the file's. Pass them as a list, which is sorted."
            )
        last = completion.entity.position
        if completion.filled:
            yield completion


def _unparted(columns: list[Column]) -> str:
    """That the only column looks like several with blanks between them, some of numbers; else an empty string."""
    column, words = columns[0], len(columns[0].name.split())
    if len(columns) > 1 or words < 2 or column.quoted or not column.examples:
        return ""
    rows = [cell.split() for cell in column.examples]
    if any(len(row) != words or not any(map(NUMBER.fullmatch, row)) for row in rows):
        return ""
    return f"all is one column {column.name!r}: if it is several, part them by commas, semicolons or tabs"


def _nothings(columns: list[Column]) -> str:
    """That some columns of numbers have cells which are taken for blank ones; else an empty string."""
    names = [repr(column.name) for column in columns if column.spelt]
    if not names:
        return ""
    spelt = ", ".join(sorted({repr(one) for column in columns for one in column.spelt}))
    shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    return f"{spelt} is no value beside numbers or truths, in column{'s' * (len(names) > 1)} {shown}"


def _see_quotes(columns: list[Column], record: Record, cells: list[str]) -> None:
    for column, (start, _), cell in zip(columns, record.spans or (), cells, strict=False):
        column.quoted += bool(cell) and record.raw[start] == ord('"')


def _cell(text: str, missing: frozenset[str] = MISSING, encoding: str = "utf-8") -> str:
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


def _pass_over(error: LoadError) -> None:
    """Errors are counted when the rows are read."""
