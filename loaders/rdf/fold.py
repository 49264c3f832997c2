"""Trees to entities: blank nodes and value nodes fold into their owner's tree.

A blank node that one value points to becomes a part of that value's owner. One that nobody points to, that
several values share, that a triple term speaks of, that stands on a circle of blank nodes or lies very deep is an entity
of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from kbdisk.entity import SOMEVALUE, Entity, Link, Text, Tree
from kbdisk.loaders.rdf.terms import LABELS, LATITUDE, LIST, LONGITUDE
from kbdisk.loaders.rdf.trees import Mention, Several, Trees
from kbdisk.loaders.rdf.value_nodes import recognise, recognise_pair

DEEP = 200  # levels of nesting; deeper blank nodes are entities of their own
PLACE = "coordinate"  # the key of a pair of geo:lat and geo:long
OUTSIDE: Callable[[str], bool] = frozenset[str]().__contains__


def entities(trees: Trees, language: str, shared: Callable[[str], bool] = OUTSIDE) -> Iterator[Entity]:
    """Every tree that is a thing of its own, with what folds into it.

    `shared` knows of blank nodes that are pointed to from elsewhere, too. The trees are used up.
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
            _pair(trees, id, tree, *pair)
        yield Entity(id, tree, classes, label, trees.graphs.get(id, "") if finish else "")


def fold(trees: Trees, shared: Callable[[str], bool] = OUTSIDE) -> set[str]:
    """Fold what folds, in place; returns the ids that are now part of others."""
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
    """The first name in the wanted language, else in one like it, else in none, else in any."""
    if len(names) == 1 and type(names[0]) is str:
        return names[0]
    known = [one for name in names for one in (name if isinstance(name, list) else [name]) if type(one) in (Text, str)]
    best = min(known, key=lambda one: _distance(one, language.lower()), default="")
    return best.text if type(best) is Text else str(best)


def _distance(name: Text | str, wanted: str) -> int:
    """How far the language of a name is from the wanted one."""
    tag = name.language.lower() if isinstance(name, Text) else ""
    if tag == wanted or not tag:
        return 0 if tag else 2
    return 1 if tag.partition("-")[0] == wanted.partition("-")[0] else 3 if tag == "mul" else 4


def distinct(values: list[Any]) -> list[Any]:
    """Each value once, in order: a set of triples says nothing twice. True, 1 and 1.0 are three."""
    try:
        return list({(type(value), value): value for value in values}.values())
    except TypeError:  # an interval is a part, and parts have no hash
        return [value for i, value in enumerate(values) if value not in values[:i]]


def _settle_several(tree: Tree) -> None:
    for key, value in tree.items():
        if type(value) is Several:
            once = distinct(value)
            once = [one for one in once if one is not None] or once  # what was asked for is there now
            tree[key] = Several(once) if len(once) > 1 else once[0]


def _settle_plain(tree: Tree) -> None:
    for key, value in tree.items():
        if type(value) is Several:
            tree[key] = list(value)


def _settle_chain(tree: Tree) -> None:
    """A link of no well-formed collection has properties as any other."""
    items = [("rdf:" + key[1:] if key in ("@first", "@rest") else key, value) for key, value in tree.items()]
    tree.clear()
    tree.update(items)


def _pair(trees: Trees, id: str, tree: Tree, latitude: str | None, longitude: str | None) -> None:
    """geo:lat and geo:long of one thing are one coordinate."""
    if latitude in tree and longitude in tree and PLACE not in tree:
        place = recognise_pair(trees.node(id) or {})
        if place is not None:
            del tree[latitude], tree[longitude]
            tree[PLACE] = place


# ---------------------------------------------------------------- composites


def _fold_composites(trees: Trees) -> set[str]:
    """Put quantities, dates and coordinates in the place of the nodes that spell them out."""
    if not trees.composite:
        return set()
    found: dict[str, Any] = {}
    for id in trees.composite:
        node = trees.node(id)
        value = recognise(id, node, trees.node) if node is not None else None
        if value is not None:
            found[id] = value
    used: set[str] = set()
    for owner, tree in trees.trees.items():
        for key, value in tree.items():
            if type(value) is Link and value.id in found and value.id != owner:
                used.add(value.id)
                tree[key] = found[value.id]
            elif type(value) is Several:
                used.update(_replace_each(value, found))
    return used


