"""Wikibase JSON: a dump with one entity on each line, a single entity, or the answer of wbgetentities.

A dump is read line by line; anything else is parsed in one. It is never rewritten: a new statement needs an id that only
the Wikibase can mint, so filled values leave as QuickStatements.

Keys are property ids; of each property the values of the best rank are read, and never a deprecated one. Labels,
descriptions and aliases stand in all their languages under `label`, `description`, `alias`. The forms and senses of a
lexeme are separate entities.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import orjson

from kbdisk.entity import NOVALUE, SOMEVALUE, Completion, Coordinate, Date, Entity, Link, Text
from kbdisk.errors import LoadError, WriteError
from kbdisk.jsonio import load_json
from kbdisk.loaders.files import Source
from kbdisk.loaders.kb import KB, Oddities, Options, Report
from kbdisk.loaders.wikibase import data_model
from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.calendars import GREGORIAN

HEAD_SIZE = 1 << 18  # bytes looked at to recognise the format
ENTITY_TYPES = (b'"item"', b'"property"', b'"lexeme"', b'"mediainfo"')
MAIN_KEYS = {b'"labels"', b'"descriptions"', b'"aliases"', b'"claims"', b'"statements"', b'"sitelinks"', b'"lemmas"'}
NO_REWRITE = (
    "a Wikibase's JSON is not rewritten: only the Wikibase gives statements their ids. Write QuickStatements (.qs)."
)

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+|[{}\[\]:,]', re.DOTALL)  # a string may be cut off
_ID = re.compile(rb'"[QPLM][1-9]\d*"')
_LARGE_INTEGER = re.compile(rb'"numeric-id":\s*\d{19}')  # orjson makes floats of integers beyond 64 bits


def is_wikibase_json(source: Source) -> bool:
    """Whether a JSON file is one of a Wikibase, judged by its beginning."""
    with source.open() as stream:
        head = stream.read(HEAD_SIZE)
    values = _first_object(head)
    if b'"entities"' in values and values[b'"entities"'] == b"{":
        return _is_entity(_first_object(head, depth=3), head)
    return _is_entity(values, head)


def _is_entity(values: dict[bytes, bytes], head: bytes) -> bool:
    """Whether these are the keys of an entity. The head may have cut them off after the first few."""
    if values.get(b'"type"') not in ENTITY_TYPES:
        return False
    if b'"id"' in values and not _ID.fullmatch(values[b'"id"']):
        return False
    held = [key for key in MAIN_KEYS & values.keys() if values[key] in (b"{", b"[")]
    return len(held) > 1 or (bool(held) and b'"language"' in head)


def _first_object(head: bytes, depth: int = 1) -> dict[bytes, bytes]:
    """The keys of the first object that lies so deep in objects, each with the first token of its value."""
    values: dict[bytes, bytes] = {}
    level = lists = 0
    key = last = b""
    for match in _TOKEN.finditer(head):
        token = match[0]
        if last == b":" and level == depth and not lists and match.end() < len(head):
            values[key] = token
        if token in (b"{", b"}"):
            level += 1 if token == b"{" else -1
            if level < depth and token == b"}":
                break
        elif token in (b"[", b"]") and level:
            lists += 1 if token == b"[" else -1
        elif token == b":":
            key = last
        last = token
    return values


def load(source: Source, format: str, options: Options) -> KB:
    """Entities of a Wikibase's JSON."""
    return WikibaseJson(source, format, options)


def write(items: Iterable[Entity | Completion], stream: BinaryIO, format: str, only_new: bool) -> Report:
    """Refused: a dump is never rewritten."""
    raise WriteError(format, NO_REWRITE)


