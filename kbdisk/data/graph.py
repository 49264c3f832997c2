"""The graph of entities: which entity links to which, by which path, and the known values of each.

A node is an id. An entity's node has its class and its known values; a node that is only the target of links has neither. Values are
columns: those of all entities at one path.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kbdisk.data.groups import grouped
from kbdisk.data.parse import Reading, read_all
from kbdisk.data.slots import hash_id
from kbdisk.entity import Entity, Link, Path, without_places
from kbdisk.schemas.composites import EACH
from kbdisk.schemas.kinds import COLLECTIONS, Number, Set
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.schema import Schema

MAX_NUMBER = 1e150  # larger numbers cannot be added up
NO_ENTITY = -1  # in the place of the class of a node that is only linked to
TYPE_CODES = {float: "d", int: "q", Link: "i"}  # of numbers, and of links as nodes, that are kept as an array
MAX_SHARED = 10_000  # labels of a column that are in memory once


class LinkArrays(NamedTuple):
    """A graph as arrays: n nodes, L links, E edges. Each link between two nodes is two edges, one forwards and one backwards.

    Arrays with a number for each link, edge or value have 32 bits, as there are millions.
    """

    ids: Mapping[str, int]  # the number of each node
    names: Sequence[str]  # (n,) the ids by number
    classes: Sequence[str]  # the names of classes by number
    class_of: NDArray[np.int64]  # (n,) the number of each entity's class; -1: no entity
    paths: Mapping[Path, int]  # the numbers of the paths of links
    source: NDArray[np.int32]  # (L,) ascending
    path: NDArray[np.int32]  # (L,)
    target: NDArray[np.int32]  # (L,)
    relation_of_link: NDArray[np.int32]  # (L,)
    relations: tuple[tuple[str, Path], ...]  # the class of a link's source, and its path
    head: NDArray[np.int32]  # (E,) ascending
    relation: NDArray[np.int32]  # (E,)
    backwards: NDArray[np.bool_]  # (E,)
    tail: NDArray[np.int32]  # (E,)
    offsets: NDArray[np.int64]  # (n + 1,) the edges of each head
    draw: NDArray[np.int64]  # (n,) a hash of each id
    numbers: Mapping[
        tuple[str, Path], tuple[NDArray[np.int32], NDArray[np.float64]]
    ]  # by class and path: nodes, ascending, and values


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


class Nodes:
    """The nodes of a graph: the number of each id, the ids by number, and the numbers of classes."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.names: list[str] = []
        self.class_of = array("i")  # NO_ENTITY of a node that is only linked to

    def number(self, id: str) -> int:
        """The number of an id, which becomes a node."""
        number = self.numbers.setdefault(id, len(self.names))
        if number == len(self.names):
            self.names.append(id)
            self.class_of.append(NO_ENTITY)
        return number


