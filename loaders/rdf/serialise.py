"""Entities of any source serialised as a new RDF document, from their trees; or only the values filled in them.

Entities of an RDF source, or read beside one, keep its vocabulary:

    predicates, templates    as the source has them; a value that fits no template is written most naturally
    blank nodes              stay blank nodes: `_:[3]`, which has no label, gets one
    triple terms             as the source has them
    a Wikibase               truthy triples and labels, where it has such

All others are written from their trees alone, such that they are read back as the same:

    ids and keys             as they are where they are IRIs, else as IRIs of kbdisk
    lists, parts             collections and blank nodes; a part with an id is a node of that name; sets several triples
    values                   the most natural term
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, Triple

from kbdisk.entity import SOMEVALUE, Completion, Coordinate, Entity, Known, Link, Path, Tree, with_values
from kbdisk.errors import WriteError
from kbdisk.loaders.kb import KB, Report
from kbdisk.loaders.naming import NO_PROPERTY, classes_of, no_properties
from kbdisk.loaders.rdf import syntax, turtle, wikibase, writer
from kbdisk.loaders.rdf.base import RdfKB
from kbdisk.loaders.rdf.blank_nodes import renamed
from kbdisk.loaders.rdf.fold import COORDINATE_KEY
from kbdisk.loaders.rdf.statements import EntityQuads, Reach, SourceTriples, Statements, graph_of
from kbdisk.loaders.rdf.styles import natural_term
from kbdisk.loaders.rdf.terms import (
    FIRST,
    KEY,
    NIL,
    PART,
    REST,
    STRING,
    THING,
    TYPE,
    id_of_part,
    iri_of_id,
    iri_of_key,
    literal_term,
)
from kbdisk.loaders.rdf.turtle import TermWriter
from kbdisk.loaders.rdf.value_nodes import recognised
from kbdisk.loaders.rdf.wikibase import truthy_predicate, truthy_term
from kbdisk.loaders.rdf.writer import BARE_DATATYPES, serialise_quads

if TYPE_CHECKING:
    from kbdisk.loaders.rdf.blocks import FreshLabels
    from kbdisk.loaders.rdf.styles import Observed


Item = Entity | Completion
KEY_PREFIX = "k"  # the prefix of keys that are no IRIs


def serialise(items: Iterable[Item], stream_out: BinaryIO, format: str, only_new: bool) -> Report:
    """Write entities, or only the values filled in them."""
    report = Report()
    first, items = _peek(items)
    prefixes = _prefixes(_entity(first)) if first else {}
    terms = TermWriter(prefixes, shorthand=BARE_DATATYPES)
    all_entity_quads = new_quads_of(items, report) if only_new else all_quads_of(items, report)
    if format in ("rdfxml", "jsonld"):
        serialise_quads(count_quads(all_entity_quads, report), stream_out, format, prefixes, format)
        return report
    updates = format == "sparql-update"
    with (
        turtle.write_update(stream_out, terms)
        if updates
        else turtle.write_document(stream_out, format, terms) as document
    ):
        for entity_quads in all_entity_quads:
            if only_new:
                writer.write_entity(document, entity_quads, report)
            else:
                _write_entity(document, entity_quads, report)
    return report


def _prefixes(first: Entity) -> dict[str, str]:
    """The prefixes of an RDF source, or of the RDF read beside it; of another source one for its keys, where the first entity
    has keys that are no IRIs.
    """
    words = _vocabulary_of(first)
    if words is not None:
        return words.prefixes
    return {KEY_PREFIX: KEY} if any(iri_of_key(key).startswith(KEY) for key in first.tree if key[:1] != "@") else {}


def _write_entity(document: turtle.QuadWriter, made: EntityQuads, report: Report) -> None:
    try:
        document.write(made.quads)
    except ValueError as error:
        title = syntax.TITLES.get(document.format, document.format)
        raise WriteError(
            made.id, f"cannot be written as {title}: {error}. Choose another format, such as TriG."
        ) from None
    report.written += len(made.paths)


def count_quads(made: Iterable[EntityQuads], report: Report) -> Iterator[Quad]:
    """The quads, counted as they go."""
    for entity_quads in made:
        report.written += len(entity_quads.paths)
        yield from entity_quads.quads


def _peek(items: Iterable[Item]) -> tuple[Item | None, Iterable[Item]]:
    unwritten = iter(items)
    first = next(unwritten, None)
    return first, unwritten if first is None else itertools.chain([first], unwritten)


def _entity(item: Item) -> Entity:
    return item.entity if isinstance(item, Completion) else item


def all_quads_of(items: Iterable[Item], report: Report) -> Iterator[EntityQuads]:
    """The quads of each item."""
    makers = QuadMakers()
    for item in items:
        entity = _entity(item)
        tree, paths = (item.tree(), list(item.filled)) if isinstance(item, Completion) else (entity.tree, [])
        if not isinstance(entity.source, RdfKB):
            report.unwritable += ((entity.id, path, NO_PROPERTY) for path in no_properties(entity.tree))
        try:
            yield EntityQuads(entity.id, list(makers.maker_for(entity).entity(entity, tree)), paths)
        except ValueError as error:
            report.unwritable.append((entity.id, (), str(error)))


def new_quads_of(items: Iterable[Item], report: Report) -> Iterator[EntityQuads]:
    """The quads of the values filled in each item, and no others."""
    makers = QuadMakers()
    statements_of_source: dict[int, Statements] = {}
    for item in items:
        if not isinstance(item, Completion) or not item.filled:
            continue
        kb = item.entity.source
        if isinstance(kb, RdfKB):
            if id(kb) not in statements_of_source:
                statements_of_source[id(kb)] = Statements(kb, *writer.observe_source(kb), Reach.NONE)
            yield statements_of_source[id(kb)].quads_of(item, report)
        else:
            yield from _plain_quads(makers.maker_for(item.entity), item, report)


class QuadMakers:
    """The makers of quads: with the vocabulary of the RDF that an entity was read from or beside, else plain."""

    def __init__(self) -> None:
        self.plain = PlainQuads()
        self.source_makers: dict[int, SourceQuads] = {}

    def maker_for(self, entity: Entity) -> PlainQuads | SourceQuads:
        """The maker for an entity."""
        words = _vocabulary_of(entity)
        if words is None:
            return self.plain
        if id(words) not in self.source_makers:
            self.source_makers[id(words)] = SourceQuads(words, *writer.observe_source(words))
        return self.source_makers[id(words)]


def _vocabulary_of(entity: Entity) -> RdfKB | None:
    kb = entity.source
    kb = kb if kb is None or isinstance(kb, RdfKB) else kb.vocabulary_source
    return kb if isinstance(kb, RdfKB) else None


def _plain_quads(maker: PlainQuads | SourceQuads, item: Completion, report: Report) -> Iterator[EntityQuads]:
    paths: list[Path] = list(item.filled)
    new = with_values({}, {path: filled_value.value for path, filled_value in item.filled.items()})
    try:
        yield EntityQuads(item.entity.id, list(maker.entity(replace(item.entity, classes=()), new)), paths)
    except ValueError as error:
        report.unwritable += [(item.entity.id, path, str(error)) for path in paths]


# ---------------------------------------------------------------- quads from trees alone


class PlainQuads:
    """Makes quads of trees alone; blank nodes are numbered through all of them."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def entity(self, entity: Entity, tree: Tree) -> Iterator[Quad]:
        """An entity with this tree."""
        node = NamedNode(iri_of_id(entity.id))
        graph = NamedNode(entity.graph) if entity.graph and not entity.graph.startswith("_:") else DefaultGraph()
        classes = entity.classes or (() if tree else (THING,))
        has_sets = isinstance(entity.source, KB) and entity.source.has_sets
        properties = self._properties(node, tree, has_sets)
        for triple in itertools.chain(self._types(node, classes), properties):
            yield Quad(triple.subject, triple.predicate, triple.object, graph)

    def _types(self, node: Any, classes: Any) -> Iterator[Triple]:
        return (Triple(node, NamedNode(TYPE), NamedNode(iri_of_id(name))) for name in classes)

    def _properties(self, node: Any, tree: Tree, has_sets: bool = False) -> Iterator[Triple]:
        for key, values in tree.items():
            if key[:1] == "@":
                continue
            members = (
                [value for value in values if value is not None] if has_sets and isinstance(values, list) else [values]
            )
            for value in members:
                term, more = self._term(value)
                yield Triple(node, NamedNode(iri_of_key(key)), term)
                yield from more

    def _node(self, part: Tree) -> NamedNode | BlankNode:
        id = id_of_part(part)
        return NamedNode(iri_of_id(id)) if id else self._fresh()

    def _fresh(self) -> BlankNode:
        return BlankNode(f"part{next(self._numbers)}")  # not `b1`, which may well be an id elsewhere

    def _term(self, value: Any) -> tuple[Any, list[Triple]]:
        match value:
            case Link():
                return NamedNode(iri_of_id(value.id)), []
            case dict():
                node = self._node(value)
                triples = [*self._types(node, classes_of(value)), *self._properties(node, value)]
                return (node, triples) if triples or isinstance(node, NamedNode) else (NamedNode(PART), [])
            case list():
                return self._collection(value)
        return natural_term(value, self._fresh)

    def _collection(self, values: list[Any]) -> tuple[Any, list[Triple]]:
        nodes: list[Any] = [*(self._fresh() for _ in values), NamedNode(NIL)]
        triples: list[Triple] = []
        for node, following, value in zip(nodes, nodes[1:], values, strict=False):
            term, more = self._term(value)
            triples += [Triple(node, NamedNode(FIRST), term), *more, Triple(node, NamedNode(REST), following)]
        return nodes[0], triples


