"""New statements that go into the text of a document: which of them stand together, and whether the outcome is right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyoxigraph import BlankNode, CanonicalizationAlgorithm, Dataset, DefaultGraph, NamedNode, Quad

from kbdisk.loaders.rdf.blanks import Blanks


class NoPlace(Exception):  # noqa: N818 - never seen by a user
    """A statement that a document cannot take in."""


class Additions:
    """What is new: statements about nodes of the document, and those about the new nodes that they lead to."""

    def __init__(self, given: Iterable[Quad], new: list[Quad], blanks: Blanks) -> None:
        self.blanks = numbered(given, blanks)
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


def numbered(quads: Iterable[Quad], blanks: Blanks) -> Blanks:
    """The blank nodes of some quads, in the order in which they appear."""
    for quad in quads:
        for term in (quad.subject, quad.object):
            if type(term) is BlankNode:
                blanks.id(term.value)
    return blanks


def key_of(term: Any, blanks: Blanks) -> str:
    """What a subject or a graph is called in any parse of a document."""
    if isinstance(term, DefaultGraph):
        return ""
    if isinstance(term, BlankNode):
        return blanks.ids.get(term.value) or blanks.graph(term.value)
    return str(term.value)


def say_the_same(found: Iterable[Quad], given: list[Quad], new: list[Quad]) -> bool:
    """Whether quads are those that were given, and the new ones, whatever their blank nodes are called."""
    found = list(found)
    names = _Names()
    rest = names.beside(found, given)
    if rest is not None and _canonical(rest) == _canonical(map(names.bound, new)):
        return True
    return _canonical(found) == _canonical([*given, *new])


def _canonical(quads: Iterable[Quad]) -> set[Quad]:
    dataset = Dataset(quads)
    dataset.canonicalize(CanonicalizationAlgorithm.UNSTABLE)
    return set(dataset)


class _Names:
    """Which blank node of one parse is which of another, by the order of the quads: that is told at once, while to compare
    whole graphs takes very long where many nodes are alike."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.taken: set[str] = set()

    def beside(self, found: list[Quad], given: list[Quad]) -> list[Quad] | None:
        """What is found beside the given quads, with the names that given nodes have; None where these are not all found."""
        rest: list[Quad] = []
        left = iter(given)
        wanted = next(left, None)
        for quad in found:
            if wanted is not None and self._is(quad, wanted):
                wanted = next(left, None)
            else:
                rest.append(quad)
        return None if wanted is not None else [self.bound(quad, self.known) for quad in rest]

    def bound(self, quad: Quad, known: Mapping[str, str] | None = None) -> Quad:
        """A quad with names for the nodes that are given, or that are `known` as such."""

        def named(term: Any) -> Any:
            name = (known.get(term.value) if known is not None else term.value) if type(term) is BlankNode else None
            return NamedNode(f"urn:kbdisk:node:{name}") if name in self.taken else term

        return Quad(named(quad.subject), quad.predicate, named(quad.object), named(quad.graph_name))

    def _is(self, quad: Quad, wanted: Quad) -> bool:
        """Whether a quad may be the wanted one; then its nodes are known."""
        fresh: dict[str, str] = {}
        if quad.predicate != wanted.predicate:
            return False
        pairs = ((quad.subject, wanted.subject), (quad.object, wanted.object), (quad.graph_name, wanted.graph_name))
        for term, other in pairs:
            if type(term) is not BlankNode or type(other) is not BlankNode:
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
        self.taken.update(fresh.values())
        return True
