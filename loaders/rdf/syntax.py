"""RDF syntaxes: parsing with pyoxigraph, its error messages in our words, and the tokens of Turtle and TriG as bytes.

Nothing is ever fetched. `check_nesting` refuses triples that nest too deep within triples: the parser follows each level
with a call, and would crash.

`tokens` walks a document token by token and never parses it. Comments, IRIs, the four forms of string and names such as
`ex:a\\[b` or `:a.b` are one token each, so nothing inside of them is taken for structure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

import pyoxigraph
from pyoxigraph import Literal, NamedNode, RdfFormat

from kbdisk.errors import LoadError

# ---------------------------------------------------------------- parsing


NO_BASE = "kbdisk-no-base:/"  # reveals relative IRIs, which parsers drop where there is no base

FORMATS: dict[str, RdfFormat] = {
    "turtle": RdfFormat.TURTLE,
    "ntriples": RdfFormat.N_TRIPLES,
    "nquads": RdfFormat.N_QUADS,
    "trig": RdfFormat.TRIG,
    "n3": RdfFormat.TURTLE,  # most .n3 files are Turtle; rdflib reads the others
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
LINES = ("ntriples", "nquads")  # one statement a line
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
    """A parser's message as a LoadError of one line."""
    message = re.sub(r"^Parser error at line \d+( between columns \d+ and \d+| column \d+)?: ", "", error.msg)
    title = TITLES[format]
    if "No scheme found in an absolute IRI" in message or "relative IRI" in message.lower():
        problem = "expected an absolute IRI, got a relative one without a base. Say --base IRI."
    elif "nexpected end" in message:
        problem = f"expected more {title}, got the end of the file. Get all of it."
    elif "UTF-8" in message:
        problem = f"expected {title} in UTF-8, got other bytes. Save it as UTF-8."
    else:
        problem = f"expected {title}, got an error: {message.rstrip('.')}. Mend it there."
    return LoadError(name, problem, error.lineno)


def refuse_relative(quads: Iterable[Any], name: str) -> Iterator[Any]:
    """The quads; LoadError where an IRI was relative and had no base."""
    for quad in quads:
        datatype = quad.object.datatype if type(quad.object) is Literal else None
        for term in (quad.subject, quad.predicate, quad.object, datatype, quad.graph_name):
            if type(term) is NamedNode and term.value.startswith(NO_BASE):
                relative = term.value[len(NO_BASE) :]
                raise LoadError(name, f"expected an absolute IRI, got {relative!r} without a base. Say --base IRI.")
        yield quad


# ---------------------------------------------------------------- nested triples


MAX_NESTED_TRIPLES = 100  # levels
_LONG_LINE = 1 << 14  # bytes; a line with more levels than the parser survives is much longer

_NESTING_MARK = re.compile(rb"<<|>>")


def check_nesting(open_text: Callable[[], BinaryIO], name: str, lines: bool) -> None:
    """LoadError where triples nest too deep within triples; `lines` says that each statement is a line."""
    if lines and not _has_long_lines(open_text):
        return
    with open_text() as stream:
        suspicious = _is_deep(
            mark for chunk in _chunks(stream) if b"<<" in chunk for mark in _NESTING_MARK.findall(chunk)
        )
    if not suspicious:
        return
    with open_text() as stream:  # strings may hold such marks, too
        data = stream.read()
    if _is_deep(token.text for token in tokens(data)):
        raise too_deeply_nested(name)


def too_deeply_nested(name: str, line: int | None = None) -> LoadError:
    """The error for triples that nest too deep."""
    return LoadError(
        name, f"expected at most {MAX_NESTED_TRIPLES} triples within triples, got more. Write it flat.", line
    )


def _has_long_lines(open_text: Callable[[], BinaryIO]) -> bool:
    """Whether any line may be long: whether there is a long text without a line end."""
    with open_text() as stream:
        tail = b""
        while chunk := stream.read(CHUNK_SIZE):
            text = tail + chunk
            steps = range(0, len(text) - _LONG_LINE, _LONG_LINE)
            if any(text.rfind(b"\n", step, step + _LONG_LINE) < 0 for step in steps):
                return True
            tail = text[-2 * _LONG_LINE :]
    return False


def _chunks(stream: BinaryIO) -> Iterable[bytes]:
    return iter(lambda: stream.read(CHUNK_SIZE), b"")


def _is_deep(marks: Iterable[bytes]) -> bool:
    depth = 0
    for mark in marks:
        if mark[:2] == b"<<":
            depth += 1
            if depth > MAX_NESTED_TRIPLES:
                return True
        elif mark[-2:] == b">>" and depth:
            depth -= 1
    return False


