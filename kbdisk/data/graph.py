"""The graph of entities: which entity links to which, and by which path, in networkx.

A node is an id. An entity's node has its class as `of` and its known values as `leaves`; a node that is only the target of
links has neither. The key of an edge is the path of the link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from kbdisk.data.parse import Reading, read_all
from kbdisk.data.slots import hash_id
from kbdisk.entity import Entity, Link, Path, without_places
from kbdisk.schemas.composites import EACH
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.kinds import Number, Set
from kbdisk.schemas.schema import Schema

MAX_NUMBER = 1e150  # larger numbers cannot be added up


class Edge(NamedTuple):
    """An incoming link: the id and class of its source, and its path."""

    source: str
    class_name: str
    path: Path


class Inverse(NamedTuple):
    """Two inverse paths: where the first leads from one entity to another, the second leads back."""

    class_name: str
    path: Path
    back_class: str
    back: Path
    links: int  # by the first path, to entities of the second class
    share: float  # of these links: those that the second path answers


class LinkArrays(NamedTuple):
    """A graph as arrays: n nodes, E edges. Each link is two edges, one forwards and one backwards."""

    ids: Mapping[str, int]  # the number of each node
    relations: tuple[tuple[str, Path], ...]  # the class of a link's source, and its path
    head: NDArray[np.int64]  # (E,) ascending
    relation: NDArray[np.int64]  # (E,)
    backwards: NDArray[np.bool_]  # (E,)
    tail: NDArray[np.int64]  # (E,)
    offsets: NDArray[np.int64]  # (n + 1,) the edges of each head
    draw: NDArray[np.int64]  # (n,) a hash of each id
    numbers: Mapping[
        tuple[str, Path], tuple[NDArray[np.int64], NDArray[np.float64]]
    ]  # by class and path: nodes, values


class Graph:
    """The links among entities, and the known values of each."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.links: nx.MultiDiGraph[str] = nx.MultiDiGraph()
        self.linking = {name: linking(entity_class.leaves()) for name, entity_class in schema.classes.items()}
        self._incoming: dict[str, tuple[Edge, ...]] = {}  # caches
        self._arrays: LinkArrays | None = None

    @classmethod
    def read(cls, schema: Schema, entities: Iterable[Entity | Reading]) -> Self:
        """The graph of some entities, without those that the schema has no class for."""
        graph = cls(schema)
        for reading in read_all(schema, entities):
            graph.add(reading.id, reading.class_name, reading.leaves)
        return graph

    def add(self, id: str, class_name: str, leaves: Mapping[Path, Any]) -> None:
        """Add an entity. Values already known of the same id stay."""
        self._incoming.clear()
        self._arrays = None
        self.links.add_node(id, of=class_name, leaves={**self.leaves(id), **leaves})
        paths = self.linking[class_name]
        if paths:
            for path, value in leaves.items():
                if path in paths or pattern(path) in paths:
                    for target in targets(value):
                        self.links.add_edge(id, target, key=path)

    def of(self, id: str) -> str | None:
        """The class of an entity; None for an id that is no entity here."""
        return self.links.nodes[id].get("of") if id in self.links else None

    def leaves(self, id: str) -> Mapping[Path, Any]:
        """The known values of an entity."""
        return self.links.nodes[id].get("leaves", {}) if id in self.links else {}

    def entities(self) -> Iterator[str]:
        """The ids of all entities, in the order in which they were added."""
        return (id for id, class_name in self.links.nodes(data="of") if class_name is not None)

    def incoming(self, id: str) -> Sequence[Edge]:
        """The links that lead to an id."""
        if id not in self.links:
            return ()
        if id not in self._incoming:
            edges = self.links.in_edges(id, keys=True)
            self._incoming[id] = tuple(Edge(source, self.links.nodes[source]["of"], path) for source, _, path in edges)
        return self._incoming[id]

    def arrays(self) -> LinkArrays:
        """Its links between different nodes, and its finite numbers outside of lists, as arrays."""
        if self._arrays is None:
            self._arrays = self._read_arrays()
        return self._arrays

    def _read_arrays(self) -> LinkArrays:
        ids = {id: number for number, id in enumerate(self.links)}
        relations: dict[tuple[str, Path], int] = {}
        known: dict[tuple[str, Path], int] = {}  # the relations of unchanged paths
        edges: set[tuple[int, int, int]] = set()
        for source, target, path in self.links.edges(keys=True):
            class_name = str(self.of(source))
            relation = known.get((class_name, path))
            if relation is None:
                key = class_name, pattern(path)
                relation = known[class_name, path] = relations.setdefault(key, len(relations))
            if source != target:
                edges.add((ids[source], relation, ids[target]))
        head, relation_of, tail = np.array(sorted(edges), np.int64).reshape(-1, 3).T
        order = np.concatenate([head, tail]).argsort(kind="stable")
        heads, tails = np.concatenate([head, tail])[order], np.concatenate([tail, head])[order]
        return LinkArrays(
            ids=ids,
            relations=tuple(relations),
            head=heads,
            relation=np.concatenate([relation_of, relation_of])[order],
            backwards=order >= len(head),
            tail=tails,
            offsets=np.searchsorted(heads, np.arange(len(ids) + 1)),
            draw=np.array([hash_id(id) for id in ids], np.int64),
            numbers=self._read_numbers(ids),
        )

    def _read_numbers(
        self, ids: Mapping[str, int]
    ) -> dict[tuple[str, Path], tuple[NDArray[np.int64], NDArray[np.float64]]]:
        paths = {
            name: [
                path
                for path, leaf in entity_class.leaves().items()
                if isinstance(leaf, Number) and without_places(path) == path
            ]
            for name, entity_class in self.schema.classes.items()
        }
        found: dict[tuple[str, Path], list[tuple[int, float]]] = {}
        for id, node in self.links.nodes(data=True):
            class_name, leaves = node.get("of", ""), node.get("leaves", {})
            for path in paths.get(class_name, ()):
                if path in leaves and abs(value := float(leaves[path])) < MAX_NUMBER:
                    found.setdefault((class_name, path), []).append((ids[id], value))
        return {
            key: (np.array([node for node, _ in pairs], np.int64), np.array([value for _, value in pairs]))
            for key, pairs in found.items()
        }

    def neighbours(self, id: str) -> set[str]:
        """The ids that an entity links to, or that link to it."""
        return {*self.links.successors(id), *self.links.predecessors(id)} - {id} if id in self.links else set()

    def only(self, sources: Collection[str]) -> Self:
        """The graph of these entities alone: no values of others, and no links from them."""
        graph = type(self)(self.schema)
        for id in self.entities():
            if id in sources:
                graph.add(id, self.links.nodes[id]["of"], self.leaves(id))
        return graph

    def along(self, *paths: Path) -> nx.DiGraph[str]:
        """The links by some paths, such as those to broader classes."""
        edges = ((source, target) for source, target, path in self.links.edges(keys=True) if pattern(path) in paths)
        return nx.DiGraph(edges)

    def inverses(self, share: float = 0.9, least: int = 3) -> list[Inverse]:
        """The pairs of paths where at least a `share` of the links by the first, of `least` or more, is answered by the second."""
        links: Counter[tuple[str, Path, str]] = Counter()
        answered: Counter[tuple[str, Path, str, Path]] = Counter()
        for source, target, path in self.links.edges(keys=True):
            class_name, back_class = self.of(source), self.of(target)
            if class_name is not None and back_class is not None:
                links[class_name, pattern(path), back_class] += 1
                keys: Any = self.links.get_edge_data(target, source) or {}
                paths: set[Path] = {pattern(key) for key in keys}
                answered.update((class_name, pattern(path), back_class, back) for back in paths)
        inverses = [
            Inverse(*pair, links[pair[:3]], count / links[pair[:3]])
            for pair, count in answered.items()
            if links[pair[:3]] >= least and count >= share * links[pair[:3]]
        ]
        return sorted(inverses, key=lambda pair: (pair.class_name, str(pair.path), pair.back_class, str(pair.back)))

    def groups(self, *, mutual: bool = False) -> list[list[str]]:
        """The connected components of the links; with `mutual`, of those links that the target answers with a link back.

        A split that keeps groups whole leaks nothing over links. Groups and their members are sorted.
        """
        ids = list(self.entities())
        edges = ((a, b) for a, b in self.links.edges() if not mutual or self.links.has_edge(b, a))
        graph: nx.Graph[str] = nx.Graph(edges)
        graph.add_nodes_from(ids)
        entities = set(ids)
        components = (component & entities for component in nx.connected_components(graph))
        return sorted(sorted(component) for component in components if component)


