"""What stands at a path as a whole: a value, several, a composite, a map, a list of parts, or parts with paths of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kbdisk.entity import Path
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.inference.decision import NOTHING_TO_LEARN, Decision, counted, percent
from kbdisk.schemas.inference.links import Targets
from kbdisk.schemas.inference.nodes import DEEPEST, Node, merged
from kbdisk.schemas.inference.parts import (
    alike,
    date_of_parts,
    keys_are_labels,
    labels_within,
    place_of_parts,
    quantity_of_parts,
)
from kbdisk.schemas.inference.scalars import scalar_decision
from kbdisk.schemas.inference.strangers import strangers, unfit
from kbdisk.schemas.kinds import Category, Link, Number, Set, Text

SEVERAL = 0.01  # the share of several values at once from which they are a set or a list
SEVERAL_NUMBERS = 0.2
PLACE_LISTS = re.compile(r"(?i:lat_?lo?ng?|coord|geo|gps|position|location|centroid|center|centre|point)")
LONGITUDE_FIRST = re.compile(r"(?i:coordinates|lo?ng_?lat)")
MOST = 32
FEW_NUMBERS = 20
MIN_WITHOUT_CONSTANT = 20  # entities without a value that is always the same, from which on presence is learnt
FEW = 8

Decided = Iterator[tuple[Path, Decision]]


class Shapes:
    """Decides for one class."""

    def __init__(self, targets: Targets, node: Node) -> None:
        self.targets = targets
        self.labels = set(labels_within(node))  # keys of the maps that are told by their own

    def properties(self, node: Node, path: Path, entities: int) -> Decided:
        """The properties under a part, in order."""
        for key, child in node.children.items():
            yield from self.property((*path, key), child, entities)
        if node.rests:
            yield (
                (*path, "..."),
                Decision(None, f"too many different keys: {counted(node.rests, 'value')} not looked at"),
            )

    def property(self, path: Path, node: Node, entities: int) -> Decided:
        """The property at a path; the properties below it where it is a part like any other."""
        if not node.filled:
            yield path, Decision(None, "never filled")
        elif node.parts > node.facts.total + node.lists:
            whole = self.composite(str(path[-1]), node)
            if whole is not None:
                whole = _one_of_several(whole, node).because(*strangers(whole.kind, node))
                yield path, _filled(whole, _said(whole.kind, node), entities)
            else:
                yield from self.properties(node, path, entities)
        else:
            found = self.value(str(path[-1]), node)
            filled = node.filled - found.gaps
            if found.is_constant and len(path) == 1 and entities - filled >= MIN_WITHOUT_CONSTANT:
                reason = found.reason.removesuffix(NOTHING_TO_LEARN) + "; which entities have it is learnt"
                found = replace(found, role="value", reason=reason)
            yield path, _filled(found, filled, entities)

    def field(self, name: str, node: Node) -> Decision:
        """The kind of a field of a part in a list or a map: there are no paths of their own here."""
        if not node.filled:
            return Decision(None, "never filled")
        if node.parts > node.facts.total + node.lists:
            return self.composite(name, node) or self._record(node)
        return self.value(name, node, field=True)

    def _record(self, node: Node) -> Decision:
        return Decision(None, f"parts with {', '.join(node.children)} within parts of a list: carried along")

    # ------------------------------------------------------------ parts

    def composite(self, name: str, node: Node) -> Decision | None:
        """A date, a place, a quantity or a map, where parts are one."""
        return date_of_parts(node) or place_of_parts(node) or quantity_of_parts(node) or self._map(node)

    def _map(self, node: Node) -> Decision | None:
        told = keys_are_labels(node)
        if (
            not told
            and len(node.children) > 1
            and self.labels.issuperset(node.children)
            and alike([*node.children.values()])
        ):
            told = f"its keys {', '.join(node.children)} are labels elsewhere"
        if not told:
            return None
        entry = merged([*node.children.values(), *([node.rest] if node.rest else [])])
        fields, left = self._fields(entry)
        if not fields:
            return None
        return Decision(
            Mapped(fields, most=_most(node.sizes)), f"{told}; {_lengths(node.sizes)[2:] or '1 at most'}{left}"
        )

    def _fields(self, entry: Node) -> tuple[dict[str, Any], str]:
        """The fields of an entry or an item, and what is left out of them; one of the name "" is the value itself."""
        if entry.parts <= entry.facts.total + entry.lists:
            one = self.field("", entry)
            return ({} if one.kind is None else {"": one.kind}), "".join(f"; {told}" for told in unfit(one))
        decided = {name: self.field(name, child) for name, child in entry.children.items()}
        fields = {name: one.kind for name, one in decided.items() if one.kind is not None and name}
        left = [f"{name} is left out ({one.reason})" for name, one in decided.items() if one.kind is None]
        bad = [f"{name}: {told}" for name, one in decided.items() if one.kind is not None for told in unfit(one)]
        return fields, "".join(f"; {one}" for one in (*left, *bad))

    # ------------------------------------------------------------ values and lists

    def value(self, name: str, node: Node, field: bool = False) -> Decision:
        """A plain value, or several; and how many are something else."""
        found = self._value(name, node, field)
        return found if found.kind is None else found.because(*strangers(found.kind, _items(node)))

    def _value(self, name: str, node: Node, field: bool) -> Decision:
        if not node.lists:
            return scalar_decision(name, node.facts, self.targets, gaps=not field)
        if node.depth >= DEEPEST:
            return Decision(None, "lists too deep to be looked into")
        place = self._place_list(name, node)
        if place is not None:
            return place
        items = _items(node)
        if items.parts > items.facts.total + items.lists:
            return self._list_of_parts(name, node, items)
        if items.lists > items.facts.total:
            inner = self.field(name, items)
            return Decision(
                None if inner.kind is None else Listed({"": inner.kind}, _most(node.lengths)),
                f"lists of lists; {inner.reason}",
            )
        return self._several(name, node, items, field)

    def _list_of_parts(self, name: str, node: Node, items: Node) -> Decision:
        whole = self.composite(name, items)
        fields, left = ({"": whole.kind}, "") if whole is not None else self._fields(items)
        if not fields:
            return Decision(None, f"lists of parts without a field that can be learnt{left}")
        told = f"{counted(items.parts, 'part')} in {counted(node.filled, 'list')}{_lengths(node.lengths)}"
        inner = f"; {whole.reason}" if whole is not None else f", with {', '.join(fields)}"
        return Decision(Listed(fields, _most(node.lengths)), told + inner + left)

    def _several(self, name: str, node: Node, items: Node, field: bool) -> Decision:
        """Plain values of which there are several at times."""
        one = scalar_decision(name, items.facts, self.targets, gaps=False)
        if one.kind is None:
            return one
        several = sum(count for length, count in node.lengths.items() if length > 1) / node.filled
        listed = node.lists > node.filled / 2
        told = f"{percent(several)} have several{_lengths(node.lengths)}"
        if self._is_few_numbers(one.kind, items, node) and several >= SEVERAL:
            one = replace(one, kind=Category()).because(
                f"{counted(items.facts.labels_of('number').distinct(), 'number')}, none twice"
            )
        labels = isinstance(one.kind, Category | Link)
        if (
            not field
            and not listed
            and several < (SEVERAL if labels or isinstance(one.kind, Text) else SEVERAL_NUMBERS)
        ):
            many, why = _which(one.kind)
            return replace(one, many=many).because(f"{told}: {why} counts")  # type: ignore[arg-type]
        repeated = node.repeats > SEVERAL * node.lists
        if labels and not repeated:
            return replace(one, kind=Set(one.kind), role="value", unique=False).because(told)
        again = ", some of them twice" if labels else ""
        return replace(one, kind=Listed({"": one.kind}, _most(node.lengths)), role="value", unique=False).because(
            told + again
        )

    def _is_few_numbers(self, kind: Any, items: Node, node: Node) -> bool:
        """Whether several numbers at once are rather labels: few different ones, and none of them twice."""
        labels = items.facts.labels_of("number")
        few = labels.distinct() <= FEW_NUMBERS and labels.seen >= 4 * labels.distinct()
        return isinstance(kind, Number) and kind.integer and few and not node.repeats

    def _place_list(self, name: str, node: Node) -> Decision | None:
        pairs = node.pairs
        if not PLACE_LISTS.search(name) or not pairs or set(node.lengths) - {0, 2} or node.facts.total:
            return None
        if node.items is None or set(node.items.facts.count) - {"number"} or node.items.parts:
            return None
        for longitude_first in (bool(LONGITUDE_FIRST.fullmatch(name)), not LONGITUDE_FIRST.fullmatch(name)):
            latitudes = [pair[longitude_first] for pair in pairs]
            longitudes = [pair[not longitude_first] for pair in pairs]
            if max(map(abs, latitudes)) <= 90 and min(longitudes) >= -180 and max(longitudes) <= 360:
                order = "longitude first" if longitude_first else "latitude first"
                return Decision(Coordinate(longitude_first), f"pairs of degrees, {order}")
        return None


def _one_of_several(one: Decision, node: Node) -> Decision:
    """Where parts that are one value are several at times, which of them counts."""
    return replace(one, many=_which(one.kind)[0]) if node.lists and not isinstance(one.kind, Mapped) else one  # type: ignore[arg-type]


def _items(node: Node) -> Node:
    """All single values at a path, those in lists and those alone."""
    return merged([one for one in (node.items, _without_lists(node)) if one is not None]) if node.lists else node


def _filled(found: Decision, filled: int, entities: int) -> Decision:
    return found.because(f"{percent(filled / entities)} filled") if entities else found


def _said(kind: Any, node: Node) -> int:
    """How often parts that are one value say one: a unit alone is no quantity, and a map may be empty."""
    if isinstance(kind, Mapped):
        return node.filled - node.sizes[0]
    parts = [node.children[kind.names[0]]] if isinstance(kind, Quantity) else node.children.values()
    return max(one.filled for one in parts) + node.filled - node.parts


def _without_lists(node: Node) -> Node | None:
    """What stands at a path beside lists: a value alone counts as a list of one."""
    if not node.facts.total and not node.parts:
        return None
    alone = Node(node.facts.budget, node.depth + 1)
    alone.facts, alone.parts, alone.named, alone.children = node.facts, node.parts, node.named, node.children
    return alone


def _lengths(lengths: Counter[int]) -> str:
    longest, learnt = max(lengths), _most(lengths)
    first = "" if learnt >= longest else f", of which {learnt} {'is' if learnt == 1 else 'are'} learnt"
    return f", {longest} at most{first}" if longest > 1 else ""


def _most(lengths: Counter[int]) -> int:
    """How many are learnt: all where these are few, else as many as nineteen in twenty have at most."""
    total, seen = lengths.total(), 0
    if max(lengths) <= FEW:
        return max(1, max(lengths))
    for length, count in sorted(lengths.items()):
        seen += count
        if seen >= 0.95 * total:
            return max(1, min(length, MOST))
    return MOST


def _which(kind: Any) -> tuple[str, str]:
    if isinstance(kind, Number):
        return "median", "the middle one"
    return ("latest", "the latest") if isinstance(kind, Date) else ("first", "the first")
