"""Anything that a user calls a knowledge base, as a list of entities that are read once.

Several sources of RDF are merged as graphs, and so are several of triples. Where other sources have entities of one id, each adds
the properties that the sources before it lack.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any, TypeAlias

from kbdisk.completion.sidecar import given_entities, sidecar_rows
from kbdisk.data.graph import Graph, has_links
from kbdisk.data.parse import Reading
from kbdisk.data.spool import selected, spooled, spooled_readings
from kbdisk.entity import Entity, Path, read_property, walk, with_values
from kbdisk.errors import ConfigError, LoadError
from kbdisk.inspection import is_class
from kbdisk.loaders import KB, format_row, load, named_by, together
from kbdisk.loaders.naming import tells_apart
from kbdisk.schemas.schema import Schema
from kbdisk.schemas.text.names import refuse_unmet

Knowledge: TypeAlias = Any  # a path, a list of dicts or entities, a frame, a Graph, a KB; or a list of several
StrPath: TypeAlias = str | os.PathLike[str]
BYTES_HASHED_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class LoadedSource:
    """A source, or several, with its entities read once."""

    kbs: tuple[KB, ...]
    entities: Sequence[Entity]  # in a scratch file, if there are many
    _readings: list[tuple[Schema, Sequence[Reading]]] = field(
        default_factory=list, init=False, repr=False
    )  # at most one

    @classmethod
    def of(cls, knowledge: Knowledge) -> LoadedSource:
        """The entities of a knowledge base; of a `LoadedSource` they are not read again."""
        if isinstance(knowledge, LoadedSource):
            return knowledge
        kbs = tuple(sources_of(knowledge))
        return cls(kbs, spooled(_merged(kbs) if len(kbs) > 1 else given_entities(kbs[0])))

    def of_classes(self, wanted: Collection[str]) -> LoadedSource:
        """Itself with the entities of the wanted classes alone; with all where none are named."""
        if not wanted:
            return self
        present = dict.fromkeys(name for entity in self.entities for name in entity.classes)
        refuse_unmet(self.name, wanted, present)
        entities = (
            entity
            for entity in self.entities
            if any(is_class(name, wanted_class) for name in entity.classes for wanted_class in wanted)
        )
        return replace(self, entities=spooled(entities))

    def part(self, places: Sequence[int]) -> LoadedSource:
        """Itself with the entities at some places alone."""
        return replace(self, entities=selected(self.entities, places))

    @property
    def name(self) -> str:
        """The names of all sources, as messages show them."""
        return ", ".join(kb.name for kb in self.kbs)

    @property
    def made(self) -> int:
        """The number of values that kbdisk filled in earlier. They are not learnt from."""
        return sum(len(entity.made or ()) for entity in self.entities)

    @cached_property
    def by_id(self) -> Mapping[str, Entity]:
        """The entities by their ids."""
        return {entity.id: entity for entity in reversed(self.entities)}

    def by_own_id(self, schema: Schema) -> Mapping[str, Entity]:
        """The entities by the ids that the schema gives them."""
        return {schema.id_of(entity): entity for entity in reversed(self.entities)}

    def readings(self, schema: Schema) -> Sequence[Reading]:
        """The readings of the entities that the schema has a class for. Those of the last schema are kept.

        Rules change no reading, so schemas that differ in their rules alone have the same.
        """
        if not self._are_read_by(schema):
            self._readings[:] = [(replace(schema, rules=None), spooled_readings(schema, self.entities))]
        return self._readings[0][1]

    def _are_read_by(self, schema: Schema) -> bool:
        return bool(self._readings) and self._readings[0][0] == replace(schema, rules=None)

    def readings_or_entities(self, schema: Schema) -> Sequence[Entity | Reading]:
        """The readings by a schema, if there are any yet, or else the entities."""
        return self.readings(schema) if self._are_read_by(schema) else self.entities

    def graph(self, schema: Schema) -> Graph:
        """The graph of the links between the entities; of a schema without links an empty one."""
        return Graph.read(schema, self.readings(schema) if has_links(schema) else ())

    @cached_property
    def sha256(self) -> str:
        """The hash of the sources: of the bytes of files, and of the entities of data in memory."""
        digest = hashlib.sha256()
        for part in (part for kb in self.kbs for part in kb.parts):
            if part.source is None:
                for entity in self.entities:
                    digest.update(repr((entity.id, entity.classes, entity.tree)).encode())
            else:
                with part.source.stored() as stream:
                    while block := stream.read(BYTES_HASHED_AT_ONCE):
                        digest.update(block)
        return digest.hexdigest()

    @cached_property
    def given(self) -> str:
        """The hash of the given values. Values that kbdisk filled in do not change it."""
        digest = hashlib.sha256()
        paths: dict[Path, str] = {}  # as text; entities share them
        for entity in self.entities:
            leaves = []
            for path, value in walk(entity.tree):
                if value is not None:
                    if path not in paths:
                        paths[path] = repr(path)
                    leaves.append(f"({paths[path]}, {value!r})")
            leaves.sort()
            digest.update(repr((entity.id, entity.classes, entity.label, leaves)).encode(errors="surrogatepass"))
        return digest.hexdigest()

    def facts(self) -> dict[str, Any]:
        """The facts about the source that a model folder keeps."""
        return {"name": self.name, "sha256": self.sha256, "given": self.given, "entities": len(self.entities)}


def sources_of(knowledge: Knowledge) -> list[KB]:
    """The sources of a knowledge base; several of RDF as one."""
    sources = knowledge if _is_several(knowledge) else [knowledge]
    return together(source if isinstance(source, KB) else load(source) for source in sources)


def refuse_repeated(kb: KB, entities: Iterable[Entity]) -> None:
    """LoadError where several entities have one id, as filled values are recorded by it. RDF merges what has one id."""
    ids: set[str] = set()
    for entity in entities if format_row(kb.format).has_records else ():
        if entity.id in ids:
            raise LoadError(kb.name, f"has more than one entity {entity.id!r}. Say --id to tell them apart.")
        ids.add(entity.id)


def named_by_schema(kb: KB, schema: Schema) -> KB:
    """The source with the ids that the schema gives its entities, if they have no others and every entity has one.

    A source that was completed with row numbers for ids keeps these.
    """
    paths = {schema_class.id for schema_class in schema.classes.values() if schema_class.id is not None}
    if kb.options.id is not None or len(paths) != 1 or not format_row(kb.format).has_records or len(kb.parts) > 1:
        return kb
    [path] = paths
    if not tells_apart(kb, path) or any(row.numbered for rows in (sidecar_rows(kb) or {}).values() for row in rows):
        return kb
    return named_by(kb, path)


def as_path(path: Path | str) -> Path:
    """A path that may be written as text; ConfigError where the text is not a path."""
    if not isinstance(path, str):
        return path
    try:
        return read_property(path)
    except ValueError as error:
        raise ConfigError(path, f"{error}.") from None


def _is_several(knowledge: Knowledge) -> bool:
    """Whether it is a list of sources, rather than of dicts or entities."""
    if not isinstance(knowledge, list | tuple) or not knowledge:
        return False
    return not any(isinstance(item, Mapping | Entity) for item in knowledge)


def _merged(kbs: Iterable[KB]) -> list[Entity]:
    by_id: dict[str, Entity] = {}
    kbs = tuple(kbs)
    have_sets = all(kb.has_sets for kb in kbs)
    for kb in kbs:
        for entity in given_entities(kb):
            named = entity
            if entity.nameless:  # an entity of another source may have the same number
                named = replace(entity, id=f"{FilePath(kb.name).name}#{entity.id}")
            before = by_id.get(named.id)
            by_id[named.id] = named if before is None else _joined(before, named)
            if before is not None and have_sets:
                by_id[named.id] = _with_members(by_id[named.id], before, named)
    return list(by_id.values())


def _with_members(joined: Entity, entity: Entity, other: Entity) -> Entity:
    """A joined entity whose properties in both have the values of both, as several values of a property are a set."""
    tree = dict(joined.tree)
    for key in entity.tree.keys() & other.tree.keys():
        values = [
            value for tree_of in (entity.tree, other.tree) for value in _values_of(tree_of[key]) if value is not None
        ]
        members = [value for place, value in enumerate(values) if value not in values[:place]]
        if members:
            tree[key] = members if len(members) > 1 else members[0]
    return replace(joined, tree=tree)


def _values_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _joined(entity: Entity, other: Entity) -> Entity:
    """An entity with the further properties of another of the same id; the names are those of RDF if either is of RDF."""
    main = other if _is_of_rdf(other) and not _is_of_rdf(entity) else entity
    known = {path[0] for path, value in walk(entity.tree) if value is not None}
    new: dict[Path, Any] = {(key,): value for key, value in other.tree.items() if key not in known}
    made = {path: value for path, value in (entity.made or {}).items() if (path[0],) not in new}
    known |= {path[0] for path in made}
    made |= {path: value for path, value in (other.made or {}).items() if path[0] not in known}
    classes = tuple(dict.fromkeys((*entity.classes, *other.classes)))
    label, tree = entity.label or other.label, with_values(entity.tree, new)
    besides = (*entity.besides, entity.source if main is other else other.source)
    return replace(main, tree=tree, made=made, classes=classes, label=label, besides=besides)


def _is_of_rdf(entity: Entity) -> bool:
    return entity.source is not None and entity.source.joins
