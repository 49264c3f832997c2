"""Files and stores to entities, and completions back to the same format. Never imports torch.

To add a format: one module with its reader (a `KB`) and its writer, and one row in FORMATS.
"""

from __future__ import annotations

import copy
import importlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from kbdisk.entity import Completion, Entity, Path, read_path
from kbdisk.errors import ConfigError, LoadError
from kbdisk.loaders.kb import KB, Report
from kbdisk.loaders.options import MISSING, Options
from kbdisk.loaders.source import Progress, Source
from kbdisk.loaders.target import without_compression

if TYPE_CHECKING:
    import rdflib

__all__ = ["FORMATS", "KB", "MISSING", "Options", "Report", "Source", "load", "named_by", "together", "write"]


class Format(NamedTuple):
    """A format: its file suffixes and the module that reads and writes it, imported when first used."""

    suffixes: tuple[str, ...]
    module: str


class FormatModule(Protocol):
    """What a format's module offers."""

    def load(self, source: Source, format: str, options: Options) -> KB:
        """A KB over the source."""

    def write(self, items: Iterable[Entity | Completion], stream: Any, format: str, only_new: bool) -> Report:
        """Serialise entities (with what was filled in them) from their trees alone."""


FORMATS: dict[str, Format] = {
    "json": Format((".json",), "kbdisk.loaders.json"),
    "jsonl": Format((".jsonl", ".ndjson"), "kbdisk.loaders.jsonl"),
    "csv": Format((".csv",), "kbdisk.loaders.table"),
    "tsv": Format((".tsv", ".tab"), "kbdisk.loaders.table"),
    "parquet": Format((".parquet", ".pq"), "kbdisk.loaders.parquet"),
    "turtle": Format((".ttl", ".turtle"), "kbdisk.loaders.rdf"),
    "ntriples": Format((".nt",), "kbdisk.loaders.rdf"),
    "nquads": Format((".nq",), "kbdisk.loaders.rdf"),
    "trig": Format((".trig",), "kbdisk.loaders.rdf"),
    "n3": Format((".n3",), "kbdisk.loaders.rdf"),
    "rdfxml": Format((".rdf", ".owl", ".xml", ".rdfs"), "kbdisk.loaders.rdf"),
    "jsonld": Format((".jsonld",), "kbdisk.loaders.rdf"),
    "wikibase-json": Format((), "kbdisk.loaders.wikibase_json"),
    "sparql": Format((), "kbdisk.loaders.sparql"),
    "sparql-update": Format((".ru",), "kbdisk.loaders.rdf"),
    "quickstatements": Format((".qs",), "kbdisk.loaders.quickstatements"),
}

ELSEWHERE = dict.fromkeys((".xlsx", ".xls", ".ods", ".numbers"), "spreadsheet") | dict.fromkeys(
    (".sqlite", ".sqlite3", ".db", ".mdb", ".accdb"), "database"
)  # what people have their tables in, and no format here
RDF = frozenset(format for format, row in FORMATS.items() if row.module == "kbdisk.loaders.rdf")
ONLY_READ = frozenset({"sparql", "wikibase-json"})
NOTHING_IS_SOMETHING = ("turtle", "ntriples", "nquads", "trig", "n3")  # an empty file is a graph without triples


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
    """A knowledge base over a file, `-`, a SPARQL endpoint, an rdflib graph, a data frame, a list of dicts, or bytes."""
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
    name = format or format_of(data.name) or _told_by_its_name(data)
    if name == "json" and format is None:
        from kbdisk.loaders import wikibase_json

        name = "wikibase-json" if wikibase_json.recognised(data) else name
    if name in ("json", "jsonl") and format is None:
        from kbdisk.loaders import jsontext

        name = jsontext.layout_of(data) or name
    if name not in NOTHING_IS_SOMETHING:
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
    from kbdisk.loaders.writing import Plan

    return Plan.of(items, target, format=format, only_new=only_new, insert=insert).run(force=force, in_place=in_place)


def together(kbs: Iterable[KB]) -> list[KB]:
    """The same sources, those of RDF as one in the place of the first; others are said in its words where RDF is written."""
    found = list(kbs)
    joining = [n for n, kb in enumerate(found) if kb.joins]
    if not joining:
        return found
    first, *others = joining
    whole = found[first]
    if others:
        from kbdisk.loaders.rdf.union import Union

        whole = Union([whole, *(found[n] for n in others)])
    return [whole if n == first else _in_words_of(whole, kb) for n, kb in enumerate(found) if n not in others]


def named_by(kb: KB, path: Path) -> KB:
    """The same source, its entities called by what stands at a path, as `id` has it."""
    assert kb.source is not None
    own = module_of(kb.format).load(kb.source, kb.format, replace(kb.options, id=path))
    own.words = kb.words
    return own


def _in_words_of(words: KB, kb: KB) -> KB:
    own = copy.copy(kb)
    own.words = words
    return own


def module_of(format: str) -> FormatModule:
    """The module of a format, imported now."""
    return cast(FormatModule, importlib.import_module(FORMATS[format].module))


def format_named(name: str) -> str:
    """The format that a user names, by its name or a suffix: turtle, ttl."""
    found = name if name in FORMATS else format_of(f"x.{name}")
    if found is None:
        raise ConfigError("--format", f"unknown format {name!r}. Known formats: {listed(FORMATS)}.")
    return found


def listed(formats: Iterable[str]) -> str:
    """The names of formats, to choose from."""
    return ", ".join(sorted(formats))


def format_of(name: str) -> str | None:
    """The format that a file's name tells, or None."""
    suffix = _suffix(name)
    return next((format for format, row in FORMATS.items() if suffix and suffix in row.suffixes), None)


def _suffix(name: str) -> str:
    return FilePath(without_compression(name)).suffix.lower()


def _told_by_its_name(source: Source) -> str:
    suffix = _suffix(source.name)
    if suffix in ELSEWHERE:
        raise LoadError(source.name, f"a {ELSEWHERE[suffix]} is not read. Save what is to be completed as CSV.")
    raise LoadError(source.name, f"the name does not tell the format. Say --format, one of: {listed(FORMATS)}.")


def _path(text: str, option: str) -> tuple[str | int, ...]:
    try:
        return read_path(text)
    except ValueError as error:
        raise ConfigError(option, f"{error}.") from None
