"""RDF syntaxes: how each is parsed, and what a parser's complaint says to a user. Nothing is ever fetched."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import orjson
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

NO_BASE = "urn:kbdisk:no-base:/"  # JSON-LD drops relative IRIs in silence; against this base they show


def parser(source: str | BinaryIO | bytes, format: str, base: str | None) -> Any:
    """pyoxigraph's parser over a path, a stream or bytes."""
    if format == "jsonld" and base is None:
        base = NO_BASE
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
        return LoadError(name, "expected an absolute IRI, got a relative one without a base. Say --base IRI.", error.lineno)
    if "LoadDocumentCallback" in said:
        return LoadError(name, "names a context on the network, and nothing is fetched. Say --context IRI=FILE.")
    if "nexpected end of file" in said:
        return LoadError(name, f"expected more {title}, got the end of the file. Get all of it.", error.lineno)
    return LoadError(name, f"expected {title}, got an error: {said.rstrip('.')}. Mend it there.", error.lineno)


def check_relative(iris: Iterable[str], name: str) -> None:
    """Refuse IRIs that were relative and had no base."""
    found = next((iri for iri in iris if iri.startswith(NO_BASE)), None)
    if found is not None:
        relative = found[len(NO_BASE) :]
        raise LoadError(name, f"expected an absolute IRI, got {relative!r} without a base. Say --base IRI.")


def with_contexts(data: bytes, contexts: Mapping[str, bytes], name: str) -> bytes:
    """A JSON-LD document with the contexts it names put in their place."""
    if not contexts:
        return data
    known: dict[str, Any] = {}
    for iri, text in contexts.items():
        try:
            loaded = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise LoadError(iri, f"expected a JSON-LD context, got no JSON ({error}).") from None
        known[iri] = loaded.get("@context", loaded) if isinstance(loaded, dict) else loaded
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise LoadError(name, f"expected JSON-LD, got an error: {error}. Mend it there.", error.lineno) from None
    return orjson.dumps(_inlined(document, known))


def _inlined(value: Any, known: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_inlined(item, known) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _context(item, known) if key == "@context" else _inlined(item, known) for key, item in value.items()}


def _context(value: Any, known: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return known.get(value, value)
    return [_context(item, known) for item in value] if isinstance(value, list) else value
