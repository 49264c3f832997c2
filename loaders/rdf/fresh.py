"""Entities of any source as a new RDF document, from their trees; or only what was filled in them.

Those of an RDF source, or read beside one, are said in its words (subset.py), all others plainly (plain.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import BinaryIO

from pyoxigraph import Quad

from kbdisk.entity import Completion, Entity, Path, with_values
from kbdisk.errors import WriteError
from kbdisk.loaders.kb import Report
from kbdisk.loaders.naming import NO_PROPERTY, no_properties
from kbdisk.loaders.rdf import render, syntax, writer
from kbdisk.loaders.rdf.base import RdfKB
from kbdisk.loaders.rdf.plain import Plain
from kbdisk.loaders.rdf.spelling import Terms
from kbdisk.loaders.rdf.statements import Made, Reach, Statements
from kbdisk.loaders.rdf.subset import Subset
from kbdisk.loaders.rdf.terms import KEY, iri_of_key
from kbdisk.loaders.rdf.translate import BARE, serialise

Item = Entity | Completion
KEYS = "k"  # the prefix of keys that are no IRIs


def fresh(items: Iterable[Item], stream_out: BinaryIO, format: str, only_new: bool) -> Report:
    """Write entities, or only what was filled in them."""
    report = Report()
    first, items = _peeked(items)
    prefixes = _prefixes(_entity(first)) if first else {}
    terms = Terms(prefixes, shorthand=BARE)
    made = new_of(items, report) if only_new else whole_of(items, report)
    if format in ("rdfxml", "jsonld"):
        serialise(counted(made, report), stream_out, format, prefixes, format)
        return report
    updates = format == "sparql-update"
    with render.update(stream_out, terms) if updates else render.document(stream_out, format, terms) as document:
        for one in made:
            if only_new:
                writer.put(document, one, report)
            else:
                _write(document, one, report)
    return report


def _prefixes(first: Entity) -> dict[str, str]:
    """Those of an RDF source, or of what it is read beside; of another, one for its keys, where the first entity has any that are no IRIs."""
    words = _words(first)
    if words is not None:
        return words.prefixes
    return {KEYS: KEY} if any(iri_of_key(key).startswith(KEY) for key in first.tree if key[:1] != "@") else {}


def _write(document: render.Writer, made: Made, report: Report) -> None:
    try:
        document.write(made.quads)
    except ValueError as error:
        title = syntax.TITLES.get(document.format, document.format)
        raise WriteError(
            made.id, f"cannot be written as {title}: {error}. Choose another format, such as TriG."
        ) from None
    report.written += len(made.paths)


def counted(made: Iterable[Made], report: Report) -> Iterator[Quad]:
    """The quads, counted as they go."""
    for one in made:
        report.written += len(one.paths)
        yield from one.quads


def _peeked(items: Iterable[Item]) -> tuple[Item | None, Iterable[Item]]:
    rest = iter(items)
    first = next(rest, None)
    return first, rest if first is None else itertools.chain([first], rest)


def _entity(item: Item) -> Entity:
    return item.entity if isinstance(item, Completion) else item


def whole_of(items: Iterable[Item], report: Report) -> Iterator[Made]:
    """All that each item says."""
    speakers = Speakers()
    for item in items:
        entity = _entity(item)
        tree, paths = (item.tree(), list(item.filled)) if isinstance(item, Completion) else (entity.tree, [])
        if not isinstance(entity.source, RdfKB):
            report.unwritable += ((entity.id, path, NO_PROPERTY) for path in no_properties(entity.tree))
        try:
            yield Made(entity.id, list(speakers.of(entity).entity(entity, tree)), paths)
        except ValueError as error:
            report.unwritable.append((entity.id, (), str(error)))


def new_of(items: Iterable[Item], report: Report) -> Iterator[Made]:
    """What was filled in each item, and nothing else."""
    others = Speakers()
    speakers: dict[int, Statements] = {}
    for item in items:
        if not isinstance(item, Completion) or not item.filled:
            continue
        kb = item.entity.source
        if isinstance(kb, RdfKB):
            if id(kb) not in speakers:
                speakers[id(kb)] = Statements(kb, *writer.observe(kb), Reach.NONE)
            yield speakers[id(kb)].of(item, report)
        else:
            yield from _plainly(others.of(item.entity), item, report)


class Speakers:
    """Who says in RDF what an entity is: in the words of the RDF that it was read from or beside, else plainly."""

    def __init__(self) -> None:
        self.plain = Plain()
        self.subsets: dict[int, Subset] = {}

    def of(self, entity: Entity) -> Plain | Subset:
        """Who speaks for an entity."""
        words = _words(entity)
        if words is None:
            return self.plain
        if id(words) not in self.subsets:
            self.subsets[id(words)] = Subset(words, *writer.observe(words))
        return self.subsets[id(words)]


def _words(entity: Entity) -> RdfKB | None:
    kb = entity.source
    kb = kb if kb is None or isinstance(kb, RdfKB) else kb.vocabulary_source
    return kb if isinstance(kb, RdfKB) else None


def _plainly(speaker: Plain | Subset, item: Completion, report: Report) -> Iterator[Made]:
    paths: list[Path] = list(item.filled)
    new = with_values({}, {path: one.value for path, one in item.filled.items()})
    try:
        yield Made(item.entity.id, list(speaker.entity(replace(item.entity, classes=()), new)), paths)
    except ValueError as error:
        report.unwritable += [(item.entity.id, path, str(error)) for path in paths]
