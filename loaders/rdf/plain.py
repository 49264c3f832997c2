"""Entities of any source as RDF from their trees alone, such that they are read back as the same.

ids and keys      as they are where they are IRIs, else as IRIs of ours
lists, parts      collections and blank nodes; a part that names itself is a node of that name
values            as RDF says them most naturally
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, Triple

from kbdisk.entity import Entity, Link, Tree
from kbdisk.loaders.naming import classes_of
from kbdisk.loaders.rdf.shapes import natural
from kbdisk.loaders.rdf.terms import FIRST, NIL, PART, REST, THING, TYPE, id_of_part, iri_of_id, iri_of_key


class Plain:
    """Quads of trees; blank nodes are numbered on through all of them."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def entity(self, entity: Entity, tree: Tree) -> Iterator[Quad]:
        """An entity with this tree."""
        node = NamedNode(iri_of_id(entity.id))
        graph = NamedNode(entity.graph) if entity.graph and not entity.graph.startswith("_:") else DefaultGraph()
        classes = entity.classes or (() if tree else (THING,))
        for triple in itertools.chain(self._types(node, classes), self._properties(node, tree)):
            yield Quad(triple.subject, triple.predicate, triple.object, graph)

    def _types(self, node: Any, classes: Any) -> Iterator[Triple]:
        return (Triple(node, NamedNode(TYPE), NamedNode(iri_of_id(name))) for name in classes)

    def _properties(self, node: Any, tree: Tree) -> Iterator[Triple]:
        for key, value in tree.items():
            if key[:1] != "@":
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
        return natural(value, self._fresh)

    def _collection(self, values: list[Any]) -> tuple[Any, list[Triple]]:
        nodes: list[Any] = [*(self._fresh() for _ in values), NamedNode(NIL)]
        triples: list[Triple] = []
        for node, following, value in zip(nodes, nodes[1:], values, strict=False):
            term, more = self._term(value)
            triples += [Triple(node, NamedNode(FIRST), term), *more, Triple(node, NamedNode(REST), following)]
        return nodes[0], triples
