"""From the keys of a file to a Schema: paths, IRIs and formulas are read, and looked up where they name others."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from kbdisk.entity import Path, read_path, show
from kbdisk.schemas.composites import name_of
from kbdisk.schemas.composites.base import EACH, Composite, leaves_of
from kbdisk.schemas.formula import Formula
from kbdisk.schemas.property import Property
from kbdisk.schemas.rules import Rule
from kbdisk.schemas.schema import Class, Schema
from kbdisk.schemas.text.names import did_you_mean
from kbdisk.schemas.yaml.file_keys import ClassKeys, FileKeys, ParsedProperty, PropertyKeys, RuleKeys
from kbdisk.schemas.yaml.parse import Place

T = TypeVar("T")

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
KNOWN_SCHEMES = ("urn:", "tag:", "mailto:", "info:", "data:", "doi:", "did:")
RULE_SETTINGS = ("factor", "offset", "template", "decimals", "class_name", "support", "exceptions")
NO_IRI = re.compile(r'[\x00-\x20<>"{}|^`\\]')


@dataclass
class Builder:
    """Builds a Schema; `problems` gathers all problems by their places in the file."""

    prefixes: Mapping[str, str] = field(default_factory=dict)
    problems: dict[Place, str] = field(default_factory=dict)

    def schema(self, keys: FileKeys) -> Schema:
        """The schema of a file."""
        for name, iri in keys.prefixes.items():
            self.read(("prefixes", name), _absolute, iri)
        self.prefixes = keys.prefixes
        shared = None if keys.properties is None else self.properties(("properties",), keys.properties)
        classes = {name: self.class_(name, class_keys, shared) for name, class_keys in keys.classes.items()}
        rules = None if keys.rules is None else self.rules(keys.rules, classes)
        for name, class_ in classes.items():
            self.check_constraints(("classes", name, "constraints"), class_, classes)
        return Schema(classes, keys.label, keys.description, keys.missing, keys.prefixes, rules, shared)

    def rules(self, keys: Sequence[RuleKeys], classes: Mapping[str, Class]) -> tuple[Rule, ...]:
        """The rules of a file, in their order."""
        parsed = (self.rule(("rules", n), rule_keys, classes) for n, rule_keys in enumerate(keys))
        return tuple(rule for rule in parsed if rule is not None)

    def rule(self, place: Place, keys: RuleKeys, classes: Mapping[str, Class]) -> Rule | None:
        """A rule; None, with a problem, where its target is no property of a class. All its paths have to be in classes."""
        name = keys.class_name
        if name is not None and name not in classes:
            self.problems[*place, "class"] = f"no class is called {name!r}.{did_you_mean(name, list(classes))}"
            return None
        target = self.read((*place, "target"), _names, keys.target)
        paths = [self.read((*place, "of", n), _names, text) for n, text in enumerate(keys.of)]
        if target is None or None in paths:
            return None
        targets = {
            path for of_class in classes.values() if name in (None, of_class.name) for path in of_class.properties
        }
        if target not in targets:
            hint = did_you_mean(show(target), [show(path) for path in targets])
            self.problems[*place, "target"] = f"no property has the path {show(target)}.{hint}"
            return None
        for n, path in enumerate(paths):
            self.read((*place, "of", n), lambda path: _of_any_class(path, classes), path)
        settings = {key: getattr(keys, key) for key in RULE_SETTINGS}
        return self.read(place, lambda of: Rule(target, keys.rule, tuple(of), **settings), paths)

    def class_(self, name: str, keys: ClassKeys, shared: Mapping[Path, Property] | None) -> Class:
        """A class with all its properties: those that it uses, then those that it defines or changes."""
        place: Place = ("classes", name)
        places = self.uses((*place, "uses"), keys.uses, shared or {})
        properties = {path: (shared or {})[path] for path in places}
        properties |= self.properties((*place, "properties"), keys.properties, places)
        for path in properties:
            self.check(places.get(path, (*place, "properties", show(path))), path, properties)
        iri = self.read((*place, "iri"), self.iri, keys.iri)
        id = self.read((*place, "id"), read_path, keys.id)
        texts = keys.label, keys.description
        return Class(name, properties, iri, id, *texts, keys.superclasses, keys.constraints)

    def check_constraints(self, place: Place, class_: Class, classes: Mapping[str, Class]) -> None:
        """Refuse constraints on properties that the class does not have; the second one of an inverse may be of any class."""
        for n, constraint in enumerate(class_.constraints):
            if constraint.kind == "count" and constraint.most == 0:  # what must not be there needs no property
                continue
            for name, path in (("path", constraint.path), ("other", constraint.other)):
                owners = classes if (constraint.kind, name) == ("inverse", "other") else {class_.name: class_}
                if path:
                    self.read((*place, n), partial(_in_any_class, classes=owners), path)

    def uses(self, place: Place, paths: Sequence[str], shared: Mapping[Path, Property]) -> dict[Path, Place]:
        """The paths of shared properties that a class uses unchanged, each with its place in the file."""
        used: dict[Path, Place] = {}
        for n, text in enumerate(paths):
            place_of_path = (*place, n)
            path = self.read(place_of_path, _names, text)
            if path is None:
                continue
            if path in used:
                self.problems[place_of_path] = f"{show(path)} stands twice"
            elif path in shared:
                used[path] = place_of_path
            else:
                hint = did_you_mean(show(path), list(map(show, shared))) or " Define it in `properties` of the file."
                self.problems[place_of_path] = f"no property of the file has the path {show(path)}.{hint}"
        return used

    def properties(
        self, place: Place, parsed_properties: Mapping[str, ParsedProperty], before: Collection[Path] = ()
    ) -> dict[Path, Property]:
        """Properties by their paths, none of which is among those `before`."""
        properties: dict[Path, Property] = {}
        for text, parsed in parsed_properties.items():
            place_of_path = (*place, text)
            path = self.read(place_of_path, _names, text)
            if path is None:
                continue
            if path in before:
                self.problems[place_of_path] = f"{show(path)} stands in uses, too. Leave it out there."
            elif path in properties:
                self.problems[place_of_path] = f"{show(path)} stands twice"
            else:
                properties[path] = self.property(place_of_path, parsed)
        return properties

    def property(self, place: Place, parsed: ParsedProperty) -> Property:
        """A property; the paths that it names are checked later, when all properties are known."""
        read_apart, property_keys = {"formula", "depends", "iri"}, parsed.keys
        depends = (self.read((*place, "depends", n), read_path, path) for n, path in enumerate(property_keys.depends))
        return Property(
            parsed.kind,
            formula=self.read((*place, "formula"), Formula.read, property_keys.formula),
            depends=tuple(path for path in depends if path is not None),
            iri=self.read((*place, "iri"), self.iri, property_keys.iri),
            **{key: getattr(property_keys, key) for key in PropertyKeys.model_fields if key not in read_apart},
        )

    def check(self, place: Place, path: Path, properties: Mapping[Path, Property]) -> None:
        """Refuse a path within that of another property, and formulas of unknown paths."""
        property_ = properties[path]
        inside = next((other for length in range(1, len(path)) if (other := path[:length]) in properties), None)
        if inside is not None:
            kind = name_of(properties[inside].kind)
            self.problems[place] = (
                f"expected a path of its own, got one within {show(inside)}, a {kind}. Leave one out."
            )
        for needed in property_.formula.paths if property_.formula else ():
            self.read((*place, "formula"), lambda path_: _check_leaf_of_formula(path_, path, properties), needed)
        for n, needed in enumerate(property_.depends):
            self.read((*place, "depends", n), lambda path_: _property_at(path_, path, properties), needed)

    def iri(self, text: str) -> str:
        """An IRI in full: `<...>` and IRIs with a scheme as they are, all others by their prefix."""
        prefix, colon, local = text.partition(":")
        if text.startswith("<") and text.endswith(">"):
            return _absolute(text[1:-1])
        if colon and prefix in self.prefixes and not local.startswith("//"):
            return _absolute(self.prefixes[prefix] + local)
        if colon and not local.startswith("//") and not text.lower().startswith(KNOWN_SCHEMES):
            known = ", ".join(self.prefixes) or "none"
            guess = did_you_mean(prefix, self.prefixes)
            raise ValueError(f"unknown prefix {prefix!r}.{guess} Known prefixes: {known}. Add it to prefixes.")
        return _absolute(text)

    def read(self, place: Place, reader: Callable[[Any], T], value: Any) -> T | None:
        """The result of a reader; None where there is no value, or where it has a problem."""
        try:
            return None if value is None else reader(value)
        except ValueError as error:
            self.problems.setdefault(place, str(error))
            return None


def _names(text: str) -> Path:
    path = read_path(text)
    if not all(isinstance(key, str) for key in path):
        raise ValueError(f"expected names alone, got {text!r}. Several values at a path are of the kind list.")
    return path


def _absolute(iri: str) -> str:
    if not SCHEME.match(iri) or NO_IRI.search(iri):
        raise ValueError(f"expected an IRI such as http://example.org/Phone, got {iri!r}")
    return iri


def _check_leaf_of_formula(needed: Path, target: Path, properties: Mapping[Path, Property]) -> None:
    """Refuse a path of a formula that is not a leaf of another property, outside of lists."""
    property_ = _property_at(needed, target, properties)
    if needed in properties and isinstance(property_.kind, Composite):
        leaf_paths = [show(path) for path, _ in leaves_of(needed, property_.kind) if EACH not in path]
        raise ValueError(f"{show(needed)} is a {name_of(property_.kind)}: say {' or '.join(leaf_paths)}")


def _property_at(needed: Path, target: Path, properties: Mapping[Path, Property]) -> Property:
    """The property of a path, or with the path as a leaf; ValueError where it is the target itself, or none."""
    for path, property_ in properties.items():
        if needed == path or needed in dict(leaves_of(path, property_.kind)):
            if path == target:
                raise ValueError(f"expected paths of other properties, got {show(needed)}")
            return property_
    known = [show(path) for path, _ in _leaves(properties)]
    raise ValueError(f"no property has the path {show(needed)}.{did_you_mean(show(needed), known)}")


def _leaves(properties: Mapping[Path, Property]) -> Iterator[tuple[Path, Any]]:
    for path, property_ in properties.items():
        yield from leaves_of(path, property_.kind)


def _of_any_class(path: Path, classes: Mapping[str, Class]) -> None:
    """Refuse a path that is no property of any class."""
    if not any(class_.knows(path) and path != class_.id for class_ in classes.values()) and not any(
        path in class_.properties for class_ in classes.values()
    ):
        raise _unknown_path(path, classes)


def _in_any_class(path: Path, classes: Mapping[str, Class]) -> None:
    """Refuse a path that is no property of any class, no component of one, and no part with properties."""
    if not any(class_.has(path) for class_ in classes.values()):
        raise _unknown_path(path, classes)


def _unknown_path(path: Path, classes: Mapping[str, Class]) -> ValueError:
    known = [show(other) for class_ in classes.values() for other in class_.properties]
    return ValueError(f"no property has the path {show(path)}.{did_you_mean(show(path), known)}")
