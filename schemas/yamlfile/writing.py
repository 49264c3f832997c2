"""Plain values to YAML: short mappings in one line, long ones in several, and comments.

Text is quoted wherever YAML, of whatever version, could read something else in it.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

WIDTH = 120
LONGEST_KEY = 500  # YAML takes 1024 characters before a colon, escapes included
RESERVED = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
PLAIN = re.compile(r"[^\W\d](?:[\w.%/*^+()-]|:(?=[\w/])| (?:<=? |= )?(?=[\w.%/*^+()-]))*")
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
INDENT = "  "

Comments = Mapping[tuple[str, ...], str]  # by the keys of the place that they stand at


def text(tree: Mapping[str, Any], comments: Comments, head: str = "") -> str:
    """A file."""
    lines = [*_comment(head, ""), *_block(tree, comments, (), "")]
    return "\n".join(lines) + "\n"


def _block(tree: Mapping[str, Any], comments: Comments, place: tuple[str, ...], indent: str) -> Iterator[str]:
    for key, value in tree.items():
        here = (*place, key)
        yield from _entry(key, value, comments, here, indent)


def _entry(key: str, value: Any, comments: Comments, here: tuple[str, ...], indent: str) -> Iterator[str]:
    """A key with its value, in a line where that is short and not the file's frame."""
    start = _key(key, indent)
    comment = comments.get(here, "")
    frame = len(here) == 1 or (here[0] == "classes" and len(here) <= 3)
    inline = _flow(value)
    short = len(start) + 1 + len(inline) <= WIDTH and "\n" not in start
    is_constraints = here[0] == "classes" and here[2:] == ("constraints",)
    if isinstance(value, list) and (is_constraints or any(isinstance(item, dict) for item in value)):
        yield start
        yield from _items(value, comments, here, indent + INDENT)
        return
    if not (isinstance(value, dict) and value and (frame or not short)):
        body = [f"{start} {inline}"] if short or not isinstance(value, list) else list(_wrapped(start, value, indent))
        yield from _with_comment(body, comment, indent)
        return
    yield from _with_comment([start], comment, indent)
    yield from _block(value, comments, here, indent + INDENT)


def _items(values: list[Any], comments: Comments, here: tuple[str, ...], indent: str) -> Iterator[str]:
    """Values of a list, one a line."""
    for place, value in enumerate(values):
        yield from _with_comment([f"{indent}- {_flow(value)}"], comments.get((*here, str(place)), ""), indent)


def _with_comment(lines: list[str], comment: str, indent: str) -> Iterator[str]:
    """At the end of the line where there is room, else above."""
    if comment and len(lines) == 1 and "\n" not in comment + lines[0] and len(lines[0]) + len(comment) + 4 <= WIDTH:
        yield f"{lines[0]}  # {_clean(comment)}"
        return
    yield from _comment(comment, indent)
    yield from lines


def _comment(comment: str, indent: str) -> Iterator[str]:
    for line in comment.split("\n") if comment else ():
        yield from textwrap.wrap(_clean(line), WIDTH, initial_indent=indent + "# ", subsequent_indent=indent + "# ", break_on_hyphens=False) or [indent + "#"]  # fmt: skip


def _wrapped(start: str, values: list[Any], indent: str) -> Iterator[str]:
    """A long list, as many values in each line as it takes."""
    line = f"{start} ["
    for n, value in enumerate(values):
        piece = _flow(value) + ("]" if n == len(values) - 1 else ",")
        if len(line) + len(piece) + 1 > WIDTH and not line.endswith("["):
            yield line
            line = indent + INDENT + piece
        else:
            line += piece if line.endswith("[") else f" {piece}"
    yield line


def _flow(value: Any) -> str:
    """A value in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key, '')} {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return scalar(value) if isinstance(value, str) else json.dumps(value)


def _key(key: str, indent: str) -> str:
    written = scalar(key)
    if len(written) <= LONGEST_KEY:
        return f"{indent}{written}:"
    return f"{indent}? {written}\n{indent}:" if indent else f"? {written} :"


def scalar(value: str) -> str:
    """Text, in quotes where it could be taken for something else."""
    if PLAIN.fullmatch(value) and value.lower() not in RESERVED:
        return value
    if '"' in value and "'" not in value and value.isprintable():
        return f"'{value}'"
    return UNPRINTABLE.sub(_escape, json.dumps(value, ensure_ascii=False))


def _clean(comment: str) -> str:
    return UNPRINTABLE.sub(_escape, comment)


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
