"""The JSON Schema (2020-12) of plain JSON data that fits a schema: valid where `Schema.check` finds nothing.

A gap is always allowed where nothing is required: null, an empty part, a spelling of a gap. What JSON Schema cannot say
(years of a date as text, a formula, that ids are unique) stands under "$comment"; such data is valid there all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from kbdisk.entity import Path
from kbdisk.schemas import dates, edtf, numerals
from kbdisk.schemas.composites import COMPOSITES, Kind
from kbdisk.schemas.composites.coordinate import NAMES, PAIR, Coordinate
from kbdisk.schemas.composites.date import CARRIED, Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.leaf import KINDS, Boolean, Category, Link, Number, Set, Text
from kbdisk.schemas.schema import Class, Property, Schema
from kbdisk.schemas.values import WHOLE, spelling

Json: TypeAlias = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ASIDE: Json = {"^@": True}  # keys that are no properties
EMPTY: Json = {"type": "object", "patternProperties": ASIDE, "additionalProperties": {"type": "null"}}
NUMBER = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*$"
INTEGER = r"^\s*[-+]?([0-9]+(\.0*)?|([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+)\s*$"
SPELT_NUMBER = r"[-+]?([0-9,]*\.)?[0-9,]*[0-9]([eE][-+]?[0-9]+)?"
IN_ORDER = {"d": "0*([1-9]|[12][0-9]|3[01])", "m": "0*([1-9]|1[0-2])", "y": "[0-9]{1,4}"}
BETWEEN = r"\s*[-/. ]\s*"
NO_DAY = "-(02-3[01]|(04|06|09|11)-31)"


def export(schema: Schema) -> Json:
    """The JSON Schema of one entity."""
    told = {"title": schema.label, "description": schema.description}
    head: Json = {"$schema": DIALECT, **{key: text for key, text in told.items() if text}}
    if len(schema.classes) == 1:
        (one,) = schema.classes.values()
        return {**head, **_only_known(schema, one), **_class(schema, one)}
    named = [one for one in schema.classes.values() if one.name]
    rest: Any = {"$ref": _ref(schema.classes[""])} if "" in schema.classes else False
    for one in reversed(named):
        rest = {"if": _is_of(one), "then": {"$ref": _ref(one)}, "else": rest}
    defs = {one.name or "any": _class(schema, one) for one in schema.classes.values()}
    return {**head, "type": "object", **rest, "$defs": defs}


def _only_known(schema: Schema, one: Class) -> Json:
    """An entity without a class may be of the only one."""
    return {"if": {"required": ["@type"]}, "then": _is_of(one)} if one.name else {}


def _ref(one: Class) -> str:
    return f"#/$defs/{(one.name or 'any').replace('~', '~0').replace('/', '~1')}"


def _is_of(one: Class) -> Json:
    """Whether @type names a class: by its IRI, its name, or an IRI that ends in it."""
    name: Json = {"type": "string", "pattern": f"(^|[#/:]){re.escape(one.name)}$"}
    if one.iri:
        name = {"anyOf": [{"const": one.iri}, name]}
    several = {"type": "array", "contains": name}
    return {"type": "object", "properties": {"@type": {"anyOf": [name, several]}}, "required": ["@type"]}


# ---------------------------------------------------------------- classes


def _class(schema: Schema, one: Class) -> Json:
    tree: Json = {"type": "object"}
    for path, each in one.properties.items():
        _put(tree, path, _property(schema, each), each.required)
    told = {"title": one.label or one.name, "description": one.description}
    return {**{key: text for key, text in told.items() if text}, **tree}


def _put(tree: Json, path: Path, value: Json, required: bool) -> None:
    """Let a value stand at a path; where it is required, so is all on the way."""
    key, rest = path[0], path[1:]
    if isinstance(key, int):
        places = tree.setdefault("prefixItems", [])
        places += [{} for _ in range(key + 1 - len(places))]
        inner, need = places[key], {"type": "array", "minItems": key + 1}
    else:
        inner, need = tree.setdefault("properties", {}).setdefault(key, {}), {"type": "object"}
    if required:
        tree |= need
        if isinstance(key, str):
            tree["required"] = [*tree.get("required", ()), *([key] if key not in tree.get("required", ()) else ())]
    if rest:
        _put(inner, rest, value, required)
    else:
        inner |= value


def _property(schema: Schema, one: Property) -> Json:
    """What may stand there: values, several where that is allowed, gaps."""
    told = {"title": one.label, "description": one.description, "$comment": _comment(one)}
    shown = {key: text for key, text in told.items() if text}
    spelt = dict.fromkeys((*schema.missing, *one.missing))
    gap: list[Json] = [{"enum": [None, *_spellings(spelt)]}] + ([] if isinstance(one.kind, Mapped) else [EMPTY])
    none: list[Json] = [{"enum": _spellings(one.novalue)}] if one.novalue else []
    value = _set(one.kind, spelt) if isinstance(one.kind, Set) else of_kind(one.kind)
    fits, gaps = [value, *none], gap
    if not isinstance(one.kind, WHOLE):
        fits = [*fits, _several(one, value, gap, none)]
        gaps = [*gap, {"type": "array", "items": _any_of(gap)}]
    if one.required:
        return {**shown, **_any_of(fits), "not": _any_of(gap)}
    return {**shown, **_any_of([*fits, *gaps])}


def _spellings(texts: Iterable[str]) -> list[Any]:
    """Texts, and the numbers that are spelt so."""
    values: list[Any] = []
    for text in texts:
        values.append(text)
        with suppress(ValueError):
            value = numerals.number(text)
            if spelling(value) == text:
                values.append(value if isinstance(value, int) else float(value))
    return values


def _several(one: Property, value: Json, gap: list[Json], none: list[Json]) -> Json:
    """A list of values of which one counts: gaps aside, one alone where nothing tells which."""
    real: Json = {"allOf": [value], "not": _any_of([*gap, *none])}
    told: Json = {"type": "array", "items": _any_of([value, *none, *gap]), "contains": _any_of([real, *none])}
    if one.many:
        return told
    return {**told, "allOf": [{"contains": real, "minContains": 0, "maxContains": 1}]}


def _comment(one: Property) -> str:
    lines = [f"iri: {one.iri}"] if one.iri else []
    if one.formula:
        lines.append(f"not said here: it is {one.formula.text}")
    if isinstance(one.kind, Date) and (one.kind.minimum, one.kind.maximum) != (None, None):
        lines.append("not said here: bounds of years that are text")
    bounded = one.kind.value if isinstance(one.kind, Quantity) else one.kind
    if isinstance(bounded, Number) and bounded not in (Number(), Number(integer=True)):
        lines.append("not said here: bounds of numbers that are text")
    return "; ".join(lines)


def _any_of(choices: list[Json]) -> Json:
    """One of these; in short where that is possible."""
    flat = [each for choice in choices for each in (choice["anyOf"] if choice.keys() == {"anyOf"} else [choice])]
    distinct = [each for number, each in enumerate(flat) if each not in flat[:number]]
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


# ---------------------------------------------------------------- kinds


def of_kind(kind: Kind) -> Json:
    """What a value of a kind looks like in JSON; anything, where the kind is somebody else's."""
    known = WAYS.get(type(kind))
    if known is not None:
        return known(kind)
    rows: Mapping[str, Any] = {**KINDS, **COMPOSITES}
    name = next((name for name, row in rows.items() if row[0] is type(kind)), type(kind).__name__)
    return {"$comment": f"not said here: kind {name}"}


