"""Maps whose keys are labels, not names of properties: currencies.EUR.name. As leaves a map is a list of parts with a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbdisk.entity import Path
from kbdisk.schemas.composites.base import EACH, Kind, Parts
from kbdisk.schemas.composites.listed import COUNT, Listed
from kbdisk.schemas.kinds import Category

KEY = "key"
ALONE = "value"  # the field of a value without fields


@dataclass(frozen=True)
class Mapped:
    """A map of keys of this kind to parts with these fields or, with the one field "", to values of one kind."""

    fields: Mapping[str, Kind]
    key: Kind = Category()
    most: int | None = None

    def leaves(self) -> dict[Path, Any]:
        """The count, the key of each entry, and its fields."""
        return {COUNT: self._list().leaves()[COUNT], (EACH, KEY): self.key} | {
            path: kind for path, kind in self._list().leaves().items() if path not in (COUNT, (EACH, KEY))
        }

    def apply(self, value: Any) -> dict[str, Any]:
        """A map as JSON has it."""
        if not isinstance(value, dict):
            raise ValueError(f"expected a map of keys to values, got {value!r}")
        entries = self._list().apply(self._entries(value))
        return self._map(entries)

    def split(self, value: dict[str, Any]) -> Parts:
        """The leaves of a list of parts, each with its key."""
        return self._list().split(self._entries(value))

    def join(self, parts: Mapping[Path, Any]) -> dict[str, Any]:
        """The map; ValueError where the key of an entry is unknown, or two are equal."""
        return self._map(self._list().join(parts))

    def _list(self) -> Listed:
        named = (
            {ALONE: self.fields[""]}
            if "" in self.fields
            else {_field(name): kind for name, kind in self.fields.items()}
        )
        return Listed({KEY: self.key, **named}, self.most)

    def _entries(self, value: Mapping[str, Any]) -> list[dict[str, Any]]:
        entries = []
        for key, entry in value.items():
            if key[:1] == "@":
                continue
            if entry is None:
                entries.append({KEY: key})
            elif "" in self.fields:
                entries.append({KEY: key, ALONE: entry})
            elif isinstance(entry, dict):
                entries.append({KEY: key, **{_field(name): inner for name, inner in entry.items()}})
            else:
                raise ValueError(f"{key}: expected a part with {', '.join(self.fields)}, got {entry!r}")
        return entries

    def _map(self, entries: list[Any]) -> dict[str, Any]:
        keys = [entry.get(KEY) for entry in entries]
        if None in keys or len(set(keys)) < len(keys):
            raise ValueError(f"expected entries with keys of their own, got {', '.join(map(str, keys))}")
        if "" in self.fields:
            return {entry[KEY]: entry.get(ALONE) for entry in entries}
        return {entry[KEY]: {_name(name): inner for name, inner in entry.items() if name != KEY} for entry in entries}


def field_path(name: str) -> Path:
    """The path of a field within an entry."""
    return (_field(name),) if name else (ALONE,)


def _field(name: str) -> str:
    """A field's name within an entry, where `key` is taken."""
    return name if name.strip("_") != KEY else name + "_"


def _name(field: str) -> str:
    return field if field.strip("_") != KEY else field[:-1]
