"""The schema: which kind of value stands at which path, for each class, and what must hold of it.

    schema.apply(entity)     the entity with every value in the one form of its kind
    schema.leaves(entity)    {path: leaf value}, composites taken apart
    schema.tree(leaves)      the tree that these are the leaves of
    schema.check(entity)     what does not fit

A value that does not fit stays in the tree as it was and is no leaf: nothing is lost, nothing is learnt from it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

from kbdisk.entity import Entity, Known, Path, Tree, at, show, walk
from kbdisk.schemas import values
from kbdisk.schemas.composites import leaves_of
from kbdisk.schemas.composites.base import Kind, join_kind, split_kind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import KEY, Mapped
from kbdisk.schemas.constraints import Constraint, View, problem_of, violations
from kbdisk.schemas.formula import Formula
from kbdisk.schemas.kinds import Category, Link, Set
from kbdisk.schemas.rules import Rule
from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.names import did_you_mean, last_word

Role: TypeAlias = Literal["value", "given", "ignore"]
Many: TypeAlias = Literal["", "latest", "first", "median", "all"]
Comments: TypeAlias = Mapping[tuple[str | None, Path], str]  # by class and path; without a class, of a shared property

ID = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S|_:")  # of RDF: IRIs and blank nodes


@dataclass(frozen=True)
class Property:
    """What stands at a path: its kind, what it is for, and what must hold of it."""

    kind: Kind
    role: Role = "value"  # given: evidence that is never predicted
    required: bool = False  # asked for where it is not there
    unique: bool = False
    many: Many = ""  # which of several values counts; `all` makes a set of labels or links, and a list of others
    missing: tuple[str, ...] = ()  # spellings of a gap, beside the schema's own
    novalue: tuple[str, ...] = ()  # spellings of: known not to exist
    formula: Formula | None = None  # derived from others
    depends: tuple[Path, ...] = ()  # a function of these, whatever it is
    iri: str | None = None
    label: str = ""
    description: str = ""

    def __post_init__(self) -> None:
        if self.many == "all":
            object.__setattr__(self, "kind", all_of(self.kind))
            object.__setattr__(self, "many", "")


def all_of(kind: Kind) -> Kind:
    """The kind of several values of a kind, none of which counts more than the others."""
    if isinstance(kind, Category | Link):
        return Set(kind)
    return kind if isinstance(kind, Set | Listed) else Listed({"": kind})


@dataclass(frozen=True)
class Class:
    """The properties of the entities of one class, in order."""

    name: str
    properties: Mapping[Path, Property] = field(default_factory=dict)
    iri: str | None = None
    id: Path | None = None
    label: str = ""
    description: str = ""
    superclasses: tuple[str, ...] = ()  # by name or IRI, direct or not, the nearest first
    constraints: tuple[Constraint, ...] = ()  # what must hold of several properties, or of several values

    def leaves(self) -> dict[Path, Any]:
        """Every leaf by its path, EACH for any place in a list; without what is ignored."""
        shown = {path: one for path, one in self.properties.items() if one.role != "ignore"}
        return {leaf: kind for path, one in shown.items() for leaf, kind in leaves_of(path, one.kind)}

    def beginning(self, keys: Collection[str | int]) -> Iterable[tuple[Path, Property]]:
        """The properties whose paths begin with one of these keys, in order. It takes as long as there are keys."""
        if len(self.properties) <= len(keys):
            return self.properties.items()
        places = sorted(place for key in keys for place in self._places.get(key, ()))
        return (self._properties[place] for place in places)

    @cached_property
    def _properties(self) -> list[tuple[Path, Property]]:
        return list(self.properties.items())

    @cached_property
    def _places(self) -> dict[str | int, list[int]]:
        """Where the properties whose paths begin with a key stand."""
        places: dict[str | int, list[int]] = {}
        for place, path in enumerate(self.properties):
            places.setdefault(path[0], []).append(place)
        return places

    def knows(self, names: Path) -> bool:
        """Whether a property, or a field of its parts, is for what stands under these names; the id is known, too."""
        heads = (length for length in range(1, len(names) + 1) if names[:length] in self.properties)
        known = any(_knows(self.properties[names[:length]].kind, names[length:]) for length in heads)
        return known or names == self.id

    def has(self, path: Path) -> bool:
        """Whether a path is a property, a field or component of one, or a part that properties lie in."""
        heads = (path[:length] for length in range(1, len(path)))
        inside = any(_has(self.properties[head].kind, path[len(head) :]) for head in heads if head in self.properties)
        return inside or any(own[: len(path)] == path for own in self.properties)

    def constraints_on_properties(self) -> tuple[Constraint, ...]:
        """The constraints on properties that the class has; for links back also those of other classes."""
        return tuple(
            one
            for one in self.constraints
            if one.most == 0 or all(map(self.has, one.paths[: 1 if one.kind == "inverse" else 2]))
        )


@dataclass(frozen=True)
class Misfit:
    """A value that does not fit, or one that is required and is not there."""

    path: Path
    problem: str

    def __str__(self) -> str:
        return f"{show(self.path)}: {self.problem}"


@dataclass(frozen=True)
class Schema:
    """Classes and their properties, spellings of gaps, prefixes, rules (None: those that a source shows).

    `properties` are the definitions that classes share, by path. A property at such a path is learnt once for all classes
    that have it, any other for its class alone. None: properties of all classes that stand at one path are learnt once.
    Each class holds its properties in full, shared ones included, with what the class changes.
    """

    classes: Mapping[str, Class]
    label: str = ""
    description: str = ""
    missing: tuple[str, ...] = ()
    prefixes: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[Rule, ...] | None = None
    properties: Mapping[Path, Property] | None = None

    @classmethod
    def read(cls, source: str | os.PathLike[str]) -> Schema:
        """A schema: a YAML file, the name of one in the library, or (with a line break in it) YAML itself."""
        from kbdisk.schemas import yamlfile  # loads pydantic

        return yamlfile.read(source)

    def write(self, path: str | os.PathLike[str], comments: Comments | None = None, head: str = "") -> None:
        """Itself as a YAML file."""
        from kbdisk.schemas import yamlfile

        yamlfile.write(self, path, comments, head)

    def to_yaml(self, comments: Comments | None = None, head: str = "", rule_notes: Sequence[str] = ()) -> str:
        """Itself as YAML, with comments beside properties (or, by the path (), at a class) and notes on rules, in order."""
        from kbdisk.schemas import yamlfile

        return yamlfile.to_yaml(self, comments, head, rule_notes)

    def class_of(self, entity: Entity) -> Class | None:
        """The class that an entity is of: by name or IRI, the schema's first of several; a class without IRI and name for the rest."""
        by_iri = {one.iri: one for one in self.classes.values() if one.iri}
        told = (
            by_iri.get(name) or self.classes.get(name) or self.classes.get(last_word(name)) for name in entity.classes
        )
        found = [one for one in told if one is not None]
        if len(found) > 1:  # the schema's order counts, not the entity's
            return next(one for one in self.classes.values() if any(one is each for each in found))
        if found:
            return found[0]
        if len(self.classes) == 1 and not entity.classes:
            return next(iter(self.classes.values()))
        return self.classes.get("")

    def id_of(self, entity: Entity) -> str:
        """What an entity is called, so that links find it: what stands at its class's id, unless its source says it itself."""
        found = self.class_of(entity)
        if found is None or found.id is None or "@id" in entity.tree or ID.match(entity.id):
            return entity.id
        try:
            value = at(entity.tree, found.id)
        except KeyError:
            return entity.id
        told = value if isinstance(value, str) else numerals.show(value) if type(value) is int else ""
        return entity.id if told in ("", *self.missing) else told

    def apply(self, entity: Entity) -> Entity:
        """The entity with each value in the one form of its kind. The entity itself stays as it was."""
        found = self.class_of(entity)
        if found is None:
            return entity
        tree = entity.tree
        for path, _, value in self.applied(found, entity):
            if value is not None or not isinstance(at(tree, path), dict | list):  # a gap by its spelling is asked for
                tree = values.with_value(tree, path, value)
        return replace(entity, tree=tree)

    def leaves(self, entity: Entity, *, ignored: bool = False) -> dict[Path, Any]:
        """What is known, leaf by leaf: of what fits; what is `ignored` only where it is asked for."""
        found = self.class_of(entity)
        leaves: dict[Path, Any] = {}
        for path, one, value in self.applied(found, entity) if found else ():
            if (ignored or one.role != "ignore") and value is not None and not isinstance(value, Known):
                leaves |= {(*path, *within): leaf for within, leaf in split_kind(one.kind, value).items()}
        return leaves

    def tree(self, leaves: Mapping[Path, Any], of: str | None = None) -> Tree:
        """The tree that these are the leaves of, for a class (the only one, where there is one)."""
        found = self.classes[of] if of is not None else next(iter(self.classes.values()))
        tree: Tree = {}
        for path, one in found.beginning({leaf[0] for leaf in leaves}):
            parts = {leaf[len(path) :]: value for leaf, value in leaves.items() if leaf[: len(path)] == path}
            if parts:
                tree = values.with_value(tree, path, join_kind(one.kind, parts))
        return tree

    def check(self, entity: Entity) -> list[Misfit]:
        """What does not fit."""
        found = self.class_of(entity)
        if found is None:
            return [
                Misfit((), f"expected a class of {', '.join(self.classes)}, got {', '.join(entity.classes) or 'none'}")
            ]
        misfits: list[Misfit] = []
        fitting = {path for path, _, value in self.applied(found, entity, misfits) if value is not None}
        bad = {misfit.path for misfit in misfits}
        for path, one in found.properties.items():
            if one.required and path not in fitting and path not in bad:
                misfits.append(Misfit(path, "expected a value, got none"))
        return [*misfits, *self._wrong_results(found, entity), *self._violations(found, entity)]

    def unknown(self, entity: Entity) -> Iterator[Path]:
        """The paths of an entity that no property is for."""
        found = self.class_of(entity)
        for path, _ in walk(entity.tree):
            if found is None or not found.knows(tuple(key for key in path if isinstance(key, str))):
                yield path

    def applied(
        self, found: Class, entity: Entity, misfits: list[Misfit] | None = None
    ) -> Iterator[tuple[Path, Property, Any]]:
        """What is there of a class's properties and fits, path by path; None for gaps, SOMEVALUE and NOVALUE as they are."""
        for path, one in found.beginning(entity.tree):
            try:
                value = at(entity.tree, path)
            except KeyError:
                continue
            try:
                value = values.applied(one, value, self.missing)
            except ValueError as error:
                if misfits is not None:
                    misfits.append(Misfit(path, str(error)))
                continue
            yield path, one, value

    def view(self, of: Class, entity: Entity) -> View:
        """An entity's values, as constraints take them."""
        return View(of.properties, entity.tree, self.missing, id=of.id)

    def _violations(self, of: Class, entity: Entity) -> Iterator[Misfit]:
        """The constraints that an entity's own values violate."""
        view = self.view(of, entity)
        for constraint in of.constraints:
            if not constraint.needs_classes:  # that is checked when all entities are known
                for violation in violations(constraint, view):
                    yield Misfit(constraint.path or violation.path, problem_of(constraint, violation.got))

    def _wrong_results(self, found: Class, entity: Entity) -> Iterator[Misfit]:
        """Derived values that are not what their formula gives."""
        leaves = self.leaves(entity, ignored=True)
        for path, one in found.properties.items():
            result = one.formula.of(leaves) if one.formula else None
            given = leaves.get(path, leaves.get((*path, "value")))
            if result is not None and given is not None and not _close(result, given):
                yield Misfit(path, f"expected {result:.10g} by {one.formula.text}, got {given!r}")  # type: ignore[union-attr]


