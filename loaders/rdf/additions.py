"""New statements that go into the text of a document: which of them stand together, and whether the outcome is right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyoxigraph import BlankNode, CanonicalizationAlgorithm, Dataset, DefaultGraph, Quad

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
    return blanks.ids.get(term.value) or blanks.graph(term.value) if isinstance(term, BlankNode) else str(term.value)


def say_the_same(quads: Iterable[Quad], others: Iterable[Quad]) -> bool:
    """Whether quads differ in nothing but the names of blank nodes."""
    return _canonical(quads) == _canonical(others)


def _canonical(quads: Iterable[Quad]) -> set[Quad]:
    dataset = Dataset(quads)
    dataset.canonicalize(CanonicalizationAlgorithm.UNSTABLE)
    return set(dataset)
