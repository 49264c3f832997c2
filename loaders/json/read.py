"""JSON and JSON Lines: entities read from objects, and written with new values in their own text.

A source is pieces of bytes, most of them with an entity in it; all pieces joined are the source. Reading takes the
entities out of them; splicing writes the same pieces with new values, in lockstep with the completions, so that neither
is ever gathered in memory.

JSON Lines have one object a line; blank lines are skipped and do not count in the number of an entity, and its position
is the number of its line. They are read by blocks: orjson parses a block at once, cheap checks of its bytes tell
whether that lost anything, and only then each line is parsed by itself.

A JSON document is one of:

    [{...}, {...}]                each object is an entity
    {"results": [{...}]}          the one key of the object holds a list of objects: each of these is an entity
    {"a": {"b": [{...}]}}         as the option `items` says, here a.b; a warning proposes it where it seems right
    {"Q1": {...}, "Q2": {...}}    all values are objects, two at least: each is an entity, its key the id
    {"name": ...}                 anything else is one entity

Lists are streamed, and positions count from 1. A document that is written anew is a list, with id and classes under "@id"
and "@type" where the tree does not hold them.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain, count, repeat
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, NoReturn

import orjson

from kbdisk.entity import Completion, Entity, Filled, Path, Tree, at, show, with_values
from kbdisk.errors import ConfigError, LoadError, WriteError, setting
from kbdisk.loaders.files import Source
from kbdisk.loaders.json.text import (
    BOM,
    NOT_FINITE_NOTE,
    Exactness,
    Fault,
    ScannedValue,
    Scanner,
    check_encoding,
    kind_of,
    may_be_tagged,
    parse_object,
    too_deep,
)
from kbdisk.loaders.kb import KB, Options, Placeless, Report, Retraction
from kbdisk.loaders.naming import UNNAMED, Naming, classes_of, label_of, labels
from kbdisk.loaders.replaced import Was
from kbdisk.loaders.values import tagged_json
from kbdisk.loaders.values.tagged_json import MAX_DEPTH

if TYPE_CHECKING:
    from kbdisk.loaders.json.styles import JsonStyle

STYLE_SAMPLE = 1000  # entities that show the style of new values


def load(source: Source, format: str, options: Options) -> KB:
    """Entities from a JSON document or from JSON Lines."""
    return (Lines if format == "jsonl" else Document)(source, format, options)


def write(items: Iterable[Entity | Completion], stream: BinaryIO, format: str, only_new: bool) -> Report:
    """Write one line for each entity, or a list of objects, indented by two."""
    report = Report()
    if format == "jsonl":
        for tree in encode_items(items, only_new, report):
            stream.write(dump(tree, orjson.OPT_APPEND_NEWLINE))
        return report
    lead = b"[\n  "
    for tree in encode_items(items, only_new, report):
        stream.write(lead + dump(tree, orjson.OPT_INDENT_2).replace(b"\n", b"\n  "))
        lead = b",\n  "
    stream.write(b"\n]\n" if lead[:1] == b"," else b"[]\n")
    return report


# ---------------------------------------------------------------- pieces of a source


class Piece(NamedTuple):
    """Some bytes of a source: those before the text of an entity, and this text (empty at the end)."""

    position: int
    line: int  # on which the text begins
    before: bytes
    text: bytes
    key: str | None = None  # in an object of objects
    number: int = 0  # of the entity among all, from 1: its id where it has none


class Records(KB):
    """Entities that are JSON objects."""

    @abstractmethod
    def pieces(self) -> Iterator[Piece]:
        """All pieces of the source, from its first byte to its last."""

    def read(self) -> Iterator[Entity]:
        naming = Naming(self.options.id)
        for piece in self.pieces():
            entity = self.entity(piece, naming) if piece.text else None
            if entity is not None:
                yield entity

    def entity(self, piece: Piece, naming: Naming) -> Entity | None:
        """The entity of a piece; None where it is skipped or not of the wanted classes."""
        try:
            tree, notes = parse_object(piece.text)
            naming.settle(tree)
            id = piece.key if piece.key is not None and naming.path is None else naming.id_of(tree)
        except Fault as fault:
            self.skip(self.error(fault, piece))
            return None
        except ValueError as error:
            self.skip(LoadError(self.name, str(error), piece.line))
            return None
        for note in notes:
            self.odd.note(note, f"{self.name}:{piece.line}", at_end=note == NOT_FINITE_NOTE)
        return self.named(tree, id, piece, named=naming.key is not None)

    def named(self, tree: Tree, id: str | None, piece: Piece, named: bool) -> Entity | None:
        """The entity of a tree; None where it is not of the wanted classes."""
        if id is None and named:
            self.odd.note(UNNAMED, f"{self.name}:{piece.line}")
        classes = classes_of(tree)
        if self.options.classes and not set(classes) & set(self.options.classes):
            return None
        own_id, label = str(piece.number) if id is None else id, label_of(tree)
        return Entity(own_id, tree, classes, label, position=piece.position, source=self, nameless=id is None)

    def error(self, fault: Fault, piece: Piece) -> LoadError:
        """The error for a piece with a fault, with its line."""
        return fault.at(self.name, piece.line, piece.text)

    def splice(self, completions: Iterable[Completion], stream: BinaryIO, insert: bool = False) -> Report:
        from kbdisk.loaders.json import edit

        report = Report()
        due = _filled_by_entity(completions, self, report)
        next_due = next(due, None)
        style = self.style() if next_due else None
        for piece in self.pieces():
            stream.write(piece.before)
            text = piece.text
            if next_due and style and text and next_due[0].position == piece.position:
                text = edit.fill(text, next_due[0].id, next_due[1], style, report)
                next_due = next(due, None)
            stream.write(text)
        if next_due:
            raise WriteError(self.name, f"has no entity {next_due[0].id!r} any more. Load it again.")
        return report

    def restore(self, retractions: Iterable[Retraction], stream: BinaryIO) -> list[Placeless]:
        from kbdisk.loaders.json import edit

        unrestored: list[Placeless] = []
        due = {retraction.entity.position: retraction for retraction in retractions}
        for piece in self.pieces():
            stream.write(piece.before)
            text = piece.text
            if text and (retraction := due.pop(piece.position, None)) is not None:
                text, reasons = edit.restore(text, {path: was for path, (_, was) in retraction.values.items()})
                unrestored += [(retraction.entity.id, path, reason) for path, reason in reasons.items()]
            stream.write(text)
        return unrestored

    def style(self) -> JsonStyle:
        """The style of the values of the first entities."""
        from kbdisk.loaders.json.styles import JsonStyle

        style = JsonStyle()
        for piece in itertools.islice(self.pieces(), STYLE_SAMPLE):
            try:
                style.observe(parse_object(piece.text)[0], piece.text)
            except Fault:
                continue  # reading has reported it
        return style


def _filled_by_entity(
    completions: Iterable[Completion], kb: KB, report: Report
) -> Iterator[tuple[Entity, dict[Path, Filled]]]:
    """Each entity with all values filled in it, in the order of the source."""
    last = 0
    for position, group in itertools.groupby(completions, key=lambda item: item.entity.position):
        if position <= last:
            raise WriteError(kb.name, "expected the completions in the order of the source. Pass a list of them.")
        last = position
        filled: dict[Path, Filled] = {}
        for completion in group:
            entity = completion.entity
            if entity.source is not kb and getattr(entity.source, "name", None) != kb.name:
                report.unwritable.extend(
                    (entity.id, path, "was read from another source") for path in completion.filled
                )
            else:
                filled |= completion.filled
        if filled:
            yield entity, filled


# ---------------------------------------------------------------- writing anew


def encode_items(items: Iterable[Entity | Completion], only_new: bool, report: Report) -> Iterator[Tree]:
    """Each item as a tree that orjson can write, and that is read back with the same id and classes."""
    naming = Naming()
    for item in items:
        entity = item.entity if isinstance(item, Completion) else item
        filled = item.filled if isinstance(item, Completion) else {}
        if only_new and not filled:
            continue
        if only_new:
            tree = {"@id": entity.id} | with_values({}, {path: new_value.value for path, new_value in filled.items()})
        else:
            tree = _with_id_and_classes(item.tree() if isinstance(item, Completion) else item.tree, entity, naming)
        report.written += len(filled)
        for path in filled:
            report.was.add(entity.id, path, _replaced(entity.tree, path))
        try:
            yield tagged_json.encode(tree)
        except ValueError as error:
            raise WriteError(entity.id, f"{error}. Leave it out, or change it.") from None


def _replaced(tree: Tree, path: Path) -> Was:
    """The text that a value at a path replaces: nothing where a key on the way is missing, else null or the given value."""
    for length in range(1, len(path) + 1):
        try:
            value = at(tree, path[:length])
        except KeyError:
            return {show(path[:length]): None}
        if value is None:
            return {show(path[:length]): "null"}
    return {show(path): orjson.dumps(tagged_json.encode({"": value})[""]).decode()}


def dump(tree: Tree, option: int) -> bytes:
    """The JSON text of a serialised tree."""
    try:
        return orjson.dumps(tree, option=option)
    except orjson.JSONEncodeError as error:
        raise WriteError(str(tree.get("@id", "JSON")), f"cannot be written as JSON: {error}.") from None


def _with_id_and_classes(tree: Tree, entity: Entity, naming: Naming) -> Tree:
    """The tree, with "@id" and "@type" where it would be read without them."""
    added: dict[str, Any] = {}
    trial = naming if naming.settled else Naming()
    trial.settle(tree)
    if trial.id_of(tree) != entity.id:
        added["@id"] = entity.id
    if classes_of(tree) != entity.classes:
        added["@type"] = entity.classes[0] if len(entity.classes) == 1 else list(entity.classes)
    if added:
        tree = added | {key: value for key, value in tree.items() if key not in added}
    naming.settle(tree)
    return tree


# ---------------------------------------------------------------- JSON Lines


BLOCK_SIZE = 1 << 14  # bytes: small enough for what is read to stay in the processor's cache

_SEPARATOR = secrets.randbelow(900) + 100  # stands between the lines: no two broken ones make a whole, but by luck
_SEPARATOR_TEXT = b",%d," % _SEPARATOR


class Lines(Records):
    """Entities that stand in a line each."""

    def read(self) -> Iterator[Entity]:
        return chain.from_iterable(self._batches())

    def _batches(self) -> Iterator[Iterable[Entity]]:
        """The entities of each block; where the block is plain, no Python code runs for a single entity."""
        naming = Naming(self.options.id)
        exactness, number = Exactness(), 1  # of the next entity
        for first, lines in self._blocks():
            trees = None if self.options.classes else _parse_block(lines, exactness)
            if trees and type(trees[0]) is dict:
                naming.settle(trees[0])
            ids = naming.ids(trees, number) if trees and naming.settled else None
            if trees and ids:
                places, nameless = count(first), repeat(naming.key is None)
                yield map(
                    Entity,
                    ids,
                    trees,
                    repeat(()),
                    labels(trees),
                    repeat(""),
                    places,
                    repeat(self),
                    repeat(None),
                    nameless,
                )
            else:
                yield self._one_by_one(lines, first, number, naming)
            number += len(lines) if trees else sum(map(_is_record, lines))
        if not naming.settled and not self.skipped:
            raise LoadError(self.name, "expected JSON objects, a line each, got blank lines: there is no entity in it.")

    def pieces(self) -> Iterator[Piece]:
        with self._opened() as stream:
            for number, line in enumerate(stream, 1):
                before = BOM if number == 1 and line.startswith(BOM) else b""
                text = line[len(before) :]
                yield Piece(number, number, before, text) if text.strip() else Piece(number, number, line, b"")

    def _one_by_one(self, lines: list[bytes], first: int, number: int, naming: Naming) -> Iterator[Entity]:
        for place, line in enumerate(lines, first):
            if not _is_record(line):
                continue
            entity = self.entity(Piece(place, place, b"", line, number=number), naming)
            number += 1
            if entity is not None:
                yield entity

    def _blocks(self) -> Iterator[tuple[int, list[bytes]]]:
        """Blocks of lines, each with the number of its first line."""
        with self._opened() as stream:
            number = 1
            while lines := stream.readlines(BLOCK_SIZE):
                if number == 1:
                    lines[0] = lines[0].removeprefix(BOM)
                yield number, lines
                number += len(lines)

    def _opened(self) -> BinaryIO:
        assert self.source is not None
        check_encoding(self.source)
        return self.source.open()

    def error(self, fault: Fault, piece: Piece) -> LoadError:
        is_list = piece.text.lstrip().startswith(b"[") and "levels" not in fault.problem
        if not is_list and "the end of the text" not in fault.problem:
            return super().error(fault, piece)
        got = ("a list" if "a list" in fault.problem else "'['") if is_list else "one that does not end in its line"
        option = setting("format", "json", shell="from")
        problem = f"expected a JSON object, got {got}. If the file is one JSON document, say {option}."
        return LoadError(self.name, problem, piece.line)


def _is_record(line: bytes) -> bool:
    return bool(line.strip())


def _parse_block(lines: list[bytes], exactness: Exactness) -> list[Any] | None:
    """The values of some lines where orjson reads each of them without loss; else None."""
    if max(map(len, lines)) > 2 * MAX_DEPTH and any(map(too_deep, lines)):
        return None
    text = b"[%b]" % _SEPARATOR_TEXT.join(lines)
    if may_be_tagged(text):
        return None
    try:
        values: list[Any] = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if len(values) != 2 * len(lines) - 1 or values[1::2].count(_SEPARATOR) != len(lines) - 1:
        return None
    return values[::2] if exactness.holds(text, values) else None


# ---------------------------------------------------------------- JSON documents


MAX_ENTITIES_SEARCHED = 5  # entities, of which each is looked into for lists of others
MAX_HINT_KEYS = 4  # keys of a path that is proposed
ADVICE = 'Write each entity as {"name": value, ...}.'


class DocumentShape(NamedTuple):
    """The shape of a document, or of the value at a path in it: a list, objects by their keys, or one object."""

    kind: str
    path: tuple[str, ...] = ()  # keys of objects within objects
    last: Mapping[str, int] = MappingProxyType({})  # the position that counts of a key that occurs more than once


class Document(Records):
    """Entities of one JSON document."""

    def __init__(self, source: Source, format: str, options: Options) -> None:
        super().__init__(source, format, options)
        self._inner: dict[
            int, tuple[int, str]
        ] = {}  # of the first entities: length and path of their longest list of objects
        self._path = None if options.items is None else _object_keys(options.items)

    def read(self) -> Iterator[Entity]:
        self._inner = {}
        count = 0
        for entity in super().read():
            count += 1
            yield entity
        self._hint(count)

    def entity(self, piece: Piece, naming: Naming) -> Entity | None:
        entity = super().entity(piece, naming)
        if entity is not None and self.shape.kind != "list" and len(self._inner) < MAX_ENTITIES_SEARCHED:
            prefix = () if piece.key is None else (piece.key,)
            self._inner[piece.position] = max(_lists_of_objects(entity.tree, prefix), default=(0, ""))
        return entity

    def _hint(self, count: int) -> None:
        """Warn where the entities seem to stand deeper in the document."""
        length, path = max(self._inner.values(), default=(0, ""))
        if self._path is None and count <= MAX_ENTITIES_SEARCHED and length > 2 * count:
            entities = f"{count} {'entity' if count == 1 else 'entities'}"
            self.odd.note(f"{entities}; {path} holds {length:,} objects: say --items {path}", self.name)

    def pieces(self) -> Iterator[Piece]:
        shape = self.shape
        with self._scanner() as scanner:
            yield from self._enter(scanner, shape.path)
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

    def _enter(self, scanner: Scanner, path: tuple[str, ...]) -> Iterator[Piece]:
        """Pass the text before the value at a path, piece by piece."""
        for depth, key in enumerate(path):
            object_path = show(path[:depth]) or "its top"
            if scanner.peek() != b"{":
                self._refuse(scanner, f"an object at {object_path}")
            scanner.step(b"{", "an object")
            while scanner.peek() != b"}" and scanner.key() != key:
                scanner.pass_value()
                yield Piece(0, scanner.line_here(), scanner.take(), b"")
                if scanner.peek() == b",":
                    scanner.step(b",", "a comma")
            if scanner.data[scanner.place : scanner.place + 1] == b"}":
                self._refuse(scanner, f"a key {key!r} at {object_path}")

    def _refuse(self, scanner: Scanner, expected: str) -> NoReturn:
        raise LoadError(
            self.name, f"expected {expected}, got none. Mend --items: kbdisk inspect shows paths.", scanner.line_here()
        )

    def _piece(self, position: int, value: ScannedValue, shape: DocumentShape) -> Piece:
        """The piece of an entity; where the value is no entity, or a later one has its key, all of it comes before the next."""
        if not value.text.startswith(b"{"):
            self.skip(
                LoadError(self.name, f"expected a JSON object, got {_kind_in_words(value.text)}. {ADVICE}", value.line)
            )
        elif value.key is not None and shape.last.get(value.key, position) != position:
            self.odd.note(
                "a key stands twice in the object of entities; the last one counts", f"{self.name}:{value.line}"
            )
        else:
            return Piece(position, value.line, value.before, value.text, value.key, position)
        return Piece(position, value.line, value.before + value.text, b"")

    @cached_property
    def shape(self) -> DocumentShape:
        """The shape of the document; LoadError where it holds no object."""
        path = self._path or ()
        with self._scanner() as scanner:
            deque(self._enter(scanner, path), maxlen=0)
            first = scanner.peek()
            if first == b"[":
                return self._of_list(scanner, path)
            if first != b"{":
                scanner.take()
                scanner.pass_value()
                text = scanner.take().strip()
                raise LoadError(
                    self.name,
                    f"expected JSON objects{_at_path(path)}, got {_kind_in_words(text)}: there is no entity in it. {ADVICE}",
                    scanner.line,
                )
            key = None if path else self._lists_objects()
            return self._of_members(scanner, path) if key is None else DocumentShape("list", (key,))

    def _of_list(self, scanner: Scanner, path: tuple[str, ...]) -> DocumentShape:
        value: ScannedValue | None = None
        for value in scanner.items():
            if value.text.startswith(b"{"):
                return DocumentShape("list", path)
        if not path:
            scanner.end()
        got = "an empty list" if value is None else f"a list without any object ({_kind_in_words(value.text)} in it)"
        raise LoadError(
            self.name, f"expected a list of JSON objects{_at_path(path)}, got {got}. {ADVICE}", scanner.line
        )

    def _lists_objects(self) -> str | None:
        """The key of a document that is an object with this key alone, which holds a list of objects."""
        with self._scanner() as scanner:
            scanner.step(b"{", "an object")
            if scanner.peek() != b'"':
                return None
            key = scanner.key()
            if scanner.peek() != b"[":
                return None
            has_items = False
            for value in scanner.items():
                has_items = True
                if not value.text.startswith(b"{"):
                    return None
            return key if has_items and scanner.peek() == b"}" else None

    def _of_members(self, scanner: Scanner, path: tuple[str, ...]) -> DocumentShape:
        last: dict[str, int] = {}
        count = 0
        for count, value in enumerate(scanner.members(), 1):
            if not value.text.startswith(b"{"):
                return DocumentShape("one", path)
            last[str(value.key)] = count
        return (
            DocumentShape("objects", path, last if len(last) < count else {})
            if count > 1
            else DocumentShape("one", path)
        )

    @contextlib.contextmanager
    def _scanner(self) -> Iterator[Scanner]:
        """A scanner after the byte order mark, which is not taken yet."""
        assert self.source is not None
        check_encoding(self.source)
        with self.source.open() as stream:
            scanner = Scanner(stream, self.name)
            scanner.more()
            if scanner.data.startswith(BOM):
                scanner.place = len(BOM)
            yield scanner


def _object_keys(path: Path) -> tuple[str, ...]:
    """A path through objects alone."""
    if not all(isinstance(key, str) for key in path):
        raise ConfigError("--items", f"expected keys of objects such as data.items, got {show(path)}.")
    return tuple(map(str, path))


def _at_path(path: tuple[str, ...]) -> str:
    return f" at {show(path)}" if path else ""


def _lists_of_objects(part: Tree, path: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """The lists of objects in a part and the parts within it: how many objects each has, and its path."""
    for key, value in part.items():
        if type(value) is dict and len(path) < MAX_HINT_KEYS:
            yield from _lists_of_objects(value, (*path, key))
        elif type(value) is list and value and all(type(item) is dict for item in value):
            yield len(value), show((*path, key))


def _kind_in_words(text: bytes) -> str:
    """The kind of a value, in words."""
    try:
        return kind_of(orjson.loads(text))
    except orjson.JSONDecodeError:
        return repr(text[:30].decode("utf-8", "replace"))
