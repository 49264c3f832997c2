"""Alternatives of a JSON Schema (anyOf, oneOf): which of them are gaps, which say the same, and the one kind of the others.

Gaps are null, parts and lists with nothing but gaps in them, and what the export marks as a spelling of one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kbdisk.schemas.composites import Kind
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.imported import distinct
from kbdisk.schemas.infer.strings import GAPS
from kbdisk.schemas.jsonhints import GAP, HINT, NOVALUE, SEVERAL, kind_told
from kbdisk.schemas.kinds import Boolean, Category, Link, Number, Set, Text
from kbdisk.schemas.property import spelling

if TYPE_CHECKING:
    from kbdisk.schemas.jsonnodes import Document, Node

ASIDE = "^@"
NUMERALS = ("5", "12"), ("x", "", "5 x")  # what the pattern of numbers as text fits, and what not
WHOLES = (Quantity, Date, Coordinate)
SCALARS = (Number, Category, Boolean, Text, Link)


# ---------------------------------------------------------------- gaps


def is_gap(document: Document, node: Node) -> bool:
    """Whether nothing but a gap fits."""
    told = node.told
    if node.either:
        return False
    if node.is_null() or told.get("enum") == [] or kind_told(told) in (GAP, NOVALUE):
        return True
    if None in told.get("enum", ()) and all(value in GAPS for value in told["enum"] if value is not None):
        return True
    if told.get("type") == "object":
        extra = told.get("additionalProperties")
        nothing = extra is False or (isinstance(extra, dict) and document.node(extra, node.place, node).is_null())
        return nothing and "properties" not in told and set(told.get("patternProperties", ())) <= {ASIDE}
    if told.get("type") == "array":
        items = told.get("items")
        return told.get("maxItems") == 0 or (
            isinstance(items, dict) and is_gap(document, document.node(items, node.place, node))
        )
    return False


def without_gaps(document: Document, node: Node, parts: Sequence[Node]) -> tuple[Node, list[Node]]:
    """A node that knows the spellings of gaps among its alternatives, and the alternatives that are values."""
    gaps = [part for part in parts if is_gap(document, part)]
    values = [part for part in parts if not any(part is gap for gap in gaps)]
    for gap in gaps:
        spelt = tuple(value for value in gap.told.get("enum", ()) if isinstance(value, str))
        if kind_told(gap.told) == NOVALUE:
            node = replace(node, novalue=(*node.novalue, *spelt))
        else:
            node = replace(node, missing=(*node.missing, *spelt))
    several = [part for part in values if _is_one_of_several(part)]
    if several and len(several) < len(values):
        values = [part for part in values if not any(part is one for one in several)]
        many = next((told for one in several if isinstance(told := one.told.get(HINT, {}).get("many"), str)), "")
        node = replace(node, many=many or node.many)
    plain = [part for part in values if not is_node(part)]
    return node, plain or values


def is_node(node: Node) -> bool:
    """Whether it is a part with nothing but an id and the like: the long form of a link."""
    return (
        node.is_part() and "@id" in node.told["properties"] and all(name[:1] == "@" for name in node.told["properties"])
    )


def _is_one_of_several(node: Node) -> bool:
    """Whether it is a list of values of which one counts."""
    told = node.told
    one = 1 in (told.get("maxItems"), told.get("maxContains")) and kind_told(told) != "set"
    return "array" in node.types() and (kind_told(told) == SEVERAL or one)


# ---------------------------------------------------------------- parts


def one_part(nodes: Sequence[Node]) -> list[Node]:
    """With parts of several shapes as one that has all their properties."""
    parts = [node for node in nodes if node.is_part()]
    if len(parts) < 2:
        return list(nodes)
    properties: dict[str, Any] = {}
    for part in parts:
        for name, told in part.told["properties"].items():
            properties[name] = {"anyOf": [properties[name], told]} if name in properties else told
    always = set.intersection(*(set(part.told.get("required", ())) for part in parts))
    hints = [part.told[HINT] for part in parts if HINT in part.told]
    told = {"type": "object", "properties": properties, "required": [name for name in properties if name in always]}
    told |= {HINT: hints[0]} if hints and all(one == hints[0] for one in hints) else {}
    whole = replace(parts[0], told=told, refs=frozenset().union(*(part.refs for part in parts)))
    return [whole, *(node for node in nodes if not node.is_part())]


# ---------------------------------------------------------------- values


def united(found: Sequence[tuple[Node, Kind]]) -> Kind | None:
    """The one kind that takes the values of all alternatives; None where there is none."""
    kinds = [kind for _, kind in found]
    different = [kind for number, kind in enumerate(kinds) if kind not in kinds[:number]]
    if len(different) <= 1:
        return different[0] if different else None
    lists = [kind for kind in different if isinstance(kind, Set | Listed)]
    if lists == [Listed({"": Number()})] and Coordinate() in different:
        lists, different = [], [kind for kind in different if kind not in lists]  # a pair
    if lists:
        return _list(lists, found) or (_of_parts(lists) if len(lists) == len(different) else None)
    if any(isinstance(kind, Mapped) for kind in different):
        return None
    return _whole(found, different) or _number(found, different) or _scalar(different)


def constants(found: Sequence[tuple[Node, Kind]]) -> tuple[list[tuple[Node, Kind]], tuple[str, ...]]:
    """The alternatives without those words that stand beside numbers, dates, ... alone; and these words: unknown, N/A."""
    words = [kind for node, kind in found if _is_words(node, kind)]
    others = [
        (node, kind) for node, kind in found if not _is_words(node, kind) and getattr(kind, "of", None) not in words
    ]
    whole = any(isinstance(kind, WHOLES) for _, kind in others)
    if not others or not all(
        _is_no_word(kind) or (isinstance(kind, Text) and (whole or is_numeral(node))) for node, kind in others
    ):
        return list(found), ()
    items = [kind.fields.get("") for _, kind in others if isinstance(kind, Listed)]
    if any(item in words or getattr(item, "of", None) in words for item in items if item is not None):
        return list(found), ()
    spelt = (value for kind in words for value in kind.values)
    return others, tuple(dict.fromkeys(text for value in spelt if (text := spelling(value)) is not None))


def _is_words(node: Node, kind: Kind) -> bool:
    """Whether labels are no numbers; beside null even numbers are but spellings of it."""
    if not (isinstance(kind, Category) and kind.closed):
        return False
    return None in node.told["enum"] or all(isinstance(value, str) for value in kind.values)


def _is_no_word(kind: Kind) -> bool:
    return isinstance(kind, (Number, Boolean, Mapped, Listed, *WHOLES))


def is_numeral(node: Node) -> bool:
    """Whether the text that fits is a number."""
    try:
        pattern = re.compile(node.told.get("pattern", ""))
    except (re.error, TypeError, OverflowError, RecursionError):
        return False
    return all(map(pattern.search, NUMERALS[0])) and not any(map(pattern.search, NUMERALS[1]))


def _list(lists: Sequence[Set | Listed], found: Sequence[tuple[Node, Kind]]) -> Kind | None:
    """A list, where one of its items may stand for it."""
    for one in lists:
        item = united([(node, kind) for node, kind in found if kind != one])
        if item is not None and _is_item(item, one):
            return one
    return None


def _of_parts(lists: Sequence[Set | Listed]) -> Listed | None:
    """A list of parts, where one of them alone may stand for it."""
    same = [kind for kind in lists if isinstance(kind, Listed) and kind.fields == getattr(lists[0], "fields", None)]
    return max(same, key=lambda one: one.most != 1, default=None) if len(same) == len(lists) else None


def _is_item(kind: Kind, of: Set | Listed) -> bool:
    if isinstance(of, Set):
        return kind == of.of or (isinstance(kind, Text) and of.of == Category())
    return bool(kind == of.fields.get(""))


def _whole(found: Sequence[tuple[Node, Kind]], different: Sequence[Kind]) -> Kind | None:
    """A quantity, date or place, where the others are ways to write it. A bare number tells the bounds of a quantity."""
    wholes = [kind for kind in different if isinstance(kind, WHOLES)]
    rest = [kind for kind in different if not isinstance(kind, WHOLES)]
    if len(wholes) != 1 or not all(isinstance(kind, Number | Text) for kind in rest):
        return None
    whole, numbers = wholes[0], [kind for kind in rest if isinstance(kind, Number)]
    if isinstance(whole, Date) and any(_is_any_text(node) for node, kind in found if kind in rest):
        return None
    return replace(whole, value=numbers[0]) if isinstance(whole, Quantity) and len(numbers) == 1 else whole


def _is_any_text(node: Node) -> bool:
    return "pattern" not in node.told and "string" in node.types()


def _number(found: Sequence[tuple[Node, Kind]], different: Sequence[Kind]) -> Kind | None:
    """Numbers of several ranges, or written as text, too."""
    numbers = [kind for kind in different if isinstance(kind, Number)]
    others = [node for node, kind in found if not isinstance(kind, Number)]
    if not numbers or not all(map(is_numeral, others)):
        return None
    first, *more = numbers
    for one in more:
        first = Number(
            first.integer and one.integer,
            None if None in (first.minimum, one.minimum) else min(first.minimum, one.minimum),  # type: ignore[type-var]
            None if None in (first.maximum, one.maximum) else max(first.maximum, one.maximum),  # type: ignore[type-var]
            decimals=first.decimals if first.decimals == one.decimals else None,
        )
    return first


def _scalar(different: Sequence[Kind]) -> Kind | None:
    """Texts of several lengths; labels, of which some are named; any other mixture as labels."""
    if all(isinstance(kind, Text | Date) for kind in different):
        texts = [kind for kind in different if isinstance(kind, Text)]
        longest = [one.max_length for one in texts]
        plain = len(texts) == len(different)
        return Text(
            None,
            None if None in longest or not plain else max(longest),  # type: ignore[type-var]
            min(one.min_length for one in texts) if plain else 0,
        )
    if not all(isinstance(kind, SCALARS) for kind in different):
        return None
    labels = [value for kind in different if isinstance(kind, Category) for value in kind.values]
    closed = all(isinstance(kind, Category) and kind.closed for kind in different)
    return Category(distinct(labels), closed)
