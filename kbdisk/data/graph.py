"""The graph of entities: which entity links to which, and by which path.

A node is an id. An entity's node has its class and its known values; a node that is only the target of links has neither.
There is one edge for each source, target and path of the link.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from kbdisk.data.parse import Reading, read_all
from kbdisk.data.slots import hash_id
from kbdisk.entity import Entity, Link, Path, without_places
from kbdisk.schemas.composites import EACH
from kbdisk.schemas.kinds import COLLECTIONS, Number, Set
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.schema import Schema

MAX_NUMBER = 1e150  # larger numbers cannot be added up
NO_LEAVES: Mapping[Path, Any] = MappingProxyType({})


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
    """A graph as arrays: n nodes, L links, E edges. Each link between two nodes is two edges, one forwards and one backwards."""

    ids: Mapping[str, int]  # the number of each node
    names: Sequence[str]  # (n,) the ids by number
    classes: Sequence[str]  # the names of classes by number
    class_of: NDArray[np.int64]  # (n,) the number of each entity's class; -1: no entity
    paths: Mapping[Path, int]  # the numbers of the paths of links
    source: NDArray[np.int64]  # (L,) ascending
    path: NDArray[np.int64]  # (L,)
    target: NDArray[np.int64]  # (L,)
    relation_of_link: NDArray[np.int64]  # (L,)
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


class EntityLinks(NamedTuple):
    """The links that some entities have, as arrays: N entities, m links."""

    row: NDArray[np.int64]  # (m,) the entity, ascending
    place: NDArray[np.int64]  # (m,) among the links of the entity
    path: NDArray[np.int64]  # (m,)
    target: NDArray[np.int64]  # (m,) a node; -1: none of the graph
    paths: Sequence[Path]  # by number
    node: NDArray[np.int64]  # (N,) of each entity; -1: it is not in the graph
    class_of: NDArray[np.int64]  # (N,) the number of its class
    draw: NDArray[np.int64]  # (N,) a hash of its id

    def of_block(self, start: int, end: int) -> EntityLinks:
        """The links of some entities in a row, whose rows begin at 0."""
        low, high = np.searchsorted(self.row, [start, end]).tolist()
        row, place, path, target = (column[low:high] for column in (self.row, self.place, self.path, self.target))
        node, class_of, draw = (column[start:end] for column in (self.node, self.class_of, self.draw))
        return EntityLinks(row - start, place, path, target, self.paths, node, class_of, draw)


class _LinkingPaths(dict[Path, bool]):
    """Whether paths of a class hold links. Each path is looked up once."""

    def __init__(self, patterns: Collection[Path]) -> None:
        self._patterns = patterns

    def __missing__(self, path: Path) -> bool:
        self[path] = is_link = pattern(path) in self._patterns
        return is_link


class Node:
    """An id of a graph: its links, and of an entity its class and its known values."""

    __slots__ = ("class_name", "incoming", "leaves", "links")

    def __init__(self) -> None:
        self.class_name: str | None = None
        self.leaves: Mapping[Path, Any] = NO_LEAVES
        self.links: list[tuple[str, Path]] = []  # targets and paths
        self.incoming: list[Edge] = []


class Graph:
    """The links among entities, and the known values of each."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.nodes: dict[str, Node] = {}
        self.linking = {name: linking(entity_class.leaves()) for name, entity_class in schema.classes.items()}
        self._arrays: LinkArrays | None = None

    @classmethod
    def read(cls, schema: Schema, entities: Iterable[Entity | Reading]) -> Self:
        """The graph of some entities, without those that the schema has no class for."""
        graph = cls(schema)
        graph.add_all(entities)
        return graph

    def add_all(self, entities: Iterable[Entity | Reading]) -> None:
        """Add entities, without those that the schema has no class for."""
        for reading in read_all(self.schema, entities):
            self.add(reading.id, reading.class_name, reading.leaves)

    def add(self, id: str, class_name: str, leaves: Mapping[Path, Any]) -> None:
        """Add an entity, whose leaves are not copied. Values already known of the same id stay."""
        self._arrays = None
        node = self._node(id)
        node.class_name, node.leaves = class_name, {**node.leaves, **leaves} if node.leaves else leaves
        known = set(node.links)
        paths = self.linking[class_name]
        if paths:
            for path, value in leaves.items():
                if path in paths or pattern(path) in paths:
                    for target in targets(value):
                        if (target, path) not in known:
                            known.add((target, path))
                            node.links.append((target, path))
                            self._node(target).incoming.append(Edge(id, class_name, path))

    def _node(self, id: str) -> Node:
        node = self.nodes.get(id)
        if node is None:
            node = self.nodes[id] = Node()
        return node

    def of(self, id: str) -> str | None:
        """The class of an entity; None for an id that is no entity here."""
        node = self.nodes.get(id)
        return None if node is None else node.class_name

    def leaves(self, id: str) -> Mapping[Path, Any]:
        """The known values of an entity."""
        node = self.nodes.get(id)
        return NO_LEAVES if node is None else node.leaves

    def entities(self) -> Iterator[str]:
        """The ids of all entities, in the order in which they were added."""
        return (id for id, node in self.nodes.items() if node.class_name is not None)

    def edges(self) -> Iterator[tuple[str, str, Path]]:
        """All links, by source, target and path; those from one entity to another follow each other."""
        for source, node in self.nodes.items():
            by_target: dict[str, list[Path]] = {}
            for target, path in node.links:
                by_target.setdefault(target, []).append(path)
            for target, paths in by_target.items():
                yield from ((source, target, path) for path in paths)

    def incoming(self, id: str) -> Sequence[Edge]:
        """The links that lead to an id."""
        node = self.nodes.get(id)
        return () if node is None else node.incoming

    def arrays(self) -> LinkArrays:
        """Its links between different nodes, and its finite numbers outside of lists, as arrays."""
        if self._arrays is None:
            self._arrays = self._read_arrays()
        return self._arrays

    def _read_arrays(self) -> LinkArrays:
        ids = {id: number for number, id in enumerate(self.nodes)}
        nodes, classes = list(self.nodes.values()), tuple(self.schema.classes)
        class_numbers: dict[str | None, int] = {name: number for number, name in enumerate(classes)}
        class_of = np.array([class_numbers.get(node.class_name, -1) for node in nodes], np.int64)
        links, paths = [link for node in nodes for link in node.links], dict[Path, int]()
        source = np.repeat(np.arange(len(nodes)), np.array([len(node.links) for node in nodes], np.int64))
        target = np.array([ids[id] for id, _ in links], np.int64)
        path = np.array([paths.setdefault(path, len(paths)) for _, path in links], np.int64)
        relation, relations = _relations(source, target, class_of[source] * len(paths) + path, list(paths), classes)
        is_edge = source != target
        size, count = max(len(relations), 1), max(len(ids), 1)
        edges = np.unique((source * size + relation)[is_edge] * count + target[is_edge])
        head, relation_of, tail = edges // count // size, edges // count % size, edges % count
        order = np.concatenate([head, tail]).argsort(kind="stable")
        heads, tails = np.concatenate([head, tail])[order], np.concatenate([tail, head])[order]
        return LinkArrays(
            ids=ids,
            names=list(ids),
            classes=classes,
            class_of=class_of,
            paths=paths,
            source=source,
            path=path,
            target=target,
            relation_of_link=relation,
            relations=relations,
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
        of_classes: dict[str | None, list[tuple[int, Mapping[Path, Any]]]] = {}
        for id, node in self.nodes.items():
            of_classes.setdefault(node.class_name, []).append((ids[id], node.leaves))
        numbers = {}
        for name, entity_class in self.schema.classes.items():
            nodes = of_classes.get(name, [])
            for path, leaf in entity_class.leaves().items():
                if isinstance(leaf, Number) and without_places(path) == path:
                    known = [(node, leaves[path]) for node, leaves in nodes if path in leaves]
                    values = np.array([value for _, value in known], np.float64)
                    is_small = np.abs(values) < MAX_NUMBER
                    if is_small.any():
                        holders = np.array([node for node, _ in known], np.int64)
                        numbers[name, path] = holders[is_small], values[is_small]
        return numbers

    def links_of(self, entities: Iterable[tuple[str, str, Mapping[Path, Any]]]) -> EntityLinks:
        """The links of some entities, given as id, class and leaves, which need not be in the graph."""
        arrays = self.arrays()
        class_numbers = {name: number for number, name in enumerate(arrays.classes)}
        paths: dict[Path, int] = {}
        is_link = {name: _LinkingPaths(self.linking[name]) for name in arrays.classes}
        rows, places, path_numbers, target_nodes = array("q"), array("q"), array("q"), array("q")
        nodes, classes, draws = array("q"), array("q"), array("q")
        for row, (id, class_name, leaves) in enumerate(entities):
            nodes.append(arrays.ids.get(id, -1))
            classes.append(class_numbers[class_name])
            draws.append(hash_id(id))
            of_class, place = is_link[class_name], 0
            for path in [path for path in leaves if of_class[path]]:
                for target in targets(leaves[path]):
                    rows.append(row)
                    places.append(place)
                    path_numbers.append(paths.setdefault(path, len(paths)))
                    target_nodes.append(arrays.ids.get(target, -1))
                    place += 1
        return EntityLinks(
            np.asarray(rows),
            np.asarray(places),
            np.asarray(path_numbers),
            np.asarray(target_nodes),
            list(paths),
            np.asarray(nodes),
            np.asarray(classes),
            np.asarray(draws),
        )

    def neighbours(self, id: str) -> set[str]:
        """The ids that an entity links to, or that link to it."""
        node = self.nodes.get(id)
        if node is None:
            return set()
        return {*(target for target, _ in node.links), *(edge.source for edge in node.incoming)} - {id}

    def only(self, sources: Collection[str]) -> Self:
        """The graph of these entities alone: no values of others, and no links from them."""
        graph = type(self)(self.schema)
        for id in self.entities():
            if id in sources:
                graph.add(id, str(self.of(id)), self.leaves(id))
        return graph

    def along(self, *paths: Path) -> nx.DiGraph[str]:
        """The links by some paths, such as those to broader classes."""
        edges = ((source, target) for source, target, path in self.edges() if pattern(path) in paths)
        return nx.DiGraph(edges)

    def inverses(self, share: float = 0.9, least: int = 3) -> list[Inverse]:
        """The pairs of paths where at least a `share` of the links by the first, of `least` or more, is answered by the second."""
        links: Counter[tuple[str, Path, str]] = Counter()
        answered: Counter[tuple[str, Path, str, Path]] = Counter()
        for source, target, path in self.edges():
            class_name, back_class = self.of(source), self.of(target)
            if class_name is not None and back_class is not None:
                links[class_name, pattern(path), back_class] += 1
                paths = {pattern(back) for end, back in self.nodes[target].links if end == source}
                answered.update((class_name, pattern(path), back_class, back) for back in paths)
        inverses = [
            Inverse(*pair, links[pair[:3]], count / links[pair[:3]])
            for pair, count in answered.items()
            if links[pair[:3]] >= least and count >= share * links[pair[:3]]
        ]
        return sorted(inverses, key=lambda pair: (pair.class_name, str(pair.path), pair.back_class, str(pair.back)))

    def groups(self) -> list[list[str]]:
        """The connected components of the links.

        A split that keeps groups whole leaks nothing over links. Groups and their members are sorted.
        """
        ids = list(self.entities())
        edges = ((source, target) for source, target, _ in self.edges())
        graph: nx.Graph[str] = nx.Graph(edges)
        graph.add_nodes_from(ids)
        entities = set(ids)
        components = (component & entities for component in nx.connected_components(graph))
        return sorted(sorted(component) for component in components if component)


def _relations(
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    keys: NDArray[np.int64],
    paths: Sequence[Path],
    classes: Sequence[str],
) -> tuple[NDArray[np.int64], tuple[tuple[str, Path], ...]]:
    """The relation of each link, and the class and pattern of each relation, in the order of `Graph.edges`.

    A key is the number of the source's class times the number of paths, plus that of the path.
    """
    pairs = source * (int(target.max(initial=0)) + 1) + target
    _, first, pair = np.unique(pairs, return_index=True, return_inverse=True)
    in_order = keys[first[pair].argsort(kind="stable")]  # links from one entity to another follow each other
    distinct, first = np.unique(in_order, return_index=True)
    relations: dict[tuple[str, Path], int] = {}
    numbers = np.zeros(len(distinct), np.int64)
    for place in first.argsort().tolist():
        class_number, path = divmod(int(distinct[place]), len(paths))
        numbers[place] = relations.setdefault((classes[class_number], pattern(paths[path])), len(relations))
    return numbers[np.searchsorted(distinct, keys)], tuple(relations)


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
    links = value if isinstance(value, COLLECTIONS) else (value,)
    return [link.id if isinstance(link, Link) else link for link in links]
