"""What a knowledge base holds, found in one reading: classes, paths, kinds of values, links between classes.

Plain data out, nothing printed. A path is told by its names alone, with `[]` behind each that holds a
list anywhere: `prizes[].share`. Memory grows with the paths, the ids and the link targets that have not
been read yet; not with the values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from kbdisk.entity import Coordinate, Date, Entity, Known, Link, Path, Quantity, Text, is_gap, show, walk
from kbdisk.loaders.kb import KB
from kbdisk.loaders.naming import Identifiers
from kbdisk.schemas.iris import last_word
from kbdisk.schemas.numerals import of_any_length
from kbdisk.schemas.suggest import refuse_unmet

DISTINCT = 1000  # different values counted exactly; beyond, "1000+"
TRACKED = 2_000_000  # of them over all paths

KINDS: dict[type, str] = {
    int: "number",
    float: "number",
    Decimal: "number",
    str: "string",
    bool: "boolean",
    Text: "text",
    Date: "date",
    Quantity: "quantity",
    Coordinate: "coordinate",
    Link: "link",
}

Names = tuple[str, ...]
Number = int | float | Decimal


@dataclass(slots=True)
class PathFacts:
    """What stands at one path, in the entities of one class."""

    filled: int = 0  # entities with a value
    asked: int = 0  # places for a value without one
    made: int = 0  # values that an earlier completion wrote: neither given nor asked
    values: int = 0
    many: int = 0  # entities with more than one
    most: int = 0  # values in one entity
    kinds: Counter[str] = field(default_factory=Counter)
    units: Counter[str] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    examples: list[Any] = field(default_factory=list)  # the first different values
    low: Number | None = None  # of numbers, and of quantities where all are of one unit
    high: Number | None = None
    years: tuple[int, int] | None = None
    seen: set[int] | None = field(default_factory=set)  # hashes of values; None: too many
    lists: dict[int, int] = field(default_factory=dict)  # after how many names a list stands, and how deep

    @property
    def distinct(self) -> int | None:
        """How many different values; None where they are more than are counted."""
        return None if self.seen is None else len(self.seen)

    def note(self, value: Any, examples: int) -> None:
        """Take one value in."""
        self.values += 1
        kind = value.value if isinstance(value, Known) else KINDS[type(value)]
        self.kinds[kind] += 1
        if type(value) is Text:
            self.languages[value.language] += 1
        elif type(value) is Date:
            self._year(value.year)
        elif type(value) is Quantity:
            self.units[value.unit or ""] += 1
            self._range(value.value)
        elif kind == "number":
            self._range(value)
        if len(self.examples) < examples and value not in self.examples:
            self.examples.append(value)

    def _range(self, value: Number | None) -> None:
        if value is not None:
            self.low = value if self.low is None else min(self.low, value)
            self.high = value if self.high is None else max(self.high, value)

    def _year(self, year: int | None) -> None:
        if year is not None:
            low, high = self.years or (year, year)
            self.years = (min(low, year), max(high, year))


@dataclass(slots=True)
class ClassFacts:
    """The entities of one class, or of none (an empty name), and what stands at their paths."""

    name: str
    entities: int = 0
    labelled: int = 0
    paths: dict[Names, PathFacts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Edge:
    """Links of one path from a class to a class; `target` is None where the source does not have the entity."""

    origin: str
    path: str
    target: str | None
    links: int


@dataclass(slots=True)
class Inspection:
    """All that was found."""

    name: str
    format: str
    entities: int = 0
    labelled: int = 0
    classes: dict[str, ClassFacts] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    graphs: Counter[str] = field(default_factory=Counter)
    odd: dict[str, tuple[int, list[str]]] = field(default_factory=dict)  # what, how often, the first places
    skipped: list[str] = field(default_factory=list)  # the first of them
    skips: int = 0
    identifiers: Identifiers = field(default_factory=Identifiers)  # of entities without an id


@of_any_length()
def inspect(kb: KB, *, examples: int = 3, classes: Iterable[str] = ()) -> Inspection:
    """Read a knowledge base once and tell what is in it; only the entities of some classes where they are named."""
    found, classes = Inspection(kb.name, kb.format), tuple(classes)
    reader = _Reader(found, examples, classes)
    for entity in kb:
        reader.take(entity)
    refuse_unmet(kb.name, classes, dict.fromkeys(name for names in reader.same for name in names))
    found.edges = reader.edges()
    for facts in found.classes.values():
        facts.paths = grouped(facts.paths)
    found.odd = {what: (count, list(kb.odd.places[what])) for what, count in kb.odd.counts.items()}
    found.skips = len(kb.skipped)
    found.skipped = [str(error) for error in kb.skipped[:5]]
    return found


class _Reader:
    """What has to be kept while reading."""

    def __init__(self, found: Inspection, examples: int, wanted: tuple[str, ...]) -> None:
        self.found = found
        self.examples = examples
        self.wanted = wanted
        self.tracked = 0
        self.class_of: dict[str, tuple[str, ...]] = {}
        self.same: dict[tuple[str, ...], tuple[str, ...]] = {}
        self.ahead: dict[str, Counter[tuple[str, Names]]] = {}  # target not read yet -> what links to it
        self.between: Counter[tuple[str, Names, str | None]] = Counter()

    def take(self, entity: Entity) -> None:
        classes: tuple[str, ...] = entity.classes or ("",)
        classes = self.class_of[entity.id] = self.same.setdefault(classes, classes)
        self._arrived(entity.id, classes)
        if self.wanted:
            classes = tuple(name for name in classes if any(is_class(name, wanted) for wanted in self.wanted))
            if not classes:
                return
        found = self.found
        found.entities += 1
        found.identifiers.take(entity)
        found.labelled += bool(entity.label)
        if entity.graph:
            found.graphs[entity.graph] += 1
        leaves = [(*named(path), value) for path, value in walk(entity.tree)]
        for name in classes:
            facts = found.classes.get(name) or found.classes.setdefault(name, ClassFacts(name))
            facts.entities += 1
            facts.labelled += bool(entity.label)
            self._paths(facts, leaves)
            for path in entity.made or ():
                facts.paths.setdefault(named(path)[0], PathFacts()).made += 1

    def _paths(self, facts: ClassFacts, leaves: list[tuple[Names, dict[int, int], Any]]) -> None:
        counts: Counter[Names] = Counter()
        for names, lists, value in leaves:
            path = facts.paths.get(names) or facts.paths.setdefault(names, PathFacts())
            for place, depth in lists.items():
                path.lists[place] = max(depth, path.lists.get(place, 0))
            if is_gap(value):
                path.asked += 1
                continue
            counts[names] += 1
            path.note(value, self.examples)
            self._distinct(path, value)
            if type(value) is Link:
                self._linked(facts.name, names, value.id)
        for names, count in counts.items():
            path = facts.paths[names]
            path.filled += 1
            path.many += count > 1
            path.most = max(path.most, count)

    def _distinct(self, path: PathFacts, value: Any) -> None:
        if path.seen is None:
            return
        before = len(path.seen)
        path.seen.add(hash(value if type(value) is str else (type(value), repr(value))))  # hash(-1) is hash(-2)
        self.tracked += len(path.seen) - before
        if len(path.seen) > DISTINCT or self.tracked > TRACKED:
            self.tracked -= len(path.seen)
            path.seen = None

    def _linked(self, origin: str, names: Names, target: str) -> None:
        known = self.class_of.get(target)
        if known is None:
            self.ahead.setdefault(target, Counter())[origin, names] += 1
        else:
            self.between.update((origin, names, name) for name in known)

    def _arrived(self, id: str, classes: tuple[str, ...]) -> None:
        for (origin, names), count in self.ahead.pop(id, {}).items():
            for name in classes:
                self.between[origin, names, name] += count

    def edges(self) -> list[Edge]:
        """Links between classes, the most frequent first."""
        for waiting in self.ahead.values():
            for (origin, names), count in waiting.items():
                self.between[origin, names, None] += count
        self.ahead.clear()
        return [
            Edge(origin, shown_path(names, self.found.classes[origin].paths[names]), target, count)
            for (origin, names, target), count in self.between.most_common()
        ]


# ---------------------------------------------------------------- paths and classes as text


def named(path: Path) -> tuple[Names, dict[int, int]]:
    """The names of a path, and after which of them (counted from 1) a list stands, how deep."""
    lists: dict[int, int] = {}
    names: list[str] = []
    for key in path:
        if isinstance(key, str):
            names.append(key)
        else:
            lists[len(names)] = lists.get(len(names), 0) + 1
    return tuple(names), lists


def shown_path(names: Names, facts: PathFacts) -> str:
    """A path as text, `[]` where lists stand: prizes[].share."""
    text = ""
    for count, name in enumerate(names, 1):
        text += ("." if text else "") + show((name,)) + "[]" * facts.lists.get(count, 0)
    return text


def grouped(paths: dict[Names, PathFacts]) -> dict[Names, PathFacts]:
    """The paths in the order they came up, those of one part together."""
    first: dict[Names, int] = {}
    for names in paths:
        for length in range(1, len(names) + 1):
            first.setdefault(names[:length], len(first))
    order = {names: [first[names[:length]] for length in range(1, len(names) + 1)] for names in paths}
    return {names: paths[names] for names in sorted(paths, key=order.__getitem__)}


def is_class(name: str, wanted: str) -> bool:
    """Whether a class is the one that is meant: by its whole name, or by the last word of its IRI."""
    return name == wanted or last_word(name) == wanted
