"""RDF sources: what files, rdflib graphs and endpoints have in common.

Values of earlier completions, which stand in blocks of kbdisk, are no part of the entities' trees. They are found by
comparing the given entity with the entity that the whole source makes, and stand in `Entity.made`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from kbdisk.entity import CLASSES, Completion, Coordinate, Entity, Link, Path, Quantity, walk
from kbdisk.loaders.files import Source
from kbdisk.loaders.kb import KB, Oddities, Options, Report
from kbdisk.loaders.rdf import fold, syntax, wikibase
from kbdisk.loaders.rdf.blank_nodes import BlankNodes
from kbdisk.loaders.rdf.fold import COORDINATE_KEY, Trees, without_collection
from kbdisk.loaders.rdf.terms import LATITUDE, LONGITUDE, SUBCLASS, Names
from kbdisk.loaders.rdf.value_nodes import PARTS

if TYPE_CHECKING:
    from pyoxigraph import Quad


ONLY_IN_BLOCK = "an entity that stands in a block of kbdisk alone, not read"


class RdfKB(KB):
    """Entities of RDF. `names` has the predicate of each key; `prefixes` and `base` are those in force at the end."""

    updates = True
    joins = True

    def __init__(self, origin: Source | str, format: str, options: Options) -> None:
        super().__init__(origin, format, options)
        self.names = Names()
        self.prefixes: dict[str, str] = {}
        self.base: str | None = options.base
        self.wikibase = False
        self.streamed = False  # trees come in stretches, each without the rest

    def new_trees(self) -> Trees:
        """Empty trees that take in quads."""
        return Trees(self.name, self.odd, self.names, self.blanks())

    def trees(self) -> Trees:
        """The trees of the whole source."""
        trees = self.new_trees()
        self.observe(trees.add)
        return trees

    def observe(self, take: Callable[[Iterable[Any]], None]) -> None:
        """Hand all quads to `take`."""
        raise NotImplementedError

    def observe_all(self, take: Callable[[Iterable[Any]], None]) -> None:
        """Hand all quads to `take`, those in blocks of kbdisk too."""
        self.observe(take)

    adds_beside = True

    @property
    def states_classes(self) -> bool:  # type: ignore[override]
        """Classes are those that rdf:type states; in Wikidata they are values of a property."""
        return not self.wikibase

    @property
    def is_completed(self) -> bool:
        """Whether there are blocks of kbdisk."""
        return False

    def earlier(self) -> Iterator[Quad]:
        """The quads in blocks of kbdisk."""
        return iter(())

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Read the source again, without counting its skipped errors twice."""
        before = list(self.skipped)
        yield
        self.skipped[:] = before or self.skipped

    def path_named(self, path: Path) -> Path:
        iris, known = self.names.iris, self.names.known
        return tuple((known(key) or key) if isinstance(key, str) and key not in iris else key for key in path)

    def contested(self) -> Mapping[str, str]:
        return self.names.contested

    def keeps(self, format: str) -> bool:
        return format in syntax.FORMATS or format == "sparql-update"

    def translate(self, completions: Iterable[Completion], stream: BinaryIO, format: str) -> Report:
        from kbdisk.loaders.rdf import writer

        return writer.translate(self, completions, stream, format)

    def blanks(self) -> BlankNodes:
        """The blank nodes of one parse."""
        return BlankNodes()

    def trees_with_blocks(self) -> Trees | None:
        """The trees of the source with the blocks of kbdisk, if there are any."""
        if not self.is_completed:
            return None
        trees = self.new_trees()
        trees.odd = Oddities()
        trees.odd.counts.update(self.odd.counts)  # oddities have been reported by the first reading
        self.observe_all(trees.add)
        return trees

    def read(self) -> Iterator[Entity]:
        with without_collection():
            entities = list(self.fold(self.trees()))
        return self.finish(entities)

    def fold(self, trees: Trees, shared: Callable[[str], bool] = fold.SHARED_WITH_NONE) -> Iterator[Entity]:
        """The entities of trees that are complete in themselves."""
        self.names_graphs = self.names_graphs or trees.is_named
        superclass = self.names.known(SUBCLASS)
        if superclass:
            self._learn_hierarchy(trees, superclass)
        if not trees.wikibase and not self.wikibase:
            return fold.entities_of(trees, self.options.language, shared)
        self.wikibase = True
        nodes = {id: node for id in trees.trees if (node := trees.node(id)) is not None}
        return wikibase.entities_of(nodes, self.options.language, self.odd, is_complete=not self.streamed)

    def finish(self, entities: Iterable[Entity]) -> Iterator[Entity]:
        """Entities with position and source, of the wanted classes only, and with the values of earlier completions."""
        wanted_classes = set(self.options.classes)
        with self.again():
            trees = self.trees_with_blocks()
        if not wanted_classes and not trees:
            return _with_positions(entities, self)
        return self._chosen(_with_positions(entities, self), wanted_classes, trees)

    def _chosen(self, entities: Iterable[Entity], wanted_classes: set[str], trees: Trees | None) -> Iterator[Entity]:
        known = {entity.id: entity for entity in self.fold(trees)} if trees else {}
        pair = self.names.known(LATITUDE), self.names.known(LONGITUDE)
        for entity in entities:
            if entity.id in known:
                entity.made = filled_earlier(entity, known.pop(entity.id), pair)
            if not wanted_classes or wanted_classes.intersection(_class_names(entity.classes)):
                yield entity
        for id in known:
            self.odd.note(ONLY_IN_BLOCK, f"{self.name}: {id}")

    def _learn_hierarchy(self, trees: Trees, superclass: str) -> None:
        """Add the superclasses in some trees to the class hierarchy."""
        for id, tree in trees.trees.items():
            value = tree.get(superclass)
            links = value if isinstance(value, list) else [value]
            names = {link.id for link in links if type(link) is Link and not link.id.startswith("_:")}
            if names:
                self.hierarchy.setdefault(id, set()).update(names)


