"""Filled values to quads, in the shape that each property has in the knowledge base."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, Triple
from pyoxigraph import Literal as LiteralTerm

from kbdisk.entity import Completion, Coordinate, Entity, Path
from kbdisk.loaders.kb import GIVEN, Report
from kbdisk.loaders.rdf.blocks import FreshLabels
from kbdisk.loaders.rdf.fold import COORDINATE_KEY
from kbdisk.loaders.rdf.gaps import Gap, gaps_of
from kbdisk.loaders.rdf.observed import Observed
from kbdisk.loaders.rdf.terms import LATITUDE, LONGITUDE, iri_of_id, value_of_term
from kbdisk.loaders.rdf.value_nodes import PARTS, recognised
from kbdisk.loaders.rdf.wikibase import truthy_predicate, truthy_term
from kbdisk.loaders.rdf.words import Words

if TYPE_CHECKING:
    from kbdisk.loaders.rdf.base import RdfKB

Anonymous: TypeAlias = dict[int, list[tuple[NamedNode, Any]]]  # number of an anonymous node -> what it gets


class Reach(Enum):
    """Which blank nodes of the source can be spoken of where the new statements go."""

    ALL = auto()  # what is new is set into the text, or all is serialised anew
    LABELLED = auto()  # after the source's own bytes
    NONE = auto()  # in a document of their own


class Made(NamedTuple):
    """Quads, and the filled values of an entity that they say."""

    id: str
    quads: list[Quad]
    paths: list[Path]


class Statements:
    """Makes quads of completions. `anonymous` takes what belongs into brackets, by their numbers."""

    def __init__(
        self, kb: RdfKB, observed: Observed, labels: FreshLabels, reach: Reach, anonymous: Anonymous | None = None
    ) -> None:
        self.kb = kb
        self.observed = observed
        self.words = Words(kb, observed, labels)
        self.reach = reach
        self.anonymous = anonymous
        self.numbers = observed.blanks.numbers if reach is Reach.LABELLED else {}
        self.completed: dict[Any, list[Triple]] = {}  # nodes that lacked something, which several may point to

    def of(self, completion: Completion, report: Report) -> Made:
        """What one completion says; what has no place goes to the report."""
        entity = completion.entity
        gaps, refused = gaps_of(completion, self.words.key_of)
        made = Made(entity.id, [], [])
        for gap in gaps:
            self.words.minted.clear()
            try:
                made.quads.extend(self._placed(self._triples(gap, entity), gap, entity))
                made.paths.extend(gap.paths)
            except ValueError as error:
                refused += [(path, str(error)) for path in gap.paths]
        report.unwritable += [(entity.id, path, reason) for path, reason in refused]
        return made

    # ------------------------------------------------------------ where it goes

    def _placed(self, triples: list[Triple], gap: Gap, entity: Entity) -> list[Quad]:
        """What goes into a bracket goes there; all else are quads."""
        graph = self._graph(self._node(gap.node), entity)
        if self.reach is Reach.NONE:
            self._check_alone([graph, *(term for triple in triples for term in (triple.subject, triple.object))])
        inside = [(number, triple) for triple in triples if (number := self._bracket(triple.subject)) is not None]
        if inside and self.anonymous is None:
            raise ValueError("stands in an anonymous bracket, which only --insert reaches")
        if self.anonymous is not None:
            if any(number not in self.anonymous for number, _ in inside):
                raise ValueError("stands where no new property can be put")
            for number, triple in inside:
                self.anonymous[number].append((triple.predicate, triple.object))
        rest = (triple for triple in triples if self._bracket(triple.subject) is None)
        return [Quad(triple.subject, triple.predicate, triple.object, graph) for triple in rest]

    def _check_alone(self, terms: list[Any]) -> None:
        if any(type(term) is BlankNode and term.value not in self.words.minted for term in terms):
            raise ValueError("stands at a blank node, which nothing but the source itself can name")

    def _bracket(self, node: Any) -> int | None:
        """The number of an anonymous node."""
        return self.numbers.get(node.value) if type(node) is BlankNode else None

    def _graph(self, node: Any, entity: Entity) -> Any:
        """The graph that a node stands in."""
        if node in self.observed.fields:
            graph = self.observed.graphs.get(node, DefaultGraph())
        else:
            graph = graph_of(entity.graph)
        nameless = type(graph) is BlankNode and self.observed.blanks.is_anonymous(graph.value)
        if nameless and self.reach is not Reach.ALL:
            raise ValueError("stands in a graph without a name, which cannot be reached")
        return graph

    def _node(self, id: str) -> NamedNode | BlankNode:
        return BlankNode(self.observed.blanks.raw(id)) if id.startswith("_:") else NamedNode(iri_of_id(id))

    # ------------------------------------------------------------ what is said

    def _triples(self, gap: Gap, entity: Entity) -> list[Triple]:
        node = self._node(gap.node)
        if self.kb.wikibase:
            return self._truthy(node, gap, entity)
        if gap.key == COORDINATE_KEY and COORDINATE_KEY not in self.kb.names.iris and self.kb.names.known(LATITUDE):
            return self._pair(node, gap.value)
        predicate = self.words.predicate(gap.key)
        if gap.given is not None:
            return self._completed(node, predicate, gap)
        if self.observed.is_collection(node, predicate):
            raise ValueError("is a collection, which cannot be added to")
        if gap.value == []:
            raise ValueError("there is nothing to write")
        triples = self.words.statements(node, predicate, gap.value)
        known = self.observed.values(node, predicate)
        if any(triple.subject == node and triple.object in known for triple in triples):
            raise ValueError(GIVEN)
        return triples

    def _truthy(self, node: Any, gap: Gap, entity: Entity) -> list[Triple]:
        predicate = truthy_predicate(self.observed.objects, gap.key)
        if predicate is None or gap.node != entity.id:
            raise ValueError("has no truthy triples here; write QuickStatements (.qs) instead")
        if self.observed.values(node, predicate.replace("/prop/direct/", "/prop/")):
            raise ValueError(
                "has statements, beside which a truthy triple is not heard; write QuickStatements (.qs) instead"
            )
        values = gap.value if isinstance(gap.value, list) else [gap.value]
        return [Triple(node, NamedNode(predicate), truthy_term(value)) for value in values]

    def _pair(self, node: Any, place: Any) -> list[Triple]:
        """geo:lat and geo:long, or the half that is missing."""
        if isinstance(place, dict) and place and place.keys() <= set(PARTS[Coordinate]):
            place = Coordinate(place.get("latitude"), place.get("longitude"))
        if not isinstance(place, Coordinate) or place.globe:
            raise ValueError(f"expected a place on the Earth, got {place!r}")
        known = [self._number(node, LATITUDE), self._number(node, LONGITUDE)]
        if any(
            a is not None and b not in (None, a) for a, b in zip(known, (place.latitude, place.longitude), strict=True)
        ):
            raise ValueError(GIVEN)
        triples = self.words.halves(node, place, (known[0], known[1]))
        if not triples:
            raise ValueError("there is nothing to write")
        return triples

    def _number(self, node: Any, predicate: str) -> Any:
        """The one value that a node has."""
        values = self.observed.values(node, predicate)
        return value_of_term(values[0]) if values else None

    def _completed(self, node: Any, predicate: str, gap: Gap) -> list[Triple]:
        """The missing half of a value whose node is there."""
        inner = self._inner(self.observed.values(node, predicate), gap.given)
        fields = self.observed.fields_of(inner) or {}
        triples = self.observed.shape(predicate).missing(inner, fields, gap.value, self.words.fresh)
        if not triples:
            raise ValueError("there is nothing to write")
        if self.completed.setdefault(inner, triples) is triples:
            return triples
        if self.completed[inner] != triples:
            raise ValueError("shares its node with another entity, for which it was filled with something else")
        return []

    def _inner(self, values: Sequence[Any], given: Any) -> Any:
        """The node that is this value."""
        for value in values:
            fields = None if isinstance(value, LiteralTerm) else self.observed.fields_of(value)
            if fields is not None and recognised(value, fields, self.observed.fields_of) == given:
                return value
        raise ValueError("has no node of its own that could be completed")


def graph_of(name: str) -> NamedNode | BlankNode | DefaultGraph:
    """The graph that an entity names."""
    if not name:
        return DefaultGraph()
    return BlankNode(name[2:]) if name.startswith("_:") else NamedNode(name)