class WikibaseJson(KB):
    """Entities of a Wikibase's JSON."""

    source: Source

    def read(self) -> Iterator[Entity]:
        reader = Reader(self.options.language, self.odd)
        wanted_classes = set(self.options.classes)
        for position, where, data in self._objects():
            try:
                entities = reader.entities(data, where)
            except ValueError as error:
                self.skip(self._fault(str(error) + ". Check the file.", where))
                continue
            for entity in entities:
                if not wanted_classes or wanted_classes.intersection(entity.classes):
                    entity.position = position
                    entity.source = self
                    yield entity

    def splice(self, completions: Iterable[Completion], stream: BinaryIO, insert: bool = False) -> Report:
        if any(completion.filled for completion in completions):
            raise WriteError(self.name, NO_REWRITE)
        with self.source.open() as bytes_in:
            shutil.copyfileobj(bytes_in, stream, 1 << 20)
        return Report()

    def _objects(self) -> Iterator[tuple[int, str, Any]]:
        """Every entity as plain JSON: its position, its place for messages, and its data."""
        if not self._is_dump():
            yield from self._parse_at_once()
            return
        closed = opened = False
        number = 0
        with self.source.open() as stream:
            for number, line in enumerate(stream, 1):
                text = line.removeprefix(b"\xef\xbb\xbf").strip()
                if closed and text:
                    self.skip(
                        self._fault(
                            f"expected nothing after the closing ], got {_shown(text)}. Check the file.",
                            f"{self.name}:{number}",
                        )
                    )
                elif text == b"[":
                    opened = True
                elif text == b"]":
                    closed = True
                elif text:
                    yield from self._line(text.removesuffix(b","), number)
        if opened and not closed:
            self.skip(
                LoadError(self.name, "expected ] at the end, got the end of the file. Get all of it again.", number)
            )

    def _line(self, text: bytes, number: int) -> Iterator[tuple[int, str, Any]]:
        where = f"{self.name}:{number}"
        try:
            yield number, where, _parsed(text)
        except ValueError as error:
            self.skip(
                LoadError(self.name, f"expected an entity in JSON, got {_shown(text)} ({error}). Fix the line.", number)
            )

    def _is_dump(self) -> bool:
        """Whether every line is an entity, judged by the first two lines."""
        with self.source.open() as stream:
            lines = [line.removeprefix(b"\xef\xbb\xbf").strip() for line in (stream.readline(), stream.readline())]
        if lines[0] == b"[":
            return lines[1] not in (b"", b"{")
        return lines[0].startswith(b"{") and lines[0].endswith(b"}") and lines[1].startswith(b"{")

    def _parse_at_once(self) -> Iterator[tuple[int, str, Any]]:
        """A file that has to be parsed at once: an entity, several by their ids, or a list."""
        try:
            data = _parsed(self.source.read().removeprefix(b"\xef\xbb\xbf"))
        except ValueError as error:
            line = getattr(error, "lineno", None)
            raise LoadError(self.name, f"expected entities in JSON: {getattr(error, 'msg', error)}.", line) from None
        if isinstance(data, dict) and isinstance(data.get("entities"), dict | list):
            data = data["entities"]
            data = list(data.values()) if isinstance(data, dict) else data
        for position, entity in enumerate(data if isinstance(data, list) else [data]):
            yield position, self.name, entity

    def _fault(self, problem: str, where: str) -> LoadError:
        line = where.removeprefix(self.name + ":")
        return LoadError(self.name, problem, int(line) if line.isdigit() else None)


def _parsed(text: bytes) -> Any:
    if _LARGE_INTEGER.search(text) is None:
        return orjson.loads(text)
    return load_json(text)


def _shown(text: bytes) -> str:
    shown = text[:40].decode("utf-8", "replace")
    return repr(shown + ("..." if len(text) > 40 else ""))


# ---------------------------------------------------------------- entities


ID_PREFIXES = {"item": "Q", "property": "P", "lexeme": "L"}  # of ids, in data so old that they have numbers alone
TEXT_KEYS = {
    "labels": "label", "lemmas": "lemma", "representations": "representation", "glosses": "definition",
    "descriptions": "description", "aliases": "alias",
}  # fmt: skip
LABELS_IN_ORDER = ("label", "lemma", "representation", "definition")
LINK_KEYS = {"language": "language", "lexicalCategory": "lexicalCategory", "grammaticalFeatures": "grammaticalFeature"}
PART_KEYS = {"forms": ("lexicalForm", "form"), "senses": ("sense", "sense")}


