"""The sidecar of a file: which of its values an earlier completion filled in, and the rows that follow them to a new target.

A row of a sidecar says which value was put where; see `provenance`. Blocks in a file of RDF also say which values were filled in.
A value counts as filled in while it stands as it was written. A value that somebody changed since, or corrected in a review,
counts as given: also inside a block, where the sidecar has another value for its place. For a place without a row the block
decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, is_dataclass, replace
from functools import partial
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from kbdisk.entity import (
    CLASSES,
    Entity,
    Link,
    Path,
    Text,
    Tree,
    at,
    read_path,
    show,
    walk,
    with_made,
    with_values,
    without_places,
)
from kbdisk.errors import LoadError
from kbdisk.jsonio import LINE, dump_json, load_json
from kbdisk.loaders import KB, format_row
from kbdisk.loaders.files import sidecar_of, sidecars_of
from kbdisk.loaders.table.cells import TRUTHS
from kbdisk.loaders.values import columns
from kbdisk.loaders.values.tagged_json import decode, encode
from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.numerals import is_number
from kbdisk.styles.numbers import Separators

COUNTED_FROM_0 = (
    "expected rows that say `numbered`, as entities without an id count from 1, got rows of an older kbdisk, which counted"
    " rows of tables from 0. Complete the file anew as it was before, or move this file away: the values that it lists then"
    " count as given."
)
NUMBERS_FOR_IDS = (
    "expected the ids that --id names, got numbers: the file was completed without --id. Leave --id out, or move this"
    " file away: the values that it lists then count as given."
)
BROKEN_ROW = (
    "expected a value that kbdisk complete filled in, got something else."
    " Bring the file back, or take the line out: values without a line may count as given, and be learnt from."
)
OUTSIDE_BLOCKS = {"block": False}  # in the row of a value that stands outside of the blocks that its format has


# ---------------------------------------------------------------- rows


class Row(NamedTuple):
    """A value that was filled in, its path, and the line of the sidecar."""

    path: Path
    value: Any
    line: bytes
    block: bool  # whether the value stands in a block, where the format has blocks
    id_path: Path | None = None  # where the entity's id stands, if --id said so
    numbered: bool = False  # whether the id is the entity's number
    corrected: bool = False  # whether a person put this value in the place of another, so that it is given


Rows = Mapping[str, list[Row]]  # by the entity's id


def sidecar_rows(kb: KB) -> Rows | None:
    """The rows of the sidecar of a source, or of those of its parts; None where there is none."""
    files = [sidecars_of(str(part.path)) if part.path is not None else [] for part in kb.parts]
    if not any(files):
        return None
    by_id: dict[str, list[Row]] = {}
    for number, (part, sidecars) in enumerate(zip(kb.parts, files, strict=True)):
        lines_read: set[bytes] = set()
        for file in sidecars:
            rows = [
                (id, row) for id, row in _read_rows(file) if row.line not in lines_read
            ]  # in place a link's go along
            lines_read |= {row.line for _, row in rows if len(sidecars) > 1}
            for id, row in rows:
                local_row = _row_here(row, kb, number) if len(files) > 1 else row
                local_row = local_row._replace(block=row.block and format_row(part.format).has_blocks)
                by_id.setdefault(kb.id_here(number, id), []).append(local_row)
    return by_id


def _read_rows(file: FilePath) -> Iterator[tuple[str, Row]]:
    """The rows of a sidecar, each with the id of its entity."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise LoadError(str(file), f"cannot be read: {(error.strerror or str(error)).lower()}.") from None
    for number, line in enumerate(data.splitlines(), 1):
        try:
            row = load_json(line)
            id, path, value = str(row["id"]), read_path(row["path"]), decode({"": row["value"]})[""]
            block, numbered = row.get("block", True), row.get("numbered", False)
            id_path = read_path(row["id_path"]) if "id_path" in row else None
        except (ValueError, TypeError, KeyError):
            raise LoadError(str(file), BROKEN_ROW, number) from None
        yield id, Row(path, value, line, block, id_path, bool(numbered), row.get("reviewed") == "corrected")


def _row_here(row: Row, kb: KB, part: int) -> Row:
    """A row of a part of several sources, with the keys and ids that all of them have together."""
    return row._replace(path=kb.path_here(part, row.path), value=_value_here(row.value, kb, part))


def _value_here(value: Any, kb: KB, part: int) -> Any:
    match value:
        case Link():
            return replace(value, id=kb.id_here(part, value.id))
        case dict():
            return {key: _value_here(inner, kb, part) for key, inner in value.items()}
        case list():
            return [_value_here(item, kb, part) for item in value]
    return value


