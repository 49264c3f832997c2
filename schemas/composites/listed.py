"""Lists of parts or values: as leaves a count, and the leaves of each item by its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbdisk.entity import Known, Link, Path
from kbdisk.schemas.composites.base import EACH, Kind, Parts, apply_kind, join_kind, split_kind, within
from kbdisk.schemas.kinds import EXACT_NUMBER, Number, Set

COUNT = ("count",)


@dataclass(frozen=True)
class Listed:
    """A list of parts with these fields, or (with the one field "") of values of one kind; at most `most` are learnt."""

    fields: Mapping[str, Kind]
    most: int | None = None

    def leaves(self) -> dict[Path, Any]:
        """The count, and the fields of each item."""
        inner: dict[Path, Any] = {(EACH, *_key(name)): kind for name, kind in self.fields.items()}
        return {COUNT: Number(integer=True, minimum=0, maximum=self.most, tolerance=EXACT_NUMBER), **inner}

    def apply(self, value: Any) -> list[Any]:
        """A list; a value that is no list becomes a list of one."""
        return [self._item(item) for item in (value if isinstance(value, list) else [value])]

    def split(self, value: list[Any]) -> Parts:
        """The count and the known values of each part; values of unknown keys are carried along as they are."""
        parts: Parts = {COUNT: len(value)}
        for place, item in enumerate(value):
            named = isinstance(item, dict) and "" not in self.fields
            for key, inner in item.items() if named else [("", item)]:
                if inner is not None and not isinstance(inner, Known):
                    leaves = split_kind(self.fields[key], inner) if key in self.fields else {(): inner}
                    parts |= {(place, *([key] if named else []), *path): leaf for path, leaf in leaves.items()}
        return parts

    def join(self, parts: Mapping[Path, Any]) -> list[Any]:
        """As many parts as the count, each with its known values."""
        places = {path[0] for path in parts if isinstance(path[0], int)}
        count = parts.get(COUNT, max(places, default=-1) + 1)
        if places and max(places) >= count:
            raise ValueError(f"expected {count} parts, got one at {max(places)}")
        return [self._joined(within(parts, place)) for place in range(int(count))]

    def _item(self, item: Any) -> Any:
        if item is None or isinstance(item, Known):
            return item
        if "" in self.fields:
            return None if item == [] and not self._of_lists("") else apply_kind(self.fields[""], item)
        if isinstance(item, Link):
            return {"@id": item.id}  # a part that is given elsewhere
        if item == []:
            return {}  # an empty part, as PHP writes it
        if not isinstance(item, dict):
            raise ValueError(f"expected a part with {', '.join(self.fields)}, got {item!r}")
        return {key: self._field(key, value) for key, value in item.items()}

    def _of_lists(self, field: str) -> bool:
        """Whether an empty list is a value of a field, instead of a gap."""
        return isinstance(self.fields[field], Listed | Set)

    def _field(self, key: str, value: Any) -> Any:
        if key not in self.fields or value is None or isinstance(value, Known):
            return value
        if value == [] and not self._of_lists(key):
            return None
        try:
            return apply_kind(self.fields[key], value)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None

    def _joined(self, parts: Parts) -> Any:
        if "" in self.fields:
            return join_kind(self.fields[""], parts) if parts else None
        names = dict.fromkeys(str(path[0]) for path in parts)
        return {
            name: join_kind(self.fields[name], within(parts, name)) if name in self.fields else parts[(name,)]
            for name in names
        }


def _key(name: str) -> tuple[str, ...]:
    return (name,) if name else ()
