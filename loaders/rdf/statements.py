"""Filled values as quads, with the predicates, templates and lexical forms of their source.

A path of an entity leads to a gap: a node that lacks something, and the key under which it lacks it. The value becomes
triples of that node, or of new nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, Triple
from pyoxigraph import Literal as LiteralTerm

from kbdisk.entity import CLASSES, NOVALUE, SOMEVALUE, Completion, Coordinate, Entity, Link, Path, Quantity
from kbdisk.errors import setting
from kbdisk.loaders.kb import GIVEN, Report
from kbdisk.loaders.rdf.blocks import FreshLabels
from kbdisk.loaders.rdf.fold import COORDINATE_KEY
from kbdisk.loaders.rdf.styles import Observed
from kbdisk.loaders.rdf.terms import (
    FIRST,
    ID,
    IRIS_OF_KNOWN,
    LATITUDE,
    LONGITUDE,
    NIL,
    REST,
    TYPE,
    iri_of_id,
    is_iri,
    link_term,
    value_of_term,
)
from kbdisk.loaders.rdf.value_nodes import PARTS, recognised
from kbdisk.loaders.rdf.wikibase import truthy_predicate, truthy_term

if TYPE_CHECKING:
    from kbdisk.loaders.rdf.base import RdfKB


# ---------------------------------------------------------------- gaps


FILLED_BEFORE = "was filled before; take that block out of the source to fill it again"


@dataclass
class Gap:
    """A node and the key under which something is missing: a value, a list of them, or a part as a dict."""

    node: str
    key: str
    value: Any
    path: Path  # of the place that is filled: values in the same place are one gap
    given: Any = None  # the value that is there in part
    paths: list[Path] = field(default_factory=list)  # that lead here


def gaps_of(completion: Completion, key_of: Callable[[str], str] = str) -> tuple[list[Gap], list[tuple[Path, str]]]:
    """The gaps that a completion fills, and the paths that lead to none, each with the reason.

    `key_of` tells the name in a tree of a property that is called something else, such as by its IRI.
    """
    entity = completion.entity
    gaps: dict[Path, Gap] = {}
    refused: list[tuple[Path, str]] = []
    for path, filled in completion.filled.items():
        try:
            keys = tuple(key_of(key) if isinstance(key, str) else key for key in path)
            gap = _gap(entity.id, entity.tree, (), keys, filled.value)
            if any(path_made[: len(gap.path)] == gap.path for path_made in entity.made or ()):
                raise ValueError(FILLED_BEFORE)
        except ValueError as error:
            refused.append((path, str(error)))
            continue
        known = gaps.setdefault(gap.path, gap)
        known.paths.append(path)
        if known is not gap:
            known.value = _merge(known.value, gap.value)
    for gap in gaps.values():
        gap.value = _with_lists(gap.value)
    return list(gaps.values()), refused


def _gap(node: str, tree: Mapping[str, Any], before: Path, path: Path, value: Any) -> Gap:
    """The gap that a path leads to from a node; `before` is the way there."""
    if not path or not isinstance(path[0], str):
        raise ValueError("expected the name of a property")
    key, inner_path, place = path[0], path[1:], (*before, path[0])
    known = tree.get(key)
    if known is None:
        return Gap(node, key, _nest(inner_path, value), place)
    if inner_path and isinstance(inner_path[0], int):
        values = known if isinstance(known, list) else [known]
        if inner_path[0] >= len(values):
            return Gap(node, key, _nest(inner_path[1:], value), (*place, inner_path[0]))
        place = (*place, inner_path[0]) if isinstance(known, list) else place
        known, inner_path = values[inner_path[0]], inner_path[1:]
    if isinstance(known, Quantity | Coordinate):
        return Gap(node, key, _completed(known, inner_path, value), place, known)
    if inner_path and isinstance(known, list):
        raise ValueError(f"has several values; say which, such as {key}[0]")
    if not inner_path or not isinstance(known, dict):
        raise ValueError(GIVEN)
    if "@id" not in known:
        raise ValueError("stands within a value that has no node of its own")
    return _gap(known["@id"], known, place, inner_path, value)


def _nest(inner_path: Path, value: Any) -> Any:
    """A value within its path; a list on the path is a dict by index, so that two paths can be merged."""
    for key in reversed(inner_path):
        value = {key: value}
    return value


def _with_lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(isinstance(key, int) for key in value):
        return [_with_lists(value[key]) for key in sorted(value)]
    return {key: _with_lists(item) for key, item in value.items()}


def _completed(known: Any, inner_path: Path, value: Any) -> Any:
    """A partly given value with its missing part."""
    if inner_path:
        if len(inner_path) > 1 or inner_path[0] not in PARTS[type(known)]:
            raise ValueError(f"expected one of {', '.join(PARTS[type(known)])}")
        if getattr(known, str(inner_path[0])) is not None:
            raise ValueError(GIVEN)
        return replace(known, **{str(inner_path[0]): value})
    if type(value) is not type(known):
        raise ValueError(f"expected a {type(known).__name__.lower()}, as a part of one is given, got {value!r}")
    given_parts = {name: part_value for name in PARTS[type(known)] if (part_value := getattr(known, name)) is not None}
    if len(given_parts) == len(PARTS[type(known)]) or any(
        getattr(value, name) != part_value for name, part_value in given_parts.items()
    ):
        raise ValueError(GIVEN)
    return value


def _merge(earlier: Any, later: Any) -> Any:
    """Two values of one gap merged: parts are joined, a later value replaces an earlier one."""
    if isinstance(earlier, dict) and isinstance(later, dict):
        return earlier | {key: _merge(earlier[key], value) if key in earlier else value for key, value in later.items()}
    if isinstance(earlier, Quantity | Coordinate) and type(earlier) is type(later):
        return replace(
            earlier,
            **{key: part_value for key in PARTS[type(earlier)] if (part_value := getattr(later, key)) is not None},
        )
    return later


# ---------------------------------------------------------------- values as triples


class SourceTriples:
    """Makes triples with the predicates and templates of a source; its new nodes are in `minted`."""

    def __init__(self, kb: RdfKB, observed: Observed, labels: FreshLabels) -> None:
        self.kb = kb
        self.observed = observed
        self.labels = labels
        self.minted: set[str] = set()

    def fresh(self) -> BlankNode:
        """A new blank node."""
        node = BlankNode(self.labels.mint())
        self.minted.add(node.value)
        return node

    def key_of(self, name: str) -> str:
        """The key in a tree of a property that is named by its key, its IRI or a short form of that."""
        names = self.kb.names
        return name if name in names.iris else names.known(self._expanded(name)) or name

    def predicate(self, key: str) -> str:
        """The predicate of a key; a new property is named by its IRI."""
        if key.startswith("@"):
            raise ValueError("is no property")
        iri = self.kb.names.iris.get(key)
        if iri is not None:
            return iri
        iri = self._expanded(key)
        if iri == TYPE:
            raise ValueError("is the class, which is never filled")
        if not (iri != key or "://" in iri or iri.startswith("urn:")) or not is_iri(iri):
            raise ValueError(
                f"no predicate is called {key!r} here; say its whole IRI, or one of its prefixes and a word"
            )
        return iri

    def _expanded(self, name: str) -> str:
        prefix, colon, word = name.partition(":")
        return self.kb.prefixes[prefix] + word if colon and prefix in self.kb.prefixes else name

    def statements(self, node: Any, predicate: str, value: Any) -> list[Triple]:
        """A new value of a node, or several, or a new part with all that is in it."""
        if isinstance(value, list) and value and not self.observed.holds_collections(predicate):
            return [triple for item in value for triple in self.statements(node, predicate, item)]
        term, more = self.collection(predicate, value) if isinstance(value, list) else self.term(predicate, value)
        return [Triple(node, NamedNode(predicate), term), *more]

    def term(self, predicate: str, value: Any) -> tuple[Any, list[Triple]]:
        """A value as a term, with the triples of its node."""
        if isinstance(value, dict):
            composite = self._composite(predicate, value)
            return self.part(predicate, value) if composite is None else self.term(predicate, composite)
        if isinstance(value, Link):
            value = self.link(value)
            return (
                (value, [])
                if isinstance(value, BlankNode)
                else self.observed.templates(predicate).write(value, self.fresh)
            )
        if value is None:
            raise ValueError("there is nothing to write")
        if self.observed.holds_triple_terms(predicate):
            raise ValueError("expected a triple term, as its other values are, which cannot be filled in")
        if value is SOMEVALUE:
            return self.fresh(), []
        if value is NOVALUE and NamedNode(IRIS_OF_KNOWN[NOVALUE]) not in self.observed.objects.get(predicate, ()):
            raise ValueError("RDF has no word for a value that is known not to exist")
        return self.observed.templates(predicate).write(value, self.fresh)

    def link(self, link: Link) -> Link | BlankNode:
        """A link; to a blank node, that node itself."""
        term = link_term(link)
        if isinstance(term, NamedNode) and term.value.startswith(ID) and not self.has_own_ids:
            raise ValueError(f"expected the IRI of an entity, got {link.id!r}")
        return term if isinstance(term, BlankNode) else link

    @cached_property
    def has_own_ids(self) -> bool:
        """Whether the source has ids that were no IRIs before we wrote it."""
        return any(isinstance(node, NamedNode) and node.value.startswith(ID) for node in self.observed.fields)

    def part(self, predicate: str, value: dict[str, Any]) -> tuple[Any, list[Triple]]:
        """A new node with all that is in it."""
        classes = self.observed.classes_of_parts(predicate)
        node = self.fresh()
        triples = [Triple(node, NamedNode(TYPE), name) for name in classes]
        for key, inner in value.items():
            triples += self.statements(node, self.predicate(self.key_of(key)), inner)
        return node, triples

    def _composite(self, predicate: str, value: dict[str, Any]) -> Any:
        """The quantity or place that a dict of its parts is, where the property has such values."""
        kinds = [kind for kind, parts in PARTS.items() if value and value.keys() <= set(parts)]
        templates = self.observed.templates(predicate)
        kind = next((kind for kind in kinds if templates.holds(kind)), None)
        return kind(*(value.get(part) for part in PARTS[kind])) if kind else None

    def collection(self, predicate: str, values: Sequence[Any]) -> tuple[Any, list[Triple]]:
        """A list as a collection; its members use the templates of other collections."""
        nodes: list[Any] = [*(self.fresh() for _ in values), NamedNode(NIL)]
        triples: list[Triple] = []
        for node, following, value in zip(nodes, nodes[1:], values, strict=False):
            member = self.collection if isinstance(value, list) else self.term
            term, more = member(FIRST, value)
            triples += [Triple(node, NamedNode(FIRST), term), *more, Triple(node, NamedNode(REST), following)]
        return nodes[0], triples

    def halves(self, node: Any, place: Coordinate, given: tuple[Any, Any] = (None, None)) -> list[Triple]:
        """geo:lat and geo:long as the source spells them; a given half stays."""
        triples = []
        for predicate, value, before in zip(
            (LATITUDE, LONGITUDE), (place.latitude, place.longitude), given, strict=True
        ):
            if value is not None and before is None:
                triples += self.statements(node, predicate, value)
        return triples


# ---------------------------------------------------------------- completions as quads


Anonymous: TypeAlias = dict[int, list[tuple[NamedNode, Any]]]  # number of an anonymous node -> its new properties


class Reach(Enum):
    """Which blank nodes of the source new statements can mention."""

    ALL = auto()  # new statements are set into the text, or all is serialised anew
    LABELLED = auto()  # new statements follow the source's bytes
    NONE = auto()  # new statements are a separate document


class EntityQuads(NamedTuple):
    """Quads of an entity, and the paths of the filled values that they hold."""

    id: str
    quads: list[Quad]
    paths: list[Path]


class Statements:
    """Makes quads of completions. `anonymous` collects properties that belong into brackets, by the number of the node."""

    def __init__(
        self, kb: RdfKB, observed: Observed, labels: FreshLabels, reach: Reach, anonymous: Anonymous | None = None
    ) -> None:
        self.kb = kb
        self.observed = observed
        self.triples = SourceTriples(kb, observed, labels)
        self.reach = reach
        self.anonymous = anonymous
        self.numbers = observed.blanks.numbers if reach is Reach.LABELLED else {}
        self.completed: dict[Any, list[Triple]] = {}  # value nodes that were completed; several entities may share one

    def quads_of(self, completion: Completion, report: Report) -> EntityQuads:
        """The quads of one completion; values without a place go to the report."""
        entity = completion.entity
        gaps, refused = gaps_of(completion, self.triples.key_of)
        result = EntityQuads(entity.id, [], [])
        for gap in gaps:
            self.triples.minted.clear()
            try:
                result.quads.extend(self._place_triples(self._triples_of_gap(gap, entity), gap, entity))
                result.paths.extend(gap.paths)
            except ValueError as error:
                refused += [(path, str(error)) for path in gap.paths]
        report.unwritable += [(entity.id, path, reason) for path, reason in refused]
        return result

    # ------------------------------------------------------------ places

    def _place_triples(self, triples: list[Triple], gap: Gap, entity: Entity) -> list[Quad]:
        """Put properties of anonymous nodes into their brackets; returns all other triples as quads."""
        graph = self._graph(self._node(gap.node), entity)
        if self.reach is Reach.NONE:
            self._check_alone([graph, *(term for triple in triples for term in (triple.subject, triple.object))])
        inside = [(number, triple) for triple in triples if (number := self._bracket(triple.subject)) is not None]
        if inside and self.anonymous is None:
            raise ValueError(f"stands in an anonymous bracket, which only {setting('insert')} reaches")
        if self.anonymous is not None:
            if any(number not in self.anonymous for number, _ in inside):
                raise ValueError("stands where no new property can be put")
            for number, triple in inside:
                self.anonymous[number].append((triple.predicate, triple.object))
        outside = (triple for triple in triples if self._bracket(triple.subject) is None)
        return [Quad(triple.subject, triple.predicate, triple.object, graph) for triple in outside]

    def _check_alone(self, terms: list[Any]) -> None:
        if any(type(term) is BlankNode and term.value not in self.triples.minted for term in terms):
            raise ValueError("stands at a blank node, which only the source itself can name")

    def _bracket(self, node: Any) -> int | None:
        """The number of an anonymous node."""
        return self.numbers.get(node.value) if type(node) is BlankNode else None

    def _graph(self, node: Any, entity: Entity) -> Any:
        """The graph of a node."""
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

    # ------------------------------------------------------------ triples

    def _triples_of_gap(self, gap: Gap, entity: Entity) -> list[Triple]:
        node = self._node(gap.node)
        if self.kb.wikibase:
            return self._truthy(node, gap, entity)
        if gap.key == COORDINATE_KEY and COORDINATE_KEY not in self.kb.names.iris and self.kb.names.known(LATITUDE):
            return self._pair(node, gap.value)
        if (gap.key,) == CLASSES and isinstance(gap.value, list):
            return self._classes(node, gap.value)
        predicate = self.triples.predicate(gap.key)
        if gap.given is not None:
            return self._completed(node, predicate, gap)
        if self.observed.is_collection(node, predicate):
            raise ValueError("is a collection, which cannot be added to")
        if gap.value == []:
            raise ValueError("there is nothing to write")
        triples = self.triples.statements(node, predicate, gap.value)
        known = self.observed.values(node, predicate)
        if any(triple.subject == node and triple.object in known for triple in triples):
            raise ValueError(GIVEN)
        return triples

    def _classes(self, node: Any, classes: Sequence[Link]) -> list[Triple]:
        """Further classes of a node."""
        known = self.observed.values(node, TYPE)
        triples = [Triple(node, NamedNode(TYPE), NamedNode(iri_of_id(link.id))) for link in classes]
        if any(triple.object in known for triple in triples):
            raise ValueError(GIVEN)
        return triples

    def _truthy(self, node: Any, gap: Gap, entity: Entity) -> list[Triple]:
        predicate = truthy_predicate(self.observed.objects, gap.key)
        if predicate is None or gap.node != entity.id:
            raise ValueError("has no truthy triples here; write QuickStatements (.qs) instead")
        if self.observed.values(node, predicate.replace("/prop/direct/", "/prop/")):
            raise ValueError(
                "has statements, beside which a truthy triple is ignored; write QuickStatements (.qs) instead"
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
        triples = self.triples.halves(node, place, (known[0], known[1]))
        if not triples:
            raise ValueError("there is nothing to write")
        return triples

    def _number(self, node: Any, predicate: str) -> Any:
        """The one value that a node has."""
        values = self.observed.values(node, predicate)
        return value_of_term(values[0]) if values else None

    def _completed(self, node: Any, predicate: str, gap: Gap) -> list[Triple]:
        """The missing part of a value with a value node."""
        inner = self._inner(self.observed.values(node, predicate), gap.given)
        fields = self.observed.fields_of(inner) or {}
        triples = self.observed.templates(predicate).missing(inner, fields, gap.value, self.triples.fresh)
        if not triples:
            raise ValueError("there is nothing to write")
        if self.completed.setdefault(inner, triples) is triples:
            return triples
        if self.completed[inner] != triples:
            raise ValueError("shares its node with another entity, for which it was filled with something else")
        return []

    def _inner(self, values: Sequence[Any], given_value: Any) -> Any:
        """The node that is this value."""
        for value in values:
            fields = None if isinstance(value, LiteralTerm) else self.observed.fields_of(value)
            if fields is not None and recognised(value, fields, self.observed.fields_of) == given_value:
                return value
        raise ValueError("has no node of its own that could be completed")


def graph_of(name: str) -> NamedNode | BlankNode | DefaultGraph:
    """The graph that an entity names."""
    if not name:
        return DefaultGraph()
    return BlankNode(name[2:]) if name.startswith("_:") else NamedNode(name)
