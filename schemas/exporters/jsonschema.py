"""Export as JSON Schema (2020-12), of plain JSON data: valid where `Schema.check` finds no misfit.

A gap is always allowed where nothing is required: null, an empty part, a spelling of a gap. JSON Schema cannot express all of a
schema (years of a date as text, unique ids). Such conditions are in "$comment"; data that violates them is valid.

Our own keyword holds further facts for `kbdisk schema import`, such as that a text is the id of an entity:

    {"type": "string", "x-kbdisk": {"kind": "link", "to": "City"}}

It has only keys of a schema file that the JSON Schema around it cannot express. So nothing is written twice, and a changed bound
or label in the JSON Schema changes the schema that is imported from it. Patterns are common to ECMAScript and Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias
from urllib.parse import quote

from kbdisk.entity import Path, show
from kbdisk.plugins import load_part
from kbdisk.schemas.composites import Kind, composite_of, name_of, row_of
from kbdisk.schemas.composites.coordinate import NAMES, PAIR, Coordinate
from kbdisk.schemas.composites.date import CARRIED, Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.kinds import Boolean, Category, Link, Number, Set, Text
from kbdisk.schemas.property import LIST_KINDS, Property, spelling
from kbdisk.schemas.schema import Class, Schema
from kbdisk.schemas.text import dates, numerals
from kbdisk.schemas.text.numerals import MONEY

Json: TypeAlias = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
HINT = "x-kbdisk"
GAP, NOVALUE, SEVERAL, PART = "gap", "novalue", "several", "part"  # hints that are no kinds

BOUND_KEYS = {"integer", "min", "max", "above", "below"}
KEYS_IN_JSON_SCHEMA: dict[str, set[str]] = {  # by kind
    "number": BOUND_KEYS,
    "category": {"closed"},
    "text": {"min_length", "max_length"},
    "link": {"values"},
    "set": {"of", "to", "values", "closed", "ordered", "most"},  # by its items
    "quantity": {*BOUND_KEYS, "decimals", "transform", "any_unit"},
    "date": {"min", "max"},
    "list": {"of"},
    "map": {"of", "key"},
}
ALWAYS_HINTED = {"link", "set", "list"}  # kinds whose JSON Schema is that of another kind, too

META_KEYS: Json = {"^@": True}  # keys that are no properties
META_KEY: Json = {"pattern": "^@"}
NUMBER = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*$"
INTEGER = r"^\s*[-+]?([0-9]+(\.0*)?|([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+)\s*$"
SPELT_NUMBER = r"([0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?|[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]+)?)"
WITH_COMMA = r"([0-9]*,?[0-9]+([eE][-+]?[0-9]+)?|[1-9][0-9]{0,2}(\.[0-9]{3})+(,[0-9]+)?)"
EMPTY_LIST: Json = {"type": "array", "maxItems": 0}
IN_ORDER = {"d": "0*([1-9]|[12][0-9]|3[01])", "m": "0*([1-9]|1[0-2])", "y": "[0-9]{3,4}"}
BETWEEN = r"\s*[-/. ]\s*"
NO_DAY = "-(02-3[01]|(04|06|09|11)-31)"
EMPTY_PART: Json = {"type": "object", "patternProperties": META_KEYS, "additionalProperties": {"type": "null"}}


def export(schema: Schema) -> Json:
    """The JSON Schema of one entity."""
    titles = {"title": schema.label, "description": schema.description}
    head: Json = {"$schema": DIALECT, **{key: text for key, text in titles.items() if text}}
    settings: Json = {"missing": [*schema.missing], "prefixes": dict(schema.prefixes)}
    if len(schema.classes) == 1:
        (class_,) = schema.classes.values()
        class_schema = _class(schema, class_)
        class_hint = class_schema.pop(HINT, {}).get("class", {}) | {
            key: "" for key, text in titles.items() if text and key not in class_schema
        }
        class_hint |= {"name": class_.name} if titles["title"] and "title" not in class_schema else {}
        hints = _filled(
            {HINT: _filled({"class": class_hint, "schema": _filled({**titles, **settings}) | _shared(schema)})}
        )
        return {**head, **_only_known(schema, class_), **class_schema, **hints}
    head |= _filled({HINT: _filled({"schema": _filled(settings) | _shared(schema)})})
    named = [class_ for class_ in schema.classes.values() if class_.name]
    alternatives: Json = {"$ref": _ref(schema.classes[""])} if "" in schema.classes else {"not": {}}
    for class_ in reversed(named):
        alternatives = {"if": _is_of(class_), "then": {"$ref": _ref(class_)}, "else": alternatives}
    defs = {class_.name: _class(schema, class_) for class_ in schema.classes.values()}
    return {**head, "type": "object", **alternatives, "$defs": defs}


def _shared(schema: Schema) -> Json:
    """The shared properties, as in a schema file. Each class has its properties in full, too."""
    from kbdisk.schemas.yaml.serialize import written_shared  # loads pydantic

    return written_shared(schema)


def _filled(values: Json) -> Json:
    """The entries whose value is not empty."""
    return {key: value for key, value in values.items() if value}


def _only_known(schema: Schema, class_: Class) -> Json:
    """The condition that an entity with a class is of the only one."""
    return {"if": {"required": ["@type"]}, "then": _is_of(class_)} if class_.name else {}


def _ref(class_: Class) -> str:
    return "#/$defs/" + quote(class_.name.replace("~", "~0").replace("/", "~1"), safe="")


def _is_of(class_: Class) -> Json:
    """The condition that @type is a class: its IRI, its name, or an IRI that ends in the name."""
    name: Json = {"type": "string", "pattern": f"(^|[#/:]){literal(class_.name)}$"}
    if class_.iri:
        name = {"anyOf": [{"const": class_.iri}, name]}
    names = {"type": "array", "contains": name}
    return {"type": "object", "properties": {"@type": {"anyOf": [name, names]}}, "required": ["@type"]}


# ---------------------------------------------------------------- classes


def _class(schema: Schema, class_: Class) -> Json:
    tree: Json = {"type": "object"}
    for path, property_ in class_.properties.items():
        _put(tree, path, _property(schema, property_), property_.required)
    for path, fields in _parts(class_).items():
        _put(tree, path, part_hint(fields), False)
    by_title = not class_.label and (class_.name.isidentifier() or not class_.name)
    name = None if by_title and class_.properties else class_.name
    attributes = {"name": name, "iri": class_.iri, "id": None if class_.id is None else show(class_.id)}
    hints: Json = {key: text for key, text in attributes.items() if text is not None}
    if class_.superclasses:
        hints["superclasses"] = list(class_.superclasses)
    if class_.constraints:
        from kbdisk.schemas.yaml.file_keys import write_constraint  # loads pydantic

        hints["constraints"] = [write_constraint(constraint) for constraint in class_.constraints]
    texts = {"title": class_.label or class_.name, "description": class_.description, HINT: _filled({"class": hints})}
    return {**_filled(texts), **tree}


def _parts(class_: Class) -> dict[Path, dict[str, Kind]]:
    """The kinds of the properties in each part, by key."""
    parts: dict[Path, dict[str, Kind]] = {}
    for path, property_ in class_.properties.items():
        if len(path) > 1:
            parts.setdefault(path[:-1], {})[str(path[-1])] = property_.kind
    return parts


def _put(tree: Json, path: Path, value: Json, required: bool) -> None:
    """Add the schema of a value at a path; if the value is required, so are all keys on the way."""
    key, rest = path[0], path[1:]
    if isinstance(key, int):
        places = tree.setdefault("prefixItems", [])
        places += [{} for _ in range(key + 1 - len(places))]
        subtree, frame = places[key], {"type": "array", "minItems": key + 1}
    else:
        subtree, frame = tree.setdefault("properties", {}).setdefault(key, {}), {"type": "object"}
    if required:
        tree |= frame
        if isinstance(key, str):
            tree["required"] = [*tree.get("required", ()), *([key] if key not in tree.get("required", ()) else ())]
    if rest:
        _put(subtree, rest, value, required)
    else:
        subtree |= value


def _property(schema: Schema, property_: Property) -> Json:
    """The schema of a property: its values, several of them where the kind allows that, and gaps."""
    texts = {"title": property_.label, "description": property_.description, "$comment": _comment(property_)}
    missing = dict.fromkeys((*schema.missing, *property_.missing))
    gap_schemas = [gap_of(_spellings(missing)), *_empty(property_.kind)]
    novalues: list[Json] = (
        [{"enum": _spellings(property_.novalue), HINT: {"kind": NOVALUE}}] if property_.novalue else []
    )
    value = _value(property_.kind, missing)
    alternatives, gaps = [value, *novalues], gap_schemas
    if not isinstance(property_.kind, LIST_KINDS):
        alternatives = [*alternatives, _several(property_, value, gap_schemas, novalues)]
        gaps = [*gap_schemas, {"type": "array", "items": any_of(gap_schemas)}]
    fitting = (
        {**any_of(alternatives), "not": any_of(gap_schemas)} if property_.required else any_of([*alternatives, *gaps])
    )
    hints = {**fitting.get(HINT, {}), **_hints_of_property(property_)}
    return {**_filled(texts), **fitting, **_filled({HINT: hints})}


def _value(kind: Kind, missing: Iterable[str]) -> Json:
    """The schema of a value; among several there may be spellings of a gap."""
    if isinstance(kind, Set):
        return set_of(kind, missing)
    return list_of(kind, _spellings(missing)) if isinstance(kind, Listed) else of_kind(kind)


def _empty(kind: Kind) -> list[Json]:
    """The schema of an empty part, which is a gap; not of a map, which may be empty, nor of a link, which may be an id alone."""
    if isinstance(kind, Mapped):
        return []
    return (
        [EMPTY_PART | {"not": {"required": ["@id"]}}] if isinstance(getattr(kind, "of", kind), Link) else [EMPTY_PART]
    )


def _hints_of_property(property_: Property) -> Json:
    """The keys of a property that stand under our own keyword."""
    role = "" if property_.role == "value" else property_.role
    keys = {
        "iri": property_.iri,
        "role": role,
        "unique": property_.unique,
        "depends": [show(path) for path in property_.depends],
    }
    return _filled({**keys, "formula": property_.formula.text if property_.formula else ""})


def _spellings(texts: Iterable[str]) -> list[Any]:
    """Texts, and the numbers with these spellings."""
    values: list[Any] = []
    for text in texts:
        values.append(text)
        with suppress(ValueError):
            value = numerals.number(text)
            if spelling(value) == text:
                values.append(value if isinstance(value, int) else float(value))
    return values


def _several(property_: Property, value: Json, gaps: list[Json], novalues: list[Json]) -> Json:
    """The schema of a list of values of which one counts: at most one besides gaps, unless `many` chooses it."""
    real: Json = {"allOf": [value], "not": any_of([*gaps, *novalues])}
    list_schema: Json = {
        "type": "array",
        "items": any_of([value, *novalues, *gaps]),
        "contains": any_of([real, *novalues]),
    }
    if property_.many:
        return {**list_schema, HINT: {"kind": SEVERAL, "many": property_.many}}
    return {**list_schema, "allOf": [{"contains": real, "minContains": 0, "maxContains": 1}], HINT: {"kind": SEVERAL}}


def _comment(property_: Property) -> str:
    lines = [f"not said here: it is {property_.formula.text}"] if property_.formula else []
    if isinstance(property_.kind, Date) and (property_.kind.minimum, property_.kind.maximum) != (None, None):
        lines.append("not said here: bounds of years that are text")
    bounded = property_.kind.value if isinstance(property_.kind, Quantity) else property_.kind
    if isinstance(bounded, Number) and bounded not in (Number(), Number(integer=True)):
        lines.append("not said here: bounds of numbers that are text")
    return "; ".join(lines)


# ---------------------------------------------------------------- kinds


def any_of(choices: list[Json]) -> Json:
    """The schema of alternatives, without duplicates and nesting."""
    flat = [
        alternative
        for choice in choices
        for alternative in (choice["anyOf"] if choice.keys() == {"anyOf"} else [choice])
    ]
    distinct = [alternative for number, alternative in enumerate(flat) if alternative not in flat[:number]]
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def of_kind(kind: Kind) -> Json:
    """The schema of a value of a kind; that of a kind whose row has none allows any value."""
    row = row_of(kind)
    if row is not None and row.json_schema is not None:
        schema: Json = load_part(row.json_schema)(kind)
        return schema
    return {"$comment": f"not said here: kind {name_of(kind)}", **hint(kind)}


def gap_of(texts: Iterable[Any]) -> Json:
    """The schema of a gap: null, or a spelling."""
    spellings = [*texts]
    return {"enum": [None, *spellings], **({HINT: {"kind": GAP}} if spellings else {})}


def _number(kind: Number) -> Json:
    bounds = {
        "minimum": kind.minimum,
        "maximum": kind.maximum,
        "exclusiveMinimum": kind.above,
        "exclusiveMaximum": kind.below,
    }
    known = {key: bound for key, bound in bounds.items() if bound is not None}
    return {"type": "integer" if kind.integer else "number", **known, **hint(kind)}


def of_number(kind: Number) -> Json:
    """The schema of a number, which may be a string in JSON."""
    return {"anyOf": [_number(kind), {"type": "string", "pattern": INTEGER if kind.integer else NUMBER}]}


def of_category(kind: Category) -> Json:
    """The schema of a label."""
    labels: Json = {"enum": [*kind.values]} if kind.closed else {"type": ["string", "number", "boolean"]}
    return {**labels, **hint(kind)}


def of_boolean(kind: Boolean) -> Json:
    """The schema of true or false."""
    return {"type": "boolean"}


def of_text(kind: Text) -> Json:
    """The schema of a text."""
    bounds = {"minLength": kind.min_length or None, "maxLength": kind.max_length}
    return {"type": "string", **{key: bound for key, bound in bounds.items() if bound is not None}, **hint(kind)}


def of_link(kind: Link) -> Json:
    """The schema of a link: an id, or a node with an id."""
    id: Json = {"enum": [*kind.values]} if kind.values else {"type": "string"}
    node: Json = {"type": "object", "properties": {"@id": id}, "required": ["@id"]}
    return {"anyOf": [{**id, **hint(kind)}, node]}


def set_of(kind: Set, missing: Iterable[str] = ()) -> Json:
    """The schema of labels or links; gaps among them do not count."""
    member, gap = of_kind(kind.of), gap_of(missing)
    most = (
        {}
        if kind.most is None
        else {"contains": {"allOf": [member], "not": gap}, "minContains": 0, "maxContains": kind.most}
    )
    return any_of([member, {"type": "array", "items": any_of([member, gap, EMPTY_LIST]), **most, **hint(kind)}])


def of_quantity(kind: Quantity) -> Json:
    """The schema of a quantity: a part, text, or a number in the main unit."""
    number, names = _number(kind.value), kind.names
    parts = [_measured(names, number, {"enum": [kind.unit, None]})]
    if kind.any_unit:  # bounds in an unknown unit are unknown
        parts = [_measured(names, {"type": "number"}, {"type": ["string", "null"]})]
    elif kind.unit is None:
        parts = [_measured(names, number, {"enum": [*kind.units(), None]})]
    else:
        factors = {unit: factor for unit, factor in kind.factors.items() if unit != kind.unit}
        for unit, factor in factors.items():
            parts += [_measured(names, _scaled(number, factor), {"enum": [unit]}, names[1])] if factor else []
        unknown = [unit for unit, factor in factors.items() if not factor]
        parts += (
            [_measured(names, {"type": "number"}, {"enum": unknown}, names[1])] if unknown and not kind.normal else []
        )
    unit_pattern = r"[^0-9\s.,].*" if kind.any_unit else "|".join(map(literal, kind.units())) or "(?!)"
    money = MONEY if kind.any_unit else "|".join(literal(unit) for unit in kind.units() if re.fullmatch(MONEY, unit))
    digits = WITH_COMMA if kind.comma else SPELT_NUMBER
    money_before = rf"|[-+]?({money})\s*{digits}" if money else ""
    text = {"type": "string", "pattern": rf"^\s*([-+]?{digits}\s*({unit_pattern})?{money_before})\s*$"}
    return {"anyOf": [number, *(part | hint(kind) for part in parts), text]}


def _measured(names: tuple[str, str], number: Json, units: Json, *needed: str) -> Json:
    """The schema of a part with value and unit."""
    return _part(dict(zip(names, (number, units), strict=True))) | ({"required": [*needed]} if needed else {})


def _scaled(number: Json, factor: float) -> Json:
    """The schema of a number with bounds in the main unit, in a unit with this factor to it."""
    return {"type": "number"} | {key: bound / factor for key, bound in number.items() if key not in ("type", HINT)}


def _part(fields: Json) -> Json:
    """The schema of an object with these fields and no others, any of which may be a gap."""
    return {
        "type": "object",
        "properties": {name: any_of([field, {"type": "null"}]) for name, field in fields.items()},
        "patternProperties": META_KEYS,
        "additionalProperties": False,
    }


def of_date(kind: Date) -> Json:
    """The schema of a date: a part, text, or a year."""
    year = _number(Number(True, kind.minimum, kind.maximum))
    fields = {
        "year": year,
        "month": {"type": "integer", "minimum": 1, "maximum": 24, "not": {"minimum": 13, "maximum": 20}},
        "day": {"type": "integer", "minimum": 1, "maximum": 31},
    }
    part = _part(fields | {name: {"type": "string"} for name in CARRIED}) | hint(kind)
    if kind.order == "iso":
        patterns = "|".join(map(_portable_pattern, (dates.ISO, dates.EDTF_DATE, dates.FORMS["gMonthDay"].pattern)))
        text: Json = {"type": "string", "pattern": f"^({patterns})$", "not": {"pattern": NO_DAY}}
    else:
        text = {"type": "string", "pattern": rf"^\s*{BETWEEN.join(IN_ORDER[letter] for letter in kind.order)}\s*$"}
    return {"anyOf": [text, year, part]}


def of_coordinate(kind: Coordinate) -> Json:
    """The schema of a coordinate: a part, a pair, or text."""
    bounds = {str(path[0]): _number(leaf) for path, leaf in kind.leaves().items()}
    part = _part({name: bounds[full] for name, full in NAMES.items()}) | hint(kind)
    pair = [bounds["longitude"], bounds["latitude"]] if kind.longitude_first else [*bounds.values()]
    halves = [any_of([bound, {"type": "null"}]) for bound in pair]
    listed = {"type": "array", "prefixItems": halves, "minItems": 2, "maxItems": 2, "contains": {"type": "number"}}
    return {"anyOf": [part, listed, {"type": "string", "pattern": f"^{_portable_pattern(PAIR)}$"}]}


def _fields(fields: Mapping[str, Kind]) -> Json:
    """The schema of an item of a list, or of an entry of a map."""
    if "" in fields:
        return of_kind(fields[""])
    known = {name: any_of([of_kind(kind), *_gap_in(kind)]) for name, kind in fields.items()}
    return {"type": "object", "properties": known, **part_hint(fields)}


def _gap_in(kind: Kind | None) -> list[Json]:
    """The schemas of gaps within a list or a map: null, and an empty list where lists are no values of the kind."""
    return [{"type": "null"}, *([] if isinstance(kind, Listed | Set) else [EMPTY_LIST])]


def part_hint(fields: Mapping[str, Kind]) -> Json:
    """The hint for parts with the fields of a date, a coordinate or a quantity that are none."""
    return {HINT: {"kind": PART}} if composite_of(fields) is not None else {}


def list_of(kind: Listed, missing: Iterable[Any] = ()) -> Json:
    """The schema of a list; gaps among its items keep their places."""
    item = _fields(kind.fields)
    empty = _gap_in(kind.fields.get(""))
    gaps = [gap_of(missing)] if missing and "" in kind.fields else []
    return any_of([{"type": "array", "items": any_of([item, *empty, *gaps]), **hint(kind)}, item])


def of_map(kind: Mapped) -> Json:
    """The schema of a map."""
    entry = any_of([_fields(kind.fields), *(_gap_in(kind.fields[""]) if "" in kind.fields else [{"type": "null"}])])
    object_: Json = {"type": "object", "patternProperties": META_KEYS, "additionalProperties": entry, **hint(kind)}
    if isinstance(kind.key, Category) and kind.key.closed:
        object_["propertyNames"] = any_of([{"enum": [*map(str, kind.key.values)], **hint(kind.key)}, META_KEY])
    elif kind.key != Category():
        object_["propertyNames"] = any_of([of_kind(kind.key), META_KEY])
    return object_


def _portable_pattern(pattern: re.Pattern[str]) -> str:
    """A pattern for JSON Schema: with groups without names, and ASCII digits and spaces."""
    return (
        "(" + re.sub(r"[(][?]P<[^<>]*>", "(", pattern.pattern).replace(r"\d", "[0-9]").replace("[[0-9]", "[0-9") + ")"
    )


def literal(text: str) -> str:
    """A pattern of this text alone."""
    return re.sub(r"[\^$\\.*+?()\[\]{}|/]", r"\\\g<0>", text)


# ---------------------------------------------------------------- hints under our own keyword


def hint(kind: Kind) -> dict[str, Any]:
    """The hint for a kind; empty where its JSON Schema is enough."""
    from kbdisk.schemas.yaml.kind_keys import write_kind  # loads pydantic

    written = write_kind(kind)
    keys = {"kind": written} if isinstance(written, str) else dict(written)
    without_hint = set(KEYS_IN_JSON_SCHEMA.get(keys["kind"], ()))
    if keys["kind"] == "category" and keys.get("closed"):
        without_hint.add("values")
    hinted = {key: value for key, value in keys.items() if key not in without_hint}
    are_booleans = all(
        isinstance(value, bool) for value in keys.get("values", (0,))
    )  # a closed category of True and False
    return {HINT: hinted} if len(hinted) > 1 or hinted["kind"] in ALWAYS_HINTED or are_booleans else {}
