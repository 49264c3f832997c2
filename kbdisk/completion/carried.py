"""Rows of earlier completions for the sidecar of a new target: the record of filled-in values follows them to every target.

The row of each value that still stands is copied. A value that only a block told of, without a row, gets a row of its id, path
and value alone. Where the target has blocks, and these values are written outside of them, the row says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path as FilePath
from typing import Any

from kbdisk.completion.earlier import BLOCKS, CELLS, Beside, Row, leaf_by_leaf, named, rows_beside
from kbdisk.completion.standing import standing
from kbdisk.entity import Entity, Path, show, with_values
from kbdisk.jsonio import LINE, dump_json, load_json
from kbdisk.loaders import KB
from kbdisk.loaders.values.tagged_json import encode

UNTOLD = {"block": False}  # of what stands outside of the blocks that its format has


class Carried:
    """What the sidecars of some sources tell, as the sidecar of a target of another name or format is to tell it."""

    def __init__(self, kbs: Sequence[KB], format: str, *, in_place: bool = False, anew: bool = False) -> None:
        told = not anew and len(kbs) == 1 and any(part.format in BLOCKS for part in kbs[0].parts)
        blocks = told and format in BLOCKS  # which stay blocks
        self.whole = in_place or (blocks and len(kbs[0].parts) == 1)
        self.plain = UNTOLD if format in BLOCKS and not self.whole else {}
        self.blocked: dict[str, Any] = {} if blocks else self.plain
        kept = len(kbs) == 1 and kbs[0].format == format
        self.lost = (
            () if kept and not anew else ("edits",) if kept else ("was", "edits")
        )  # what is true of another text
        self.cells = any(kb.format in CELLS for kb in kbs)
        self.beside = any(len(kb.parts) > 1 for kb in kbs)
        rows_of: dict[str, list[Row]] = {}
        self.met: set[str] = set()
        for kb in kbs:
            for id, rows in (rows_beside(kb) or {}).items():
                for name in (id, f"{FilePath(kb.name).name}#{id}") if len(kbs) > 1 else (id,):
                    rows_of.setdefault(name, []).extend(rows)
        self.rows = Beside(rows_of, kbs)

    def of(self, entity: Entity) -> Iterator[bytes]:
        """The lines that tell of what was filled in an entity before; in place, or where blocks do, too, all there are."""
        rows = self.rows.of(entity)
        self.met.update(self.rows.ids(entity))
        if self.whole:
            return (row.line + b"\n" for row in rows)
        return iter(self._standing(entity, rows) if entity.made else ())

    def rest(self) -> Iterator[bytes]:
        """Where all of a source stays, the lines that tell of entities which were skipped: mended they are there again."""
        skipped = (rows for id, rows in self.rows.rows.items() if id not in self.met) if self.whole else ()
        return (row.line + b"\n" for rows in skipped for row in rows)

    def _standing(self, entity: Entity, rows: Sequence[Row]) -> list[bytes]:
        rest = dict(entity.made or {})
        path_named: Callable[[Path], Path] = entity.source.path_named if entity.source is not None else tuple
        tree = with_values(entity.tree, rest)
        told: list[tuple[dict[str, Any], bool, Path, Any]] = []
        for row in reversed(rows):  # of one place the last row tells
            for path, value in standing(
                tree, path_named(row.path), row.value, cells=self.cells, beside=self.beside
            ).items():
                leaves = [leaf for leaf, one in leaf_by_leaf({path: value}).items() if one is not None]
                if all(leaf in rest for leaf in leaves):
                    rest = {leaf: one for leaf, one in rest.items() if leaf not in leaves}
                    told.append((load_json(row.line), row.block, path, value))
        told = [*reversed(told), *(({}, True, path, value) for path, value in rest.items())]
        return [self._line(entity, *each) for each in told]

    def _line(self, entity: Entity, row: dict[str, Any], block: bool, path: Path, value: Any) -> bytes:
        row = {key: one for key, one in row.items() if key not in ("block", "numbered", "id_path", *self.lost)}
        row = {**row, "id": entity.id, "path": show(path), "value": encode(value), **named(entity)}
        return dump_json(row | (self.blocked if block else self.plain), LINE)
