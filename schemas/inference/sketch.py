"""What is remembered of many values in little room: how many differ, which come most often, some of them.

Exact while few differ. Beyond that the most frequent are kept, the count of different ones is an estimate (the k smallest
hashes), and the examples are a fair sample. The same values give the same answers in every process.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Any

LIMIT = 1 << 14  # different values of one path
FREQUENT = 512  # kept of them where there are more
TRACKED = 1 << 18  # different values of all paths together
SMALL = 256  # different values of one path when that is used up
EXAMPLES = 1000
HASHES = 1024
SPAN = 1 << 32
CUT = 200  # characters of a string that are kept


class Budget:
    """Room for all paths together."""

    def __init__(self, values: int = TRACKED, paths: int = 50_000) -> None:
        self.values = values
        self.paths = paths


class Smallest:
    """The smallest hashes of values: how many differ is told by how dense they lie."""

    __slots__ = ("hashes",)

    def __init__(self) -> None:
        self.hashes: set[int] = set()

    def add(self, values: Iterable[Any]) -> None:
        """Take values in."""
        self.hashes.update(hash_of(value) for value in values)
        if len(self.hashes) > 4 * HASHES:
            self.hashes = set(islice(sorted(self.hashes), HASHES))

    def count(self) -> int:
        """How many different values there were, within some three percent."""
        if len(self.hashes) < HASHES:
            return len(self.hashes)
        return round((HASHES - 1) * SPAN / sorted(self.hashes)[HASHES - 1])


def hash_of(value: Any) -> int:
    """A number below SPAN that is the same in every process."""
    number = zlib.crc32((value if isinstance(value, str) else repr(value)).encode("utf-8", "surrogatepass"))
    return (number * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF) >> 32


def cut(text: str) -> str:
    """A text, or the beginning of a long one with what tells it from all others that begin so."""
    if len(text) <= CUT:
        return text
    return f"{text[:CUT]}…{blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"


class Labels:
    """Values of one family at one path."""

    __slots__ = ("budget", "counts", "dice", "examples", "seen", "sketch")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.counts: Counter[Any] = Counter()
        self.seen = 0
        self.sketch: Smallest | None = None  # from when there were too many to keep
        self.examples: list[Any] = []
        self.dice = random.Random(0)

    @property
    def exact(self) -> bool:
        """Whether every different value is counted."""
        return self.sketch is None

    def take(self, values: Sequence[Any]) -> None:
        """Take some values in; strings cut to size."""
        before = len(self.counts)
        self.seen += len(values)
        self.counts.update(values)
        self.budget.values -= len(self.counts) - before
        if self.sketch is not None:
            self.sketch.add(set(values))
            self._sample(values)
            self._prune(LIMIT // 4)
        else:
            self._prune(LIMIT if self.budget.values > 0 else SMALL)

    def merge(self, other: Labels) -> None:
        """Take in what another has seen."""
        if other.sketch is not None and self.sketch is None:
            self._forget()
        if self.sketch is not None:
            self.sketch.hashes |= other.sketch.hashes if other.sketch else {hash_of(one) for one in other.counts}
            self.sketch.add(())
            self._sample(other.examples if other.sketch else list(other.counts))
        self.seen += other.seen
        self.counts.update(other.counts)
        self._prune(LIMIT)

    def distinct(self) -> int:
        """How many different values there were."""
        return len(self.counts) if self.sketch is None else min(self.sketch.count(), self.seen)

    def weighted(self) -> Iterator[tuple[Any, int]]:
        """All values with their counts; a sample where there are too many."""
        if self.sketch is None:
            yield from self.counts.items()
        else:
            yield from ((value, 1) for value in self.examples)

    def _prune(self, limit: int) -> None:
        if len(self.counts) <= limit:
            return
        if self.sketch is None:
            self._forget()
        before = len(self.counts)
        self.counts = Counter(dict(self.counts.most_common(min(FREQUENT, limit))))
        self.budget.values += before - len(self.counts)

    def _forget(self) -> None:
        """From now on there is a sketch."""
        self.sketch = Smallest()
        self.sketch.add(self.counts)
        values = list(self.counts)
        self.examples = self.dice.sample(values, min(EXAMPLES, len(values)))

    def _sample(self, values: Sequence[Any]) -> None:
        if not values:
            return
        free = EXAMPLES - len(self.examples)
        if free > 0:
            self.examples.extend(self.dice.sample(values, min(free, len(values))))
            return
        chance = EXAMPLES * len(values) / max(self.seen, 1)
        for _ in range(min(int(chance + self.dice.random()), len(values))):
            self.examples[self.dice.randrange(EXAMPLES)] = self.dice.choice(values)
