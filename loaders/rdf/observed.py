"""What a source's own statements show a writer: how the values of each predicate look, and which nodes are there."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Triple

from kbdisk.loaders.rdf import syntax
from kbdisk.loaders.rdf.blank_nodes import BlankNodes, blank_nodes
from kbdisk.loaders.rdf.shapes import SAMPLES, Shape
from kbdisk.loaders.rdf.terms import FIRST, NIL, TYPE
from kbdisk.loaders.rdf.value_nodes import recognised

ENOUGH = 300_000  # statements of a large file that show its habits


class Observed:
    """The statements of a source, or the first of them, by subject and by predicate."""

    def __init__(self, blanks: BlankNodes) -> None:
        self.blanks = blanks
        self.fields: dict[Any, dict[str, list[Any]]] = {}  # node -> predicate -> objects
        self.graphs: dict[Any, Any] = {}  # node -> the named graph that its first statement stands in
        self.objects: dict[str, list[Any]] = {}  # predicate -> some objects
        self.triple_terms: dict[tuple[str, str], Triple] = {}  # by predicate and text, as a tree has it
        self._shapes: dict[str, Shape] = {}

    def add(self, quads: Iterable[Any], most: int | None = None) -> None:
        """Take in the quads of a source."""
        default = DefaultGraph()
        for quad in quads if most is None else itertools.islice(quads, most):
            predicate = quad.predicate.value
            for node in blank_nodes(quad.subject, quad.object):
                self.blanks.id(node.value)
            fields = self.fields.get(quad.subject)
            if fields is None:
                fields = self.fields[quad.subject] = {}
                if quad.graph_name != default:
                    self.graphs[quad.subject] = quad.graph_name
            fields.setdefault(predicate, []).append(quad.object)
            if type(quad.object) is Triple:
                self.triple_terms[predicate, self.blanks.shown(quad.object)] = quad.object
            examples = self.objects.setdefault(predicate, [])
            if len(examples) < SAMPLES:
                examples.append(quad.object)

    def fields_of(self, node: Any) -> Mapping[str, Sequence[Any]] | None:
        """What is said of a node."""
        return self.fields.get(node)

    def values(self, node: Any, predicate: str) -> Sequence[Any]:
        """The objects that a node has."""
        return self.fields.get(node, {}).get(predicate, ())

    def shape(self, predicate: str) -> Shape:
        """How the values of a predicate look."""
        shape = self._shapes.get(predicate)
        if shape is None:
            examples = [
                term for term in self.objects.get(predicate, ()) if isinstance(term, Literal | NamedNode | BlankNode)
            ]
            shape = self._shapes[predicate] = Shape.observe((term, self.fields_of) for term in examples)
        return shape

    def triple_term(self, predicate: str, text: str) -> Triple | None:
        """The triple term that a tree has as this text; of a large file, not all are known, but their text says it all."""
        known = self.triple_terms.get((predicate, text))
        if known is not None or not self.holds_triple_terms(predicate):
            return known
        try:
            triples = [quad.object for quad in syntax.parser(f"<s:s> <p:p> {text} .".encode(), "ntriples", None)]
        except SyntaxError:
            return None
        return triples[0] if len(triples) == 1 and type(triples[0]) is Triple else None

    def holds_triple_terms(self, predicate: str) -> bool:
        """Whether all values of a property are triple terms."""
        examples = self.objects.get(predicate, ())
        return bool(examples) and all(type(term) is Triple for term in examples)

    def is_collection(self, node: Any, predicate: str) -> bool:
        """Whether a value of a node's property is a collection, which nothing can be added to."""
        return any(map(self._is_collection, self.values(node, predicate)))

    def holds_collections(self, predicate: str) -> bool:
        """Whether a property's values are collections more often than not."""
        examples = self.objects.get(predicate, ())
        return 2 * sum(map(self._is_collection, examples)) > len(examples)

    def _is_collection(self, value: Any) -> bool:
        return value == NamedNode(NIL) or FIRST in self.fields.get(value, ())

    def classes_of_parts(self, predicate: str) -> list[NamedNode]:
        """The classes that the nodes under a predicate have; ValueError where its values are no such nodes."""
        counts: Counter[tuple[NamedNode, ...]] = Counter()
        for value in self.objects.get(predicate, ()):
            fields = self.fields.get(value)
            if (
                isinstance(value, BlankNode)
                and fields is not None
                and recognised(value, fields, self.fields_of) is None
            ):
                counts[tuple(fields.get(TYPE, ()))] += 1
        if not counts and self.objects.get(predicate):
            raise ValueError("expected one value, as its others are, got a part")
        return list(counts.most_common(1)[0][0]) if counts else []
