"""The paths of entities that no property of a schema is for: a model learns nothing of what stands there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kbdisk.entity import Entity, Path, walk
from kbdisk.schemas.schema import Class, Schema

CACHED = 100_000  # paths that are remembered; others are looked up again


class Unlearnt:
    """Finds such paths. The schema is asked once about each path."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._beginnings = {
            name: {path[:length] for path in entity_class.properties for length in range(1, len(path) + 1)}
            for name, entity_class in schema.classes.items()
        }
        self._known: dict[tuple[str, Path], Path | None] = {}

    def of(self, entity_class: Class, entity: Entity) -> Iterator[tuple[Path, Any]]:
        """Each such path of an entity, without places of lists, and a value there, which may be a gap.

        Of a part of which no property is for any value, the path of the part.
        """
        values: dict[Path, Any] = {}
        for path, value in walk(entity.tree):
            names = tuple(key for key in path if isinstance(key, str))
            key = (entity_class.name, names)
            if key in self._known:
                unlearnt = self._known[key]
            else:
                unlearnt = self._unlearnt(entity_class, names)
                if len(self._known) < CACHED:
                    self._known[key] = unlearnt
            if unlearnt is not None and values.get(unlearnt) is None:
                values[unlearnt] = value
        yield from values.items()

    def _unlearnt(self, entity_class: Class, names: Path) -> Path | None:
        if entity_class.knows(names):
            return None
        beginnings = self._beginnings[entity_class.name]
        beginning = (names[:length] for length in range(1, len(names)) if names[:length] not in beginnings)
        return next((path for path in beginning if not entity_class.knows(path)), names)
