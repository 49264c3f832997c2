"""New statements that go into the text of a document: which of them stand together, and whether the outcome is right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyoxigraph import BlankNode, CanonicalizationAlgorithm, Dataset, NamedNode, Quad, Triple

from kbdisk.loaders.rdf.blank_nodes import BlankNodes, key_of, number_blank_nodes, renamed_quad


class NoPlace(Exception):  # noqa: N818 - never seen by a user
    """A statement that a document cannot take in."""


class Additions:
    """What is new: statements about nodes of the document, and those about the new nodes that they lead to."""

    def __init__(self, given: Iterable[Quad], new: list[Quad], blanks: BlankNodes) -> None:
        self.blanks = number_blank_nodes(given, blanks)
        self.parts: dict[Any, list[Quad]] = {}
        self.roots: list[Quad] = []
        for quad in new:
            if isinstance(quad.subject, BlankNode) and quad.subject.value not in self.blanks.ids:
                self.parts.setdefault(quad.subject, []).append(quad)
            else:
                self.roots.append(quad)

    def key(self, quad: Quad) -> tuple[str, str]:
        """What the subject of a quad is called in any parse of the document, and its graph."""
        return key_of(quad.subject, self.blanks), key_of(quad.graph_name, self.blanks)

    def all(self, quads: Iterable[Quad]) -> Iterator[Quad]:
        """Quads, and those of the new nodes that they lead to."""
        for quad in quads:
            yield quad
            yield from self.all(self.parts.get(quad.object, ()))


def unused(data: bytes, marker: str) -> str:
    """An IRI like this marker that a document has nowhere."""
    while marker.encode() in data:
        marker += "x:"
    return marker


def marked_nodes(quads: Iterable[Any], marker: str, blanks: BlankNodes) -> Iterator[tuple[tuple[str, str], int]]:
    """Which node in which graph has which number, by a document in which all that may speak of one says its number."""
    marks: list[Any] = []
    others: list[Any] = []
    for quad in quads:
        (marks if quad.predicate.value == marker else others).append(quad)
    number_blank_nodes(others, blanks)  # as if there were no marks
    for quad in marks:
        yield (key_of(quad.subject, blanks), key_of(quad.graph_name, blanks)), int(quad.object.value)


def say_the_same(found: Iterable[Quad], given: list[Quad], new: list[Quad]) -> bool:
    """Whether quads are those that were given, and the new ones, whatever their blank nodes are called."""
    found = list(found)
    names = _Names()
    rest = names.beside(found, given)
    if rest is not None and _canonical(_named(rest, names.known)) == _canonical(_named(new, names.taken)):
        return True
    return _canonical(found) == _canonical([*given, *new])


def _canonical(quads: Iterable[Quad]) -> set[Quad]:
    dataset = Dataset(quads)
    dataset.canonicalize(CanonicalizationAlgorithm.UNSTABLE)
    return set(dataset)


def _named(quads: Iterable[Quad], names: Mapping[str, str]) -> Iterator[Quad]:
    """Quads whose blank nodes are no more blank where they have a name."""

    def named(node: BlankNode) -> Any:
        return NamedNode(f"urn:kbdisk:node:{names[node.value]}") if node.value in names else node

    return (renamed_quad(quad, named) for quad in quads)


class _Names:
    """Which blank node of one parse is which of another, by the order of the quads: that is told at once, while to compare
    whole graphs takes very long where many nodes are alike."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.taken: dict[str, str] = {}  # each to itself

    def beside(self, found: list[Quad], given: list[Quad]) -> list[Quad] | None:
        """What is found beside the given quads; None where these are not all found, in their order."""
        rest: list[Quad] = []
        left = iter(given)
        wanted = next(left, None)
        for quad in found:
            if wanted is not None and self._is(quad, wanted):
                wanted = next(left, None)
            else:
                rest.append(quad)
        return None if wanted is not None else rest

    def _is(self, quad: Quad, wanted: Quad) -> bool:
        """Whether a quad may be the wanted one; then its nodes are known."""
        fresh: dict[str, str] = {}
        if quad.predicate != wanted.predicate:
            return False
        pairs = [(quad.subject, wanted.subject), (quad.object, wanted.object), (quad.graph_name, wanted.graph_name)]
        for term, other in pairs:
            if type(term) is Triple and type(other) is Triple:
                pairs += zip(term, other, strict=True)
            elif type(term) is not BlankNode or type(other) is not BlankNode:
                if term != other:
                    return False
            elif (name := self.known.get(term.value) or fresh.get(term.value)) is not None:
                if name != other.value:
                    return False
            elif other.value in self.taken or other.value in fresh.values():
                return False
            else:
                fresh[term.value] = other.value
        self.known |= fresh
        self.taken |= {name: name for name in fresh.values()}
        return True
