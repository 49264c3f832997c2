"""The JSON Schema (2020-12) of plain JSON data that fits a schema: valid where `Schema.check` finds nothing.

A gap is always allowed where nothing is required: null, an empty part, a spelling of a gap. What JSON Schema cannot say
(years of a date as text, that ids are unique) stands under "$comment" or, for `kbdisk schema import`, under "x-kbdisk"
(see jsonhints); such data is valid there all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from kbdisk.entity import Path, show
from kbdisk.schemas.composites.base import Kind
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.jsonhints import HINT, NOVALUE, SEVERAL
from kbdisk.schemas.jsonkinds import ASIDE, Json, any_of, gap_of, list_of, literal, of_kind, part_hint, set_of
from kbdisk.schemas.kinds import Link, Number, Set
from kbdisk.schemas.property import LIST_KINDS, Property, spelling
from kbdisk.schemas.schema import Class, Schema
from kbdisk.schemas.text import numerals

DIALECT = "https://json-schema.org/draft/2020-12/schema"
EMPTY: Json = {"type": "object", "patternProperties": ASIDE, "additionalProperties": {"type": "null"}}


def export(schema: Schema) -> Json:
    """The JSON Schema of one entity."""
    told = {"title": schema.label, "description": schema.description}
    head: Json = {"$schema": DIALECT, **{key: text for key, text in told.items() if text}}
    whole: Json = {"missing": [*schema.missing], "prefixes": dict(schema.prefixes)}
    if len(schema.classes) == 1:
        (one,) = schema.classes.values()
        known = _class(schema, one)
        of = known.pop(HINT, {}).get("class", {}) | {key: "" for key, text in told.items() if text and key not in known}
        of |= {"name": one.name} if told["title"] and "title" not in known else {}
        aside = _some({HINT: _some({"class": of, "schema": _some({**told, **whole}) | _shared(schema)})})
        return {**head, **_only_known(schema, one), **known, **aside}
    head |= _some({HINT: _some({"schema": _some(whole) | _shared(schema)})})
    named = [one for one in schema.classes.values() if one.name]
    rest: Json = {"$ref": _ref(schema.classes[""])} if "" in schema.classes else {"not": {}}
    for one in reversed(named):
        rest = {"if": _is_of(one), "then": {"$ref": _ref(one)}, "else": rest}
    defs = {one.name: _class(schema, one) for one in schema.classes.values()}
    return {**head, "type": "object", **rest, "$defs": defs}


def _shared(schema: Schema) -> Json:
    """What classes share, as in a schema file; each class has it in full, too."""
    from kbdisk.schemas.yaml.serialize import written_shared  # loads pydantic

    return written_shared(schema)


def _some(told: Json) -> Json:
    """What says anything."""
    return {key: value for key, value in told.items() if value}


def _only_known(schema: Schema, one: Class) -> Json:
    """An entity without a class may be of the only one."""
    return {"if": {"required": ["@type"]}, "then": _is_of(one)} if one.name else {}


def _ref(one: Class) -> str:
    return "#/$defs/" + quote(one.name.replace("~", "~0").replace("/", "~1"), safe="")


def _is_of(one: Class) -> Json:
    """Whether @type names a class: by its IRI, its name, or an IRI that ends in it."""
    name: Json = {"type": "string", "pattern": f"(^|[#/:]){literal(one.name)}$"}
    if one.iri:
        name = {"anyOf": [{"const": one.iri}, name]}
    several = {"type": "array", "contains": name}
    return {"type": "object", "properties": {"@type": {"anyOf": [name, several]}}, "required": ["@type"]}


# ---------------------------------------------------------------- classes


def _class(schema: Schema, one: Class) -> Json:
    tree: Json = {"type": "object"}
    for path, each in one.properties.items():
        _put(tree, path, _property(schema, each), each.required)
    for path, fields in _parts(one).items():
        _put(tree, path, part_hint(fields), False)
    by_title = not one.label and (one.name.isidentifier() or not one.name)
    name = None if by_title and one.properties else one.name
    of = {"name": name, "iri": one.iri, "id": None if one.id is None else show(one.id)}
    aside: Json = {key: text for key, text in of.items() if text is not None}
    if one.superclasses:
        aside["superclasses"] = list(one.superclasses)
    if one.constraints:
        from kbdisk.schemas.yaml.file_keys import write_constraint  # loads pydantic

        aside["constraints"] = [write_constraint(constraint) for constraint in one.constraints]
    told = {"title": one.label or one.name, "description": one.description, HINT: _some({"class": aside})}
    return {**_some(told), **tree}


def _parts(one: Class) -> dict[Path, dict[str, Kind]]:
    """The kinds that stand under each part."""
    parts: dict[Path, dict[str, Kind]] = {}
    for path, each in one.properties.items():
        if len(path) > 1:
            parts.setdefault(path[:-1], {})[str(path[-1])] = each.kind
    return parts


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
    spelt = dict.fromkeys((*schema.missing, *one.missing))
    gap = [gap_of(_spellings(spelt)), *_empty(one.kind)]
    none: list[Json] = [{"enum": _spellings(one.novalue), HINT: {"kind": NOVALUE}}] if one.novalue else []
    value = _value(one.kind, spelt)
    fits, gaps = [value, *none], gap
    if not isinstance(one.kind, LIST_KINDS):
        fits = [*fits, _several(one, value, gap, none)]
        gaps = [*gap, {"type": "array", "items": any_of(gap)}]
    fitting = {**any_of(fits), "not": any_of(gap)} if one.required else any_of([*fits, *gaps])
    aside = {**fitting.get(HINT, {}), **_aside(one)}
    return {**_some(told), **fitting, **_some({HINT: aside})}


def _value(kind: Kind, spelt: Iterable[str]) -> Json:
    """What a value looks like; among several there may be spellings of a gap."""
    if isinstance(kind, Set):
        return set_of(kind, spelt)
    return list_of(kind, _spellings(spelt)) if isinstance(kind, Listed) else of_kind(kind)


def _empty(kind: Kind) -> list[Json]:
    """A part in which nothing is known; a map may be empty, and a link may be a part with an id alone."""
    if isinstance(kind, Mapped):
        return []
    return [EMPTY | {"not": {"required": ["@id"]}}] if isinstance(getattr(kind, "of", kind), Link) else [EMPTY]


def _aside(one: Property) -> Json:
    """What of a property is told under our own keyword."""
    role = "" if one.role == "value" else one.role
    told = {"iri": one.iri, "role": role, "unique": one.unique, "depends": [show(path) for path in one.depends]}
    return _some({**told, "formula": one.formula.text if one.formula else ""})


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
    real: Json = {"allOf": [value], "not": any_of([*gap, *none])}
    told: Json = {"type": "array", "items": any_of([value, *none, *gap]), "contains": any_of([real, *none])}
    if one.many:
        return {**told, HINT: {"kind": SEVERAL, "many": one.many}}
    return {**told, "allOf": [{"contains": real, "minContains": 0, "maxContains": 1}], HINT: {"kind": SEVERAL}}


def _comment(one: Property) -> str:
    lines = [f"not said here: it is {one.formula.text}"] if one.formula else []
    if isinstance(one.kind, Date) and (one.kind.minimum, one.kind.maximum) != (None, None):
        lines.append("not said here: bounds of years that are text")
    bounded = one.kind.value if isinstance(one.kind, Quantity) else one.kind
    if isinstance(bounded, Number) and bounded not in (Number(), Number(integer=True)):
        lines.append("not said here: bounds of numbers that are text")
    return "; ".join(lines)
