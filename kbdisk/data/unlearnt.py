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
            name: {path[:length] for path in of.properties for length in range(1, len(path) + 1)}
            for name, of in schema.classes.items()
        }
        self._known: dict[tuple[str, Path], Path | None] = {}

    def of(self, found: Class, entity: Entity) -> Iterator[tuple[Path, Any]]:
        """Each such path of an entity, without places of lists, and a value there, which may be a gap.

        Of a part of which no property is for any value, the path of the part.
        """
        met: dict[Path, Any] = {}
        for path, value in walk(entity.tree):
            names = tuple(key for key in path if isinstance(key, str))
            key = (found.name, names)
            if key in self._known:
                unlearnt = self._known[key]
            else:
                unlearnt = self._unlearnt(found, names)
                if len(self._known) < CACHED:
                    self._known[key] = unlearnt
            if unlearnt is not None and met.get(unlearnt) is None:
                met[unlearnt] = value
        yield from met.items()

    def _unlearnt(self, found: Class, names: Path) -> Path | None:
        if found.knows(names):
            return None
        beginnings = self._beginnings[found.name]
        beginning = (names[:length] for length in range(1, len(names)) if names[:length] not in beginnings)
        return next((path for path in beginning if not found.knows(path)), names)
