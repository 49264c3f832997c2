"""Two JSON Schemas that both hold, as one: bounds narrowed, properties joined, the rest told where only one can count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbdisk.schemas.imported import Notes
from kbdisk.schemas.jsonhints import HINT

ANNOTATIONS = frozenset(
    {"title", "description", "$comment", "examples", "default", "deprecated", "readOnly", "writeOnly"}
)


def merged(one: dict[str, Any], other: dict[str, Any], place: str, notes: Notes) -> dict[str, Any]:
    """What both say."""
    both = {**one, **other}
    for key in one.keys() & other.keys():
        first, second = one[key], other[key]
        if first == second:
            continue
        if key in ("properties", "patternProperties"):
            joined = {name: {"allOf": [first[name], second[name]]} for name in first.keys() & second.keys()}
            both[key] = {**first, **second, **joined}
        elif key in JOINED:
            both[key] = JOINED[key](first, second)
        elif key in ALL_OF:
            both[key] = {"allOf": [first, second]}
        elif key not in ANNOTATIONS and key[:1] != "$":
            notes.add(place, f"{key} is told twice: only one of them counts")
    return both


def _both_types(one: str | list[str], other: str | list[str]) -> list[str]:
    first, second = ({told} if isinstance(told, str) else set(told) for told in (one, other))
    wide = {"integer"} if "number" in first | second and "integer" in first | second else set()
    return sorted(first & second | (wide if wide & (first | second) else set()))


ALL_OF = ("items", "additionalProperties", "contains")
JOINED: dict[str, Callable[[Any, Any], Any]] = {
    "required": lambda one, other: [*one, *other],
    "enum": lambda one, other: [value for value in one if value in other],
    "type": _both_types,
    HINT: lambda one, other: {**one, **other},
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems"), min),
}
