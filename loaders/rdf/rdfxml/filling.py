"""New statements set into the text of an RDF/XML document: into the elements that speak of their subjects.

What comes of it is parsed again: unless it says all that the document said, and what is new, and nothing else, it is not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from pyoxigraph import BlankNode, Literal, NamedNode, Quad

from kbdisk.loaders.edits import Change, spliced
from kbdisk.loaders.rdf import syntax
from kbdisk.loaders.rdf.additions import Additions, NoPlace, say_the_same
from kbdisk.loaders.rdf.rdfxml import sound
from kbdisk.loaders.rdf.rdfxml.elements import Element, Elements
from kbdisk.loaders.rdf.terms import RDF, STRING, TYPE

if TYPE_CHECKING:
    from kbdisk.loaders.rdf.file import RdfFile

_NAME = re.compile(r"[^\W\d][\w.-]*")
_ENDS_IN_NAME = re.compile(r"((?>.*[^\w.-])?+[\d.-]*+)([^\W\d][\w.-]*+)", re.DOTALL)
_LINE = re.compile(rb"[\r\n]([ \t]*)\Z")
_LOOK = 400  # bytes looked back for the indentation of a line

Line = tuple[int, str]  # how much further in than the properties beside it, and what stands on it


def changes_for(kb: RdfFile, given: list[Quad], new: list[Quad]) -> list[Change] | None:
    """The changes that put new statements into the document of a source; None where it cannot take them all in."""
    data = kb.source.read()

    def parse(document: bytes) -> list[Any]:
        return list(syntax.parser(sound.prepared(document, kb.name), kb.format, kb.options.base))

    additions = Additions(given, new, kb.blanks())
    try:
        changes = _changes(data, Elements(data, parse, kb.blanks()), additions)
        same = say_the_same(parse(spliced(data, changes)), given, new)
    except (SyntaxError, NoPlace):
        return None
    return changes if same else None


def _changes(data: bytes, elements: Elements, additions: Additions) -> list[Change]:
    """What becomes of the document's elements that take something."""
    homes: dict[int, tuple[Element, list[Quad]]] = {}
    for quad in additions.roots:
        element = elements.by_node.get(additions.key(quad))
        if element is None:
            raise NoPlace
        homes.setdefault(element.start, (element, []))[1].append(quad)
    layout = _Layout(data)
    return [
        layout.change(element, list(_Words(additions, element, elements.entities).properties(quads, 0)))
        for element, quads in homes.values()
    ]


class _Words:
    """Statements as properties, in the names that are in force inside an element."""

    def __init__(self, additions: Additions, element: Element, entities: Mapping[str, str]) -> None:
        self.entities = entities
        self.parts = additions.parts
        self.blanks = additions.blanks
        self.element = element
        rdf = next((prefix for prefix, iri in element.names.items() if prefix and iri == RDF), None)
        if rdf is None:
            raise NoPlace
        self.rdf = rdf

    def properties(self, quads: Iterable[Quad], depth: int) -> Iterator[Line]:
        """The lines of some statements about one node."""
        for quad in quads:
            name, declared = self._named(quad.predicate.value)
            if quad.object in self.parts:
                yield depth, f"<{name}{declared}>"
                yield from self._part(quad.object, depth + 1)
                yield depth, f"</{name}>"
            else:
                attribute, text = self._value(quad.object)
                yield depth, f"<{name}{declared}{attribute}" + ("/>" if text is None else f">{text}</{name}>")

    def _part(self, node: Any, depth: int) -> Iterator[Line]:
        """A new node, under the name of its class where that may be one."""
        quads = self.parts[node]
        classes = [quad for quad in quads if quad.predicate.value == TYPE and self._known_class(quad.object)]
        name = self._known_class(classes[0].object) if classes else f"{self.rdf}:Description"
        yield depth, f"<{name}>"
        yield from self.properties((quad for quad in quads if quad not in classes[:1]), depth + 1)
        yield depth, f"</{name}>"

    def _value(self, term: Any) -> tuple[str, str | None]:
        """What stands within the tag, and behind it."""
        if isinstance(term, NamedNode):
            return f" {self.rdf}:resource={self._quoted(term.value)}", None
        if isinstance(term, BlankNode):
            if self.blanks.is_anonymous(term.value):
                raise NoPlace
            return f" {self.rdf}:nodeID={quoteattr(term.value)}", None
        if not isinstance(term, Literal):
            raise NoPlace
        text = escape(term.value, {"\r": "&#13;"})
        if term.direction:  # has a namespace of its own, which none of these documents declares
            raise NoPlace
        if term.language:
            return f" xml:lang={quoteattr(term.language)}", text
        if term.datatype.value != STRING or self.element.language:  # a plain one would be of that language
            return f" {self.rdf}:datatype={self._quoted(term.datatype.value)}", text
        return "", text

    def _quoted(self, iri: str) -> str:
        """An IRI as an attribute, by an entity of the document where it has one for it."""
        for name, start in self.entities.items():
            if iri.startswith(start):
                return f'"&{name};{quoteattr(iri[len(start) :])[1:]}'
        return quoteattr(iri)

    def _named(self, iri: str) -> tuple[str, str]:
        """The name of a predicate, and a namespace to be declared for it."""
        known = self._known(iri)
        if known:
            return known, ""
        parted = _ENDS_IN_NAME.fullmatch(iri)
        if parted is None or not parted[1]:
            raise NoPlace
        prefix = next(one for one in map("ns{}".format, range(1, 10**6)) if one not in self.element.names)
        return f"{prefix}:{parted[2]}", f" xmlns:{prefix}={quoteattr(parted[1])}"

    def _known_class(self, term: Any) -> str:
        return self._known(term.value) if isinstance(term, NamedNode) else ""

    def _known(self, iri: str) -> str:
        """The name of an IRI by the longest namespace that is in force."""
        for prefix, start in sorted(self.element.names.items(), key=lambda one: -len(one[1])):
            if start and iri.startswith(start) and _NAME.fullmatch(iri, len(start)):
                return f"{prefix}:{iri[len(start) :]}" if prefix else iri[len(start) :]
        return ""


class _Layout:
    """How a document is laid out."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.newline = syntax.newline_of(data[: syntax.CHUNK_SIZE]).decode()

    def change(self, element: Element, lines: list[Line]) -> Change:
        """What becomes of an element that takes new properties."""
        own, inner = self._indent(element.start), self._inner(element)
        if inner is None:
            text, close = "".join(line for _, line in lines), ""
        else:
            unit = inner.removeprefix(own or "") or "  "
            text = "".join(self.newline + inner + depth * unit + line for depth, line in lines)
            close = self.newline + (own or "")
        before = self.data[max(element.start, element.end - _LOOK) : element.end]
        if element.is_one_tag:
            tag = before[:-2].rstrip()
            return element.end - len(before) + len(tag), element.end, f">{text}{close}</{element.name}>".encode()
        place = element.end - (len(before) - len(before.rstrip()))
        if inner is None or not (element.first or b"\n" in self.data[place : element.end]):
            return element.end, element.end, (text + close).encode()
        return place, place, text.encode()

    def _inner(self, element: Element) -> str | None:
        """How far the properties of an element are indented; None where they stand beside each other."""
        if element.first:
            return self._indent(element.first)
        own, outer = self._indent(element.start), self._indent(element.parent.start) if element.parent else ""
        return None if own is None else own + (own.removeprefix(outer or "") or "  ")

    def _indent(self, place: int) -> str | None:
        """The blanks before a tag that is the first on its line."""
        found = _LINE.search(self.data, max(0, place - _LOOK), place)
        return found[1].decode() if found else None
