"""Properties that entities lack together: a city without a population lacks a census, too, more often than by chance.

Two properties of a class lack together where, among the entities that lack the first, the second lacks more often than among
those that have it, by `MIN_DEVIATION` standard errors. N entities   P properties of a class
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from kbdisk.entity import Path

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
        self._lacking: dict[tuple[str, Path], list[frozenset[Path]]] = {}
        for class_name, several in having.items():
            paths = list(properties[class_name])
            lacks = np.array([[path not in known for path in paths] for known in several], dtype=float)  # (N, P)
            for place, together in enumerate(_together(lacks)):
                rows = lacks[lacks[:, place] > 0][:, together] > 0
                names = [paths[other] for other in np.flatnonzero(together)]
                self._lacking[class_name, paths[place]] = [
                    frozenset(name for name, is_lacking in zip(names, row, strict=True) if is_lacking)
                    for row in rows.tolist()
                ]

    def drawn(self, class_name: str, path: Path, generator: random.Random) -> frozenset[Path]:
        """What a random entity that lacks a property lacks with it; nothing where every entity has the property."""
        several = self._lacking.get((class_name, path))
        return generator.choice(several) if several else frozenset()


def _together(lacks: np.ndarray) -> np.ndarray:
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
