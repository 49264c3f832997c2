"""A whole RDF source in another syntax, or as an rdflib graph: by its triples, so that nothing of it is lost.

    given              as it was
    a block of ours    what earlier completions wrote into the source, then what is new

Nodes without a label get one, always the same. RDF/XML and JSON-LD have no blocks: there all is one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import pyoxigraph
from pyoxigraph import BlankNode, DefaultGraph, Quad, Triple

from kbdisk.errors import WriteError
from kbdisk.loaders.rdf import render, syntax
from kbdisk.loaders.rdf.spelling import Terms
from kbdisk.loaders.rdf.vocabulary import XSD

if TYPE_CHECKING:
    from kbdisk.loaders.rdf.base import RdfKB
    from kbdisk.loaders.rdf.blanks import Blanks

CHUNK = 10_000  # quads
BARE = frozenset(XSD + name for name in ("integer", "decimal", "boolean"))  # datatypes without quotes, in Turtle
XML_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
ENDS_IN_NAME = re.compile(r".*[^\W\d][\w.-]*", re.DOTALL)  # what a predicate of RDF/XML does

Quads = Iterable[Quad]
New = Callable[
    [list[Quad] | None], Iterator[Quad]
]  # what is new, of the quads that are given; None: they were not kept


def translate(kb: RdfKB, new: New, stream: BinaryIO, format: str) -> None:
    """Write all quads of a knowledge base, and what is new."""
    if kb.format in syntax.LINES and format in syntax.TEXTUAL:
        _streamed(kb, new, stream, format)
        return
    given, ours = gathered(kb, new)
    if format in ("rdfxml", "jsonld"):
        serialise([*given, *ours], stream, format, kb.prefixes, kb.name)
        return
    terms = Terms(kb.prefixes, shorthand=BARE)
    if format == "sparql-update":
        with render.update(stream, terms) as document:
            write_all(document, [*given, *ours], kb.name)
        return
    with render.document(stream, format, terms) as document:
        write_all(document, given, kb.name)
    with render.block(stream, format, terms.standing_alone()) as block:
        write_all(block, ours, kb.name)


def gathered(kb: RdfKB, new: New) -> tuple[list[Quad], list[Quad]]:
    """The given quads of a knowledge base; and what earlier completions wrote, with what is new."""
    given: list[Quad] = []
    with kb.again():
        kb.observe(given.extend)
    return labelled(kb, given, new(given))


def labelled(kb: RdfKB, given: list[Quad], new: Quads) -> tuple[list[Quad], list[Quad]]:
    """The given quads with a label for every node; and what earlier completions wrote, with what is new."""
    labels = _Labelled(kb.blanks(), given)
    ours = [*_earlier(kb, labels, given), *map(labels.quad, new)]
    return list(dict.fromkeys(map(labels.quad, given))), ours  # several sources may say the same


def _earlier(kb: RdfKB, labels: _Labelled, given: list[Quad]) -> list[Quad]:
    """What our own blocks in the source say."""
    if not kb.is_completed:
        return []
    everything: list[Quad] = []
    with kb.again():
        kb.observe_all(everything.extend)
    same = _Labelled(kb.blanks(), everything)
    known = {labels.quad(quad) for quad in given}
    return [quad for quad in map(same.quad, everything) if quad not in known]


def _streamed(kb: RdfKB, new: New, stream: BinaryIO, format: str) -> None:
    """A file of lines, in little memory: its nodes have labels already."""
    terms = Terms(shorthand=BARE)
    with render.document(stream, format, terms) as document, kb.again():
        kb.observe(lambda quads: write_all(document, quads, kb.name))
    with render.block(stream, format, terms) as block:
        write_all(block, kb.earlier(), kb.name)
        write_all(block, new(None), kb.name)


def write_all(document: render.Writer, quads: Quads, name: str) -> None:
    """Quads into a document, a few at a time."""
    rest = iter(quads)
    try:
        while chunk := list(itertools.islice(rest, CHUNK)):
            document.write(chunk)
    except ValueError as error:
        raise _refused(name, document.format, error) from None


def serialise(quads: Quads, stream: BinaryIO, format: str, prefixes: dict[str, str], name: str) -> None:
    """Quads as a document of a format that pyoxigraph writes."""
    usable = Terms(prefixes).prefixes
    try:
        terms: Iterable[Any] = quads if format in syntax.GRAPHS else _as_xml([_triple(quad) for quad in quads])
        pyoxigraph.serialize(terms, stream, format=syntax.FORMATS[format], prefixes=usable)
    except ValueError as error:
        raise _refused(name, format, error) from None


def _triple(quad: Quad) -> Triple:
    if not isinstance(quad.graph_name, DefaultGraph):
        raise ValueError(f"expected the default graph, got {quad.graph_name}")
    return quad.triple


def _as_xml(triples: list[Triple]) -> Iterator[Triple]:
    """The same with labels that XML allows; ValueError where a predicate has no name that it does. pyoxigraph would write
    them all the same, and no other could read them."""
    if nameless := next((one for one in triples if not ENDS_IN_NAME.fullmatch(one.predicate.value)), None):
        raise ValueError(f"expected a predicate that ends in a name, got {nameless.predicate}")
    raws = {term.value for triple in triples for term in (triple.subject, triple.object) if type(term) is BlankNode}
    free = (name for n in itertools.count(1) if (name := f"b{n}") not in raws)
    names = {raw: BlankNode(next(free)) for raw in sorted(raws) if not XML_NAME.fullmatch(raw)}

    def allowed(term: Any) -> Any:
        return names.get(term.value, term) if type(term) is BlankNode else term

    return (Triple(allowed(triple.subject), triple.predicate, allowed(triple.object)) for triple in triples)


def _refused(name: str, format: str, error: ValueError) -> WriteError:
    title = syntax.TITLES.get(format, format)
    return WriteError(name, f"cannot be written as {title}: {error}. Choose another format, such as TriG (.trig).")


class _Labelled:
    """Quads with a label for every node."""

    def __init__(self, blanks: Blanks, quads: Quads) -> None:
        for quad in quads:
            for term in (quad.subject, quad.object, quad.graph_name):
                if type(term) is BlankNode:
                    blanks.id(term.value)
        taken = {raw for raw in blanks.ids if raw not in blanks.numbers}
        free = (name for n in itertools.count(1) if (name := f"b{n}") not in taken)
        self.names = {raw: BlankNode(name) for raw, name in zip(blanks.numbers, free, strict=False)}

    def quad(self, quad: Quad) -> Quad:
        """The same quad."""
        if not self.names:
            return quad
        subject, object, graph = map(self._term, (quad.subject, quad.object, quad.graph_name))
        return Quad(subject, quad.predicate, object, graph)

    def _term(self, term: Any) -> Any:
        return self.names.get(term.value, term) if type(term) is BlankNode else term