def of_one_class(properties: Mapping[Path, Property], name: str = "", **told: Any) -> Schema:
    """A schema of one class."""
    return Schema({name: Class(name, properties)}, **told)


def names_of(schema: Schema) -> Iterable[str]:
    """Every path of a schema as text, for suggestions."""
    return (show(path) for one in schema.classes.values() for path in one.properties)


def unknown_to(of: Class, path: Path, more: Iterable[Path] = ()) -> str:
    """The problem with a path of which a model of a class knows nothing: ignored by the schema, an id, or no property.

    `more` are paths that the model knows beside the properties.
    """
    ignored = {known for known, property_ in of.properties.items() if property_.role == "ignore"}
    if of.id is not None and path[: len(of.id)] == of.id and (of.id in ignored or of.id not in of.properties):
        return "expected a property that the model learnt, got the id of entities."
    if any(path[: len(head)] == head for head in ignored):
        return "expected a property that the model learnt, got one that its schema leaves out (role: ignore)."
    known = dict.fromkeys(show(name) for name in (*of.properties, *more) if name not in ignored)
    return f"expected a property that the model knows.{did_you_mean(show(path), known)}"


def _knows(kind: Kind, names: Path) -> bool:
    """Whether a kind has a field for what stands under these names; one without fields takes all."""
    if isinstance(kind, Mapped):
        names = names[1:]  # the key
    if not names or not isinstance(kind, Listed | Mapped):
        return True
    if "" in kind.fields:
        return _knows(kind.fields[""], names)
    return names[0] in kind.fields and _knows(kind.fields[str(names[0])], names[1:])


def _has(kind: Kind, names: Path) -> bool:
    """Whether a kind has a field or a component of this name."""
    if isinstance(kind, Mapped):
        return names == (KEY,) or _has(Listed(kind.fields), names)
    if isinstance(kind, Listed):
        return names[0] in kind.fields and (len(names) == 1 or _has(kind.fields[str(names[0])], names[1:]))
    return names in [path for path, _ in leaves_of((), kind) if path]


def _close(result: float, given: Any) -> bool:
    try:
        return abs(float(result) - float(given)) <= 1e-6 + 1e-3 * abs(float(result))
    except (TypeError, ValueError, OverflowError):
        return False
