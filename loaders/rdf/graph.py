"""rdflib graphs: read as a source, added to as a target; and true N3, which rdflib alone can parse.

rdflib would rewrite literals (`+965.465`, `170.0`), so its normalisation is switched off meanwhile. A graph as target is
only added to.
"""

from __future__ import annotations

import contextlib
import logging
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

import pyoxigraph
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad

from kbdisk.entity import Completion, Entity
from kbdisk.errors import LoadError, WriteError, setting
from kbdisk.loaders.kb import KB, Options, Report, origins_of
from kbdisk.loaders.rdf import syntax
from kbdisk.loaders.rdf.base import RdfKB

if TYPE_CHECKING:
    import rdflib

    from kbdisk.loaders.kb import Oddities


GRAPH_NAME = "<graph>"
_LABEL = re.compile(r"\w(?:[\w.-]*[\w-])?")
_FIRST_NUMBER = 0xF << 60  # looks like the id of an anonymous node


MAX_TRIPLES_SHOWN = 50_000  # of a graph that is read to show it in a notebook


class RdfGraph(RdfKB):
    """Entities of an rdflib Graph or Dataset."""

    def __init__(self, graph: rdflib.Graph, options: Options) -> None:
        super().__init__(GRAPH_NAME, "graph", options)
        self.graph_in = graph

    @property
    def is_quickly_read(self) -> bool:
        from rdflib.plugins.stores.memory import Memory

        return type(self.graph_in.store) is Memory and len(self.graph_in) <= MAX_TRIPLES_SHOWN

    def observe(self, take: Callable[[Iterable[Any]], None]) -> None:
        self.prefixes = {prefix: str(iri) for prefix, iri in self.graph_in.namespaces()}
        take(quads_of(self.graph_in, self.name, self.odd))


def quads_of(graph: rdflib.Graph, name: str, odd: Oddities) -> Iterator[Quad]:
    """The quads of a Graph or Dataset, in the same order each time."""
    import rdflib

    named = isinstance(graph, rdflib.Dataset)
    rows = graph.quads() if named else ((*triple, None) for triple in graph)
    with lexical_forms():
        in_order = sorted(rows, key=lambda row: tuple(map(str, row)))
    return _quads(in_order, name, odd)


def _quads(rows: Iterable[tuple[Any, Any, Any, Any]], name: str, odd: Oddities) -> Iterator[Quad]:
    """rdflib's quads as pyoxigraph's; statements that only N3 allows are left out."""
    import rdflib

    nodes = (rdflib.URIRef, rdflib.BNode)
    kinds = (nodes, rdflib.URIRef, (*nodes, rdflib.Literal))
    for *triple, place in rows:
        default = place is None or place == rdflib.graph.DATASET_DEFAULT_GRAPH_ID
        if all(map(isinstance, triple, kinds)):
            subject, predicate, object = (_pyoxigraph_term(term, name) for term in triple)
            yield Quad(subject, predicate, object, DefaultGraph() if default else _pyoxigraph_term(place, name))
        else:
            odd.note("a statement that only N3 can say, left out", name)


def _pyoxigraph_term(term: Any, name: str) -> Any:
    import rdflib

    try:
        if isinstance(term, rdflib.URIRef):
            return NamedNode(str(term))
        if isinstance(term, rdflib.BNode):
            return BlankNode(str(term) if _LABEL.fullmatch(term) else "x" + str(term).encode().hex())
        if term.language:
            return Literal(str(term), language=term.language)
        return Literal(str(term), datatype=NamedNode(str(term.datatype))) if term.datatype else Literal(str(term))
    except ValueError as error:
        raise LoadError(name, f"expected a valid term, got {str(term)!r} ({error}). Mend it in the graph.") from None


def n3(data: bytes, fault: LoadError, base: str | None, odd: Oddities) -> Iterator[Quad]:
    """The triples of a document in true N3, read by rdflib; formulas and variables are left out.

    `fault` is why it is no Turtle: it is raised where rdflib has no message.
    """
    import rdflib
    from rdflib.plugins.parsers.notation3 import BadSyntax
    from rdflib.plugins.stores.memory import Memory

    name = fault.source
    rows: dict[tuple[Any, ...], None] = {}

    class InOrder(Memory):  # type: ignore[misc]
        """A store that keeps the order of statements."""

        def add(self, triple: Any, context: Any, quoted: bool = False) -> None:
            super().add(triple, context, quoted)
            if not quoted:
                rows[(*triple, None)] = None

    graph = rdflib.Graph(InOrder(), bind_namespaces="none")
    with lexical_forms():
        try:
            graph.parse(data=data, format="n3", publicID=base or syntax.NO_BASE)
        except BadSyntax as error:
            message = error._why.rstrip(".")
            raise LoadError(name, f"expected N3, got an error: {message}. Mend it there.", error.lines + 1) from None
        except RecursionError:
            raise LoadError(name, "expected N3, got brackets that nest too deep. Write it flat.") from None
        except (
            ValueError,
            IndexError,
            TypeError,
            AssertionError,
        ):  # rdflib's own, at the end of the text and elsewhere
            raise fault from None
        except Exception as error:
            if type(error) is not Exception:
                raise
            raise fault from None  # rdflib raises the bare class for a variable without a name
    return syntax.refuse_relative(_numbered(_quads(rows, name, odd)), name)


