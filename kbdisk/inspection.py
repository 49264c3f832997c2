"""Inspection: the content of a knowledge base (`inspect`), and its misfits with a schema (`check`). One pass each, plain data.

`inspect` counts classes, paths, kinds of values, and links between classes. A path has its names alone, with `[]` behind each that
holds a list anywhere: `prizes[].share`. Memory grows with the paths, the ids and the link targets that have not been read yet; not
with the values.

`check` counts misfits, values that the schema refuses. A path or class that only one side knows is reported, too, but is no misfit,
unless it looks like a misspelling of one on the other side.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, TypeAlias

from kbdisk.entity import Coordinate, Date, Entity, Known, Link, Path, Quantity, Text, at, is_gap, show, walk
from kbdisk.errors import SchemaError
from kbdisk.loaders.kb import KB
from kbdisk.loaders.naming import Identifiers
from kbdisk.schemas.schema import Class, Misfit, Schema
from kbdisk.schemas.text.names import last_word, refuse_unmet
from kbdisk.schemas.text.numerals import of_any_length
from kbdisk.schemas.validate import CrossEntityValidator

MAX_DISTINCT = 1000  # different values of a path that are counted exactly; beyond, "1000+"
MAX_TRACKED = 2_000_000  # different values of all paths together
MAX_MISFIT_EXAMPLES = 3  # of each kind of misfit
MISSPELT_SIMILARITY = 0.75  # of two paths, from which on one is taken for the other, misspelt

KIND_NAMES: dict[type, str] = {
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

Names: TypeAlias = tuple[str, ...]
Number: TypeAlias = int | float | Decimal


# ---------------------------------------------------------------- inspecting


@dataclass(slots=True)
class PathFacts:
    """The values at one path, in the entities of one class."""

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
        """The number of different values; None where there are more than are counted."""
        return None if self.seen is None else len(self.seen)

    def add(self, value: Any, examples: int) -> None:
        """Count a value."""
        self.values += 1
        kind = value.value if isinstance(value, Known) else KIND_NAMES[type(value)]
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
    """The entities of one class, or of none (an empty name), and the values at their paths."""

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
    """The content of a knowledge base."""

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
    """Read a knowledge base once and count what it holds; where classes are named, only in their entities."""
    inspection, classes = Inspection(kb.name, kb.format), tuple(classes)
    inspector = _Inspector(inspection, examples, classes)
    for entity in kb:
        inspector.add(entity)
    refuse_unmet(kb.name, classes, dict.fromkeys(name for names in inspector.class_tuples for name in names))
    inspection.edges = inspector.edges()
    for facts in inspection.classes.values():
        facts.paths = grouped(facts.paths)
    inspection.odd = {what: (count, list(kb.odd.places[what])) for what, count in kb.odd.counts.items()}
    inspection.skips = len(kb.skipped)
    inspection.skipped = [str(error) for error in kb.skipped[:5]]
    return inspection


class _Inspector:
    """The counts, and what has to be kept while reading."""

    def __init__(self, inspection: Inspection, examples: int, wanted: tuple[str, ...]) -> None:
        self.inspection = inspection
        self.examples = examples
        self.wanted = wanted
        self.tracked = 0
        self.class_of: dict[str, tuple[str, ...]] = {}
        self.class_tuples: dict[tuple[str, ...], tuple[str, ...]] = {}  # equal ones are kept once
        self.unread_targets: dict[str, Counter[tuple[str, Names]]] = {}  # target not read yet -> what links to it
        self.links: Counter[tuple[str, Names, str | None]] = Counter()

    def add(self, entity: Entity) -> None:
        """Count an entity."""
        classes: tuple[str, ...] = entity.classes or ("",)
        classes = self.class_of[entity.id] = self.class_tuples.setdefault(classes, classes)
        self._resolve_links(entity.id, classes)
        if self.wanted:
            classes = tuple(name for name in classes if any(is_class(name, wanted) for wanted in self.wanted))
            if not classes:
                return
        inspection = self.inspection
        inspection.entities += 1
        inspection.identifiers.take(entity)
        inspection.labelled += bool(entity.label)
        if entity.graph:
            inspection.graphs[entity.graph] += 1
        leaves = [(*names_of(path), value) for path, value in walk(entity.tree)]
        for name in classes:
            facts = inspection.classes.get(name) or inspection.classes.setdefault(name, ClassFacts(name))
            facts.entities += 1
            facts.labelled += bool(entity.label)
            self._count_paths(facts, leaves)
            for path in entity.made or ():
                facts.paths.setdefault(names_of(path)[0], PathFacts()).made += 1

    def _count_paths(self, facts: ClassFacts, leaves: list[tuple[Names, dict[int, int], Any]]) -> None:
        counts: Counter[Names] = Counter()
        for names, lists, value in leaves:
            path = facts.paths.get(names) or facts.paths.setdefault(names, PathFacts())
            for place, depth in lists.items():
                path.lists[place] = max(depth, path.lists.get(place, 0))
            if is_gap(value):
                path.asked += 1
                continue
            counts[names] += 1
            path.add(value, self.examples)
            self._count_distinct(path, value)
            if type(value) is Link:
                self._count_link(facts.name, names, value.id)
        for names, count in counts.items():
            path = facts.paths[names]
            path.filled += 1
            path.many += count > 1
            path.most = max(path.most, count)

    def _count_distinct(self, path: PathFacts, value: Any) -> None:
        if path.seen is None:
            return
        before = len(path.seen)
        path.seen.add(hash(value if type(value) is str else (type(value), repr(value))))  # hash(-1) is hash(-2)
        self.tracked += len(path.seen) - before
        if len(path.seen) > MAX_DISTINCT or self.tracked > MAX_TRACKED:
            self.tracked -= len(path.seen)
            path.seen = None

    def _count_link(self, origin: str, names: Names, target: str) -> None:
        classes = self.class_of.get(target)
        if classes is None:
            self.unread_targets.setdefault(target, Counter())[origin, names] += 1
        else:
            self.links.update((origin, names, name) for name in classes)

    def _resolve_links(self, id: str, classes: tuple[str, ...]) -> None:
        """Count the links to an entity that were read before it."""
        for (origin, names), count in self.unread_targets.pop(id, {}).items():
            for name in classes:
                self.links[origin, names, name] += count

    def edges(self) -> list[Edge]:
        """Links between classes, the most frequent first."""
        for waiting in self.unread_targets.values():
            for (origin, names), count in waiting.items():
                self.links[origin, names, None] += count
        self.unread_targets.clear()
        return [
            Edge(origin, shown_path(names, self.inspection.classes[origin].paths[names]), target, count)
            for (origin, names, target), count in self.links.most_common()
        ]


# ---------------------------------------------------------------- checking against a schema


@dataclass(frozen=True, slots=True)
class Example:
    """A misfit: the id of its entity, where the entity stands, and what is wrong."""

    id: str
    place: str
    problem: str


@dataclass(slots=True)
class MisfitGroup:
    """The misfits of one kind at one path."""

    of: str  # the schema's class
    path: str
    problem: str  # what was expected
    count: int = 0
    examples: list[Example] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class UnmatchedPath:
    """A path that only the source has, or only the schema; `near` is the path on the other side that it may stand for."""

    of: str
    path: str
    count: int = 0
    near: str | None = None


@dataclass(slots=True)
class Findings:
    """The differences between a knowledge base and a schema. The fields are the keys of the command's JSON."""

    source: str
    format: str
    entities: int = 0
    classes: Counter[str] = field(default_factory=Counter)  # the schema's -> entities
    strange: Counter[str] = field(default_factory=Counter)  # the source's that the schema does not know
    misfits: list[MisfitGroup] = field(default_factory=list)
    unknown: list[UnmatchedPath] = field(default_factory=list)  # in the source alone
    absent: list[UnmatchedPath] = field(default_factory=list)  # in the schema alone
    skipped: list[str] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        """Whether every value fits, and no path looks misspelt."""
        return not self.misfits and not any(path.near for path in self.absent)

    @property
    def fits_exactly(self) -> bool:
        """Whether, in addition, both sides know the same paths and classes."""
        return not (self.misfits or self.unknown or self.absent or self.strange)