class RowsOfEntities:
    """The rows of sidecars by their entities, even where an entity is read with another id than it was written with."""

    def __init__(self, rows: Rows, kbs: Sequence[KB]) -> None:
        self.rows = rows
        all_rows = [(id, row) for id, of_entity in rows.items() for row in of_entity]
        self.id_paths = {row.id_path for _, row in all_rows if row.id_path is not None}
        self.unmarked = {id for id, row in all_rows if not row.numbered and row.id_path is None and id.isdigit()}
        has_numbers = any(row.numbered for _, row in all_rows)
        renumbered_kbs = [kb for kb in kbs if kb.options.id is not None] if has_numbers else []
        self.by_number = len(kbs) == 1 and bool(renumbered_kbs) and format_row(kbs[0].format).counts_records
        for kb in renumbered_kbs if not self.by_number else ():
            raise LoadError(_sidecar_name(kb), NUMBERS_FOR_IDS)

    def of(self, entity: Entity) -> list[Row]:
        """The rows of an entity: by its id, and by the value at the path where its id stood when they were written."""
        if entity.nameless:
            self._refuse_counted_from_0(entity)
        rows = self.rows.get(entity.id, [])
        for path in self.id_paths:
            id = id_at(entity.tree, path)
            if id is not None and id != entity.id:
                rows = [*rows, *(row for row in self.rows.get(id, ()) if row.id_path == path)]
        if self.by_number and entity.id != str(entity.position):
            rows = [*rows, *(row for row in self.rows.get(str(entity.position), ()) if row.numbered)]
        return rows

    def ids(self, entity: Entity) -> Iterator[str]:
        """The ids that rows may have for an entity."""
        yield entity.id
        yield from (id for path in self.id_paths if (id := id_at(entity.tree, path)) is not None)
        if self.by_number:
            yield str(entity.position)

    def _refuse_counted_from_0(self, entity: Entity) -> None:
        kb = entity.source
        is_counted_from_0 = "0" in self.unmarked and format_row(getattr(kb, "format", "")).has_cells
        if is_counted_from_0 or entity.id in self.unmarked:
            raise LoadError(_sidecar_name(kb), COUNTED_FROM_0)


def _sidecar_name(kb: KB) -> str:
    return str(sidecar_of(kb.name))


def id_at(tree: Tree, path: Path) -> str | None:
    """The id at a path of a tree, as a loader reads it; None where there is none."""
    value = value_at(tree, path)
    return numerals.show(value) if type(value) is int else value if isinstance(value, str) else None


def id_origin(entity: Entity) -> dict[str, Any]:
    """The keys of a row that say where its entity's id comes from; none where it is the entity's own."""
    if entity.nameless:
        return {"numbered": True}
    path = getattr(getattr(entity.source, "options", None), "id", None)
    return {} if path is None else {"id_path": show(path)}


# ---------------------------------------------------------------- entities without the values that were filled in


def given_entities(kb: KB) -> Iterable[Entity]:
    """The entities of a source without the values that kbdisk filled in, by the sidecar beside it or by its blocks."""
    rows = sidecar_rows(kb)
    return kb if rows is None else GivenEntities(kb, rows)


def has_block_rows_alone(kb: KB) -> bool:
    """Whether all values that the sidecar of a source records stand in blocks."""
    return all(row.block for rows in (sidecar_rows(kb) or {}).values() for row in rows)


class GivenEntities(Iterable[Entity]):
    """The entities of a source, with the filled values in their `made` alone. They are read anew each time."""

    def __init__(self, kb: KB, rows: Rows) -> None:
        self.kb, self.rows = kb, RowsOfEntities(rows, [kb])

    def __iter__(self) -> Iterator[Entity]:
        return (self._apart(entity, self.rows.of(entity)) for entity in self.kb)

    def _apart(self, entity: Entity, rows: list[Row]) -> Entity:
        rows = [row._replace(path=self.kb.path_named(row.path)) for row in rows]
        rows = [row for row in rows if not row.corrected or format_row(self.kb.format).has_blocks]
        beside = self.kb.has_sets
        if not format_row(self.kb.format).has_blocks:
            return _without_filled(entity, rows, cells=format_row(self.kb.format).has_cells, beside=beside)
        outside_blocks = [row for row in rows if not row.block and not row.corrected]
        return _without_filled(with_changes_given(entity, rows), outside_blocks, cells=False, beside=beside)