def _replace_each(values: Several, found: dict[str, Any]) -> Iterator[str]:
    for i, value in enumerate(values):
        if type(value) is Link and value.id in found:
            values[i] = found[value.id]
            yield value.id


# ---------------------------------------------------------------- blank nodes

Places: TypeAlias = dict[int, dict[str, int]]  # where each link stands among several values, by the id of these


def _fold_blanks(every: Trees, mentions: list[Mention], shared: Callable[[str], bool]) -> set[str]:
    trees = every.trees
    alone: dict[str, Mention] = {}
    several: set[str] = set()
    for mention in mentions:
        before = alone.setdefault(mention[2], mention)
        if before is not mention and before != mention:
            several.add(mention[2])
    for blank in several:
        del alone[blank]
    for blank in every.quoted & alone.keys():
        del alone[blank]
    if shared is not OUTSIDE:
        alone = {blank: mention for blank, mention in alone.items() if not shared(blank)}
    parts = _parts(alone, trees)
    lists: set[str] = set()
    places: Places = {}
    for blank, (owner, key, _) in alone.items():
        if blank not in parts:
            if blank not in trees:
                _put(trees[owner], key, blank, SOMEVALUE, places)
            continue
        tree = trees[blank]
        if "@first" in tree:
            lists.add(blank)
        else:
            _put(trees[owner], key, blank, tree, places)
    return parts - _fold_lists(trees, alone, lists, places) if lists else parts


def _parts(alone: dict[str, Mention], trees: dict[str, Tree]) -> set[str]:
    """The blank nodes that belong to one owner, are on no circle and not too deep."""
    parts = {blank for blank, mention in alone.items() if mention[0] not in alone and blank in trees}
    depth = dict.fromkeys(parts, 1)
    for blank in alone:
        if blank not in depth:
            _measure(blank, alone, depth)
    return {blank for blank, level in depth.items() if level and blank in trees} if len(depth) > len(parts) else parts


def _measure(blank: str, alone: dict[str, Mention], depth: dict[str, int]) -> None:
    """How many levels below an entity a blank node lies; 0 where it is an entity itself."""
    way: list[str] = []
    here = blank
    while here in alone and here not in depth:
        depth[here] = -1  # on the way
        way.append(here)
        here = alone[here][0]
    if depth.get(here) == -1:  # a circle: all of it are entities
        at = way.index(here)
        depth.update(dict.fromkeys(way[at:], 0))
        del way[at:]
    level = depth.get(here, 0)
    for node in reversed(way):
        along = alone[node][1] == "@rest"
        level = level if along and level else level + 1
        depth[node] = level = level if level <= DEEP else 0


def _put(tree: Tree, key: str, blank: str, value: Any, places: Places) -> None:
    """Put a value where a blank node is mentioned."""
    before = tree[key]
    if type(before) is Several:
        place = places.get(id(before))
        if place is None:
            place = places[id(before)] = {}
            for i, one in enumerate(before):
                if type(one) is Link:
                    place.setdefault(one.id, i)
        before[place[blank]] = value
    else:
        tree[key] = value


def _fold_lists(trees: dict[str, Tree], alone: dict[str, Mention], lists: set[str], places: Places) -> set[str]:
    """Fold well-formed collections to lists; returns the blank nodes of the others, which stay entities."""
    left = set(lists)
    ready = []
    for head in lists:
        if alone[head][1] != "@rest":
            chain = _chain(trees, head, lists)
            if chain:
                left.difference_update(chain)
                ready.append((head, [trees[link]["@first"] for link in chain]))
    made, folded = dict(ready), lists - left
    for head, items in ready:
        for i, item in enumerate(items):
            if type(item) is Link and item.id in made:
                items[i] = made[item.id]
        owner, key, _ = alone[head]
        if key != "@first" or owner not in folded:
            _put(trees[owner], key, head, items, places)
    return left


def _chain(trees: dict[str, Tree], head: str, lists: set[str]) -> list[str]:
    """The blank nodes of a collection in order; none where it is not well-formed."""
    chain: list[str] = []
    following: Any = Link(head)
    while following != []:
        here = following.id
        tree = trees.get(here, {})
        following = tree.get("@rest")
        known = all(key in ("@id", "@first", "@rest", "@type") for key in tree) and tree.get("@type", [LIST]) == [LIST]
        proper = type(following) is Link or following == []
        if here not in lists or not known or not proper or type(tree["@first"]) is Several:
            return []
        chain.append(here)
    return chain
