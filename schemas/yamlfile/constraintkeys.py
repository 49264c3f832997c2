"""The constraints of a class in a schema file: a line of text such as `born <= died`, or a mapping.

- born <= died
- {path: member, constraint: count, min: 1, max: 3, where: {classes: [Person]}}
- {path: topic, constraint: has_value, values: [Science, {link: "http://example.org/Art"}]}
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, TypeAlias

from pydantic import Field, ValidationError

from kbdisk.entity import Date, Link, Path, Text, read_path, show
from kbdisk.schemas.constraints import KINDS, NODE_KINDS, Constraint, ValueShape, read_short
from kbdisk.schemas.text import dates, numerals
from kbdisk.schemas.yamlfile.keys import Keys, Written, problems_of, read_kind, refuse, write_kind
from kbdisk.schemas.yamlfile.text import Place
from kbdisk.schemas.yamlfile.told import (
    COUNT,
    As,
    MaybeCount,
    Spelling,
    Words,
    choice,
    got,
    label,
    nothing,
    text,
    words,
)

VALUE_FORMS = ("link", "date", "number")  # of a mapping with one key that stands for a value


def _path(value: Any) -> Path:
    path = read_path(words(value))
    if not all(isinstance(key, str) for key in path):
        raise ValueError(
            f"expected names alone, got {got(value)}. A path without places is about every place of a list."
        )
    return path


def _bound(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or nothing(value):
        raise ValueError(f"expected a number or a date, got {got(value)}")
    try:
        number = numerals.number(value) if isinstance(value, str) else value
        if numerals.is_finite(number):
            return number
    except ValueError:
        pass
    return _date(value)


def _date(value: Any) -> Date:
    try:
        date = dates.read_iso(value) if isinstance(value, str) else None
    except ValueError:
        date = None
    if not isinstance(date, Date):
        raise ValueError(f"expected a number or a date such as 1912-11-28, got {got(value)}")
    return date


def _value(value: Any) -> Any:
    """A label, or a mapping that stands for a link, a date, a number of many digits, or a text in a language."""
    if not isinstance(value, dict):
        return label(value)
    if value.keys() == {"text", "language"}:
        return Text(text(value["text"]), words(value["language"]))
    name, inner = next(iter(value.items())) if len(value) == 1 else ("", None)
    if name == "link":
        return Link(words(inner))
    if name == "date":
        return _date(inner)
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


TEXT: Written = {"type": ["string", "number", "boolean"]}
BOUND: Written = {"type": ["string", "number"]}
VALUE: Written = {
    "anyOf": [
        {"type": ["string", "number", "boolean", "null"]},
        *({"type": "object", "properties": {name: TEXT}, "required": [name], "additionalProperties": False} for name in VALUE_FORMS),
        {
            "type": "object",
            "properties": {"text": {"type": [*TEXT["type"], "null"]}, "language": TEXT},
            "required": ["text", "language"],
            "additionalProperties": False,
        },
    ]
}  # fmt: skip
OnePath: TypeAlias = Annotated[Path, As(_path, TEXT)]
Bound: TypeAlias = Annotated[Any, As(_bound, BOUND)]
AnyValue: TypeAlias = Annotated[Any, As(_value, VALUE)]
NodeKind: TypeAlias = Annotated[str, choice(*NODE_KINDS)]


class WhereKeys(Keys):
    """What must hold of a value, or which values are counted."""

    kind: Annotated[Any, As(read_kind, {"$kbdisk": "kind"})] = Field(None, description="It is of this kind.")
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


def _where(value: Any) -> ValueShape:
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
    where: Annotated[Any, As(_where, {"$kbdisk": "value shape"})] = Field(
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
    """A constraint as a line of text where that says it all."""
    if constraint.short is not None:
        return constraint.short
    keys: Written = {
        "path": show(constraint.path) if constraint.path else None,
        "constraint": constraint.kind,
        "other": show(constraint.other) if constraint.other else None,
        "min": constraint.least,
        "max": constraint.most,
        "where": None if constraint.where is None else _written_where(constraint.where),
        "values": [_written_value(value) for value in constraint.values],
        "allowed": [show(path) for path in constraint.allowed],
    }
    return {key: value for key, value in keys.items() if value or (key == "max" and value is not None)}


def _written_where(shape: ValueShape) -> Written:
    written: Written = {
        field.alias or name: getattr(shape, name)
        for name, field in WhereKeys.model_fields.items()
        if getattr(shape, name) != field.default
    }
    if shape.kind is not None:
        written["kind"] = write_kind(shape.kind)
    if shape.values:
        written["values"] = [_written_value(value) for value in shape.values]
    for name in ("classes", "nodes", "languages"):
        if name in written:
            written[name] = list(written[name])
    for name in ("min", "max", "above", "below"):
        if isinstance(bound := written.get(name), Date):
            written[name] = dates.write_iso(bound)
        elif isinstance(bound, Decimal):
            written[name] = numerals.show(bound)
    return written


def _written_value(value: Any) -> Any:
    if isinstance(value, Link):
        return {"link": value.id}
    if isinstance(value, Text):
        return {"text": value.text, "language": value.language}
    if isinstance(value, Date):
        return {"date": dates.write_iso(value)}
    return {"number": numerals.show(value)} if isinstance(value, Decimal) else value


AnyConstraint: TypeAlias = Annotated[Constraint, As(read_constraint, {"$kbdisk": "constraint"})]
