"""The schema: for each class the property at each path, and constraints on the values.

    schema.apply(entity)     the entity with every value in the one form of its kind
    schema.leaves(entity)    {path: leaf value}, composites taken apart
    schema.tree(leaves)      the tree with these leaves: the inverse of `leaves`
    schema.check(entity)     misfits: values that do not fit, required ones that are absent, violations of constraints

A value that does not fit stays in the tree as it is, and is no leaf: no model learns from it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

from kbdisk.entity import Entity, Known, Path, Quantity, Tree, at, show, walk
from kbdisk.notebook import html_table
from kbdisk.schemas.composites import kind_name, leaves_of
from kbdisk.schemas.composites.base import Kind, join_kind, split_kind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import KEY, Mapped
from kbdisk.schemas.composites.quantity import Quantity as QuantityKind
from kbdisk.schemas.constraints import Constraint, View, problem_of, violations
from kbdisk.schemas.kinds import Number
from kbdisk.schemas.property import Property, apply_property, with_value
from kbdisk.schemas.rules import Rule
from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.names import did_you_mean, last_word

Comments: TypeAlias = Mapping[tuple[str | None, Path], str]  # by class and path; without a class, of a shared property

RDF_ID = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S|_:")  # IRIs and blank nodes
MAX_CLASSES_SHOWN = 5  # in the line of a schema
FORMULA_DIGITS = 10  # of a result without decimals of its own: more would be noise


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
        """Every leaf by its path, with EACH for any place in a list; without those of ignored properties."""
        kinds = {path: property_.kind for path, property_ in self.properties.items() if property_.role != "ignore"}
        return {leaf_path: leaf for path, kind in kinds.items() for leaf_path, leaf in leaves_of(path, kind)}

    def beginning(self, keys: Collection[str | int]) -> Iterable[tuple[Path, Property]]:
        """The properties whose paths begin with one of these keys, in order. The time grows with the number of keys."""
        if len(self.properties) <= len(keys):
            return self.properties.items()
        places = sorted(place for key in keys for place in self._places.get(key, ()))
        return (self._properties[place] for place in places)

    @cached_property
    def _properties(self) -> list[tuple[Path, Property]]:
        return list(self.properties.items())

    @cached_property
    def _places(self) -> dict[str | int, list[int]]:
        """By the first key of their paths, the places of properties in their order."""
        places: dict[str | int, list[int]] = {}
        for place, path in enumerate(self.properties):
            places.setdefault(path[0], []).append(place)
        return places

    def knows(self, names: Path) -> bool:
        """Whether the names are a property, a field of its parts, or the id."""
        lengths = (length for length in range(1, len(names) + 1) if names[:length] in self.properties)
        known = any(_knows(self.properties[names[:length]].kind, names[length:]) for length in lengths)
        return known or names == self.id

    def has(self, path: Path) -> bool:
        """Whether a path is a property, a field or component of one, or a part that properties lie in."""
        heads = (path[:length] for length in range(1, len(path)))
        inside = any(_has(self.properties[head].kind, path[len(head) :]) for head in heads if head in self.properties)
        return inside or any(known[: len(path)] == path for known in self.properties)

    def constraints_on_properties(self) -> tuple[Constraint, ...]:
        """The constraints whose properties the class has. The second property of an inverse is of another class."""
        return tuple(
            constraint
            for constraint in self.constraints
            if constraint.most == 0 or all(map(self.has, constraint.paths[: 1 if constraint.kind == "inverse" else 2]))
        )


@dataclass(frozen=True)
class Misfit:
    """A value that does not fit, or a required value that is absent."""

    path: Path
    problem: str

    def __str__(self) -> str:
        return f"{show(self.path)}: {self.problem}"


@dataclass(frozen=True)
class Schema:
    """Classes with their properties; spellings of gaps, prefixes, and rules (None: those found in a source).

    `properties` are the shared definitions, by path. A property at such a path is learnt once for all classes that have
    it, and any other property for its class alone. Without shared definitions (None) the properties of all classes at one
    path are learnt once. Each class has all its properties in full: shared ones, too, with the changes of the class.
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
        from kbdisk.schemas import yaml  # loads pydantic

        return yaml.read(source)

    def __repr__(self) -> str:
        """The classes with the number of their properties."""
        classes = [
            f"{name or 'one class'} with {len(known.properties):,} properties" for name, known in self.classes.items()
        ]
        more = f" and {len(classes) - MAX_CLASSES_SHOWN:,} more classes" if len(classes) > MAX_CLASSES_SHOWN else ""
        return f"<Schema: {', '.join(classes[:MAX_CLASSES_SHOWN]) or 'no class'}{more}>"

    def _repr_html_(self) -> str:
        rows = [
            (name, show(path), kind_name(known.kind), known.role)
            for name, schema_class in self.classes.items()
            for path, known in schema_class.properties.items()
        ]
        rules = f"{len(self.rules):,} rules" if self.rules else ""
        return html_table(self.label or "Schema", ("class", "property", "kind", "role"), rows, rules)

    def write(self, path: str | os.PathLike[str], comments: Comments | None = None, head: str = "") -> None:
        """Write the schema as a YAML file."""
        from kbdisk.schemas import yaml

        yaml.write(self, path, comments, head)

    def to_yaml(self, comments: Comments | None = None, head: str = "", rule_notes: Sequence[str] = ()) -> str:
        """The schema as YAML, with comments beside properties (or, by the path (), at a class) and notes on rules, in order."""
        from kbdisk.schemas import yaml

        return yaml.to_yaml(self, comments, head, rule_notes)

    def class_of(self, entity: Entity) -> Class | None:
        """The class of an entity by name or IRI, the first in the schema of several.

        An entity of no known class is of the class without a name, or, if it names no class, of the only one.
        """
        matches = [
            class_
            for name in entity.classes
            if (class_ := self._by_iri.get(name) or self.classes.get(name) or self.classes.get(last_word(name)))
            is not None
        ]
        if len(matches) > 1:  # the schema's order counts, not the entity's
            return next(class_ for class_ in self.classes.values() if any(class_ is match for match in matches))
        if matches:
            return matches[0]
        if len(self.classes) == 1 and not entity.classes:
            return next(iter(self.classes.values()))
        return self.classes.get("")

    @cached_property
    def _by_iri(self) -> Mapping[str, Class]:
        """The classes that have an IRI, by it."""
        return {class_.iri: class_ for class_ in self.classes.values() if class_.iri}

    def id_of(self, entity: Entity) -> str:
        """The id by which links name an entity: the value at its class's id, unless the source itself gives an id."""
        class_ = self.class_of(entity)
        if class_ is None or class_.id is None or "@id" in entity.tree or RDF_ID.match(entity.id):
            return entity.id
        try:
            value = at(entity.tree, class_.id)
        except KeyError:
            return entity.id
        id = value if isinstance(value, str) else numerals.show(value) if type(value) is int else ""
        return entity.id if id in ("", *self.missing) else id

    def apply(self, entity: Entity) -> Entity:
        """A copy of the entity with each value in the one form of its kind."""
        class_ = self.class_of(entity)
        if class_ is None:
            return entity
        tree = entity.tree
        for path, _, value in self.applied(class_, entity):
            if value is not None or not isinstance(at(tree, path), dict | list):  # an empty part stays a part
                tree = with_value(tree, path, value)
        return replace(entity, tree=tree)

    def leaves(self, entity: Entity, *, ignored: bool = False) -> dict[Path, Any]:
        """The known leaf values that fit, by path; those of ignored properties only if `ignored`."""
        class_ = self.class_of(entity)
        leaves: dict[Path, Any] = {}
        for path, property_, value in self.applied(class_, entity) if class_ else ():
            if (ignored or property_.role != "ignore") and value is not None and not isinstance(value, Known):
                leaves |= {(*path, *within): leaf for within, leaf in split_kind(property_.kind, value).items()}
        return leaves

    def tree(self, leaves: Mapping[Path, Any], of: str | None = None) -> Tree:
        """The tree with these leaves, for a class by its name (by default the only class)."""
        class_ = self.classes[of] if of is not None else next(iter(self.classes.values()))
        tree: Tree = {}
        for path, property_ in class_.beginning({leaf[0] for leaf in leaves}):
            parts = {leaf[len(path) :]: value for leaf, value in leaves.items() if leaf[: len(path)] == path}
            if parts:
                tree = with_value(tree, path, join_kind(property_.kind, parts))
        return tree

    def check(self, entity: Entity) -> list[Misfit]:
        """The misfits of an entity, as far as it alone shows them."""
        class_ = self.class_of(entity)
        if class_ is None:
            return [
                Misfit((), f"expected a class of {', '.join(self.classes)}, got {', '.join(entity.classes) or 'none'}")
            ]
        misfits: list[Misfit] = []
        fitting = {path for path, _, value in self.applied(class_, entity, misfits) if value is not None}
        bad = {misfit.path for misfit in misfits}
        for path, property_ in class_.properties.items():
            if property_.required and path not in fitting and path not in bad:
                misfits.append(Misfit(path, "expected a value, got none"))
        return [*misfits, *self._wrong_results(class_, entity), *self._violations(class_, entity)]

    def unknown(self, entity: Entity) -> Iterator[Path]:
        """The paths of an entity that belong to no property."""
        class_ = self.class_of(entity)
        for path, _ in walk(entity.tree):
            if class_ is None or not class_.knows(tuple(key for key in path if isinstance(key, str))):
                yield path

    def applied(
        self, class_: Class, entity: Entity, misfits: list[Misfit] | None = None
    ) -> Iterator[tuple[Path, Property, Any]]:
        """The values of a class's properties that are there and fit, by path; None for gaps, SOMEVALUE and NOVALUE as they are."""
        tree = entity.tree
        for path, property_ in class_.beginning(tree):
            if path[0] not in tree:
                continue
            try:
                value = tree[path[0]] if len(path) == 1 else at(tree, path)
            except KeyError:
                continue
            try:
                value = apply_property(property_, value, self.missing)
            except ValueError as error:
                if misfits is not None:
                    misfits.append(Misfit(path, str(error)))
                continue
            yield path, property_, value

    def view(self, class_: Class, entity: Entity) -> View:
        """An entity's values, as constraints take them."""
        return View(class_.properties, entity.tree, self.missing, id=class_.id)

    def _violations(self, class_: Class, entity: Entity) -> Iterator[Misfit]:
        """The constraints that an entity's own values violate."""
        view = self.view(class_, entity)
        for constraint in class_.constraints:
            if not constraint.needs_classes:  # that is checked when all entities are known
                for violation in violations(constraint, view):
                    yield Misfit(constraint.path or violation.path, problem_of(constraint, violation.got))

    def _wrong_results(self, class_: Class, entity: Entity) -> Iterator[Misfit]:
        """Derived values that differ from the result of their formula."""
        leaves = self.leaves(entity, ignored=True)
        for path, property_ in class_.properties.items():
            result = property_.formula.of(leaves) if property_.formula else None
            given = leaves.get(path, leaves.get((*path, "value")))
            if result is not None and given is not None and not _close(result, given):
                yield Misfit(path, f"expected {result:.10g} by {property_.formula.text}, got {given!r}")  # type: ignore[union-attr]


