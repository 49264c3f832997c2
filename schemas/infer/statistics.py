"""Statistics of one pass over entities: the values at each path, in bounded memory.

A `Node` has the statistics of a path, a `ValueStatistics` those of its plain values, a `ValueSketch` those of the values of
one family.

Trees come in batches and are taken column by column, so that C code does the work on single values: all values of a key at
once, those that are parts as the next batch of trees, those in lists as one long column. A column has values of one type.
The number of values, their kinds and ranges are those of all values. Sketches are of sampled columns alone: all of the first
entities, then every thirty-second.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from hashlib import blake2b
from itertools import chain, islice
from operator import itemgetter
from typing import Any

from kbdisk.entity import Coordinate, Date, Known, Link, Quantity, Text
from kbdisk.schemas.kinds import MAX_EXACT

MAX_DEPTH = 12  # of parts and lists within each other
MAX_KEYS = 2000  # different keys of a part; all further keys share one node
MAX_ROOT_KEYS = 50_000
MAX_PAIRS = 200  # lists of two numbers, kept as candidates for coordinates


class Node:
    """The statistics of one path of the entities of a class."""

    __slots__ = (
        "children",
        "depth",
        "items",
        "lengths",
        "named",
        "pairs",
        "parts",
        "repeats",
        "rest",
        "rests",
        "sizes",
        "values",
    )

    def __init__(self, budget: Budget, depth: int = 0) -> None:
        self.depth = depth
        self.values = ValueStatistics(budget)
        self.parts = 0
        self.named = 0  # parts with an id
        self.children: dict[str, Node] = {}
        self.rest: Node | None = None  # of the keys beyond the limit
        self.rests = 0
        self.sizes: Counter[int] = Counter()  # of parts
        self.lengths: Counter[int] = Counter()  # of lists
        self.items: Node | None = None
        self.repeats = 0  # lists with equal values
        self.pairs: list[list[Any]] = []

    @property
    def lists(self) -> int:
        """The number of lists that are not empty."""
        return sum(count for length, count in self.lengths.items() if length)

    @property
    def filled(self) -> int:
        """The number of values, parts and lists."""
        return self.values.total + self.parts + self.lists

    def take(self, column: Sequence[Any], sampled: bool) -> None:
        """Add the values of a column."""
        kinds = set(map(type, column))
        if len(kinds) == 1:
            self._take(kinds.pop(), column, sampled)
            return
        for kind in kinds:
            self._take(kind, [value for value in column if type(value) is kind], sampled)

    def _take(self, kind: type, column: Sequence[Any], sampled: bool) -> None:
        if kind is dict:
            self.take_parts(column, sampled)
        elif kind is list:
            self._take_lists(column, sampled)
        else:
            self.values.take(kind, column, sampled)

    def take_parts(self, trees: Sequence[dict[str, Any]], sampled: bool) -> None:
        """Add parts, key by key."""
        self.parts += len(trees)
        if self.depth:
            self.sizes.update(map(len, trees))
            self.named += sum("@id" in tree for tree in trees)
        if self.depth >= MAX_DEPTH:
            return
        for key, column in _columns(trees):
            child = self.children.get(key) or self._child(key)
            if child is not None:
                child.take(column, sampled)

    def _child(self, key: str) -> Node | None:
        if key[:1] == "@":
            return None
        budget = self.values.budget
        if len(self.children) < (MAX_KEYS if self.depth else MAX_ROOT_KEYS) and budget.paths > 0:
            budget.paths -= 1
            child = self.children[key] = Node(budget, self.depth + 1)
            return child
        self.rests += 1
        if self.rest is None:
            self.rest = Node(budget, self.depth + 1)
        return self.rest

    def _take_lists(self, lists: Sequence[list[Any]], sampled: bool) -> None:
        sampled = sampled or self.lengths.total() < ALL_SAMPLED
        self.lengths.update(map(len, lists))
        if self.depth >= MAX_DEPTH:
            return
        items = list(chain.from_iterable(lists))
        if not items:
            return
        if self.items is None:
            self.items = Node(self.values.budget, self.depth + 1)
        self.items.take(items, sampled)
        if sampled:
            self.repeats += sum(map(_repeats, lists))
            if len(self.pairs) < MAX_PAIRS:
                self.pairs.extend(
                    pair for pair in lists[:MAX_PAIRS] if len(pair) == 2 and set(map(type, pair)) <= {int, float}
                )

    def merge(self, other: Node) -> None:
        """Add the statistics of another path."""
        self.values.merge(other.values)
        self.parts += other.parts
        self.named += other.named
        self.lengths.update(other.lengths)
        self.sizes.update(other.sizes)
        self.repeats += other.repeats
        self.pairs.extend(other.pairs[: MAX_PAIRS - len(self.pairs)])
        for key, child in other.children.items():
            node = self.children.get(key) or self._child(key)
            if node is not None:
                node.merge(child)
        for name in ("items", "rest"):
            other_node = getattr(other, name)
            if other_node is not None:
                if getattr(self, name) is None:
                    setattr(self, name, Node(self.values.budget, self.depth + 1))
                getattr(self, name).merge(other_node)
        self.rests += other.rests


def merged(nodes: Iterable[Node]) -> Node:
    """The statistics of several paths together, as a new node."""
    nodes = list(nodes)
    total = Node(Budget(), nodes[0].depth if nodes else 1)
    for node in nodes:
        total.merge(node)
    return total


def _columns(trees: Sequence[dict[str, Any]]) -> Iterable[tuple[str, Sequence[Any]]]:
    """The values of each key."""
    keys = tuple(trees[0])
    if len(keys) > 1 and set(map(len, trees)) == {len(keys)}:
        with suppress(KeyError):  # some trees have other keys
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


# ---------------------------------------------------------------- plain values


ALL_SAMPLED = 1 << 14  # values of a path up to which every column is sampled

FAMILIES: dict[type, str] = {
    bool: "truth",
    int: "number",
    float: "number",
    Decimal: "number",
    str: "text",
    Text: "tagged",
    Date: "date",
    Quantity: "quantity",
    Coordinate: "coordinate",
    Link: "link",
}


class ValueStatistics:
    """The statistics of the plain values at one path."""

    __slots__ = (
        "budget",
        "count",
        "dates",
        "gaps",
        "high",
        "known",
        "languages",
        "low",
        "sketches",
        "true",
        "units",
        "whole",
    )  # fmt: skip

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.count: dict[str, int] = {}  # by family
        self.gaps = 0
        self.known = 0  # SOMEVALUE and NOVALUE
        self.low: Any = None
        self.high: Any = None
        self.whole = True  # whether all numbers are whole
        self.true = 0
        self.sketches: dict[str, ValueSketch] = {}  # by family
        self.units: Counter[str | None] | None = None
        self.languages: Counter[str] | None = None
        self.dates: Counter[str] | None = None  # by part and by precision

    @property
    def total(self) -> int:
        """The number of values."""
        return sum(self.count.values())

    def take(self, kind: type, column: Sequence[Any], sampled: bool) -> None:
        """Add values of one type."""
        if kind is type(None):
            self.gaps += len(column)
            return
        if kind is Known:
            self.known += len(column)
            return
        family = FAMILIES.get(kind, "other")
        before = self.count.get(family, 0)
        self.count[family] = before + len(column)
        taker = TAKERS.get(family)
        if taker is not None:
            taker(self, column, sampled or before < ALL_SAMPLED)

    def sketch_of(self, family: str) -> ValueSketch:
        """The sketch of a family; an empty one where there are no such values."""
        sketch = self.sketches.get(family)
        if sketch is None:
            sketch = self.sketches[family] = ValueSketch(self.budget)
        return sketch

    def merge(self, other: ValueStatistics) -> None:
        """Add the statistics of another path."""
        for family, count in other.count.items():
            self.count[family] = self.count.get(family, 0) + count
        self.gaps += other.gaps
        self.known += other.known
        self.true += other.true
        for edge in (other.low, other.high):
            self._widen(edge, edge)
        self.whole = self.whole and other.whole
        for family, sketch in other.sketches.items():
            self.sketch_of(family).merge(sketch)
        self.units = _added(self.units, other.units)
        self.languages = _added(self.languages, other.languages)
        self.dates = _added(self.dates, other.dates)

    def _widen(self, low: Any, high: Any) -> None:
        if low is not None and (self.low is None or low < self.low):
            self.low = low
        if high is not None and (self.high is None or high > self.high):
            self.high = high

    def numbers(self, column: Sequence[Any], sampled: bool) -> None:
        """Range and wholeness of all."""
        low, high = min(column), max(column)
        self._widen(low, high)
        kind = type(column[0])
        if self.whole and kind is float:
            self.whole = low > -MAX_EXACT and high < MAX_EXACT and all(map(float.is_integer, column))
        elif self.whole and kind is not int:
            self.whole = all(map(_is_whole, column))
        if sampled:
            self.sketch_of("number").take(column)

    def truths(self, column: Sequence[Any], sampled: bool) -> None:
        """Add booleans."""
        self.true += sum(column)

    def strings(self, column: Sequence[str], sampled: bool, family: str = "text") -> None:
        """Add strings; long ones are shortened."""
        if sampled:
            if max(map(len, column)) > MAX_TEXT_LENGTH:
                column = list(map(shortened, column))
            self.sketch_of(family).take(column)

    def tagged(self, column: Sequence[Text], sampled: bool) -> None:
        """Add texts in a language."""
        self.languages = _added(self.languages, Counter(text.language for text in column))
        self.strings([text.text for text in column], sampled, "tagged")

    def day(self, column: Sequence[Date], sampled: bool) -> None:
        """Add dates."""
        if sampled:
            combinations = Counter((date.month is not None, date.day is not None, date.precision) for date in column)
            self.dates = self.dates if self.dates is not None else Counter()
            for (month, day, precision), count in combinations.items():
                self.dates.update({"month": count * month, "day": count * day, f"precision {precision}": count})
            self.sketch_of("date").take(column)

    def quantities(self, column: Sequence[Quantity], sampled: bool) -> None:
        """Add quantities: the units of all, and the numbers."""
        self.units = _added(self.units, Counter(quantity.unit for quantity in column))
        numbers = [quantity.value for quantity in column if quantity.value is not None]
        self.gaps += len(column) - len(numbers)
        self.count["quantity"] -= len(column) - len(numbers)  # a unit without a number is a gap
        if numbers:
            self._quantified(numbers, sampled)

    def _quantified(self, numbers: Sequence[Any], sampled: bool) -> None:
        self._widen(min(numbers), max(numbers))
        self.whole = self.whole and all(map(_is_whole, numbers))
        if sampled:
            self.sketch_of("number").take(numbers)

    def links(self, column: Sequence[Link], sampled: bool) -> None:
        """Add links."""
        if sampled:
            self.sketch_of("link").take([link.id for link in column])

    def shares(self) -> Iterator[tuple[str, float]]:
        """The families with their shares of the values, the largest first."""
        total = self.total
        ordered = sorted(self.count.items(), key=lambda item: (-item[1], item[0]))
        yield from ((family, count / total) for family, count in ordered if count)


TAKERS: dict[str, Callable[[ValueStatistics, Sequence[Any], bool], None]] = {
    "number": ValueStatistics.numbers,
    "truth": ValueStatistics.truths,
    "text": ValueStatistics.strings,
    "tagged": ValueStatistics.tagged,
    "date": ValueStatistics.day,
    "quantity": ValueStatistics.quantities,
    "link": ValueStatistics.links,
}


def _is_whole(value: Any) -> bool:
    kind = type(value)
    if kind is float:
        return value.is_integer() and abs(value) < MAX_EXACT  # type: ignore[no-any-return]
    return kind is int or value.as_tuple().exponent >= 0 or value == value.to_integral_value()


def _added(left: Counter[Any] | None, right: Counter[Any] | None) -> Counter[Any] | None:
    if left is None or right is None:
        return left if right is None else Counter(right)
    left.update(right)
    return left


# ---------------------------------------------------------------- sketches


MAX_COUNTED = 1 << 14  # different values of one path that are all counted
MAX_FREQUENT = 512  # the most frequent values, which are kept of more
MAX_TRACKED = 1 << 18  # different values of all paths together
MAX_COUNTED_OVER_BUDGET = 256  # different values of one path once the budget is used up
MAX_EXAMPLES = 1000
MAX_HASHES = 1024
HASH_SPAN = 1 << 32
MAX_TEXT_LENGTH = 200  # characters kept of a string


class Budget:
    """The number of different values and of paths that all nodes together may still keep."""

    def __init__(self, values: int = MAX_TRACKED, paths: int = 50_000) -> None:
        self.values = values
        self.paths = paths


class DistinctCounter:
    """An estimate of the number of distinct values: a k-minimum-values sketch of their hashes."""

    __slots__ = ("hashes",)

    def __init__(self) -> None:
        self.hashes: set[int] = set()

    def add(self, values: Iterable[Any]) -> None:
        """Add values."""
        self.hashes.update(hash_of(value) for value in values)
        if len(self.hashes) > 4 * MAX_HASHES:
            self.hashes = set(islice(sorted(self.hashes), MAX_HASHES))

    def count(self) -> int:
        """The number of distinct values, with an error of about three percent."""
        if len(self.hashes) < MAX_HASHES:
            return len(self.hashes)
        return round((MAX_HASHES - 1) * HASH_SPAN / sorted(self.hashes)[MAX_HASHES - 1])


def hash_of(value: Any) -> int:
    """A hash below HASH_SPAN that is the same in every process."""
    number = zlib.crc32((value if isinstance(value, str) else repr(value)).encode("utf-8", "surrogatepass"))
    return (number * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF) >> 32


def shortened(text: str) -> str:
    """A text; of a long one the beginning, with a hash of the whole text."""
    if len(text) <= MAX_TEXT_LENGTH:
        return text
    return f"{text[:MAX_TEXT_LENGTH]}…{blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"


class ValueSketch:
    """A sketch of the values of one family at one path: counts, the number of distinct values, examples.

    It is exact while few values are distinct. Beyond that it keeps the most frequent values, an estimate of the number of
    distinct ones, and a random sample as examples. The same values give the same sketch in every process.
    """

    __slots__ = ("budget", "counts", "dice", "distinct_counter", "examples", "seen")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.counts: Counter[Any] = Counter()
        self.seen = 0
        self.distinct_counter: DistinctCounter | None = None  # None while all values are counted
        self.examples: list[Any] = []
        self.dice = random.Random(0)

    @property
    def exact(self) -> bool:
        """Whether every distinct value is counted."""
        return self.distinct_counter is None

    def take(self, values: Sequence[Any]) -> None:
        """Add values; strings have been shortened."""
        before = len(self.counts)
        self.seen += len(values)
        self.counts.update(values)
        self.budget.values -= len(self.counts) - before
        if self.distinct_counter is not None:
            self.distinct_counter.add(set(values))
            self._sample(values)
            self._prune(MAX_COUNTED // 4)
        else:
            self._prune(MAX_COUNTED if self.budget.values > 0 else MAX_COUNTED_OVER_BUDGET)

    def merge(self, other: ValueSketch) -> None:
        """Add the values of another sketch."""
        if other.distinct_counter is not None and self.distinct_counter is None:
            self._forget()
        if self.distinct_counter is not None:
            self.distinct_counter.hashes |= (
                other.distinct_counter.hashes if other.distinct_counter else {hash_of(value) for value in other.counts}
            )
            self.distinct_counter.add(())
            self._sample(other.examples if other.distinct_counter else list(other.counts))
        self.seen += other.seen
        self.counts.update(other.counts)
        self._prune(MAX_COUNTED)

    def distinct(self) -> int:
        """The number of distinct values."""
        return len(self.counts) if self.distinct_counter is None else min(self.distinct_counter.count(), self.seen)

    def weighted(self) -> Iterator[tuple[Any, int]]:
        """All values with their counts; of too many the examples, each with the count 1."""
        if self.distinct_counter is None:
            yield from self.counts.items()
        else:
            yield from ((value, 1) for value in self.examples)

    def _prune(self, limit: int) -> None:
        if len(self.counts) <= limit:
            return
        if self.distinct_counter is None:
            self._forget()
        before = len(self.counts)
        self.counts = Counter(dict(self.counts.most_common(min(MAX_FREQUENT, limit))))
        self.budget.values += before - len(self.counts)

    def _forget(self) -> None:
        """Change from exact counts to an estimate."""
        self.distinct_counter = DistinctCounter()
        self.distinct_counter.add(self.counts)
        values = list(self.counts)
        self.examples = self.dice.sample(values, min(MAX_EXAMPLES, len(values)))

    def _sample(self, values: Sequence[Any]) -> None:
        if not values:
            return
        free = MAX_EXAMPLES - len(self.examples)
        if free > 0:
            self.examples.extend(self.dice.sample(values, min(free, len(values))))
            return
        chance = MAX_EXAMPLES * len(values) / max(self.seen, 1)
        for _ in range(min(int(chance + self.dice.random()), len(values))):
            self.examples[self.dice.randrange(MAX_EXAMPLES)] = self.dice.choice(values)
