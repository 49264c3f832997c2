"""Triple terms of RDF 1.2, `<<( subject predicate object )>>`: the blank nodes within them are the same as those outside.

All that looks for blank nodes, or names them anew, does so here: in the order in which they are written, the subject before
the object, what a triple term holds where that stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyoxigraph import BlankNode, Quad, Triple


def blank_nodes(*terms: Any) -> Iterator[BlankNode]:
    """The blank nodes of some terms, those within triple terms too, as often as they stand there."""
    for term in terms:
        kind = type(term)
        if kind is BlankNode:
            yield term
        elif kind is Triple:
            yield from blank_nodes(term.subject, term.object)


def renamed(term: Any, name: Callable[[BlankNode], Any]) -> Any:
    """A term whose blank nodes, those within a triple term too, are named anew."""
    kind = type(term)
    if kind is BlankNode:
        return name(term)
    if kind is Triple:
        return Triple(renamed(term.subject, name), term.predicate, renamed(term.object, name))
    return term


def renamed_quad(quad: Quad, name: Callable[[BlankNode], Any]) -> Quad:
    """A quad whose blank nodes, that of its graph too, are named anew."""
    subject, object = renamed(quad.subject, name), renamed(quad.object, name)
    return Quad(subject, quad.predicate, object, renamed(quad.graph_name, name))