def _with_positions(entities: Iterable[Entity], kb: RdfKB) -> Iterator[Entity]:
    for position, entity in enumerate(entities, 1):
        entity.position = position
        entity.source = kb
        yield entity


def _class_names(classes: Iterable[str]) -> set[str]:
    """The names of classes: their IRIs and the last words of these."""
    return {name for iri in classes for name in (iri, iri[max(iri.rfind("#"), iri.rfind("/"), iri.rfind(":")) + 1 :])}


# ---------------------------------------------------------------- values of earlier completions


Filled = dict[Path, Any]


def filled_earlier(given: Entity, complete: Entity, pair: tuple[str | None, str | None]) -> Filled | None:
    """The filled values by path, from the given and the complete entity; `pair` are the keys of geo:lat and geo:long."""
    filled: Filled = {}
    _compare((), given.tree, complete.tree, filled)
    new_classes = (name for name in complete.classes if name not in given.classes)
    filled.update(((*CLASSES, place), Link(name)) for place, name in enumerate(new_classes, len(given.classes)))
    place = filled.get((COORDINATE_KEY,))
    if isinstance(place, Coordinate):
        for key, value in zip(pair, (place.latitude, place.longitude), strict=True):
            if key is not None and key not in given.tree:
                filled[(key,)] = value
    return filled or None


def _compare(path: Path, given: Any, complete: Any, filled: Filled) -> None:
    if isinstance(given, dict) and isinstance(complete, dict):
        for key, value in complete.items():
            if key[:1] != "@":
                _compare((*path, key), given.get(key), value, filled)
    elif given is None:
        filled.update(((*path, *rest), value) for rest, value in walk(complete) if value is not None)
    elif isinstance(given, list) or isinstance(complete, list):
        _compare_lists(path, given, complete, filled)
    elif given != complete:
        filled[path] = complete


def _compare_lists(path: Path, given: Any, complete: Any, filled: Filled) -> None:
    """Given items are still there, perhaps with more in them; all others were added, wherever they stand."""
    before, rest = (
        given if isinstance(given, list) else [given],
        complete[:] if isinstance(complete, list) else [complete],
    )
    changed = []
    for i, item in enumerate(before):
        if item in rest:
            rest.remove(item)
        else:
            changed.append((i, item))
    for i, item in changed:
        same = next((later for later in rest if _has_grown(item, later)), None)
        if same is not None:
            rest.remove(same)
            _compare((*path, i) if isinstance(given, list) else path, item, same, filled)
    for i, item in enumerate(rest, len(before)):
        _compare((*path, i), None, item, filled)


def _has_grown(given: Any, complete: Any) -> bool:
    """Whether a value is the given one with more in it."""
    if isinstance(given, dict) and isinstance(complete, dict):
        return given.get("@id") == complete.get("@id")
    if isinstance(given, Quantity | Coordinate) and type(given) is type(complete):
        return all(getattr(given, part) in (None, getattr(complete, part)) for part in PARTS[type(given)])
    return False
