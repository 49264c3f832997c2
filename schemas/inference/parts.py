"""Parts that are more than parts: a date, a place, a quantity, or a map whose keys are labels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from kbdisk.schemas.composites.coordinate import NAMES, Coordinate
from kbdisk.schemas.composites.date import NUMBERS, Date
from kbdisk.schemas.composites.quantity import UNIT_NAMES, VALUE_NAMES
from kbdisk.schemas.inference.decision import Decision, counted, percent
from kbdisk.schemas.inference.nodes import Node
from kbdisk.schemas.inference.numbers import number_leaf
from kbdisk.schemas.inference.units import quantity_in, remark

MANY_UNITS = 30
CODE = re.compile(r"[a-z]{2,3}(?:[-_]\w{2,8})?|[A-Z]{2,4}|[A-Z]?\d+|\d{4}-\d\d(?:-\d\d)?|\W+")
CODES = 8  # keys, all codes, that are taken for labels even where every part has all of them
VARY = 0.5  # the share of its keys that a part has on average, below which they are labels
FEWEST = 4


def date_of_parts(node: Node) -> Decision | None:
    """A date, where the parts are year, month and day."""
    names = set(node.children)
    if "year" not in names or not names <= set(NUMBERS) or len(names) < 2:
        return None
    bounds = {"month": (1, 12), "day": (1, 31)}
    for name, child in node.children.items():
        low, high = bounds.get(name, (None, None))
        facts = child.facts
        bad = child.parts or child.lists or set(facts.count) - {"number"} or not facts.whole
        if bad or (low is not None and facts.low is not None and (facts.low < low or facts.high > high)):
            return None
    parts = tuple(name for name in NUMBERS if name in names)
    return Decision(Date(parts=parts), f"parts {', '.join(parts)}: a date")


def place_of_parts(node: Node) -> Decision | None:
    """A place, where the parts are latitude and longitude, whatever they are called."""
    told = sorted(NAMES.get(name, "") for name in node.children)
    numbers = all(_numeric(child) for child in node.children.values())
    if told != ["latitude", "longitude"] or not numbers or not _in_degrees(node):
        return None
    return Decision(Coordinate(), f"parts {' and '.join(node.children)}: a place")


def quantity_of_parts(node: Node) -> Decision | None:
    """A quantity, where the parts are a value and a unit, or an amount and a currency."""
    names = _value_and_unit(node)
    if names is None:
        return None
    value, unit = (node.children[name] for name in names)
    labels = unit.facts.labels_of("text")
    strings = set(unit.facts.count) == {"text"} and not unit.parts and not unit.lists
    if not strings or not labels.exact or labels.distinct() > MANY_UNITS:
        return None
    units = Counter({one: count for one, count in labels.counts.items() if one})  # a blank one is none
    leaf = number_leaf(value.facts.low, value.facts.whole, value.facts.labels_of("number"))
    bare = len(units) > 1 and unit.filled < node.parts
    kind = quantity_in(units, leaf, bare, names)
    return Decision(kind, f"parts {' and '.join(names)}: a quantity{remark(kind.factors, kind.unit)}")


def _value_and_unit(node: Node) -> tuple[str, str] | None:
    """What the number and the unit of parts that have nothing else are called."""
    if len(node.children) != 2:
        return None
    values, units = ([name for name in node.children if name in known] for known in (VALUE_NAMES, UNIT_NAMES))
    return (values[0], units[0]) if values and units and _numeric(node.children[values[0]]) else None


def keys_are_labels(node: Node) -> str:
    """Why the keys of a part are labels and no names; empty where they are names."""
    keys = list(node.children)
    if node.rest is not None:
        return f"more than {len(keys):,} different keys: they are labels"
    filled = [child for child in node.children.values() if child.filled]
    if len(filled) < FEWEST or not alike(filled):
        return ""
    share = sum(child.filled for child in filled) / (len(filled) * node.parts)
    coded = all(map(CODE.fullmatch, keys))
    told = f"{counted(len(keys), 'different key')} such as {keys[0]}, {percent(share)} of them in each: they are labels"
    if share < VARY and (coded or len(keys) > 4 * CODES or share < 0.1):
        return told
    return told if coded and len(keys) >= CODES else ""


def labels_within(node: Node) -> Iterator[str]:
    """The keys of all maps within a part that are labels."""
    for child in node.children.values():
        if child.parts and keys_are_labels(child):
            yield from child.children
        yield from labels_within(child)


def alike(nodes: list[Node]) -> bool:
    """Whether values are alike: the same families, or parts with mostly the same keys."""
    nodes = [node for node in nodes if node.filled]
    shapes = {_shape(node) for node in nodes}
    if len(shapes) != 1:
        return False
    if "part" not in shapes:
        return True
    names = [set(node.children) for node in nodes]
    usual = set.union(*names)
    return sum(len(one) for one in names) >= VARY * len(usual) * len(names)


def _shape(node: Node) -> str:
    if node.parts or node.lists:
        return "part" if node.parts else "list"
    return next(iter(dict(node.facts.shares())))


def _numeric(node: Node) -> bool:
    return set(node.facts.count) <= {"number"} and not node.parts and not node.lists


def _in_degrees(node: Node) -> bool:
    for name, child in node.children.items():
        low, high = (-90, 90) if NAMES[name] == "latitude" else (-180, 360)
        if child.facts.low is None or child.facts.low < low or child.facts.high > high:
            return False
    return True
