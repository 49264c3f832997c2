"""The graph of entities: which links to which, and by which path. networkx holds it.

A node is an id. An entity's node has `of`, its class, and `leaves`, what is known of it; a node that is merely linked to
has neither. An edge has as its key the path that the link stands at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import networkx as nx

from kbdisk.data.parse import Reading, read_all
from kbdisk.entity import Entity, Link, Path
from kbdisk.schemas.composites import EACH
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.kinds import Set
from kbdisk.schemas.schema import Schema


class Edge(NamedTuple):
    """A link that leads here: from whom, of which class, by which path."""

    source: str
    of: str
    path: Path


class Inverse(NamedTuple):
    """Two paths that say the same both ways round: where the first leads to an entity, its second leads back."""

    of: str
    path: Path
    back_of: str
    back: Path
    links: int  # how many the first has, to entities of that class
    share: float  # of these that the second leads back from


class Graph:
    """The links among entities, and what is known of each."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.links: nx.MultiDiGraph[str] = nx.MultiDiGraph()
        self.linking = {name: linking(entity_class.leaves()) for name, entity_class in schema.classes.items()}
        self._incoming: dict[str, tuple[Edge, ...]] = {}  # as far as they were asked for

    @classmethod
    def read(cls, schema: Schema, entities: Iterable[Entity | Reading]) -> Self:
        """The graph of some entities; those that the schema has no class for have no part in it."""
        graph = cls(schema)
        for reading in read_all(schema, entities):
            graph.add(reading.id, reading.of, reading.leaves)
        return graph

    def add(self, id: str, class_name: str, leaves: Mapping[Path, Any]) -> None:
        """Another entity. What was known of the same id already stays."""
        self._incoming.clear()
        self.links.add_node(id, of=class_name, leaves={**self.leaves(id), **leaves})
        paths = self.linking[class_name]
        if paths:
            for path, value in leaves.items():
                if path in paths or pattern(path) in paths:
                    for target in targets(value):
                        self.links.add_edge(id, target, key=path)

    def of(self, id: str) -> str | None:
        """The class of an entity; None of what is no entity here."""
        return self.links.nodes[id].get("of") if id in self.links else None

    def leaves(self, id: str) -> Mapping[Path, Any]:
        """What is known of an entity."""
        return self.links.nodes[id].get("leaves", {}) if id in self.links else {}

    def entities(self) -> Iterator[str]:
        """The ids of all entities, in the order they came in."""
        return (id for id, class_name in self.links.nodes(data="of") if class_name is not None)

    def incoming(self, id: str) -> Sequence[Edge]:
        """The links that lead to an entity, or to what is none here."""
        if id not in self.links:
            return ()
        if id not in self._incoming:
            edges = self.links.in_edges(id, keys=True)
            self._incoming[id] = tuple(Edge(source, self.links.nodes[source]["of"], path) for source, _, path in edges)
        return self._incoming[id]

    def neighbours(self, id: str) -> set[str]:
        """What an entity links to, and what links to it."""
        return {*self.links.successors(id), *self.links.predecessors(id)} - {id} if id in self.links else set()

    def only(self, sources: Collection[str]) -> Self:
        """The graph as these entities alone tell it: nothing is known of others, and no link comes from them."""
        graph = type(self)(self.schema)
        for id in self.entities():
            if id in sources:
                graph.add(id, self.links.nodes[id]["of"], self.leaves(id))
        return graph

    def along(self, *paths: Path) -> nx.DiGraph[str]:
        """The links by some paths alone, such as those to broader classes."""
        edges = ((source, target) for source, target, path in self.links.edges(keys=True) if pattern(path) in paths)
        return nx.DiGraph(edges)

    def inverses(self, share: float = 0.9, least: int = 3) -> list[Inverse]:
        """The pairs of paths where nearly every link by the first, of `least` or more, is answered by the second."""
        links: Counter[tuple[str, Path, str]] = Counter()
        answered: Counter[tuple[str, Path, str, Path]] = Counter()
        for source, target, path in self.links.edges(keys=True):
            of, back_of = self.of(source), self.of(target)
            if of is not None and back_of is not None:
                links[of, pattern(path), back_of] += 1
                back: Any = self.links.get_edge_data(target, source) or {}
                paths: set[Path] = {pattern(each) for each in back}
                answered.update((of, pattern(path), back_of, one) for one in paths)
        found = [
            Inverse(*pair, links[pair[:3]], count / links[pair[:3]])
            for pair, count in answered.items()
            if links[pair[:3]] >= least and count >= share * links[pair[:3]]
        ]
        return sorted(found, key=lambda one: (one.of, str(one.path), one.back_of, str(one.back)))

    def groups(self, *, mutual: bool = False) -> list[list[str]]:
        """Entities in groups that no link crosses; with `mutual`, none that is answered: it would give its inverse away.

        A split that keeps groups whole leaks nothing over links. Both groups and their members are in order.
        """
        ids = list(self.entities())
        edges = ((a, b) for a, b in self.links.edges() if not mutual or self.links.has_edge(b, a))
        whole: nx.Graph[str] = nx.Graph(edges)
        whole.add_nodes_from(ids)
        entities = set(ids)
        return sorted(sorted(one & entities) for one in nx.connected_components(whole) if one & entities)


def hierarchy(entities: Iterable[Entity]) -> nx.DiGraph[str]:
    """Which class is within which, as entities of several tell it: an edge from each to the next broader ones."""
    counts: Counter[str] = Counter()
    both: Counter[tuple[str, str]] = Counter()
    for entity in entities:
        names = set(entity.classes)
        counts.update(names)
        both.update((one, other) for one in names for other in names if one != other)
    edges = (pair for pair, count in both.items() if count == counts[pair[0]] < counts[pair[1]])
    whole: nx.DiGraph[str] = nx.DiGraph(sorted(edges))
    reduced: nx.DiGraph[str] = nx.transitive_reduction(whole)
    reduced.add_nodes_from(sorted(counts))
    return reduced


def pattern(path: Path) -> Path:
    """A path with any place of a list for the place that it has."""
    for key in path:
        if type(key) is int:
            return tuple(EACH if type(key) is int else key for key in path)
    return path


def linking(leaves: Mapping[Path, Any]) -> set[Path]:
    """The paths, among leaves by their patterns, that have links."""
    return {path for path, leaf in leaves.items() if isinstance(leaf.of if isinstance(leaf, Set) else leaf, LinkLeaf)}


def targets(value: Any) -> list[str]:
    """The ids that a link, or a set of links, leads to."""
    several = value if isinstance(value, list | tuple | set | frozenset) else (value,)
    return [link.id if isinstance(link, Link) else link for link in several]
