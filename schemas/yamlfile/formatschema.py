"""The JSON Schema of the schema file itself, so that editors complete and check it.

It is made from the same models that read a file. What one place says of another (min above max, formulas of paths
that are not there) is beyond it: the reader refuses more than it does.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from kbdisk.schemas.yamlfile.constraintkeys import ConstraintKeys, WhereKeys
from kbdisk.schemas.yamlfile.keys import Keys, keys_of, kinds
from kbdisk.schemas.yamlfile.model import FileKeys, PropertyKeys

Json: TypeAlias = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FRAGMENTS: dict[str, Json] = {
    name: {"$ref": f"#/$defs/{name.replace(' ', '%20')}"}
    for name in ("kind", "fields", "property", "property or changes", "constraint", "value shape")
}


def format_schema() -> Json:
    """The JSON Schema of the format, with all kinds that there are now."""
    file = _of(FileKeys)
    definitions = file.pop("$defs", {})
    common = _of(PropertyKeys)["properties"]
    for name in kinds():
        own = _of(keys_of(name))
        definitions[name] = _kind(name, own, {})
        definitions[f"{name} property"] = _kind(name, own, common)
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
    """The keys of a shared property that a class changes: of any kind but `kind` itself; null for one to leave out."""
    keys: dict[str, list[Json]] = {key: [told] for key, told in common.items()}
    for name in kinds():
        for key, told in _of(keys_of(name)).get("properties", {}).items():
            if told not in keys.setdefault(key, []):
                keys[key].append(told)
    return {
        "type": ["object", "null"],
        "description": "What a class changes of a shared property; null leaves a key out.",
        "properties": {
            key: {"anyOf": [*several, {"type": "null"}], "description": several[0].get("description", "")}
            for key, several in keys.items()
        },
        "additionalProperties": False,
    }


def _kind(name: str, own: Json, common: Json) -> Json:
    """The mapping of a kind; of a property of that kind, with the keys that all have."""
    kind = {"const": name, "description": own.get("description", "")}
    return {
        **own,
        "properties": {"kind": kind, **common, **own.get("properties", {})},
        "required": ["kind", *own.get("required", [])],
    }


def _fields() -> Json:
    """Fields by their names; one that is called `kind` cannot be in the short form."""
    long = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in kinds()]}
    return {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"minLength": 1},
        "properties": {"kind": long},
        "additionalProperties": FRAGMENTS["kind"],
    }


def _of(keys: type[Keys]) -> Json:
    made: Json = _resolved(keys.model_json_schema())
    made["additionalProperties"] = False
    return made


def _resolved(part: Any) -> Any:
    """Our own marks become references; titles that pydantic makes of names go."""
    if isinstance(part, list):
        return [_resolved(one) for one in part]
    if not isinstance(part, dict):
        return part
    resolved = {key: _resolved(value) for key, value in part.items() if not (key == "title" and isinstance(value, str))}
    return FRAGMENTS[resolved.pop("$kbdisk")] | resolved if "$kbdisk" in resolved else resolved
