"""What an earlier completion filled in, of sources whose text cannot tell: of JSON and tables the sidecar beside them does.

A value is taken for filled in while it stands as it was written. What somebody changed since is theirs, and given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

import orjson

from kbdisk.completion.provenance import sidecar_of
from kbdisk.entity import Entity, Path, Tree, at, read_path, walk, with_values
from kbdisk.errors import LoadError
from kbdisk.loaders import KB
from kbdisk.loaders.tagged import decode

TABLES = ("json", "jsonl", "csv", "tsv", "parquet")
Rows = Mapping[str, list[tuple[Path, Any]]]  # id -> what was put where


class Given(Iterable[Entity]):
    """The entities of a source without what was filled in them: that is in their `made`. Read again and again, as a KB is."""

    def __init__(self, kb: KB, rows: Rows) -> None:
        self.kb, self.rows = kb, rows

    def __iter__(self) -> Iterator[Entity]:
        return (_given(entity, self.rows.get(entity.id, [])) for entity in self.kb)


def given(kb: KB) -> Iterable[Entity]:
    """The entities of a source, with nothing in them that kbdisk has filled in by what stands beside it."""
    file = sidecar_of(str(kb.path)) if kb.format in TABLES and kb.path is not None else None
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
            id, path, value = row["id"], read_path(row["path"]), decode({"": row["value"]})[""]
        except (ValueError, TypeError, KeyError):
            problem = "expected a value that kbdisk complete filled in, got something else. Move the file away."
            raise LoadError(str(file), problem, number) from None
        found.setdefault(id, []).append((path, value))
    return found


def _given(entity: Entity, rows: list[tuple[Path, Any]]) -> Entity:
    """An entity without the values that stand in it as they were filled in."""
    made = [(path, value) for path, value in rows if _stands(entity.tree, path, value)]
    if not made:
        return entity
    tree = with_values(entity.tree, {})
    for path, _ in reversed(made):
        _remove(tree, path)
    leaves = {(*path, *within[1:]): leaf for path, value in made for within, leaf in walk({"": value})}
    return replace(entity, tree=tree, made={**(entity.made or {}), **leaves})


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
