"""Nodes to entities: blank nodes and value nodes fold into their owner's tree.

A blank node that one value points to becomes a part of that value's owner. One that nobody points to, that
several values share, that stands on a circle of blank nodes or lies very deep is an entity of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

from kbdisk.entity import SOMEVALUE, Entity, Link, Text
from kbdisk.loaders.rdf import composites
from kbdisk.loaders.rdf.names import Names
from kbdisk.loaders.rdf.nodes import Node
from kbdisk.loaders.rdf.vocabulary import FIRST, LABELS, LATITUDE, LIST, LONGITUDE, NIL, REST, SUBCLASS, TYPE

DEEP = 50  # levels of nesting; deeper blank nodes are entities of their own
PLACE = "coordinate"  # the key of a pair of geo:lat and geo:long


class Folder:
    """Folds the nodes of one stretch of a source into entities."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        bearing: Container[str],
        names: Names,
        language: str,
        shared: Callable[[str], bool] = lambda id: False,
    ) -> None:
        self.nodes = nodes
        self.bearing = bearing
        self.names = names
        self.language = language
        self.composites = _composites(nodes)
        self.parts = self._parts(shared)

    def entities(self) -> Iterator[Entity]:
        """Every node that is a thing of its own, in order."""
        for id, node in self.nodes.items():
            if id not in self.parts and id not in self.composites:
                yield self.entity(id, node)

    def entity(self, id: str, node: Node) -> Entity:
        """One node with all that folds into it."""
        return Entity(id, self._tree(node, 0, id in self.bearing), tuple(_classes(node)), self._label(node))

    def _tree(self, node: Node, depth: int, bearing: bool) -> dict[str, Any]:
        key = self.names.keys.get
        named = self.names.key
        fold = bearing or bool(self.composites)
        tree: dict[str, Any] = {}
        for predicate, values in node.items():
            if predicate == TYPE:
                continue
            if len(values) > 1:
                values = distinct(values)
            if fold:
                values = [self._folded(value, depth) if type(value) is Link else value for value in values]
            tree[key(predicate) or named(predicate)] = values[0] if len(values) == 1 else values
        if LATITUDE in node and LONGITUDE in node:
            self._pair(node, tree)
        return tree

    def _pair(self, node: Node, tree: dict[str, Any]) -> None:
        """geo:lat and geo:long of one thing are one coordinate."""
        place = composites.recognise_pair(node)
        if place is not None and PLACE not in tree:
            del tree[self.names.key(LATITUDE)], tree[self.names.key(LONGITUDE)]
            tree[PLACE] = place

    def _folded(self, link: Link, depth: int) -> Any:
        id = link.id
        if id == NIL:
            return []
        known = self.composites.get(id)
        if known is not None:
            return known
        if id not in self.parts:
            return SOMEVALUE if id.startswith("_:") and id not in self.nodes and not self.shared(id) else link
        node = self.nodes[id]
        if FIRST in node:
            return [self._folded(value, depth + 1) if type(value) is Link else value for value in self._items(id)]
        return self._part(id, node, depth + 1)

    def _part(self, id: str, node: Node, depth: int) -> dict[str, Any]:
        part: dict[str, Any] = {"@id": id}
        if classes := _classes(node):
            part["@type"] = classes
        part.update(self._tree(node, depth, id in self.bearing))
        return part

    def _items(self, id: str) -> list[Any]:
        """The members of a well-formed collection."""
        items = []
        while id != NIL:
            node = self.nodes[id]
            items.append(node[FIRST][0])
            id = node[REST][0].id
        return items

    def _label(self, node: Node) -> str:
        """The name in the wanted language, else in none, else in whichever comes first."""
        for predicate in LABELS:
            values = node.get(predicate)
            if values:
                by_language = {value.language if type(value) is Text else "": value for value in reversed(values)}
                best = by_language.get(self.language) or by_language.get("") or by_language.get("mul") or values[0]
                return best.text if type(best) is Text else best if type(best) is str else ""
        return ""

    # ------------------------------------------------------------ which blank nodes are parts

    def _parts(self, shared: Callable[[str], bool]) -> set[str]:
        owner: dict[str, str] = {}
        several: set[str] = set()
        for subject in self.nodes:
            if subject in self.bearing:
                for id in self._blanks(self.nodes[subject]):
                    if id in owner:
                        several.add(id)
                    owner[id] = subject
        self.shared = lambda id: id in several or shared(id)
        depth = dict.fromkeys(several, 0)
        for id in owner:
            self._measure(id, owner, depth)
        parts = {id for id, level in depth.items() if level and id in self.nodes and not self.shared(id)}
        self._check_lists(parts, owner)
        return parts

    def _blanks(self, node: Node) -> Iterator[str]:
        for predicate, values in node.items():
            if predicate != TYPE:
                for value in values if len(values) == 1 else distinct(values):
                    if type(value) is Link and value.id.startswith("_:"):
                        yield value.id

    def _measure(self, id: str, owner: Mapping[str, str], depth: dict[str, int]) -> None:
        """How far below an entity a blank node lies; 0 where it is an entity itself (shared, on a circle, deep)."""
        way: list[str] = []
        seen: set[str] = set()
        here = id
        while here in owner and here not in depth and here not in seen:
            way.append(here)
            seen.add(here)
            here = owner[here]
        if here in seen:  # a circle: all of it are entities
            circle = way[way.index(here) :]
            depth.update(dict.fromkeys(circle, 0))
            del way[way.index(here) :]
        level = depth.get(here, 0)
        for node in reversed(way):
            in_list = REST in self.nodes.get(owner[node], ()) and FIRST in self.nodes.get(node, ())
            level = level if in_list and level else level + 1
            if level > DEEP:
                level = 0
            depth[node] = level

    def _check_lists(self, parts: set[str], owner: Mapping[str, str]) -> None:
        """A collection that is not well-formed stays a chain of entities."""
        heads = [id for id in parts if FIRST in self.nodes[id] and REST not in self.nodes.get(owner[id], ())]
        for head in heads:
            chain = [head]
            while (following := _rest(self.nodes[chain[-1]])) is not None and following != NIL and following in parts:
                chain.append(following)
            if following != NIL:
                parts.difference_update(chain)


