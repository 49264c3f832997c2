"""Quads to trees, one for every subject, and trees to entities: blank nodes and value nodes fold into their owner.

    {key: value}    values as in an entity; IRIs and blank nodes are Links, several values a Several

Metadata of a tree stand under "@id" (of a blank node), "@type" (its classes), "@first" and "@rest" (of a collection).

A blank node that one value points to becomes a part of that value's owner. A blank node is a separate entity where no value
points to it, several values do, a triple term mentions it, or it is on a circle of blank nodes or nested very deep.

`Trees.add` is the hot loop of all RDF reading: rare cases are handled outside of it.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import pyoxigraph

from kbdisk.entity import SOMEVALUE, Entity, Link, Text, Tree
from kbdisk.loaders.kb import Oddities
from kbdisk.loaders.rdf.blank_nodes import BlankNodes, blank_nodes
from kbdisk.loaders.rdf.terms import (
    CHAIN,
    CONVERTERS,
    LABELS,
    LATITUDE,
    LIST,
    LONGITUDE,
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
from kbdisk.loaders.rdf.value_nodes import BY_CLASS, BY_PREDICATE, recognise, recognise_pair

Node: TypeAlias = dict[str, list[Any]]  # values as in an entity's tree; IRIs and blank nodes are Links


# ---------------------------------------------------------------- quads to trees


class Several(list[Any]):
    """The values of a property that has more than one; a plain list is a collection."""


MAX_CLASSES_IN_LIST = 20  # of a subject

Mention: TypeAlias = tuple[str, str, str]  # owner, key, blank node


class Trees:
    """The trees of some quads, in the order of the first appearance of their subjects."""

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
        self.composite: set[str] = set()  # subjects that may be a value node: a quantity, a date or a coordinate
        self.chained: set[str] = set()  # subjects that may be links of a collection
        self.wikibase = False
        self.is_named = False  # whether a quad stands in a named graph
        self._links = _ValuesOfIris()
        self._classes: dict[Any, str] = {}
        self._class_sets: dict[str, set[str]] = {}  # for subjects with many classes
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
                known = trees.get(id)
                tree = self._new_tree(id, quad) if known is None else known
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

    def _class_set(self, id: str, classes: list[str]) -> set[str]:
        """The set of classes of a subject that has many, as a list of them would be searched for each."""
        if id not in self._class_sets:
            self._class_sets[id] = set(classes)
        self._class_sets[id].add(classes[-1])
        return self._class_sets[id]

    def _unusual(self, predicate: str, object: Any, id: str, tree: Tree) -> str | None:
        """The key of a predicate that is new or has a meaning here; None where its value is no property."""
        if predicate == TYPE:
            name = self._classes.get(object) or self._class(object, id)
            classes = tree.setdefault("@type", [])
            if name and name not in (classes if len(classes) < MAX_CLASSES_IN_LIST else self._class_set(id, classes)):
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
        """The name of a new class; an empty string for a blank node or a literal."""
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
        adjective = "infinite" if literal.value.lstrip("+-") == "INF" else f"no {kind}"
        self.odd.note(f"a value that is {adjective}, kept as text", f"{self.name}: {subject}: {error}")
        return str(literal.value)

    def _triple(self, object: Any, subject: str) -> str:
        self.odd.note("a triple within a triple, kept as text", f"{self.name}: {subject}")
        return self._shown(object)

    def _shown(self, term: Any) -> str:
        """A term as text; the blank nodes in it are numbered, as all others, and stay separate entities."""
        if type(term) is pyoxigraph.Triple:
            self.quoted.update(self.blanks.id(node.value) for node in blank_nodes(term))
        return self.blanks.shown(term)


class _ValuesOfIris(dict[str, Any]):
    """A cache of the values of IRIs: most are links, and many occur often."""

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
    """Switch garbage collection off: trees hold no circles, and looking for some would take a third of the time.

    Objects that were made meanwhile count as old afterwards, so that they are not searched at once.
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


# ---------------------------------------------------------------- trees to entities


MAX_FOLD_DEPTH = 200  # levels of nesting; deeper blank nodes are entities of their own
COORDINATE_KEY = "coordinate"  # the key of a pair of geo:lat and geo:long
SHARED_WITH_NONE: Callable[[str], bool] = frozenset[str]().__contains__


