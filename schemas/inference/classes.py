"""Of which class an entity is taken to be, where it says several.

The most frequent of them, unless that one is a mere roof over others: nine in ten of its entities are of one of at least
two smaller classes, too (or the source calls it a superclass of another one that the entity has). So of (Agent, Person)
it is Person, and of (Mountain, Volcano) it is Mountain. A class of hardly any entities counts last: of (City, Capital of
Rajasthan) it is City. Decided once, by the first entities with several classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

Classes = tuple[str, ...]

ROOTS = frozenset(
    {
        "http://www.w3.org/2002/07/owl#Thing",
        "http://www.w3.org/2002/07/owl#NamedIndividual",
        "http://www.w3.org/2000/01/rdf-schema#Resource",
        "http://www.w3.org/ns/prov#Entity",
        "https://schema.org/Thing",
        "http://schema.org/Thing",
    }
)
LAST = 1 << 40
REMEMBERED = 10_000  # combinations
MAX_CLASSES = 100  # of an entity, looked at to tell a roof
ROOF = 0.9  # the share of a class's entities that smaller classes have, where it is a mere roof
RARE, RARE_SHARE = 20, 0.02  # a class is rare that has fewer entities than both: so many, and this share of all


def ranked(combinations: Mapping[Classes, int]) -> list[str]:
    """All classes, the one that counts before those that do not."""
    sizes: Counter[str] = Counter()
    for classes, count in combinations.items():
        sizes.update(dict.fromkeys(classes, count))
    least = min(RARE, RARE_SHARE * sum(combinations.values()))
    rare = {name for name, size in sizes.items() if size < least}
    common: Counter[Classes] = Counter()
    for classes, count in combinations.items():
        common[tuple(name for name in classes[:MAX_CLASSES] if name not in rare)] += count
    roofs = {name for name in sizes if name in ROOTS or (name not in rare and _is_roof(name, sizes, common))}

    def rank(name: str) -> tuple[bool, bool, bool, int, str]:
        is_roof = name in roofs
        return name in ROOTS, name in rare, is_roof, sizes[name] if is_roof else -sizes[name], name

    return sorted(sizes, key=rank)


def _is_roof(name: str, sizes: Mapping[str, int], combinations: Mapping[Classes, int]) -> bool:
    """Whether nearly all entities of a class are of one of several smaller ones, too."""
    covered, smaller = 0, Counter[str]()
    for classes, count in combinations.items():
        inner = [one for one in classes if one != name and sizes[one] < sizes[name]] if name in classes else []
        smaller.update(dict.fromkeys(inner, count))
        covered += count if inner else 0
    largest = max(smaller.values(), default=0)
    return covered >= ROOF * sizes[name] and len(smaller) > 1 and largest < ROOF * sizes[name]


class Choice:
    """The rank of each class. What comes later than the decision stands behind."""

    def __init__(self) -> None:
        self.rank: dict[str, int] = {}
        self.chosen: dict[Classes, str] = {}

    def settle(self, combinations: Mapping[Classes, int]) -> None:
        """Decide."""
        self.rank = {name: place for place, name in enumerate(ranked(combinations))}
        self.chosen.clear()

    def of(self, classes: Classes) -> str:
        """The class that counts; empty where there is none."""
        found = self.chosen.get(classes)
        if found is None:
            for name in classes:
                self.rank.setdefault(name, len(self.rank) + (name in ROOTS) * LAST)
            if len(self.chosen) > REMEMBERED:
                self.chosen.clear()
            found = self.chosen[classes] = min(classes, key=self.rank.__getitem__, default="")
        return found

    def order(self, names: Iterable[str]) -> list[str]:
        """Classes by their rank."""
        return sorted(names, key=lambda name: (not name, self.rank.get(name, len(self.rank))))
