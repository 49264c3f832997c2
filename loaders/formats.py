"""FORMATS, the table of formats, and how each is loaded and written.

To add a format: its reader (a `KB`), its writer, and one row. docs/extending.md adds one from outside.

Writing keeps the bytes of the source, with the new values in them, where the format stays the same; from one RDF format
to another it keeps every triple; else it serialises everything anew from the trees.
"""

from __future__ import annotations

import contextlib
import copy
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeAlias, cast

from kbdisk.entity import CLASSES, Completion, Entity, Path, is_fillable, read_path, with_made
from kbdisk.errors import ConfigError, KBDiskWarning, LoadError, WriteError, option_name, setting
from kbdisk.loaders.files import (
    Progress,
    Source,
    compressing,
    compression_of,
    keep_before,
    refuse_in_place,
    refuse_long_names,
    without_compression,
    writing,
)
from kbdisk.loaders.kb import GIVEN, KB, MISSING, Options, Report, Units, origins_of
from kbdisk.locks import locked
from kbdisk.plugins import Part, Table, load_part

if TYPE_CHECKING:
    import rdflib


@dataclass(frozen=True)
class Format:
    """A row of FORMATS: the suffixes of its files, the module that reads and writes it, and its properties."""

    suffixes: tuple[str, ...]
    module: Part  # a FormatModule; its name where it is imported when first used
    is_rdf: bool = False
    is_written: bool = True
    may_be_empty: bool = False  # whether an empty file is valid, and has no entities
    has_brackets: bool = False  # anonymous brackets `[ ... ]`, into which a value can go
    has_blocks: bool = False  # whether filled values stand in marked blocks
    is_restored_at_once: bool = False  # whether filled values are taken out all at once, or not at all
    has_records: bool = False  # whether each record is an entity, whatever its id
    counts_records: bool = False  # whether the position of an entity is its number, not its line
    has_cells: bool = False  # whether records are rows of cells


class FormatModule(Protocol):
    """The functions of a format's module."""

    def load(self, source: Source, format: str, options: Options) -> KB:
        """A KB over the source."""

    def write(self, items: Iterable[Entity | Completion], stream: Any, format: str, only_new: bool) -> Report:
        """Serialise entities, with the values filled in them, from their trees alone."""


RDF = "kbdisk.loaders.rdf"

FORMATS: Table[Format] = Table(
    "kbdisk.formats",
    {
        "json": Format((".json",), "kbdisk.loaders.json.read", has_records=True, counts_records=True),
        "jsonl": Format((".jsonl", ".ndjson"), "kbdisk.loaders.json.read", has_records=True),
        "csv": Format((".csv",), "kbdisk.loaders.table.read", has_records=True, counts_records=True, has_cells=True),
        "tsv": Format(
            (".tsv", ".tab"), "kbdisk.loaders.table.read", has_records=True, counts_records=True, has_cells=True
        ),
        "parquet": Format(
            (".parquet", ".pq"), "kbdisk.loaders.arrow.read", has_records=True, counts_records=True, has_cells=True
        ),
        "turtle": Format((".ttl", ".turtle"), RDF, is_rdf=True, may_be_empty=True, has_brackets=True, has_blocks=True),
        "ntriples": Format((".nt",), RDF, is_rdf=True, may_be_empty=True, has_blocks=True),
        "nquads": Format((".nq",), RDF, is_rdf=True, may_be_empty=True, has_blocks=True),
        "trig": Format((".trig",), RDF, is_rdf=True, may_be_empty=True, has_brackets=True, has_blocks=True),
        "n3": Format((".n3",), RDF, is_rdf=True, may_be_empty=True, has_brackets=True, has_blocks=True),
        "rdfxml": Format((".rdf", ".owl", ".xml", ".rdfs"), RDF, is_rdf=True, is_restored_at_once=True),
        "jsonld": Format((".jsonld",), RDF, is_rdf=True, is_restored_at_once=True),
        "wikibase-json": Format((), "kbdisk.loaders.wikibase.json_dump", is_written=False),
        "sparql": Format((), "kbdisk.loaders.sparql", is_written=False),
        "sparql-update": Format((".ru",), RDF, is_rdf=True),
        "triples": Format((), "kbdisk.loaders.triples"),
        "quickstatements": Format((".qs",), "kbdisk.loaders.wikibase.quickstatements"),
    },
    Format,
)
NO_FORMAT = Format((), None)  # of entities in memory


def format_row(format: str) -> Format:
    """The row of the format of a knowledge base."""
    return FORMATS.get(format, NO_FORMAT)


UNREAD_SUFFIXES = dict.fromkeys((".xlsx", ".xls", ".ods", ".numbers"), "spreadsheet") | dict.fromkeys(
    (".sqlite", ".sqlite3", ".db", ".mdb", ".accdb"), "database"
)  # where people keep tables, and no format here reads