def entities_of(trees: Trees, language: str, shared: Callable[[str], bool] = SHARED_WITH_NONE) -> Iterator[Entity]:
    """Every tree that is an entity, with the trees that fold into it.

    `shared` says which blank nodes are pointed to from elsewhere, too. The trees are used up.
    """
    folded = fold(trees, shared)
    labels = [key for key in map(trees.names.known, LABELS) if key]
    pair = trees.names.known(LATITUDE), trees.names.known(LONGITUDE)
    finish = bool(trees.graphs) or all(pair)
    for id, tree in trees.trees.items():
        if id in folded:
            continue
        classes = tuple(tree.pop("@type")) if "@type" in tree else ()
        if "@id" in tree:
            del tree["@id"]
        names = [tree[key] for key in labels if key in tree]
        label = label_of(names, language) if names else ""
        if finish:
            _fold_coordinate(trees, id, tree, *pair)
        yield Entity(id, tree, classes, label, trees.graphs.get(id, "") if finish else "")


def fold(trees: Trees, shared: Callable[[str], bool] = SHARED_WITH_NONE) -> set[str]:
    """Fold trees into their owners, in place; returns the ids that are now part of others."""
    for id in trees.several:
        _settle_several(trees.trees[id])
    folded = _fold_composites(trees)
    if trees.mentions:
        mentions = [mention for mention in trees.mentions if mention[2] not in folded] if folded else trees.mentions
        folded |= _fold_blanks(trees, mentions, shared)
    for id in trees.several:
        _settle_plain(trees.trees[id])
    for id in trees.chained:
        if id not in folded or "@first" not in trees.trees[id]:
            _settle_chain(trees.trees[id])
    return folded


def label_of(names: list[Any], language: str) -> str:
    """The first label in the wanted language, else in a variant of it, else in none, else in any."""
    if len(names) == 1 and type(names[0]) is str:
        return names[0]
    known = [
        label for name in names for label in (name if isinstance(name, list) else [name]) if type(label) in (Text, str)
    ]
    best = min(known, key=lambda label: _distance(label, language.lower()), default="")
    return best.text if type(best) is Text else str(best)


def _distance(name: Text | str, language: str) -> int:
    """The distance of a label's language from the wanted one."""
    tag = name.language.lower() if isinstance(name, Text) else ""
    if tag == language or not tag:
        return 0 if tag else 2
    return 1 if tag.partition("-")[0] == language.partition("-")[0] else 3 if tag == "mul" else 4


def distinct(values: list[Any]) -> list[Any]:
    """Each value once, in order, as triples are a set. True, 1 and 1.0 are three values."""
    try:
        return list({(type(value), value): value for value in values}.values())
    except TypeError:  # an interval is a part, and parts have no hash
        return [value for i, value in enumerate(values) if value not in values[:i]]


def _settle_several(tree: Tree) -> None:
    for key, values in tree.items():
        if type(values) is Several:
            distinct_values = distinct(values)
            distinct_values = [
                value for value in distinct_values if value is not None
            ] or distinct_values  # a gap that has a value now
            tree[key] = Several(distinct_values) if len(distinct_values) > 1 else distinct_values[0]


def _settle_plain(tree: Tree) -> None:
    for key, value in tree.items():
        if type(value) is Several:
            tree[key] = list(value)


def _settle_chain(tree: Tree) -> None:
    """rdf:first and rdf:rest of a collection that is not well-formed are ordinary properties."""
    items = [("rdf:" + key[1:] if key in ("@first", "@rest") else key, value) for key, value in tree.items()]
    tree.clear()
    tree.update(items)


def _fold_coordinate(trees: Trees, id: str, tree: Tree, latitude: str | None, longitude: str | None) -> None:
    """Fold geo:lat and geo:long of one subject to a coordinate."""
    if latitude in tree and longitude in tree and COORDINATE_KEY not in tree:
        place = recognise_pair(trees.node(id) or {})
        if place is not None:
            del tree[latitude], tree[longitude]
            tree[COORDINATE_KEY] = place


# ---------------------------------------------------------------- value nodes


def _fold_composites(trees: Trees) -> set[str]:
    """Put quantities, dates and coordinates in the place of their value nodes."""
    if not trees.composite:
        return set()
    values: dict[str, Any] = {}
    for id in trees.composite:
        node = trees.node(id)
        value = recognise(id, node, trees.node) if node is not None else None
        if value is not None:
            values[id] = value
    used: set[str] = set()
    for owner, tree in trees.trees.items():
        for key, value in tree.items():
            if type(value) is Link and value.id in values and value.id != owner:
                used.add(value.id)
                tree[key] = values[value.id]
            elif type(value) is Several:
                used.update(_replace_each(value, values))
    return used


