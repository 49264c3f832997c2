"""A whole RDF source in another syntax, or as an rdflib graph: by its triples, so that nothing of it is lost.

    given              as it was
    a block of ours    what earlier completions wrote into the source, then what is new

Nodes without a label get one, always the same. RDF/XML and JSON-LD have no blocks: there all is one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from pyoxigraph import BlankNode, Quad

from kbdisk.errors import WriteError
from kbdisk.loaders.rdf import jsonld, rdfxml, render, syntax
from kbdisk.loaders.rdf.blank_nodes import blank_nodes, renamed_quad
from kbdisk.loaders.rdf.spelling import Terms
from kbdisk.loaders.rdf.terms import XSD

if TYPE_CHECKING:
    from kbdisk.loaders.rdf.base import RdfKB
    from kbdisk.loaders.rdf.blank_nodes import BlankNodes

CHUNK = 10_000  # quads
BARE = frozenset(XSD + name for name in ("integer", "decimal", "boolean"))  # datatypes without quotes, in Turtle
SERIALISERS = {"jsonld": jsonld.serialise, "rdfxml": rdfxml.serialise}

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
    """Quads as a document of RDF/XML or JSON-LD."""
    usable = Terms(prefixes).prefixes
    try:
        SERIALISERS[format](list(quads), stream, usable)
    except ValueError as error:
        raise _refused(name, format, error) from None


def _refused(name: str, format: str, error: ValueError) -> WriteError:
    title = syntax.TITLES.get(format, format)
    return WriteError(name, f"cannot be written as {title}: {error}. Choose another format, such as TriG (.trig).")


class _Labelled:
    """Quads with a label for every node."""

    def __init__(self, blanks: BlankNodes, quads: Quads) -> None:
        for quad in quads:
            for node in blank_nodes(quad.subject, quad.object, quad.graph_name):
                blanks.id(node.value)
        taken = {raw for raw in blanks.ids if raw not in blanks.numbers}
        free = (name for n in itertools.count(1) if (name := f"b{n}") not in taken)
        self.names = {raw: BlankNode(name) for raw, name in zip(blanks.numbers, free, strict=False)}

    def quad(self, quad: Quad) -> Quad:
        """The same quad."""
        return renamed_quad(quad, self._node) if self.names else quad

    def _node(self, node: BlankNode) -> BlankNode:
        return self.names.get(node.value, node)
