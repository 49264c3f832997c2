"""RDF syntaxes: how each is parsed, and what a parser's complaint says to a user. Nothing is ever fetched."""

from __future__ import annotations

import re
from typing import Any, BinaryIO

import pyoxigraph
from pyoxigraph import RdfFormat

from kbdisk.errors import LoadError

FORMATS: dict[str, RdfFormat] = {
    "turtle": RdfFormat.TURTLE,
    "ntriples": RdfFormat.N_TRIPLES,
    "nquads": RdfFormat.N_QUADS,
    "trig": RdfFormat.TRIG,
    "n3": RdfFormat.TURTLE,  # most of what is called .n3 is Turtle; rdflib reads the rest
    "rdfxml": RdfFormat.RDF_XML,
    "jsonld": RdfFormat.JSON_LD,
}
TITLES = {
    "turtle": "Turtle",
    "ntriples": "N-Triples",
    "nquads": "N-Quads",
    "trig": "TriG",
    "n3": "N3",
    "rdfxml": "RDF/XML",
    "jsonld": "JSON-LD",
}
LINES = ("ntriples", "nquads")  # a statement a line
GRAPHS = ("nquads", "trig", "jsonld")  # may name graphs
TEXTUAL = (*LINES, "turtle", "trig", "n3")  # more can be written after the last byte


def parser(source: str | BinaryIO | bytes, format: str, base: str | None) -> Any:
    """pyoxigraph's parser over a path, a stream or bytes."""
    named = {"path": source} if isinstance(source, str) else {"input": source}
    try:
        return pyoxigraph.parse(**named, format=FORMATS[format], base_iri=base)
    except ValueError as error:
        raise LoadError("--base", f"expected an absolute IRI, got {base!r} ({error}).") from None


def fault(error: SyntaxError, name: str, format: str) -> LoadError:
    """A parser's complaint as our one line."""
    said = re.sub(r"^Parser error at line \d+( between columns \d+ and \d+| column \d+)?: ", "", error.msg)
    title = TITLES[format]
    if "No scheme found in an absolute IRI" in said or "relative IRI" in said.lower():
        problem = "expected an absolute IRI, got a relative one without a base. Say --base IRI."
    elif "nexpected end" in said:
        problem = f"expected more {title}, got the end of the file. Get all of it."
    elif "UTF-8" in said:
        problem = f"expected {title} in UTF-8, got other bytes. Save it as UTF-8."
    else:
        problem = f"expected {title}, got an error: {said.rstrip('.')}. Mend it there."
    return LoadError(name, problem, error.lineno)
