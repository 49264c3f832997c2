"""JSON: a list of objects, an object of objects (each key an id), or one object.

    [{...}, {...}]            each object is an entity
    {"results": [{...}]}      the one key of the object holds a list of objects: each of these is an entity
    {"a": {"b": [{...}]}}     as the option `items` says, here a.b; a warning proposes it where it seems right
    {"Q1": {...}, "Q2": {...}}    all values are objects, two at least: each is an entity, its key the id
    {"name": ...}             anything else is one entity

A list is streamed. An entity's position counts from 1. What is written anew is a list, with id and classes
under "@id" and "@type" where the tree does not hold them.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import BinaryIO, NamedTuple, NoReturn

import orjson

from kbdisk.entity import Completion, Entity, Path, Tree, show
from kbdisk.errors import ConfigError, LoadError
from kbdisk.loaders import jsontext
from kbdisk.loaders.files import Source
from kbdisk.loaders.jsonrecords import Piece, Records, dumped, serialised
from kbdisk.loaders.jsontext import BOM
from kbdisk.loaders.kb import KB, Options, Report
from kbdisk.loaders.naming import Naming
from kbdisk.loaders.spans import Scanner, Value

FEW = 5  # entities, of which each is looked into for lists of others
DEEP = 4  # keys of a path that is proposed
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
    """What a document is, or what stands in it at a path: a list, objects by their keys, or one object."""

    kind: str
    path: tuple[str, ...] = ()  # keys of objects within objects
    last: Mapping[str, int] = MappingProxyType({})  # of a key that stands more than once, the place that counts


class Document(Records):
    """Entities of one JSON document."""

    def __init__(self, source: Source, format: str, options: Options) -> None:
        super().__init__(source, format, options)
        self._inner: dict[int, tuple[int, str]] = {}  # of the first entities: the longest list of objects, and where
        self._path = None if options.items is None else _keys(options.items)

    def read(self) -> Iterator[Entity]:
        self._inner = {}
        count = 0
        for entity in super().read():
            count += 1
            yield entity
        self._hint(count)

    def entity(self, piece: Piece, naming: Naming) -> Entity | None:
        entity = super().entity(piece, naming)
        if entity is not None and self.shape.kind != "list" and len(self._inner) < FEW:
            prefix = () if piece.key is None else (piece.key,)
            self._inner[piece.position] = max(_lists(entity.tree, prefix), default=(0, ""))
        return entity

    def _hint(self, count: int) -> None:
        """Say so where the entities seem to stand further inside."""
        length, path = max(self._inner.values(), default=(0, ""))
        if self._path is None and count <= FEW and length > 2 * count:
            entities = f"{count} {'entity' if count == 1 else 'entities'}"
            self.odd.note(f"{entities}; {path} holds {length:,} objects: say --items {path}", self.name)

    def pieces(self) -> Iterator[Piece]:
        shape = self.shape
        with self._scanner() as scanner:
            yield from self._entered(scanner, shape.path)
            match shape.kind:
                case "list":
                    values = scanner.items()
                case "objects":
                    values = scanner.members()
                case _:
                    values = iter([scanner.value(None)])
            for position, value in enumerate(values, 1):
                yield self._piece(position, value, shape)
            for _ in shape.path:
                while scanner.step(b",}", "a comma or the closing bracket") == b",":
                    scanner.key()
                    scanner.pass_value()
                    yield Piece(0, scanner.line_here(), scanner.take(), b"")
            yield Piece(0, scanner.line_here(), scanner.take() + scanner.end(), b"")

    def _entered(self, scanner: Scanner, path: tuple[str, ...]) -> Iterator[Piece]:
        """Pass what stands before the value at a path, piece by piece."""
        for depth, wanted in enumerate(path):
            here = show(path[:depth]) or "its top"
            if scanner.peek() != b"{":
                self._refuse(scanner, f"an object at {here}")
            scanner.step(b"{", "an object")
            while scanner.peek() != b"}" and scanner.key() != wanted:
                scanner.pass_value()
                yield Piece(0, scanner.line_here(), scanner.take(), b"")
                if scanner.peek() == b",":
                    scanner.step(b",", "a comma")
            if scanner.data[scanner.place : scanner.place + 1] == b"}":
                self._refuse(scanner, f"a key {wanted!r} at {here}")

    def _refuse(self, scanner: Scanner, expected: str) -> NoReturn:
        raise LoadError(
            self.name, f"expected {expected}, got none. Mend --items: kbdisk inspect shows paths.", scanner.line_here()
        )

    def _piece(self, position: int, value: Value, shape: Shape) -> Piece:
        """An entity's piece; where it is none, or a later one has its key, all of it is what stands before."""
        if not value.text.startswith(b"{"):
            self.skip(LoadError(self.name, f"expected a JSON object, got {_kind(value.text)}. {ADVICE}", value.line))
        elif value.key is not None and shape.last.get(value.key, position) != position:
            self.odd.note(
                "a key stands twice in the object of entities; the last one counts", f"{self.name}:{value.line}"
            )
        else:
            return Piece(position, value.line, value.before, value.text, value.key, position)
        return Piece(position, value.line, value.before + value.text, b"")

    @cached_property
    def shape(self) -> Shape:
        """What the document is; an error where there is no object in it."""
        path = self._path or ()
        with self._scanner() as scanner:
            deque(self._entered(scanner, path), maxlen=0)
            first = scanner.peek()
            if first == b"[":
                return self._of_list(scanner, path)
            if first != b"{":
                scanner.take()
                scanner.pass_value()
                text = scanner.take().strip()
                raise LoadError(
                    self.name,
                    f"expected JSON objects{_at(path)}, got {_kind(text)}: there is no entity in it. {ADVICE}",
                    scanner.line,
                )
            key = None if path else self._lists_objects()
            return self._of_members(scanner, path) if key is None else Shape("list", (key,))

    def _of_list(self, scanner: Scanner, path: tuple[str, ...]) -> Shape:
        value: Value | None = None
        for value in scanner.items():
            if value.text.startswith(b"{"):
                return Shape("list", path)
        if not path:
            scanner.end()
        found = "an empty list" if value is None else f"a list without any object ({_kind(value.text)} in it)"
        raise LoadError(self.name, f"expected a list of JSON objects{_at(path)}, got {found}. {ADVICE}", scanner.line)

    def _lists_objects(self) -> str | None:
        """The one key of the document where it is an object with one, which holds a list of objects."""
        with self._scanner() as scanner:
            scanner.step(b"{", "an object")
            if scanner.peek() != b'"':
                return None
            key = scanner.key()
            if scanner.peek() != b"[":
                return None
            some = False
            for value in scanner.items():
                some = True
                if not value.text.startswith(b"{"):
                    return None
            return key if some and scanner.peek() == b"}" else None

    def _of_members(self, scanner: Scanner, path: tuple[str, ...]) -> Shape:
        last: dict[str, int] = {}
        count = 0
        for count, value in enumerate(scanner.members(), 1):
            if not value.text.startswith(b"{"):
                return Shape("one", path)
            last[str(value.key)] = count
        return Shape("objects", path, last if len(last) < count else {}) if count > 1 else Shape("one", path)

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


def _keys(path: Path) -> tuple[str, ...]:
    """A path through objects alone."""
    if not all(isinstance(key, str) for key in path):
        raise ConfigError("--items", f"expected keys of objects such as data.items, got {show(path)}.")
    return tuple(map(str, path))


def _at(path: tuple[str, ...]) -> str:
    return f" at {show(path)}" if path else ""


def _lists(part: Tree, path: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """The lists of objects in a part and the parts within it: how many objects each has, and its path."""
    for key, value in part.items():
        if type(value) is dict and len(path) < DEEP:
            yield from _lists(value, (*path, key))
        elif type(value) is list and value and all(type(item) is dict for item in value):
            yield len(value), show((*path, key))


def _kind(text: bytes) -> str:
    """What a value is, in words."""
    try:
        return jsontext.kind_of(orjson.loads(text))
    except orjson.JSONDecodeError:
        return repr(text[:30].decode("utf-8", "replace"))
