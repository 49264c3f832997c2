"""The JSON Schema of the schema file, with which editors complete and check it.

It is generated from the models that read a file. Conditions between several places (min above max, formulas of unknown paths)
are not part of it: the reader refuses more files than the JSON Schema.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from kbdisk.schemas.yaml.file_keys import ConstraintKeys, FileKeys, PropertyKeys, WhereKeys
from kbdisk.schemas.yaml.kind_keys import Keys, keys_of, kinds

Json: TypeAlias = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FRAGMENTS: dict[str, Json] = {
    name: {"$ref": f"#/$defs/{name.replace(' ', '%20')}"}
    for name in ("kind", "fields", "property", "property or changes", "constraint", "value shape")
}


def format_schema() -> Json:
    """The JSON Schema of the format, with all kinds that are registered."""
    file = _of(FileKeys)
    definitions = file.pop("$defs", {})
    common = _of(PropertyKeys)["properties"]
    for name in kinds():
        kind_schema = _of(keys_of(name))
        definitions[name] = _kind(name, kind_schema, {})
        definitions[f"{name} property"] = _kind(name, kind_schema, common)
    names = {"enum": kinds(), "description": "A kind by its name alone."}
    definitions["kind"] = {"anyOf": [names, *({"$ref": f"#/$defs/{name}"} for name in kinds())]}
    definitions["property"] = {"anyOf": [names, *({"$ref": f"#/$defs/{name}%20property"} for name in kinds())]}
    definitions["fields"] = {"anyOf": [FRAGMENTS["kind"], _fields()]}
    definitions["property or changes"] = {"anyOf": [FRAGMENTS["property"], _changes(common)]}
    line = {"type": "string", "description": "A constraint in a line: born <= died, code unique, closed."}
    definitions["constraint"] = {"anyOf": [line, _of(ConstraintKeys)]}
    definitions["value shape"] = _of(WhereKeys)
    return {"$schema": DIALECT, **file, **_WITHOUT_SHARED, "title": "A schema of kbdisk", "$defs": definitions}


_WITHOUT_SHARED: Json = {  # a file that shares no properties has none to change
    "if": {"not": {"required": ["properties"]}},
    "then": {
        "properties": {
            "classes": {
                "additionalProperties": {"properties": {"properties": {"additionalProperties": FRAGMENTS["property"]}}}
            }
        }
    },
}


def _changes(common: Json) -> Json:
    """The keys of a shared property that a class may change: those of every kind, without `kind`; null leaves a key out."""
    keys: dict[str, list[Json]] = {key: [key_schema] for key, key_schema in common.items()}
    for name in kinds():
        for key, key_schema in _of(keys_of(name)).get("properties", {}).items():
            if key_schema not in keys.setdefault(key, []):
                keys[key].append(key_schema)
    return {
        "type": ["object", "null"],
        "description": "What a class changes of a shared property; null leaves a key out.",
        "properties": {
            key: {"anyOf": [*several, {"type": "null"}], "description": several[0].get("description", "")}
            for key, several in keys.items()
        },
        "additionalProperties": False,
    }


def _kind(name: str, kind_schema: Json, common: Json) -> Json:
    """The mapping of a kind; with `common` keys, the mapping of a property of that kind."""
    kind = {"const": name, "description": kind_schema.get("description", "")}
    return {
        **kind_schema,
        "properties": {"kind": kind, **common, **kind_schema.get("properties", {})},
        "required": ["kind", *kind_schema.get("required", [])],
    }


def _fields() -> Json:
    """Fields by their names; a field with the name `kind` has to be a mapping."""
    long = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in kinds()]}
    return {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"minLength": 1},
        "properties": {"kind": long},
        "additionalProperties": FRAGMENTS["kind"],
    }


def _of(keys: type[Keys]) -> Json:
    schema: Json = _resolved(keys.model_json_schema())
    schema["additionalProperties"] = False
    return schema


def _resolved(part: Any) -> Any:
    """A schema with references instead of the mark `$kbdisk`, and without the titles that pydantic derives from names."""
    if isinstance(part, list):
        return [_resolved(item) for item in part]
    if not isinstance(part, dict):
        return part
    resolved = {key: _resolved(value) for key, value in part.items() if not (key == "title" and isinstance(value, str))}
    return FRAGMENTS[resolved.pop("$kbdisk")] | resolved if "$kbdisk" in resolved else resolved
