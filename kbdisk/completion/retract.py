"""Retraction: filled values are taken out of a file, by its blocks of RDF or by the sidecar beside it.

A value is taken out where it stands as it was written. A value that somebody changed since stays, and its row is removed.
The text that stood in the place of a value comes back as it was, to the byte in formats that are not re-serialised.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import IO, Any, BinaryIO, NamedTuple

from kbdisk.atomic import sync_folder
from kbdisk.completion.sidecar import (
    Row,
    RowsOfEntities,
    leaf_by_leaf,
    may_be_same,
    sidecar_rows,
    standing_of,
    value_at,
    with_changes_given,
)
from kbdisk.entity import Entity, Path, show, without_places
from kbdisk.errors import ConfigError, LoadError, WriteError
from kbdisk.inspection import is_class
from kbdisk.jsonio import load_json
from kbdisk.loaders import KB, format_row
from kbdisk.loaders.files import compressing, compression_of, sidecar_of, sidecars_of, stored_length, temporary, writing
from kbdisk.loaders.kb import Edit, Placeless, Retraction
from kbdisk.schemas.text.names import refuse_unmet

NOTHING_FILLED = "expected a block of kbdisk, or {} beside it, got neither, so the filled values are unknown. Name the file that kbdisk complete wrote."
NOT_AS_WRITTEN = (
    "expected the text that kbdisk complete wrote, got a changed or newly serialised text, and from {} filled values cannot be"
    " taken out then. Take them out by hand; {} lists them."
)
CORRECTED_AT_ONCE = (
    "has values that were corrected in a review, and stay: {} gives all values back at once. Take out by hand the values that"
    " {} lists."
)
ONLY_AT_ONCE = "is not for {}, which gives all values back at once. Leave it out."
OUTSIDE = "stands outside of the blocks of kbdisk, in a file that was written anew from another format"


class Filling(NamedTuple):
    """A value that kbdisk filled in, and where."""

    id: str
    path: Path
    value: Any


class Change(NamedTuple):
    """A value that somebody changed since it was filled in."""

    id: str
    path: Path
    value: Any  # that was filled in
    now: Any


@dataclass
class Retractable:
    """The values that can be taken out of a file, and those that stay."""

    kb: KB
    retractions: list[Retraction] = field(default_factory=list)
    fillings: list[Filling] = field(default_factory=list)
    changed: list[Change] = field(default_factory=list)
    left: list[Placeless] = field(default_factory=list)
    lines: dict[tuple[str, Path], bytes] = field(default_factory=dict)  # of the sidecar, that go with a value
    dropped: set[bytes] = field(default_factory=set)  # lines of values that are no longer in the file
    edits: list[list[Edit]] = field(default_factory=list)  # of each completion, where all values go at once


def retractable(kb: KB, only: Sequence[Path] = (), classes: Sequence[str] = ()) -> Retractable:
    """The filled values of a file, at these paths and of entities of these classes, if any; LoadError where nothing records them."""
    rows = sidecar_rows(kb)
    if rows is None and not getattr(kb, "is_completed", False):
        raise LoadError(kb.name, NOTHING_FILLED.format(sidecar_of(kb.name).name))
    for option, chosen in ("--only", only), ("--class", classes):
        if chosen and format_row(kb.format).is_restored_at_once:
            raise ConfigError(option, ONLY_AT_ONCE.format(kb.format))
    if format_row(kb.format).is_restored_at_once and any(
        row.corrected for entity_rows in (rows or {}).values() for row in entity_rows
    ):
        raise LoadError(kb.name, CORRECTED_AT_ONCE.format(kb.format, sidecar_of(kb.name).name))
    plan, rows_of_entities = Retractable(kb), RowsOfEntities(rows or {}, [kb])
    paths: dict[Path, None] = {}

    def is_wanted(path: Path) -> bool:
        paths[path] = None
        return not only or any(_is_at(path, wanted) for wanted in only)

    ids_read: set[str] = set()
    classes_read: dict[str, None] = {}
    for entity in kb:
        ids_read.update(rows_of_entities.ids(entity))
        classes_read |= dict.fromkeys(entity.classes)
        is_chosen = not classes or any(is_class(name, chosen) for name in entity.classes for chosen in classes)
        entity_rows = [row._replace(path=kb.path_named(row.path)) for row in rows_of_entities.of(entity)]
        entity_rows = [row for row in entity_rows if not row.corrected or format_row(kb.format).has_blocks]
        if format_row(kb.format).has_blocks:
            _take_blocks(plan, entity, entity_rows, is_wanted if is_chosen else _nothing)
        elif is_chosen:
            _take_rows(plan, entity, entity_rows, is_wanted)
    refuse_unmet(kb.name, tuple(classes), classes_read)
    if not kb.skipped and not classes:  # what could not be read is there again once it is mended
        lost = (row for id, entity_rows in (rows or {}).items() if id not in ids_read for row in entity_rows)
        plan.dropped.update(row.line for row in lost if is_wanted(kb.path_named(row.path)))
    for wanted in only:
        if not any(_is_at(path, wanted) for path in paths):
            known = ", ".join(sorted({show(without_places(path)) for path in paths}))
            raise ConfigError("--only", f"expected properties that kbdisk filled in ({known}), got {show(wanted)}.")
    return plan


def _nothing(path: Path) -> bool:
    return False


def _is_at(path: Path, wanted: Path) -> bool:
    """Whether a path begins with the wanted one. A wanted path without places stands for all places."""
    return path[: len(wanted)] == wanted or without_places(path)[: len(wanted)] == wanted


def _take_blocks(plan: Retractable, entity: Entity, rows: list[Row], is_wanted: Callable[[Path], bool]) -> None:
    """Take the values of blocks, without those that were changed."""
    filled = dict(entity.made or {})
    changed_leaves = {
        path: leaf for path, leaf in filled.items() if path not in (with_changes_given(entity, rows).made or {})
    }
    values = {path: (leaf, None) for path, leaf in filled.items() if path not in changed_leaves and is_wanted(path)}
    if filled:
        plan.retractions.append(Retraction(entity, values))
    plan.fillings += [Filling(entity.id, path, leaf) for path, (leaf, _) in values.items()]
    recorded = {path: leaf for row in rows for path, leaf in leaf_by_leaf({row.path: row.value}).items()}
    plan.changed += [
        Change(entity.id, path, recorded[path], leaf)
        for path, leaf in changed_leaves.items()
        if is_wanted(path) and not may_be_same(leaf, recorded[path])
    ]
    for row in rows:
        if row.corrected or not is_wanted(row.path):
            continue
        if not row.block:
            if standing_of(entity, row.path, row.value, cells=False):
                plan.left.append((entity.id, row.path, OUTSIDE))
            else:
                plan.dropped.add(row.line)
        elif any(path[: len(row.path)] == row.path for path in values):
            plan.lines[entity.id, row.path] = row.line
        else:
            plan.dropped.add(row.line)


def _take_rows(plan: Retractable, entity: Entity, rows: list[Row], is_wanted: Callable[[Path], bool]) -> None:
    """Take the values of rows that are unchanged in the source; of several rows of one place the last counts."""
    values: dict[Path, tuple[Any, Any]] = {}
    cells, beside = format_row(plan.kb.format).has_cells, plan.kb.has_sets
    for row in rows:
        data = load_json(row.line)
        if "edits" in data:
            plan.edits.append([(place, before, now) for place, before, now in data["edits"]])
    for row in reversed(rows):
        if not is_wanted(row.path):
            continue
        if row.path in values:
            plan.dropped.add(row.line)
        elif standing_of(entity, row.path, row.value, cells=cells, beside=beside):
            values[row.path] = row.value, load_json(row.line).get("was")
            plan.lines[entity.id, row.path] = row.line
        else:
            plan.dropped.add(row.line)
            now = value_at(entity.tree, row.path)
            if now is not None and all(change[:2] != (entity.id, row.path) for change in plan.changed):
                plan.changed.append(Change(entity.id, row.path, row.value, now))
    if values:
        values = dict(reversed(values.items()))
        plan.retractions.append(Retraction(entity, values))
        plan.fillings += [Filling(entity.id, path, value) for path, (value, _) in values.items()]


# ---------------------------------------------------------------- writing


def retract(plan: Retractable) -> list[Placeless]:
    """Write the file without its fillings, then its sidecar without their rows; returns the values that stay, and why.

    Wherever this stops, every filled value that stands is recorded. Blocks record their values themselves, so that their
    sidecar is replaced first; any other file is replaced before its sidecar.
    """
    kb = plan.kb
    assert kb.path is not None
    with temporary() as text, ExitStack() as several:
        staying = [*plan.left, *_restored(plan, text)]
        stay = {(id, path) for id, path, _ in staying}
        dropped_lines = {line for place, line in plan.lines.items() if place not in stay} | plan.dropped
        if format_row(kb.format).has_blocks:
            _write_text(kb, text, several)
        for beside in sidecars_of(kb.path):
            _write_rest(beside, dropped_lines, several)
        if not format_row(kb.format).has_blocks:
            _write_text(kb, text, several)
        kb.refuse_changed()
    plan.fillings = [filling for filling in plan.fillings if (filling.id, filling.path) not in stay]
    return staying


def _restored(plan: Retractable, text: BinaryIO) -> list[Placeless]:
    """Write the text of the file without its fillings; returns the values that stay, and why."""
    kb = plan.kb
    if not format_row(kb.format).is_restored_at_once:
        return kb.restore(plan.retractions, text)
    from kbdisk.loaders.rdf import retract
    from kbdisk.loaders.rdf.file import RdfFile

    assert isinstance(kb, RdfFile)
    if not plan.changed and plan.edits and retract.undo_edits(kb, plan.edits, text):
        return []
    raise LoadError(kb.name, NOT_AS_WRITTEN.format(kb.format, sidecar_of(kb.name).name))


def _write_rest(file: FilePath, dropped_lines: set[bytes], several: ExitStack) -> None:
    """Write a sidecar without some of its lines; remove it where no line is left."""
    kept_lines = [
        line for line in file.read_bytes().splitlines(keepends=True) if line.rstrip(b"\r\n") not in dropped_lines
    ]
    if kept_lines:
        with writing(file, several=several) as stream:
            stream.writelines(kept_lines)
        return

    def remove(fault: type[BaseException] | None, *_: object) -> None:
        if fault is not None:
            return
        try:
            file.unlink(missing_ok=True)
            sync_folder(file.absolute().parent)
        except OSError as error:
            raise WriteError(str(file), f"cannot be removed: {(error.strerror or str(error)).lower()}.") from error

    several.push(remove)


def _write_text(kb: KB, text: IO[bytes], several: ExitStack) -> None:
    """Write a text, compressed as its file is: by the stored bytes, where the text is the beginning of what they hold."""
    assert kb.path is not None
    kind = compression_of(str(kb.path))
    length = None if kind is None else stored_length(kb.path, kind, text)
    with writing(kb.path, several=several) as file:
        if length is not None:
            with kb.path.open("rb") as stored:
                file.write(stored.read(length))
            return
        text.seek(0)
        with compressing(file, kind) as stream:
            shutil.copyfileobj(text, stream, 1 << 20)
