"""What has to be put where, for a value of which some stands already. What stands there stays as it is.

Paths are from the value on; () is the value itself. Nothing at all is put where all of it is given.
"""

from __future__ import annotations

from typing import Any

from kbdisk.entity import Coordinate, Known, Link, Path
from kbdisk.schemas.composites import EACH, Kind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.kinds import Set
from kbdisk.shapes import leaves
from kbdisk.shapes.scalars import given
from kbdisk.shapes.seeing import NOTHING, Places, is_pair
from kbdisk.shapes.writing import members, write, write_field, write_item

Put = dict[Path, Any]


def fill(places: Places, at: Path, kind: Kind, raw: Any, value: Any) -> Put:
    """What is missing of a value; ValueError where what stands there says otherwise, or has no place for it."""
    if raw is None:
        return {(): write(places, at, kind, value)}
    if isinstance(raw, Known):
        raise ValueError("it is known whether there is a value, and no more of it")
    match kind:
        case Set():
            return _fill_set(places, at, kind, raw, members(value))
        case Listed():
            return _fill_list(places, at, kind, raw, value)
        case Mapped():
            return _fill_map(places, at, kind, raw, value)
    if isinstance(raw, list) and not is_pair(kind, raw):
        return _fill_several(places, at, kind, raw, value)
    return leaves.fill(kind, raw, value, places.habit(at, kind))


def _fill_set(places: Places, at: Path, kind: Set, raw: Any, wanted: list[Any]) -> Put:
    """New members take the blank places, and then follow the last one."""
    there = raw if isinstance(raw, list) else [raw]
    told = [one for one in there if not (one is None or isinstance(one, Known))]
    if any(not _among(one, wanted) for one in told):
        raise ValueError(f"{', '.join(map(_shown, told))} is given, which would not all be among the new ones")
    new = [one for one in wanted if not _among(one, told)]
    if new and not isinstance(raw, list):
        raise given(raw)
    blank = [place for place, one in enumerate(there) if one is None]
    free = [*blank, *range(len(there), len(there) + len(new))]
    return {(place,): write(places, (*at, EACH), kind.of, one) for place, one in zip(free, new, strict=False)}


def _fill_list(places: Places, at: Path, kind: Listed, raw: Any, value: list[Any]) -> Put:
    """Place by place; new ones follow the last one."""
    if not isinstance(raw, list):
        if len(value) != 1:
            raise given(raw)
        return _fill_item(places, (*at, EACH), kind, raw, value[0])
    learnt = len(raw) if kind.most is None else min(len(raw), kind.most)  # of a longer one no more is asked
    if len(value) < learnt and raw != [None]:
        raise ValueError(f"{len(raw)} are given, which {len(value)} would change")
    found: Put = {}
    for place, item in enumerate(value):
        there = raw[place] if place < len(raw) else None
        if item is not None:
            put = _fill_item(places, (*at, EACH), kind, there, item)
            found |= {(place, *within): one for within, one in put.items()}
    return found


def _fill_map(places: Places, at: Path, kind: Mapped, raw: Any, value: dict[str, Any]) -> Put:
    """Entry by entry, by their keys."""
    if not isinstance(raw, dict):
        raise given(raw)
    found: Put = {}
    for key, entry in value.items():
        if entry is not None:
            put = _fill_item(places, (*at, EACH), kind, raw.get(str(key)), entry)
            found |= {(str(key), *within): one for within, one in put.items()}
    return found


def _fill_item(places: Places, at: Path, kind: Listed | Mapped, raw: Any, item: Any) -> Put:
    """One value of a list or map, field by field."""
    if raw is None:
        return {(): write_item(places, at, kind, item)}
    if "" in kind.fields:
        return fill(places, at, kind.fields[""], raw, item)
    if not isinstance(raw, dict) or not isinstance(item, dict):
        if isinstance(raw, Link) and item == {"@id": raw.id}:
            return {}
        if raw == [] and not item:
            return {}
        raise given(raw)
    found: Put = {}
    for key, inner in item.items():
        if inner is None or isinstance(inner, Known):
            continue
        if raw.get(key) is None:
            found[key,] = write_field(places, at, kind, key, inner)
        elif key in kind.fields:
            put = fill(places, (*at, key), kind.fields[key], raw[key], inner)
            found |= {(key, *within): one for within, one in put.items()}
    return found


def _fill_several(places: Places, at: Path, kind: Kind, raw: list[Any], value: Any) -> Put:
    """One value in a list: in the blank place, or in the one that has some of it."""
    told = [place for place, one in enumerate(raw) if one is not None]
    if len(told) == 1 and isinstance(raw[told[0]], dict):
        put = fill(places, at, kind, raw[told[0]], value)
        return {(told[0], *within): one for within, one in put.items()}
    if told or not (raw or places.own.get(at, NOTHING).listed):
        raise given(raw)
    written = write(places, at, kind, value)
    if isinstance(value, Coordinate) and isinstance(written, list) and is_pair(kind, written):
        return {(place,): one for place, one in enumerate(written)}
    return {(0,): written[0] if isinstance(written, list) and not is_pair(kind, written) else written}


def _among(one: Any, others: list[Any]) -> bool:
    return any(leaves.is_same(one, other) for other in others)


def _shown(one: Any) -> str:
    return one.id if isinstance(one, Link) else str(one)
