"""Which way to write: the source's own bytes with what is new in them, or everything anew from the trees."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from kbdisk import loaders
from kbdisk.entity import Completion, Entity
from kbdisk.errors import ConfigError, WriteError
from kbdisk.loaders.kb import KB, Report
from kbdisk.loaders.target import compressing, compression_of, without_compression, writing


@dataclass
class Plan:
    """What will be written where."""

    items: Iterable[Entity | Completion]
    target: str
    kb: KB | None  # whose bytes are kept; None: everything is written anew
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
    ) -> Plan:
        """Decide, and refuse what makes no sense."""
        kb, items = _origin(items)
        told = format or loaders.format_of(without_compression(str(target)))
        if told is None and (kb is None or str(target) != "-"):
            raise ConfigError(str(target), "the name does not tell the format. Say --format.")
        name = told or (kb.format if kb else "")
        if name not in loaders.FORMATS:
            known = ", ".join(sorted(loaders.FORMATS))
            raise ConfigError("--format", f"unknown format {name!r}. Known formats: {known}.")
        if insert and (kb is None or only_new or not kb.keeps(name)):
            raise ConfigError("--insert", "needs the format of the source, and all of it. Leave --insert out.")
        keeps = kb is not None and not only_new and kb.keeps(name)
        return cls(items, str(target), kb if keeps else None, name, only_new, insert)

    def run(self, *, force: bool, in_place: bool) -> Report:
        """Write, all or nothing."""
        source = self.kb.path if self.kb else _source_path(self.items)
        same = source is not None and Path(self.target).exists() and os.path.samefile(source, self.target)
        if same and not in_place:
            raise WriteError(self.target, "is the source itself. Say --in-place to change it.")
        with writing(self.target, replace=force or same) as file:
            return self._write(file)

    def _write(self, file: BinaryIO) -> Report:
        kind = compression_of(self.target)
        stored = self.kb.source if self.kb else None
        if self.kb is not None and stored is not None and self.kb.appends and not self.insert and stored.compression == kind:
            with stored.stored() as bytes_in:  # compressed or not, what was there stays to the byte
                shutil.copyfileobj(bytes_in, file, 1 << 20)
            with compressing(file, kind, lazily=True) as stream:
                return self.kb.append(self.items, stream)  # type: ignore[arg-type]
        with compressing(file, kind) as stream:
            if self.kb is not None:
                return self.kb.splice(self.items, stream, self.insert)  # type: ignore[arg-type]
            return loaders.module_of(self.format).write(self.items, stream, self.format, self.only_new)


def _origin(items: KB | Iterable[Entity | Completion]) -> tuple[KB | None, Iterable[Entity | Completion]]:
    """The knowledge base that is to be kept, if one is, and what is filled in it."""
    if isinstance(items, KB):
        return items, ()
    if isinstance(items, list | tuple):
        items = sorted(items, key=_position) if all(isinstance(item, Completion) for item in items) else items
    rest = iter(items)
    first = next(rest, None)
    if first is None:
        return None, ()
    kb = first.entity.source if isinstance(first, Completion) else None
    return kb, itertools.chain([first], rest)


def _position(item: Entity | Completion) -> int:
    return item.entity.position if isinstance(item, Completion) else item.position


def _source_path(items: Iterable[Entity | Completion]) -> Path | None:
    return items.path if isinstance(items, KB) else None
