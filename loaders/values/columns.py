"""Named columns and trees: how a row becomes an entity, and how entities become rows.

    launch.year, prizes[0].share      a nested part, a list
    weight.value, weight.unit         a quantity; position.latitude, position.longitude a coordinate
    label@en                          a text in a language; label@en[1] where there are several
    1999-05, 19XX, --05-17            a date, as much of it as is known (schemas/text/dates.py)
    Q42                               a link: the id

Reading. A dotted name is a path. A name is one key as it stands where it is no path, or does not go with the others:
under a column of values (`a.1` beside `a`), a list that counts with gaps (`a[7]` alone), an index where another column
has a key. A list ends at its last element with any value; a list without any value keeps one element, asked for. A first
column without a name is an index, as pandas and R write it: it holds the ids where every row has an index value and all
differ. An index of whole numbers may be a mere count, so it holds the ids only where no other column is named as an id.

Writing. A missing value is a blank cell, known or asked for alike. Keys that name or classify a nested part ("@id",
"@type") are left out; values under other keys that begin with "@" are reported. Where one entity has a value and another
a list, all get a list.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from kbdisk.entity import (
    Completion,
    Coordinate,
    Date,
    Entity,
    Known,
    Link,
    Path,
    Quantity,
    Text,
    Tree,
    read_path,
    show,
    walk,
)
from kbdisk.errors import LoadError
from kbdisk.loaders.kb import Report
from kbdisk.loaders.naming import ID_KEYS, LABEL_KEYS, NO_PROPERTY, no_properties
from kbdisk.loaders.values import formulas
from kbdisk.loaders.values.tagged_json import MAX_DEPTH
from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.dates import write_iso

IDS: tuple[Path, ...] = tuple((key,) for key in ID_KEYS)
LABELS: tuple[Path, ...] = tuple((key,) for key in LABEL_KEYS)
Index: TypeAlias = Literal["", "count", "names"]  # an index with gaps or repetitions, one of whole numbers, one of ids
INDEX: Path = ("@index",)
INDEX_LEFT_OUT = "the index is left out, as it does not tell all rows apart"
CLASS = "@type"


def paths_of(names: Sequence[str]) -> list[Path]:
    """The path of each column; ValueError where a name is missing or stands twice."""
    if len(names) > 1 and not names[0]:
        names = [show(INDEX), *names[1:]]
    if blank := [str(i) for i, name in enumerate(names, start=1) if not name]:
        raise ValueError(
            f"expected a name for every column, got none for column {', '.join(blank)}. Name it, @id if it names the rows."
        )
    paths = [_path(name) for name in names]
    while misfits := _misfits(paths):
        for i in misfits:
            paths[i] = (names[i],)
    if twice := [show(path) for path, count in Counter(paths).items() if count > 1]:
        raise ValueError(
            f"expected a different name for each column, got {', '.join(map(repr, twice))} more than once. Rename it."
        )
    return paths


def name_of(path: Path) -> str:
    """The name of the column for a path, from which the same path is read: a single key as it stands, where it may."""
    key = str(path[0])
    return key if len(path) == 1 and key and key == key.strip() and _path(key) == path else show(path)


def _path(name: str) -> Path:
    try:
        path = read_path(name)
    except ValueError:
        return (name,)
    return path if isinstance(path[0], str) and len(path) <= MAX_DEPTH else (name,)


def _misfits(paths: Sequence[Path]) -> list[int]:
    """The columns, among those of more than one key, that cannot stand in one tree with the others."""
    following: dict[Path, set[str | int]] = defaultdict(set)
    for path in paths:
        for i in range(1, len(path)):
            following[path[:i]].add(path[i])
    values = set(paths)
    lists = {prefix for prefix, keys in following.items() if any(isinstance(key, int) for key in keys)}
    broken = {prefix for prefix in lists if following[prefix] != set(range(len(following[prefix])))}

    def fits(path: Path, i: int) -> bool:
        prefix = path[:i]
        return prefix not in values and not (isinstance(path[i], int) and prefix in broken)

    return [n for n, path in enumerate(paths) if not all(fits(path, i) for i in range(1, len(path)))]


@dataclass(frozen=True, slots=True)
class Layout:
    """How the columns of a row become an entity's id, label, classes and tree."""

    columns: Mapping[Path, int]
    id: int | None  # the column of the id; None: the row's number
    label: int | None
    classes: tuple[int, ...]
    keys: tuple[str, ...] | None  # where each column is one key of the tree, those
    steps: tuple[tuple[int, Path, str | int], ...]  # a column, the keys to its part, and its own
    lists: tuple[Path, ...]  # the deepest first
    doubt: str  # what is odd about the index; or nothing

    @classmethod
    def from_columns(
        cls, paths: Sequence[Path], id: Path | None, complete: Callable[[int], bool], index: Callable[[int], Index]
    ) -> Layout:
        """The layout of these columns. `complete` says whether a column has a value in every row, `index` which kind of
        index it is. ValueError where `id` is no column.
        """
        columns = {path: i for i, path in enumerate(paths)}
        if id is not None and id not in columns:
            known = ", ".join(map(show, columns))
            raise ValueError(f"expected a column {show(id)!r} for the ids, got {known}. Say --id, one of these.")
        inside = [path for path in paths if path[0] != CLASS and path not in (IDS[0], INDEX)]
        lists = {path[:i] for path in inside for i in range(1, len(path)) if isinstance(path[i], int)}
        index_column = columns.get(INDEX)
        usable_index = "" if index_column is None else index(index_column)
        named_column = None if usable_index == "names" else _first(columns, IDS, complete)
        is_flat = len(inside) == len(paths) and all(len(path) == 1 for path in paths)
        return cls(
            columns=columns,
            id=columns[id]
            if id is not None
            else index_column
            if usable_index and named_column is None
            else named_column,
            label=_first(columns, LABELS, lambda _: True),
            classes=tuple(i for i, path in enumerate(paths) if path[0] == CLASS),
            keys=tuple(str(path[0]) for path in paths) if is_flat else None,
            steps=tuple((columns[path], path[:-1], path[-1]) for path in inside),
            lists=tuple(sorted(lists, key=len, reverse=True)),
            doubt=""
            if index_column is None or usable_index or index_column == (id and columns[id])
            else INDEX_LEFT_OUT,
        )

    def tree(self, values: Sequence[Any]) -> Tree:
        """The tree of a row; ids and classes of the entity itself stay out of it."""
        if self.keys is not None:
            return dict(zip(self.keys, values, strict=True))
        tree: Tree = {}
        for i, parents, key in self.steps:
            part: Any = tree
            for parent in parents:
                if parent not in part:
                    part[parent] = {}
                part = part[parent]
            part[key] = values[i]
        for path in self.lists:
            _make_list(tree, path)
        return tree

    def label_of(self, values: Sequence[Any]) -> str:
        """The label that a row gives its entity, or an empty string."""
        value = None if self.label is None else values[self.label]
        return value if isinstance(value, str) else ""

    def classes_of(self, values: Sequence[Any]) -> tuple[str, ...]:
        """The classes that a row gives its entity."""
        return tuple(str(values[i]) for i in self.classes if values[i] is not None)

    def check_classes(self, wanted_classes: Collection[str], name: str) -> None:
        """LoadError where entities of some classes are wanted, and no column holds classes."""
        if wanted_classes and not self.classes:
            raise LoadError(name, "expected a column @type to choose classes by, got none. Leave --class out.")


