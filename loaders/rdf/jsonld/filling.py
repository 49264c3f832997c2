"""New statements set into the text of a JSON-LD document: into the objects that speak of their subjects.

What comes of it is parsed again: unless it says all that the document said, and what is new, and nothing else, it is not used.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import orjson
from pyoxigraph import Quad

from kbdisk.errors import LoadError
from kbdisk.loaders.edits import Change, spliced
from kbdisk.loaders.json.edit import Layout, NewValue, TextFiller
from kbdisk.loaders.json.styles import JsonStyle
from kbdisk.loaders.rdf import syntax
from kbdisk.loaders.rdf.additions import Additions, NoPlace, say_the_same
from kbdisk.loaders.rdf.jsonld.contexts import NO_BASE, prepared
from kbdisk.loaders.rdf.jsonld.nodes import Document, Node
from kbdisk.loaders.rdf.jsonld.spelling import Scope, Spelling
from kbdisk.loaders.rdf.jsonld.usage import Usage
from kbdisk.loaders.rdf.terms import FIRST, REST

if TYPE_CHECKING:
    from kbdisk.loaders.rdf.file import RdfFile

Homes = list[tuple[Node, list[Quad]]]  # the objects that take something, each with that


def changes_for(kb: RdfFile, given: list[Quad], new: list[Quad]) -> list[Change] | None:
    """The changes that put new statements into the document of a source; None where it cannot take them all in."""
    data = kb.source.read()
    text = data.removeprefix(BOM_UTF8)
    additions = Additions(given, new, kb.blanks())
    try:
        reading = _Reading(kb, text)
        for in_full in (False, True):  # no context of a class, or of a property, gives a whole IRI another meaning
            said: list[Quad] = []
            changes = reading.changes(additions, said, in_full)
            if say_the_same(reading.parse(spliced(text, changes)), given, said):
                mark = len(data) - len(text)
                return [(start + mark, end + mark, made) for start, end, made in changes]
    except (SyntaxError, LoadError, NoPlace):  # a fault in what was made: it has been read before
        pass
    return None


class _Reading:
    """A document, and how it is to be read."""

    def __init__(self, kb: RdfFile, text: bytes) -> None:
        self.kb = kb
        whole = json.loads(self._prepared(text))
        self.document = Document(text, whole, self.parse, kb.blanks())
        self.usage = Usage.of(self.document, whole, kb.prefixes, kb.base)

    def parse(self, text: bytes) -> list[Any]:
        """What a document says where this one stands."""
        return self._parse_prepared(self._prepared(text))

    def _prepared(self, text: bytes) -> bytes:
        return prepared(text, self.kb.options.context, self.kb.name)

    def _parse_prepared(self, text: bytes) -> list[Any]:
        return list(syntax.parser(text, self.kb.format, self.kb.options.base or NO_BASE))

    def changes(self, additions: Additions, said: list[Quad], in_full: bool) -> list[Change]:
        """The changes that put in all that is new; `said` takes that as it will be read."""
        text = self.document.text
        style = JsonStyle()
        style.has_raw_unicode, style.has_escapes = not text.isascii(), b"\\u" in text
        filling = TextFiller(text, Layout(text, self.document.root, style), {})
        for homes in self._homes(additions):
            spelling = self._spelling(homes[0][0], in_full)
            spelling.learn((quad.predicate, quad.object) for _, quads in homes for quad in additions.all(quads))
            members = _Members(additions, spelling, said)
            for node, quads in homes:
                _set_in(filling, node, members.of(quads), members)
        if filling.refused:
            raise NoPlace
        return filling.changes

    def _homes(self, additions: Additions) -> list[Homes]:
        """The objects that take something; those of one scope together."""
        homes: dict[Any, dict[int, tuple[Node, list[Quad]]]] = {}
        for quad in additions.roots:
            node = self.document.nodes.get(additions.key(quad))
            if node is None:
                raise NoPlace
            alike = homes.setdefault(self.document.scope(node), {})
            alike.setdefault(node.place.start, (node, []))[1].append(quad)
        return [list(alike.values()) for alike in homes.values()]

    def _spelling(self, node: Node, in_full: bool) -> Spelling:
        contexts, classes = self.document.scope(node)
        around = b'{"@context":[' + b",".join(contexts) + b"]}"
        scope = Scope(
            json.loads(self._prepared(around))["@context"], {key: orjson.loads(text) for key, text in classes}
        )
        return Spelling(scope, self.usage, self.document.terms, self._parse_prepared, in_full)


def _set_in(filling: TextFiller, node: Node, members: dict[str, list[Any]], manner: _Members) -> None:
    """Set new members into an object; a value of a key that has one goes into its list, or makes it one."""
    wish = NewValue()
    for key, values in members.items():
        place = node.place.named.get(key)
        if place is None or place.kind == "null":
            wish.inner[key] = NewValue(manner.value(key, values), paths=[(key,)])
        elif place.kind == "list":
            inner = wish.inner[key] = NewValue(paths=[(key,)])
            inner.inner = {
                index: NewValue(value, paths=[(key,)]) for index, value in enumerate(values, len(place.inner))
            }
        else:
            filling.make_list(place, values)
    filling.into(node.place, wish)


class _Members:
    """New statements as members of objects; `said` takes them as they will be read."""

    def __init__(self, additions: Additions, spelling: Spelling, said: list[Quad]) -> None:
        self.parts = additions.parts
        self.spelling = spelling
        self.usage = spelling.usage
        self.terms = spelling.terms
        self.said = said

    def of(self, quads: Iterable[Quad]) -> dict[str, list[Any]]:
        """What is said by quads of one subject, key by key."""
        members: dict[str, list[Any]] = {}
        for quad in quads:
            key, value = self._member(quad)
            members.setdefault(key, []).append(value)
        return members

    def value(self, key: str, values: list[Any]) -> Any:
        """One value or several: in a list where the document has lists, in a map where it is one of languages."""
        if key in self.terms.maps and all(isinstance(value, dict) for value in values):
            return {name: one for value in values for name, one in value.items()}
        if len(values) > 1 or (key in self.usage.listed and key not in self.terms.lists):
            return values
        return values[0]

    def _member(self, quad: Quad) -> tuple[str, Any]:
        predicate = quad.predicate.value
        if quad.object in self.parts:
            key, term = self.spelling.keys_of(predicate)[0], quad.object
            value = self._part(quad.object, is_list=key in self.terms.lists)
        elif (predicate, quad.object) in self.spelling.said:
            key, value, term = self.spelling.said[predicate, quad.object]
        else:
            raise NoPlace
        self.said.append(Quad(quad.subject, quad.predicate, term, quad.graph_name))
        return key, value

    def _part(self, node: Any, is_list: bool) -> Any:
        """A new node with all that is in it; a collection as a list."""
        if any(quad.predicate.value == FIRST for quad in self.parts[node]):
            items = list(self._items(node))
            return items if is_list else {"@list": items}
        return {key: self.value(key, values) for key, values in self.of(self.parts[node]).items()}

    def _items(self, node: Any) -> Iterator[Any]:
        """The values of a collection."""
        while node in self.parts:
            quads = {quad.predicate.value: quad for quad in self.parts[node]}
            if quads.keys() != {FIRST, REST}:
                raise NoPlace
            yield self._member(quads[FIRST])[1]
            self.said.append(quads[REST])
            node = quads[REST].object
