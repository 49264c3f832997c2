"""Parquet files and Arrow streams, by way of pyarrow (an extra): a row is an entity, a column a path, as in CSV.

A Parquet file that gets new values is re-serialised, not spliced: the schema, the metadata (pandas' among it), row groups
and compression stay, the bytes do not. Where nothing was filled, the file is copied. Types are read as arrow/cells.py
says, and a filled value is cast to its column's type.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, BinaryIO

from kbdisk.entity import Completion, Date, Entity, Path, Quantity, read_path, show
from kbdisk.errors import LoadError, WriteError
from kbdisk.loaders.arrow.cells import (
    clear_cell,
    days_of,
    empty_at,
    fill_cell,
    is_empty_at,
    plain_type,
    read_cell,
    reader_of,
)
from kbdisk.loaders.files import Source
from kbdisk.loaders.kb import IN_MEMORY, KB, NOT_NOTED, Options, Placeless, Report, Retraction
from kbdisk.loaders.replaced import Was
from kbdisk.loaders.values.columns import INDEX, Index, Layout, Table, index_of, leaves_of, paths_of, table_of, text_of

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet


# ---------------------------------------------------------------- rows of record batches


class ArrowKB(KB):
    """Entities from the rows of Arrow record batches."""

    def __init__(self, origin: Source | str, format: str, options: Options, schema: pyarrow.Schema) -> None:
        super().__init__(origin, format, options)
        self.schema = schema
        self.shown = [
            i for i, field in enumerate(schema) if plain_type(field.type) is not None
        ]  # columns that are read
        names = _names(schema)
        try:
            paths = paths_of([names[i] for i in self.shown])
            self.layout = Layout.from_columns(paths, options.id, self._is_complete, self._index)
        except ValueError as error:
            raise LoadError(self.name, str(error)) from None
        self.paths = paths
        self.layout.check_classes(options.classes, self.name)

    @abstractmethod
    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        """The rows, some at a time."""

    @abstractmethod
    def column(self, number: int) -> Iterator[pyarrow.ChunkedArray]:
        """The cells of one column."""

    def _is_complete(self, shown: int) -> bool:
        return all(array.null_count == 0 for array in self.column(self.shown[shown]))

    def _index(self, shown: int) -> Index:
        try:
            return index_of(cell for array in self.column(self.shown[shown]) for cell in array.to_pylist())
        except OverflowError:  # times beyond Python's range, which name no entities
            return ""

    def read(self) -> Iterator[Entity]:
        """One entity for each row."""
        for i in set(range(len(self.schema))) - set(self.shown):
            field = self.schema.field(i)
            self.odd.note(f"column {field.name!r} is left out: values of type {field.type} are not read", self.name)
        if self.layout.doubt:
            self.odd.note(self.layout.doubt, self.name)
        readers = [self._reader(i, path) for i, path in zip(self.shown, self.paths, strict=True)]
        position = 1
        for batch in self.batches():
            columns = [read(batch.column(i)) for i, read in zip(self.shown, readers, strict=True)]
            for values in zip(*columns, strict=True):
                if entity := self.entity(position, values):
                    yield entity
                position += 1

    def entity(self, position: int, values: Sequence[Any]) -> Entity | None:
        """The entity of a row, if it is of a wanted class and has an id."""
        layout, classes = self.layout, self.layout.classes_of(values)
        if self.options.classes and set(self.options.classes).isdisjoint(classes):
            return None
        id = str(position) if layout.id is None else values[layout.id]
        if id is None:
            self.skip(LoadError(self.name, f"expected an id in row {position}, got none. Fill it in."))
            return None
        tree, label, nameless = layout.tree(values), layout.label_of(values), layout.id is None
        return Entity(str(id), tree, classes, label, position=position, source=self, nameless=nameless)

    def _reader(self, column: int, path: tuple[str | int, ...]) -> Callable[[pyarrow.Array], list[Any]]:
        kind = self.schema.field(column).type
        target = plain_type(kind)
        read = reader_of(kind, lambda oddity: self.odd.note(oddity, f"{self.name}: {show(path)}"))
        missing, unit = self.options.missing, self.options.units.get(path)

        def cell(value: Any) -> Any:
            value = None if value is None else read(value)
            if unit is not None and type(value) in (int, float, Decimal):
                return Quantity(value, unit)
            return None if isinstance(value, str) and value in missing else value

        return lambda array: [cell(value) for value in (array if kind == target else array.cast(target)).to_pylist()]


def _names(schema: pyarrow.Schema) -> list[str]:
    """The names of the columns; the one in which pandas stored a nameless index is the index."""
    index = [name for name in schema.names if name.startswith("__index_level_")]
    return [show(INDEX) if index == [name] else name for name in schema.names]


# ---------------------------------------------------------------- Arrow streams in memory


class StreamKB(ArrowKB):
    """Entities from an Arrow table in memory."""

    def __init__(self, table: pyarrow.Table, options: Options) -> None:
        self.table = table
        super().__init__(IN_MEMORY, "memory", options, table.schema)

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        """The table's rows in batches."""
        yield from self.table.to_batches(4096)

    def column(self, number: int) -> Iterator[pyarrow.ChunkedArray]:
        """The cells of one column."""
        yield self.table.column(number)