# ---------------------------------------------------------------- quads with the vocabulary of a source


_WIKIBASE_PROPERTY = re.compile("P[1-9][0-9]*")


class SourceQuads(SourceTriples):
    """Makes the quads of an entity with the vocabulary of its source."""

    def __init__(self, kb: RdfKB, observed: Observed, labels: FreshLabels) -> None:
        super().__init__(kb, observed, labels)
        self.nodes: dict[str, BlankNode] = {}  # ids without a label -> nodes

    def entity(self, entity: Entity, tree: Tree) -> Iterator[Quad]:
        """An entity with this tree."""
        node = self._node(entity.id)
        graph = self._node(entity.graph) if entity.graph.startswith("_:") else graph_of(entity.graph)
        classes = () if self.kb.wikibase else entity.classes or (() if tree else (THING,))
        for triple in (*_types(node, classes), *self._properties(node, tree)):
            yield Quad(triple.subject, triple.predicate, triple.object, graph)

    def _properties(self, node: Any, tree: Tree) -> Iterator[Triple]:
        for key, value in tree.items():
            if key[:1] == "@":
                continue
            if key == COORDINATE_KEY and COORDINATE_KEY not in self.kb.names.iris and isinstance(value, Coordinate):
                yield from self.halves(node, value)
            else:
                yield from self._property(node, key, value)

    def _property(self, node: Any, key: str, value: Any) -> list[Triple]:
        if self.kb.wikibase and _WIKIBASE_PROPERTY.fullmatch(key):
            values = value if isinstance(value, list) else [value]
            return [triple for item in values for triple in self._wikibase_triples(node, key, item)]
        predicate = self._predicate_of(key) if self.kb.wikibase else self.kb.names.iris.get(key)
        return self.statements(node, predicate or iri_of_key(key), value)

    def _predicate_of(self, key: str) -> str | None:
        """The predicate of a Wikibase's label, description or alias; else that of another key."""
        texts = (iri for iri, word in wikibase.TEXT_PREDICATES.items() if word == key and iri in self.observed.objects)
        return next(texts, self.kb.names.iris.get(key))

    def _wikibase_triples(self, node: Any, key: str, value: Any) -> list[Triple]:
        predicate = NamedNode(truthy_predicate(self.observed.objects, key) or iri_of_key(key))
        if value is SOMEVALUE:
            return [Triple(node, predicate, self.fresh())]
        try:
            return [Triple(node, predicate, truthy_term(value))]
        except ValueError:
            return self.statements(node, predicate.value, value)

    # ------------------------------------------------------------ nodes and values

    def _node(self, id: str) -> NamedNode | BlankNode:
        if id.startswith("_:["):
            return self.nodes.setdefault(id, self.nodes.get(id) or self.fresh())
        return BlankNode(id[2:]) if id.startswith("_:") else NamedNode(iri_of_id(id))

    def link(self, link: Link) -> Link | BlankNode:
        node = self._node(link.id)
        return node if isinstance(node, BlankNode) else link

    def term(self, predicate: str, value: Any) -> tuple[Any, list[Triple]]:
        triple = self.observed.triple_term(predicate, value) if isinstance(value, str) else None
        if triple is not None:
            return renamed(triple, self._node_in_triple_term), []
        if type(value) is str and (STRING, None) in self.observed.templates(predicate).templates:
            return literal_term(value, STRING), []  # beside others, a new one would take their language
        if value is None or (isinstance(value, Known) and value is not SOMEVALUE):
            return natural_term(value, self.fresh)
        try:
            return super().term(predicate, value)
        except ValueError:
            if isinstance(value, dict):
                raise
            return natural_term(value, self.fresh)

    def _node_in_triple_term(self, node: BlankNode) -> NamedNode | BlankNode:
        """The node for a blank node within a triple term; ValueError where that node is written as a value."""
        fields = self.observed.fields_of(node)
        if fields is not None and recognised(node, fields, self.observed.fields_of) is not None:
            raise ValueError(
                "a triple term speaks of a node that is written as a value; write the whole source instead"
            )
        return self._node(self.observed.blanks.id(node.value))

    def part(self, predicate: str, value: Tree) -> tuple[Any, list[Triple]]:
        id = id_of_part(value)
        if not id and not value.keys() - {"@id"}:
            return NamedNode(PART), []
        node = NamedNode(iri_of_id(id)) if id else self.fresh()
        return node, [*_types(node, classes_of(value)), *self._properties(node, value)]


def _types(node: Any, classes: Any) -> Iterator[Triple]:
    return (Triple(node, NamedNode(TYPE), NamedNode(iri_of_id(name))) for name in classes)
