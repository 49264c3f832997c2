"""Writing a schema as YAML: the keys and plain values of a file, then its text with comments.

Every file that is written can be read: the package's `to_yaml` reads the keys before it writes them. Short mappings stand in one
line, long ones in several. A text is quoted wherever YAML, of any version, could take it for something else.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from kbdisk.entity import Path, show
from kbdisk.schemas.property import Property
from kbdisk.schemas.rules import Rule
from kbdisk.schemas.schema import Class, Schema
from kbdisk.schemas.yaml.build import RULE_SETTINGS, Builder
from kbdisk.schemas.yaml.file_keys import VERSION, PropertyKeys, RuleKeys, write_constraint
from kbdisk.schemas.yaml.kind_keys import Written, write_kind
from kbdisk.schemas.yaml.scalars import MAX_WHOLE

WIDTH = 120
LONGEST_KEY = 500  # YAML takes 1024 characters before a colon, escapes included
RESERVED = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
PLAIN = re.compile(r"[^\W\d](?:[\w.%/*^+()-]|:(?=[\w/])| (?:<=? |= )?(?=[\w.%/*^+()-]))*")
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
INDENT = "  "

Comments = Mapping[tuple[str, ...], str]  # by the keys of the place that they stand at


def written_schema(schema: Schema) -> Written:
    """The keys and plain values of a schema file."""
    head: Written = {
        "kbdisk": VERSION,
        "label": schema.label,
        "description": schema.description,
        "missing": list(schema.missing),
        "prefixes": dict(schema.prefixes),
    }
    shared = {path: _written_property(item, schema.prefixes) for path, item in (schema.properties or {}).items()}
    classes = {name: _written_class(item, schema.prefixes, shared) for name, item in schema.classes.items()}
    properties = written_shared(schema)
    rules = {} if schema.rules is None else {"rules": [_written_rule(item) for item in schema.rules]}
    return {key: value for key, value in head.items() if value} | properties | {"classes": classes} | rules


def written_shared(schema: Schema) -> Written:
    """The key `properties` of a file with the shared properties; empty where the schema defines none."""
    if schema.properties is None:
        return {}
    return {
        "properties": {
            show(path): _written_property(property_, schema.prefixes) for path, property_ in schema.properties.items()
        }
    }


def _written_rule(rule: Rule) -> Written:
    fields = RuleKeys.model_fields
    keys: Written = {"target": show(rule.target), "rule": rule.kind, "of": [show(path) for path in rule.of]}
    changed_settings = {key: getattr(rule, key) for key in RULE_SETTINGS if getattr(rule, key) != fields[key].default}
    return keys | {fields[key].alias or key: _without_point(value) for key, value in changed_settings.items()}


def _without_point(value: Any) -> Any:
    """A whole factor such as 1000.0 without its point."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < MAX_WHOLE else value


def _written_class(class_: Class, prefixes: Mapping[str, str], shared: Mapping[Path, str | Written]) -> Written:
    keys: Written = {
        "iri": _short(class_.iri, prefixes),
        "id": None if class_.id is None else show(class_.id),
        "label": class_.label,
        "description": class_.description,
    }
    properties = {path: _written_property(property_, prefixes) for path, property_ in class_.properties.items()}
    uses = list(takewhile(lambda path: repr(properties[path]) == repr(shared.get(path)), properties))  # 1 is not True
    changed = {
        show(path): _changes(shared[path], property_) if path in shared else property_
        for path, property_ in list(properties.items())[len(uses) :]
    }
    keys["superclasses"] = list(class_.superclasses)
    keys["uses"] = [show(path) for path in uses]
    known = {key: value for key, value in keys.items() if value} | (
        {"properties": changed} if changed or not uses else {}
    )
    return known | ({"constraints": list(map(write_constraint, class_.constraints))} if class_.constraints else {})


def _changes(shared: str | Written, changed: str | Written) -> str | Written:
    """The changes of a class to a shared property: keys that differ, null for those left out. Of another kind all keys."""
    before = shared if isinstance(shared, dict) else {"kind": shared}
    after = changed if isinstance(changed, dict) else {"kind": changed}
    if before["kind"] != after["kind"]:
        return changed
    differences = {key: value for key, value in after.items() if key not in before or repr(value) != repr(before[key])}
    return differences | dict.fromkeys(key for key in before if key not in after)


def _written_property(property_: Property, prefixes: Mapping[str, str]) -> str | Written:
    kind = write_kind(property_.kind)
    keys = {key: getattr(property_, key) for key in PropertyKeys.model_fields}
    keys["formula"] = property_.formula.text if property_.formula else None
    keys["depends"] = [show(path) for path in property_.depends]
    keys["iri"] = _short(property_.iri, prefixes)
    keys["missing"], keys["novalue"] = list(property_.missing), list(property_.novalue)
    other_keys = {
        key: value for key, value in keys.items() if value and value != PropertyKeys.model_fields[key].default
    }
    return kind if not other_keys else (kind if isinstance(kind, dict) else {"kind": kind}) | other_keys


