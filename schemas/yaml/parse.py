"""YAML to a tree of mappings, lists, and scalars as they are written, with the line of each.

YAML reads `no` as false, `12:30` as 750 and `1e3` as text. No scalar is resolved here: its meaning depends on its place, which
declares the type (scalars.py). Anchors, aliases, tags and duplicate keys are refused.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

from kbdisk.errors import SchemaError

Place: TypeAlias = tuple[str | int, ...]  # keys and indices from the root of a file

MAX_DEPTH = 50  # levels; a schema needs about ten
TOO_DEEP = "exceeded maximum nesting depth"  # the message of libyaml, from 0.2.6 on, beyond a thousand levels
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Scalar(str):
    """A scalar as it is written; `plain` means without quotes."""

    __slots__ = ("plain",)
    plain: bool

    @classmethod
    def of(cls, text: str, plain: bool) -> Scalar:
        """A scalar from its text."""
        scalar = cls(text)
        scalar.plain = plain
        return scalar


@dataclass(frozen=True)
class Document:
    """The tree of a file, and the line of each place in it."""

    tree: Any
    lines: Mapping[Place, int]

    def line(self, place: Place) -> int:
        """The line of a place; of one that is not in the file, the line of the nearest place around it."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


def parsed(data: bytes, name: str) -> Document:
    """The only document of a file; SchemaError with the line where it is none."""
    text = _decoded(data, name)
    try:
        return _composed(yaml.parse(text, Loader=LOADER), name)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        problem = error.problem or error.context
        if problem == TOO_DEEP:  # libyaml reads ahead, and raises before MAX_DEPTH is checked
            raise SchemaError(f"{name}:{line}", f"expected at most {MAX_DEPTH} levels, got more.") from None
        raise SchemaError(f"{name}:{line}", f"expected YAML, {problem}.") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise SchemaError(name, f"expected YAML, {str(error).splitlines()[0]}.") from None


def _decoded(data: bytes, name: str) -> str:
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # as PowerShell's > writes
    try:
        return data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = f"expected UTF-8, got the byte 0x{data[error.start]:02x}. Save the file as UTF-8."
        raise SchemaError(f"{name}:{line}", problem) from None


@dataclass
class _OpenNode:
    """A mapping or a list that is being read."""

    holds: Any
    place: Place
    key: Scalar | None = None


@dataclass
class _TreeBuilder:
    """Builds the tree from events, with a stack instead of recursion, as a file may be deep."""

    name: str
    tree: Any = None
    lines: dict[Place, int] = field(default_factory=dict)
    open: list[_OpenNode] = field(default_factory=list)
    documents: int = 0

    def refuse(self, event: Any, problem: str) -> SchemaError:
        return SchemaError(f"{self.name}:{event.start_mark.line + 1}", problem)

    def take(self, event: Any) -> None:
        """Process the next event."""
        match event:
            case yaml.DocumentStartEvent():
                self.documents += 1
                if self.documents > 1:
                    raise self.refuse(event, "expected one document, got a second one after `---`.")
            case yaml.AliasEvent():
                raise self.refuse(event, f"expected a value, got the alias *{event.anchor}. Write the value out.")
            case yaml.ScalarEvent():
                self.node(event)
                self.scalar(event, Scalar.of(event.value, plain=not event.style))
            case yaml.CollectionStartEvent():
                self.node(event)
                holds: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
                self.open.append(_OpenNode(holds, self.put(event, holds)))
            case yaml.CollectionEndEvent():
                self.open.pop()

    def node(self, event: Any) -> None:
        """Refuse anchors, tags and too many levels."""
        if event.anchor is not None:
            raise self.refuse(event, f"expected a value, got the anchor &{event.anchor}. Write the value out.")
        if event.tag is not None:
            raise self.refuse(event, f"expected a value, got the tag {event.tag}. Leave it out.")
        if len(self.open) >= MAX_DEPTH:
            raise self.refuse(event, f"expected at most {MAX_DEPTH} levels, got more.")

    def scalar(self, event: Any, scalar: Scalar) -> None:
        """Add a value, or remember the key of the next value."""
        top = self.open[-1] if self.open else None
        if top is None or isinstance(top.holds, list) or top.key is not None:
            self.put(event, scalar)
            return
        if scalar in top.holds:
            first = self.lines[(*top.place, str(scalar))]
            raise self.refuse(event, f"{str(scalar)!r} stands twice, in line {first} first.")
        top.key = scalar
        self.lines[(*top.place, str(scalar))] = event.start_mark.line + 1

    def put(self, event: Any, value: Any) -> Place:
        """Add a value to the open mapping or list, and return its place."""
        if not self.open:
            self.tree = value
            return ()
        top = self.open[-1]
        if isinstance(top.holds, list):
            top.holds.append(value)
            place = (*top.place, len(top.holds) - 1)
            self.lines[place] = event.start_mark.line + 1
            return place
        if top.key is None:
            raise self.refuse(event, "expected a name before the colon, got a mapping or a list.")
        key, top.key = str(top.key), None
        top.holds[key] = value
        return (*top.place, key)


def _composed(events: Iterable[Any], name: str) -> Document:
    builder = _TreeBuilder(name)
    for event in events:
        builder.take(event)
    return Document(builder.tree, builder.lines)
