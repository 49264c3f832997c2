"""Quads to trees: one for every subject, before blank nodes are folded into their owners.

    {key: value}    values as in an entity; IRIs and blank nodes are Links, several values a Several

Metadata of a tree stands under "@id" (of a blank node), "@type" (its classes), "@first" and "@rest" (of a
collection).

`add` is the hot loop of all RDF reading: what is rare is done out of it.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import pyoxigraph

from kbdisk.entity import Link, Text, Tree
from kbdisk.loaders.kb import Oddities
from kbdisk.loaders.rdf.blank_nodes import BlankNodes, blank_nodes
from kbdisk.loaders.rdf.nodes import Node
from kbdisk.loaders.rdf.terms import (
    CHAIN,
    CONVERTERS,
    NAMED,
    NIL,
    OURS,
    PART,
    STRING,
    THING,
    TYPE,
    WIKIBASE,
    Names,
    id_of_iri,
    language_of,
)
from kbdisk.loaders.rdf.value_nodes import BY_CLASS, BY_PREDICATE


class Several(list[Any]):
    """The values of a property that has more than one; a plain list is a collection."""


MANY_CLASSES = 20  # of a subject

Mention: TypeAlias = tuple[str, str, str]  # owner, key, blank node


class Trees:
    """The trees of a stretch of quads, in the order in which their subjects came."""

    def __init__(
        self, name: str, odd: Oddities, names: Names, blanks: BlankNodes | None = None, has_graphs: bool = True
    ) -> None:
        self.name = name
        self.odd = odd
        self.names = names
        self.blanks = blanks or BlankNodes()
        self.has_graphs = has_graphs
        self.trees: dict[str, Tree] = {}
        self.graphs: dict[str, str] = {}  # subject -> the named graph its first quad stands in
        self.several: set[str] = set()  # subjects with a Several among their values
        self.mentions: list[Mention] = []
        self.quoted: set[str] = set()  # blank nodes within triple terms
        self.composite: set[str] = set()  # subjects that may be a quantity, a date or a coordinate as a whole
        self.chained: set[str] = set()  # subjects that may be links of a collection
        self.wikibase = False
        self.is_named = False  # whether a quad stands in a named graph
        self._links = _Links()
        self._classes: dict[Any, str] = {}
        self._class_sets: dict[str, set[str]] = {}  # those of subjects that have many
        self._quads: Iterable[Any] = ()

    def add(self, quads: Iterable[Any]) -> None:
        """Take in quads."""
        keys, convert, links = self.names.keys, CONVERTERS.__getitem__, self._links
        trees, blank_ids, blank_id = self.trees, self.blanks.ids, self.blanks.id
        literal, named, blank = pyoxigraph.Literal, pyoxigraph.NamedNode, pyoxigraph.BlankNode
        mentions = self.mentions
        unnamed, default = self.has_graphs and not self.is_named, pyoxigraph.DefaultGraph
        self._quads = quads
        last: Any = None
        tree: Tree = {}
        id = ""
        for quad in quads:
            if unnamed and type(quad.graph_name) is not default:
                unnamed, self.is_named = False, True
            subject = quad.subject
            if subject != last:
                last = subject
                id = subject.value
                if type(subject) is not named:
                    id = blank_ids.get(id) or blank_id(id)
                elif id[:11] == OURS:
                    id = id_of_iri(id)
                found = trees.get(id)
                tree = self._new_tree(id, quad) if found is None else found
            object = quad.object
            kind = type(object)
            predicate = quad.predicate.value
            key = keys.get(predicate)
            if key is None:
                key = self._unusual(predicate, object, id, tree)
                if key is None:
                    continue
            if kind is literal:
                datatype = object.datatype.value
                if datatype == STRING:
                    value = object.value
                else:
                    read = convert(datatype)
                    try:
                        value = read(object.value) if read is not None else self._other_literal(object)
                    except ValueError as error:
                        value = self._odd_literal(object, id, error)
            elif kind is named:
                value = links[object.value]
            elif kind is blank:
                raw = object.value
                other = blank_ids.get(raw) or blank_id(raw)
                mentions.append((id, key, other))
                value = Link(other)
            else:
                value = self._triple(object, id)
            if key not in tree:
                tree[key] = value
            elif type(before := tree[key]) is Several:
                before.append(value)
            else:
                tree[key] = Several((before, value))
                self.several.add(id)

    def node(self, id: str) -> Node | None:
        """A tree by its predicates' IRIs, each with a list of values."""
        tree = self.trees.get(id)
        if tree is None:
            return None
        iris = self.names.iris
        node: Node = {TYPE: [Link(name) for name in tree["@type"]]} if "@type" in tree else {}
        for key, value in tree.items():
            if key in iris:
                node[iris[key]] = list(value) if type(value) is Several else [value]
        return node

    def _new_tree(self, id: str, quad: Any) -> Tree:
        tree: Tree = {"@id": id} if type(quad.subject) is pyoxigraph.BlankNode else {}
        self.trees[id] = tree
        if self.has_graphs:
            graph = quad.graph_name
            if type(graph) is not pyoxigraph.DefaultGraph:
                self.graphs[id] = graph.value if type(graph) is pyoxigraph.NamedNode else self.blanks.graph(graph.value)
        return tree

    def _typed(self, id: str, classes: list[str]) -> set[str]:
        """The classes of a subject that has many; a list of them would be searched as often as it is long."""
        if id not in self._class_sets:
            self._class_sets[id] = set(classes)
        self._class_sets[id].add(classes[-1])
        return self._class_sets[id]

    def _unusual(self, predicate: str, object: Any, id: str, tree: Tree) -> str | None:
        """The key of a predicate that is met first, or that means something; None where there is nothing to put."""
        if predicate == TYPE:
            name = self._classes.get(object) or self._class(object, id)
            classes = tree.setdefault("@type", [])
            if name and name not in (classes if len(classes) < MANY_CLASSES else self._typed(id, classes)):
                classes.append(name)
            if name in BY_CLASS:
                self.composite.add(id)
            return None
        if predicate in BY_PREDICATE:
            self.composite.add(id)
            return self.names.special(predicate)
        if predicate in CHAIN:
            self.chained.add(id)
            return self.names.special(predicate)
        if predicate.startswith(WIKIBASE) or "/prop/direct/P" in predicate:
            self.wikibase = True
            return self.names.special(predicate)
        self.names.prefixes = getattr(self._quads, "prefixes", {})
        return self.names.key(predicate)

    def _class(self, object: Any, subject: str) -> str:
        """The name of a class that is met first; a blank node or a literal names none."""
        name = ""
        if type(object) is pyoxigraph.NamedNode:
            name = self._classes[object] = "" if object.value == THING else id_of_iri(object.value)
            self.wikibase = self.wikibase or (name.startswith(WIKIBASE) and name not in BY_CLASS)
        else:
            self.odd.note("a class that is no IRI, left out", f"{self.name}: {subject}: {self._shown(object)}")
        return name

    def _other_literal(self, literal: Any) -> Any:
        language = language_of(literal)
        return literal.value if language is None else Text(literal.value, language)

    def _odd_literal(self, literal: Any, subject: str, error: ValueError) -> str:
        datatype = literal.datatype.value
        kind = datatype[max(datatype.rfind("#"), datatype.rfind("/")) + 1 :]
        told = "infinite" if literal.value.lstrip("+-") == "INF" else f"no {kind}"
        self.odd.note(f"a value that is {told}, kept as text", f"{self.name}: {subject}: {error}")
        return str(literal.value)

    def _triple(self, object: Any, subject: str) -> str:
        self.odd.note("a triple within a triple, kept as text", f"{self.name}: {subject}")
        return self._shown(object)

    def _shown(self, term: Any) -> str:
        """A term as text; the blank nodes in it are numbered, as all others, and stay entities of their own."""
        if type(term) is pyoxigraph.Triple:
            self.quoted.update(self.blanks.id(node.value) for node in blank_nodes(term))
        return self.blanks.shown(term)


class _Links(dict[str, Any]):
    """What IRIs mean: most are links, and many are met often."""

    def __missing__(self, iri: str) -> Any:
        if iri == NIL:
            value: Any = []
        elif iri.startswith(OURS):
            value = {} if iri == PART else NAMED[iri] if iri in NAMED else Link(id_of_iri(iri))
        else:
            value = self[iri] = Link(iri)
        return value


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Trees hold no circles: to look for some again and again while they grow would take a third of the time.

    What was made meanwhile counts as old afterwards, so that it is not looked through at once.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            if gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()
            gc.enable()
