"""Refuses --only for a property that the source has and the schema leaves out, and says how to include it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kbdisk.completion.fields import meets
from kbdisk.entity import Entity, Path, show, walk
from kbdisk.errors import SchemaError
from kbdisk.schemas.schema import Schema


def refuse_excluded(schema: Schema, only: Collection[Path], entities: Iterable[Entity], name: str, way: str) -> None:
    """SchemaError where a path is of no property of the schema, but of the entities of a source of this name."""
    known = [path for of in schema.classes.values() for path in of.properties]
    strange = [path for path in only if not any(meets(path, one) for one in known)]
    met = {path for entity in entities for path, _ in walk(entity.tree)} if strange else set()
    for path in strange:
        if any(meets(path, one) for one in met):
            raise SchemaError(show(path), f"{name} has it, and {way}")
