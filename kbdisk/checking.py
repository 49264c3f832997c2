"""Whether a knowledge base fits a schema: what does not, how often and where first. Plain data, nothing printed.

One reading. A misfit is a value that the schema refuses; a path or class that only one side knows is told, too, but
is no misfit, unless it looks like the other side's, misspelt.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kbdisk.entity import Entity, Path, at, show
from kbdisk.errors import SchemaError
from kbdisk.inspection import is_class, named
from kbdisk.loaders.kb import KB
from kbdisk.schemas.schema import Class, Misfit, Schema
from kbdisk.schemas.text.names import refuse_unmet
from kbdisk.schemas.validate import CrossEntityValidator

EXAMPLES = 3  # places shown of each kind of misfit
NEAR = 0.75  # how alike two paths are that are one, misspelt


@dataclass(frozen=True, slots=True)
class Example:
    """One misfit: of which entity, where that stands, and what is wrong."""

    id: str
    place: str
    problem: str


@dataclass(slots=True)
class Trouble:
    """Misfits of one kind at one path."""

    of: str  # the schema's class
    path: str
    problem: str  # what was expected
    count: int = 0
    examples: list[Example] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Stray:
    """A path that only the source has, or only the schema; `near` is what it may have been meant for."""

    of: str
    path: str
    count: int = 0
    near: str | None = None


@dataclass(slots=True)
class Findings:
    """All that was found."""

    source: str
    format: str
    entities: int = 0
    classes: Counter[str] = field(default_factory=Counter)  # the schema's -> entities
    strange: Counter[str] = field(default_factory=Counter)  # the source's that the schema does not know
    misfits: list[Trouble] = field(default_factory=list)
    unknown: list[Stray] = field(default_factory=list)  # in the source alone
    absent: list[Stray] = field(default_factory=list)  # in the schema alone
    skipped: list[str] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        """Whether every value fits, and no path looks misspelt."""
        return not self.misfits and not any(one.near for one in self.absent)

    @property
    def whole(self) -> bool:
        """Whether the schema knows all that is there, too, and all that it knows is there."""
        return not (self.misfits or self.unknown or self.absent or self.strange)


def check(schema: Schema, kb: KB, *, name: str = "the schema", classes: Iterable[str] = ()) -> Findings:
    """Read a knowledge base once against a schema; SchemaError where none of the schema's paths is in it."""
    reader = _Reader(schema, kb)
    wanted, met = tuple(classes), dict[str, None]()
    for entity in kb:
        met |= dict.fromkeys(entity.classes if wanted else ())
        if not wanted or any(is_class(one, want) for one in entity.classes for want in wanted):
            reader.take(entity)
    refuse_unmet(kb.name, wanted, met)
    return reader.findings(name)


class _Reader:
    """What has to be kept while reading."""

    def __init__(self, schema: Schema, kb: KB) -> None:
        self.schema = schema
        self.kb = kb
        self.found = Findings(kb.name, kb.format)
        self.across = CrossEntityValidator(schema)
        self.troubles: dict[tuple[str, str, str], Trouble] = {}
        self.unseen = {name: dict.fromkeys(one.properties) for name, one in schema.classes.items()}
        self.unknown: Counter[tuple[str, Path]] = Counter()

    def take(self, entity: Entity) -> None:
        """One entity."""
        self.found.entities += 1
        entity = replace(entity, id=self.schema.id_of(entity))
        of = self.schema.class_of(entity)
        self._unknown(entity, of)
        if of is None:
            self.found.strange[entity.classes[0] if entity.classes else ""] += 1
            self.across.take(entity, None)
            return
        self.found.classes[of.name] += 1
        self._seen(of, entity)
        for misfit in [*self.schema.check(entity), *self.across.take(entity, of)]:
            self._note(of.name, misfit, entity.id, self._place(entity))

    def findings(self, name: str) -> Findings:
        """What was found, the most frequent first."""
        found = self.found
        for of, misfit, id in self.across.at_the_end(self.kb.hierarchy):
            self._note(of, misfit, id, self.kb.name)
        found.misfits = sorted(self.troubles.values(), key=lambda one: -one.count)
        found.skipped = [str(error) for error in self.kb.skipped]
        unseen = [(of, path) for of, paths in self.unseen.items() for path in paths]
        if found.entities and len(unseen) == sum(len(one.properties) for one in self.schema.classes.values()):
            raise SchemaError(name, self._nothing_in_common([show(path) for _, path in unseen]))
        absent = [(of, show(path)) for of, path in unseen if self._expected(of, path)]
        found.absent = [Stray(of, path, 0, nearest(path, self._unknown_of(of))) for of, path in absent]
        found.unknown = [
            Stray(of, show(path), count, nearest(show(path), map(show, self.schema.classes[of].properties)))
            for (of, path), count in self.unknown.most_common()
            if of in found.classes
        ]
        return found

    def _unknown(self, entity: Entity, of: Class | None) -> None:
        """Count the paths without a property, once for each entity."""
        name = of.name if of else "\0"
        self.unknown.update(dict.fromkeys((name, named(path)[0]) for path in self.schema.unknown(entity)).keys())

    def _seen(self, of: Class, entity: Entity) -> None:
        unseen = self.unseen[of.name]
        for path in list(unseen):
            try:
                at(entity.tree, path)
            except KeyError:
                continue
            del unseen[path]

    def _expected(self, of: str, path: Path) -> bool:
        """Whether a path that is nowhere should be told: its class is there, and it is neither ignored nor derived."""
        one = self.schema.classes[of].properties[path]
        return bool(self.found.classes[of]) and one.role != "ignore" and one.formula is None

    def _unknown_of(self, of: str) -> list[str]:
        """Paths that the schema does not know, and those of the parts that they lead through."""
        paths = [path for name, path in self.unknown if name == of]
        return list({show(path[:length]): None for path in paths for length in range(1, len(path) + 1)})

    def _note(self, of: str, misfit: Misfit, id: str, place: str) -> None:
        path, problem = show(misfit.path), misfit.problem
        expected = problem.partition(", got ")[0]
        trouble = self.troubles.setdefault((of, path, expected), Trouble(of, path, expected))
        trouble.count += 1
        if len(trouble.examples) < EXAMPLES:
            trouble.examples.append(Example(id, place, problem))

    def _place(self, entity: Entity) -> str:
        """file:line where the format has lines, else the number of the entity."""
        what = ":" if self.kb.format == "jsonl" else ", row " if self.kb.format in ("csv", "tsv") else ", entity "
        return f"{self.kb.name}{what}{entity.position}"

    def _nothing_in_common(self, paths: list[str]) -> str:
        theirs = list(dict.fromkeys(show(path) for _, path in self.unknown))
        for path in paths:
            if near := nearest(path, theirs):
                return f"none of its {len(paths)} paths is in {self.kb.name}. Did you mean {near!r} for {path!r}?"
        there = _some(theirs) if theirs else "no path at all"
        return f"expected one of {_some(paths)} in {self.kb.name}, got {there}. Name the schema of this source."


def _some(paths: list[str]) -> str:
    return ", ".join(paths[:8]) + (f" and {len(paths) - 8} more" if len(paths) > 8 else "")


def nearest(path: str, others: Iterable[str], cutoff: float = NEAR) -> str | None:
    """What a path may have been meant for: height is not weight misspelt, so the first letter counts."""
    likely = [other for other in others if other[:1].lower() == path[:1].lower()]
    return next(iter(difflib.get_close_matches(path, likely, 1, cutoff)), None)