class Reader:
    """Turns plain JSON into entities. `instance_of` is the property that gives their classes."""

    def __init__(self, language: str, odd: Oddities) -> None:
        self.language = language
        self.odd = odd
        self.instance_of = data_model.INSTANCE_OF

    def entities(self, data: Any, where: str) -> list[Entity]:
        """The entity of one JSON object (none where it is marked `missing`), and a lexeme's forms and senses."""
        if not isinstance(data, dict):
            raise ValueError(f"expected an entity, got {type(data).__name__}")
        if "missing" in data:
            return []
        kind = data.get("type")
        if not isinstance(data.get("id"), str) or not isinstance(kind, str):
            raise ValueError("expected an entity with an id and a type, got an object without")
        return list(self._with_parts(data, kind, where))

    def _with_parts(self, data: dict[str, Any], kind: str, where: str) -> Iterator[Entity]:
        tree = dict(self._texts(data))
        for name, key in LINK_KEYS.items():
            if links := [Link(str(id)) for id in _as_list(data.get(name))]:
                tree[key] = data_model.one_or_list(links)
        parts = [(part, kind) for name, (_, kind) in PART_KEYS.items() for part in _as_list(data.get(name))]
        for name, (key, _) in PART_KEYS.items():
            if links := [Link(_checked_part(part)["id"]) for part in _as_list(data.get(name))]:
                tree[key] = data_model.one_or_list(links)
        label = next((_name(tree[key], self.language) for key in LABELS_IN_ORDER if key in tree), "")
        if kind == "property":
            self._learn(data["id"], tree)
        claims = data.get("claims") or data.get("statements") or {}  # an empty object is [] in PHP
        tree.update(self._claims(claims, data["id"], where))
        yield Entity(data["id"], tree, self._classes(tree, kind), label)
        for part, name in parts:
            yield from self._with_parts(part, name, where)

    def _texts(self, data: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, key in TEXT_KEYS.items():
            by_language = data.get(name) or {}
            if not isinstance(by_language, dict):
                raise ValueError(f"expected {name} by language, got {type(by_language).__name__}")
            texts = [
                Text(text["value"], text["language"])
                for group in by_language.values()
                for text in _as_list(group)
                if _is_text(text)
            ]
            if texts:
                yield key, data_model.one_or_list(texts)

    def _learn(self, id: str, tree: dict[str, Any]) -> None:
        """Learn from a property's labels which one gives classes: one called "instance of", and not a P31 called otherwise."""
        names = {text.text for key in ("label", "alias") for text in _as_list(tree.get(key)) if text.language == "en"}
        if data_model.INSTANCE_OF_LABEL in names:
            self.instance_of = id
        elif id == self.instance_of and _name(tree.get("label", []), "en"):
            self.instance_of = ""

    def _classes(self, tree: dict[str, Any], kind: str) -> tuple[str, ...]:
        values = _as_list(tree.get(self.instance_of)) if self.instance_of else []
        return tuple(value.id for value in values if isinstance(value, Link)) or (kind,)

    # ------------------------------------------------------------ statements

    def _claims(self, claims: Any, id: str, where: str) -> Iterator[tuple[str, Any]]:
        if not isinstance(claims, dict):
            raise ValueError(f"expected claims by property, got {type(claims).__name__}")
        for property, statements in claims.items():
            values = [
                self._value(statement.get("mainsnak"), f"{where}, {id} {property}")
                for statement in _best_ranked(statements)
            ]
            if values:
                yield property, data_model.one_or_list(values)

    def _value(self, snak: Any, where: str) -> Any:
        kind = snak.get("snaktype") if isinstance(snak, dict) else None
        if kind == "somevalue":
            return SOMEVALUE
        if kind == "novalue":
            return NOVALUE
        try:
            data = snak["datavalue"]
            type, value = data["type"], data.get("value")
        except (KeyError, TypeError):
            raise ValueError(f"expected a value at {where.rpartition(', ')[2]}, got none") from None
        if not isinstance(type, str):
            raise ValueError(f"expected the name of a type at {where.rpartition(', ')[2]}, got another value")
        read = VALUE_READERS.get(type)
        try:
            return read(value) if read else _as_text(value)
        except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
            problem = str(error) if isinstance(error, ValueError) else "it lacks a part"
            self.odd.note(f"a {type} that cannot be, kept as text", f"{where}: {problem}")
            return _as_text(value)


def _best_ranked(statements: Any) -> list[dict[str, Any]]:
    """The statements of preferred rank, else those of normal rank; never deprecated ones."""
    ranked = [statement for statement in _as_list(statements) if isinstance(statement, dict)]
    preferred = [statement for statement in ranked if statement.get("rank") == "preferred"]
    return preferred or [statement for statement in ranked if statement.get("rank", "normal") == "normal"]


def _entity_id(value: dict[str, Any]) -> Link:
    id = value.get("id")
    if id is None:
        id = ID_PREFIXES[value["entity-type"]] + str(int(value["numeric-id"]))
    return Link(_text("id", id))


def _time(value: dict[str, Any]) -> Date:
    calendar = _text("calendarmodel", value.get("calendarmodel", GREGORIAN))
    return data_model.time(_text("time", value["time"]), value["precision"], calendar, value.get("timezone", 0))


def _quantity(value: dict[str, Any]) -> Any:
    return data_model.quantity(numerals.number(_text("amount", value["amount"])), _text("unit", value["unit"]))


def _coordinate(value: dict[str, Any]) -> Coordinate:
    latitude, longitude = value["latitude"], value["longitude"]
    if not all(isinstance(degrees, int | float) and not isinstance(degrees, bool) for degrees in (latitude, longitude)):
        raise ValueError(f"expected degrees, got {latitude!r} and {longitude!r}")
    return data_model.coordinate(latitude, longitude, _text("globe", value.get("globe") or ""))


VALUE_READERS: dict[str, Callable[[Any], Any]] = {
    "wikibase-entityid": _entity_id,
    "time": _time,
    "quantity": _quantity,
    "globecoordinate": _coordinate,
    "monolingualtext": lambda value: Text(_text("text", value["text"]), _text("language", value["language"])),
}


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text as {name}, got {type(value).__name__}")
    return value


def _as_text(value: Any) -> str:
    """A value as text: of a value with parts, the main one."""
    if isinstance(value, dict):
        text = next((value[key] for key in ("time", "amount", "text", "id") if isinstance(value.get(key), str)), None)
        return text if text is not None else " ".join(f"{key}={item}" for key, item in value.items())
    return value if isinstance(value, str) else str(value)


def _name(texts: Any, language: str) -> str:
    return data_model.best_label(_as_list(texts), language)


def _as_list(value: Any) -> list[Any]:
    """A single value, a list or nothing as a list. (Nothing is [] or {} in the JSON of PHP.)"""
    return value if isinstance(value, list) else [value] if value else []


def _is_text(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("value"), str) and isinstance(value.get("language"), str)


def _checked_part(part: Any) -> dict[str, Any]:
    if not isinstance(part, dict) or not isinstance(part.get("id"), str):
        raise ValueError("expected a form or a sense with an id")
    return part
