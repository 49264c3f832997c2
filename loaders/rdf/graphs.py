"""rdflib's terms to pyoxigraph's and back, and the formats that rdflib alone can read.

rdflib would rewrite literals (`+965.465`, `170.0`); its normalisation is switched off meanwhile.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyoxigraph
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad

from kbdisk.errors import LoadError
from kbdisk.loaders.options import Options
from kbdisk.loaders.rdf.base import RdfKB
from kbdisk.loaders.rdf.trees import Trees

if TYPE_CHECKING:
    import rdflib

    from kbdisk.loaders.source import Source

LABEL = re.compile(r"\w(?:[\w.-]*[\w-])?")


class RdfGraph(RdfKB):
    """Entities of an rdflib Graph or Dataset."""

    def __init__(self, graph: rdflib.Graph, options: Options) -> None:
        super().__init__("<graph>", "graph", options)
        self.graph_in = graph

    def trees(self) -> Trees:
        self.prefixes = {prefix: str(iri) for prefix, iri in self.graph_in.namespaces()}
        trees = Trees(self.name, self.odd, self.names)
        self.observe(trees.add)
        return trees

    def observe(self, take: Callable[[Iterable[Any]], None]) -> None:
        take(quads_of(self.graph_in, self.name))


def quads_of(graph: rdflib.Graph, name: str) -> Iterator[Quad]:
    """The quads of a Graph or Dataset."""
    import rdflib

    if isinstance(graph, rdflib.Dataset):
        for subject, predicate, object, place in graph.quads():
            default = place is None or place == rdflib.graph.DATASET_DEFAULT_GRAPH_ID
            yield Quad(*_triple(subject, predicate, object, name), DefaultGraph() if default else _term(place, name))
    else:
        for subject, predicate, object in graph:
            yield Quad(*_triple(subject, predicate, object, name))


def _triple(subject: Any, predicate: Any, object: Any, name: str) -> tuple[Any, Any, Any]:
    return _term(subject, name), _term(predicate, name), _term(object, name)


def _term(term: Any, name: str) -> Any:
    import rdflib

    try:
        if isinstance(term, rdflib.URIRef):
            return NamedNode(str(term))
        if isinstance(term, rdflib.BNode):
            return BlankNode(str(term) if LABEL.fullmatch(term) else "x" + str(term).encode().hex())
        if isinstance(term, rdflib.Literal):
            if term.language:
                return Literal(str(term), language=term.language)
            return Literal(str(term), datatype=NamedNode(str(term.datatype))) if term.datatype else Literal(str(term))
    except ValueError as error:
        raise LoadError(name, f"expected a valid term, got {term!r} ({error}). Mend it in the graph.") from None
    raise LoadError(name, f"expected an IRI, a blank node or a literal, got {term!r}, which only N3 has.")


def n3(source: Source, base: str | None) -> Iterator[Quad]:
    """The triples of a file in true N3, read by rdflib."""
    import rdflib

    from rdflib.plugins.parsers.notation3 import BadSyntax

    graph = rdflib.Graph()
    with lexical_forms():
        try:
            graph.parse(data=source.read(), format="n3", publicID=base)
        except BadSyntax as error:
            raise LoadError(source.name, f"expected N3, got an error: {error._why}. Mend it there.", error.lines + 1) from None
        except (ValueError, RecursionError) as error:
            raise LoadError(source.name, f"expected N3, got an error: {error}.") from None
    return quads_of(graph, source.name)


@contextlib.contextmanager
def lexical_forms() -> Iterator[None]:
    """Let rdflib keep literals as they were written."""
    import rdflib

    before, rdflib.NORMALIZE_LITERALS = rdflib.NORMALIZE_LITERALS, False
    try:
        yield
    finally:
        rdflib.NORMALIZE_LITERALS = before


def to_rdflib(quads: Iterable[Any]) -> rdflib.Dataset:
    """pyoxigraph's quads as an rdflib Dataset."""
    import rdflib

    dataset = rdflib.Dataset()
    with lexical_forms():
        for quad in quads:
            place = dataset if isinstance(quad.graph_name, DefaultGraph) else dataset.graph(_back(quad.graph_name))
            place.add((_back(quad.subject), _back(quad.predicate), _back(quad.object)))
    return dataset


def _back(term: Any) -> Any:
    import rdflib

    if isinstance(term, pyoxigraph.NamedNode):
        return rdflib.URIRef(term.value)
    if isinstance(term, pyoxigraph.BlankNode):
        return rdflib.BNode(term.value)
    if term.language:
        return rdflib.Literal(term.value, lang=term.language)
    plain = term.datatype.value == "http://www.w3.org/2001/XMLSchema#string"
    return rdflib.Literal(term.value, datatype=None if plain else rdflib.URIRef(term.datatype.value))
