"""The W3C's RDF suites, where they are present: each case converted to every format, beside its result, pyoxigraph and rdflib.

    KBDISK_SUITES=~/rdf-tests make test        a checkout of https://github.com/w3c/rdf-tests

Of a case that is to be read, what each conversion says is isomorphic to the expected result, or to what pyoxigraph reads where a
case has none; rdflib says so too, where it reads the result as pyoxigraph does. A target that is refused cannot say it. Of a case
that is to be refused, kbdisk says one line. Where pyoxigraph itself reads a case otherwise than the W3C, that is counted.
"""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin

import pyoxigraph
import pytest
from isomorphism import isomorphic
from judges import BASE, FORMATS, by_rdflib, canonical
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, Triple

import kbdisk
from kbdisk.errors import KBDiskError, LoadError, WriteError

FOLDER = Path(os.environ.get("KBDISK_SUITES") or "/nowhere")
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="needs the W3C suites: set KBDISK_SUITES to a checkout of w3c/rdf-tests"
)

MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
KIND = re.compile(r"http://www\.w3\.org/ns/rdftest#Test(Turtle|NTriples|NQuads|Tri[gG]|XML)(.*)")
SUFFIXES = {"turtle": "ttl", "ntriples": "nt", "nquads": "nq", "trig": "trig", "rdfxml": "rdf", "jsonld": "jsonld"}
BY_SUFFIX = {f".{suffix}": format for format, suffix in SUFFIXES.items()}
GRAPHS = ("nquads", "trig", "jsonld")
BASES = {"rdf-turtle": "http://www.w3.org/2013/TurtleTests/", "rdf-trig": "http://www.w3.org/2013/TriGTests/"}  # of old
WORDS = "RDF ID about bagID parseType resource nodeID datatype li aboutEach aboutEachPrefix Description"
RESERVED = {RDF + word for word in WORDS.split()}


class Case(NamedTuple):
    """One test of a manifest."""

    name: str
    kind: str  # Eval, PositiveSyntax, NegativeSyntax, NegativeEval
    action: Path
    result: Path | None
    base: str

    @property
    def format(self) -> str:
        """By the file's name."""
        return BY_SUFFIX[self.action.suffix]


def manifests() -> list[Path]:
    return sorted(file for file in FOLDER.glob("rdf/**/manifest.ttl") if "semantics" not in str(file))


def cases(manifest: Path) -> Iterator[Case]:
    """The tests of a manifest that read a document."""
    here = manifest.parent.as_uri() + "/"
    fields: dict[object, dict[str, list[object]]] = {}
    base = BASES.get(manifest.parent.name, f"https://w3c.github.io/rdf-tests/{manifest.parent.relative_to(FOLDER)}/")
    for quad in pyoxigraph.parse(manifest.read_bytes(), pyoxigraph.RdfFormat.TURTLE, base_iri=here):
        fields.setdefault(quad.subject, {}).setdefault(quad.predicate.value, []).append(quad.object)
        base = quad.object.value if quad.predicate.value == f"{MF}assumedTestBase" else base
    for subject, known in fields.items():
        kind = next((found for one in known.get(f"{RDF}type", ()) if (found := KIND.fullmatch(one.value))), None)
        if kind is None or f"{MF}action" not in known:
            continue
        action, *result = (_file(one.value) for key in ("action", "result") for one in known.get(MF + key, ()))
        if action.is_file() and action.suffix in BY_SUFFIX:
            inside = action.relative_to(manifest.parent).as_posix()
            expected = result[0] if result and result[0].is_file() else None
            yield Case(subject.value.rpartition("#")[2], kind[2], action, expected, base + inside)


def _file(iri: str) -> Path:
    return Path(iri.removeprefix("file://"))


def parsed(file: Path, base: str | None = None, lenient: bool = True) -> list[Quad]:
    """A document as pyoxigraph reads it; lenient, any IRI counts as one."""
    format = FORMATS[BY_SUFFIX[file.suffix]]
    return list(pyoxigraph.parse(file.read_bytes(), format, base_iri=base, lenient=lenient))


def reason_of(quads: list[Quad], target: str) -> str:
    """Why no document of a format says some quads; or nothing."""
    if target not in GRAPHS and any(not isinstance(quad.graph_name, DefaultGraph) for quad in quads):
        return "expected the default graph"
    if target == "jsonld":
        return "expected no triple term" if any(type(quad.object) is Triple for quad in quads) else ""
    if target != "rdfxml":
        return ""
    for triple in _all_triples(quads):
        if triple.predicate.value in RESERVED:
            return "no word of RDF/XML itself"
        if re.search(r"[^\W\d][\w.-]*\Z", triple.predicate.value) is None:
            return "ends in a name"
        if type(triple.object) is Literal and re.search(
            "[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", triple.object.value
        ):
            return "XML has no character"
    return ""


