"""Entities of an RDF source written anew from their trees, in that source's own words.

predicates, shapes    as the source has them; a value that fits no shape is said most naturally
blank nodes           stay blank nodes: `_:[3]`, which has no label, gets one
triple terms          as the source has them
a Wikibase            truthy triples and labels, where it has such
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyoxigraph import BlankNode, NamedNode, Quad, Triple

from kbdisk.entity import SOMEVALUE, Coordinate, Entity, Known, Link, Tree
from kbdisk.loaders.naming import classes_of
from kbdisk.loaders.rdf import wikibase
from kbdisk.loaders.rdf.blank_nodes import renamed
from kbdisk.loaders.rdf.fold import COORDINATE_KEY
from kbdisk.loaders.rdf.shapes import natural
from kbdisk.loaders.rdf.statements import graph_of
from kbdisk.loaders.rdf.terms import PART, STRING, THING, TYPE, id_of_part, iri_of_id, iri_of_key, literal_term
from kbdisk.loaders.rdf.value_nodes import recognised
from kbdisk.loaders.rdf.wikibase import truthy_predicate, truthy_term
from kbdisk.loaders.rdf.words import Words

if TYPE_CHECKING:
    from kbdisk.loaders.rdf.base import RdfKB
    from kbdisk.loaders.rdf.blocks import FreshLabels
    from kbdisk.loaders.rdf.observed import Observed

_PROPERTY = re.compile("P[1-9][0-9]*")


class Subset(Words):
    """Makes all the quads of an entity."""

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
        if self.kb.wikibase and _PROPERTY.fullmatch(key):
            values = value if isinstance(value, list) else [value]
            return [triple for one in values for triple in self._stated(node, key, one)]
        predicate = self._said(key) if self.kb.wikibase else self.kb.names.iris.get(key)
        return self.statements(node, predicate or iri_of_key(key), value)

    def _said(self, key: str) -> str | None:
        """The predicate of a Wikibase's label, description or alias; else that of a word."""
        texts = (iri for iri, word in wikibase.TEXT_PREDICATES.items() if word == key and iri in self.observed.objects)
        return next(texts, self.kb.names.iris.get(key))

    def _stated(self, node: Any, key: str, value: Any) -> list[Triple]:
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
            return renamed(triple, self._quoted), []
        if type(value) is str and (STRING, None) in self.observed.shape(predicate).molds:
            return literal_term(value, STRING), []  # beside others, a new one would take their language
        if value is None or (isinstance(value, Known) and value is not SOMEVALUE):
            return natural(value, self.fresh)
        try:
            return super().term(predicate, value)
        except ValueError:
            if isinstance(value, dict):
                raise
            return natural(value, self.fresh)

    def _quoted(self, node: BlankNode) -> NamedNode | BlankNode:
        """What a blank node within a triple term is called; ValueError where there is no such node but a value."""
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
