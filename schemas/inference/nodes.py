"""What stands at a path: plain values, parts (with what stands under each of their keys), lists.

Trees come by the hundred and are taken in column by column, so that the work on a single value is done by C code:
all values of a key at once, those that are parts as the next hundred of trees, those in lists as one long column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from operator import itemgetter
from typing import Any

from kbdisk.schemas.inference.facts import WHOLE, Facts
from kbdisk.schemas.inference.sketch import Budget

DEEPEST = 12  # levels looked into
KEYS = 2000  # different keys of a part, and then what they hold is taken as alike
ROOT_KEYS = 50_000
PAIRS = 200  # lists of two numbers that are kept


class Node:
    """What stands at one path of the entities of a class."""

    __slots__ = (
        "children",
        "depth",
        "facts",
        "items",
        "lengths",
        "named",
        "pairs",
        "parts",
        "repeats",
        "rest",
        "rests",
        "sizes",
    )

    def __init__(self, budget: Budget, depth: int = 0) -> None:
        self.depth = depth
        self.facts = Facts(budget)
        self.parts = 0
        self.named = 0  # parts that are nodes with an id
        self.children: dict[str, Node] = {}
        self.rest: Node | None = None  # what stands under the keys that there was no room for
        self.rests = 0
        self.sizes: Counter[int] = Counter()  # of parts
        self.lengths: Counter[int] = Counter()  # of lists
        self.items: Node | None = None
        self.repeats = 0  # lists with the same value twice
        self.pairs: list[list[Any]] = []

    @property
    def lists(self) -> int:
        """How many lists there are with something in them."""
        return sum(count for length, count in self.lengths.items() if length)

    @property
    def filled(self) -> int:
        """How often there is something."""
        return self.facts.total + self.parts + self.lists

    def take(self, column: Sequence[Any], close: bool) -> None:
        """Take in the values that stand here."""
        kinds = set(map(type, column))
        if len(kinds) == 1:
            self._take(kinds.pop(), column, close)
            return
        for kind in kinds:
            self._take(kind, [value for value in column if type(value) is kind], close)

    def _take(self, kind: type, column: Sequence[Any], close: bool) -> None:
        if kind is dict:
            self.take_parts(column, close)
        elif kind is list:
            self._take_lists(column, close)
        else:
            self.facts.take(kind, column, close)

    def take_parts(self, trees: Sequence[dict[str, Any]], close: bool) -> None:
        """Take in parts, key by key."""
        self.parts += len(trees)
        if self.depth:
            self.sizes.update(map(len, trees))
            self.named += sum("@id" in tree for tree in trees)
        if self.depth >= DEEPEST:
            return
        for key, column in _columns(trees):
            child = self.children.get(key) or self._child(key)
            if child is not None:
                child.take(column, close)

    def _child(self, key: str) -> Node | None:
        if key[:1] == "@":
            return None
        budget = self.facts.budget
        if len(self.children) < (KEYS if self.depth else ROOT_KEYS) and budget.paths > 0:
            budget.paths -= 1
            child = self.children[key] = Node(budget, self.depth + 1)
            return child
        self.rests += 1
        if self.rest is None:
            self.rest = Node(budget, self.depth + 1)
        return self.rest

    def _take_lists(self, lists: Sequence[list[Any]], close: bool) -> None:
        close = close or self.lengths.total() < WHOLE
        self.lengths.update(map(len, lists))
        if self.depth >= DEEPEST:
            return
        items = list(chain.from_iterable(lists))
        if not items:
            return
        if self.items is None:
            self.items = Node(self.facts.budget, self.depth + 1)
        self.items.take(items, close)
        if close:
            self.repeats += sum(map(_repeats, lists))
            if len(self.pairs) < PAIRS:
                self.pairs.extend(one for one in lists[:PAIRS] if len(one) == 2 and set(map(type, one)) <= {int, float})

    def merge(self, other: Node) -> None:
        """Take in what stands at another path."""
        self.facts.merge(other.facts)
        self.parts += other.parts
        self.named += other.named
        self.lengths.update(other.lengths)
        self.sizes.update(other.sizes)
        self.repeats += other.repeats
        self.pairs.extend(other.pairs[: PAIRS - len(self.pairs)])
        for key, child in other.children.items():
            mine = self.children.get(key) or self._child(key)
            if mine is not None:
                mine.merge(child)
        for name in ("items", "rest"):
            theirs = getattr(other, name)
            if theirs is not None:
                if getattr(self, name) is None:
                    setattr(self, name, Node(self.facts.budget, self.depth + 1))
                getattr(self, name).merge(theirs)
        self.rests += other.rests


def merged(nodes: Iterable[Node]) -> Node:
    """What stands at several paths, taken together; they stay as they are."""
    nodes = list(nodes)
    whole = Node(Budget(), nodes[0].depth if nodes else 1)
    for node in nodes:
        whole.merge(node)
    return whole


def _columns(trees: Sequence[dict[str, Any]]) -> Iterable[tuple[str, Sequence[Any]]]:
    """All values of each key."""
    keys = tuple(trees[0])
    if len(keys) > 1 and set(map(len, trees)) == {len(keys)}:
        with suppress(KeyError):  # not all have just these
            return zip(keys, zip(*map(itemgetter(*keys), trees), strict=True), strict=True)
    columns: dict[str, list[Any]] = {}
    for tree in trees:
        for key, value in tree.items():
            if key in columns:
                columns[key].append(value)
            else:
                columns[key] = [value]
    return columns.items()


def _repeats(values: list[Any]) -> bool:
    try:
        return len(values) > 1 and len(set(values)) < len(values)
    except TypeError:
        return False
