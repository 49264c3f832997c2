"""Which elements of an RDF/XML document speak of which nodes.

Which may, is a matter of their depth; of which node, only the parser knows: a copy of the document, in which each of these
has one property more, is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any
from xml.parsers import expat

from kbdisk.loaders.edits import spliced
from kbdisk.loaders.rdf.additions import NoPlace, marked_nodes, unused
from kbdisk.loaders.rdf.blank_nodes import BlankNodes
from kbdisk.loaders.rdf.rdfxml import sound
from kbdisk.loaders.rdf.terms import RDF

_MARKER, _MARK = "urn:kbdisk:element:", "is"  # a namespace, and a property in it


class Role(Enum):
    """What an element is."""

    ROOT = auto()  # holds nodes, and is none
    NODE = auto()
    PROPERTY = auto()
    PART = auto()  # a property that is its value, too: parseType="Resource"
    OPAQUE = auto()


_INNER = {
    Role.ROOT: Role.NODE,
    Role.NODE: Role.PROPERTY,
    Role.PROPERTY: Role.NODE,
    Role.PART: Role.PROPERTY,
    Role.OPAQUE: Role.OPAQUE,
}


@dataclass(slots=True)
class Element:
    """An element and where it stands; `end` is where its end tag begins, or where a tag ends that is its end, too."""

    name: str
    role: Role
    start: int
    names: Mapping[str, str]  # prefix -> namespace, in force inside it
    language: str
    parent: Element | None
    end: int = 0
    children: int = 0
    first: int = 0  # where its first child begins
    has_text: bool = False
    is_one_tag: bool = False


class Elements:
    """The elements of a document by the nodes that they speak of, of several those that say most; and its entities that
    stand at the beginning of attributes, by name."""

    def __init__(self, data: bytes, parse: Callable[[bytes], list[Any]], blanks: BlankNodes) -> None:
        reading = _Reading(data)
        self.entities = {name: text for name, text in reading.entities.items() if f'="&{name};'.encode() in data}
        self.by_node: dict[tuple[str, str], Element] = {}
        marker = unused(data, _MARKER)
        marked = parse(_marked(data, reading.found, marker))
        for where, index in marked_nodes(marked, marker + _MARK, blanks):
            element = reading.found[index]
            if where not in self.by_node or element.children > self.by_node[where].children:
                self.by_node[where] = element


def _marked(data: bytes, elements: list[Element], marker: str) -> bytes:
    """The document with a property in every element that says which one it is."""
    changes = []
    for index, element in enumerate(elements):
        mark = f'<{_MARK} xmlns="{marker}">{index}</{_MARK}>'
        if element.is_one_tag:
            changes.append((element.end - 2, element.end, f">{mark}</{element.name}>".encode()))
        else:
            changes.append((element.end, element.end, mark.encode()))
    return spliced(data, changes)


class _Reading:
    """Goes through a document that is well-formed; `found` are the elements that may speak of a node. NoPlace where it is
    not in UTF-8."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.found: list[Element] = []
        self.stack: list[Element] = []
        self.entities: dict[str, str] = {}
        self.parser = parser = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.EntityDeclHandler = self._entity
        parser.XmlDeclHandler = self._declaration
        if data[:2] in sound.WIDE:
            raise NoPlace
        parser.Parse(data, True)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        outer = self.stack[-1] if self.stack else None
        own = {key.partition(":")[2]: iri for key, iri in attributes.items() if key.partition(":")[0] == "xmlns"}
        names = {**outer.names, **own} if outer and own else outer.names if outer else own
        language = attributes.get("xml:lang", outer.language if outer else "")
        place = self.parser.CurrentByteIndex
        element = Element(name, self._role(name, attributes, names), place, names, language, outer)
        if outer:
            outer.first = outer.first or place
            outer.children += 1
        self.stack.append(element)

    def _role(self, name: str, attributes: Mapping[str, str], names: Mapping[str, str]) -> Role:
        def meant(name: str) -> str:
            prefix, colon, word = name.rpartition(":")
            return names.get(prefix, "") + word if colon or "" in names else name

        if not self.stack:
            return Role.ROOT if meant(name) == RDF + "RDF" else Role.NODE
        role = _INNER[self.stack[-1].role]
        kind = next((value for key, value in attributes.items() if meant(key) == RDF + "parseType"), "Collection")
        if role is Role.PROPERTY and kind != "Collection":
            return Role.PART if kind == "Resource" else Role.OPAQUE
        return role

    def _end(self, name: str) -> None:
        element = self.stack.pop()
        element.end = place = self.parser.CurrentByteIndex
        element.is_one_tag = not element.children and not element.has_text and self.data[place - 2 : place] == b"/>"
        if element.role in (Role.NODE, Role.PART):
            self.found.append(element)

    def _text(self, text: str) -> None:
        self.stack[-1].has_text = True

    def _entity(self, name: str, parameter: bool, value: str | None, *place: str | None) -> None:
        if value and not parameter:
            self.entities[name] = value

    def _declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        if (encoding or "utf-8").lower() != "utf-8":
            raise NoPlace
