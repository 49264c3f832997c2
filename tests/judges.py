"""Independent judges of what was written: graphs read by parsers that are not ours, compared in canonical form."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pyoxigraph
import rdflib
from pyoxigraph import CanonicalizationAlgorithm, Dataset, RdfFormat
from rdflib.compare import to_canonical_graph

BOM = b"\xef\xbb\xbf"
FORMATS = {
    "turtle": RdfFormat.TURTLE,
    "n3": RdfFormat.TURTLE,
    "trig": RdfFormat.TRIG,
    "ntriples": RdfFormat.N_TRIPLES,
    "nquads": RdfFormat.N_QUADS,
    "rdfxml": RdfFormat.RDF_XML,
    "jsonld": RdfFormat.JSON_LD,
}
RDFLIB = {"turtle": "turtle", "n3": "n3", "trig": "trig", "ntriples": "nt", "nquads": "nquads", "rdfxml": "xml", "jsonld": "json-ld"}
RAPPER = {"turtle": "turtle", "n3": "turtle", "ntriples": "ntriples", "trig": "trig", "nquads": "nquads", "rdfxml": "rdfxml"}
SERDI = {"turtle": "turtle", "n3": "turtle", "ntriples": "ntriples", "trig": "trig", "nquads": "nquads"}
BASE = "http://base.example/"


def quads(data: bytes, format: str = "turtle", base: str = BASE) -> set[str]:
    """The quads of a document in canonical form."""
    dataset = Dataset(pyoxigraph.parse(data.removeprefix(BOM), FORMATS[format], base_iri=base))
    dataset.canonicalize(CanonicalizationAlgorithm.UNSTABLE)
    return {str(quad) for quad in dataset}


def by_rdflib(data: bytes, format: str = "turtle", base: str = BASE) -> set[str]:
    """The triples of each graph of a document, read by rdflib without its rewriting of literals."""
    before, rdflib.NORMALIZE_LITERALS = rdflib.NORMALIZE_LITERALS, False
    try:
        dataset = rdflib.Dataset()
        dataset.parse(data=data.removeprefix(BOM), format=RDFLIB[format], publicID=base)
        graphs = {"": dataset.default_graph} | {str(one.identifier): one for one in dataset.graphs()}
        found: set[str] = set()
        for name, graph in graphs.items():
            label = "" if "default" in name else name
            found |= {f"{' '.join(term.n3() for term in triple)} {label}" for triple in to_canonical_graph(graph)}
        return found
    finally:
        rdflib.NORMALIZE_LITERALS = before


def by_tools(data: bytes, format: str, folder: Path, base: str = BASE) -> dict[str, set[str]]:
    """The quads as rapper and serdi see them, where they are installed."""
    file = folder / "judged"
    file.write_bytes(data.removeprefix(BOM))
    commands = {}
    if shutil.which("rapper") and format in RAPPER:
        commands["rapper"] = ["rapper", "-q", "-i", RAPPER[format], "-o", "nquads", str(file), base]
    if shutil.which("serdi") and format in SERDI:
        commands["serdi"] = ["serdi", "-i", SERDI[format], "-o", "nquads", str(file), base]
    found = {}
    for name, command in commands.items():
        done = subprocess.run(command, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        found[name] = quads(done.stdout, "nquads")
    return found


def new_in(before: bytes, after: bytes, format: str = "turtle", base: str = BASE) -> list[str]:
    """What the second document says beyond the first: judged by two parsers, which must agree that nothing is lost.

    A blank node that gets more is another one in canonical form; where there are such, use `grew`.
    """
    known, whole = quads(before, format, base), quads(after, format, base)
    assert known <= whole, sorted(known - whole)[:5]
    assert by_rdflib(before, format, base) <= by_rdflib(after, format, base)
    return sorted(whole - known)
