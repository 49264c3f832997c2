"""Trees as rows of named columns, for whatever has rows: how files without an original are written.

    launch.year, prizes[0].share      a nested part, a list
    weight.value, weight.unit         a quantity; position.latitude, position.longitude a coordinate
    label@en                          a text in a language; label@en[1] where there are several
    1999-05, 19XX, --05-17            a date, as much as is known of it (dates.py)
    Q42                               a link: the id

Blank is all that a row can say of what is missing, known or asked for alike; what names or classifies a
nested part ("@id", "@type") is left out, and what stands under other such keys is told. Where one entity
has a value and another a list, all have a list.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from kbdisk.entity import Completion, Coordinate, Date, Entity, Known, Link, Path, Quantity, Text, walk
from kbdisk.loaders import formulas
from kbdisk.loaders.columns import CLASS, IDS, name_of
from kbdisk.loaders.kb import Report
from kbdisk.loaders.naming import NO_PROPERTY, no_properties
from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.dates import write_iso

OWN = (IDS[0][0], CLASS)  # names of columns that are ours
Row = dict[Path, Any]  # numbers, strings, truths, dates, or None


@dataclass
class Table:
    """Entities as rows: every column in order of first appearance, and what could not be said."""

    columns: dict[Path, str] = field(default_factory=dict)  # and each one's name
    rows: list[Row] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    report: Report = field(default_factory=Report)
    filled: list[tuple[str, Path]] = field(default_factory=list)  # entity id, path
    risky: dict[tuple[int, Path, str], Path] = field(
        default_factory=dict
    )  # row, column, text: path; that a model filled

    def done(self) -> Report:
        """What was written, once all of it was."""
        bad: dict[str, list[Path]] = {}
        for id, path, _ in self.report.unwritable:
            bad.setdefault(id, []).append(path)
        said = (all(one[: len(path)] != path for one in bad.get(id, ())) for id, path in self.filled)
        self.report.written = sum(said)
        return self.report

    def refuse_formulas(self) -> None:
        """Leave out what a model filled and a spreadsheet would run, unless given cells of its column begin so; count those."""
        for path, name in self.columns.items():
            self.report.formulas += path[0] not in OWN and bool(formulas.start_of(name))
            starts, ours = set(), []
            for row, cells in enumerate(self.rows):
                text = _shown(cells.get(path))
                start = formulas.start_of(text)
                if start and (told := self.risky.get((row, _column(path), text))) is not None:
                    ours.append((row, start, text, told))
                elif start:
                    starts.add(start)
                    self.report.formulas += 1
            for row, start, text, told in ours:
                if start not in starts:
                    self.rows[row][path] = None
                    self.report.unwritable.append((self.ids[row], told, formulas.refusal(text)))

    def cells(self, row: int, check: Callable[[str], str]) -> list[str]:
        """A row as text; a value that `check` refuses is left out and reported."""
        cells = []
        for path in self.columns:
            value = self.rows[row].get(path)
            try:
                cells.append("" if value is None else check(text_of(value)))
            except ValueError as error:
                self.report.unwritable.append((self.ids[row], path, str(error)))
                cells.append("")
        return cells


def table_of(items: Iterable[Entity | Completion], only_new: bool) -> Table:
    """All entities as rows, gathered: the columns are known only at the end."""
    table = Table()
    named = True  # whether each tree holds its entity's id
    gathered: list[tuple[Entity, Row]] = []
    for item in items:
        entity = item.entity if isinstance(item, Completion) else item
        filled = {path: one.value for path, one in item.filled.items()} if isinstance(item, Completion) else {}
        if only_new and not filled:
            continue
        table.filled.extend((entity.id, path) for path in filled)
        leaves = filled.items() if only_new else walk(item.tree() if isinstance(item, Completion) else item.tree)
        if not only_new:
            table.report.unwritable += ((entity.id, path, NO_PROPERTY) for path in no_properties(entity.tree))
        row = _row(entity.id, leaves, table.report)
        named = named and any(path in row and _is_id(row[path], entity.id) for path in IDS)
        if isinstance(item, Completion):
            table.risky |= {(len(gathered), *key): path for key, path in _risky(item)}
        gathered.append((entity, row))
    several = any(len(entity.classes) > 1 for entity, _ in gathered)
    for entity, row in gathered:
        head: Row = {} if named else {IDS[0]: entity.id}
        if not only_new:
            head |= {(CLASS, i) if several else (CLASS,): name for i, name in enumerate(entity.classes)}
        table.rows.append(head | row)
        table.ids.append(entity.id)
    _name_columns(table)
    return table


def _risky(item: Completion) -> Iterator[tuple[tuple[Path, str], Path]]:
    """The columns and texts of what a model filled that a spreadsheet would run, each with its path."""
    filled = {path: one.value for path, one in item.filled.items() if one.confidence is not None}
    new = [(path, _row(item.entity.id, [(path, value)], Report())) for path, value in filled.items()]
    found = {
        (_column(at), text): path
        for path, row in new
        for at, leaf in row.items()
        if formulas.start_of(text := _shown(leaf))
    }
    if found:  # rarely
        given = _row(item.entity.id, walk(item.entity.tree), Report())
        for at, leaf in given.items():
            found.pop((_column(at), _shown(leaf)), None)
    yield from found.items()


def _column(path: Path) -> Path:
    """A path without its places in lists, which may be others in the table as a whole."""
    return tuple(key for key in path if isinstance(key, str))


def _shown(value: Any) -> str:
    """A value in one cell; an empty string where a cell cannot say it."""
    try:
        return "" if value is None else text_of(value)
    except ValueError:
        return ""


def leaves_of(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    """The columns that a value takes, and what stands in each."""
    for at, leaf in walk({"": value}):
        yield from _parts((*path, *at[1:]), leaf)


def text_of(value: Any) -> str:
    """A value in one cell; ValueError where a cell cannot say it."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return numerals.show(value)
        case float() | Decimal() if math.isfinite(value):
            return repr(value) if isinstance(value, float) else str(value)
        case str():
            return value
        case Date():
            return write_iso(value)
        case Link():
            return value.id
        case Text():
            return value.text
        case Coordinate() if value.latitude is not None and value.longitude is not None:
            return f"{text_of(value.latitude)}, {text_of(value.longitude)}"
        case Quantity() if value.value is not None:
            return text_of(value.value) if value.unit is None else f"{text_of(value.value)} {value.unit}"
    raise ValueError(f"expected a value that a cell can hold, got {value!r}")