def _short(iri: str | None, prefixes: Mapping[str, str]) -> str | None:
    """An IRI by its prefix where it has one; in angle brackets where the reader would take it for another IRI."""
    if iri is None:
        return None
    builder = Builder(prefixes)
    fitting = [(space, name) for name, space in prefixes.items() if space and iri.startswith(space)]
    for space, name in sorted(fitting, key=lambda item: -len(item[0])):
        short = f"{name}:{iri[len(space) :]}"
        if builder.read((), builder.iri, short) == iri:
            return short
    return iri if builder.read((), builder.iri, iri) == iri else f"<{iri}>"


# ---------------------------------------------------------------- text


def text_of(tree: Mapping[str, Any], comments: Comments, head: str = "") -> str:
    """The text of a file."""
    lines = [*_comment(head, ""), *_block(tree, comments, (), "")]
    return "\n".join(lines) + "\n"


def _block(tree: Mapping[str, Any], comments: Comments, place: tuple[str, ...], indent: str) -> Iterator[str]:
    for key, value in tree.items():
        key_place = (*place, key)
        yield from _entry(key, value, comments, key_place, indent)


def _entry(key: str, value: Any, comments: Comments, key_place: tuple[str, ...], indent: str) -> Iterator[str]:
    """A key with its value, in one line where it is short and is not the file, a class or its properties."""
    start = _key(key, indent)
    comment = comments.get(key_place, "")
    frame = len(key_place) == 1 or (key_place[0] == "classes" and len(key_place) <= 3)
    inline = _in_one_line(value)
    short = len(start) + 1 + len(inline) <= WIDTH and "\n" not in start
    is_constraints = key_place[0] == "classes" and key_place[2:] == ("constraints",)
    if isinstance(value, list) and (is_constraints or any(isinstance(item, dict) for item in value)):
        yield start
        yield from _items(value, comments, key_place, indent + INDENT)
        return
    if not (isinstance(value, dict) and value and (frame or not short)):
        body = [f"{start} {inline}"] if short or not isinstance(value, list) else list(_wrapped(start, value, indent))
        yield from _with_comment(body, comment, indent)
        return
    yield from _with_comment([start], comment, indent)
    yield from _block(value, comments, key_place, indent + INDENT)


def _items(values: list[Any], comments: Comments, key_place: tuple[str, ...], indent: str) -> Iterator[str]:
    """The values of a list, each on its own line."""
    for place, value in enumerate(values):
        yield from _with_comment(
            [f"{indent}- {_in_one_line(value)}"], comments.get((*key_place, str(place)), ""), indent
        )


def _with_comment(lines: list[str], comment: str, indent: str) -> Iterator[str]:
    """Lines with a comment: at the end of a single line if there is room, else above."""
    if comment and len(lines) == 1 and "\n" not in comment + lines[0] and len(lines[0]) + len(comment) + 4 <= WIDTH:
        yield f"{lines[0]}  # {_clean(comment)}"
        return
    yield from _comment(comment, indent)
    yield from lines


def _comment(comment: str, indent: str) -> Iterator[str]:
    for line in comment.split("\n") if comment else ():
        yield from textwrap.wrap(_clean(line), WIDTH, initial_indent=indent + "# ", subsequent_indent=indent + "# ", break_on_hyphens=False) or [indent + "#"]  # fmt: skip


def _wrapped(start: str, values: list[Any], indent: str) -> Iterator[str]:
    """A long list, with as many values in each line as fit."""
    line = f"{start} ["
    for n, value in enumerate(values):
        piece = _in_one_line(value) + ("]" if n == len(values) - 1 else ",")
        if len(line) + len(piece) + 1 > WIDTH and not line.endswith("["):
            yield line
            line = indent + INDENT + piece
        else:
            line += piece if line.endswith("[") else f" {piece}"
    yield line


def _in_one_line(value: Any) -> str:
    """A value in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key, '')} {_in_one_line(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_in_one_line, value)) + "]"
    return scalar(value) if isinstance(value, str) else json.dumps(value)


def _key(key: str, indent: str) -> str:
    written = scalar(key)
    if len(written) <= LONGEST_KEY:
        return f"{indent}{written}:"
    return f"{indent}? {written}\n{indent}:" if indent else f"? {written} :"


def scalar(value: str) -> str:
    """Text, in quotes where YAML could take it for another value."""
    if PLAIN.fullmatch(value) and value.lower() not in RESERVED:
        return value
    if '"' in value and "'" not in value and value.isprintable():
        return f"'{value}'"
    return UNPRINTABLE.sub(_escape, json.dumps(value, ensure_ascii=False))


def _clean(comment: str) -> str:
    return UNPRINTABLE.sub(_escape, comment)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