def _without_filled(entity: Entity, rows: list[Row], *, cells: bool, beside: bool) -> Entity:
    """An entity without the filled values that still stand in it unchanged."""
    values_by_row = (standing_of(entity, row.path, row.value, cells=cells, beside=beside) for row in rows)
    standing = {path: value for values in values_by_row for path, value in values.items()}
    classes = {path: value for path, value in standing.items() if path[:1] == CLASSES}
    standing = {path: value for path, value in standing.items() if path not in classes}
    removed_values = {
        path: value
        for path, value in standing.items()
        if not any(path[:length] in standing for length in range(len(path)))
    }
    if classes:
        made_classes = {value.id for value in classes.values()}
        given_classes = tuple(name for name in entity.classes if name not in made_classes)
        entity = replace(entity, classes=given_classes, made={**(entity.made or {}), **classes})
    if not removed_values:
        return entity
    tree = with_values(entity.tree, {})
    for path in reversed(removed_values):
        _remove(tree, path)
    if beside:
        removed_values = _close_lists(tree, removed_values)
    return replace(entity, tree=tree, made={**(entity.made or {}), **leaf_by_leaf(removed_values)})


def _close_lists(tree: Tree, made: Mapping[Path, Any]) -> dict[Path, Any]:
    """Close the gaps that removed values leave in lists; the paths of the removed values are behind the others then.

    Such lists are sets: no value has a place of its own.
    """
    removed: dict[Path, list[Any]] = {}
    for path, value in made.items():
        if isinstance(path[-1], int):
            removed.setdefault(path[:-1], []).append(value)
    closed = {path: value for path, value in made.items() if path[:-1] not in removed}
    for path, values in removed.items():
        holder = at(tree, path[:-1])
        remaining_values = [value for value in holder.get(path[-1], ()) if value is not None]
        if remaining_values:
            holder[path[-1]] = remaining_values[0] if len(remaining_values) == 1 else remaining_values
        closed |= {(*path, place): value for place, value in enumerate(values, len(remaining_values))}
    return closed


def value_at(tree: Tree, path: Path) -> Any:
    """The value at a path of a tree; None where there is none."""
    try:
        return at(tree, path)
    except KeyError:
        return None


def leaf_by_leaf(values: Mapping[Path, Any]) -> dict[Path, Any]:
    """The leaves of values at paths."""
    return {(*path, *within[1:]): leaf for path, value in values.items() for within, leaf in walk({"": value})}


def with_changes_given(entity: Entity, rows: list[Row]) -> Entity:
    """An entity whose blocks say which values were filled in; those that were corrected, or changed since, are given."""
    recorded = {path: leaf for row in rows for path, leaf in leaf_by_leaf({row.path: row.value}).items()}
    corrected = {path for row in rows if row.corrected for path in leaf_by_leaf({row.path: row.value})}
    given = {
        path: leaf
        for path, leaf in (entity.made or {}).items()
        if path in corrected
        or (
            path in recorded
            and not any(
                may_be_same(leaf, recorded_leaf)
                for recorded_path, recorded_leaf in recorded.items()
                if without_places(recorded_path) == without_places(path)
            )
        )  # a value that was taken out of a block changes the places of the others
    }
    if not given:
        return entity
    unchanged = {path: leaf for path, leaf in (entity.made or {}).items() if path not in given}
    return replace(with_made(entity, given), made=unchanged or None)


def may_be_same(value: Any, recorded: Any) -> bool:
    """Whether a value may be the recorded one, after it was written and read. A value of another type may be."""
    plain, recorded_plain = _comparable(value), _comparable(recorded)
    return plain == recorded_plain or type(plain) is not type(recorded_plain)


