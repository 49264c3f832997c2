"""One value of a property: gaps by their spelling, one of several, the form of its kind."""

from __future__ import annotations

import statistics
from collections.abc import Collection
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from kbdisk.entity import NOVALUE, Date, Known, Path, Quantity, Tree
from kbdisk.schemas.composites.base import apply_kind, is_node
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.kinds import MAX_EXACT, Link, Set
from kbdisk.schemas.text.numerals import is_whole

if TYPE_CHECKING:
    from kbdisk.schemas.schema import Many, Property

WHOLE = (Set, Listed)  # kinds that take a list as one value


def applied(one: Property, value: Any, missing: Collection[str]) -> Any:
    """A value in the form of its property's kind; None where it is a gap; ValueError where it does not fit."""
    if value is None or isinstance(value, Known):
        return value
    spelt = spelling(value)
    if spelt in one.novalue:
        return NOVALUE
    if spelt in one.missing or spelt in missing:
        return None
    if isinstance(value, dict) and not isinstance(one.kind, Mapped) and _is_empty(value) and not _is_link(one, value):
        return None
    if isinstance(value, list) and not isinstance(one.kind, WHOLE):
        return _one_of_several(one, value, missing)
    if isinstance(value, list) and isinstance(one.kind, Set):
        value = [each for each in value if not (isinstance(each, str) and (each in one.missing or each in missing))]
    elif isinstance(value, list) and isinstance(one.kind, Listed) and "" in one.kind.fields:
        value = [None if spelling(each) in (*one.missing, *missing) else each for each in value]
    applied = apply_kind(one.kind, value)
    return [applied] if isinstance(one.kind, Set) and not isinstance(applied, list) else applied


def with_value(tree: Tree, path: Path, value: Any) -> Tree:
    """A copy of a tree, along the path alone, with a value at it."""
    key, rest = path[0], path[1:]
    inner = with_value(tree.get(key) or {}, rest, value) if rest else value  # type: ignore[arg-type]
    return {**tree, key: inner}  # type: ignore[dict-item]


def spelling(value: Any) -> str | None:
    """A string or a number as a schema spells it: -1, -999."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    if -MAX_EXACT < value < MAX_EXACT and is_whole(value):
        return str(int(value))
    return None if isinstance(value, int) else str(value)


def _is_empty(part: Tree) -> bool:
    """Whether a part is asked for as a whole: nothing in it is known."""
    return all(value is None for key, value in part.items() if key[:1] != "@")


def _is_link(one: Property, part: Tree) -> bool:
    """Whether a part without properties is a link all the same."""
    return is_node(part) and isinstance(getattr(one.kind, "of", one.kind), Link)


def _one_of_several(one: Property, found: list[Any], missing: Collection[str]) -> Any:
    """Several values of a property that has one: which of them counts is told by `many`."""
    try:
        return apply_kind(one.kind, found)  # a pair is one coordinate
    except (ValueError, AttributeError):
        pass
    fitting = [value for each in found if (value := applied(one, each, missing)) is not None]
    fitting = [value for value in fitting if not isinstance(value, Known)] or fitting[:1]
    if len(fitting) <= 1:
        return fitting[0] if fitting else None
    if not one.many:
        raise ValueError(f"expected one value, got {len(fitting)}. Say many: first, latest, median or all")
    return _chosen(one.many, fitting)


def _chosen(many: Many, found: list[Any]) -> Any:
    if many == "latest":
        return max(found, key=_moment)
    if many == "median":
        numbers = [value for value in found if isinstance(value, int | float | Decimal)]
        return statistics.median_low(numbers) if numbers else sorted(found, key=_moment)[(len(found) - 1) // 2]
    return found[0]


def _moment(value: Any) -> Any:
    if isinstance(value, Date):
        return (value.year or 0, value.month or 0, value.day or 0)
    value = value.value if isinstance(value, Quantity) else value
    return value if isinstance(value, int | float | Decimal) else 0
