"""The keys of a schema file beside those of its kinds: of the file, of a class, of a property.

file -> properties, and classes -> properties -> a kind with its own keys, and those of every property

A property of the file is shared: a class that lists its path in `uses` has it as it is defined there. A class that has a
mapping without a kind at the path has it with these changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias, cast

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from kbdisk.entity import Path, read_path, show
from kbdisk.schemas.composites.base import Kind
from kbdisk.schemas.rules import KINDS as RULES
from kbdisk.schemas.text.names import did_you_mean
from kbdisk.schemas.yamlfile.constraintkeys import AnyConstraint
from kbdisk.schemas.yamlfile.keys import Keys, Written, keys_of, named, problems_of, refuse, unknown_key
from kbdisk.schemas.yamlfile.text import Place
from kbdisk.schemas.yamlfile.told import (
    COUNT,
    As,
    MaybeCount,
    MaybeWords,
    Real,
    Spelling,
    Title,
    Truth,
    Words,
    choice,
    got,
    nothing,
    whole,
)

VERSION = 1


def _version(value: Any) -> int:
    try:
        known = whole(value) == VERSION
    except ValueError:
        known = False
    if not known:
        raise ValueError(f"expected version {VERSION} of the format, got {got(value)}")
    return VERSION


LABEL = Field("", description="What it is called.")
DESCRIPTION = Field("", description="What it is, for a reader.")
IRI = Field(None, description="Its IRI in RDF, in full or with a prefix.")
MISSING = "Spellings of a gap, such as '' or nan"


class PropertyKeys(Keys):
    """The keys that every property has, of whatever kind."""

    role: Annotated[str, choice("value", "given", "ignore")] = Field(
        "value", description="given: evidence that is never predicted. ignore: neither."
    )
    required: Truth = Field(False, description="Every entity has one; asked for where it is not there.")
    unique: Truth = Field(False, description="No two entities have the same.")
    many: Annotated[str, choice("latest", "first", "median", "all")] = Field(
        "", description="Which counts where there are several values; all: a set of labels or links, a list of others."
    )
    missing: tuple[Spelling, ...] = Field((), description=f"{MISSING}, of this property.")
    novalue: tuple[Spelling, ...] = Field((), description="Spellings of: known not to exist, such as 0000-00-00.")
    formula: MaybeWords = Field(None, description="What it follows from, such as weight.value / height.value ** 2.")
    depends: tuple[Words, ...] = Field((), description="Paths that it is a function of, whatever function that is.")
    iri: MaybeWords = IRI
    label: Title = LABEL
    description: Title = DESCRIPTION


class Told(NamedTuple):
    """A property as a file tells it: nothing is looked up yet."""

    kind: Kind
    keys: PropertyKeys


class Use(NamedTuple):
    """A shared property with what a class changes: the name of its kind, and its other keys."""

    kind: str
    keys: Written


class Undefined(NamedTuple):
    """A mapping without a kind, at a path that no shared property has."""

    problem: str


Definitions: TypeAlias = Mapping[Path, Use | None]  # the shared properties of a file; None for those that are wrong


def definitions_of(tree: Any) -> Definitions | None:
    """The shared properties of a file that classes may use; None where the file has none."""
    shared = tree.get("properties") if isinstance(tree, dict) else None
    if not isinstance(shared, dict):
        return None
    definitions: dict[Path, Use | None] = {}
    for text, told in shared.items():
        try:
            path = read_path(text)
        except ValueError:
            continue
        try:
            _property(told)
            definitions[path] = Use(*named(told))
        except ValueError:
            definitions[path] = None
    return definitions


def _with_changes(text: str, told: Any, definitions: Definitions) -> Any:
    """A property of a class: as it stands where it has a kind, else the shared one with these changes."""
    if not (nothing(told) or (isinstance(told, dict) and "kind" not in told)):
        return told
    try:
        path = read_path(text)
    except ValueError:
        return told
    if path not in definitions:
        hint = did_you_mean(show(path), [show(other) for other in definitions])
        return Undefined(f"expected a kind, got none, and no property of the file has the path {show(path)}.{hint}")
    definition = definitions[path]
    if definition is None:
        return Use("boolean", {})  # what is wrong is said where it is defined
    changes = told if isinstance(told, dict) else {}
    keys = {key: value for key, value in {**definition.keys, **changes}.items() if not nothing(changes.get(key, value))}
    return Use(definition.kind, keys)


def _property(told: Any) -> Told:
    """A property by its kind alone, or as a mapping. All that is wrong with it is told at once."""
    if isinstance(told, Undefined):
        raise ValueError(told.problem)
    name, rest = told if isinstance(told, Use) else named(told)
    own, common = keys_of(name), [key for key in PropertyKeys.names() if key not in keys_of(name).names()]
    known = ["kind", *own.names(), *common]
    problems: dict[Place, str] = {(key,): unknown_key(key, known, name) for key in rest if key not in known}
    made: list[Any] = []
    for keys in (own, PropertyKeys):
        names = own.names() if keys is own else common
        try:
            made.append(keys.model_validate({key: value for key, value in rest.items() if key in names}))
        except ValidationError as error:
            problems |= problems_of(error)
    refuse(problems)
    return Told(made[0].made(), made[1])


Property: TypeAlias = Annotated[Told, As(_property, {"$kbdisk": "property"})]
PropertyOrChanges: TypeAlias = Annotated[Told, As(_property, {"$kbdisk": "property or changes"})]


class ClassKeys(Keys):
    """The entities of one class."""

    iri: MaybeWords = IRI
    id: MaybeWords = Field(None, description="The path of the id.")
    label: Title = LABEL
    description: Title = DESCRIPTION
    superclasses: tuple[Words, ...] = Field(
        (),
        description="Classes that it is a subclass of, by name or IRI, the nearest first: evidence for its entities.",
    )
    uses: tuple[Words, ...] = Field(
        (), description="Paths of shared properties that the class has as they are defined."
    )
    properties: dict[str, PropertyOrChanges] = Field(
        {},
        description="What stands at each path: a kind, a mapping with one, or the keys of a shared property to change.",
    )

    constraints: tuple[AnyConstraint, ...] = Field(
        (),
        description="What must hold of several values: born <= died, min < max, nickname disjoint name, code unique, or a mapping.",
    )

    @field_validator("properties", mode="before")
    @classmethod
    def _changed(cls, properties: Any, info: ValidationInfo) -> Any:
        if info.context is None or not isinstance(properties, dict):
            return properties
        return {text: _with_changes(text, told, info.context) for text, told in properties.items()}


class RuleKeys(Keys):
    """A value that follows exactly from others. Completion fills it in before it asks the model."""

    target: Words = Field(description="The path of the property that the rule gives.")
    rule: Annotated[str, choice(*RULES)] = Field(
        description="; ".join(f"{name}: {row.description.rstrip('.')}" for name, row in RULES.items())
    )
    of: tuple[Words, ...] = Field(description="The paths that the value follows from, in order.")
    factor: Real = Field(1.0, description="Of linear, product and ratio: what the result is multiplied by.")
    offset: Real = Field(0.0, description="Of linear: what is added.")
    template: Words = Field("", description="Of template: the string, with {} for each path.")
    decimals: MaybeCount = Field(None, description="How many decimals a computed number is rounded to.")
    class_name: MaybeWords = Field(None, alias="class", description="The class it is for; without one all classes.")
    support: Annotated[int, COUNT] = Field(0, description="Known values that agree with the rule.")
    exceptions: Annotated[int, COUNT] = Field(0, description="Known values that do not.")


class FileKeys(Keys):
    """A schema of kbdisk: what kind of value stands where, for the entities of each class."""

    kbdisk: Annotated[int, As(_version, {"const": VERSION})] = Field(description="The version of the format.")
    label: Title = LABEL
    description: Title = DESCRIPTION
    missing: tuple[Spelling, ...] = Field((), description=f"{MISSING}, of any property.")
    prefixes: dict[str, Words] = Field({}, description="Prefixes of IRIs.")
    properties: dict[str, Property] = cast(
        "dict[str, Property]",
        Field(
            None,
            description="Properties that classes share, by path: each is learnt once for all classes that have it. With this key a property that is not listed is learnt for its class alone.",
        ),
    )
    classes: dict[str, ClassKeys] = Field(
        description="The classes by their names; the one with the name '' is for entities of no other."
    )
    rules: tuple[RuleKeys, ...] = cast(
        "tuple[RuleKeys, ...]",
        Field(
            None,
            description="Values that follow from others. Without this key completion searches for rules; [] stands for none.",
        ),
    )
