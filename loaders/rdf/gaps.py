"""Where in a graph a path of an entity leads: the node that lacks something, and what it lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kbdisk.entity import Completion, Coordinate, Path, Quantity
from kbdisk.loaders.kb import GIVEN
from kbdisk.loaders.rdf.value_nodes import PARTS

MADE = "was filled before; take that block out of the source to fill it again"


@dataclass
class Gap:
    """A node and the key under which something is missing: a value, a list of them, or a part as a dict."""

    node: str
    key: str
    value: Any
    path: Path  # of the place that is filled: what leads into the same one is one gap
    given: Any = None  # the value that is there in part
    paths: list[Path] = field(default_factory=list)  # that lead here


def gaps_of(completion: Completion, key_of: Callable[[str], str] = str) -> tuple[list[Gap], list[tuple[Path, str]]]:
    """The gaps that a completion fills, and the paths that lead to none, each with the reason.

    `key_of` tells the name in a tree of a property that is called something else, such as by its IRI.
    """
    entity = completion.entity
    gaps: dict[Path, Gap] = {}
    refused: list[tuple[Path, str]] = []
    for path, filled in completion.filled.items():
        try:
            called = tuple(key_of(key) if isinstance(key, str) else key for key in path)
            gap = _gap(entity.id, entity.tree, (), called, filled.value)
            if any(one[: len(gap.path)] == gap.path for one in entity.made or ()):
                raise ValueError(MADE)
        except ValueError as error:
            refused.append((path, str(error)))
            continue
        known = gaps.setdefault(gap.path, gap)
        known.paths.append(path)
        if known is not gap:
            known.value = _merged(known.value, gap.value)
    for gap in gaps.values():
        gap.value = _with_lists(gap.value)
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
        if rest[0] >= len(values):
            return Gap(node, key, _nested(rest[1:], value), (*here, rest[0]))
        here = (*here, rest[0]) if isinstance(known, list) else here
        known, rest = values[rest[0]], rest[1:]
    if isinstance(known, Quantity | Coordinate):
        return Gap(node, key, _completed(known, rest, value), here, known)
    if rest and isinstance(known, list):
        raise ValueError(f"has several values; say which, such as {key}[0]")
    if not rest or not isinstance(known, dict):
        raise ValueError(GIVEN)
    if "@id" not in known:
        raise ValueError("stands within a value that has no node of its own")
    return _gap(known["@id"], known, here, rest, value)


def _nested(rest: Path, value: Any) -> Any:
    """A value with the way to it; a list on the way is a dict by its indices, so that two ways can be merged."""
    for key in reversed(rest):
        value = {key: value}
    return value


def _with_lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(isinstance(key, int) for key in value):
        return [_with_lists(value[key]) for key in sorted(value)]
    return {key: _with_lists(one) for key, one in value.items()}


def _completed(known: Any, rest: Path, value: Any) -> Any:
    """A value that is there in part, with the part that was missing."""
    if rest:
        if len(rest) > 1 or rest[0] not in PARTS[type(known)]:
            raise ValueError(f"expected one of {', '.join(PARTS[type(known)])}")
        if getattr(known, str(rest[0])) is not None:
            raise ValueError(GIVEN)
        return replace(known, **{str(rest[0]): value})
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
    if isinstance(here, Quantity | Coordinate) and type(here) is type(more):
        return replace(here, **{key: one for key in PARTS[type(here)] if (one := getattr(more, key)) is not None})
    return more
