"""Blank nodes: their ids in entities, their order in a parse, and those within triple terms.

An id is `_:label` where the node has a label, else `_:[0]`, `_:[1]`, ... in the order of appearance. pyoxigraph gives an
anonymous node another id at each parse; its number, subject before object, within triple terms too, is always the same.

The blank nodes within triple terms of RDF 1.2, `<<( subject predicate object )>>`, are the same as those outside. All
code that looks for blank nodes, or renames them, uses `blank_nodes` and `renamed`: they go in the order of writing, the
subject before the object, the terms within a triple term where that stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

from pyoxigraph import BlankNode, DefaultGraph, Quad, Triple

ANONYMOUS = re.compile(
    r"[a-f][0-9a-f]{15,31}"
)  # pyoxigraph drops leading zeros; one shorter has a chance of 1 in 10^19


def blank_nodes(*terms: Any) -> Iterator[BlankNode]:
    """The blank nodes of some terms, including those within triple terms, with repetitions."""
    for term in terms:
        kind = type(term)
        if kind is BlankNode:
            yield term
        elif kind is Triple:
            yield from blank_nodes(term.subject, term.object)


def renamed(term: Any, name: Callable[[BlankNode], Any]) -> Any:
    """A term with renamed blank nodes, including those within a triple term."""
    kind = type(term)
    if kind is BlankNode:
        return name(term)
    if kind is Triple:
        return Triple(renamed(term.subject, name), term.predicate, renamed(term.object, name))
    return term


def renamed_quad(quad: Quad, name: Callable[[BlankNode], Any]) -> Quad:
    """A quad with renamed blank nodes, including that of its graph."""
    subject, object = renamed(quad.subject, name), renamed(quad.object, name)
    return Quad(subject, quad.predicate, object, renamed(quad.graph_name, name))


# ---------------------------------------------------------------- labels


class BlankNodes:
    """The blank nodes of one parse, by pyoxigraph's ids and by our ids."""

    def __init__(self, *, anonymous: bool = False, labels: Container[str] = ()) -> None:
        self.anonymous = anonymous  # whether the format has anonymous nodes
        self.labels = labels  # labels that look like ids of anonymous nodes
        self.ids: dict[str, str] = {}  # pyoxigraph's id -> our id
        self.numbers: dict[str, int] = {}  # pyoxigraph's id of an anonymous node -> its number
        self.unnamed: list[str] = []  # pyoxigraph's ids of the anonymous nodes, by number
        self.graphs: dict[str, str] = {}  # pyoxigraph's id -> our id, of graphs without a name

    def id(self, raw: str) -> str:
        """Our id of a node."""
        id = self.ids.get(raw)
        if id is None:
            if self.is_anonymous(raw):
                self.numbers[raw] = len(self.numbers)
                self.unnamed.append(raw)
                id = f"_:[{self.numbers[raw]}]"
            else:
                id = "_:" + raw
            self.ids[raw] = id
        return id

    def graph(self, raw: str) -> str:
        """Our id of a node that names a graph; `[] { ... }` takes no number, as no other statement can mention it."""
        if raw in self.ids or not self.is_anonymous(raw):
            return self.ids.get(raw, "_:" + raw)
        return self.graphs.setdefault(raw, f"_:[graph {len(self.graphs)}]")

    def shown(self, term: Any) -> str:
        """A term as in N-Triples, but with our ids of blank nodes, which are the same at each parse."""
        if type(term) is Triple:
            return f"<<( {self.shown(term.subject)} {term.predicate} {self.shown(term.object)} )>>"
        return self.id(term.value) if type(term) is BlankNode else str(term)

    def is_anonymous(self, raw: str) -> bool:
        """Whether a node has no label."""
        return self.anonymous and ANONYMOUS.fullmatch(raw) is not None and raw not in self.labels

    def raw(self, id: str) -> str:
        """pyoxigraph's id of a node by our id."""
        return self.unnamed[int(id[3:-1])] if id.startswith("_:[") else id[2:]


def number_blank_nodes(quads: Iterable[Quad], blanks: BlankNodes) -> BlankNodes:
    """Number the blank nodes of some quads, in the order in which they appear."""
    for quad in quads:
        for node in blank_nodes(quad.subject, quad.object):
            blanks.id(node.value)
    return blanks


def key_of(term: Any, blanks: BlankNodes) -> str:
    """The id of a subject or a graph, the same in any parse of a document."""
    if isinstance(term, DefaultGraph):
        return ""
    if isinstance(term, BlankNode):
        return blanks.ids.get(term.value) or blanks.graph(term.value)
    return str(term.value)