class Column:
    """The known values of entities at one path, in the order in which they were added."""

    def __init__(self, nodes_of_graph: Nodes) -> None:
        self._nodes_of_graph = nodes_of_graph
        self._nodes = array("i")
        self._values: list[Any] | array[Any] = []  # an array as long as all are numbers of one type, or links
        self._labels: dict[Any, Any] = {}  # equal ones are in memory once
        self._sorted_nodes: NDArray[np.int32] | None = None

    def append(self, node: int, value: Any, *, is_link: bool) -> None:
        """Add the value of a node. With `is_link` the property holds links, and the target of one becomes a node."""
        self._sorted_nodes = None
        code = TYPE_CODES.get(type(value)) if is_link or type(value) is not Link else None
        if not self._nodes and code:
            self._values = array(code)
        elif isinstance(self._values, array) and self._values.typecode != code:
            self._values = self._decoded(self._values)
        try:
            if isinstance(self._values, array):
                self._values.append(self._nodes_of_graph.number(value.id) if code == TYPE_CODES[Link] else value)
            else:
                self._values.append(self._once(value))
        except OverflowError:  # a whole number of more than 64 bits
            self._values = [*self._values, value]
        self._nodes.append(node)

    def _decoded(self, values: Sequence[Any]) -> list[Any]:
        """Values of an array: links by their nodes, numbers as they are."""
        if isinstance(self._values, array) and self._values.typecode == TYPE_CODES[Link]:
            return [Link(self._nodes_of_graph.names[node]) for node in values]
        return list(values)

    def _once(self, value: Any) -> Any:
        """A value whose labels are those that the column has already."""
        if isinstance(value, str | Link):
            if len(self._labels) < MAX_SHARED:
                return self._labels.setdefault(value, value)
            return self._labels.get(value, value)
        return type(value)(map(self._once, value)) if isinstance(value, COLLECTIONS) else value

    @property
    def nodes(self) -> NDArray[np.int32]:
        """The nodes that have a value, ascending."""
        if self._sorted_nodes is None:
            nodes = np.array(self._nodes, np.int32)
            if (nodes[1:] <= nodes[:-1]).any():
                order = nodes.argsort(kind="stable")
                nodes = nodes[order]
                latest = np.append(nodes[1:] != nodes[:-1], True)  # of the values of a node
                nodes = nodes[latest]
                values = [self._values[place] for place in order[latest].tolist()]
                self._values = array(self._values.typecode, values) if isinstance(self._values, array) else values
                self._nodes = array("i", nodes.tolist())
            self._sorted_nodes = nodes
        return self._sorted_nodes

    def values(self, nodes: NDArray[np.integer[Any]]) -> Sequence[Any]:
        """The values of some nodes, which have one."""
        places = np.searchsorted(self.nodes, nodes.astype(np.int32))  # first, as it may sort the values
        return self._decoded([self._values[place] for place in places.tolist()])


