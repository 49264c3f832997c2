"""Where in a graph a path of an entity leads: the node that lacks something, and what it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kbdisk.entity import Completion, Coordinate, Path, Quantity

PARTS = {Quantity: ("value", "unit"), Coordinate: ("latitude", "longitude")}


GIVEN = "has a value already, and given values are never changed"


@dataclass
class Gap:
    """A node and the key under which something is missing: a value, or a part as a dict."""

    node: str
    key: str
    value: Any
    path: Path  # of the place that is filled: what leads into the same one is one gap
    completes: bool = False  # a value that is there in part
    paths: list[Path] = field(default_factory=list)  # that lead here


def gaps_of(completion: Completion) -> tuple[list[Gap], list[tuple[Path, str]]]:
    """The gaps that a completion fills, and the paths that lead to none, each with the reason."""
    entity = completion.entity
    gaps: dict[Path, Gap] = {}
    refused: list[tuple[Path, str]] = []
    for path, filled in completion.filled.items():
        try:
            if entity.made and path in entity.made:
                raise ValueError("was filled before; take that block out of the source to fill it again")
            gap = _gap(entity.id, entity.tree, (), path, filled.value)
        except ValueError as error:
            refused.append((path, str(error)))
            continue
        known = gaps.setdefault(gap.path, gap)
        known.paths.append(path)
        if known is not gap:
            known.value = _merged(known.value, gap.value)
    return list(gaps.values()), refused


def _gap(node: str, tree: Mapping[str, Any], before: Path, path: Path, value: Any) -> Gap:
    """The gap that a path leads to from a node; `before` is the way there."""
    if not path or not isinstance(path[0], str):
        raise ValueError("expected the name of a property")
    key, rest, here = path[0], path[1:], (*before, path[0])
    known = tree.get(key)
    if known is None:
        return Gap(node, key, _nested(rest, value), here)
    if rest and isinstance(rest[0], int):
        values = known if isinstance(known, list) else [known]
        here = (*here, rest[0])
        if rest[0] >= len(values):
            return Gap(node, key, _nested(rest[1:], value), here)
        known, rest = values[rest[0]], rest[1:]
    if isinstance(known, Quantity | Coordinate):
        return Gap(node, key, _completed(known, rest, value), here, completes=True)
    if not rest or not isinstance(known, dict):
        raise ValueError(GIVEN)
    if "@id" not in known:
        raise ValueError("stands within a value that has no node of its own")
    return _gap(known["@id"], known, here, rest, value)


def _nested(rest: Path, value: Any) -> Any:
    for key in reversed(rest):
        value = [value] if isinstance(key, int) else {key: value}
    return value


def _completed(known: Any, rest: Path, value: Any) -> Any:
    """A value that is there in part, with the part that was missing."""
    if rest:
        if len(rest) > 1 or rest[0] not in PARTS[type(known)]:
            raise ValueError(f"expected one of {', '.join(PARTS[type(known)])}")
        if getattr(known, rest[0]) is not None:
            raise ValueError(GIVEN)
        return replace(known, **{rest[0]: value})
    if type(value) is not type(known):
        raise ValueError(GIVEN)
    given = {name: one for name in PARTS[type(known)] if (one := getattr(known, name)) is not None}
    if len(given) == len(PARTS[type(known)]) or any(getattr(value, name) != one for name, one in given.items()):
        raise ValueError(GIVEN)
    return value


def _merged(here: Any, more: Any) -> Any:
    """Two values of one gap: parts are put together, a later value takes the place of an earlier one."""
    if isinstance(here, dict) and isinstance(more, dict):
        return here | {key: _merged(here[key], value) if key in here else value for key, value in more.items()}
    return here + more if isinstance(here, list) and isinstance(more, list) else more