def _row(id: str, leaves: Iterable[tuple[Path, Any]], report: Report) -> Row:
    """One entity's row; a text in a language has a column of its own."""
    row: Row = {}
    texts: dict[Path, list[str]] = defaultdict(list)
    for at, whole in leaves:
        for path, leaf in leaves_of(at, whole):
            if isinstance(leaf, Text):
                texts[in_language(path, leaf.language)].append(leaf.text)
                row.setdefault(in_language(path, leaf.language))  # keeps the place
            elif isinstance(leaf, Known):
                report.unwritable.append(
                    (id, path, "a table cannot say that a value is known to be unknown, or to be none")
                )
                row[path] = None
            else:
                row[path] = leaf
    if not texts:
        return row
    return {path: value for first in row for path, value in _spread(first, texts.get(first), row[first])}


def _spread(path: Path, texts: list[str] | None, value: Any) -> list[tuple[Path, Any]]:
    if texts is None:
        return [(path, value)]
    return [(path, texts[0])] if len(texts) == 1 else [((*path, i), text) for i, text in enumerate(texts)]


def in_language(path: Path, language: str) -> Path:
    """The column of a text in a language."""
    while isinstance(path[-1], int):
        path = path[:-1]
    return (*path[:-1], f"{path[-1]}@{language}")


def _parts(path: Path, leaf: Any) -> Iterator[tuple[Path, Any]]:
    match leaf:
        case Quantity():
            yield (*path, "value"), leaf.value
            yield (*path, "unit"), leaf.unit
        case Coordinate():
            yield (*path, "latitude"), leaf.latitude
            yield (*path, "longitude"), leaf.longitude
            if leaf.globe:
                yield (*path, "globe"), leaf.globe
        case Link():
            yield path, leaf.id
        case _:
            yield path, leaf


def _name_columns(table: Table) -> None:
    """Every column once, lists made of what is one elsewhere; a list's first element names it too.

    That a whole part is missing is said by the columns of what others have in it.
    """
    while lists := _lists(table.rows):
        moved = {path: _listed(path, lists) for row in table.rows for path in row}
        if all(path == to for path, to in moved.items()):
            break
        table.rows = [{moved[path]: value for path, value in row.items()} for row in table.rows]
    paths = dict.fromkeys(path for row in table.rows for path in row)
    parts = {path[:i] for path in paths for i in range(1, len(path))}
    said = {path for row in table.rows for path, value in row.items() if value is not None and path in parts}
    table.columns = {path: name_of(path) for path in paths if path not in parts or path in said}


def _lists(rows: list[Row]) -> set[Path]:
    paths = {path for row in rows for path in row}
    return {path[:i] for path in paths for i in range(1, len(path)) if isinstance(path[i], int)}


def _listed(path: Path, lists: set[Path]) -> Path:
    """The path, counted as its first where others have a list."""
    for i in range(1, len(path) + 1):
        if path[:i] in lists and (i == len(path) or not isinstance(path[i], int)):
            return _listed((*path[:i], 0, *path[i:]), lists)
    return path


def _is_id(value: Any, id: str) -> bool:
    return (numerals.show(value) if isinstance(value, int) else value) == id