def load_arrow(source: Any, options: Options) -> KB:
    try:
        import pyarrow as pa
    except ImportError:
        raise LoadError(IN_MEMORY, "an Arrow stream needs pyarrow. Run: pip install 'kbdisk[parquet]'") from None
    try:
        table = pa.table(source)
    except pa.ArrowException as error:
        raise LoadError(IN_MEMORY, f"expected an Arrow stream of rows, got something else: {error}") from error
    if not len(table):
        raise LoadError(IN_MEMORY, "expected some rows, got none.")
    return StreamKB(table, options)


# ---------------------------------------------------------------- Parquet


ROWS_PER_BATCH = 4096  # turned into entities together
NEEDS_PYARROW = "needs pyarrow. Run: pip install 'kbdisk[parquet]'"


def load(source: Source, format: str, options: Options) -> KB:
    """A knowledge base over a Parquet file."""
    with _parquet(source) as file:
        return ParquetKB(source, format, options, file.schema_arrow)


def write(items: Iterable[Entity | Completion], stream: BinaryIO, format: str, only_new: bool) -> Report:
    """Write a flat table of all entities (values/columns.py), gathered; a column of one type has it, any other is text."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise WriteError(format, NEEDS_PYARROW) from None
    table = table_of(items, only_new)
    columns = [_column(table, path) for path in table.columns]
    pq.write_table(pa.table(columns, names=list(table.columns.values())), stream)
    return table.done()


class ParquetKB(ArrowKB):
    """Entities from the rows of a Parquet file."""

    source: Source

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        """The file's rows in batches."""
        with _parquet(self.source) as file, _readable(self.source):
            done = 0
            for batch in file.iter_batches(ROWS_PER_BATCH):
                yield batch
                done += len(batch)
                if self.source.progress:
                    self.source.progress(self.source.size * done // file.metadata.num_rows, self.source.size)

    def column(self, number: int) -> Iterator[pyarrow.ChunkedArray]:
        """The cells of one column."""
        with _parquet(self.source) as file, _readable(self.source):
            for i in range(file.num_row_groups):
                yield file.read_row_group(i, [self.schema.names[number]]).column(0)

    def splice(self, completions: Iterable[Completion], stream: BinaryIO, insert: bool = False) -> Report:
        """Write the file anew, row group by row group, with new values in the gaps where they belong."""
        report = Report()
        pending = _PendingCompletions((completion for completion in completions if completion.filled), self.name)
        if pending.first is None:
            with self.source.open() as original:
                shutil.copyfileobj(original, stream)
            return report
        self._write_groups(stream, report, lambda group, rows: group.fill(pending.take_until(rows.stop - 1)))
        pending.end()
        return report

    def restore(self, retractions: Iterable[Retraction], stream: BinaryIO) -> list[Placeless]:
        unrestored: list[Placeless] = []
        due = {retraction.entity.position: retraction for retraction in retractions}

        def restored(group: _Group, rows: range) -> pyarrow.Table:
            unrestored.extend(group.restore([due.pop(row) for row in rows if row in due]))
            return group.replace_cells()

        self._write_groups(stream, Report(), restored)
        return unrestored

    def _write_groups(
        self, stream: BinaryIO, report: Report, changed: Callable[[_Group, range], pyarrow.Table]
    ) -> None:
        """Write the file anew, row group by row group, each passed through `changed`; rows count from 1."""
        import pyarrow.parquet as pq

        start = 0
        with _parquet(self.source) as file:
            with _readable(self.source):
                settings = _settings(file.metadata)
            with pq.ParquetWriter(stream, self.schema, **settings) as writer:
                for number in range(file.num_row_groups):
                    with _readable(self.source):
                        table = file.read_row_group(number)
                    rows = range(start + 1, start + len(table) + 1)
                    group = _Group(self, table, start, report)
                    writer.write_table(changed(group, rows), row_group_size=max(len(table), 1))
                    start += len(table)


class _PendingCompletions:
    """Completions that are still to be written; `first` is the next."""

    def __init__(self, completions: Iterable[Completion], name: str) -> None:
        self.rest = iter(completions)
        self.first = next(self.rest, None)
        self.name = name

    def end(self) -> None:
        """WriteError where completions are left after all rows are written."""
        if self.first is not None:
            raise WriteError(self.name, f"has no row {self.first.entity.position} any more. Load it again.")

    def take_until(self, row: int) -> Iterator[Completion]:
        """The completions of the rows up to this one; they must be in the order of the file."""
        while self.first is not None and self.first.entity.position <= row:
            due, self.first = self.first, next(self.rest, None)
            yield due
            if self.first is not None and self.first.entity.position < due.entity.position:
                raise WriteError(
                    self.name,
                    "completions came in another order than the file's. Pass them as a list, which is sorted.",
                )


class _Group:
    """The rows of a row group, and their new cells."""

    def __init__(self, kb: ParquetKB, table: pyarrow.Table, start: int, report: Report) -> None:
        self.kb, self.table, self.start, self.report = kb, table, start, report
        self.new: dict[tuple[int, int], pyarrow.Array] = {}  # by column and row

    def fill(self, completions: Iterable[Completion]) -> pyarrow.Table:
        """The rows with new values; values that cannot be written are reported."""
        for completion in completions:
            self._check(completion.entity)
            for path, filled_value in completion.filled.items():
                try:
                    was = self._fill(completion.entity.position - 1 - self.start, path, filled_value.value)
                    self.report.was.add(completion.entity.id, path, was)
                    self.report.written += 1
                except ValueError as reason:
                    self.report.unwritable.append((completion.entity.id, path, str(reason)))
        return self.replace_cells()

    def restore(self, retractions: Iterable[Retraction]) -> list[Placeless]:
        """Take values out of their cells; returns those that stay, and why."""
        unrestored: list[Placeless] = []
        for entity, values in retractions:
            containers: list[tuple[Path, str | None]] = []
            for path, (_, was) in values.items():
                places = {(read_path(text)): before for text, before in (was or {show(path): None}).items()}
                if any(self._place(place) is None for place in places):
                    unrestored.append((entity.id, path, NOT_NOTED))
                    continue
                for place, before in places.items():
                    if place == path[: len(place)] and place != path:
                        containers.append((place, before))
                    self._empty_cell(
                        entity.position - 1 - self.start, path if place == path[: len(place)] else place, before
                    )
            for place, before in containers:
                self._empty_cell(entity.position - 1 - self.start, place, before, only_if_empty=True)
        return unrestored

    def _empty_cell(self, row: int, path: Path, before: str | None, only_if_empty: bool = False) -> None:
        """Empty the cell at a path, or put the text for missing there."""
        place = self._place(path)
        assert place is not None
        column, within = place
        cell = self.new.get((column, row), self.table.column(column).slice(row, 1).combine_chunks())
        if not only_if_empty or is_empty_at(cell, within):
            self.new[column, row] = clear_cell(cell, within, before)

    def replace_cells(self) -> pyarrow.Table:
        """The rows with the new cells."""
        table = self.table
        for column in sorted({column for column, _ in self.new}):
            table = table.set_column(column, table.schema.field(column), self._column(column))
        return table

    def _check(self, entity: Entity) -> None:
        """The row must be the one that was read."""
        if self.kb.layout.id is not None:
            column = self.table.column(self.kb.shown[self.kb.layout.id])
            if str(column[entity.position - 1 - self.start].as_py()) != entity.id:
                raise WriteError(
                    self.kb.name,
                    f"expected {entity.id!r} in row {entity.position}, got another. Load it again: it has changed.",
                )

    def _fill(self, row: int, path: Path, value: Any) -> Was:
        """Put a value into its cells; returns the texts that it replaced."""
        was: Was = {}
        parts = [(path, value)] if self._place(path) else list(leaves_of(path, value))
        new: dict[tuple[int, int], pyarrow.Array] = {}
        for at, leaf in parts:
            place = self._place(at)
            if place is None:
                raise ValueError(f"the table has no column {show(at)!r}")
            column, within = place
            old = self.table.column(column).slice(row, 1).combine_chunks()
            cell = new.get((column, row), self.new.get((column, row), old))
            given_value = read_cell(cell, self.kb.options.missing) if len(parts) > 1 and not within else None
            if leaf is not None and (given_value is None or given_value != leaf):
                new[column, row] = fill_cell(cell, within, leaf, self.kb.options.missing)
                inner, before = empty_at(cell, within)
                was[show((*at[: len(at) - len(within)], *inner))] = before
        if not new:
            raise ValueError("there is nothing to write")
        self.new |= new
        return was

    def _place(self, path: Path) -> tuple[int, Path] | None:
        """The column of a path, and the rest of the path within it."""
        for i in range(len(path), 0, -1):
            if (shown := self.kb.layout.columns.get(path[:i])) is not None:
                return self.kb.shown[shown], path[i:]
        return None

    def _column(self, column: int) -> pyarrow.ChunkedArray:
        import pyarrow as pa

        old = self.table.column(column)
        new = {row: cell for (at, row), cell in self.new.items() if at == column}
        order = list(range(len(old)))
        for i, row in enumerate(new):
            order[row] = len(old) + i
        return pa.chunked_array([*old.chunks, *new.values()], old.type).combine_chunks().take(pa.array(order))


def _column(table: Table, path: Path) -> pyarrow.Array:
    """A column of the type that all its values share, or of text where their types differ."""
    import pyarrow as pa

    values = [row.get(path) for row in table.rows]
    kinds = {type(value) for value in values if value is not None}
    with contextlib.suppress(pa.ArrowException, OverflowError):
        if kinds and kinds <= {Date} and all(value is None or value == _plain_day(value) for value in values):
            return pa.array([value and days_of(value) for value in values], pa.int32()).cast(pa.date32())
        if kinds <= {bool} or kinds <= {int} or kinds <= {float} or kinds <= {Decimal}:
            return pa.array(values)
        if kinds <= {int, float} and all(abs(value or 0) <= 2**53 for value in values):
            return pa.array(values, pa.float64())
    texts: list[str | None] = []
    for id, value in zip(table.ids, values, strict=True):
        try:
            texts.append(None if value is None else text_of(value))
        except ValueError as error:
            table.report.unwritable.append((id, path, str(error)))
            texts.append(None)
    return pa.array(texts, pa.string())


def _plain_day(date: Date) -> Date | None:
    """The date reduced to its day, where the calendar has that day."""
    try:
        days_of(date)
    except ValueError:
        return None
    return Date(date.year, date.month, date.day)


def _settings(metadata: pyarrow.parquet.FileMetaData) -> dict[str, Any]:
    """The settings that the new file takes from the old."""
    settings: dict[str, Any] = {
        "version": metadata.format_version,
        "store_schema": b"ARROW:schema" in (metadata.metadata or {}),
    }
    if metadata.num_row_groups:
        group = metadata.row_group(0)
        columns = [group.column(i) for i in range(group.num_columns)]
        settings["compression"] = {
            column.path_in_schema: column.compression.lower().replace("uncompressed", "none") for column in columns
        }
        settings["use_dictionary"] = [column.path_in_schema for column in columns if column.has_dictionary_page]
        settings["use_deprecated_int96_timestamps"] = any(column.physical_type == "INT96" for column in columns)
    return settings


@contextlib.contextmanager
def _parquet(source: Source) -> Iterator[pyarrow.parquet.ParquetFile]:
    """The opened file. Parquet is read at random places, so a compressed file is taken into memory."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise LoadError(source.name, NEEDS_PYARROW) from None
    origin = source.path if source.path is not None and source.compression is None else io.BytesIO(source.read())
    with _readable(source):
        file = pq.ParquetFile(origin)
    with file:
        if not file.metadata.num_rows:
            raise LoadError(source.name, "expected some rows, got none.")
        yield file


@contextlib.contextmanager
def _readable(source: Source) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        message = next(iter(str(error).splitlines()), type(error).__name__)
        raise LoadError(
            source.name, f"expected a Parquet file, got something else or a damaged one: {message}"
        ) from error
