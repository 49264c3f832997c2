"""Independent judges of what was written: other people's parsers, graphs compared in canonical form."""

from __future__ import annotations

import shutil
import subprocess
import warnings
from collections import Counter
from pathlib import Path

import pyoxigraph
import rdflib
from pyoxigraph import BlankNode, CanonicalizationAlgorithm, Dataset, DefaultGraph, Literal, NamedNode, Quad, RdfFormat

BOM = b"\xef\xbb\xbf"
BASE = "http://base.example/"
FORMATS = {
    "turtle": RdfFormat.TURTLE,
    "n3": RdfFormat.TURTLE,
    "trig": RdfFormat.TRIG,
    "ntriples": RdfFormat.N_TRIPLES,
    "nquads": RdfFormat.N_QUADS,
    "rdfxml": RdfFormat.RDF_XML,
    "jsonld": RdfFormat.JSON_LD,
}
NAMES = {  # what others call them: rdflib, rapper, serdi
    "turtle": ("turtle", "turtle", "turtle"),
    "n3": ("turtle", "turtle", "turtle"),
    "trig": ("trig", None, "trig"),  # rapper's TriG knows no GRAPH
    "ntriples": ("nt", "ntriples", "ntriples"),
    "nquads": ("nquads", "nquads", "nquads"),
    "rdfxml": ("xml", "rdfxml", None),
    "jsonld": ("json-ld", None, None),
}


def quads(data: bytes, format: str = "turtle", base: str = BASE) -> list[Quad]:
    """The quads of a document as pyoxigraph reads them."""
    return list(pyoxigraph.parse(data.removeprefix(BOM), FORMATS[format], base_iri=base))


def canonical(found: list[Quad]) -> set[str]:
    """Quads whose blank nodes are named by what is said of them."""
    dataset = Dataset(found)
    dataset.canonicalize(CanonicalizationAlgorithm.UNSTABLE)
    return {str(quad) for quad in dataset}


def graph(data: bytes, format: str = "turtle", base: str = BASE) -> set[str]:
    """A document's graph in canonical form."""
    return canonical(quads(data, format, base))


def by_rdflib(data: bytes, format: str = "turtle", base: str = BASE) -> set[str]:
    """The same as rdflib reads it, without its rewriting of literals."""
    before, rdflib.NORMALIZE_LITERALS = rdflib.NORMALIZE_LITERALS, False
    try:
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # rdflib's, of its own doing
            dataset = rdflib.Dataset()
            dataset.parse(data=data.removeprefix(BOM), format=NAMES[format][0], publicID=base)
        return of_graph(dataset)
    finally:
        rdflib.NORMALIZE_LITERALS = before


def of_graph(found: rdflib.Graph) -> set[str]:
    """An rdflib Graph or Dataset in canonical form."""
    every = found.quads() if isinstance(found, rdflib.Dataset) else ((*triple, None) for triple in found)
    return canonical([_quad(*one) for one in every])


def by_tools(data: bytes, format: str, folder: Path, base: str = BASE) -> dict[str, set[str]]:
    """The same as rapper and serdi see it, where they are installed."""
    file = folder / "judged"
    file.write_bytes(data.removeprefix(BOM))
    _, rapper, serdi = NAMES[format]
    commands = {
        "rapper": ["rapper", "-q", "-i", rapper, "-o", "nquads", str(file), base],
        "serdi": ["serdi", "-i", serdi, "-o", "nquads", str(file), base],
    }
    found = {}
    for name, command in commands.items():
        if shutil.which(name) and command[command.index("-i") + 1]:
            done = subprocess.run(command, capture_output=True, check=False)
            assert done.returncode == 0, f"{name}: {done.stderr.decode()}"
            found[name] = graph(done.stdout, "nquads")
    return found


def says(data: bytes, expected: bytes, format: str, folder: Path, base: str = BASE, expected_format: str = "") -> None:
    """Check that a document says what another one does, whoever reads it."""
    like = expected_format or format
    assert graph(data, format, base) == graph(expected, like, base)
    assert by_rdflib(data, format, base) == by_rdflib(expected, like, base)
    wanted = by_tools(expected, like, folder, base)
    for name, found in by_tools(data, format, folder, base).items():
        assert found == wanted.get(name, found), name


def beyond(before: bytes, after: bytes, format: str, new: Counter[tuple[str, str]], base: str = BASE) -> None:
    """Check that a document says the same as before and, for each (predicate, object) of `new`, so many triples more."""
    rest = []
    left = Counter(new)
    for quad in reversed(quads(after, format, base)):  # what is new stands last
        told = (quad.predicate.value, str(quad.object))
        if left[told] > 0:
            left[told] -= 1
        else:
            rest.append(quad)
    assert not +left, f"missing: {+left}"
    assert canonical(rest) == graph(before, format, base)


def _quad(subject: object, predicate: object, object_: object, graph: object) -> Quad:
    default = graph is None or graph == rdflib.graph.DATASET_DEFAULT_GRAPH_ID
    return Quad(_term(subject), _term(predicate), _term(object_), DefaultGraph() if default else _term(graph))


def _term(term: object) -> NamedNode | BlankNode | Literal:
    if isinstance(term, rdflib.URIRef):
        return NamedNode(str(term))
    if isinstance(term, rdflib.BNode):
        return BlankNode("x" + str(term).encode().hex())
    assert isinstance(term, rdflib.Literal)
    if term.language:
        return Literal(str(term), language=term.language)
    return Literal(str(term), datatype=NamedNode(str(term.datatype))) if term.datatype else Literal(str(term))
