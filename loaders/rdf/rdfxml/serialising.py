"""Quads as a new RDF/XML document that every XML parser reads, or a ValueError that says what RDF/XML cannot say.

pyoxigraph writes some of what XML forbids without a word: control characters, names of elements that are none.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, cast
from xml.parsers import expat

import pyoxigraph
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, RdfFormat, Triple

from kbdisk.loaders.rdf.blank_nodes import blank_nodes, renamed
from kbdisk.loaders.rdf.terms import RDF

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_NO_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_RESERVED = frozenset(
    RDF + name for name in ("bagID", "aboutEach", "aboutEachPrefix")
)  # and more that pyoxigraph knows
_OWN_PREFIXES = ("rdf", "its")  # that pyoxigraph declares itself


def serialise(quads: Sequence[Quad], stream: BinaryIO, prefixes: Mapping[str, str]) -> None:
    """Write quads, all of the default graph."""
    triples = [_triple(quad) for quad in quads]
    for predicate in dict.fromkeys(_predicates(triples)):
        _check_predicate(predicate)
    for literal in _literals(triples):
        if found := _NO_CHARACTER.search(literal.value):
            raise ValueError(f"XML has no character U+{ord(found[0]):04X}, which stands in a literal")
    usable = {name: iri for name, iri in prefixes.items() if not name or _is_usable(name)}
    out = cast(BinaryIO, _Returns(stream))
    pyoxigraph.serialize(_named_for_xml(triples), out, format=RdfFormat.RDF_XML, prefixes=usable)


class _Returns:
    """A stream that escapes carriage returns: an XML parser would read a bare one as a line feed."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream

    def write(self, data: bytes) -> int:
        self.stream.write(data.replace(b"\r", b"&#13;"))
        return len(data)

    def flush(self) -> None:
        self.stream.flush()


def _triple(quad: Quad) -> Triple:
    if not isinstance(quad.graph_name, DefaultGraph):
        raise ValueError(f"expected the default graph, got {quad.graph_name}")
    return quad.triple


def _predicates(triples: Iterable[Any]) -> Iterator[NamedNode]:
    for triple in triples:
        yield triple.predicate
        if type(triple.object) is Triple:
            yield from _predicates([triple.object])


def _literals(triples: Iterable[Any]) -> Iterator[Literal]:
    for triple in triples:
        if type(triple.object) is Literal:
            yield triple.object
        elif type(triple.object) is Triple:
            yield from _literals([triple.object])


def _check_predicate(predicate: NamedNode) -> None:
    """ValueError unless a predicate becomes an element that an XML parser reads: tried out, since only that tells."""
    trial = Triple(BlankNode("b"), predicate, Literal(""))
    try:
        if predicate.value not in _RESERVED:
            document = pyoxigraph.serialize([trial], format=RdfFormat.RDF_XML) or b""
            expat.ParserCreate(namespace_separator=" ").Parse(document, True)
            return
    except OSError:  # pyoxigraph knows it to be reserved
        pass
    except expat.ExpatError:
        raise ValueError(f"expected a predicate that ends in a name, got {predicate}") from None
    raise ValueError(f"expected a predicate that is no word of RDF/XML itself, got {predicate}")


def _is_usable(prefix: str) -> bool:
    is_name = _NAME.fullmatch(prefix) is not None
    return is_name and not prefix.lower().startswith("xml") and prefix not in _OWN_PREFIXES


def _named_for_xml(triples: list[Triple]) -> Iterator[Triple]:
    """The triples with labels of blank nodes that XML allows."""
    raws = {node.value for triple in triples for node in blank_nodes(triple)}
    free = (name for n in itertools.count(1) if (name := f"b{n}") not in raws)
    names = {raw: BlankNode(next(free)) for raw in sorted(raws) if not _NAME.fullmatch(raw)}
    return (renamed(triple, lambda node: names.get(node.value, node)) for triple in triples)
