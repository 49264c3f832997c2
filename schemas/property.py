"""A property: the kind of its values, its role, and the form of one value of it.

`apply_property` brings a value into the form of the property's kind: spellings of a gap become None, and of several values
that one counts which `many` names.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from kbdisk.entity import NOVALUE, Date, Known, Path, Quantity, Tree
from kbdisk.schemas.composites.base import Kind, apply_kind, is_node
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.formula import Formula
from kbdisk.schemas.kinds import MAX_EXACT, Category, Link, Set
from kbdisk.schemas.text.numerals import is_number, is_whole

Role: TypeAlias = Literal["value", "given", "ignore"]
Many: TypeAlias = Literal["", "latest", "first", "median", "all"]

LIST_KINDS = (Set, Listed)  # kinds that take a list as one value
GAP_SPELLINGS = frozenset(  # the usual ones, in data without a schema
    {"", "nan", "NaN", "NAN", "null", "NULL", "None", "N/A", "n/a", "#N/A", "<NA>", "-", "--", "\u2013", "\u2014", "?"}
)


@dataclass(frozen=True)
class Property:
    """The property at a path: its kind, its role, and what must hold of its value."""

    kind: Kind
    role: Role = "value"  # given: an input that is never predicted
    required: bool = False  # completion asks for it where it is absent
    unique: bool = False
    many: Many = ""  # which of several values counts; `all` makes a set of labels or links, and a list of others
    missing: tuple[str, ...] = ()  # spellings of a gap, in addition to the schema's
    novalue: tuple[str, ...] = ()  # spellings of: known not to exist
    formula: Formula | None = None  # of a derived property
    depends: tuple[Path, ...] = ()  # paths of which the value is a function, whichever function it is
    iri: str | None = None
    label: str = ""
    description: str = ""

    def __post_init__(self) -> None:
        if self.many == "all":
            object.__setattr__(self, "kind", all_of(self.kind))
            object.__setattr__(self, "many", "")


def all_of(kind: Kind) -> Kind:
    """The kind of several values of a kind, all of which count."""
    if isinstance(kind, Category | Link):
        return Set(kind)
    return kind if isinstance(kind, Set | Listed) else Listed({"": kind})


def apply_property(property_: Property, value: Any, missing: Collection[str]) -> Any:
    """A value in the form of its property's kind; None where it is a gap; ValueError where it does not fit.

    `missing` are the schema's spellings of a gap.
    """
    if value is None or isinstance(value, Known):
        return value
    kind = property_.kind
    if property_.novalue or property_.missing or missing:
        text = spelling(value)
        if text in property_.novalue:
            return NOVALUE
        if text in property_.missing or text in missing:
            return None
    if isinstance(value, dict) and not isinstance(kind, Mapped) and _is_empty(value) and not _is_link(property_, value):
        return None
    if isinstance(value, list) and not isinstance(kind, LIST_KINDS):
        return _choose_value(property_, value, missing)
    if isinstance(value, list) and isinstance(kind, Set):
        gaps = (*property_.missing, *missing)
        value = [item for item in value if not (isinstance(item, str) and item in gaps)]
    elif isinstance(value, list) and isinstance(kind, Listed) and "" in kind.fields:
        gaps = (*property_.missing, *missing)
        value = [None if spelling(item) in gaps else item for item in value]
    applied = apply_kind(kind, value)
    return [applied] if isinstance(kind, Set) and not isinstance(applied, list) else applied


def with_value(tree: Tree, path: Path, value: Any) -> Tree:
    """A copy of a tree, along the path alone, with a value at the path."""
    key, rest = path[0], path[1:]
    inner = with_value(tree.get(key) or {}, rest, value) if rest else value  # type: ignore[arg-type]
    return {**tree, key: inner}  # type: ignore[dict-item]


def spelling(value: Any) -> str | None:
    """A string or a number as a schema spells it: -1, -999."""
    if isinstance(value, str):
        return value
    if not is_number(value):
        return None
    if -MAX_EXACT < value < MAX_EXACT and is_whole(value):
        return str(int(value))
    return None if isinstance(value, int) else str(value)


def _is_empty(part: Tree) -> bool:
    """Whether nothing in a part is known, which makes the whole part a gap."""
    return all(value is None for key, value in part.items() if key[:1] != "@")


def _is_link(property_: Property, part: Tree) -> bool:
    """Whether a part without properties is the long form of a link."""
    return is_node(part) and isinstance(getattr(property_.kind, "of", property_.kind), Link)


def _choose_value(property_: Property, values: list[Any], missing: Collection[str]) -> Any:
    """The one value that counts of several at a property with a single value."""
    try:
        return apply_kind(property_.kind, values)  # a pair is one coordinate
    except (ValueError, AttributeError):
        pass
    fitting = [value for raw in values if (value := apply_property(property_, raw, missing)) is not None]
    fitting = [value for value in fitting if not isinstance(value, Known)] or fitting[:1]
    if len(fitting) <= 1:
        return fitting[0] if fitting else None
    if not property_.many:
        raise ValueError(f"expected one value, got {len(fitting)}. Say many: first, latest, median or all")
    return _chosen(property_.many, fitting)


def _chosen(many: Many, values: list[Any]) -> Any:
    if many == "latest":
        return max(values, key=_order_key)
    if many == "median":
        numbers = [value for value in values if isinstance(value, int | float | Decimal)]
        return statistics.median_low(numbers) if numbers else sorted(values, key=_order_key)[(len(values) - 1) // 2]
    return values[0]


def _order_key(value: Any) -> Any:
    """Dates by their day, quantities and numbers by their amount; 0 for all others."""
    if isinstance(value, Date):
        return (value.year or 0, value.month or 0, value.day or 0)
    value = value.value if isinstance(value, Quantity) else value
    return value if isinstance(value, int | float | Decimal) else 0
