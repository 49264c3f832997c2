"""The protocol of composites, and functions for values of any kind: leaves and composites, also within one another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeAlias, runtime_checkable

from kbdisk.entity import Known, Path, show
from kbdisk.entity import Link as LinkValue
from kbdisk.schemas.kinds import Category, Link, Number, Set
from kbdisk.schemas.text.numerals import number

Parts: TypeAlias = dict[Path, Any]  # the leaf values of a composite, by their paths within it

LINKING = (Link, Set)  # kinds of values that may be nodes; a check for a tuple is faster than for a union
EACH = -1  # stands for any place of a list in the path of a leaf


@runtime_checkable
class Composite(Protocol):
    """A kind whose values are made of leaves."""

    def leaves(self) -> dict[Path, Any]:
        """Its parts: paths within it (EACH for any index) -> leaves and composites."""

    def apply(self, value: Any) -> Any:
        """A value of a loader in the one form that `split` takes; ValueError where it does not fit."""

    def split(self, value: Any) -> Parts:
        """The known leaf values of a value."""

    def join(self, parts: Mapping[Path, Any]) -> Any:
        """The value with these leaf values: `join(split(value)) == value`; ValueError where there is none."""


Kind: TypeAlias = Any  # a leaf or a Composite


_IS_COMPOSITE: dict[type[Any], bool] = {}  # by type: a protocol check for each value takes longer than everything else


def is_composite(kind: Kind) -> bool:
    """Whether a kind is a composite."""
    type_ = type(kind)
    if type_ not in _IS_COMPOSITE:
        _IS_COMPOSITE[type_] = issubclass(type_, Composite)
    return _IS_COMPOSITE[type_]


def leaves_of(path: Path, kind: Kind) -> Iterator[tuple[Path, Any]]:
    """The leaves of a kind with their paths under a path; composites within composites have theirs, too."""
    if not is_composite(kind):
        yield path, kind
        return
    for within, inner in kind.leaves().items():
        yield from leaves_of((*path, *within), inner)


def apply_kind(kind: Kind, value: Any) -> Any:
    """A value in the one form of its kind; ValueError where it does not fit."""
    if is_composite(kind):
        return kind.apply(value)
    if isinstance(kind, Number) and isinstance(value, str):
        with suppress(ValueError):  # `check` raises the error
            value = number(value.strip())  # JSON has many a number as a string
    if isinstance(kind, Set) and isinstance(value, list):
        value = [
            apply_kind(kind.of, member)
            for member in value
            if member not in (None, []) and not isinstance(member, Known)
        ]
    elif isinstance(kind, LINKING) and is_node(value) and not isinstance(getattr(kind, "of", None), Category):
        value = LinkValue(value["@id"])  # a node that was read with what it is linked from
    kind.check(value)
    return value


def is_node(value: Any) -> bool:
    """Whether a part has an id of its own, so that it stands for a link to the entity with this id."""
    return isinstance(value, dict) and isinstance(value.get("@id"), str)


def fields_of(part: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a part, without those of JSON-LD; a list of no values is a gap."""
    return {key: None if value == [] else value for key, value in part.items() if key[:1] != "@"}


def split_kind(kind: Kind, value: Any) -> Parts:
    """The leaf values of a value of any kind."""
    return kind.split(value) if is_composite(kind) else {(): value}


def join_kind(kind: Kind, parts: Mapping[Path, Any]) -> Any:
    """The value of any kind with these leaf values."""
    return kind.join(parts) if is_composite(kind) else parts[()]


def within(parts: Mapping[Path, Any], *place: str | int) -> Parts:
    """The leaf values under a place, with paths relative to it."""
    return {path[len(place) :]: value for path, value in parts.items() if path[: len(place)] == place}


def show_pattern(path: Path) -> str:
    """A path of a leaf as text: prizes[].share."""
    return show(path).replace("[-1]", "[]")
