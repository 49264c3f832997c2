"""New statements set into the text of a JSON-LD document: into the objects that speak of their subjects.

What comes of it is parsed again: unless it says all that the document said, and what is new, and nothing else, it is not used.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyoxigraph import Quad

from kbdisk.loaders.habits import Habits
from kbdisk.loaders.jsonfill import Filling, Wish
from kbdisk.loaders.manner import Manner
from kbdisk.loaders.rdf import syntax
from kbdisk.loaders.rdf.additions import Additions, NoPlace, say_the_same
from kbdisk.loaders.rdf.jsonld.contexts import NO_BASE, prepared
from kbdisk.loaders.rdf.jsonld.nodes import Document, Node
from kbdisk.loaders.rdf.jsonld.spelling import NOTHING, Spelling, Used
from kbdisk.loaders.rdf.vocabulary import FIRST, REST

if TYPE_CHECKING:
    from kbdisk.loaders.rdf.file import RdfFile


def filled(kb: RdfFile, given: list[Quad], new: list[Quad]) -> bytes | None:
    """The document of a source with new statements in it; None where it cannot take them all in."""
    data = kb.source.read()
    text = data.removeprefix(BOM_UTF8)
    for plainly in (False, True):
        try:
            filling = _Filling(kb, text, Additions(given, new, kb.blanks()), plainly)
            made = filling.made()
            if say_the_same(filling.parse(made), [*given, *filling.said]):
                return data[: len(data) - len(text)] + made
        except (SyntaxError, NoPlace):
            continue
    return None


class _Filling:
    """What goes where in one document."""

    def __init__(self, kb: RdfFile, text: bytes, additions: Additions, plainly: bool) -> None:
        self.kb = kb
        self.plainly = plainly  # in whole IRIs, which no context around an object gives another meaning
        self.whole = json.loads(prepared(text, kb.options.context, kb.name))
        self.document = Document(text, self.whole, self.parse, kb.blanks())
        self.additions = additions
        self.parts = additions.parts
        self.said: list[Quad] = []  # what is new, as it will be read

    def parse(self, document: bytes) -> list[Quad]:
        """What a document says where this one stands."""
        whole = prepared(document, self.kb.options.context, self.kb.name)
        return list(syntax.parser(whole, self.kb.format, self.kb.options.base or NO_BASE))

    def made(self) -> bytes:
        """The text with all that is new."""
        text = self.document.text
        habits = Habits()
        habits.wide, habits.escaped = not text.isascii(), b"\\u" in text
        filling = Filling(text, Manner(text, self.document.root, habits), {})
        for homes in self._homes():
            spelling = self._spelling(homes[0][0])
            spelling.learn((quad.predicate, quad.object) for _, quads in homes for quad in self.additions.all(quads))
            for node, quads in homes:
                filling.into(node.place, self._wish(node, self._members(quads, spelling)))
        if filling.refused:
            raise NoPlace
        return filling.done()

    def _homes(self) -> list[list[tuple[Node, list[Quad]]]]:
        """The objects that take something, each with that; those under the same contexts together."""
        homes: dict[tuple[int, ...], dict[int, tuple[Node, list[Quad]]]] = {}
        for quad in self.additions.roots:
            node = self.document.nodes.get(self.additions.key(quad))
            if node is None:
                raise NoPlace
            alike = homes.setdefault(tuple(place.start for place in node.contexts), {})
            alike.setdefault(node.place.start, (node, []))[1].append(quad)
        return [list(alike.values()) for alike in homes.values()]

    # ------------------------------------------------------------ members

    def _members(self, quads: Iterable[Quad], spelling: Spelling) -> dict[str, list[Any]]:
        """What is said by quads of one subject, key by key."""
        members: dict[str, list[Any]] = {}
        for quad in quads:
            predicate = quad.predicate.value
            if quad.object in self.parts:
                key, term = spelling.keys_of(predicate)[0], quad.object
                value = self._part(quad.object, spelling, key)
            elif (predicate, quad.object) in spelling.said:
                key, value, term = spelling.said[predicate, quad.object]
            else:
                raise NoPlace
            members.setdefault(key, []).append(value)
            self.said.append(Quad(quad.subject, quad.predicate, term, quad.graph_name))
        return members

    def _part(self, node: Any, spelling: Spelling, key: str) -> dict[str, Any] | list[Any]:
        """A new node under a key, with all that is in it; a collection as a list."""
        if any(quad.predicate.value == FIRST for quad in self.parts[node]):
            items = list(self._items(node, spelling))
            return items if key in self.document.terms.lists else {"@list": items}
        members = self._members(self.parts[node], spelling)
        return {key: self._value(key, values) for key, values in members.items()}

    def _items(self, node: Any, spelling: Spelling) -> Iterator[Any]:
        """The members of a collection."""
        while node in self.parts:
            first, rest = sorted(self.parts[node], key=lambda quad: quad.predicate.value)
            if (first.predicate.value, rest.predicate.value) != (FIRST, REST):
                raise NoPlace
            [[value]] = self._members([first], spelling).values()
            yield value
            self.said.append(rest)
            node = rest.object

    def _value(self, key: str, values: list[Any]) -> Any:
        """One value or several, in a list where the document has lists."""
        is_bare = key in self.document.terms.lists or key not in self._listed
        return values[0] if len(values) == 1 and is_bare else values

    def _wish(self, node: Node, members: dict[str, list[Any]]) -> Wish:
        """What is to stand in an object."""
        wish = Wish()
        for key, values in members.items():
            place = node.place.named.get(key)
            inner = wish.inner[key] = Wish(paths=[(key,)])
            if place is not None and place.kind == "list":
                start = len(place.inner)
                inner.inner = {index: Wish(value, paths=[(key,)]) for index, value in enumerate(values, start)}
            else:
                inner.value = self._value(key, values)
        return wish

    # ------------------------------------------------------------ manner

    def _spelling(self, node: Node) -> Spelling:
        document, kb = self.document, self.kb
        return Spelling(document.contexts(node), self._used, document.terms, kb.prefixes, kb.options.base, self.parse)

    @cached_property
    def _used(self) -> Used:
        if self.plainly:
            return NOTHING
        counts = Counter(key for node in self.document.objects for key in node.place.named)
        return Used([key for key, _ in counts.most_common()], frozenset(_strings(self.whole)))

    @cached_property
    def _listed(self) -> set[str]:
        """Keys whose values are lists more often than not."""
        counts: Counter[str] = Counter()
        for node in self.document.objects:
            for key, place in node.place.named.items():
                counts[key] += 1 if place.kind == "list" else -1
        return {key for key, count in counts.items() if count > 0}


def _strings(value: Any) -> Iterator[str]:
    rest = [value]
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            rest.extend(value)
        elif isinstance(value, dict):
            rest.extend(value.values())
