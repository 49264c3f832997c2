"""The keys of a file to a Schema and back: paths, IRIs and formulas are read, and looked up where they name others.

Whatever can be written can be read: `written` is checked by `built` before it is a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any, TypeVar

from kbdisk.entity import Path, read_path, show
from kbdisk.schemas.composites.base import EACH, Composite, leaves_of
from kbdisk.schemas.formula import Formula
from kbdisk.schemas.property import Property
from kbdisk.schemas.rules import Rule
from kbdisk.schemas.schema import Class, Schema
from kbdisk.schemas.text.names import did_you_mean
from kbdisk.schemas.yamlfile.constraintkeys import write_constraint
from kbdisk.schemas.yamlfile.keys import Written, kind_called, write_kind
from kbdisk.schemas.yamlfile.model import VERSION, ClassKeys, FileKeys, PropertyKeys, RuleKeys, Told
from kbdisk.schemas.yamlfile.text import Place
from kbdisk.schemas.yamlfile.told import MAX_WHOLE

T = TypeVar("T")

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
KNOWN_SCHEMES = ("urn:", "tag:", "mailto:", "info:", "data:", "doi:", "did:")
RULE_SETTINGS = ("factor", "offset", "template", "decimals", "class_name", "support", "exceptions")
NO_IRI = re.compile(r'[\x00-\x20<>"{}|^`\\]')


@dataclass
class Builder:
    """Makes a Schema; what is wrong gathers in `problems`, by its place in the file."""

    prefixes: Mapping[str, str] = field(default_factory=dict)
    problems: dict[Place, str] = field(default_factory=dict)

    def schema(self, told: FileKeys) -> Schema:
        """The schema of a file."""
        for name, iri in told.prefixes.items():
            self.read(("prefixes", name), _absolute, iri)
        self.prefixes = told.prefixes
        shared = None if told.properties is None else self.properties(("properties",), told.properties)
        classes = {name: self.class_(name, keys, shared) for name, keys in told.classes.items()}
        rules = None if told.rules is None else self.rules(told.rules, classes)
        for name, one in classes.items():
            self.check_constraints(("classes", name, "constraints"), one, classes)
        return Schema(classes, told.label, told.description, told.missing, told.prefixes, rules, shared)

    def rules(self, told: Sequence[RuleKeys], classes: Mapping[str, Class]) -> tuple[Rule, ...]:
        """The rules of a file, in their order."""
        made = (self.rule(("rules", n), keys, classes) for n, keys in enumerate(told))
        return tuple(rule for rule in made if rule is not None)

    def rule(self, place: Place, told: RuleKeys, classes: Mapping[str, Class]) -> Rule | None:
        """A rule; its paths are those of classes, and its target is a property."""
        name = told.class_name
        if name is not None and name not in classes:
            self.problems[*place, "class"] = f"no class is called {name!r}.{did_you_mean(name, list(classes))}"
            return None
        target = self.read((*place, "target"), _names, told.target)
        of = [self.read((*place, "of", n), _names, text) for n, text in enumerate(told.of)]
        if target is None or None in of:
            return None
        targets = {path for one in classes.values() if name in (None, one.name) for path in one.properties}
        if target not in targets:
            hint = did_you_mean(show(target), [show(path) for path in targets])
            self.problems[*place, "target"] = f"no property has the path {show(target)}.{hint}"
            return None
        for n, path in enumerate(of):
            self.read((*place, "of", n), lambda path: _of_any_class(path, classes), path)
        settings = {key: getattr(told, key) for key in RULE_SETTINGS}
        return self.read(place, lambda paths: Rule(target, told.rule, tuple(paths), **settings), of)

    def class_(self, name: str, told: ClassKeys, shared: Mapping[Path, Property] | None) -> Class:
        """A class, with all its properties: those that it uses, then its own and those that it changes."""
        place: Place = ("classes", name)
        used = self.uses((*place, "uses"), told.uses, shared or {})
        properties = {path: (shared or {})[path] for path in used}
        properties |= self.properties((*place, "properties"), told.properties, used)
        for path in properties:
            self.check(used.get(path, (*place, "properties", show(path))), path, properties)
        iri = self.read((*place, "iri"), self.iri, told.iri)
        id = self.read((*place, "id"), read_path, told.id)
        texts = told.label, told.description
        return Class(name, properties, iri, id, *texts, told.superclasses, told.constraints)

    def check_constraints(self, place: Place, of: Class, classes: Mapping[str, Class]) -> None:
        """Refuse constraints on properties that the class, or for links back any class, does not have."""
        for n, one in enumerate(of.constraints):
            if one.kind == "count" and one.most == 0:  # what must not be there needs no property
                continue
            for name, path in (("path", one.path), ("other", one.other)):
                owners = classes if (one.kind, name) == ("inverse", "other") else {of.name: of}
                if path:
                    self.read((*place, n), partial(_in_any_class, classes=owners), path)

    def uses(self, place: Place, told: Sequence[str], shared: Mapping[Path, Property]) -> dict[Path, Place]:
        """The shared properties that a class uses as they are, each with its place in the file."""
        used: dict[Path, Place] = {}
        for n, text in enumerate(told):
            here = (*place, n)
            path = self.read(here, _names, text)
            if path is None:
                continue
            if path in used:
                self.problems[here] = f"{show(path)} stands twice"
            elif path in shared:
                used[path] = here
            else:
                hint = did_you_mean(show(path), list(map(show, shared))) or " Define it in `properties` of the file."
                self.problems[here] = f"no property of the file has the path {show(path)}.{hint}"
        return used

    def properties(self, place: Place, told: Mapping[str, Told], before: Collection[Path] = ()) -> dict[Path, Property]:
        """Properties by their paths, none of which stands there before."""
        properties: dict[Path, Property] = {}
        for text, one in told.items():
            here = (*place, text)
            path = self.read(here, _names, text)
            if path is None:
                continue
            if path in before:
                self.problems[here] = f"{show(path)} stands in uses, too. Leave it out there."
            elif path in properties:
                self.problems[here] = f"{show(path)} stands twice"
            else:
                properties[path] = self.property(here, one)
        return properties

    def property(self, place: Place, told: Told) -> Property:
        """A property; whether the paths it names are there is checked when all are."""
        own, keys = {"formula", "depends", "iri"}, told.keys
        depends = (self.read((*place, "depends", n), read_path, path) for n, path in enumerate(keys.depends))
        return Property(
            told.kind,
            formula=self.read((*place, "formula"), Formula.read, keys.formula),
            depends=tuple(path for path in depends if path is not None),
            iri=self.read((*place, "iri"), self.iri, keys.iri),
            **{key: getattr(keys, key) for key in PropertyKeys.model_fields if key not in own},
        )

    def check(self, here: Place, path: Path, properties: Mapping[Path, Property]) -> None:
        """Refuse a path within another's, and formulas of what there is not."""
        one = properties[path]
        inside = next((other for length in range(1, len(path)) if (other := path[:length]) in properties), None)
        if inside is not None:
            kind = kind_called(properties[inside].kind)
            self.problems[here] = f"expected a path of its own, got one within {show(inside)}, a {kind}. Leave one out."
        for needed in one.formula.paths if one.formula else ():
            self.read((*here, "formula"), lambda told: _leaf(told, path, properties), needed)
        for n, needed in enumerate(one.depends):
            self.read((*here, "depends", n), lambda told: _part(told, path, properties), needed)

    def iri(self, text: str) -> str:
        """An IRI in full: `<...>` and what has a scheme as they stand, the rest by its prefix."""
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

    def read(self, place: Place, reader: Callable[[Any], T], told: Any) -> T | None:
        """What a reader makes of something; None where there is nothing, or where it is wrong."""
        try:
            return None if told is None else reader(told)
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


