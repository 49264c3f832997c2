"""A JSON Schema file as nodes to ask: references resolved within the file, allOf merged, alternatives that are one made one.

Nothing is ever fetched: a reference to another file is an error that names it. All that goes wrong here is a SchemaError
with the place in the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from kbdisk.errors import SchemaError
from kbdisk.schemas.imported import Notes
from kbdisk.schemas.jsonchoices import is_gap, without_gaps
from kbdisk.schemas.jsonhints import GAP, HINT, NOVALUE
from kbdisk.schemas.jsonmerge import ANNOTATIONS, merged
from kbdisk.schemas.text.numerals import is_whole

DEEPEST = 60
LARGEST = 2**53
COUNT = "a whole number"
SHAPES: dict[str, tuple[type | tuple[type, ...], str]] = {  # keyword -> what it must be
    "properties": (dict, "schemas by the names of properties"),
    "patternProperties": (dict, "schemas by patterns"),
    "required": (list, "a list of names"),
    "enum": (list, "a list of values"),
    "type": ((str, list), "a type or a list of types"),
    "title": (str, "text"),
    "description": (str, "text"),
    "format": (str, "the name of a format"),
    "allOf": (list, "a list of schemas"),
    "anyOf": (list, "a list of schemas"),
    "oneOf": (list, "a list of schemas"),
    "$ref": (str, "a reference such as #/$defs/name"),
    HINT: (dict, "keys of a schema of ours"),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), ((int, float), "a number")),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), ((int, float), COUNT)),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), ((int, float, bool), "a number")),
}
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


@dataclass(frozen=True)
class Node:
    """A schema within the file: its keywords, its place, and the references that led to it."""

    told: dict[str, Any]
    place: str
    refs: frozenset[str] = frozenset()
    depth: int = 0
    either: tuple[Node, ...] = ()  # alternatives of several kinds, without gaps
    missing: tuple[str, ...] = ()  # spellings of a gap among the alternatives
    novalue: tuple[str, ...] = ()
    many: str = ""  # which counts of several values, where a list is an alternative to one value

    def types(self) -> set[str]:
        """The types that it may be, without null; told by its keywords where it names none."""
        told = self.told.get("type")
        if told is None:
            return {kind for kind, keywords in BY_KEYWORD.items() if keywords & self.told.keys()}
        found = {told} if isinstance(told, str) else set(told)
        return found - {"null"} - ({"integer"} if "number" in found else set())

    def is_null(self) -> bool:
        """Whether it is null and nothing else."""
        return self.told.get("type") in ("null", ["null"]) or self.told.get("enum") == [None]

    def is_part(self) -> bool:
        """Whether it is an object with properties and nothing else."""
        return self.types() == {"object"} and "properties" in self.told


BY_KEYWORD = {
    "object": {"properties", "patternProperties"},
    "array": {"items", "prefixItems"},
    "string": {"minLength", "maxLength", "pattern", "format"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}


class Document:
    """One file."""

    def __init__(self, path: FilePath, notes: Notes) -> None:
        self.name = str(path)
        self.notes = notes
        self.root = self._read(path)
        self.named: dict[str, Any] = {}  # whole IRI of an $id or an $anchor -> schema
        told: Any = self.root.get("$id", self.root.get("id", "")) if isinstance(self.root, dict) else ""
        self.base = told if isinstance(told, str) else ""
        for inner in _within(self.root):
            if isinstance(inner.get("$id"), str):
                self.named[urldefrag(urljoin(self.base, inner["$id"])).url] = inner
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(inner.get(key), str):
                    self.named[f"{urldefrag(self.base).url}#{inner[key]}"] = inner

    def _read(self, path: FilePath) -> Any:
        try:
            told = json.loads(path.read_bytes().decode("utf-8-sig"), parse_constant=_no_number)
            json.dumps(told, ensure_ascii=False).encode()
        except OSError as error:
            raise SchemaError(self.name, f"cannot be read: {error.strerror}.") from None
        except UnicodeEncodeError as error:
            half = f"\\u{ord(error.object[error.start]):04x}"
            problem = (
                f"expected whole characters, got one half of a surrogate pair, {half}. Write the character itself."
            )
            raise SchemaError(self.name, problem) from None
        except json.JSONDecodeError as error:
            raise SchemaError(f"{self.name}:{error.lineno}", f"expected JSON, but {error.msg}.") from None
        except RecursionError:
            raise SchemaError(self.name, "nested too deep to be a schema.") from None
        except ValueError as error:
            raise SchemaError(self.name, f"expected JSON in UTF-8, but {error}.") from None
        return told

    def wrong(self, place: str, problem: str) -> SchemaError:
        """An error at a place of the file."""
        return SchemaError(self.name, f"{place}: {problem}" if place else problem)

    def node(self, raw: Any, place: str, of: Node | None = None) -> Node:
        """The schema that stands at a place, as one: with what it refers to and what allOf says."""
        self.notes.step(self.name)
        depth = of.depth + 1 if of else 0
        if depth > DEEPEST:
            raise self.wrong(place, f"nested deeper than {DEEPEST} schemas.")
        node = self._checked(raw, place, of.refs if of else frozenset(), depth)
        if "$ref" in node.told:
            node = self._referred(node)
        parts = node.told.get("allOf", [])
        node = replace(node, told={key: value for key, value in node.told.items() if key != "allOf"})
        others = [self.node(part, _at(place, f"allOf[{number}]"), node) for number, part in enumerate(parts)]
        for other in others:
            node = replace(node, told=merged(node.told, other.told, place, self.notes), refs=node.refs | other.refs)
        for key in ("anyOf", "oneOf"):
            if key in node.told:
                node = self._one_of(node, key)
        return self._without_not(node) if isinstance(node.told.get("not"), dict) else node

    def _without_not(self, node: Node) -> Node:
        """Without `not`, where that only says that there is a value."""
        many = len(self.notes.lines)
        other = self.node(node.told["not"], _at(node.place, "not"), node)
        self.notes.back_to(many)
        if not is_gap(self, other):
            return node
        told = {key: value for key, value in node.told.items() if key != "not"}
        spelt = without_gaps(self, other, [other])[0].missing
        return replace(node, told=told, missing=(*node.missing, *spelt))

    def _checked(self, raw: Any, place: str, refs: frozenset[str], depth: int) -> Node:
        if isinstance(raw, bool):
            return Node({} if raw else {"enum": []}, place, refs, depth)
        if not isinstance(raw, dict):
            raise self.wrong(place, f"expected a schema, got {_short(raw)}.")
        for key, (shape, expected) in SHAPES.items():
            value: Any = raw.get(key)
            truth = isinstance(value, bool) and not (isinstance(shape, tuple) and bool in shape)
            fits = isinstance(value, shape) and not truth
            if key in raw and not (fits and (expected is not COUNT or (0 <= value < LARGEST and is_whole(value)))):
                raise self.wrong(_at(place, key), f"expected {expected}, got {_short(value)}.")
        told = raw.get("type", [])
        for name in [told] if isinstance(told, str) else told:
            if name not in TYPES:
                raise self.wrong(_at(place, "type"), f"expected one of {', '.join(TYPES)}, got {_short(name)}.")
        for name in raw.get("required", ()):
            if not isinstance(name, str):
                raise self.wrong(_at(place, "required"), f"expected names of properties, got {_short(name)}.")
        told = {"enum": [raw["const"]]} if "const" in raw else {}
        return Node({key: value for key, value in raw.items() if key != "const"} | told, place, refs, depth)

    # ---------------------------------------------------------------- references

    def _referred(self, node: Node) -> Node:
        """With what it refers to; without, where that is where it stands itself."""
        ref = node.told["$ref"]
        own = {key: value for key, value in node.told.items() if key != "$ref"}
        if ref in node.refs:
            self.notes.add(node.place, f"{ref} within itself: cut here")
            return replace(node, told=own | {"enum": []})
        target = self.node(self._target(ref, node.place), _place(ref), replace(node, refs=node.refs | {ref}))
        return replace(target, told=merged(target.told, own, node.place, self.notes))

    def _target(self, ref: str, place: str) -> Any:
        whole, fragment = urldefrag(urljoin(self.base, ref))
        if whole not in (urldefrag(self.base).url, *self.named):
            raise self.wrong(place, f"{ref!r} is in another file, and none is ever fetched. Put it under $defs.")
        if fragment and not fragment.startswith("/"):
            found = self.named.get(f"{whole}#{fragment}")
            if found is None:
                raise self.wrong(place, f"{ref!r} names nothing in this file.")
            return found
        found = self.named.get(whole, self.root) if whole != urldefrag(self.base).url else self.root
        for step in fragment.split("/")[1:]:
            step = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and step in found:
                found = found[step]
            elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
                found = found[int(step)]
            else:
                raise self.wrong(place, f"{ref!r} names nothing in this file.")
        return found

    # ---------------------------------------------------------------- several schemas as one

    def _one_of(self, node: Node, key: str) -> Node:
        """Alternatives as one where they are that: or null, several values, several plain types. Others wait in `either`."""
        rest = {name: value for name, value in node.told.items() if name != key}
        parts = list(self._alternatives(node, key))
        if node.either or not any(part.types() or part.either or "enum" in part.told for part in parts):
            self.notes.add(node.place, f"{key} is not checked")
            return replace(node, told=rest)
        if rest.keys() & {"type", "properties", "items", "enum"}:
            own = {name: value for name, value in rest.items() if name not in (*ANNOTATIONS, HINT)}
            parts = [replace(part, told=merged(part.told, own, node.place, self.notes)) for part in parts]
            rest = {name: value for name, value in rest.items() if name not in own}
        node, parts = without_gaps(self, node, parts)
        if not parts:
            return replace(node, told={**rest, "type": "null"})
        if len(parts) == 1:
            return self._alone(node, parts[0], rest)
        plain = [{name: value for name, value in part.told.items() if name not in ANNOTATIONS} for part in parts]
        if all("enum" in part and part.keys() <= {"enum", "type"} for part in plain):
            values = [value for part in plain for value in part["enum"]]
            return replace(node, told=merged({"enum": values}, rest, node.place, self.notes))
        if all(part.keys() == {"type"} for part in plain):
            types = sorted({name for part in parts for name in part.types()})
            return replace(node, told=merged({"type": types}, rest, node.place, self.notes))
        return replace(node, told=rest, either=tuple(parts))

    def _alternatives(self, node: Node, key: str) -> Iterator[Node]:
        """All of them, those within one another, too."""
        for number, raw in enumerate(node.told[key]):
            part = self.node(raw, _at(node.place, f"{key}[{number}]"), node)
            yield from part.either or [part]
            spelt = ((part.missing, GAP), (part.novalue, NOVALUE))
            yield from (replace(part, told=_spelt(texts, kind), either=()) for texts, kind in spelt if texts)

    def _alone(self, node: Node, part: Node, rest: dict[str, Any]) -> Node:
        """The only one of the alternatives."""
        told = merged(part.told, rest, node.place, self.notes)
        return replace(node, told=told, refs=node.refs | part.refs, many=node.many or part.many)


def _spelt(texts: tuple[str, ...], kind: str) -> dict[str, Any]:
    return {"enum": list(texts), HINT: {"kind": kind}}


def _within(raw: Any) -> Iterator[dict[str, Any]]:
    """Every object of a document. Not recursive: it may be deep."""
    waiting = [raw]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _at(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _place(ref: str) -> str:
    return ref.partition("#")[2].strip("/").replace("/", ".") or "the whole file"


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:60] + "..."


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")
