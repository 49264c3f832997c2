"""What an earlier completion filled in, by the sidecar beside a file, or by the blocks in a file of RDF.

A value counts as filled in while it stands as it was written. A value that somebody changed since, or corrected in a review,
counts as given: also inside a block, where the sidecar has another value for its place. For a place that the sidecar does not
mention, the block decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, is_dataclass, replace
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from kbdisk.completion.standing import standing
from kbdisk.entity import Entity, Link, Path, Tree, at, read_path, show, walk, with_values, without_places
from kbdisk.errors import LoadError
from kbdisk.jsonio import load_json
from kbdisk.loaders import KB
from kbdisk.loaders.files import sidecar_of, sidecars_of
from kbdisk.loaders.values.tagged_json import decode
from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.numerals import is_number

BLOCKS = ("turtle", "trig", "ntriples", "nquads", "n3")  # formats that tell by themselves what was filled in
CELLS = ("csv", "tsv", "parquet")
ROWS = ("json", "jsonl", *CELLS)  # a record is an entity, whatever its id
COUNTING = ("json", *CELLS)  # an entity's position is its number, not its line
COUNTED_ANEW = (
    "expected rows that say `numbered`, as entities without an id count from 1, got rows of an older kbdisk, which counted"
    " rows of tables from 0. Complete the file anew as it was before, or move this file away: what it tells of then"
    " counts as given."
)
NAMED_ANEW = (
    "expected the ids that --id names, got numbers: the file was completed without --id. Leave --id out, or move this"
    " file away: what it tells of then counts as given."
)
BROKEN = (
    "expected a value that kbdisk complete filled in, got something else."
    " Bring the file back, or take the line out: what no line tells of may count as given, and be learnt from."
)


class Row(NamedTuple):
    """What was put where, and the line that tells it."""

    path: Path
    value: Any
    line: bytes
    block: bool  # whether a block tells it, too, where the format has blocks
    id_path: Path | None = None  # where the id stands, if --id said so
    numbered: bool = False  # whether the id is the entity's number
    corrected: bool = False  # whether a person put this value in the place of another, so that it is given


Rows = Mapping[str, list[Row]]  # by the entity's id


class Beside:
    """The rows of a sidecar by the entities that they are of, whatever names these go by when they are read again."""

    def __init__(self, rows: Rows, kbs: Sequence[KB]) -> None:
        self.rows = rows
        every = [(id, row) for id, several in rows.items() for row in several]
        self.paths = {row.id_path for _, row in every if row.id_path is not None}
        self.unmarked = {id for id, row in every if not row.numbered and row.id_path is None and id.isdigit()}
        named_anew = [kb for kb in kbs if kb.options.id is not None] if any(row.numbered for _, row in every) else []
        self.by_number = len(kbs) == 1 and bool(named_anew) and kbs[0].format in COUNTING
        for kb in named_anew if not self.by_number else ():
            raise LoadError(_sidecar(kb), NAMED_ANEW)

    def of(self, entity: Entity) -> list[Row]:
        """The rows of an entity: by its id, and by what stands where its id did when they were written."""
        if entity.nameless:
            self._refuse_counted_anew(entity)
        found = self.rows.get(entity.id, [])
        for path in self.paths:
            id = id_at(entity.tree, path)
            if id is not None and id != entity.id:
                found = [*found, *(row for row in self.rows.get(id, ()) if row.id_path == path)]
        if self.by_number and entity.id != str(entity.position):
            found = [*found, *(row for row in self.rows.get(str(entity.position), ()) if row.numbered)]
        return found

    def ids(self, entity: Entity) -> Iterator[str]:
        """The ids that rows may have for an entity."""
        yield entity.id
        yield from (id for path in self.paths if (id := id_at(entity.tree, path)) is not None)
        if self.by_number:
            yield str(entity.position)

    def _refuse_counted_anew(self, entity: Entity) -> None:
        kb = entity.source
        counted = "0" in self.unmarked and getattr(kb, "format", "") in CELLS
        if counted or entity.id in self.unmarked:
            raise LoadError(_sidecar(kb), COUNTED_ANEW)


def _sidecar(kb: KB) -> str:
    return str(sidecar_of(kb.name))


def id_at(tree: Tree, path: Path) -> str | None:
    """The id at a path of a tree, as a loader reads it; None where there is none."""
    try:
        value = at(tree, path)
    except KeyError:
        return None
    return numerals.show(value) if type(value) is int else value if isinstance(value, str) else None


def named(entity: Entity) -> dict[str, Any]:
    """What a row tells of where its entity's id comes from, unless it is the entity's own."""
    if entity.nameless:
        return {"numbered": True}
    path = getattr(getattr(entity.source, "options", None), "id", None)
    return {} if path is None else {"id_path": show(path)}


class Given(Iterable[Entity]):
    """The entities of a source without what was filled in them: that is in their `made`. Read again and again, as a KB is."""

    def __init__(self, kb: KB, rows: Rows) -> None:
        self.kb, self.beside = kb, Beside(rows, [kb])

    def __iter__(self) -> Iterator[Entity]:
        return (self._apart(entity, self.beside.of(entity)) for entity in self.kb)

    def _apart(self, entity: Entity, rows: list[Row]) -> Entity:
        rows = [row._replace(path=self.kb.path_named(row.path)) for row in rows]
        rows = [row for row in rows if not row.corrected or self.kb.format in BLOCKS]
        beside = len(self.kb.parts) > 1
        if self.kb.format not in BLOCKS:
            return _given(entity, rows, cells=self.kb.format in CELLS, beside=beside)
        return _given(
            corrected(entity, rows),
            [row for row in rows if not row.block and not row.corrected],
            cells=False,
            beside=beside,
        )


def is_told_by_blocks(kb: KB) -> bool:
    """Whether no value in a source was filled in but what its blocks tell of."""
    return all(row.block for rows in (rows_beside(kb) or {}).values() for row in rows)


def given(kb: KB) -> Iterable[Entity]:
    """The entities of a source, with nothing in them that kbdisk has filled in by what stands beside it."""
    rows = rows_beside(kb)
    return kb if rows is None else Given(kb, rows)


def rows_beside(kb: KB) -> Rows | None:
    """What the sidecar of a source tells, or of each of its parts; None where there is none."""
    files = [sidecars_of(str(one.path)) if one.path is not None else [] for one in kb.parts]
    if not any(files):
        return None
    found: dict[str, list[Row]] = {}
    for number, (part, beside) in enumerate(zip(kb.parts, files, strict=True)):
        met: set[bytes] = set()
        for file in beside:
            rows = [(id, row) for id, row in _rows(file) if row.line not in met]  # in place a link's go along
            met |= {row.line for _, row in rows if len(beside) > 1}
            for id, row in rows:
                own = _row_here(row, kb, number) if len(files) > 1 else row
                own = own._replace(block=row.block and part.format in BLOCKS)
                found.setdefault(kb.id_here(number, id), []).append(own)
    return found


def _row_here(row: Row, kb: KB, part: int) -> Row:
    """A row of a part of several sources, by what is called how in all of them."""
    return row._replace(path=kb.path_here(part, row.path), value=_value_here(row.value, kb, part))


def _value_here(value: Any, kb: KB, part: int) -> Any:
    match value:
        case Link():
            return replace(value, id=kb.id_here(part, value.id))
        case dict():
            return {key: _value_here(one, kb, part) for key, one in value.items()}
        case list():
            return [_value_here(one, kb, part) for one in value]
    return value


def _rows(file: FilePath) -> Iterator[tuple[str, Row]]:
    """The rows of a sidecar, each with the id that it is of."""
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
            raise LoadError(str(file), BROKEN, number) from None
        yield id, Row(path, value, line, block, id_path, bool(numbered), row.get("reviewed") == "corrected")


def _given(entity: Entity, rows: list[Row], *, cells: bool, beside: bool) -> Entity:
    """An entity without the values that stand in it as they were filled in."""
    several = (standing(entity.tree, row.path, row.value, cells=cells, beside=beside) for row in rows)
    found = {path: value for one in several for path, value in one.items()}
    made = {path: one for path, one in found.items() if not any(path[:length] in found for length in range(len(path)))}
    if not made:
        return entity
    tree = with_values(entity.tree, {})
    for path in reversed(made):
        _remove(tree, path)
    if beside:
        made = _closed(tree, made)
    return replace(entity, tree=tree, made={**(entity.made or {}), **leaf_by_leaf(made)})


def _closed(tree: Tree, made: Mapping[Path, Any]) -> dict[Path, Any]:
    """What was taken out, after all others of its list, which loses its gaps: of sets of values none has a place."""
    listed: dict[Path, list[Any]] = {}
    for path, value in made.items():
        if isinstance(path[-1], int):
            listed.setdefault(path[:-1], []).append(value)
    found = {path: value for path, value in made.items() if path[:-1] not in listed}
    for path, values in listed.items():
        holder = at(tree, path[:-1])
        rest = [one for one in holder.get(path[-1], ()) if one is not None]
        if rest:
            holder[path[-1]] = rest[0] if len(rest) == 1 else rest
        found |= {(*path, place): value for place, value in enumerate(values, len(rest))}
    return found


def leaf_by_leaf(values: Mapping[Path, Any]) -> dict[Path, Any]:
    """Values at paths, leaf by leaf."""
    return {(*path, *within[1:]): leaf for path, value in values.items() for within, leaf in walk({"": value})}


def corrected(entity: Entity, rows: list[Row]) -> Entity:
    """An entity of which the blocks tell what was filled in; what was corrected, or changed in them since, is given."""
    told = {path: leaf for row in rows for path, leaf in leaf_by_leaf({row.path: row.value}).items()}
    corrected = {path for row in rows if row.corrected for path in leaf_by_leaf({row.path: row.value})}
    given = {
        path: leaf
        for path, leaf in (entity.made or {}).items()
        if path in corrected
        or (
            path in told
            and not any(is_alike(leaf, one) for at, one in told.items() if without_places(at) == without_places(path))
        )  # a value that was taken out of a block changes the places of the others
    }
    if not given:
        return entity
    rest = {path: leaf for path, leaf in (entity.made or {}).items() if path not in given}
    return replace(entity, tree=with_values(entity.tree, given), made=rest or None)


def is_alike(value: Any, told: Any) -> bool:
    """Whether a value may be one that was filled in, and was spelt and read since: of another type it may."""
    one, other = _spelt(value), _spelt(told)
    return one == other or type(one) is not type(other)


def _spelt(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, *map(_spelt, astuple(value))
    return float(value) if is_number(value) else value


def _remove(tree: Tree, path: Path) -> None:
    """Take away what is at a path, and what was only there to hold it."""
    here: Any = tree
    for key in path[:-1]:
        here = here[key]
    last: Any = path[-1]
    if isinstance(here, list) and last != len(here) - 1:
        here[last] = None
        return
    del here[last]
    if not here and path[1:]:
        _remove(tree, path[:-1])
