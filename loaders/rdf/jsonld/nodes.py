"""Which objects of a JSON-LD document speak of which nodes.

Only the parser knows: a copy of the document, in which every object that may be a node has one member more, is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from kbdisk.loaders.edits import spliced
from kbdisk.loaders.json.edit import Place, outline
from kbdisk.loaders.rdf.additions import marked_nodes, unused
from kbdisk.loaders.rdf.blank_nodes import BlankNodes

Parse: TypeAlias = Callable[[bytes], list[Any]]  # a document's quads

_MARKER = "urn:kbdisk:object"
_MAPS = {"@language", "@index", "@id", "@type"}
_LISTS = {"@list", "@set"}
_WORDS = {"@id", "@type", "@language", "@index", "@direction", "@base", "@vocab"}  # what they say is no node


@dataclass(slots=True)
class Terms:
    """What all contexts of a document say of their terms, as far as it tells which objects are nodes."""

    words: dict[str, str] = field(default_factory=dict)  # another name of a keyword -> the keyword
    maps: set[str] = field(default_factory=set)  # whose objects have values as members, not properties
    lists: set[str] = field(default_factory=set)  # whose lists are collections

    @classmethod
    def of(cls, document: Any) -> Terms:
        """Those of a parsed document."""
        found = cls()
        rest = [document]
        while rest:
            value = rest.pop()
            if isinstance(value, list):
                rest.extend(value)
            elif isinstance(value, dict):
                rest.extend(value.values())
                found._learn(value.get("@context"))
        return found

    def _learn(self, context: Any) -> None:
        for part in context if isinstance(context, list) else [context]:
            for term, meant in part.items() if isinstance(part, dict) else ():
                if not term.startswith("@"):
                    self._take(term, meant if isinstance(meant, dict) else {"@id": meant})

    def _take(self, term: str, meant: Mapping[str, Any]) -> None:
        word, container = meant.get("@id"), meant.get("@container")
        if isinstance(word, str) and word.startswith("@"):
            self.words[term] = word
        containers = container if isinstance(container, list) else [container]
        if _MAPS.intersection(containers):
            self.maps.add(term)
        if "@list" in containers:
            self.lists.add(term)

    def word(self, key: str) -> str:
        """A key, or the keyword that it is another name of."""
        return self.words.get(key, key)


class Node(NamedTuple):
    """An object that speaks of a node, and the contexts around it, the outermost first."""

    place: Place
    contexts: tuple[Place, ...]


class Document:
    """A document whose objects are known; `whole` is what it says as JSON, with all contexts in their place."""

    def __init__(self, text: bytes, whole: Any, parse: Parse, blanks: BlankNodes) -> None:
        self.text = text
        self.root = outline(text)
        self.terms = Terms.of(whole)
        self.objects = list(self._objects())
        self.nodes: dict[tuple[str, str], Node] = {}  # by subject and graph, those that say most
        self._locate(parse, blanks)

    def scope(self, node: Node) -> tuple[tuple[bytes, ...], tuple[tuple[str, bytes], ...]]:
        """What gives the keys of an object their meaning: the texts of the contexts around it, and of its own classes."""
        contexts = tuple(self.text[place.start : place.end] for place in node.contexts)
        own = ((key, place) for key, place in node.place.named.items() if self.terms.word(key) == "@type")
        return contexts, tuple((key, self.text[place.start : place.end]) for key, place in own)

    def _locate(self, parse: Parse, blanks: BlankNodes) -> None:
        marker = unused(self.text, _MARKER)
        for where, index in marked_nodes(parse(self._marked(marker)), marker, blanks):
            node = self.objects[index]
            if where not in self.nodes or len(node.place.inner) > len(self.nodes[where].place.inner):
                self.nodes[where] = node

    def _marked(self, marker: str) -> bytes:
        """The document with a member in every object that says which one it is."""
        changes = []
        for index, node in enumerate(self.objects):
            member, inner = f'"{marker}":"{index}"'.encode(), node.place.inner
            offset = inner[-1].place.end if inner else node.place.start + 1
            changes.append((offset, offset, b"," + member if inner else member))
        return spliced(self.text, changes)

    def _objects(self) -> Iterator[Node]:
        """The objects that may speak of a node."""
        stack: list[tuple[Place, tuple[Place, ...], bool]] = [(self.root, (), True)]
        while stack:
            place, contexts, speaks = stack.pop()
            if place.kind == "list":
                stack.extend((entry.place, contexts, speaks) for entry in reversed(place.inner))
            if place.kind != "part":
                continue
            words = {self.terms.word(key) for key in place.named} - {"@context"}
            if "@value" in words:
                continue
            if own := place.named.get("@context"):
                contexts = (*contexts, *([entry.place for entry in own.inner] if own.kind == "list" else [own]))
            is_graph = words == {"@graph"}  # of no name: with a member more, it would be one of a node without a name
            if speaks and not is_graph and not words & _LISTS:
                yield Node(place, contexts)
            for key, inner in reversed(place.named.items()):
                word = self.terms.word(key)
                if word not in _WORDS and word != "@context":
                    is_map = word == "@reverse" or key in self.terms.maps
                    stack.append((inner, contexts, not (is_map and inner.kind == "part")))
