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

    def add(self, class_name: str, paths: Iterable[Path]) -> None:
        """Another entity."""
        if self.count % self.stride == 0 or class_name not in self.first:
            pattern = tuple(path for path in paths if without_places(path) == path)
            self.first.setdefault(class_name, pattern)
            if self.count % self.stride == 0:
                self.kept.append((class_name, pattern))
        self.count += 1
        if len(self.kept) == 2 * MOST:
            self.kept, self.stride = self.kept[::2], 2 * self.stride

    def patterns(self, number: Mapping[tuple[str, Path], int]) -> Patterns:
        """By slots, which have the numbers of classes and paths; the more frequent first."""
        counts: dict[str, Counter[tuple[int, ...]]] = {}
        sampled_classes = {class_name for class_name, _ in self.kept}
        for class_name, paths in (
            *self.kept,
            *(entry for entry in self.first.items() if entry[0] not in sampled_classes),
        ):
            slots = sorted(number[class_name, path] for path in paths if (class_name, path) in number)
            counts.setdefault(class_name, Counter())[tuple(slots)] += 1
        return {class_name: dict(counts[class_name].most_common()) for class_name in sorted(counts)}


def to_json(patterns: Patterns) -> dict[str, list[list[object]]]:
    """Themselves as plain data."""
    return {
        class_name: [[count, list(slots)] for slots, count in counts.items()] for class_name, counts in patterns.items()
    }


def from_json(data: Mapping[str, Sequence[tuple[int, Sequence[int]]]], slots: int) -> Patterns:
    """Reads the patterns of a codec with so many slots; ValueError where a number is none of a slot or no count."""
    patterns = {class_name: {tuple(numbers): count for count, numbers in counts} for class_name, counts in data.items()}
    for class_name, counts in patterns.items():
        for numbers, count in counts.items():
            if not all(type(number) is int and 0 <= number < slots for number in numbers):
                raise ValueError(f"patterns: {class_name}: expected numbers of {slots} slots, got {list(numbers)!r}")
            if type(count) is not int or count < 1:
                raise ValueError(f"patterns: {class_name}: expected how many entities have it, got {count!r}")
    return patterns
