"""What an earlier completion filled in: of JSON and tables the sidecar beside them tells it, RDF has blocks that do.

A value is taken for filled in while it stands as it was written. What somebody changed since is theirs, and given: in a
block, too, where the sidecar tells another value of its place. Of a place that it does not tell the block is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, is_dataclass, replace
from decimal import Decimal
from pathlib import Path as FilePath
from typing import Any

import orjson

from kbdisk.entity import Entity, Path, Tree, at, read_path, walk, with_values, without_places
from kbdisk.errors import LoadError
from kbdisk.loaders import KB
from kbdisk.loaders.tagged import decode
from kbdisk.loaders.target import sidecar_of

TABLES = ("json", "jsonl", "csv", "tsv", "parquet")
BROKEN = (
    "expected a value that kbdisk complete filled in, got something else."
    " Bring the file back, or take the line out: what no line tells of may count as given, and be learnt from."
)
Rows = Mapping[str, list[tuple[Path, Any]]]  # id -> what was put where


class Given(Iterable[Entity]):
    """The entities of a source without what was filled in them: that is in their `made`. Read again and again, as a KB is."""

    def __init__(self, kb: KB, rows: Rows) -> None:
        self.kb, self.rows = kb, rows

    def __iter__(self) -> Iterator[Entity]:
        apart = _given if self.kb.format in TABLES else _corrected
        return (apart(entity, self.rows.get(entity.id, [])) for entity in self.kb)


def given(kb: KB) -> Iterable[Entity]:
    """The entities of a source, with nothing in them that kbdisk has filled in by what stands beside it."""
    file = sidecar_of(str(kb.path)) if kb.path is not None else None
    return Given(kb, _rows(file)) if file is not None and file.is_file() else kb


def _rows(file: FilePath) -> Rows:
    found: dict[str, list[tuple[Path, Any]]] = {}
    try:
        data = file.read_bytes()
    except OSError as error:
        raise LoadError(str(file), f"cannot be read: {(error.strerror or str(error)).lower()}.") from None
    for number, line in enumerate(data.splitlines(), 1):
        try:
            row = orjson.loads(line)
            id, path, value = str(row["id"]), read_path(row["path"]), decode({"": row["value"]})[""]
        except (ValueError, TypeError, KeyError):
            raise LoadError(str(file), BROKEN, number) from None
        found.setdefault(id, []).append((path, value))
    return found


def _given(entity: Entity, rows: list[tuple[Path, Any]]) -> Entity:
    """An entity without the values that stand in it as they were filled in."""
    made = {path: value for path, value in rows if _stands(entity.tree, path, value)}
    if not made:
        return entity
    tree = with_values(entity.tree, {})
    for path in reversed(made):
        _remove(tree, path)
    leaves = {(*path, *within[1:]): leaf for path, value in made.items() for within, leaf in walk({"": value})}
    return replace(entity, tree=tree, made={**(entity.made or {}), **leaves})


def _corrected(entity: Entity, rows: list[tuple[Path, Any]]) -> Entity:
    """An entity of which the blocks tell what was filled in; what was changed in them since is given."""
    told = {(*path, *within[1:]): leaf for path, value in rows for within, leaf in walk({"": value})}
    given = {
        path: leaf
        for path, leaf in (entity.made or {}).items()
        if path in told
        and not any(
            _alike(leaf, one) for at, one in told.items() if without_places(at) == without_places(path)
        )  # a value that was taken out of a block changes the places of the others
    }
    if not given:
        return entity
    rest = {path: leaf for path, leaf in (entity.made or {}).items() if path not in given}
    return replace(entity, tree=with_values(entity.tree, given), made=rest or None)


def _alike(value: Any, told: Any) -> bool:
    """Whether a value may be one that was filled in, and was spelt and read since: of another type it may."""
    one, other = _spelt(value), _spelt(told)
    return one == other or type(one) is not type(other)


def _spelt(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, *map(_spelt, astuple(value))
    return float(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else value


def _stands(tree: Tree, path: Path, value: Any) -> bool:
    """Whether a value is at its place, and nothing else is there. A table has places for more than there is."""
    try:
        return _leaves(at(tree, path)) == _leaves(value)
    except KeyError:
        return False


def _leaves(value: Any) -> dict[Path, tuple[bool, Any]]:
    """What there is of a value; to Python true is 1."""
    return {path: (isinstance(one, bool), one) for path, one in walk({"": value}) if one is not None}


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
