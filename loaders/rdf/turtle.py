"""Terms and quads as Turtle, TriG, N-Triples, N-Quads or SPARQL: as a document, a block after another document, or an update.

An IRI is shortened only where the short form is certain to be read back as the same IRI; else it is written in full.
Statements in order are grouped as a person would: a graph, a subject `;` a predicate `,` its values. Where there is nothing
to write, not a byte is written.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Triple

from kbdisk.loaders.rdf import blocks, syntax
from kbdisk.loaders.rdf.syntax import LINES
from kbdisk.loaders.rdf.terms import STRING, TYPE, XSD

# ---------------------------------------------------------------- terms


SHORTHAND: dict[str, re.Pattern[str]] = {  # datatype -> how it may be written bare; rdflib would rewrite `+05.5`
    XSD + "integer": re.compile(r"-?(?:0|[1-9][0-9]*)"),
    XSD + "decimal": re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+"),
    XSD + "double": re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.?[0-9]+)[eE][+-]?[0-9]+"),
    XSD + "boolean": re.compile(r"true|false"),
}
_LETTER = (  # PN_CHARS_BASE
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_FIRST = _LETTER + "_0-9"
_LATER = _FIRST + "\u00b7\u0300-\u036f\u203f-\u2040-"
_HEX = "%[0-9A-Fa-f]{2}"
_LOCAL = re.compile(f"(?:(?:[{_FIRST}:]|{_HEX})(?:[{_LATER}:]|{_HEX}|\\.+(?=[{_LATER}:%]))*)?")
_LABEL = re.compile(f"[{_FIRST}](?:[{_LATER}]|\\.+(?=[{_LATER}]))*")
_IRI = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]*')
_PREFIX = re.compile(f"(?:[{_LETTER}](?:[{_LATER}]|\\.+(?=[{_LATER}]))*)?")
_FOLDER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]+/(?:(?!\.)[^/?#]+/)*")
_BESIDE = re.compile(r"(?!\.)[A-Za-z0-9_.~-]+(?:/(?!\.)[A-Za-z0-9_.~-]+)*/?")
_WITHIN = re.compile(r"(?:#[A-Za-z0-9_.~-]*)?")
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f-\x9f]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_RELATIVE = re.compile(rb"<(?![A-Za-z][A-Za-z0-9+.-]*:)[^\x00-\x20<>\"{}|^`]*>")
_BARE = {
    "integer": re.compile(rb"[\s,(\[][+-]?\d+(?=[\s,;)\]]|\.\s)"),
    "decimal": re.compile(rb"[\s,(\[][+-]?\d*\.\d+(?=[\s,;)\].])"),
    "double": re.compile(rb"[\s,(\[][+-]?[\d.]+[eE][+-]?\d+(?=[\s,;)\].])"),
    "boolean": re.compile(rb"[\s,(\[](?:true|false)(?=[\s,;)\].])"),
}
_MAX_CACHED_IRIS = 1 << 16  # IRIs


class TermWriter:
    """Writes terms as text, with the prefixes and the base in force; without any, as in N-Triples.

    `base` is given where the document's IRIs are relative: new IRIs then are relative, too, and stay beside them whatever
    base the document is read with. `shorthand` are the datatypes whose values may be bare.
    """

    def __init__(
        self, prefixes: Mapping[str, str] | None = None, base: str | None = None, shorthand: Container[str] = ()
    ) -> None:
        self.prefixes = {name: iri for name, iri in (prefixes or {}).items() if _is_usable(name, iri)}
        self.namespaces = sorted(((iri, name) for name, iri in self.prefixes.items()), key=_longest_first)
        self.shorthand = shorthand
        self.bases = _bases(base) if base else []
        self._known: dict[str, str] = {}

    def iri(self, iri: str) -> str:
        """An IRI, as short as is safe; ValueError where it is none."""
        text = self._known.get(iri)
        if text is None:
            if len(self._known) >= _MAX_CACHED_IRIS:
                self._known.clear()
            text = self._known[iri] = self._prefixed(iri) or self._relative(iri) or _full_iri(iri)
        return text

    def _prefixed(self, iri: str) -> str | None:
        for namespace, name in self.namespaces:
            if iri.startswith(namespace) and _LOCAL.fullmatch(iri, len(namespace)):
                return f"{name}:{iri[len(namespace) :]}"
        return None

    def _relative(self, iri: str) -> str | None:
        for base, rest in self.bases:
            if iri.startswith(base) and rest.fullmatch(iri, len(base)):
                return f"<{iri[len(base) :]}>"
        return None

    def literal(self, literal: Literal) -> str:
        """A literal, bare where it may be."""
        lexical, datatype = literal.value, literal.datatype.value
        if datatype in self.shorthand and SHORTHAND[datatype].fullmatch(lexical):
            return lexical
        text = f'"{_ESCAPED.sub(_escape, lexical)}"'
        if literal.language:
            return f"{text}@{literal.language}" + (f"--{literal.direction.value}" if literal.direction else "")
        return text if datatype == STRING else f"{text}^^{self.iri(datatype)}"

    def term(self, term: Any) -> str:
        """Any term; ValueError where it cannot be written."""
        if type(term) is NamedNode:
            return self.iri(term.value)
        if type(term) is Literal:
            return self.literal(term)
        if type(term) is BlankNode and _LABEL.fullmatch(term.value):
            return f"_:{term.value}"
        if type(term) is Triple:
            inside = self.term(term.subject), self.predicate(term.predicate), self.term(term.object)
            return f"<<( {' '.join(inside)} )>>"
        raise ValueError(f"expected an IRI, a blank node or a literal, got {term}")

    def predicate(self, predicate: NamedNode) -> str:
        """A predicate: `a` for the class, where names are shortened at all."""
        return "a" if self.namespaces and predicate.value == TYPE else self.iri(predicate.value)

    def standing_alone(self) -> TermWriter:
        """The same writer for a document without a base."""
        return TermWriter(self.prefixes, shorthand=self.shorthand)

    def pair(self, predicate: NamedNode, object: Any) -> bytes:
        """A predicate and its object, for a bracket."""
        return f"{self.predicate(predicate)} {self.term(object)}".encode()


def _longest_first(namespace: tuple[str, str]) -> tuple[int, str]:
    return -len(namespace[0]), namespace[1]


def _is_usable(prefix: str, namespace: str) -> bool:
    return _PREFIX.fullmatch(prefix) is not None and _IRI.fullmatch(namespace) is not None


def _bases(base: str) -> list[tuple[str, re.Pattern[str]]]:
    """The beginnings that relative IRIs leave out: the document before `#name`, its folder before `name`."""
    folder = _FOLDER.match(base)
    return [(base.partition("#")[0], _WITHIN)] + ([(folder[0], _BESIDE)] if folder else [])


def _full_iri(iri: str) -> str:
    if _IRI.fullmatch(iri):
        return f"<{iri}>"
    raise ValueError(f"expected an absolute IRI, got {iri!r}")


def _escape(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04X}"


def relative_iris(stream: BinaryIO) -> bool:
    """Whether a document has relative IRIs, or words in its strings that look like them."""
    return any(_RELATIVE.search(chunk) for chunk in syntax.overlapping(stream))


def shorthand_of(sample: bytes) -> frozenset[str]:
    """The datatypes whose values a document writes bare, judged by its beginning: all but those it mostly quotes."""
    return frozenset(XSD + name for name, bare in _BARE.items() if _quoted(sample, name) <= len(bare.findall(sample)))


def _quoted(sample: bytes, name: str) -> int:
    return len(re.findall(f"[\"']\\^\\^(?:<{XSD}{name}>|[\\w.-]*:{name}\\b)".encode(), sample))


# ---------------------------------------------------------------- quads


GRAPH_FORMATS = ("nquads", "trig", "sparql-update")


class _Row(NamedTuple):
    """A quad as text; the default graph is empty."""

    graph: str
    subject: str
    predicate: str
    object: str


class QuadWriter:
    """Writes quads to a stream as they come. `close` ends the last statement; leaving a `with` does so too."""

    def __init__(
        self,
        stream: BinaryIO,
        format: str,
        terms: TermWriter | None = None,
        *,
        newline: bytes = b"\n",
        opening: bytes = b"",
        closing: bytes = b"",
    ) -> None:
        self.stream = stream
        self.format = format
        self.terms = terms if terms and format not in LINES else TermWriter()
        self.newline = newline.decode()
        self.opening, self.closing = opening, closing
        self.count = 0
        self._last = _Row("", "", "", "")

    def write(self, quads: Iterable[Any]) -> None:
        """Write some quads or triples: all of them, or none and a ValueError where one has no place here."""
        rows = [self._row(quad) for quad in quads]
        if rows and not self.count:
            self.stream.write(self.opening)
        self.count += len(rows)
        text = self._line if self.format in LINES else self._grouped
        self.stream.write("".join(map(text, rows)).encode())

    def close(self) -> None:
        """End the last statement and graph."""
        if self.count:
            end = "" if self.format in LINES else self._ended() + self._graph_ended()
            self.stream.write(end.encode() + self.closing)

    def __enter__(self) -> QuadWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.close()

    def _row(self, quad: Any) -> _Row:
        terms = self.terms
        graph = getattr(quad, "graph_name", None) or DefaultGraph()
        name = "" if type(graph) is DefaultGraph else terms.term(graph)
        if name and self.format not in GRAPH_FORMATS:
            raise ValueError(f"expected the default graph, got {name}: {self.format} has no others")
        if type(graph) is BlankNode and self.format == "sparql-update":
            raise ValueError(f"expected a graph named by an IRI, got {name}")
        predicate = terms.iri(quad.predicate.value) if self.format in LINES else terms.predicate(quad.predicate)
        return _Row(name, terms.term(quad.subject), predicate, terms.term(quad.object))

    def _line(self, row: _Row) -> str:
        graph = row.graph and row.graph + " "
        return f"{row.subject} {row.predicate} {row.object} {graph}.{self.newline}"

    def _grouped(self, row: _Row) -> str:
        last, self._last = self._last, row
        margin = "    " if row.graph else ""
        if row[:3] == last[:3]:
            return f" , {row.object}"
        if row[:2] == last[:2]:
            return f" ;{self.newline}{margin}    {row.predicate} {row.object}"
        text = self._ended() if last.subject else ""
        if row.graph != last.graph:
            text += self._graph_ended(last) + (f"{self._opened(row)}{self.newline}" if row.graph else "")
        return f"{text}{margin}{row.subject} {row.predicate} {row.object}"

    def _opened(self, row: _Row) -> str:
        return f"GRAPH {row.graph} {{" if self.format == "sparql-update" else f"{row.graph} {{"

    def _ended(self) -> str:
        return f" .{self.newline}"

    def _graph_ended(self, row: _Row | None = None) -> str:
        return f"}}{self.newline}" if (row or self._last).graph else ""


def write_block(
    stream: BinaryIO,
    format: str,
    terms: TermWriter | None = None,
    *,
    newline: bytes = b"\n",
    at_line_start: bool = True,
) -> QuadWriter:
    """A writer of a block of kbdisk, after a document that ends in a newline or does not."""
    opening, closing = blocks.BEGIN + newline, blocks.END
    if at_line_start:
        closing += newline
    else:  # no line end after it either, so that the block is taken out with one line end
        opening = newline + opening
    return QuadWriter(stream, format, terms, newline=newline, opening=opening, closing=closing)


def write_document(stream: BinaryIO, format: str, terms: TermWriter | None = None) -> QuadWriter:
    """A writer of a new document, with the prefixes of its terms."""
    terms = terms and terms.standing_alone()
    prefixes = terms.prefixes if terms and format not in LINES else {}
    lines = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in prefixes.items())
    return QuadWriter(stream, format, terms, opening=(lines and lines + "\n").encode())


def write_update(stream: BinaryIO, terms: TermWriter | None = None) -> QuadWriter:
    """A writer of a SPARQL update that inserts the quads."""
    terms = terms and terms.standing_alone()
    prefixes = terms.prefixes if terms else {}
    lines = "".join(f"PREFIX {name}: <{iri}>\n" for name, iri in prefixes.items())
    opening = (lines and lines + "\n") + "INSERT DATA {\n"
    return QuadWriter(stream, "sparql-update", terms, opening=opening.encode(), closing=b"}\n")