def _rest(node: Node) -> str | None:
    """Where a collection goes on, if this is a proper link of one."""
    proper = len(node.get(FIRST, ())) == 1 and len(node.get(REST, ())) == 1
    proper = proper and all(predicate in (FIRST, REST, TYPE) for predicate in node)
    proper = proper and all(value == Link(LIST) for value in node.get(TYPE, ()))
    following = node[REST][0] if proper else None
    return following.id if type(following) is Link else None


def _composites(nodes: Mapping[str, Node]) -> dict[str, Any]:
    """The nodes that are a quantity, a date or a coordinate as a whole, and that some other node points to."""
    found = {id: value for id, node in nodes.items() if (value := composites.recognise(id, node, nodes.get)) is not None}
    if found:
        links = (value.id for node in nodes.values() for values in node.values() for value in values if type(value) is Link)
        mentioned = {id for id in links if id in found}
        found = {id: value for id, value in found.items() if id in mentioned}
    return found


def _classes(node: Node) -> list[str]:
    return [value.id for value in node.get(TYPE, ()) if type(value) is Link and not value.id.startswith("_:")]


def distinct(values: list[Any]) -> list[Any]:
    """Each value once, in order: a set of triples says nothing twice."""
    try:
        return list(dict.fromkeys(values))
    except TypeError:  # an interval is a part, and parts have no hash
        return [value for i, value in enumerate(values) if value not in values[:i]]


def superclasses(node: Node) -> set[str]:
    """What a class is declared a subclass of."""
    return {value.id for value in node.get(SUBCLASS, ()) if type(value) is Link}
