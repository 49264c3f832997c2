"""What a whole value is written as, where nothing of it stands yet."""

from __future__ import annotations

from typing import Any

from kbdisk.entity import Path
from kbdisk.schemas.composites import EACH, Kind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.kinds import Set
from kbdisk.shapes import leaves
from kbdisk.shapes.habit import Habit
from kbdisk.shapes.seeing import NOTHING, Places


def write(places: Places, at: Path, kind: Kind, value: Any) -> Any:
    """A value as those at its place are; ValueError where they are of no form that can say it."""
    habit = places.own.get(at, NOTHING)
    match kind:
        case Set():
            return _list([write(places, (*at, EACH), kind.of, one) for one in members(value)], habit)
        case Listed():
            return _list([write_item(places, (*at, EACH), kind, one) for one in value], habit)
        case Mapped():
            return {str(key): write_item(places, (*at, EACH), kind, entry) for key, entry in value.items()}
    return habit.with_one(leaves.write(kind, value, places.habit(at, kind)))


def write_item(places: Places, at: Path, kind: Listed | Mapped, item: Any) -> Any:
    """One value of a list or map: a part with its fields, or a value of the one kind."""
    if item is None:
        return None
    if "" in kind.fields:
        return write(places, at, kind.fields[""], item)
    if item == {} and places.own.get(at, NOTHING).empty:
        return []
    if not isinstance(item, dict):
        return item
    known = {key: write_field(places, at, kind, key, inner) for key, inner in item.items() if inner is not None}
    return places.own.get(at, NOTHING).ordered(known)


def write_field(places: Places, at: Path, kind: Listed | Mapped, key: str, value: Any) -> Any:
    """A value under a key; where no field is for it, as it is."""
    return write(places, (*at, key), kind.fields[key], value) if key in kind.fields else value


def members(value: Any) -> list[Any]:
    """The members of a set, in an order that is always the same."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return list(value) if isinstance(value, list | tuple) else [value]


def _list(raw: list[Any], habit: Habit) -> Any:
    if not raw and not habit.empty:
        raise ValueError("there are none, which this knowledge base never says of it")
    return raw[0] if len(raw) == 1 and habit.alone > habit.listed else raw
