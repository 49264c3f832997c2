"""What an earlier completion filled in an entity: told by comparing what is given with all that is there."""

from __future__ import annotations

from typing import Any

from kbdisk.entity import Coordinate, Entity, Path, Quantity, walk
from kbdisk.loaders.rdf.fold import PLACE
from kbdisk.loaders.rdf.value_nodes import PARTS

Found = dict[Path, Any]


def made(given: Entity, whole: Entity, pair: tuple[str | None, str | None]) -> Found | None:
    """The filled values, where a completion of what is given would put them; `pair` are the keys of geo:lat and geo:long."""
    found: Found = {}
    _compare((), given.tree, whole.tree, found)
    place = found.get((PLACE,))
    if isinstance(place, Coordinate):
        for key, value in zip(pair, (place.latitude, place.longitude), strict=True):
            if key is not None and key not in given.tree:
                found[(key,)] = value
    return found or None


def _compare(path: Path, given: Any, whole: Any, found: Found) -> None:
    if isinstance(given, dict) and isinstance(whole, dict):
        for key, value in whole.items():
            if key[:1] != "@":
                _compare((*path, key), given.get(key), value, found)
    elif given is None:
        found.update(((*path, *rest), value) for rest, value in walk(whole) if value is not None)
    elif isinstance(given, list) or isinstance(whole, list):
        _compare_lists(path, given, whole, found)
    elif given != whole:
        found[path] = whole


def _compare_lists(path: Path, given: Any, whole: Any, found: Found) -> None:
    """What was given is there, perhaps with more in it; the rest was added, wherever it stands."""
    before, rest = given if isinstance(given, list) else [given], whole[:] if isinstance(whole, list) else [whole]
    changed = []
    for i, one in enumerate(before):
        if one in rest:
            rest.remove(one)
        else:
            changed.append((i, one))
    for i, one in changed:
        same = next((later for later in rest if _grew(one, later)), None)
        if same is not None:
            rest.remove(same)
            _compare((*path, i) if isinstance(given, list) else path, one, same, found)
    for i, one in enumerate(rest, len(before)):
        _compare((*path, i), None, one, found)


def _grew(given: Any, whole: Any) -> bool:
    """Whether a value is another with more in it."""
    if isinstance(given, dict) and isinstance(whole, dict):
        return given.get("@id") == whole.get("@id")
    if isinstance(given, Quantity | Coordinate) and type(given) is type(whole):
        return all(getattr(given, part) in (None, getattr(whole, part)) for part in PARTS[type(given)])
    return False