# ---------------------------------------------------------------- tokens


CHUNK_SIZE = 1 << 20
BOM = rb"\A\xef\xbb\xbf"

SPACE = rb"[ \t\r\n]"
COMMENT = rb"#[^\r\n]*+"
IRI = rb'<[^\x00-\x20<>"{}|^`]*+>'
LANGUAGE = rb"@[A-Za-z][A-Za-z0-9-]*+"
SHORT_STRING = rb'"[^"\\\r\n]*+(?:\\[^\r\n][^"\\\r\n]*+)*+"|' + rb"'[^'\\\r\n]*+(?:\\[^\r\n][^'\\\r\n]*+)*+'"
LONG_STRING = rb'"""(?:[^"\\]++|\\[\s\S]|"(?!""))*+"""|' + rb"'''(?:[^'\\]++|\\[\s\S]|'(?!''))*+'''"
_CHAR = rb"[\w\x80-\xff-]"
LABEL = rb"_:[\w\x80-\xff]" + _CHAR + rb"*+(?:\.++" + _CHAR + rb"++)*+"
NUMBER = rb"[+-]?(?:\d++\.\d*+[eE][+-]?\d++|\d*+\.\d++(?:[eE][+-]?\d++)?|\d++(?:[eE][+-]?\d++)?)"
PREFIX_NAME = rb"[A-Za-z\x80-\xff]" + _CHAR + rb"*+(?:\.++" + _CHAR + rb"++)*+"
_LOCAL = rb"(?:[\w:%\x80-\xff-]++|\\[^\r\n]|\.++(?=[\w:%\\\x80-\xff-]))*+"
NAME = rb"(?:" + PREFIX_NAME + rb")?+:" + _LOCAL + rb"|" + PREFIX_NAME
STRING = rb"(?:" + LONG_STRING + rb"|(?!\"\"\"|''')(?:" + SHORT_STRING + rb"))(?:" + LANGUAGE + rb")?+"
VALUE = rb"(?!(?i:prefix|base|version)(?:[\s#<]|\Z))(?:" + NAME + rb")|" + IRI + rb"|" + STRING + rb"|" + NUMBER
OPEN_SHORT = rb'"[^"\\\r\n]*+(?:\\[^\r\n][^"\\\r\n]*+)*+|' + rb"'[^'\\\r\n]*+(?:\\[^\r\n][^'\\\r\n]*+)*+"
OPEN_LONG = rb'"""(?:[^"\\]++|\\[\s\S]|"(?!""))*+|' + rb"'''(?:[^'\\]++|\\[\s\S]|'(?!''))*+"
STRUCTURE = rb"<<\(?|\)?>>|\{\||\|\}|[\[\](){}.;,~]|" + LABEL
BLANK = rb"(?:" + SPACE + rb"|" + COMMENT + rb")*+"
PREFIX = rb"(?i:@prefix|prefix(?=[\s#]))" + BLANK + rb"(?:" + PREFIX_NAME + rb")?+:" + BLANK + IRI

_BLANK = re.compile(BLANK)
_TOKEN = re.compile(
    rb"(?:%s++|%s|%s|%s)*+(?:(?P<token>%s)|(?P<prefix>%s)|%s|%s|[\s\S]|\Z)"
    % (SPACE, BOM, VALUE, COMMENT, STRUCTURE, PREFIX, OPEN_LONG, OPEN_SHORT)
)


class Token(NamedTuple):
    """A piece of structure: a bracket, a mark, a label `_:b0`, or the start of a directive, `@prefix ex: <iri>`."""

    start: int
    text: bytes


def tokens(data: bytes) -> Iterator[Token]:
    """The structure of a document, in order."""
    for match in _TOKEN.finditer(data):
        kind = match.lastgroup
        if kind is not None:
            yield Token(match.start(kind), match[kind])


def after_blank(data: bytes, place: int) -> int:
    """The place of the next byte that is neither white space nor in a comment."""
    blank = _BLANK.match(data, place)
    assert blank is not None
    return blank.end()


def overlapping(stream: BinaryIO, reach: int = 128) -> Iterator[bytes]:
    """A stream in chunks that overlap, so that every short text is complete in one of them."""
    overlap = b""
    while chunk := stream.read(CHUNK_SIZE):
        yield overlap + chunk
        overlap = (overlap + chunk)[-reach:]


def newline_of(sample: bytes) -> bytes:
    """The line end of a file, by its first line."""
    end = sample.find(b"\n")
    return b"\r\n" if end > 0 and sample[end - 1 : end] == b"\r" else b"\n"