class Graph:
    """The links among entities, and known values of each. Without links nobody asks for values, and none are kept."""

    def __init__(self, schema: Schema, kept: Collection[Path] | None = None) -> None:
        """`kept` are the paths whose values are kept; None: all. Links are kept in any case."""
        self.schema, self._kept = schema, kept
        self.linking = {name: linking(entity_class.leaves()) for name, entity_class in schema.classes.items()}
        self._has_links = has_links(schema)
        self._class_numbers = {name: number for number, name in enumerate(schema.classes)}
        self._nodes = Nodes()
        self._columns: dict[Path, Column] = {}
        self._paths: dict[Path, int] = {}  # of links
        self._source, self._path, self._target = array("i"), array("i"), array("i")  # of each link
        self._arrays: LinkArrays | None = None

    @classmethod
    def read(cls, schema: Schema, entities: Iterable[Entity | Reading], kept: Collection[Path] | None = None) -> Self:
        """The graph of some entities, without those that the schema has no class for. `kept` are the paths whose values are kept."""
        graph = cls(schema, kept)
        graph.add_all(entities)
        return graph

    def add_all(self, entities: Iterable[Entity | Reading]) -> None:
        """Add entities, without those that the schema has no class for."""
        for reading in read_all(self.schema, entities):
            self.add(reading.id, reading.class_name, reading.leaves)

    def add(self, id: str, class_name: str, leaves: Mapping[Path, Any]) -> None:
        """Add an entity. Of several values of one id at a path the latest stands; all links do."""
        self._arrays = None
        node = self._nodes.number(id)
        self._nodes.class_of[node] = self._class_numbers[class_name]
        if not self._has_links:
            return
        paths = self.linking[class_name]
        for path, value in leaves.items():
            is_link = path in paths or pattern(path) in paths
            if self._kept is None or path in self._kept:
                column = self._columns.get(path)
                if column is None:
                    column = self._columns[path] = Column(self._nodes)
                column.append(node, value, is_link=is_link)
            if is_link:
                number = self._paths.setdefault(path, len(self._paths))
                for target in targets(value):
                    self._source.append(node)
                    self._path.append(number)
                    self._target.append(self._nodes.number(target))

    @property
    def size(self) -> int:
        """The number of nodes."""
        return len(self._nodes.names)

    def values(self, nodes: NDArray[np.integer[Any]], path: Path) -> Sequence[Any]:
        """The values at a path of some nodes, which have one."""
        return self._columns[path].values(nodes)

    def holders(self, wanted: Collection[Path] | None = None) -> dict[str, dict[Path, NDArray[np.int32]]]:
        """By class and path the nodes that have a value there, ascending; of all paths, or of those that are wanted."""
        classes, class_of = list(self._class_numbers), np.array(self._nodes.class_of, np.int64)
        holders: dict[str, dict[Path, NDArray[np.int32]]] = {name: {} for name in classes}
        for path, column in self._columns.items():
            if wanted is not None and path not in wanted:
                continue
            nodes = column.nodes
            for number, places in grouped(class_of[nodes]):
                holders[classes[number]][path] = nodes[places]
        return holders

    def arrays(self) -> LinkArrays:
        """Its links between different nodes, and its finite numbers outside of lists, as arrays."""
        if self._arrays is None:
            self._arrays = self._read_arrays()
        return self._arrays

    def _read_arrays(self) -> LinkArrays:
        ids, classes, paths = self._nodes.numbers, tuple(self.schema.classes), max(len(self._paths), 1)
        class_of = np.array(self._nodes.class_of, np.int64)
        source, path, target = self._distinct_links()
        relation, relations = _relations(source, target, class_of[source] * paths + path, list(self._paths), classes)
        is_edge = source != target
        size, count = max(len(relations), 1), max(len(ids), 1)
        edges = np.unique((source * size + relation)[is_edge] * count + target[is_edge])
        head, relation_of, tail = edges // count // size, edges // count % size, edges % count
        order = np.concatenate([head, tail]).argsort(kind="stable")
        heads, tails = np.concatenate([head, tail])[order], np.concatenate([tail, head])[order]
        return LinkArrays(
            ids=ids,
            names=self._nodes.names.copy(),
            classes=classes,
            class_of=class_of,
            paths=self._paths,
            source=source.astype(np.int32),
            path=path.astype(np.int32),
            target=target.astype(np.int32),
            relation_of_link=relation.astype(np.int32),
            relations=relations,
            head=heads.astype(np.int32),
            relation=np.concatenate([relation_of, relation_of])[order].astype(np.int32),
            backwards=order >= len(head),
            tail=tails.astype(np.int32),
            offsets=np.searchsorted(heads, np.arange(len(ids) + 1)),
            draw=np.array([hash_id(id) for id in ids], np.int64),
            numbers=self._read_numbers(),
        )

    def _distinct_links(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The source, path and target of each link, once, by their sources in the order in which they were added."""
        source, path, target = (np.array(column, np.int64) for column in (self._source, self._path, self._target))
        keys = (source * max(len(self._paths), 1) + path) * max(self.size, 1) + target
        first = np.sort(np.unique(keys, return_index=True)[1])
        order = first[source[first].argsort(kind="stable")]
        return source[order], path[order], target[order]

    def _read_numbers(self) -> dict[tuple[str, Path], tuple[NDArray[np.int32], NDArray[np.float64]]]:
        numbers, holders = {}, self.holders()
        for name, entity_class in self.schema.classes.items():
            for path, leaf in entity_class.leaves().items():
                nodes = holders[name].get(path)
                if nodes is None or not isinstance(leaf, Number) or without_places(path) != path:
                    continue
                values = np.array(self.values(nodes, path), np.float64)
                is_small = np.abs(values) < MAX_NUMBER
                if is_small.any():
                    numbers[name, path] = nodes[is_small], values[is_small]
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


def _relations(
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    keys: NDArray[np.int64],
    paths: Sequence[Path],
    classes: Sequence[str],
) -> tuple[NDArray[np.int64], tuple[tuple[str, Path], ...]]:
    """The relation of each link, and the class and pattern of each relation, in the order in which the nodes have their links.

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


def pattern(path: Path) -> Path:
    """A path with EACH in the place of its places in lists."""
    for key in path:
        if type(key) is int:
            return tuple(EACH if type(key) is int else key for key in path)
    return path


def linking(leaves: Mapping[Path, Any]) -> set[Path]:
    """The paths of leaves that are links or sets of links."""
    return {path for path, leaf in leaves.items() if isinstance(leaf.of if isinstance(leaf, Set) else leaf, LinkLeaf)}


def has_links(schema: Schema) -> bool:
    """Whether a class has links."""
    return any(linking(entity_class.leaves()) for entity_class in schema.classes.values())


def targets(value: Any) -> list[str]:
    """The ids that a link, or a set of links, leads to."""
    links = value if isinstance(value, COLLECTIONS) else (value,)
    return [link.id if isinstance(link, Link) else link for link in links]