def of_one_class(properties: Mapping[Path, Property], name: str = "", **fields: Any) -> Schema:
    """A schema of one class; `fields` are those of Schema."""
    return Schema({name: Class(name, properties)}, **fields)


def names_of(schema: Schema) -> Iterable[str]:
    """Every path of a schema as text, for suggestions."""
    return (show(path) for class_ in schema.classes.values() for path in class_.properties)


def derived_values(
    class_: Class, leaves: Mapping[Path, Any], closed: Collection[Path] = ()
) -> Iterator[tuple[Path, Property, Any]]:
    """The derived properties without a value, and the results of their formulas; none where a formula lacks a value.

    A result counts in the formulas of others. Properties at `closed` paths stay without a value.
    """
    known = dict(leaves)
    open_properties = {
        path: (property_, property_.formula)
        for path, property_ in class_.properties.items()
        if property_.formula is not None
        and property_.role != "ignore"
        and path not in closed
        and path not in leaves
        and (*path, "value") not in leaves
    }
    while results := {
        path: result for path, (_, formula) in open_properties.items() if (result := formula.of(known)) is not None
    }:
        for path, result in results.items():
            property_, _ = open_properties.pop(path)
            value = _result_of_kind(property_.kind, result)
            known |= {(*path, *within): leaf for within, leaf in split_kind(property_.kind, value).items()}
            yield path, property_, value


