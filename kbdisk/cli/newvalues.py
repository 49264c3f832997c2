"""The file that `kbdisk write --values` takes: one new value a line, checked against the source before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbdisk.entity import Completion, Entity, Filled, Path, read_path, show
from kbdisk.errors import LoadError

if TYPE_CHECKING:
    from kbdisk.loaders import KB

FORM = '{"id": "...", "path": "launch.year", "value": 1999}'

MAX_EMPTY_PLACES = 1000  # of a list, between its last value and a new one

New = dict[Path, tuple[int, Any]]  # a path -> the line it stands in, its value


def new_values(name: str, kb: KB) -> list[Completion]:
    """A completion for each entity that gets new values, in the order of the source."""
    news = _read(name)
    found: dict[str, Completion] = {}
    is_numbered = False
    for entity in kb:
        is_numbered = is_numbered or entity.nameless
        new = news.get(entity.id)
        if new is None:
            continue
        if entity.id in found:
            line = next(iter(new.values()))[0]
            raise LoadError(
                name, f"{kb.name} has more than one entity {entity.id!r}. Say --id to tell them apart.", line
            )
        found[entity.id] = _completion(name, entity, new)
    for id in news.keys() - found.keys():
        line = next(iter(news[id].values()))[0]
        advice = "Entities without an id count from 1" if is_numbered else "See how ids look with: kbdisk inspect"
        raise LoadError(name, f"expected the id of an entity of {kb.name}, got {id!r}. {advice}.", line)
    return list(found.values())


def _read(name: str) -> dict[str, New]:
    from kbdisk import loaders

    news: dict[str, New] = {}
    for entity in loaders.load(name, format="jsonl"):
        line = entity.position
        tree = entity.tree
        if tree.keys() != {"id", "path", "value"} or type(tree["path"]) is not str:
            raise LoadError(name, f"expected {FORM}, got the keys {', '.join(tree)}.", line)
        try:
            path = read_path(tree["path"])
        except ValueError as error:
            raise LoadError(name, f"{error}.", line) from None
        new = news.setdefault(entity.id, {})
        if path in new:
            raise LoadError(
                name, f"{show(path)} of {entity.id!r} has a value in line {new[path][0]} already. Leave one out.", line
            )
        if tree["value"] is None or not path:
            raise LoadError(name, f"expected a {'path' if not path else 'value'}, got none. Leave the line out.", line)
        new[path] = (line, tree["value"])
    return news


def _completion(name: str, entity: Entity, new: New) -> Completion:
    completion = Completion(entity)
    _refuse_within_each_other(name, entity, new)
    for path, (line, value) in new.items():
        _fits(name, entity, path, line)
        completion.filled[path] = Filled(value)
    return completion


def _refuse_within_each_other(name: str, entity: Entity, new: New) -> None:
    """Refuse a path that leads through another new value, or into what is a list by one path and a part by another."""
    first: dict[Path, tuple[int, Path]] = {}  # a path that others lead through -> the first of these
    for path, (line, _) in new.items():
        for length in range(1, len(path)):
            before, other = first.setdefault(path[:length], (line, path))
            if path[:length] in new:
                before, other = new[path[:length]][0], path[:length]
            elif isinstance(path[length], int) is isinstance(other[length], int):
                continue
            problem = f"{show(path)} of {entity.id!r} and {show(other)} in line {before} cannot both be. Leave one out."
            raise LoadError(name, problem, line)


def _fits(name: str, entity: Entity, path: Path, line: int) -> None:
    """Refuse a path that leads through something that is neither a part nor a list."""
    place: Any = entity.tree
    for count, key in enumerate(path):
        listed = isinstance(key, int)
        fits = isinstance(place, list if listed else dict)
        if not fits:
            kind = "a list" if listed else "a part"
            here = show(path[:count]) or "the entity"
            problem = f"{show(path)}: expected {kind} at {here} of {entity.id!r}, got {place!r}. Mend the path."
            raise LoadError(name, problem, line)
        if isinstance(key, int) and key > len(place) + MAX_EMPTY_PLACES:
            raise LoadError(name, _too_far(path, count, len(place)), line)
        try:
            place = place[key]
        except LookupError:  # made when it is written
            place = None
        if place is None:
            _refuse_far_places(name, path, count + 1, line)
            return


def _refuse_far_places(name: str, path: Path, start: int, line: int) -> None:
    """Refuse a place far behind the end of a list that is yet to be made."""
    for count, key in enumerate(path[start:], start):
        if isinstance(key, int) and key > MAX_EMPTY_PLACES:
            raise LoadError(name, _too_far(path, count, 0), line)


def _too_far(path: Path, count: int, length: int) -> str:
    held = f"{length:,} value{'' if length == 1 else 's'}"
    return f"{show(path)}: expected a place near the end of {show(path[:count])}, which has {held}. Mend the path."
