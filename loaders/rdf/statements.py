"""Filled values to quads, in the shape that each property has in the knowledge base."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple

from kbdisk.entity import Completion, Coordinate, Entity
from kbdisk.loaders.kb import Report
from kbdisk.loaders.rdf.blocks import FreshLabels
from kbdisk.loaders.rdf.fold import PLACE
from kbdisk.loaders.rdf.gaps import Gap, gaps_of
from kbdisk.loaders.rdf.names import iri_of_id, is_iri
from kbdisk.loaders.rdf.observed import Observed
from kbdisk.loaders.rdf.truthy import truthy_predicate, truthy_term
from kbdisk.loaders.rdf.vocabulary import LATITUDE, LONGITUDE, TYPE

if TYPE_CHECKING:
    from kbdisk.loaders.rdf.base import RdfKB

Anonymous: TypeAlias = dict[int, list[tuple[NamedNode, Any]]]  # number of an anonymous node -> what it gets


class Made(NamedTuple):
    """Quads, and how many filled values they say."""

    quads: list[Quad]
    values: int


class Statements:
    """Makes quads of completions, as this knowledge base would have them.

    `anonymous` takes what belongs into brackets, by their numbers; None where nothing can be put into any.
    `everywhere` says that all nodes can be reached, since everything is serialised anew.
    """

    def __init__(
        self,
        kb: RdfKB,
        observed: Observed,
        labels: FreshLabels,
        anonymous: Anonymous | None = None,
        everywhere: bool = False,
    ) -> None:
        self.kb = kb
        self.observed = observed
        self.labels = labels
        self.anonymous = anonymous
        self.numbers = {} if everywhere else observed.blanks.numbers

    def of(self, completion: Completion, report: Report) -> Made:
        """What one completion says; what has no place goes to the report."""
        gaps, refused = gaps_of(completion)
        made = Made([], 0)
        for gap in gaps:
            try:
                made.quads.extend(self._placed(self._triples(gap, completion.entity), completion.entity))
                made = Made(made.quads, made.values + len(gap.paths))
            except ValueError as error:
                refused += [(path, str(error)) for path in gap.paths]
        report.unwritable += [(completion.entity.id, path, reason) for path, reason in refused]
        return made

    def _placed(self, triples: list[Triple], entity: Entity) -> list[Quad]:
        """What goes into a bracket goes there; all else are quads."""
        inside = [(self.numbers[triple.subject.value], triple) for triple in triples if self._in_bracket(triple.subject)]
        if inside and self.anonymous is None:
            raise ValueError("stands in an anonymous bracket, which only --insert reaches")
        for number, triple in inside:
            if number not in self.anonymous:
                raise ValueError("stands where no new property can be put")
            self.anonymous[number].append((triple.predicate, triple.object))
        graph = _graph(entity.graph)
        rest = (triple for triple in triples if not self._in_bracket(triple.subject))
        return [Quad(triple.subject, triple.predicate, triple.object, graph) for triple in rest]

    def _in_bracket(self, node: Any) -> bool:
        return type(node) is BlankNode and node.value in self.numbers

    def _triples(self, gap: Gap, entity: Entity) -> list[Triple]:
        node = self._node(gap.node)
        if self.kb.wikibase:
            predicate = truthy_predicate(self.observed.objects, gap.key)
            if predicate is None or gap.node != entity.id:
                raise ValueError("has no truthy triples here; write QuickStatements (.qs) instead")
            return [Triple(node, NamedNode(predicate), truthy_term(gap.value))]
        if gap.key == PLACE and isinstance(gap.value, Coordinate) and PLACE not in self.kb.names.iris:
            return self._pair(node, gap.value)
        predicate = self._predicate(gap.key)
        if gap.completes:
            return self._completed(node, predicate, gap.value)
        if self.observed.is_collection(node, predicate):
            raise ValueError("is a collection, which cannot be added to")
        return self._object(node, predicate, gap.value)

    def _node(self, id: str) -> NamedNode | BlankNode:
        return BlankNode(self.observed.blanks.raw(id)) if id.startswith("_:") else NamedNode(iri_of_id(id))

    def _predicate(self, key: str) -> str:
        iri = self.kb.names.iris.get(key)
        if iri is not None:
            return iri
        prefix, _, word = key.partition(":")
        iri = self.kb.prefixes[prefix] + word if word and prefix in self.kb.prefixes else key
        if not is_iri(iri):
            raise ValueError(f"no predicate is called {key!r} here; say its whole IRI")
        return iri

    def _fresh(self) -> BlankNode:
        return BlankNode(self.labels.mint())

    def _pair(self, node: Any, place: Coordinate) -> list[Triple]:
        """geo:lat and geo:long, each as the knowledge base spells it."""
        pairs = ((LATITUDE, place.latitude), (LONGITUDE, place.longitude))
        return [triple for predicate, value in pairs for triple in self._object(node, predicate, value)]

    def _completed(self, node: Any, predicate: str, value: Any) -> list[Triple]:
        """The missing half of a value whose node is there."""
        shape = self.observed.shape(predicate)
        for inner in (self.observed.fields_of(node) or {}).get(predicate, ()):
            fields = None if isinstance(inner, Literal) else self.observed.fields_of(inner)
            if fields is not None:
                return shape.missing(inner, fields, value, self._fresh)
        raise ValueError("has no node of its own that could be completed")

    def _object(self, node: Any, predicate: str, value: Any) -> list[Triple]:
        """A new value, or a new part with all that is in it."""
        if isinstance(value, list):
            return [triple for one in value for triple in self._object(node, predicate, one)]
        if not isinstance(value, dict):
            term, more = self.observed.shape(predicate).terms(value, self._fresh)
            return [Triple(node, NamedNode(predicate), term), *more]
        part = self._fresh()
        triples = [Triple(node, NamedNode(predicate), part)]
        triples += [Triple(part, NamedNode(TYPE), name) for name in self.observed.classes_of_parts(predicate)]
        for key, inner in value.items():
            triples += self._object(part, self._predicate(key), inner)
        return triples


def _graph(name: str) -> NamedNode | BlankNode | DefaultGraph:
    if not name:
        return DefaultGraph()
    return BlankNode(name[2:]) if name.startswith("_:") else NamedNode(name)