def check(schema: Schema, kb: KB, *, name: str = "the schema", classes: Iterable[str] = ()) -> Findings:
    """Read a knowledge base once against a schema; SchemaError where none of the schema's paths is in it."""
    checker = _Checker(schema, kb)
    wanted, read = tuple(classes), dict[str, None]()
    for entity in kb:
        read |= dict.fromkeys(entity.classes if wanted else ())
        if not wanted or any(is_class(name, wanted_name) for name in entity.classes for wanted_name in wanted):
            checker.add(entity)
    refuse_unmet(kb.name, wanted, read)
    return checker.findings(name)


class _Checker:
    """The counts, and what has to be kept while reading."""

    def __init__(self, schema: Schema, kb: KB) -> None:
        self.schema = schema
        self.kb = kb
        self.counts = Findings(kb.name, kb.format)
        self.across = CrossEntityValidator(schema)
        self.groups: dict[tuple[str, str, str], MisfitGroup] = {}
        self.unseen = {name: dict.fromkeys(known.properties) for name, known in schema.classes.items()}
        self.unknown: Counter[tuple[str, Path]] = Counter()

    def add(self, entity: Entity) -> None:
        """Check an entity."""
        self.counts.entities += 1
        entity = replace(entity, id=self.schema.id_of(entity))
        entity_class = self.schema.class_of(entity)
        self._count_unknown(entity, entity_class)
        if entity_class is None:
            self.counts.strange[entity.classes[0] if entity.classes else ""] += 1
            self.across.take(entity, None)
            return
        self.counts.classes[entity_class.name] += 1
        self._mark_seen(entity_class, entity)
        for misfit in [*self.schema.check(entity), *self.across.take(entity, entity_class)]:
            self._add_misfit(entity_class.name, misfit, entity.id, self._place(entity))

    def findings(self, name: str) -> Findings:
        """The findings, the most frequent first."""
        findings = self.counts
        for class_name, misfit, id in self.across.at_the_end(self.kb.hierarchy):
            self._add_misfit(class_name, misfit, id, self.kb.name)
        findings.misfits = sorted(self.groups.values(), key=lambda group: -group.count)
        findings.skipped = [str(error) for error in self.kb.skipped]
        unseen = [(class_name, path) for class_name, paths in self.unseen.items() for path in paths]
        if findings.entities and len(unseen) == sum(len(known.properties) for known in self.schema.classes.values()):
            raise SchemaError(name, self._nothing_in_common([show(path) for _, path in unseen]))
        absent = [(class_name, show(path)) for class_name, path in unseen if self._is_expected(class_name, path)]
        findings.absent = [
            UnmatchedPath(class_name, path, 0, nearest(path, self._unknown_of(class_name)))
            for class_name, path in absent
        ]
        findings.unknown = [
            UnmatchedPath(
                class_name,
                show(path),
                count,
                nearest(show(path), map(show, self.schema.classes[class_name].properties)),
            )
            for (class_name, path), count in self.unknown.most_common()
            if class_name in findings.classes
        ]
        return findings

    def _count_unknown(self, entity: Entity, entity_class: Class | None) -> None:
        """Count the paths without a property, once for each entity."""
        name = entity_class.name if entity_class else "\0"
        self.unknown.update(dict.fromkeys((name, names_of(path)[0]) for path in self.schema.unknown(entity)).keys())

    def _mark_seen(self, entity_class: Class, entity: Entity) -> None:
        unseen = self.unseen[entity_class.name]
        for path in list(unseen):
            try:
                at(entity.tree, path)
            except KeyError:
                continue
            del unseen[path]

    def _is_expected(self, class_name: str, path: Path) -> bool:
        """Whether an absent path is reported: its class is there, and it is neither ignored nor derived."""
        property = self.schema.classes[class_name].properties[path]
        return bool(self.counts.classes[class_name]) and property.role != "ignore" and property.formula is None

    def _unknown_of(self, class_name: str) -> list[str]:
        """The paths that the schema does not know, and those of the parts that they lead through."""
        paths = [path for name, path in self.unknown if name == class_name]
        return list({show(path[:length]): None for path in paths for length in range(1, len(path) + 1)})

    def _add_misfit(self, class_name: str, misfit: Misfit, id: str, place: str) -> None:
        path, problem = show(misfit.path), misfit.problem
        expected = problem.partition(", got ")[0]
        group = self.groups.setdefault((class_name, path, expected), MisfitGroup(class_name, path, expected))
        group.count += 1
        if len(group.examples) < MAX_MISFIT_EXAMPLES:
            group.examples.append(Example(id, place, problem))

    def _place(self, entity: Entity) -> str:
        """file:line where the format has lines, else the number of the entity."""
        separator = (
            ":"
            if self.kb.format in ("jsonl", "triples")
            else ", row "
            if self.kb.format in ("csv", "tsv")
            else ", entity "
        )
        return f"{self.kb.name}{separator}{entity.position}"

    def _nothing_in_common(self, paths: list[str]) -> str:
        source_paths = list(dict.fromkeys(show(path) for _, path in self.unknown))
        for path in paths:
            if near := nearest(path, source_paths):
                return f"none of its {len(paths)} paths is in {self.kb.name}. Did you mean {near!r} for {path!r}?"
        got = _first(source_paths) if source_paths else "no path at all"
        return f"expected one of {_first(paths)} in {self.kb.name}, got {got}. Name the schema of this source."


def _first(paths: list[str]) -> str:
    return ", ".join(paths[:8]) + (f" and {len(paths) - 8} more" if len(paths) > 8 else "")


def nearest(path: str, candidates: Iterable[str], cutoff: float = MISSPELT_SIMILARITY) -> str | None:
    """The candidate that a path may be a misspelling of, if any. It has the same first letter: height is not weight misspelt."""
    likely = [candidate for candidate in candidates if candidate[:1].lower() == path[:1].lower()]
    return next(iter(difflib.get_close_matches(path, likely, 1, cutoff)), None)


# ---------------------------------------------------------------- paths and classes as text


def names_of(path: Path) -> tuple[Names, dict[int, int]]:
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
    """Whether a wanted name is that of a class: its full name, or the last word of its IRI."""
    return name == wanted or last_word(name) == wanted
