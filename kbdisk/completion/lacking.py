"""Properties that entities lack together: a city without a population lacks a census, too, more often than by chance.

Two properties of a class lack together where, among the entities that lack the first, the second lacks more often than among
those that have it, by `MIN_DEVIATION` standard errors. N entities   P properties of a class
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

from kbdisk.entity import Path

Flags: TypeAlias = npt.NDArray[np.bool_]
MIN_DEVIATION = 3.0  # standard errors by which two properties lack together more often than by chance


class LackingTogether:
    """By class and property, what the entities lack that lack it, of the properties that lack together with it."""

    def __init__(
        self, entities: Iterable[tuple[str, Collection[Path]]], properties: Mapping[str, Collection[Path]]
    ) -> None:
        """`entities` with their class and the properties that they have; `properties` by class."""
        having: dict[str, list[Collection[Path]]] = defaultdict(list)
        for class_name, known in entities:
            having[class_name].append(known)
        self._classes = {
            class_name: _Lacking.of(several, list(properties[class_name])) for class_name, several in having.items()
        }

    def drawn(self, class_name: str, path: Path, generator: random.Random) -> frozenset[Path]:
        """What a random entity that lacks a property lacks with it; nothing where every entity has the property."""
        lacking = self._classes.get(class_name)
        return frozenset() if lacking is None else lacking.drawn(path, generator)


class _Lacking:
    """What the entities of a class lack, and which properties lack together."""

    def __init__(self, column: Mapping[Path, int], lacks: Flags, together: Flags) -> None:
        self.column, self.lacks, self.together = column, lacks, together  # (N, P), (P, P)
        self.paths = list(column)

    @classmethod
    def of(cls, entities: Sequence[Collection[Path]], paths: Sequence[Path]) -> Self:
        """Of entities by the properties that they have."""
        lacks = np.array([[path not in known for path in paths] for known in entities], dtype=bool)
        lacks = lacks.reshape(len(entities), len(paths))
        return cls({path: place for place, path in enumerate(paths)}, lacks, _together(lacks.astype(float)))

    def drawn(self, path: Path, generator: random.Random) -> frozenset[Path]:
        """What a random entity that lacks a property lacks with it."""
        place = self.column.get(path)
        if place is None or not self.together[place].any():
            return frozenset()
        row = generator.choice(np.flatnonzero(self.lacks[:, place]).tolist())
        return frozenset(self.paths[other] for other in np.flatnonzero(self.lacks[row] & self.together[place]).tolist())


def _together(lacks: npt.NDArray[np.float64]) -> Flags:
    """(P, P) whether two properties lack together, none of them with itself."""
    count = len(lacks)
    lacking = lacks.sum(0)  # (P,)
    having = count - lacking
    both = lacks.T @ lacks  # (P, P)
    with np.errstate(divide="ignore", invalid="ignore"):
        among_lacking, among_having = both / lacking[:, None], (lacking[None] - both) / having[:, None]
        share = lacking / count
        error = np.sqrt((share * (1 - share))[None] * (1 / lacking + 1 / having)[:, None])
        deviation = np.nan_to_num((among_lacking - among_having) / error, nan=0.0, posinf=0.0)
    np.fill_diagonal(deviation, 0.0)
    return np.asarray(deviation > MIN_DEVIATION)
