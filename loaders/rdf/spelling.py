"""RDF terms as text.

An IRI is shortened only where the short form is sure to be read back as the same IRI; else it is written in full.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any, BinaryIO

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from kbdisk.loaders.rdf import syntax

_XSD = "http://www.w3.org/2001/XMLSchema#"
_STRING = _XSD + "string"
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"

SHORTHAND: dict[str, re.Pattern[str]] = {  # datatype -> how it may be written bare; rdflib would rewrite `+05.5`
    _XSD + "integer": re.compile(r"-?(?:0|[1-9][0-9]*)"),
    _XSD + "decimal": re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+"),
    _XSD + "double": re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.?[0-9]+)[eE][+-]?[0-9]+"),
    _XSD + "boolean": re.compile(r"true|false"),
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
_REMEMBERED = 1 << 16  # IRIs


class Terms:
    """Terms as text, by the prefixes and the base in force; without any, as N-Triples has them.

    `base` is told where the document's own IRIs are relative: ours then are too, and stay beside them
    whatever base the document is read with. `shorthand` are the datatypes whose values may be bare.
    """

    def __init__(
        self, prefixes: Mapping[str, str] | None = None, base: str | None = None, shorthand: Container[str] = ()
    ) -> None:
        self.prefixes = {name: iri for name, iri in (prefixes or {}).items() if _usable(name, iri)}
        self.namespaces = sorted(((iri, name) for name, iri in self.prefixes.items()), key=_longest_first)
        self.shorthand = shorthand
        self.bases = _bases(base) if base else []
        self._known: dict[str, str] = {}

    def iri(self, iri: str) -> str:
        """An IRI, as short as is safe; ValueError where it is none."""
        text = self._known.get(iri)
        if text is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            text = self._known[iri] = self._prefixed(iri) or self._relative(iri) or _full(iri)
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
        return text if datatype == _STRING else f"{text}^^{self.iri(datatype)}"

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
        return "a" if self.namespaces and predicate.value == _TYPE else self.iri(predicate.value)

    def standing_alone(self) -> Terms:
        """The same for a document that has no base."""
        return Terms(self.prefixes, shorthand=self.shorthand)

    def pair(self, predicate: NamedNode, object: Any) -> bytes:
        """What goes into a bracket."""
        return f"{self.predicate(predicate)} {self.term(object)}".encode()


def _longest_first(namespace: tuple[str, str]) -> tuple[int, str]:
    return -len(namespace[0]), namespace[1]


def _usable(prefix: str, namespace: str) -> bool:
    return _PREFIX.fullmatch(prefix) is not None and _IRI.fullmatch(namespace) is not None


def _bases(base: str) -> list[tuple[str, re.Pattern[str]]]:
    """What a relative IRI leaves out: the document before `#name`, its folder before `name`."""
    folder = _FOLDER.match(base)
    return [(base.partition("#")[0], _WITHIN)] + ([(folder[0], _BESIDE)] if folder else [])


def _full(iri: str) -> str:
    if _IRI.fullmatch(iri):
        return f"<{iri}>"
    raise ValueError(f"expected an absolute IRI, got {iri!r}")


def _escape(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04X}"


def relative_iris(stream: BinaryIO) -> bool:
    """Whether a document has relative IRIs (or words in its strings that look so)."""
    return any(_RELATIVE.search(chunk) for chunk in syntax.overlapping(stream))


def shorthand_of(sample: bytes) -> frozenset[str]:
    """The datatypes whose values a document leaves bare, judged by its beginning: all but those it mostly quotes."""
    return frozenset(_XSD + name for name, bare in _BARE.items() if _quoted(sample, name) <= len(bare.findall(sample)))


def _quoted(sample: bytes, name: str) -> int:
    return len(re.findall(f"[\"']\\^\\^(?:<{_XSD}{name}>|[\\w.-]*:{name}\\b)".encode(), sample))