def _number(kind: Number) -> Json:
    bounds = {
        "minimum": kind.minimum,
        "maximum": kind.maximum,
        "exclusiveMinimum": kind.above,
        "exclusiveMaximum": kind.below,
    }
    known = {key: bound for key, bound in bounds.items() if bound is not None}
    return {"type": "integer" if kind.integer else "number", **known}


def _spelt_number(kind: Number) -> Json:
    """JSON has many a number as a string."""
    return {"anyOf": [_number(kind), {"type": "string", "pattern": INTEGER if kind.integer else NUMBER}]}


def _category(kind: Category) -> Json:
    return {"enum": [*kind.values]} if kind.closed else {"type": ["string", "number", "boolean"]}


def _text(kind: Text) -> Json:
    bounds = {"minLength": kind.min_length or None, "maxLength": kind.max_length}
    return {"type": "string", **{key: bound for key, bound in bounds.items() if bound is not None}}


def _link(kind: Link) -> Json:
    return {"enum": [*kind.values]} if kind.values else {"type": "string"}


def _set(kind: Set, spelt: Iterable[str] = ()) -> Json:
    """Labels or links; gaps in between are not counted."""
    of, gap = of_kind(kind.of), {"enum": [None, *spelt]}
    most = (
        {}
        if kind.most is None
        else {"contains": {"allOf": [of], "not": gap}, "minContains": 0, "maxContains": kind.most}
    )
    return _any_of([of, {"type": "array", "items": _any_of([of, gap]), **most}])