def hierarchy(entities: Iterable[Entity]) -> nx.DiGraph[str]:
    """The hierarchy of classes by the entities of several classes: an edge from each class to the next broader ones."""
    counts: Counter[str] = Counter()
    both: Counter[tuple[str, str]] = Counter()
    for entity in entities:
        names = set(entity.classes)
        counts.update(names)
        both.update((name, other) for name in names for other in names if name != other)
    edges = (pair for pair, count in both.items() if count == counts[pair[0]] < counts[pair[1]])
    closure: nx.DiGraph[str] = nx.DiGraph(sorted(edges))
    reduced: nx.DiGraph[str] = nx.transitive_reduction(closure)
    reduced.add_nodes_from(sorted(counts))
    return reduced


def pattern(path: Path) -> Path:
    """A path with EACH in the place of its places in lists."""
    for key in path:
        if type(key) is int:
            return tuple(EACH if type(key) is int else key for key in path)
    return path


def linking(leaves: Mapping[Path, Any]) -> set[Path]:
    """The paths of leaves that are links or sets of links."""
    return {path for path, leaf in leaves.items() if isinstance(leaf.of if isinstance(leaf, Set) else leaf, LinkLeaf)}


def targets(value: Any) -> list[str]:
    """The ids that a link, or a set of links, leads to."""
    links = value if isinstance(value, list | tuple | set | frozenset) else (value,)
    return [link.id if isinstance(link, Link) else link for link in links]
