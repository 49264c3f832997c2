"""The nodes of a JSON Schema file: references resolved, allOf merged, alternatives reduced to one where they are equivalent.

References to other files are errors; nothing is ever downloaded. All errors are SchemaErrors with the place in the file. Gaps
among alternatives are null, empty parts and lists, and values that the export marks as spellings of a gap.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from kbdisk.errors import SchemaError
from kbdisk.schemas.exporters.jsonschema import GAP, HINT, NOVALUE, SEVERAL
from kbdisk.schemas.importers.common import Notes
from kbdisk.schemas.property import GAP_SPELLINGS
from kbdisk.schemas.text.numerals import is_whole

META_KEYS = "^@"
MAX_DEPTH = 60
MAX_COUNT = 2**53
COUNT_NAME = "a whole number"
TYPE_OF_KEYWORD: dict[str, tuple[type | tuple[type, ...], str]] = {  # keyword -> what it must be
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
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), ((int, float), COUNT_NAME)),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), ((int, float, bool), "a number")),
}
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


@dataclass(frozen=True)
class Node:
    """A schema within the file: its keywords, its place, and the references on the way to it."""

    keywords: dict[str, Any]
    place: str
    refs: frozenset[str] = frozenset()
    depth: int = 0
    either: tuple[Node, ...] = ()  # alternatives of several kinds, without gaps
    missing: tuple[str, ...] = ()  # spellings of a gap among the alternatives
    novalue: tuple[str, ...] = ()
    many: str = ""  # the choice among several values (`many`), where a list is an alternative to one value

    def types(self) -> set[str]:
        """The types, without null; by the other keywords where `type` is absent."""
        named = self.keywords.get("type")
        if named is None:
            return {kind for kind, keywords in KEYWORDS_OF_TYPE.items() if keywords & self.keywords.keys()}
        types = {named} if isinstance(named, str) else set(named)
        return types - {"null"} - ({"integer"} if "number" in types else set())

    def is_null(self) -> bool:
        """Whether only null is valid."""
        return self.keywords.get("type") in ("null", ["null"]) or self.keywords.get("enum") == [None]

    def is_part(self) -> bool:
        """Whether only objects are valid, and have named properties."""
        return self.types() == {"object"} and "properties" in self.keywords


KEYWORDS_OF_TYPE = {
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
        id: Any = self.root.get("$id", self.root.get("id", "")) if isinstance(self.root, dict) else ""
        self.base = id if isinstance(id, str) else ""
        for schema in _objects_within(self.root):
            if isinstance(schema.get("$id"), str):
                self.named[urldefrag(urljoin(self.base, schema["$id"])).url] = schema
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(schema.get(key), str):
                    self.named[f"{urldefrag(self.base).url}#{schema[key]}"] = schema

    def _read(self, path: FilePath) -> Any:
        try:
            tree = json.loads(path.read_bytes().decode("utf-8-sig"), parse_constant=_no_number)
            json.dumps(tree, ensure_ascii=False).encode()
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
        return tree

    def wrong(self, place: str, problem: str) -> SchemaError:
        """An error at a place of the file."""
        return SchemaError(self.name, f"{place}: {problem}" if place else problem)

    def node(self, raw: Any, place: str, parent: Node | None = None) -> Node:
        """The schema at a place, merged with its reference and with allOf."""
        self.notes.step(self.name)
        depth = parent.depth + 1 if parent else 0
        if depth > MAX_DEPTH:
            raise self.wrong(place, f"nested deeper than {MAX_DEPTH} schemas.")
        node = self._checked(raw, place, parent.refs if parent else frozenset(), depth)
        if "$ref" in node.keywords:
            node = self._referred(node)
        parts = node.keywords.get("allOf", [])
        node = replace(node, keywords={key: value for key, value in node.keywords.items() if key != "allOf"})
        others = [self.node(part, _place_within(place, f"allOf[{number}]"), node) for number, part in enumerate(parts)]
        for other in others:
            node = replace(
                node,
                keywords=merge_keywords(node.keywords, other.keywords, place, self.notes),
                refs=node.refs | other.refs,
            )
        for key in ("anyOf", "oneOf"):
            if key in node.keywords:
                node = self._one_of(node, key)
        return self._without_not(node) if isinstance(node.keywords.get("not"), dict) else node

    def _without_not(self, node: Node) -> Node:
        """The node without `not`, where that only excludes gaps."""
        many = len(self.notes.lines)
        other = self.node(node.keywords["not"], _place_within(node.place, "not"), node)
        self.notes.back_to(many)
        if not is_gap(self, other):
            return node
        keywords = {key: value for key, value in node.keywords.items() if key != "not"}
        missing = without_gaps(self, other, [other])[0].missing
        return replace(node, keywords=keywords, missing=(*node.missing, *missing))

    def _checked(self, raw: Any, place: str, refs: frozenset[str], depth: int) -> Node:
        if isinstance(raw, bool):
            return Node({} if raw else {"enum": []}, place, refs, depth)
        if not isinstance(raw, dict):
            raise self.wrong(place, f"expected a schema, got {_shown(raw)}.")
        for key, (type_, expected) in TYPE_OF_KEYWORD.items():
            value: Any = raw.get(key)
            truth = isinstance(value, bool) and not (isinstance(type_, tuple) and bool in type_)
            fits = isinstance(value, type_) and not truth
            if key in raw and not (
                fits and (expected is not COUNT_NAME or (0 <= value < MAX_COUNT and is_whole(value)))
            ):
                raise self.wrong(_place_within(place, key), f"expected {expected}, got {_shown(value)}.")
        types = raw.get("type", [])
        for name in [types] if isinstance(types, str) else types:
            if name not in TYPES:
                raise self.wrong(
                    _place_within(place, "type"), f"expected one of {', '.join(TYPES)}, got {_shown(name)}."
                )
        for name in raw.get("required", ()):
            if not isinstance(name, str):
                raise self.wrong(_place_within(place, "required"), f"expected names of properties, got {_shown(name)}.")
        keywords = {key: value for key, value in raw.items() if key != "const"}
        return Node(keywords | ({"enum": [raw["const"]]} if "const" in raw else {}), place, refs, depth)

    # ---------------------------------------------------------------- references

    def _referred(self, node: Node) -> Node:
        """The node merged with its reference; without it where the reference is recursive."""
        ref = node.keywords["$ref"]
        beside = {key: value for key, value in node.keywords.items() if key != "$ref"}
        if ref in node.refs:
            self.notes.add(node.place, f"{ref} within itself: cut here")
            return replace(node, keywords=beside | {"enum": []})
        target = self.node(self._target(ref, node.place), _place(ref), replace(node, refs=node.refs | {ref}))
        return replace(target, keywords=merge_keywords(target.keywords, beside, node.place, self.notes))

    def _target(self, ref: str, place: str) -> Any:
        base, fragment = urldefrag(urljoin(self.base, ref))
        if base not in (urldefrag(self.base).url, *self.named):
            raise self.wrong(place, f"{ref!r} is in another file, and none is ever fetched. Put it under $defs.")
        if fragment and not fragment.startswith("/"):
            target = self.named.get(f"{base}#{fragment}")
            if target is None:
                raise self.wrong(place, f"{ref!r} names nothing in this file.")
            return target
        target = self.named.get(base, self.root) if base != urldefrag(self.base).url else self.root
        for step in fragment.split("/")[1:]:
            step = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and step in target:
                target = target[step]
            elif isinstance(target, list) and step.isdecimal() and int(step) < len(target):
                target = target[int(step)]
            else:
                raise self.wrong(place, f"{ref!r} names nothing in this file.")
        return target

    # ---------------------------------------------------------------- several schemas as one

    def _one_of(self, node: Node, key: str) -> Node:
        """The node with its alternatives merged where they are null, enums or plain types; others are kept in `either`."""
        beside = {name: value for name, value in node.keywords.items() if name != key}
        parts = list(self._alternatives(node, key))
        if node.either or not any(part.types() or part.either or "enum" in part.keywords for part in parts):
            self.notes.add(node.place, f"{key} is not checked")
            return replace(node, keywords=beside)
        if beside.keys() & {"type", "properties", "items", "enum"}:
            to_merge = {name: value for name, value in beside.items() if name not in (*ANNOTATIONS, HINT)}
            parts = [
                replace(part, keywords=merge_keywords(part.keywords, to_merge, node.place, self.notes))
                for part in parts
            ]
            beside = {name: value for name, value in beside.items() if name not in to_merge}
        node, parts = without_gaps(self, node, parts)
        if not parts:
            return replace(node, keywords={**beside, "type": "null"})
        if len(parts) == 1:
            return self._alone(node, parts[0], beside)
        plain = [{name: value for name, value in part.keywords.items() if name not in ANNOTATIONS} for part in parts]
        if all("enum" in part and part.keys() <= {"enum", "type"} for part in plain):
            values = [value for part in plain for value in part["enum"]]
            return replace(node, keywords=merge_keywords({"enum": values}, beside, node.place, self.notes))
        if all(part.keys() == {"type"} for part in plain):
            types = sorted({name for part in parts for name in part.types()})
            return replace(node, keywords=merge_keywords({"type": types}, beside, node.place, self.notes))
        return replace(node, keywords=beside, either=tuple(parts))

    def _alternatives(self, node: Node, key: str) -> Iterator[Node]:
        """The alternatives, with those nested in them."""
        for number, raw in enumerate(node.keywords[key]):
            part = self.node(raw, _place_within(node.place, f"{key}[{number}]"), node)
            yield from part.either or [part]
            gaps = ((part.missing, GAP), (part.novalue, NOVALUE))
            yield from (replace(part, keywords=_gap_keywords(texts, kind), either=()) for texts, kind in gaps if texts)

    def _alone(self, node: Node, part: Node, beside: dict[str, Any]) -> Node:
        """The node merged with its only alternative."""
        keywords = merge_keywords(part.keywords, beside, node.place, self.notes)
        return replace(node, keywords=keywords, refs=node.refs | part.refs, many=node.many or part.many)


def _gap_keywords(texts: tuple[str, ...], kind: str) -> dict[str, Any]:
    return {"enum": list(texts), HINT: {"kind": kind}}


def _objects_within(raw: Any) -> Iterator[dict[str, Any]]:
    """All objects of a document, in a loop instead of recursion, as it may be deep."""
    waiting = [raw]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _place_within(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _place(ref: str) -> str:
    return ref.partition("#")[2].strip("/").replace("/", ".") or "the whole file"


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:60] + "..."


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")


# ---------------------------------------------------------------- alternatives


def is_gap(document: Document, node: Node) -> bool:
    """Whether only gaps are valid."""
    keywords = node.keywords
    if node.either:
        return False
    if node.is_null() or keywords.get("enum") == [] or hinted_kind(keywords) in (GAP, NOVALUE):
        return True
    if None in keywords.get("enum", ()) and all(
        value in GAP_SPELLINGS for value in keywords["enum"] if value is not None
    ):
        return True
    if keywords.get("type") == "object":
        extra = keywords.get("additionalProperties")
        no_values = extra is False or (isinstance(extra, dict) and document.node(extra, node.place, node).is_null())
        return no_values and "properties" not in keywords and set(keywords.get("patternProperties", ())) <= {META_KEYS}
    if keywords.get("type") == "array":
        items = keywords.get("items")
        return keywords.get("maxItems") == 0 or (
            isinstance(items, dict) and is_gap(document, document.node(items, node.place, node))
        )
    return False


def without_gaps(document: Document, node: Node, parts: Sequence[Node]) -> tuple[Node, list[Node]]:
    """The node with the spellings of gaps among its alternatives, and the alternatives that are values."""
    gaps = [part for part in parts if is_gap(document, part)]
    values = [part for part in parts if not any(part is gap for gap in gaps)]
    for gap in gaps:
        texts = tuple(value for value in gap.keywords.get("enum", ()) if isinstance(value, str))
        if hinted_kind(gap.keywords) == NOVALUE:
            node = replace(node, novalue=(*node.novalue, *texts))
        else:
            node = replace(node, missing=(*node.missing, *texts))
    lists = [part for part in values if _is_one_of_several(part)]
    if lists and len(lists) < len(values):
        values = [part for part in values if not any(part is list_ for list_ in lists)]
        many = next(
            (choice for list_ in lists if isinstance(choice := list_.keywords.get(HINT, {}).get("many"), str)), ""
        )
        node = replace(node, many=many or node.many)
    plain = [part for part in values if not is_node(part)]
    return node, plain or values


def is_node(node: Node) -> bool:
    """Whether it is a part with only @id and other keys of JSON-LD: the long form of a link."""
    return (
        node.is_part()
        and "@id" in node.keywords["properties"]
        and all(name[:1] == "@" for name in node.keywords["properties"])
    )


def _is_one_of_several(node: Node) -> bool:
    """Whether it is a list of values of which only one counts."""
    keywords = node.keywords
    single = 1 in (keywords.get("maxItems"), keywords.get("maxContains")) and hinted_kind(keywords) != "set"
    return "array" in node.types() and (hinted_kind(keywords) == SEVERAL or single)


def merge_parts(nodes: Sequence[Node]) -> list[Node]:
    """The nodes with all parts merged into one that has all their properties."""
    parts = [node for node in nodes if node.is_part()]
    if len(parts) < 2:
        return list(nodes)
    properties: dict[str, Any] = {}
    for part in parts:
        for name, schema_ in part.keywords["properties"].items():
            properties[name] = {"anyOf": [properties[name], schema_]} if name in properties else schema_
    always = set.intersection(*(set(part.keywords.get("required", ())) for part in parts))
    hints = [part.keywords[HINT] for part in parts if HINT in part.keywords]
    keywords = {"type": "object", "properties": properties, "required": [name for name in properties if name in always]}
    keywords |= {HINT: hints[0]} if hints and all(hint == hints[0] for hint in hints) else {}
    merged = replace(parts[0], keywords=keywords, refs=frozenset().union(*(part.refs for part in parts)))
    return [merged, *(node for node in nodes if not node.is_part())]


def hinted_kind(keywords: Mapping[str, Any]) -> str:
    """The kind of a hint; empty where there is none."""
    name = keywords.get(HINT, {}).get("kind", "")
    return name if isinstance(name, str) else ""


# ---------------------------------------------------------------- allOf


ANNOTATIONS = frozenset(
    {"title", "description", "$comment", "examples", "default", "deprecated", "readOnly", "writeOnly"}
)


def merge_keywords(left: dict[str, Any], right: dict[str, Any], place: str, notes: Notes) -> dict[str, Any]:
    """The keywords of both of two schemas: bounds narrowed, properties joined; a note where only one can count."""
    both = {**left, **right}
    for key in left.keys() & right.keys():
        first, second = left[key], right[key]
        if first == second:
            continue
        if key in ("properties", "patternProperties"):
            joined = {name: {"allOf": [first[name], second[name]]} for name in first.keys() & second.keys()}
            both[key] = {**first, **second, **joined}
        elif key in JOIN_OF_KEYWORD:
            both[key] = JOIN_OF_KEYWORD[key](first, second)
        elif key in NESTED_KEYWORDS:
            both[key] = {"allOf": [first, second]}
        elif key not in ANNOTATIONS and key[:1] != "$":
            notes.add(place, f"{key} is given twice: only one of them counts")
    return both


def _both_types(left: str | list[str], right: str | list[str]) -> list[str]:
    first, second = ({types} if isinstance(types, str) else set(types) for types in (left, right))
    wide = {"integer"} if "number" in first | second and "integer" in first | second else set()
    return sorted(first & second | (wide if wide & (first | second) else set()))


NESTED_KEYWORDS = ("items", "additionalProperties", "contains")
JOIN_OF_KEYWORD: dict[str, Callable[[Any, Any], Any]] = {
    "required": lambda left, right: [*left, *right],
    "enum": lambda left, right: [value for value in left if value in right],
    "type": _both_types,
    HINT: lambda left, right: {**left, **right},
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems"), min),
}