def _first(columns: Mapping[Path, int], candidates: Sequence[Path], fits: Callable[[int], bool]) -> int | None:
    return next((columns[path] for path in candidates if path in columns and fits(columns[path])), None)


def index_of(cells: Iterable[Any]) -> Index:
    """The kind of index that these cells make."""
    seen, count = set[str](), True
    for cell in cells:
        if cell is None or str(cell) in seen:
            return ""
        seen.add(str(cell))
        count = count and type(cell) is int
    return "count" if count else "names"


def _make_list(tree: Tree, path: Path) -> None:
    """Turn the part at a path, whose keys are indices, into a list."""
    place: Any = tree
    for key in path[:-1]:
        place = place[key]
    elements = [place[path[-1]][i] for i in range(len(place[path[-1]]))]
    while len(elements) > 1 and all(value is None for _, value in walk({"": elements[-1]})):
        elements.pop()
    place[path[-1]] = elements


# ---------------------------------------------------------------- trees as rows


ENTITY_COLUMNS = (IDS[0][0], CLASS)  # columns of the entity, not of its properties
Row = dict[Path, Any]  # numbers, strings, truths, dates, or None


@dataclass
class Table:
    """Entities as rows: every column in order of first appearance, and the values that could not be written."""

    columns: dict[Path, str] = field(default_factory=dict)  # and their names
    rows: list[Row] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    report: Report = field(default_factory=Report)
    filled: list[tuple[str, Path]] = field(default_factory=list)  # entity id, path
    risky: dict[tuple[int, Path, str], Path] = field(default_factory=dict)  # row, column, text -> filled path

    def done(self) -> Report:
        """The report, once all rows are written."""
        unwritable: dict[str, list[Path]] = {}
        for id, path, _ in self.report.unwritable:
            unwritable.setdefault(id, []).append(path)
        written = (
            all(unwritable_path[: len(path)] != path for unwritable_path in unwritable.get(id, ()))
            for id, path in self.filled
        )
        self.report.written = sum(written)
        return self.report

    def refuse_formulas(self) -> None:
        """Leave out filled values that a spreadsheet would run, unless given cells of the column begin so; count those."""
        for path, name in self.columns.items():
            self.report.formulas += path[0] not in ENTITY_COLUMNS and bool(formulas.start_of(name))
            starts, filled = set(), []
            for row, cells in enumerate(self.rows):
                text = _shown(cells.get(path))
                start = formulas.start_of(text)
                if start and (filled_path := self.risky.get((row, _column(path), text))) is not None:
                    filled.append((row, start, text, filled_path))
                elif start:
                    starts.add(start)
                    self.report.formulas += 1
            for row, start, text, filled_path in filled:
                if start not in starts:
                    self.rows[row][path] = None
                    self.report.unwritable.append((self.ids[row], filled_path, formulas.refusal(text)))

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
    """All entities as rows, in memory: the columns are known only at the end."""
    table = Table()
    has_ids = True  # whether each tree holds its entity's id
    gathered: list[tuple[Entity, Row]] = []
    for item in items:
        entity = item.entity if isinstance(item, Completion) else item
        filled = (
            {path: filled_value.value for path, filled_value in item.filled.items()}
            if isinstance(item, Completion)
            else {}
        )
        if only_new and not filled:
            continue
        table.filled.extend((entity.id, path) for path in filled)
        leaves = filled.items() if only_new else walk(item.tree() if isinstance(item, Completion) else item.tree)
        if not only_new:
            table.report.unwritable += ((entity.id, path, NO_PROPERTY) for path in no_properties(entity.tree))
        row = _row(entity.id, leaves, table.report)
        has_ids = has_ids and any(path in row and _is_id(row[path], entity.id) for path in IDS)
        if isinstance(item, Completion):
            table.risky |= {(len(gathered), *key): path for key, path in _risky(item)}
        gathered.append((entity, row))
    has_several_classes = any(len(entity.classes) > 1 for entity, _ in gathered)
    for entity, row in gathered:
        head: Row = {} if has_ids else {IDS[0]: entity.id}
        if not only_new:
            head |= {(CLASS, i) if has_several_classes else (CLASS,): name for i, name in enumerate(entity.classes)}
        table.rows.append(head | row)
        table.ids.append(entity.id)
    _name_columns(table)
    return table