def load(
    source: Any,
    *,
    format: str | None = None,
    id: str | None = None,
    items: str | None = None,
    language: str = "en",
    base: str | None = None,
    context: Mapping[str, bytes] | None = None,
    units: Mapping[str, str] | None = None,
    missing: Iterable[str] | None = None,
    encoding: str = "utf-8",
    classes: Iterable[str] = (),
    query: str | None = None,
    max_size: float | None = None,
    redirects: bool = False,
    skip_errors: bool = False,
    progress: Progress | None = None,
) -> KB:
    """A knowledge base over a file, `-`, a SPARQL endpoint, an rdflib graph, a data frame, a TriplesFactory of PyKEEN,
    a list of dicts, or bytes."""
    options = Options(
        id=_path(id, "--id") if id is not None else None,
        items=_path(items, "--items") if items is not None else None,
        language=language,
        base=base,
        context=context or {},
        units={_path(path, "units"): unit for path, unit in (units or {}).items()},
        missing=MISSING if missing is None else frozenset(missing),
        encoding=encoding,
        skip_errors=skip_errors,
        classes=tuple(classes),
        query=query,
        max_size=max_size,
        redirects=redirects,
    )
    format = format_named(format) if format is not None else None
    if isinstance(source, str) and source.startswith(("http://", "https://")):
        from kbdisk.loaders import sparql

        return sparql.load_endpoint(source, options)
    if not isinstance(source, str | bytes | os.PathLike):
        from kbdisk.loaders import memory

        return memory.load(source, options)
    data = Source(source)
    data.max_size = max_size
    data.progress = progress
    name = format or _recognised_triples(data) or format_of(data.name) or _refuse_unknown_name(data)
    if name == "json" and format is None:
        from kbdisk.loaders.wikibase import json_dump

        name = "wikibase-json" if json_dump.is_wikibase_json(data) else name
    if name in ("json", "jsonl") and format is None:
        from kbdisk.loaders.json.text import detect_layout

        name = detect_layout(data) or name
    if not FORMATS[name].may_be_empty:
        data.refuse_empty()
    data.progress = progress
    return module_of(name).load(data, name, options)


def write(
    items: KB | Iterable[Entity | Completion],
    target: str | os.PathLike[str] | rdflib.Graph,
    *,
    format: str | None = None,
    only_new: bool = False,
    insert: bool = False,
    force: bool = False,
    in_place: bool = False,
) -> Report:
    """Write a knowledge base, entities or completions.

    A knowledge base, or completions of its entities, keeps every byte of its source where the format
    stays the same: what was filled is spliced in or appended. From one RDF format to another every triple
    is kept. Plain entities are serialised anew. An rdflib Graph or Dataset as target is added to.
    """
    if not isinstance(target, str | os.PathLike):
        from kbdisk.loaders import rdf

        return rdf.write_graph(items, target, only_new, in_place)
    return WritePlan.for_items(items, target, format=format, only_new=only_new, insert=insert).run(
        force=force, in_place=in_place
    )


def together(kbs: Iterable[KB]) -> list[KB]:
    """The same sources, those of RDF joined in the place of the first; others take its vocabulary where RDF is written."""
    sources = list(kbs)
    joining = [n for n, kb in enumerate(sources) if kb.joins]
    if not joining:
        return sources
    first, *others = joining
    joined = sources[first]
    if others:
        from kbdisk.loaders.rdf.union import Union

        joined = Union([joined, *(sources[n] for n in others)])
    return [
        joined if n == first else _with_vocabulary_of(joined, kb) for n, kb in enumerate(sources) if n not in others
    ]


def named_by(kb: KB, path: Path) -> KB:
    """The same source, with the ids of its entities at a path, as with `id=`."""
    assert kb.source is not None
    renamed = module_of(kb.format).load(kb.source, kb.format, replace(kb.options, id=path))
    renamed.vocabulary_source = kb.vocabulary_source
    return renamed


def _with_vocabulary_of(vocabulary: KB, kb: KB) -> KB:
    result = copy.copy(kb)
    result.vocabulary_source = vocabulary
    return result


def module_of(format: str) -> FormatModule:
    """The module of a format, imported now."""
    return cast(FormatModule, load_part(FORMATS[format].module))


def format_named(name: str, shell: str = "from") -> str:
    """The format that a user names, by its name or a suffix: turtle, ttl; `shell` is the option of the command line."""
    format = name if name in FORMATS else format_of(f"x.{name}")
    if format is None:
        raise ConfigError(
            option_name("format", shell=shell), f"unknown format {name!r}. Known formats: {listed(FORMATS)}."
        )
    return format


def listed(formats: Iterable[str]) -> str:
    """The names of formats, to choose from."""
    return ", ".join(sorted(formats))