def _result_of_kind(kind: Kind, result: float | bool) -> Any:
    """The result of a formula as a value of a kind."""
    number = kind.value if isinstance(kind, QuantityKind) else kind
    if isinstance(number, Number) and not isinstance(result, bool):
        if number.integer or isinstance(result, int):
            result = round(result)
        elif number.decimals is None:
            result = float(f"{result:.{FORMULA_DIGITS}g}")
        else:
            result = round(result, number.decimals)
    return Quantity(result, kind.unit) if isinstance(kind, QuantityKind) else result


def unknown_to(class_: Class, path: Path, more: Iterable[Path] = ()) -> str:
    """The problem with a path of which a model of a class knows nothing: ignored by the schema, an id, or no property.

    `more` are paths that the model knows beside the properties.
    """
    ignored = {known for known, property_ in class_.properties.items() if property_.role == "ignore"}
    if (
        class_.id is not None
        and path[: len(class_.id)] == class_.id
        and (class_.id in ignored or class_.id not in class_.properties)
    ):
        return "expected a property that the model learnt, got the id of entities."
    if any(path[: len(head)] == head for head in ignored):
        return "expected a property that the model learnt, got one that its schema leaves out (role: ignore)."
    known = dict.fromkeys(show(name) for name in (*class_.properties, *more) if name not in ignored)
    return f"expected a property that the model knows.{did_you_mean(show(path), known)}"


def _knows(kind: Kind, names: Path) -> bool:
    """Whether a kind has a field with these names; a kind without fields takes all."""
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
