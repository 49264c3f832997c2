"""New statements for the text of a document: grouped by the nodes that take them, and the check of the outcome."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyoxigraph import BlankNode, CanonicalizationAlgorithm, Dataset, NamedNode, Quad, Triple

from kbdisk.loaders.rdf.blank_nodes import BlankNodes, key_of, number_blank_nodes, renamed_quad


class NoPlace(Exception):  # noqa: N818 - never seen by a user
    """A statement has no place in a document."""


class Additions:
    """New statements: those about nodes of the document, and those about the new nodes that they lead to."""

    def __init__(self, given_quads: Iterable[Quad], new: list[Quad], blanks: BlankNodes) -> None:
        self.blanks = number_blank_nodes(given_quads, blanks)
        self.parts: dict[Any, list[Quad]] = {}
        self.roots: list[Quad] = []
        for quad in new:
            if isinstance(quad.subject, BlankNode) and quad.subject.value not in self.blanks.ids:
                self.parts.setdefault(quad.subject, []).append(quad)
            else:
                self.roots.append(quad)

    def key(self, quad: Quad) -> tuple[str, str]:
        """The ids of the subject and the graph of a quad, the same in any parse of the document."""
        return key_of(quad.subject, self.blanks), key_of(quad.graph_name, self.blanks)

    def with_parts(self, quads: Iterable[Quad]) -> Iterator[Quad]:
        """Quads, each followed by those of the new nodes that it leads to."""
        for quad in quads:
            yield quad
            yield from self.with_parts(self.parts.get(quad.object, ()))


def unused_iri(data: bytes, marker: str) -> str:
    """An IRI made of the marker that does not occur in a document."""
    while marker.encode() in data:
        marker += "x:"
    return marker


def marked_nodes(quads: Iterable[Any], marker: str, blanks: BlankNodes) -> Iterator[tuple[tuple[str, str], int]]:
    """The node and graph of each index, from a document in which every candidate for a node holds its index."""
    marks: list[Any] = []
    others: list[Any] = []
    for quad in quads:
        (marks if quad.predicate.value == marker else others).append(quad)
    number_blank_nodes(others, blanks)  # as if there were no marks
    for quad in marks:
        yield (key_of(quad.subject, blanks), key_of(quad.graph_name, blanks)), int(quad.object.value)


def is_isomorphic(quads: Iterable[Quad], given_quads: list[Quad], new: list[Quad]) -> bool:
    """Whether quads are isomorphic to the given and the new ones: equal but for the labels of blank nodes."""
    quads = list(quads)
    names = _NodeMatching()
    others = names.without_given(quads, given_quads)
    if others is not None and _canonical(_name_blank_nodes(others, names.names)) == _canonical(
        _name_blank_nodes(new, names.taken)
    ):
        return True
    return _canonical(quads) == _canonical([*given_quads, *new])


def _canonical(quads: Iterable[Quad]) -> set[Quad]:
    dataset = Dataset(quads)
    dataset.canonicalize(CanonicalizationAlgorithm.UNSTABLE)
    return set(dataset)


def _name_blank_nodes(quads: Iterable[Quad], names: Mapping[str, str]) -> Iterator[Quad]:
    """Quads with IRIs in the place of blank nodes that have a name."""

    def named(node: BlankNode) -> Any:
        return NamedNode(f"urn:kbdisk:node:{names[node.value]}") if node.value in names else node

    return (renamed_quad(quad, named) for quad in quads)


class _NodeMatching:
    """Matches the blank nodes of two parses by the order of the quads. That is fast, while comparing complete graphs takes very
    long where many nodes are alike.
    """

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.taken: dict[str, str] = {}  # matched nodes of the other parse, each to itself

    def without_given(self, quads: list[Quad], given_quads: list[Quad]) -> list[Quad] | None:
        """The quads without the given ones; None where these do not all occur in their order."""
        others: list[Quad] = []
        remaining = iter(given_quads)
        given_quad = next(remaining, None)
        for quad in quads:
            if given_quad is not None and self._match(quad, given_quad):
                given_quad = next(remaining, None)
            else:
                others.append(quad)
        return None if given_quad is not None else others

    def _match(self, quad: Quad, given_quad: Quad) -> bool:
        """Whether a quad matches a given one; then its nodes are matched, too."""
        fresh: dict[str, str] = {}
        if quad.predicate != given_quad.predicate:
            return False
        pairs = [
            (quad.subject, given_quad.subject),
            (quad.object, given_quad.object),
            (quad.graph_name, given_quad.graph_name),
        ]
        for term, other in pairs:
            if type(term) is Triple and type(other) is Triple:
                pairs += zip(term, other, strict=True)
            elif type(term) is not BlankNode or type(other) is not BlankNode:
                if term != other:
                    return False
            elif (name := self.names.get(term.value) or fresh.get(term.value)) is not None:
                if name != other.value:
                    return False
            elif other.value in self.taken or other.value in fresh.values():
                return False
            else:
                fresh[term.value] = other.value
        self.names |= fresh
        self.taken |= {name: name for name in fresh.values()}
        return True
