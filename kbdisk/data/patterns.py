"""Which properties entities have together: the patterns of some training entities, evenly spread over all of them.

Whoever makes up entities draws a pattern first. Places of lists are none of a pattern's: how many there are is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from kbdisk.entity import Path, without_places

MOST = 4096  # entities whose patterns are kept

Patterns: TypeAlias = Mapping[str, Mapping[tuple[int, ...], int]]  # by class: slots, and how many entities have them


@dataclass
class Met:
    """The paths that entities have, of every `stride`-th; and of the first of each class."""

    stride: int = 1
    count: int = 0
    kept: list[tuple[str, tuple[Path, ...]]] = field(default_factory=list)
    first: dict[str, tuple[Path, ...]] = field(default_factory=dict)

    def add(self, of: str, paths: Iterable[Path]) -> None:
        """Another entity."""
        if self.count % self.stride == 0 or of not in self.first:
            own = tuple(path for path in paths if without_places(path) == path)
            self.first.setdefault(of, own)
            if self.count % self.stride == 0:
                self.kept.append((of, own))
        self.count += 1
        if len(self.kept) == 2 * MOST:
            self.kept, self.stride = self.kept[::2], 2 * self.stride

    def patterns(self, number: Mapping[tuple[str, Path], int]) -> Patterns:
        """By slots, which have the numbers of classes and paths; the more frequent first."""
        counts: dict[str, Counter[tuple[int, ...]]] = {}
        met = {of for of, _ in self.kept}
        for of, paths in (*self.kept, *(one for one in self.first.items() if one[0] not in met)):
            own = sorted(number[of, path] for path in paths if (of, path) in number)
            counts.setdefault(of, Counter())[tuple(own)] += 1
        return {of: dict(counts[of].most_common()) for of in sorted(counts)}


def to_json(patterns: Patterns) -> dict[str, list[list[object]]]:
    """Themselves as plain data."""
    return {of: [[count, list(slots)] for slots, count in own.items()] for of, own in patterns.items()}


def from_json(data: Mapping[str, Sequence[tuple[int, Sequence[int]]]], slots: int) -> Patterns:
    """Reads the patterns of a codec with so many slots; ValueError where a number is none of a slot or no count."""
    patterns = {of: {tuple(numbers): count for count, numbers in own} for of, own in data.items()}
    for of, own in patterns.items():
        for numbers, count in own.items():
            if not all(type(number) is int and 0 <= number < slots for number in numbers):
                raise ValueError(f"patterns: {of}: expected numbers of {slots} slots, got {list(numbers)!r}")
            if type(count) is not int or count < 1:
                raise ValueError(f"patterns: {of}: expected how many entities have it, got {count!r}")
    return patterns