def _replace_each(values: Several, replacements: dict[str, Any]) -> Iterator[str]:
    for i, value in enumerate(values):
        if type(value) is Link and value.id in replacements:
            values[i] = replacements[value.id]
            yield value.id


# ---------------------------------------------------------------- blank nodes

Places: TypeAlias = dict[int, dict[str, int]]  # id() of a Several -> link -> its index


def _fold_blanks(all_trees: Trees, mentions: list[Mention], shared: Callable[[str], bool]) -> set[str]:
    trees = all_trees.trees
    alone: dict[str, Mention] = {}
    several: set[str] = set()
    for mention in mentions:
        before = alone.setdefault(mention[2], mention)
        if before is not mention and before != mention:
            several.add(mention[2])
    for blank in several:
        del alone[blank]
    for blank in all_trees.quoted & alone.keys():
        del alone[blank]
    if shared is not SHARED_WITH_NONE:
        alone = {blank: mention for blank, mention in alone.items() if not shared(blank)}
    parts = _parts_of_entities(alone, trees)
    lists: set[str] = set()
    places: Places = {}
    for blank, (owner, key, _) in alone.items():
        if blank not in parts:
            if blank not in trees:
                _put_value(trees[owner], key, blank, SOMEVALUE, places)
            continue
        tree = trees[blank]
        if "@first" in tree:
            lists.add(blank)
        else:
            _put_value(trees[owner], key, blank, tree, places)
    return parts - _fold_lists(trees, alone, lists, places) if lists else parts


def _parts_of_entities(alone: dict[str, Mention], trees: dict[str, Tree]) -> set[str]:
    """The blank nodes that belong to one owner, are on no circle and not nested too deep."""
    parts = {blank for blank, mention in alone.items() if mention[0] not in alone and blank in trees}
    depth = dict.fromkeys(parts, 1)
    for blank in alone:
        if blank not in depth:
            _measure_depth(blank, alone, depth)
    return {blank for blank, level in depth.items() if level and blank in trees} if len(depth) > len(parts) else parts


def _measure_depth(blank: str, alone: dict[str, Mention], depth: dict[str, int]) -> None:
    """Note how many levels below an entity a blank node is; 0 where it is an entity itself."""
    way: list[str] = []
    node = blank
    while node in alone and node not in depth:
        depth[node] = -1  # on the way
        way.append(node)
        node = alone[node][0]
    if depth.get(node) == -1:  # a circle: all of it are entities
        at = way.index(node)
        depth.update(dict.fromkeys(way[at:], 0))
        del way[at:]
    level = depth.get(node, 0)
    for node in reversed(way):
        along = alone[node][1] == "@rest"
        level = level if along and level else level + 1
        depth[node] = level = level if level <= MAX_FOLD_DEPTH else 0


def _put_value(tree: Tree, key: str, blank: str, value: Any, places: Places) -> None:
    """Put a value in the place of a link to a blank node."""
    before = tree[key]
    if type(before) is Several:
        place = places.get(id(before))
        if place is None:
            place = places[id(before)] = {}
            for i, link in enumerate(before):
                if type(link) is Link:
                    place.setdefault(link.id, i)
        before[place[blank]] = value
    else:
        tree[key] = value


def _fold_lists(trees: dict[str, Tree], alone: dict[str, Mention], lists: set[str], places: Places) -> set[str]:
    """Fold well-formed collections to lists; returns the blank nodes of the others, which stay entities."""
    unfolded = set(lists)
    ready = []
    for head in lists:
        if alone[head][1] != "@rest":
            chain = _chain_of(trees, head, lists)
            if chain:
                unfolded.difference_update(chain)
                ready.append((head, [trees[link]["@first"] for link in chain]))
    made, folded = dict(ready), lists - unfolded
    for head, items in ready:
        for i, item in enumerate(items):
            if type(item) is Link and item.id in made:
                items[i] = made[item.id]
        owner, key, _ = alone[head]
        if key != "@first" or owner not in folded:
            _put_value(trees[owner], key, head, items, places)
    return unfolded


def _chain_of(trees: dict[str, Tree], head: str, lists: set[str]) -> list[str]:
    """The blank nodes of a collection in order; none where it is not well-formed."""
    chain: list[str] = []
    following: Any = Link(head)
    while following != []:
        link = following.id
        tree = trees.get(link, {})
        following = tree.get("@rest")
        known = all(key in ("@id", "@first", "@rest", "@type") for key in tree) and tree.get("@type", [LIST]) == [LIST]
        proper = type(following) is Link or following == []
        if link not in lists or not known or not proper or type(tree["@first"]) is Several:
            return []
        chain.append(link)
    return chain