def _numbered(quads: Iterable[Quad]) -> Iterator[Quad]:
    """The quads with numbered blank nodes, as rdflib labels them differently at each parse."""
    ids: dict[str, BlankNode] = {}

    def numbered(term: Any) -> Any:
        if isinstance(term, BlankNode):
            return ids.setdefault(term.value, BlankNode(f"{_FIRST_NUMBER + len(ids):x}"))
        return term

    for quad in quads:
        yield Quad(numbered(quad.subject), quad.predicate, numbered(quad.object))


@contextlib.contextmanager
def lexical_forms() -> Iterator[None]:
    """Let rdflib keep literals as they were written, and log nothing about IRIs, which are checked here."""
    import rdflib

    before, rdflib.NORMALIZE_LITERALS = rdflib.NORMALIZE_LITERALS, False
    log = logging.getLogger("rdflib.term")
    was_disabled, log.disabled = log.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # it calls what it deprecates itself
            yield
    finally:
        rdflib.NORMALIZE_LITERALS = before
        log.disabled = was_disabled


def is_known(term: Any) -> bool:
    """Whether rdflib has such terms: it knows no triple terms and no base directions."""
    return type(term) is not pyoxigraph.Triple and not (type(term) is Literal and term.direction)


def add_quads(graph: rdflib.Graph, quads: Iterable[Any]) -> None:
    """Add pyoxigraph's quads to an rdflib Graph or Dataset."""
    with lexical_forms():
        for quad in quads:
            place = graph
            if not isinstance(quad.graph_name, DefaultGraph):
                place = graph.graph(_rdflib_term(quad.graph_name))
            place.add((_rdflib_term(quad.subject), _rdflib_term(quad.predicate), _rdflib_term(quad.object)))


def _rdflib_term(term: Any) -> Any:
    import rdflib

    if isinstance(term, pyoxigraph.NamedNode):
        return rdflib.URIRef(term.value)
    if isinstance(term, pyoxigraph.BlankNode):
        return rdflib.BNode(term.value)
    if term.language:
        return rdflib.Literal(term.value, lang=term.language)
    plain = term.datatype.value == "http://www.w3.org/2001/XMLSchema#string"
    return rdflib.Literal(term.value, datatype=None if plain else rdflib.URIRef(term.datatype.value))


# ---------------------------------------------------------------- into a graph


def write_graph(
    items: KB | Iterable[Entity | Completion], graph: rdflib.Graph, only_new: bool, in_place: bool
) -> Report:
    """Add the statements of the items and, where they are completions of an RDF source, the whole source."""
    import rdflib

    from kbdisk.loaders.rdf import serialise, writer

    if not isinstance(graph, rdflib.Graph):
        raise WriteError(GRAPH_NAME, f"expected a path or an rdflib Graph, got a {type(graph).__name__}.")
    origins, completions, items = origins_of(items)
    report = Report()
    parts = [part for origin in origins for part in origin.parts]
    is_source = any(isinstance(part, RdfGraph) and part.graph_in is graph for part in parts)
    if is_source and len(parts) > 1:
        raise WriteError(GRAPH_NAME, "is one of several sources. Choose another target.")
    kb = origins[0] if len(origins) == 1 else None
    if is_source and not in_place:
        raise WriteError(GRAPH_NAME, f"is the source itself. Say {setting('in_place')} to change it.")
    if isinstance(kb, RdfKB) and completions and (not only_new or is_source):
        given_quads, new = writer.quads_of(kb, () if items is kb else cast(Iterable[Completion], items), report)
        quads = new if is_source or only_new else [*given_quads, *new]
    else:
        made = serialise.new_quads_of(items, report) if only_new else serialise.all_quads_of(items, report)
        quads = list(serialise.count_quads(made, report))
    prefixes = kb.prefixes if isinstance(kb, RdfKB) and not is_source else {}
    _add_to(graph, quads, prefixes)
    return report


def _add_to(graph: rdflib.Graph, quads: list[Any], prefixes: dict[str, str]) -> None:
    import rdflib

    from kbdisk.loaders.rdf.turtle import TermWriter

    named = next((quad.graph_name for quad in quads if not isinstance(quad.graph_name, DefaultGraph)), None)
    if named is not None and not isinstance(graph, rdflib.Dataset):
        raise WriteError(
            GRAPH_NAME, f"expected the default graph, got {named}. Pass an rdflib Dataset, which has named graphs."
        )
    if unknown := next((quad.object for quad in quads if not is_known(quad.object)), None):
        raise WriteError(
            GRAPH_NAME,
            f"expected RDF 1.1, which is all that rdflib holds, got {TermWriter().term(unknown)}. Write a file instead.",
        )
    for prefix, iri in prefixes.items():
        graph.bind(prefix, iri, override=False)
    add_quads(graph, quads)