def _leaf(needed: Path, own: Path, properties: Mapping[Path, Property]) -> None:
    """What a formula counts with: a leaf of another property, not one in a list."""
    one = _part(needed, own, properties)
    if needed in properties and isinstance(one.kind, Composite):
        inner = [show(path) for path, _ in leaves_of(needed, one.kind) if EACH not in path]
        raise ValueError(f"{show(needed)} is a {kind_called(one.kind)}: say {' or '.join(inner)}")


def _part(needed: Path, own: Path, properties: Mapping[Path, Property]) -> Property:
    """The property that a path is of, or within."""
    for path, one in properties.items():
        if needed == path or needed in dict(leaves_of(path, one.kind)):
            if path == own:
                raise ValueError(f"expected paths of other properties, got {show(needed)}")
            return one
    known = [show(path) for path, _ in _leaves(properties)]
    raise ValueError(f"no property has the path {show(needed)}.{did_you_mean(show(needed), known)}")


def _leaves(properties: Mapping[Path, Property]) -> Iterator[tuple[Path, Any]]:
    for path, one in properties.items():
        yield from leaves_of(path, one.kind)


def _of_any_class(path: Path, classes: Mapping[str, Class]) -> None:
    """Refuse a path that no class has a property for."""
    if not any(one.knows(path) and path != one.id for one in classes.values()) and not any(
        path in one.properties for one in classes.values()
    ):
        raise _unknown_path(path, classes)


