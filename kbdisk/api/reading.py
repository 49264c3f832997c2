"""Whatever a user calls a knowledge base, as a list of entities that were read once.

Several sources of RDF are one, with all that any of them says. Of others that tell of the same id each adds what those
before it do not say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any, TypeAlias

from kbdisk.completion.sidecar import given_entities, sidecar_rows
from kbdisk.data.graph import Graph
from kbdisk.entity import Entity, Path, read_path, walk, with_values
from kbdisk.errors import ConfigError, LoadError
from kbdisk.loaders import KB, format_row, load, named_by, together
from kbdisk.loaders.naming import tells_apart
from kbdisk.schemas.schema import Schema

Knowledge: TypeAlias = Any  # a path, a list of dicts or entities, a frame, a Graph, a KB; or a list of several
PIECE = 1 << 20  # bytes hashed at once


@dataclass(frozen=True, eq=False)
class Reading:
    """The entities of some sources."""

    sources: tuple[KB, ...]
    entities: list[Entity]

    @classmethod
    def of(cls, knowledge: Knowledge) -> Reading:
        """Read them; what is a reading already is not read again."""
        if isinstance(knowledge, Reading):
            return knowledge
        sources = tuple(sources_of(knowledge))
        return cls(sources, _merged(sources) if len(sources) > 1 else list(given_entities(sources[0])))

    @property
    def name(self) -> str:
        """What to call it."""
        return ", ".join(one.name for one in self.sources)

    @property
    def made(self) -> int:
        """How many values in them were filled in by kbdisk, and are not learnt from."""
        return sum(len(entity.made or ()) for entity in self.entities)

    @cached_property
    def by_id(self) -> Mapping[str, Entity]:
        """The entities by their ids."""
        return {entity.id: entity for entity in reversed(self.entities)}

    def by_own_id(self, schema: Schema) -> Mapping[str, Entity]:
        """The entities by what the schema says is their id."""
        return {schema.id_of(entity): entity for entity in reversed(self.entities)}

    def graph(self, schema: Schema) -> Graph:
        """What the entities know of each other."""
        return Graph.read(schema, self.entities)

    @cached_property
    def sha256(self) -> str:
        """The same for the same sources: of files their bytes, of what is in memory all that it says."""
        digest = hashlib.sha256()
        for part in (part for kb in self.sources for part in kb.parts):
            if part.source is None:
                for entity in self.entities:
                    digest.update(repr((entity.id, entity.classes, entity.tree)).encode())
            else:
                with part.source.stored() as stream:
                    while piece := stream.read(PIECE):
                        digest.update(piece)
        return digest.hexdigest()

    @cached_property
    def given(self) -> str:
        """The same as long as the same values are given, whatever kbdisk has filled in beside them."""
        digest = hashlib.sha256()
        for entity in self.entities:
            leaves = sorted(repr((path, one)) for path, one in walk(entity.tree) if one is not None)
            digest.update(repr((entity.id, entity.classes, entity.label, leaves)).encode(errors="surrogatepass"))
        return digest.hexdigest()

    def facts(self) -> dict[str, Any]:
        """What a model folder keeps of where it comes from."""
        return {"name": self.name, "sha256": self.sha256, "given": self.given, "entities": len(self.entities)}


def sources_of(knowledge: Knowledge) -> list[KB]:
    """The sources that a knowledge base is; those of RDF as one."""
    several = knowledge if _is_several(knowledge) else [knowledge]
    return together(one if isinstance(one, KB) else load(one) for one in several)


def refuse_repeated(kb: KB, entities: Iterable[Entity]) -> None:
    """LoadError where several have one id: what is filled in is told by it. In RDF all that has one id is one entity."""
    met: set[str] = set()
    for entity in entities if format_row(kb.format).has_records else ():
        if entity.id in met:
            raise LoadError(kb.name, f"has more than one entity {entity.id!r}. Say --id to tell them apart.")
        met.add(entity.id)


def named_by_schema(kb: KB, schema: Schema) -> KB:
    """The source with its entities called by what the schema says is their id, if they have no other, and all have that.

    A source that was completed with numbers for ids keeps these.
    """
    paths = {of.id for of in schema.classes.values() if of.id is not None}
    if kb.options.id is not None or len(paths) != 1 or not format_row(kb.format).has_records or len(kb.parts) > 1:
        return kb
    [path] = paths
    if not tells_apart(kb, path) or any(row.numbered for rows in (sidecar_rows(kb) or {}).values() for row in rows):
        return kb
    return named_by(kb, path)


def as_path(path: Path | str) -> Path:
    """A path, or one as text; ConfigError where the text is none."""
    if not isinstance(path, str):
        return path
    try:
        return read_path(path)
    except ValueError as error:
        raise ConfigError(path, f"{error}.") from None


def _is_several(knowledge: Knowledge) -> bool:
    """Whether it is a list of sources, not one of dicts or entities."""
    if not isinstance(knowledge, list | tuple) or not knowledge:
        return False
    return not any(isinstance(one, Mapping | Entity) for one in knowledge)


def _merged(sources: Iterable[KB]) -> list[Entity]:
    found: dict[str, Entity] = {}
    for kb in sources:
        for entity in given_entities(kb):
            one = entity
            if entity.nameless:  # another source has such a place, too
                one = replace(entity, id=f"{FilePath(kb.name).name}#{entity.id}")
            found[one.id] = _joined(found[one.id], one) if one.id in found else one
    return list(found.values())


def _joined(entity: Entity, other: Entity) -> Entity:
    """An entity with what another of the same id says beside, in the words of RDF where one of them has any."""
    speaks = other if _is_of_rdf(other) and not _is_of_rdf(entity) else entity
    there = {path[0] for path, value in walk(entity.tree) if value is not None}
    new: dict[Path, Any] = {(key,): value for key, value in other.tree.items() if key not in there}
    made = {path: value for path, value in (entity.made or {}).items() if (path[0],) not in new}
    there |= {path[0] for path in made}
    made |= {path: value for path, value in (other.made or {}).items() if path[0] not in there}
    classes = tuple(dict.fromkeys((*entity.classes, *other.classes)))
    label, tree = entity.label or other.label, with_values(entity.tree, new)
    besides = (*entity.besides, entity.source if speaks is other else other.source)
    return replace(speaks, tree=tree, made=made, classes=classes, label=label, besides=besides)


def _is_of_rdf(entity: Entity) -> bool:
    return entity.source is not None and entity.source.joins
