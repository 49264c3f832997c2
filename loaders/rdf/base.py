"""Entities of RDF: what is common to files, graphs and the answers of an endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kbdisk.entity import Entity, walk
from kbdisk.loaders.kb import KB
from kbdisk.loaders.options import Options
from kbdisk.loaders.rdf import wikibase
from kbdisk.loaders.rdf.fold import Folder, superclasses
from kbdisk.loaders.rdf.names import Names
from kbdisk.loaders.rdf.nodes import Nodes
from kbdisk.loaders.rdf.vocabulary import SUBCLASS
from kbdisk.loaders.source import Source


class RdfKB(KB):
    """Entities of RDF: what is common to files, graphs and answers of an endpoint.

    `names` tells the predicate of each key; `prefixes` and `base` are those in force at the end.
    """

    def __init__(self, origin: Source | str, format: str, options: Options) -> None:
        super().__init__(origin, format, options)
        self.names = Names()
        self.prefixes: dict[str, str] = {}
        self.base: str | None = options.base
        self.wikibase = False

    def nodes(self) -> Nodes:
        """All of it, grouped by subject."""
        raise NotImplementedError

    def made(self) -> Nodes | None:
        """What our own blocks say, if there are any."""
        return None

    def read(self) -> Iterator[Entity]:
        return self.finish(self.fold(self.nodes()))

    def fold(self, nodes: Nodes, shared: Callable[[str], bool] = lambda id: False) -> Iterator[Entity]:
        """Nodes that are complete in themselves, folded to entities."""
        self.names.prefixes = self.prefixes
        for id, node in nodes.nodes.items():
            if SUBCLASS in node:
                self.hierarchy.setdefault(id, set()).update(superclasses(node))
        if wikibase.is_wikibase(nodes.nodes):
            self.wikibase = True
            found = wikibase.entities(nodes.nodes, self.options.language, self.odd)
        else:
            found = Folder(nodes.nodes, nodes.bearing, self.names, self.options.language, shared).entities()
        graphs_of = nodes.graphs
        for entity in found:
            if graphs_of:
                entity.graph = graphs_of.get(entity.id, "")
            yield entity

    def finish(self, entities: Iterable[Entity]) -> Iterator[Entity]:
        """Entities with their place, and without what the user did not ask for."""
        wanted = set(self.options.classes)
        made = self.made()
        for position, entity in enumerate(entities):
            if wanted and not wanted.intersection(_named(entity.classes)):
                continue
            entity.position = position
            entity.source = self
            if made is not None:
                self._mark(entity, made)
            yield entity

    def _mark(self, entity: Entity, made: Nodes) -> None:
        """Tell what an earlier completion filled: it is neither given nor a gap."""
        nodes = {id: made.nodes[id] for id in _ids(entity) if id in made.nodes}
        if nodes:
            folder = Folder(made.nodes, made.bearing, self.names, self.options.language)
            ours = {id: folder.entity(id, node).tree for id, node in nodes.items()}
            entity.made = {(*path, *rest): value for path, id in _places(entity) if id in ours for rest, value in walk(ours[id])}


def _named(classes: Iterable[str]) -> set[str]:
    """Classes by their IRI and by its last word."""
    return {name for iri in classes for name in (iri, iri[max(iri.rfind("#"), iri.rfind("/"), iri.rfind(":")) + 1 :])}


def _places(entity: Entity) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Where in an entity's tree which node stands."""
    stack: list[tuple[tuple[str | int, ...], Any]] = [((), entity.tree)]
    yield (), entity.id
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict):
            if path and "@id" in value:
                yield path, value["@id"]
            stack.extend(((*path, key), inner) for key, inner in value.items())
        elif isinstance(value, list):
            stack.extend(((*path, i), inner) for i, inner in enumerate(value))


def _ids(entity: Entity) -> set[str]:
    return {id for _, id in _places(entity)}
