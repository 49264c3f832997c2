"""Maps over all quantities within a kind or a value, also those in lists and maps. Paths are those of leaves, without the last key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kbdisk.entity import Path
from kbdisk.entity import Quantity as Amount
from kbdisk.schemas.composites.base import EACH, Kind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped, field_path
from kbdisk.schemas.composites.quantity import Quantity


def map_quantities(kind: Kind, change: Callable[[Path, Quantity], Quantity], path: Path = ()) -> Kind:
    """A kind with each quantity in it replaced; its path has EACH for any place of a list."""
    if isinstance(kind, Quantity):
        return change(path, kind)
    if not isinstance(kind, Listed | Mapped):
        return kind
    fields = {
        name: map_quantities(inner, change, (*path, EACH, *_field(kind, name))) for name, inner in kind.fields.items()
    }
    same = all(fields[name] is inner for name, inner in kind.fields.items())
    return kind if same else replace(kind, fields=fields)


def map_amounts(kind: Kind, value: Any, change: Callable[[Path, Quantity, Amount], Amount], path: Path = ()) -> Any:
    """A value in the form of its kind with each amount in it replaced."""
    if isinstance(kind, Quantity):
        return change(path, kind, value) if isinstance(value, Amount) else value
    if isinstance(kind, Listed) and isinstance(value, list):
        return [_item(kind, item, change, (*path, place)) for place, item in enumerate(value)]
    if isinstance(kind, Mapped) and isinstance(value, dict):
        places = {key: place for place, key in enumerate(key for key in value if key[:1] != "@")}
        return {
            key: _item(kind, entry, change, (*path, places[key])) if key in places else entry
            for key, entry in value.items()
        }
    return value


def _item(kind: Listed | Mapped, item: Any, change: Callable[[Path, Quantity, Amount], Amount], path: Path) -> Any:
    if "" in kind.fields:
        return map_amounts(kind.fields[""], item, change, (*path, *_field(kind, "")))
    if not isinstance(item, dict):
        return item
    return {
        name: map_amounts(kind.fields[name], inner, change, (*path, *_field(kind, name)))
        if name in kind.fields
        else inner
        for name, inner in item.items()
    }


def _field(kind: Listed | Mapped, name: str) -> Path:
    """The path of a field within an item."""
    if isinstance(kind, Mapped):
        return field_path(name)
    return (name,) if name else ()