def _in_any_class(path: Path, classes: Mapping[str, Class]) -> None:
    """Refuse a path that is neither a property of a class, nor lies in one, nor is a part with properties."""
    if not any(one.has(path) for one in classes.values()):
        raise _unknown_path(path, classes)


def _unknown_path(path: Path, classes: Mapping[str, Class]) -> ValueError:
    known = [show(other) for one in classes.values() for other in one.properties]
    return ValueError(f"no property has the path {show(path)}.{did_you_mean(show(path), known)}")


# ---------------------------------------------------------------- back


def written(schema: Schema) -> Written:
    """The keys and plain values of a file that is read as this schema."""
    said: Written = {
        "kbdisk": VERSION,
        "label": schema.label,
        "description": schema.description,
        "missing": list(schema.missing),
        "prefixes": dict(schema.prefixes),
    }
    shared = {path: _written_property(one, schema.prefixes) for path, one in (schema.properties or {}).items()}
    classes = {name: _written_class(one, schema.prefixes, shared) for name, one in schema.classes.items()}
    properties = written_shared(schema)
    rules = {} if schema.rules is None else {"rules": [_written_rule(one) for one in schema.rules]}
    return {key: value for key, value in said.items() if value} | properties | {"classes": classes} | rules


def written_shared(schema: Schema) -> Written:
    """The key `properties` of a file, with what classes share; nothing where the schema does not say what that is."""
    if schema.properties is None:
        return {}
    return {
        "properties": {show(path): _written_property(one, schema.prefixes) for path, one in schema.properties.items()}
    }


def _written_rule(one: Rule) -> Written:
    plain = RuleKeys.model_fields
    said: Written = {"target": show(one.target), "rule": one.kind, "of": [show(path) for path in one.of]}
    rest = {key: getattr(one, key) for key in RULE_SETTINGS if getattr(one, key) != plain[key].default}
    return said | {plain[key].alias or key: _whole(value) for key, value in rest.items()}


def _whole(value: Any) -> Any:
    """A factor such as 1000.0 without its point."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < MAX_WHOLE else value


def _written_class(one: Class, prefixes: Mapping[str, str], shared: Mapping[Path, str | Written]) -> Written:
    said: Written = {
        "iri": _short(one.iri, prefixes),
        "id": None if one.id is None else show(one.id),
        "label": one.label,
        "description": one.description,
    }
    properties = {path: _written_property(inner, prefixes) for path, inner in one.properties.items()}
    uses = list(takewhile(lambda path: repr(properties[path]) == repr(shared.get(path)), properties))  # 1 is not True
    rest = {
        show(path): _changes(shared[path], inner) if path in shared else inner
        for path, inner in list(properties.items())[len(uses) :]
    }
    said["superclasses"] = list(one.superclasses)
    said["uses"] = [show(path) for path in uses]
    known = {key: value for key, value in said.items() if value} | ({"properties": rest} if rest or not uses else {})
    return known | ({"constraints": list(map(write_constraint, one.constraints))} if one.constraints else {})


def _changes(shared: str | Written, own: str | Written) -> str | Written:
    """What a class changes of a shared property: the other keys, null for those that it leaves out. In full where the
    kinds differ."""
    before = shared if isinstance(shared, dict) else {"kind": shared}
    after = own if isinstance(own, dict) else {"kind": own}
    if before["kind"] != after["kind"]:
        return own
    other = {key: value for key, value in after.items() if key not in before or repr(value) != repr(before[key])}
    return other | dict.fromkeys(key for key in before if key not in after)


def _written_property(one: Property, prefixes: Mapping[str, str]) -> str | Written:
    kind = write_kind(one.kind)
    said = {key: getattr(one, key) for key in PropertyKeys.model_fields}
    said["formula"] = one.formula.text if one.formula else None
    said["depends"] = [show(path) for path in one.depends]
    said["iri"] = _short(one.iri, prefixes)
    said["missing"], said["novalue"] = list(one.missing), list(one.novalue)
    rest = {key: value for key, value in said.items() if value and value != PropertyKeys.model_fields[key].default}
    return kind if not rest else (kind if isinstance(kind, dict) else {"kind": kind}) | rest


def _short(iri: str | None, prefixes: Mapping[str, str]) -> str | None:
    """An IRI by its prefix where there is one; in brackets where it could be taken for another."""
    if iri is None:
        return None
    reader = Builder(prefixes)
    fitting = [(space, name) for name, space in prefixes.items() if space and iri.startswith(space)]
    for space, name in sorted(fitting, key=lambda one: -len(one[0])):
        short = f"{name}:{iri[len(space) :]}"
        if reader.read((), reader.iri, short) == iri:
            return short
    return iri if reader.read((), reader.iri, iri) == iri else f"<{iri}>"
