"""Which way to write: the source's own bytes with what is new in them, or everything anew from the trees."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any, BinaryIO, TypeAlias, cast

from kbdisk import loaders
from kbdisk.entity import Completion, Entity, Link, Path, is_fillable, with_values
from kbdisk.errors import ConfigError, KBDiskWarning, WriteError
from kbdisk.loaders.kb import GIVEN, KB, Report
from kbdisk.loaders.target import (
    compressing,
    compression_of,
    keep_before,
    refuse_in_place,
    refuse_long_names,
    without_compression,
    writing,
)
from kbdisk.loaders.units import Units
from kbdisk.locks import locked

Beside: TypeAlias = Callable[[Report, contextlib.ExitStack], None]  # writes a file that belongs to the target
NAMELESS = "the names of graphs are left out, as only TriG, N-Quads and JSON-LD have any; what one entity has is merged"

FORMULAS = "cells that a spreadsheet would run as formulas, kept as they are given: {:,}"
ONE = "kbdisk.loaders.together([kbdisk.load(a), kbdisk.load(b)])"
BRACKETS = ("turtle", "trig", "n3")  # formats with anonymous ones, into which a value can go


@dataclass
class Plan:
    """What will be written where."""

    items: Iterable[Entity | Completion]
    target: str
    origins: tuple[KB, ...]  # what the items were read from, where that is known
    kb: KB | None  # whose bytes are kept, or all that it says; None: everything is written anew
    format: str
    only_new: bool
    insert: bool

    @classmethod
    def of(
        cls,
        items: KB | Iterable[Entity | Completion],
        target: str | os.PathLike[str],
        *,
        format: str | None,
        only_new: bool,
        insert: bool,
        mixed: bool = False,
    ) -> Plan:
        """Decide, and refuse what makes no sense. What is mixed is of several sources, none of which is written back."""
        origins, completions, items = origins_of(items, mixed)
        kb = origins[0] if len(origins) == 1 and not mixed else None
        name = format_of_target(kb, str(target), format)
        updates = name == "sparql-update" and kb is not None and kb.updates and completions and items is not kb
        only_new = only_new or name == "quickstatements" or updates  # what it goes to has the rest
        keeps = kb is not None and completions and not only_new and kb.keeps(name)
        if insert and not (keeps and kb is not None and kb.keeps_bytes(name)):
            raise ConfigError("insert=True", "needs the format of the source, and all of it. Leave it out.")
        if insert and name not in BRACKETS:
            raise ConfigError("insert=True", f"{name} has no anonymous [ ... ]: it is for Turtle. Leave it out.")
        if items is kb and keeps:
            items = ()  # nothing is new
        return cls(items, str(target), origins, kb if keeps else None, name, only_new, insert)

    def run(self, *, force: bool, in_place: bool, beside: Beside | None = None) -> Report:
        """Write, all or nothing, with what is to stand beside the target."""
        same = self._is_source()
        if same and sum(len(one.parts) for one in self.origins) > 1:
            raise WriteError(self.target, "is one of several sources. Choose another target.")
        if same and not in_place:
            raise WriteError(self.target, "is the source itself. Say in_place=True to change it.")
        if same:
            refuse_in_place(self.target)
        refuse_long_names(self.target)
        with locked(self.target):
            report = self._run(force, same, beside)
            for one in (part for kb in self.origins for part in kb.parts if same):
                if one.source is not None:
                    one.source.accept_change()
        return report

    def _run(self, force: bool, same: bool, beside: Beside | None) -> Report:
        """Write the target and what stands beside it, which take their names once all of them are whole."""
        self._refuse_changed()
        with contextlib.ExitStack() as several:
            with writing(self.target, replace=force or same, several=several) as file:
                report = self._write(file)
                is_kept = report.written == 0 and self.kb is not None and self.kb.keeps_bytes(self.format)
                if same and is_kept and compression_of(self.target):  # compressed anew it would be other bytes
                    file.seek(0)
                    file.truncate()
                    file.write(FilePath(self.target).read_bytes())
            if same and not is_kept:
                report.before = keep_before(self.target, several)
            if beside is not None:
                beside(report, several)
            self._refuse_changed()
        return report

    def _refuse_changed(self) -> None:
        """LoadError where a source is no longer what the items were read from."""
        for one in self.origins:
            one.refuse_changed()

    def _is_source(self) -> bool:
        return any(_is_same(file, self.target) for one in self.origins for file in one.files)

    def _write(self, file: BinaryIO) -> Report:
        refused: list[tuple[str, Path, str]] = []
        if self.kb is not None and self.kb.options.units:
            self.items = Units(self.kb.options.units).bare(self.items, refused)
        report = self._written(file)
        report.unwritable += refused
        if report.formulas:
            warnings.warn(f"{self.target}: {FORMULAS.format(report.formulas)}", KBDiskWarning, stacklevel=2)
        return report

    def _written(self, file: BinaryIO) -> Report:
        kind = compression_of(self.target)
        if self.kb is not None:
            return self._kept(self.kb, cast(Iterable[Completion], self.items), file, kind)
        refused: list[tuple[str, Path, str]] = []
        module = loaders.module_of(self.format)
        with compressing(file, kind) as stream:
            own = self.only_new and self.format in {
                *loaders.RDF,
                "quickstatements",
            }  # which look at the gaps themselves
            items = self.items if own else _fillable(self.items, refused)
            report = module.write(items, stream, self.format, self.only_new)
        if any(one.names_graphs for one in self.origins) and self.format not in loaders.RDF:
            warnings.warn(f"{self.target}: {NAMELESS}", KBDiskWarning, stacklevel=2)
        report.unwritable += refused
        return report

    def _kept(self, kb: KB, completions: Iterable[Completion], file: BinaryIO, kind: str | None) -> Report:
        """All that the source says, with what is new: its bytes as they are stored, where that can be."""
        own_bytes, stored = kb.keeps_bytes(self.format), kb.source
        if own_bytes and kb.appends and not self.insert and stored is not None and stored.compression == kind:
            with stored.stored() as bytes_in:
                shutil.copyfileobj(bytes_in, file, 1 << 20)
            with compressing(file, kind, lazily=True) as stream:
                return kb.append(completions, stream)
        with compressing(file, kind) as stream:
            if own_bytes:
                return kb.splice(completions, stream, self.insert)
            return kb.translate(completions, stream, self.format)


def format_of_target(kb: KB | None, target: str, told: str | None) -> str:
    """The format of a target: as told, else that of a source with such a name, else by its own name."""
    name = loaders.format_named(told) if told else loaders.format_of(without_compression(target))
    if not told and kb is not None and kb.path is not None:
        same = name == loaders.format_of(without_compression(kb.path.name)) or _is_same(kb.path, target)
        name = kb.format if same or target == "-" else name
    if name is None:
        known = loaders.listed(loaders.FORMATS.keys() - loaders.ONLY_READ)
        raise ConfigError(target, f"the name does not tell the format. Say --format, one of: {known}.")
    return name


def target_format(kbs: Sequence[KB], target: str | None, format: str | None) -> str:
    """The format of a target: as named, else that of the sources; without a target, too."""
    if target is None:
        return format or kbs[0].format
    kb = kbs[0] if len({kb.format for kb in kbs}) == 1 else None
    if target == "-" and kb is not None and not format:
        return kb.format
    return format_of_target(kb, target, format)


def _is_same(path: FilePath, target: str) -> bool:
    try:
        return target != "-" and path.samefile(target)
    except (OSError, ValueError):  # no such target yet; anything worse is said when it is opened
        return False


def _fillable(
    items: Iterable[Entity | Completion], refused: list[tuple[str, Path, str]]
) -> Iterator[Entity | Completion]:
    """The items with what was filled in them earlier, and without values for what stands there already."""
    for item in items:
        if not isinstance(item, Completion):
            yield _whole(item)
            continue
        entity = _whole(item.entity)
        good = {path: one for path, one in item.filled.items() if is_fillable(entity.tree, path, one.value, one.blank)}
        refused += [(entity.id, path, GIVEN) for path in item.filled if path not in good]
        yield Completion(entity, good)


def _whole(entity: Entity) -> Entity:
    """An entity with what an earlier completion wrote into its source, which is no more lost than what is given."""
    return replace(entity, tree=with_values(entity.tree, entity.made), made=None) if entity.made else entity


def origins_of(
    items: KB | Iterable[Entity | Completion], mixed: bool = False
) -> tuple[tuple[KB, ...], bool, Iterable[Entity | Completion]]:
    """What the items were read from, whether they are that with something filled in, and the items.

    Of a list it is all that its items were read from; of what comes one by one it is what the first was, and the
    others are to be of the same unless they are `mixed`. With an item that was read from nothing it is something new.
    """
    if isinstance(items, KB):
        return (items,), True, items
    if not isinstance(items, list | tuple):
        rest = iter(items)
        first = next(rest, None)
        some = [] if first is None else [first]
        return _sources(some), isinstance(first, Completion), _alike(itertools.chain(some, rest), mixed)
    found = _sources(items)
    completions = bool(items) and all(isinstance(item, Completion) and _entity(item).source for item in items)
    if sum(one.joins for one in found) > 1:
        _refuse_alike(items)
    return found, completions, sorted(items, key=_position) if completions and len(found) == 1 else items


def _sources(items: Iterable[Entity | Completion]) -> tuple[KB, ...]:
    """What items were read from, each once."""
    every = (source for entity in map(_entity, items) for source in (entity.source, *entity.besides))
    return tuple({id(source): source for source in every if source is not None}.values())


def _refuse_alike(items: Iterable[Entity | Completion]) -> None:
    """WriteError where blank nodes of two sources are called alike: they are not the same."""
    whose: dict[str, KB | None] = {}
    for entity in map(_entity, items):
        for label in (entity.id, *_named(entity)):
            if label.startswith("_:") and whose.setdefault(label, entity.source) is not entity.source:
                raise WriteError(
                    "items", f"blank nodes of several sources are called {label}. Read these as one: {ONE}."
                )


def _named(entity: Entity) -> Iterator[str]:
    """What an entity's tree calls nodes."""
    rest: list[Any] = [entity.tree]
    while rest:
        part = rest.pop()
        if isinstance(part, Link):
            yield part.id
        elif isinstance(part, dict):
            yield str(part.get("@id", ""))
            rest.extend(part.values())
        elif isinstance(part, list):
            rest.extend(part)


def _alike(items: Iterator[Entity | Completion], mixed: bool) -> Iterator[Entity | Completion]:
    """The items; WriteError for one of another source than the first, of which there would be no trace."""
    first: list[KB | None] = []
    for item in items:
        source = _entity(item).source
        if not mixed and ((first and source is not first[0]) or _entity(item).besides):
            raise WriteError("items", "expected entities of one source, got some of another. Pass them as a list.")
        first = first or [source]
        yield item


def _entity(item: Entity | Completion) -> Entity:
    return item.entity if isinstance(item, Completion) else item


def _position(item: Entity | Completion) -> int:
    return _entity(item).position