def _risky(item: Completion) -> Iterator[tuple[tuple[Path, str], Path]]:
    """Column and text of the values that a model filled and a spreadsheet would run, each with its path."""
    filled = {
        path: filled_value.value for path, filled_value in item.filled.items() if filled_value.confidence is not None
    }
    new = [(path, _row(item.entity.id, [(path, value)], Report())) for path, value in filled.items()]
    risky = {
        (_column(column_path), text): path
        for path, row in new
        for column_path, leaf in row.items()
        if formulas.start_of(text := _shown(leaf))
    }
    if risky:  # rarely
        given = _row(item.entity.id, walk(item.entity.tree), Report())
        for column_path, leaf in given.items():
            risky.pop((_column(column_path), _shown(leaf)), None)
    yield from risky.items()


def _column(path: Path) -> Path:
    """A path without its indices in lists, which may differ in the table as a whole."""
    return tuple(key for key in path if isinstance(key, str))


def _shown(value: Any) -> str:
    """A value as the text of one cell; an empty string where a cell cannot hold it."""
    try:
        return "" if value is None else text_of(value)
    except ValueError:
        return ""


def leaves_of(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    """The columns that a value takes, and the content of each."""
    for at, leaf in walk({"": value}):
        yield from _parts((*path, *at[1:]), leaf)


def text_of(value: Any) -> str:
    """A value as the text of one cell; ValueError where a cell cannot hold it."""
    write = CELL_WRITERS.get(type(value)) or next(
        (CELL_WRITERS[base] for base in type(value).__mro__ if base in CELL_WRITERS), None
    )
    text = write(value) if write else None
    if text is None:
        raise ValueError(f"expected a value that a cell can hold, got {value!r}")
    return text


def _coordinate_text(place: Coordinate) -> str | None:
    if place.latitude is None or place.longitude is None:
        return None
    return f"{text_of(place.latitude)}, {text_of(place.longitude)}"


def _quantity_text(quantity: Quantity) -> str | None:
    if quantity.value is None:
        return None
    return text_of(quantity.value) if quantity.unit is None else f"{text_of(quantity.value)} {quantity.unit}"


CELL_WRITERS: dict[type[Any], Callable[[Any], str | None]] = {  # by type of value; None where a cell cannot hold it
    bool: lambda value: "true" if value else "false",
    int: numerals.show,
    float: lambda value: repr(value) if math.isfinite(value) else None,
    Decimal: lambda value: str(value) if value.is_finite() else None,
    str: lambda value: value,
    Date: write_iso,
    Link: lambda link: link.id,
    Text: lambda text: text.text,
    Coordinate: _coordinate_text,
    Quantity: _quantity_text,
}


def _row(id: str, leaves: Iterable[tuple[Path, Any]], report: Report) -> Row:
    """The row of one entity; each language of a text is a separate column."""
    row: Row = {}
    texts: dict[Path, list[str]] = defaultdict(list)
    for at, value in leaves:
        for path, leaf in leaves_of(at, value):
            if isinstance(leaf, Text):
                texts[in_language(path, leaf.language)].append(leaf.text)
                row.setdefault(in_language(path, leaf.language))  # keeps the order of columns
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
    """Name every column once; a value becomes a list of one where other entities have a list at its path.

    A part that is missing needs no column: the columns of its values are blank.
    """
    while lists := _lists(table.rows):
        moved = {path: _listed(path, lists) for row in table.rows for path in row}
        if all(path == to for path, to in moved.items()):
            break
        table.rows = [{moved[path]: value for path, value in row.items()} for row in table.rows]
    paths = dict.fromkeys(path for row in table.rows for path in row)
    parts = {path[:i] for path in paths for i in range(1, len(path))}
    valued = {path for row in table.rows for path, value in row.items() if value is not None and path in parts}
    table.columns = {path: name_of(path) for path in paths if path not in parts or path in valued}


def _lists(rows: list[Row]) -> set[Path]:
    paths = {path for row in rows for path in row}
    return {path[:i] for path in paths for i in range(1, len(path)) if isinstance(path[i], int)}


def _listed(path: Path, lists: set[Path]) -> Path:
    """The path, with index 0 where other entities have a list."""
    for i in range(1, len(path) + 1):
        if path[:i] in lists and (i == len(path) or not isinstance(path[i], int)):
            return _listed((*path[:i], 0, *path[i:]), lists)
    return path


def _is_id(value: Any, id: str) -> bool:
    return (numerals.show(value) if isinstance(value, int) else value) == id