def _comparable(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, *map(_comparable, astuple(value))
    return float(value) if is_number(value) else value


def _remove(tree: Tree, path: Path) -> None:
    """Remove the value at a path, and the parts and lists that held nothing else."""
    holder: Any = tree
    for key in path[:-1]:
        holder = holder[key]
    last: Any = path[-1]
    if isinstance(holder, list) and last != len(holder) - 1:
        holder[last] = None
        return
    del holder[last]
    if not holder and path[1:]:
        _remove(tree, path[:-1])


# ---------------------------------------------------------------- finding a filled value


def standing_of(entity: Entity, path: Path, value: Any, *, cells: bool, beside: bool = False) -> dict[Path, Any]:
    """The filled value, or the further class, of an entity by its path; empty where it was changed or extended."""
    if path[:1] == CLASSES:
        return {path: value} if isinstance(value, Link) and value.id in entity.classes else {}
    return standing_values(entity.tree, path, value, cells=cells, beside=beside)


def standing_values(tree: Tree, path: Path, value: Any, *, cells: bool, beside: bool = False) -> dict[Path, Any]:
    """The filled value in a tree, by its path; empty where it was changed or extended.

    With `cells` the value may stand as a table spells it: a quantity in two columns, a link as its id, a single value as the
    first of a list. With `beside` lists are sets, so that others may stand beside it, or in its place.
    """
    standing = value_at(tree, path)
    if standing is not None and _leaves(standing) == _leaves(value):
        return {path: value}
    if beside and (members := _standing_in_set(tree, path, value)):
        return members
    return _standing_in_cells(tree, path, value) if cells else {}


def _standing_in_set(tree: Tree, path: Path, value: Any) -> dict[Path, Any]:
    """The members of a filled value in a set, by their paths; empty where one of them is missing."""
    place = path[:-1] if isinstance(path[-1], int) else path
    standing = value_at(tree, place)
    places = {(*place, i): item for i, item in enumerate(standing)} if isinstance(standing, list) else {place: standing}
    found: dict[Path, Any] = {}
    for member in value if isinstance(value, list) else [value]:
        free = (at for at, item in places.items() if at not in found and _leaves(item) == _leaves(member))
        member_path = next(free, None)
        if member_path is None:
            return {}
        found[member_path] = member
    return found


def _leaves(value: Any) -> dict[Path, tuple[bool, Any]]:
    """The known leaves of a value, each with whether it is a boolean: True == 1 in Python."""
    return {path: (isinstance(leaf, bool), leaf) for path, leaf in walk({"": value}) if leaf is not None}


def _standing_in_cells(tree: Tree, path: Path, value: Any) -> dict[Path, Any]:
    written = {
        _column(column_path, leaf): leaf for column_path, leaf in columns.leaves_of(path, value) if leaf is not None
    }
    place = _place(tree, next(iter(written)) if isinstance(value, Text) else path)
    if place is None:
        return {}
    standing_leaves = {(*place, *within[1:]): leaf for within, leaf in walk({"": at(tree, place)}) if leaf is not None}
    places = [_place(tree, column) for column in written]
    cells = [
        standing_leaves.get(cell, standing_leaves.get((*cell, 0))) if cell is not None else None for cell in places
    ]
    is_unchanged = len(standing_leaves) == len(written) and all(map(_is_cell, cells, written.values()))
    return {place: at(tree, place)} if is_unchanged else {}


def _column(path: Path, leaf: Any) -> Path:
    return columns.in_language(path, leaf.language) if isinstance(leaf, Text) else path


def _place(tree: Tree, path: Path) -> Path | None:
    """The path at which a table has the value of a path: a single value is the first of a list in a column of lists."""
    tree_value: Any = tree
    place: Path = ()
    for key in path:
        if isinstance(tree_value, list) and isinstance(key, str) and tree_value:
            tree_value, place = tree_value[0], (*place, 0)
        try:
            tree_value, place = at(tree_value, (key,)), (*place, key)
        except KeyError:
            return None
    return place


def _is_cell(cell: Any, value: Any) -> bool:
    """Whether a cell may have been read from a value, of whatever type."""
    if cell is None:
        return False
    if is_number(cell) and is_number(value):
        return bool(cell == value if type(cell) is type(value) else float(cell) == float(value))
    if isinstance(value, str) and (isinstance(cell, bool) or is_number(cell)):
        return any(_is_cell(cell, reading) for reading in _cell_readings(value))
    try:
        return columns.text_of(cell) == columns.text_of(value)
    except ValueError:
        return False


def _cell_readings(text: str) -> Iterator[Any]:
    """The booleans and numbers that a column may read a text as."""
    if text in TRUTHS:
        yield TRUTHS[text]
    for separators in (Separators(), Separators(comma=True), Separators(comma=True, comma_is_decimal=True)):
        if separators.observe(text, 1) and separators.decimal is not None:
            yield separators.reader()(text)


# ---------------------------------------------------------------- rows for a new target


class CarriedRows:
    """The rows of the sidecars of some sources, for the sidecar of a target of another name or format.

    The row of each value that still stands is copied. A value that only a block records gets a row of its id, path and value
    alone. Where the target has blocks, and these values are written outside of them, the row says so.
    """

    def __init__(self, kbs: Sequence[KB], format: str, *, in_place: bool = False, anew: bool = False) -> None:
        has_blocks = not anew and len(kbs) == 1 and any(format_row(part.format).has_blocks for part in kbs[0].parts)
        keeps_blocks = has_blocks and format_row(format).has_blocks
        self.copies_all = in_place or (keeps_blocks and len(kbs[0].parts) == 1)
        self.outside_blocks = OUTSIDE_BLOCKS if format_row(format).has_blocks and not self.copies_all else {}
        self.in_blocks: dict[str, Any] = {} if keeps_blocks else self.outside_blocks
        keeps_format = len(kbs) == 1 and kbs[0].format == format
        self.lost_keys = (  # those that describe the text of the source
            () if keeps_format and not anew else ("edits",) if keeps_format else ("was", "edits")
        )
        self.cells = any(format_row(kb.format).has_cells for kb in kbs)
        self.beside = any(kb.has_sets for kb in kbs)
        by_id: dict[str, list[Row]] = {}
        self.ids_read: set[str] = set()
        for kb in kbs:
            for id, rows in (sidecar_rows(kb) or {}).items():
                for name in (id, f"{FilePath(kb.name).name}#{id}") if len(kbs) > 1 else (id,):
                    by_id.setdefault(name, []).extend(rows)
        self.rows = RowsOfEntities(by_id, kbs)

    def of(self, entity: Entity) -> Iterator[bytes]:
        """The lines of the values that were filled in an entity before; in place, or where blocks stay, all its lines."""
        rows = self.rows.of(entity)
        self.ids_read.update(self.rows.ids(entity))
        if self.copies_all:
            return (row.line + b"\n" for row in rows)
        return iter(self._standing(entity, rows) if entity.made else ())

    def rest(self) -> Iterator[bytes]:
        """The lines of entities that were skipped, where all lines are copied: once mended the entities are there again."""
        by_id = self.rows.rows.items()
        skipped = (rows for id, rows in by_id if id not in self.ids_read) if self.copies_all else ()
        return (row.line + b"\n" for rows in skipped for row in rows)

    def _standing(self, entity: Entity, rows: Sequence[Row]) -> list[bytes]:
        remaining = dict(entity.made or {})
        path_named: Callable[[Path], Path] = entity.source.path_named if entity.source is not None else tuple
        complete = with_made(entity, remaining)
        standing: list[tuple[dict[str, Any], bool, Path, Any]] = []
        for row in reversed(rows):  # of several rows of one place the last counts
            values = standing_of(complete, path_named(row.path), row.value, cells=self.cells, beside=self.beside)
            for path, value in values.items():
                leaves = [leaf for leaf, known in leaf_by_leaf({path: value}).items() if known is not None]
                if all(leaf in remaining for leaf in leaves):
                    remaining = {leaf: known for leaf, known in remaining.items() if leaf not in leaves}
                    standing.append((load_json(row.line), row.block, path, value))
        standing = [*reversed(standing), *(({}, True, path, value) for path, value in remaining.items())]
        return [self._line(entity, *parts) for parts in standing]

    def _line(self, entity: Entity, row: dict[str, Any], block: bool, path: Path, value: Any) -> bytes:
        lost = ("block", "numbered", "id_path", *self.lost_keys)
        row = {key: entry for key, entry in row.items() if key not in lost}
        row = {**row, "id": entity.id, "path": show(path), "value": encode(value), **id_origin(entity)}
        return dump_json(row | (self.in_blocks if block else self.outside_blocks), LINE)


# A loader gives the short name that several predicates share to the predicate that it meets first, so in a target that is
# written anew another predicate may have it. There the whole IRI is the key, which every loader knows. A source that keeps its
# bytes keeps its keys.


def contested_keys(kbs: Sequence[KB], format: str, *, anew: bool = False) -> Mapping[str, str]:
    """The IRIs to write for keys that several predicates share, in the sidecar of a target of a format."""
    if not format_row(format).is_rdf or (not anew and len(kbs) == 1 and kbs[0].keeps_bytes(format)):
        return {}
    return {key: iri for kb in kbs for key, iri in kb.contested().items()}


def with_renamed_keys(lines: Iterable[bytes], names: Mapping[str, str]) -> Iterable[bytes]:
    """Lines of a sidecar with some keys of their paths renamed."""
    return map(partial(_with_renamed_keys, names), lines) if names else lines


def _with_renamed_keys(names: Mapping[str, str], line: bytes) -> bytes:
    row = load_json(line)
    for column in row.keys() & {"path", "gap"}:
        path = read_path(row[column])
        row[column] = show(tuple(names.get(key, key) if isinstance(key, str) else key for key in path))
    return dump_json(row, LINE)