def _all_triples(quads: list[Quad]) -> Iterator[Quad | Triple]:
    for quad in quads:
        yield quad
        if type(quad.object) is Triple:
            yield from _all_triples([quad.object])


def _is_for_rdflib(quads: list[Quad], target: str) -> bool:
    """Whether rdflib can judge: it knows RDF 1.1, and takes `?#` out of the IRIs of RDF/XML."""
    known = not any(type(one.object) is Triple or getattr(one.object, "direction", None) for one in quads)
    iris = {term.value for quad in quads for term in (quad.subject, quad.object) if type(term) is NamedNode}
    return known and (target != "rdfxml" or all(urljoin(BASE, iri) == iri for iri in iris))


# ---------------------------------------------------------------- the cases


def convert(case: Case, counts: Counter[str], folder: Path) -> Iterator[str]:
    """What is wrong with the conversions of a case that is to be read."""
    given = parsed(case.action, case.base)
    expected = given if case.result is None else parsed(case.result, case.base)
    if not isomorphic(given, expected):
        counts[f"read otherwise by pyoxigraph than expected: {case.name}"] += 1
        expected = given
    list(kbdisk.load(case.action, base=case.base))  # as entities
    for target, suffix in SUFFIXES.items():
        out = folder / f"out.{suffix}"
        try:
            kbdisk.write(kbdisk.load(case.action, base=case.base), out, force=True)
        except WriteError as refused:
            reason = reason_of(expected, target)
            counts[f"refused: {target}: {reason}"] += 1
            if not reason or reason not in str(refused) or "\n" in str(refused):
                yield f"{case.name} to {target}: {refused}"
            continue
        counts["conversions"] += 1
        if target == case.format:
            if out.read_bytes() != case.action.read_bytes():
                yield f"{case.name} to {target}: other bytes"
            continue
        try:
            same = isomorphic(parsed(out), expected)
        except SyntaxError as error:
            yield f"{case.name} to {target}: cannot be read: {error}"
            continue
        if not same:
            yield f"{case.name} to {target}: another graph"
        if _is_for_rdflib(expected, target) and _differs_for_rdflib(out, target, expected, counts):
            yield f"{case.name} to {target}: another graph for rdflib"


def _differs_for_rdflib(out: Path, target: str, expected: list[Quad], counts: Counter[str]) -> bool:
    """Whether rdflib reads another graph, though it reads the same as N-Quads."""
    plain = pyoxigraph.serialize(expected, format=pyoxigraph.RdfFormat.N_QUADS) or b""
    try:
        wanted = by_rdflib(plain, "nquads")
        found = by_rdflib(out.read_bytes(), target)
    except Exception:  # rdflib's own, of many kinds
        counts["not read by rdflib"] += 1
        return False
    counts["read by rdflib too"] += 1
    return wanted == canonical(expected) and found != wanted


def refuse(case: Case, counts: Counter[str], folder: Path) -> Iterator[str]:
    """What is wrong with a case that is to be refused: kbdisk refuses in one line what pyoxigraph does."""
    try:
        parsed(case.action, case.base, lenient=False)
        accepted = True
    except SyntaxError:
        accepted = False
    try:
        target = "out.trig" if case.format == "nquads" else "out.nq"  # its own bytes are copied as they are
        kbdisk.write(kbdisk.load(case.action, base=case.base), folder / target, force=True)
        refused = None
    except LoadError as error:
        refused = error
    counts["to be refused, read by pyoxigraph" if accepted else "refused as it is to be"] += 1
    if refused is None and not accepted:
        yield f"{case.name}: read, though it is none"
    elif refused is not None and "\n" in str(refused):
        yield f"{case.name}: more than a line: {refused}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "manifest", manifests() or [FOLDER / "manifest.ttl"], ids=lambda file: str(file.parent.relative_to(FOLDER))
)
def test_each_case_is_the_same_graph_in_every_format(manifest, tmp_path, record_property):
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for case in cases(manifest):
        counts["cases"] += 1
        look = refuse if case.kind.startswith("Negative") else convert
        with warnings.catch_warnings(action="ignore"):
            try:
                wrong += look(case, counts, tmp_path)
            except KBDiskError as error:
                wrong.append(f"{case.name}: {error}")
            except SyntaxError as error:
                counts["to be read, refused by pyoxigraph"] += 1
                with pytest.raises(LoadError):
                    list(kbdisk.load(case.action, base=case.base))
                print(f"{case.name}: {error}")
    for what, count in sorted(counts.items()):
        record_property(what, count)
        print(f"{what}: {count:,}")
    assert not wrong, "\n".join(wrong)
