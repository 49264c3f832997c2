"""Entities of RDF: what is common to files, graphs and the answers of an endpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from kbdisk.entity import Completion, Entity, Link, Path
from kbdisk.loaders.files import Source
from kbdisk.loaders.kb import KB, Oddities, Options, Report
from kbdisk.loaders.rdf import fold, made, syntax, wikibase
from kbdisk.loaders.rdf.blank_nodes import BlankNodes
from kbdisk.loaders.rdf.terms import LATITUDE, LONGITUDE, SUBCLASS, Names
from kbdisk.loaders.rdf.trees import Trees, without_collection

if TYPE_CHECKING:
    from pyoxigraph import Quad

OURS = "an entity that stands in a block of kbdisk alone, not read"


class RdfKB(KB):
    """Entities of RDF: what is common to files, graphs and answers of an endpoint.

    `names` tells the predicate of each key; `prefixes` and `base` are those in force at the end.
    """

    updates = True
    joins = True

    def __init__(self, origin: Source | str, format: str, options: Options) -> None:
        super().__init__(origin, format, options)
        self.names = Names()
        self.prefixes: dict[str, str] = {}
        self.base: str | None = options.base
        self.wikibase = False
        self.streamed = False  # trees come in stretches, and are not all there is

    def new_trees(self) -> Trees:
        """Nothing yet, ready to take in quads."""
        return Trees(self.name, self.odd, self.names, self.blanks())

    def trees(self) -> Trees:
        """All of it, grouped by subject."""
        trees = self.new_trees()
        self.observe(trees.add)
        return trees

    def observe(self, take: Callable[[Iterable[Any]], None]) -> None:
        """Hand all quads to `take`."""
        raise NotImplementedError

    def observe_all(self, take: Callable[[Iterable[Any]], None]) -> None:
        """Hand all quads to `take`, those in our own blocks too."""
        self.observe(take)

    @property
    def is_completed(self) -> bool:
        """Whether there are blocks of ours."""
        return False

    def earlier(self) -> Iterator[Quad]:
        """The quads in our own blocks."""
        return iter(())

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Read what was read before: what is skipped then is not counted twice."""
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

        return writer.whole(self, completions, stream, format)

    def blanks(self) -> BlankNodes:
        """The blank nodes of one parse."""
        return BlankNodes()

    def whole(self) -> Trees | None:
        """The same with what our own blocks say, if there are any."""
        if not self.is_completed:
            return None
        trees = self.new_trees()
        trees.odd = Oddities()
        trees.odd.counts.update(self.odd.counts)  # what is odd was told when it was read
        self.observe_all(trees.add)
        return trees

    def read(self) -> Iterator[Entity]:
        with without_collection():
            entities = list(self.fold(self.trees()))
        return self.finish(entities)

    def fold(self, trees: Trees, shared: Callable[[str], bool] = fold.OUTSIDE) -> Iterator[Entity]:
        """Trees that are complete in themselves, folded to entities."""
        self.names_graphs = self.names_graphs or trees.is_named
        superclass = self.names.known(SUBCLASS)
        if superclass:
            self._learn(trees, superclass)
        if not trees.wikibase and not self.wikibase:
            return fold.entities(trees, self.options.language, shared)
        self.wikibase = True
        nodes = {id: node for id in trees.trees if (node := trees.node(id)) is not None}
        return wikibase.entities(nodes, self.options.language, self.odd, whole=not self.streamed)

    def finish(self, entities: Iterable[Entity]) -> Iterator[Entity]:
        """Entities with their place, and without what the user did not ask for."""
        wanted = set(self.options.classes)
        with self.again():
            whole = self.whole()
        if not wanted and not whole:
            return _placed(entities, self)
        return self._chosen(_placed(entities, self), wanted, whole)

    def _chosen(self, entities: Iterable[Entity], wanted: set[str], whole: Trees | None) -> Iterator[Entity]:
        known = {entity.id: entity for entity in self.fold(whole)} if whole else {}
        pair = self.names.known(LATITUDE), self.names.known(LONGITUDE)
        for entity in entities:
            if entity.id in known:
                entity.made = made.made(entity, known.pop(entity.id), pair)
            if not wanted or wanted.intersection(_named(entity.classes)):
                yield entity
        for id in known:
            self.odd.note(OURS, f"{self.name}: {id}")

    def _learn(self, trees: Trees, superclass: str) -> None:
        """Take note of the class hierarchy."""
        for id, tree in trees.trees.items():
            value = tree.get(superclass)
            links = value if isinstance(value, list) else [value]
            names = {link.id for link in links if type(link) is Link and not link.id.startswith("_:")}
            if names:
                self.hierarchy.setdefault(id, set()).update(names)


def _placed(entities: Iterable[Entity], kb: RdfKB) -> Iterator[Entity]:
    for position, entity in enumerate(entities, 1):
        entity.position = position
        entity.source = kb
        yield entity


def _named(classes: Iterable[str]) -> set[str]:
    """Classes by their IRI and by its last word."""
    return {name for iri in classes for name in (iri, iri[max(iri.rfind("#"), iri.rfind("/"), iri.rfind(":")) + 1 :])}
