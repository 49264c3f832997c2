"""Quads as a document, as a block of ours at the end of somebody else's, or as a SPARQL update.

Statements are grouped as a person would where they come in order: a graph, a subject `;` a predicate `,` its values.
Nothing at all is written where there is nothing to write.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple

from pyoxigraph import BlankNode, DefaultGraph

from kbdisk.loaders.rdf import blocks
from kbdisk.loaders.rdf.spelling import Terms

LINES = ("ntriples", "nquads")
GRAPHS = ("nquads", "trig", "sparql-update")


class _Row(NamedTuple):
    """A quad as text; the default graph is empty."""

    graph: str
    subject: str
    predicate: str
    object: str


class Writer:
    """Writes quads to a stream as they come. `close` ends the last statement; leaving a `with` does so too."""

    def __init__(
        self,
        stream: BinaryIO,
        format: str,
        terms: Terms | None = None,
        *,
        newline: bytes = b"\n",
        opening: bytes = b"",
        closing: bytes = b"",
    ) -> None:
        self.stream = stream
        self.format = format
        self.terms = terms if terms and format not in LINES else Terms()
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
        """End what is open."""
        if self.count:
            end = "" if self.format in LINES else self._ended() + self._graph_ended()
            self.stream.write(end.encode() + self.closing)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.close()

    def _row(self, quad: Any) -> _Row:
        terms = self.terms
        graph = getattr(quad, "graph_name", None) or DefaultGraph()
        name = "" if type(graph) is DefaultGraph else terms.term(graph)
        if name and self.format not in GRAPHS:
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


def block(
    stream: BinaryIO, format: str, terms: Terms | None = None, *, newline: bytes = b"\n", at_line_start: bool = True
) -> Writer:
    """A delimited block of ours, to stand after a document that ends in a newline or does not."""
    opening, closing = blocks.BEGIN + newline, blocks.END
    if at_line_start:
        closing += newline
    else:  # and no line end after it either, so that whoever takes the block out takes one line end with it
        opening = newline + opening
    return Writer(stream, format, terms, newline=newline, opening=opening, closing=closing)


def document(stream: BinaryIO, format: str, terms: Terms | None = None) -> Writer:
    """A document of its own, with the prefixes of its terms."""
    terms = terms and terms.standing_alone()
    prefixes = terms.prefixes if terms and format not in LINES else {}
    lines = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in prefixes.items())
    return Writer(stream, format, terms, opening=(lines and lines + "\n").encode())


def update(stream: BinaryIO, terms: Terms | None = None) -> Writer:
    """A SPARQL update that inserts the quads."""
    terms = terms and terms.standing_alone()
    prefixes = terms.prefixes if terms else {}
    lines = "".join(f"PREFIX {name}: <{iri}>\n" for name, iri in prefixes.items())
    opening = (lines and lines + "\n") + "INSERT DATA {\n"
    return Writer(stream, "sparql-update", terms, opening=opening.encode(), closing=b"}\n")