def _quantity(kind: Quantity) -> Json:
    number = _number(kind.value)
    units: Json = {"type": ["string", "null"]} if kind.any_unit else {"enum": [*kind.units(), None]}
    parts = [_measured(number, units)]
    if kind.normal:
        factors = {unit: factor for unit, factor in kind.factors.items() if factor and unit != kind.unit}
        parts = [_measured(number, {"enum": [kind.unit, None]})]
        parts += [_measured(_scaled(number, factor), {"enum": [unit]}, "unit") for unit, factor in factors.items()]
    spelt = r"[^0-9].*" if kind.any_unit else "|".join(map(re.escape, kind.units())) or "(?!)"
    text = {"type": "string", "pattern": rf"^\s*{SPELT_NUMBER}\s*({spelt})?\s*$"}
    return {"anyOf": [number, *parts, text]}


def _measured(number: Json, units: Json, *needed: str) -> Json:
    """A part with value and unit."""
    return _part({"value": number, "unit": units}) | ({"required": [*needed]} if needed else {})


def _scaled(number: Json, factor: float) -> Json:
    """A number's bounds in a unit of which one is so many of the main one."""
    return {"type": "number"} | {key: bound / factor for key, bound in number.items() if key != "type"}


def _part(fields: Json) -> Json:
    """An object with no other fields, any of which may be a gap."""
    return {
        "type": "object",
        "properties": {name: _any_of([field, {"type": "null"}]) for name, field in fields.items()},
        "patternProperties": ASIDE,
        "additionalProperties": False,
    }


def _date(kind: Date) -> Json:
    year = _number(Number(True, kind.minimum, kind.maximum))
    fields = {
        "year": year,
        "month": {"type": "integer", "minimum": 1, "maximum": 24, "not": {"minimum": 13, "maximum": 20}},
        "day": {"type": "integer", "minimum": 1, "maximum": 31},
    }
    part = _part(fields | {name: {"type": "string"} for name in CARRIED})
    if kind.order == "iso":
        ways = "|".join(map(_pattern, (dates.ISO, edtf.DATE, dates.FORMS["gMonthDay"].pattern)))
        text: Json = {"type": "string", "pattern": f"^({ways})$", "not": {"pattern": NO_DAY}}
    else:
        text = {"type": "string", "pattern": rf"^\s*{BETWEEN.join(IN_ORDER[letter] for letter in kind.order)}\s*$"}
    return {"anyOf": [text, year, part]}


def _coordinate(kind: Coordinate) -> Json:
    bounds = {str(path[0]): _number(leaf) for path, leaf in kind.leaves().items()}
    part = _part({name: bounds[full] for name, full in NAMES.items()})
    pair = [bounds["longitude"], bounds["latitude"]] if kind.longitude_first else [*bounds.values()]
    listed = {"type": "array", "prefixItems": pair, "minItems": 2, "maxItems": 2}
    return {"anyOf": [part, listed, {"type": "string", "pattern": f"^{_pattern(PAIR)}$"}]}


def _fields(fields: Mapping[str, Kind]) -> Json:
    """A part of a list or a map."""
    if "" in fields:
        return of_kind(fields[""])
    known = {name: _any_of([of_kind(kind), {"type": "null"}]) for name, kind in fields.items()}
    return {"type": "object", "properties": known}


def _listed(kind: Listed) -> Json:
    item = _fields(kind.fields)
    empty: list[Json] = [{"type": "null"}] + ([] if "" in kind.fields else [{"type": "array", "maxItems": 0}])
    return _any_of([{"type": "array", "items": _any_of([item, *empty])}, item])


def _mapped(kind: Mapped) -> Json:
    entry = _any_of([_fields(kind.fields), {"type": "null"}])
    told: Json = {"type": "object", "patternProperties": ASIDE, "additionalProperties": entry}
    if isinstance(kind.key, Category) and kind.key.closed:
        told["propertyNames"] = {"anyOf": [{"enum": [*map(str, kind.key.values)]}, {"pattern": "^@"}]}
    return told


def _pattern(pattern: re.Pattern[str]) -> str:
    """A pattern as JSON Schema writes it: groups without names, digits and spaces that are ASCII."""
    return "(" + re.sub(r"[(][?]P<[^>]*>", "(", pattern.pattern).replace(r"\d", "[0-9]").replace("[[0-9]", "[0-9") + ")"


WAYS: dict[type[Any], Callable[[Any], Json]] = {
    Number: _spelt_number,
    Category: _category,
    Boolean: lambda kind: {"type": "boolean"},
    Text: _text,
    Link: _link,
    Set: _set,
    Quantity: _quantity,
    Date: _date,
    Coordinate: _coordinate,
    Listed: _listed,
    Mapped: _mapped,
}
