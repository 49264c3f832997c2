"""The keys of a schema file: of the file, its classes, properties, constraints and rules.

A property of the file is shared: a class that lists its path in `uses` has it as it is defined there. A class with a mapping
without a kind at the path has it with the changes of this mapping. A constraint is a line of text or a mapping:

- born <= died
- {path: member, constraint: count, min: 1, max: 3, where: {classes: [Person]}}
- {path: topic, constraint: has_value, values: [Science, {link: "http://example.org/Art"}]}
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, NamedTuple, TypeAlias, cast

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from kbdisk.entity import Date, Link, Path, Text, read_path, show
from kbdisk.schemas.composites.base import Kind
from kbdisk.schemas.constraints import KINDS, NODE_KINDS, Constraint, ValueShape, read_short
from kbdisk.schemas.rules import KINDS as RULES
from kbdisk.schemas.text import dates, numerals
from kbdisk.schemas.text.names import did_you_mean
from kbdisk.schemas.yaml.kind_keys import (
    Keys,
    Written,
    keys_of,
    named,
    problems_of,
    read_kind,
    refuse,
    unknown_key,
    write_kind,
)
from kbdisk.schemas.yaml.parse import Place
from kbdisk.schemas.yaml.scalars import (
    COUNT,
    MaybeCount,
    MaybeWords,
    Real,
    ScalarType,
    Spelling,
    Title,
    Truth,
    Words,
    choice,
    got,
    label,
    nothing,
    text,
    whole_number,
    words,
)

# ---------------------------------------------------------------- constraints


VALUE_FORMS = ("link", "date", "number")  # of a mapping with one key that stands for a value


def _parse_path(value: Any) -> Path:
    path = read_path(words(value))
    if not all(isinstance(key, str) for key in path):
        raise ValueError(
            f"expected names alone, got {got(value)}. A path without places is about every place of a list."
        )
    return path


def _parse_bound(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or nothing(value):
        raise ValueError(f"expected a number or a date, got {got(value)}")
    try:
        number = numerals.number(value) if isinstance(value, str) else value
        if numerals.is_finite(number):
            return number
    except ValueError:
        pass
    return _parse_date(value)


def _parse_date(value: Any) -> Date:
    try:
        date = dates.read_iso(value) if isinstance(value, str) else None
    except ValueError:
        date = None
    if not isinstance(date, Date):
        raise ValueError(f"expected a number or a date such as 1912-11-28, got {got(value)}")
    return date


def _parse_value(value: Any) -> Any:
    """A label, or a mapping that stands for a link, a date, a number of many digits, or a text in a language."""
    if not isinstance(value, dict):
        return label(value)
    if value.keys() == {"text", "language"}:
        return Text(text(value["text"]), words(value["language"]))
    name, inner = next(iter(value.items())) if len(value) == 1 else ("", None)
    if name == "link":
        return Link(words(inner))
    if name == "date":
        return _parse_date(inner)
    if name == "number":
        return Decimal(words(inner)) if _is_decimal(words(inner)) else _refuse_number(inner)
    raise ValueError("expected a label, or a mapping with link, with date, with number, or with text and language")


def _is_decimal(digits: str) -> bool:
    try:
        return isinstance(numerals.number(digits), Decimal)
    except ValueError:
        return False


def _refuse_number(value: Any) -> Any:
    raise ValueError(f"expected a number of more digits than a float has, got {got(value)}. Write it without `number`.")


TEXT_SCHEMA: Written = {"type": ["string", "number", "boolean"]}
BOUND_SCHEMA: Written = {"type": ["string", "number"]}
VALUE_SCHEMA: Written = {
    "anyOf": [
        {"type": ["string", "number", "boolean", "null"]},
        *({"type": "object", "properties": {name: TEXT_SCHEMA}, "required": [name], "additionalProperties": False} for name in VALUE_FORMS),
        {
            "type": "object",
            "properties": {"text": {"type": [*TEXT_SCHEMA["type"], "null"]}, "language": TEXT_SCHEMA},
            "required": ["text", "language"],
            "additionalProperties": False,
        },
    ]
}  # fmt: skip
OnePath: TypeAlias = Annotated[Path, ScalarType(_parse_path, TEXT_SCHEMA)]
Bound: TypeAlias = Annotated[Any, ScalarType(_parse_bound, BOUND_SCHEMA)]
AnyValue: TypeAlias = Annotated[Any, ScalarType(_parse_value, VALUE_SCHEMA)]
NodeKind: TypeAlias = Annotated[str, choice(*NODE_KINDS)]


class WhereKeys(Keys):
    """What must hold of a value, or which values are counted."""

    kind: Annotated[Any, ScalarType(read_kind, {"$kbdisk": "kind"})] = Field(None, description="It is of this kind.")
    classes: tuple[Words, ...] = Field((), description="It is a link to an entity of each of these classes.")
    values: tuple[AnyValue, ...] = Field((), description="It is one of these.")
    nodes: tuple[NodeKind, ...] = Field((), description="In RDF it is one of these: iri, blank, literal.")
    pattern: Spelling = Field("", description="A regular expression that is found in it.")
    flags: Spelling = Field("", description="Flags of the pattern, as in SPARQL: i, s, m, x.")
    min_length: Annotated[int, COUNT] = Field(0, description="How many characters it has at least.")
    max_length: MaybeCount = Field(None, description="How many characters it has at most.")
    languages: tuple[Words, ...] = Field((), description="It is a text in one of these: en takes en-GB, too.")
    minimum: Bound = Field(None, alias="min", description="It is this number or date, or above.")
    maximum: Bound = Field(None, alias="max", description="It is this number or date, or below.")
    above: Bound = Field(None, description="It is above this number or date.")
    below: Bound = Field(None, description="It is below this number or date.")


def _parse_where(value: Any) -> ValueShape:
    keys = WhereKeys.model_validate(value)
    return ValueShape(**{name: getattr(keys, name) for name in WhereKeys.model_fields})


class ConstraintKeys(Keys):
    """What must hold of the values at a path, and at another."""

    path: OnePath = Field((), description="The path of the property that it is about.")
    constraint: Annotated[str, choice(*KINDS)] = Field(
        description="; ".join(f"{name}: {row.description.rstrip('.')}" for name, row in KINDS.items())
    )
    other: OnePath = Field((), description="Of less_than and other pairs: the path of the other property.")
    least: Annotated[int, COUNT] = Field(0, alias="min", description="Of count: the least number of values.")
    most: MaybeCount = Field(None, alias="max", description="Of count: the greatest number of values.")
    where: Annotated[Any, ScalarType(_parse_where, {"$kbdisk": "value shape"})] = Field(
        None, description="Of count: which values are counted. Of values: what holds of each."
    )
    values: tuple[AnyValue, ...] = Field(
        (), description="Of has_value: labels, {link: id}, {date: 1912-11-28}, or {text: word, language: en}."
    )
    allowed: tuple[OnePath, ...] = Field((), description="Of closed: the properties that there may be.")


def read_constraint(value: Any) -> Constraint:
    """A constraint as a line of text, or as a mapping."""
    if isinstance(value, str) and not nothing(value):
        return read_short(text(value))
    if not isinstance(value, dict):
        raise ValueError(f"expected a constraint such as born <= died, or a mapping with constraint, got {got(value)}")
    problems: dict[Place, str] = {}
    try:
        keys = ConstraintKeys.model_validate(value)
    except ValidationError as error:
        problems = problems_of(error)
    refuse(problems)
    fields = {name: getattr(keys, name) for name in ConstraintKeys.model_fields if name != "constraint"}
    return Constraint(keys.constraint, **fields)


def write_constraint(constraint: Constraint) -> str | Written:
    """A constraint as a file has it: as a line of text where it has that form, else as a mapping."""
    if constraint.short is not None:
        return constraint.short
    keys: Written = {
        "path": show(constraint.path) if constraint.path else None,
        "constraint": constraint.kind,
        "other": show(constraint.other) if constraint.other else None,
        "min": constraint.least,
        "max": constraint.most,
        "where": None if constraint.where is None else _write_where(constraint.where),
        "values": [_write_value(value) for value in constraint.values],
        "allowed": [show(path) for path in constraint.allowed],
    }
    return {key: value for key, value in keys.items() if value or (key == "max" and value is not None)}


def _write_where(shape: ValueShape) -> Written:
    written: Written = {
        field.alias or name: getattr(shape, name)
        for name, field in WhereKeys.model_fields.items()
        if getattr(shape, name) != field.default
    }
    if shape.kind is not None:
        written["kind"] = write_kind(shape.kind)
    if shape.values:
        written["values"] = [_write_value(value) for value in shape.values]
    for name in ("classes", "nodes", "languages"):
        if name in written:
            written[name] = list(written[name])
    for name in ("min", "max", "above", "below"):
        if isinstance(bound := written.get(name), Date):
            written[name] = dates.write_iso(bound)
        elif isinstance(bound, Decimal):
            written[name] = numerals.show(bound)
    return written


def _write_value(value: Any) -> Any:
    if isinstance(value, Link):
        return {"link": value.id}
    if isinstance(value, Text):
        return {"text": value.text, "language": value.language}
    if isinstance(value, Date):
        return {"date": dates.write_iso(value)}
    return {"number": numerals.show(value)} if isinstance(value, Decimal) else value


AnyConstraint: TypeAlias = Annotated[Constraint, ScalarType(read_constraint, {"$kbdisk": "constraint"})]


# ---------------------------------------------------------------- properties, classes, rules, the file


VERSION = 1


def _version(value: Any) -> int:
    try:
        known = whole_number(value) == VERSION
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
        "value", description="given: an input that is never predicted. ignore: neither."
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


class ParsedProperty(NamedTuple):
    """A property of a file whose paths, formula and IRI are not read yet."""

    kind: Kind
    keys: PropertyKeys


class SharedUse(NamedTuple):
    """A shared property with what a class changes: the name of its kind, and its other keys."""

    kind: str
    keys: Written


class Undefined(NamedTuple):
    """A mapping without a kind, at a path that no shared property has."""

    problem: str


Definitions: TypeAlias = Mapping[
    Path, SharedUse | None
]  # the shared properties of a file; None for those that are wrong


def definitions_of(tree: Any) -> Definitions | None:
    """The shared properties of a file that classes may use; None where the file has none."""
    shared = tree.get("properties") if isinstance(tree, dict) else None
    if not isinstance(shared, dict):
        return None
    definitions: dict[Path, SharedUse | None] = {}
    for path_text, written in shared.items():
        try:
            path = read_path(path_text)
        except ValueError:
            continue
        try:
            _parse_property(written)
            definitions[path] = SharedUse(*named(written))
        except ValueError:
            definitions[path] = None
    return definitions


def _apply_changes(path_text: str, written: Any, definitions: Definitions) -> Any:
    """A property of a class: as it is written if it has a kind, else the shared one with these changes."""
    if not (nothing(written) or (isinstance(written, dict) and "kind" not in written)):
        return written
    try:
        path = read_path(path_text)
    except ValueError:
        return written
    if path not in definitions:
        hint = did_you_mean(show(path), [show(other) for other in definitions])
        return Undefined(f"expected a kind, got none, and no property of the file has the path {show(path)}.{hint}")
    shared = definitions[path]
    if shared is None:
        return SharedUse("boolean", {})  # the problem is reported at the definition
    changes = written if isinstance(written, dict) else {}
    keys = {key: value for key, value in {**shared.keys, **changes}.items() if not nothing(changes.get(key, value))}
    return SharedUse(shared.kind, keys)


def _parse_property(written: Any) -> ParsedProperty:
    """A property by its kind alone, or as a mapping. All its problems are raised together."""
    if isinstance(written, Undefined):
        raise ValueError(written.problem)
    name, other_keys = written if isinstance(written, SharedUse) else named(written)
    kind_keys, common = keys_of(name), [key for key in PropertyKeys.names() if key not in keys_of(name).names()]
    known = ["kind", *kind_keys.names(), *common]
    problems: dict[Place, str] = {(key,): unknown_key(key, known, name) for key in other_keys if key not in known}
    parts: list[Any] = []
    for keys in (kind_keys, PropertyKeys):
        names = kind_keys.names() if keys is kind_keys else common
        try:
            parts.append(keys.model_validate({key: value for key, value in other_keys.items() if key in names}))
        except ValidationError as error:
            problems |= problems_of(error)
    refuse(problems)
    return ParsedProperty(parts[0].to_kind(), parts[1])


Property: TypeAlias = Annotated[ParsedProperty, ScalarType(_parse_property, {"$kbdisk": "property"})]
PropertyOrChanges: TypeAlias = Annotated[
    ParsedProperty, ScalarType(_parse_property, {"$kbdisk": "property or changes"})
]


class ClassKeys(Keys):
    """The entities of one class."""

    iri: MaybeWords = IRI
    id: MaybeWords = Field(None, description="The path of the id.")
    label: Title = LABEL
    description: Title = DESCRIPTION
    superclasses: tuple[Words, ...] = Field(
        (),
        description="Classes that it is a subclass of, by name or IRI, the nearest first: inputs for its entities.",
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
        return {
            path_text: _apply_changes(path_text, written, info.context) for path_text, written in properties.items()
        }


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

    kbdisk: Annotated[int, ScalarType(_version, {"const": VERSION})] = Field(description="The version of the format.")
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