def format_of(name: str) -> str | None:
    """The format of a file by its name, or None."""
    suffix = _suffix(name)
    return next((format for format, row in FORMATS.items() if suffix and suffix in row.suffixes), None)


def _suffix(name: str) -> str:
    return FilePath(without_compression(name)).suffix.lower()


def _recognised_triples(source: Source) -> str | None:
    """The format of triples, where a file without a format of its own, or of a table, holds them for certain."""
    from kbdisk.loaders import triples

    if _suffix(source.name) not in triples.SUFFIXES:
        return None
    if triples.is_certain(source):
        return triples.FORMAT
    if format_of(source.name) is not None and triples.has_weights(source):
        warnings.warn(f"{source.name}: {WEIGHTS_IN_TABLE}", KBDiskWarning, stacklevel=4)
    return None


WEIGHTS_IN_TABLE = (
    "has the columns of triples, and a number in a fourth one: it is read as a table. "
    "To read links, keep three columns, as by cut -f 1-3."
)


def _refuse_unknown_name(source: Source) -> str:
    suffix = _suffix(source.name)
    if suffix in UNREAD_SUFFIXES:
        raise LoadError(source.name, f"a {UNREAD_SUFFIXES[suffix]} is not read. Save what is to be completed as CSV.")
    option = option_name("format", shell="from")
    raise LoadError(source.name, f"the name does not tell the format. Say {option}, one of: {listed(FORMATS)}.")


def _path(text: str, option: str) -> tuple[str | int, ...]:
    try:
        return read_path(text)
    except ValueError as error:
        raise ConfigError(option, f"{error}.") from None


# ---------------------------------------------------------------- which way to write


Beside: TypeAlias = Callable[[Report, contextlib.ExitStack], None]  # writes a file that belongs to the target
GRAPHS_LEFT_OUT = (
    "the names of graphs are left out, as only TriG, N-Quads and JSON-LD have any; what one entity has is merged"
)

FORMULAS_KEPT = "cells that a spreadsheet would run as formulas, kept as they are given: {:,}"


@dataclass
class WritePlan:
    """How items will be written to a target."""

    items: Iterable[Entity | Completion]
    target: str
    origins: tuple[KB, ...]  # the sources of the items, where they are known
    kb: KB | None  # the source that is kept, its bytes or its triples; None: everything is written anew
    format: str
    only_new: bool
    insert: bool

    @classmethod
    def for_items(
        cls,
        items: KB | Iterable[Entity | Completion],
        target: str | os.PathLike[str],
        *,
        format: str | None,
        only_new: bool,
        insert: bool,
        mixed: bool = False,
    ) -> WritePlan:
        """Decide how to write, and refuse options that contradict each other. `mixed` items come from several sources, none of
        which is written back."""
        origins, completions, items = origins_of(items, mixed)
        kb = origins[0] if len(origins) == 1 and not mixed else None
        name = format_of_target(kb, str(target), format)
        is_update = name == "sparql-update" and kb is not None and kb.updates and completions and items is not kb
        only_new = only_new or name == "quickstatements" or is_update  # the receiver has the other statements
        keeps_source = kb is not None and completions and not only_new and kb.keeps(name)
        if insert and not (keeps_source and kb is not None and kb.keeps_bytes(name)):
            raise ConfigError(setting("insert"), "needs the format of the source, and all of it. Leave it out.")
        if insert and not FORMATS[name].has_brackets:
            raise ConfigError(setting("insert"), f"{name} has no anonymous [ ... ]: it is for Turtle. Leave it out.")
        if items is kb and keeps_source:
            items = ()  # nothing is new
        return cls(items, str(target), origins, kb if keeps_source else None, name, only_new, insert)

    def run(self, *, force: bool, in_place: bool, beside: Beside | None = None) -> Report:
        """Write all or nothing, with the files that belong to the target."""
        is_source = self._is_source()
        if is_source and sum(len(kb.parts) for kb in self.origins) > 1:
            raise WriteError(self.target, "is one of several sources. Choose another target.")
        if is_source and not in_place:
            raise WriteError(self.target, f"is the source itself. Say {setting('in_place')} to change it.")
        if is_source:
            refuse_in_place(self.target)
        refuse_long_names(self.target)
        with locked(self.target):
            report = self._run(force, is_source, beside)
            for part in (part for kb in self.origins for part in kb.parts if is_source):
                if part.source is not None:
                    part.source.accept_change()
        return report

    def _run(self, force: bool, is_source: bool, beside: Beside | None) -> Report:
        """Write the target and the files beside it, which take their names once all of them are complete."""
        self._refuse_changed()
        with contextlib.ExitStack() as several:
            with writing(self.target, replace=force or is_source, several=several) as file:
                report = self._write(file)
                is_kept = report.written == 0 and self.kb is not None and self.kb.keeps_bytes(self.format)
                if is_source and is_kept and compression_of(self.target):  # compressed anew it would be other bytes
                    file.seek(0)
                    file.truncate()
                    file.write(FilePath(self.target).read_bytes())
            if is_source and not is_kept:
                report.before = keep_before(self.target, several)
            if beside is not None:
                beside(report, several)
            self._refuse_changed()
        return report

    def _refuse_changed(self) -> None:
        """LoadError where a source has changed since the items were read."""
        for kb in self.origins:
            kb.refuse_changed()

    def _is_source(self) -> bool:
        return any(_is_same(file, self.target) for kb in self.origins for file in kb.files)

    def _write(self, file: BinaryIO) -> Report:
        refused: list[tuple[str, Path, str]] = []
        if self.kb is not None and self.kb.options.units:
            self.items = Units(self.kb.options.units).bare(self.items, refused)
        compression = compression_of(self.target)
        if self.kb is not None:
            report = self._write_kept(self.kb, cast(Iterable[Completion], self.items), file, compression)
        else:
            module = module_of(self.format)
            is_rdf = FORMATS[self.format].is_rdf
            # writers of RDF and of new values alone look at the gaps themselves
            checks_gaps = self.only_new and (is_rdf or self.format == "quickstatements")
            with compressing(file, compression) as stream:
                items = self.items if checks_gaps else _fillable(self.items, refused)
                report = module.write(items, stream, self.format, self.only_new)
            if any(kb.names_graphs for kb in self.origins) and not is_rdf:
                warnings.warn(f"{self.target}: {GRAPHS_LEFT_OUT}", KBDiskWarning, stacklevel=2)
        report.unwritable += refused
        if report.formulas:
            warnings.warn(f"{self.target}: {FORMULAS_KEPT.format(report.formulas)}", KBDiskWarning, stacklevel=2)
        return report

    def _write_kept(self, kb: KB, completions: Iterable[Completion], file: BinaryIO, compression: str | None) -> Report:
        """The whole source with the new values: its bytes as they are stored, where possible."""
        keeps_bytes, source = kb.keeps_bytes(self.format), kb.source
        if keeps_bytes and kb.appends and not self.insert and source is not None and source.compression == compression:
            with source.stored() as source_bytes:
                shutil.copyfileobj(source_bytes, file, 1 << 20)
            with compressing(file, compression, lazily=True) as stream:
                return kb.append(completions, stream)
        with compressing(file, compression) as stream:
            if keeps_bytes:
                return kb.splice(completions, stream, self.insert)
            return kb.translate(completions, stream, self.format)


