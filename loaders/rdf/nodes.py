"""Quads to nodes: every subject with its predicates and values, before anything is folded.

    Node = {predicate IRI: [values]}        values as in an entity's tree; IRIs and blank nodes are Links

Anonymous blank nodes, whose ids differ from one parse to the next, are numbered `_:[0]`, `_:[1]`, ... in
the order in which they appear, subject before object; labelled ones keep `_:label`.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import Any, TypeAlias

import pyoxigraph

from kbdisk.entity import Link, Text
from kbdisk.loaders.kb import Oddities
from kbdisk.loaders.rdf.literals import CONVERTERS
from kbdisk.loaders.rdf.names import id_of_iri
from kbdisk.loaders.rdf.vocabulary import ID, STRING

Node: TypeAlias = dict[str, list[Any]]

HEX = re.compile(r"[0-9a-f]{1,32}")  # what pyoxigraph calls an anonymous blank node


class Nodes:
    """The nodes of a stretch of quads, in the order in which their subjects came."""

    def __init__(self, name: str, odd: Oddities, *, anonymous: bool = False, labels: Container[str] = ()) -> None:
        self.name = name
        self.odd = odd
        self.anonymous = anonymous  # whether blank nodes may be anonymous at all
        self.labels = labels  # of labelled ones that look like anonymous ones
        self.nodes: dict[str, Node] = {}
        self.graphs: dict[str, str] = {}  # subject -> the named graph its first quad stands in
        self.bearing: set[str] = set()  # subjects with a blank node among their values
        self._blank: dict[str, str] = {}  # pyoxigraph's id -> ours
        self._count = 0

    def add(self, quads: Iterable[Any]) -> None:
        """Take in quads or triples."""
        nodes, own, blank = self.nodes, _own, self._id_of_blank
        named, literal, default = pyoxigraph.NamedNode, pyoxigraph.Literal, pyoxigraph.DefaultGraph
        last: Any = None
        node: Node = {}
        for quad in quads:
            subject = quad.subject
            if subject != last:
                last = subject
                id = id_of_iri(subject.value) if type(subject) is named else blank(subject)
                found = nodes.get(id)
                if found is None:
                    found = nodes[id] = {}
                    graph = quad.graph_name
                    if type(graph) is not default:
                        self.graphs[id] = _graph(graph)
                node = found
            predicate = quad.predicate.value
            object = quad.object
            kind = type(object)
            if kind is literal:
                datatype = object.datatype.value
                value = object.value if datatype == STRING else self._literal(object, datatype, id)
            elif kind is named:
                value = Link(own(object.value))
            else:
                value = self._other(object, id)
            values = node.get(predicate)
            if values is None:
                node[predicate] = [value]
            else:
                values.append(value)

    def _literal(self, literal: Any, datatype: str, subject: str) -> Any:
        lexical = literal.value
        convert = CONVERTERS.get(datatype)
        if convert is None:
            language = literal.language
            return lexical if language is None else Text(lexical, language)
        try:
            return convert(lexical)
        except ValueError as error:
            kind = datatype[max(datatype.rfind("#"), datatype.rfind("/")) + 1 :]
            self.odd.note(f"a value that is no {kind}, kept as text", f"{self.name}: {subject}: {error}")
            return lexical

    def _other(self, object: Any, subject: str) -> Any:
        if type(object) is pyoxigraph.BlankNode:
            self.bearing.add(subject)
            return Link(self._id_of_blank(object))
        self.odd.note("a triple within a triple, kept as text", f"{self.name}: {subject}")
        return str(object)

    def _id_of_blank(self, node: Any) -> str:
        raw = node.value
        id = self._blank.get(raw)
        if id is None:
            if self.anonymous and HEX.fullmatch(raw) and raw not in self.labels:
                id = f"_:[{self._count}]"
                self._count += 1
            else:
                id = "_:" + raw
            self._blank[raw] = id
        return id


def _graph(graph: Any) -> str:
    return graph.value if type(graph) is pyoxigraph.NamedNode else "_:" + graph.value


def _own(iri: str) -> str:
    return id_of_iri(iri) if iri.startswith(ID) else iri
