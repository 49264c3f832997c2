"""JSON: a list of objects, an object of objects (each key an id), or one object.

    [{...}, {...}]            each object is an entity
    {"results": [{...}]}      the one key of the object holds a list of objects: each of these is an entity
    {"Q1": {...}, "Q2": {...}}    all values are objects, two at least: each is an entity, its key the id
    {"name": ...}             anything else is one entity

A list is streamed. An entity's position counts from 1. What is written anew is a list, with id and classes
under "@id" and "@type" where the tree does not hold them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import BinaryIO, NamedTuple

import orjson

from kbdisk.entity import Completion, Entity
from kbdisk.errors import LoadError
from kbdisk.loaders import jsontext
from kbdisk.loaders.jsonrecords import Piece, Records, dumped, serialised
from kbdisk.loaders.jsontext import BOM
from kbdisk.loaders.kb import KB, Report
from kbdisk.loaders.options import Options
from kbdisk.loaders.source import Source
from kbdisk.loaders.spans import Scanner, Value

ADVICE = 'Write each entity as {"name": value, ...}.'


def load(source: Source, format: str, options: Options) -> KB:
    """Entities from a JSON document."""
    return Document(source, format, options)


def write(items: Iterable[Entity | Completion], stream: BinaryIO, format: str, only_new: bool) -> Report:
    """A list of objects, indented by two."""
    report = Report()
    lead = b"[\n  "
    for tree in serialised(items, only_new, report):
        stream.write(lead + dumped(tree, orjson.OPT_INDENT_2).replace(b"\n", b"\n  "))
        lead = b",\n  "
    stream.write(b"\n]\n" if lead[:1] == b"," else b"[]\n")
    return report


class Shape(NamedTuple):
    """What a document is: a list, a list under one key, objects by their keys, or one object."""

    kind: str
    last: Mapping[str, int] = MappingProxyType({})  # of a key that stands more than once, the place that counts


class Document(Records):
    """Entities of one JSON document."""

    def pieces(self) -> Iterator[Piece]:
        shape = self.shape
        with self._scanner() as scanner:
            match shape.kind:
                case "list":
                    values = scanner.items()
                case "list under a key":
                    scanner.step(b"{", "an object")
                    scanner.key()
                    scanner.peek()
                    values = scanner.items()
                case "objects":
                    values = scanner.members()
                case _:
                    values = iter([scanner.value(None)])
            for position, value in enumerate(values, 1):
                yield self._piece(position, value, shape)
            if shape.kind == "list under a key":
                scanner.step(b"}", "the closing bracket")
            yield Piece(0, scanner.line_here(), scanner.take() + scanner.end(), b"")

    def _piece(self, position: int, value: Value, shape: Shape) -> Piece:
        """An entity's piece; where it is none, or a later one has its key, all of it is what stands before."""
        if not value.text.startswith(b"{"):
            self.skip(LoadError(self.name, f"expected a JSON object, got {_kind(value.text)}. {ADVICE}", value.line))
        elif value.key is not None and shape.last.get(value.key, position) != position:
            self.odd.note(
                "a key stands twice in the object of entities; the last one counts", f"{self.name}:{value.line}"
            )
        else:
            return Piece(position, value.line, value.before, value.text, value.key)
        return Piece(position, value.line, value.before + value.text, b"")

    @cached_property
    def shape(self) -> Shape:
        """What the document is; an error where there is no object in it."""
        with self._scanner() as scanner:
            first = scanner.peek()
            if first == b"[":
                return self._of_list(scanner)
            if first != b"{":
                scanner.pass_value()
                text = scanner.take().strip()
                raise LoadError(
                    self.name,
                    f"expected JSON objects, got {_kind(text)}: there is no entity in it. {ADVICE}",
                    scanner.line,
                )
            if self._lists_objects():
                return Shape("list under a key")
            return self._of_members(scanner)

    def _of_list(self, scanner: Scanner) -> Shape:
        value: Value | None = None
        for value in scanner.items():
            if value.text.startswith(b"{"):
                return Shape("list")
        scanner.end()
        found = "an empty list" if value is None else f"a list without any object ({_kind(value.text)} in it)"
        raise LoadError(self.name, f"expected a list of JSON objects, got {found}. {ADVICE}", scanner.line)

    def _lists_objects(self) -> bool:
        """Whether the document is an object with one key, which holds a list of objects."""
        with self._scanner() as scanner:
            scanner.step(b"{", "an object")
            if scanner.peek() != b'"':
                return False
            scanner.key()
            if scanner.peek() != b"[":
                return False
            some = False
            for value in scanner.items():
                some = True
                if not value.text.startswith(b"{"):
                    return False
            return some and scanner.peek() == b"}"

    def _of_members(self, scanner: Scanner) -> Shape:
        last: dict[str, int] = {}
        count = 0
        for count, value in enumerate(scanner.members(), 1):
            if not value.text.startswith(b"{"):
                return Shape("one")
            last[str(value.key)] = count
        return Shape("objects", last if len(last) < count else {}) if count > 1 else Shape("one")

    @contextlib.contextmanager
    def _scanner(self) -> Iterator[Scanner]:
        """A scanner behind the byte order mark, which stays to be taken."""
        assert self.source is not None
        jsontext.check_encoding(self.source)
        with self.source.open() as stream:
            scanner = Scanner(stream, self.name)
            scanner.more()
            if scanner.data.startswith(BOM):
                scanner.place = len(BOM)
            yield scanner


def _kind(text: bytes) -> str:
    """What a value is, in words."""
    try:
        return jsontext.kind_of(orjson.loads(text))
    except orjson.JSONDecodeError:
        return repr(text[:30].decode("utf-8", "replace"))