def format_of_target(kb: KB | None, target: str, named_format: str | None) -> str:
    """The format of a target: the wanted one, else that of a source with the same suffix, else by the target's name."""
    name = format_named(named_format, "to") if named_format else format_of(without_compression(target))
    if not named_format and kb is not None and kb.path is not None:
        is_same_format = name == format_of(without_compression(kb.path.name)) or _is_same(kb.path, target)
        name = kb.format if is_same_format or target == "-" else name
    if name is None:
        option = option_name("format", shell="to")
        known = listed(name for name, row in FORMATS.items() if row.is_written)
        raise ConfigError(target, f"the name does not tell the format. Say {option}, one of: {known}.")
    return name


def target_format(kbs: Sequence[KB], target: str | None, format: str | None) -> str:
    """The format of a target: the named one, else that of the sources; also where there is no target."""
    if target is None:
        return format or kbs[0].format
    kb = kbs[0] if len({kb.format for kb in kbs}) == 1 else None
    if target == "-" and kb is not None and not format:
        return kb.format
    return format_of_target(kb, target, format)


def _is_same(path: FilePath, target: str) -> bool:
    try:
        return target != "-" and path.samefile(target)
    except (OSError, ValueError):  # no such target yet; worse faults are reported when it is opened
        return False


def _fillable(
    items: Iterable[Entity | Completion], refused: list[tuple[str, Path, str]]
) -> Iterator[Entity | Completion]:
    """The items with the values of earlier completions, and without filled values for paths that have a value."""
    for item in items:
        if not isinstance(item, Completion):
            yield _add_made_values(item)
            continue
        classes = {path: filled.value for path, filled in item.filled.items() if path[:1] == CLASSES}
        entity = with_made(_add_made_values(item.entity), classes)
        fillable = {
            path: filled_value
            for path, filled_value in item.filled.items()
            if is_fillable(entity.tree, path, filled_value.value, filled_value.blank)
        }
        refused += [(entity.id, path, GIVEN) for path in item.filled if path not in fillable]
        yield Completion(entity, fillable)


def _add_made_values(entity: Entity) -> Entity:
    """An entity with the values that an earlier completion wrote into its source: they are kept like given values."""
    return replace(with_made(entity, entity.made), made=None) if entity.made else entity
