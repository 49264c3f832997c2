"""Wikibase JSON: a dump with one entity on each line, one entity alone, or what wbgetentities answers.

A dump is read line by line; anything else is parsed whole. It is never rewritten: a new statement needs an
id that only the Wikibase can mint, so what was filled leaves as QuickStatements.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import orjson

from kbdisk.entity import Completion, Entity
from kbdisk.errors import LoadError, WriteError
from kbdisk.jsonio import load_json
from kbdisk.loaders.files import Source
from kbdisk.loaders.kb import KB, Options, Report
from kbdisk.loaders.wikibase_entities import Reader

HEAD = 1 << 18  # bytes looked at to recognise the format
TYPES = (b'"item"', b'"property"', b'"lexeme"', b'"mediainfo"')
HOLDERS = {b'"labels"', b'"descriptions"', b'"aliases"', b'"claims"', b'"statements"', b'"sitelinks"', b'"lemmas"'}
NO_REWRITE = (
    "a Wikibase's JSON is not rewritten: only the Wikibase gives statements their ids. Write QuickStatements (.qs)."
)

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+|[{}\[\]:,]', re.DOTALL)  # a string may be cut off
_ID = re.compile(rb'"[QPLM][1-9]\d*"')
_LONG = re.compile(rb'"numeric-id":\s*\d{19}')  # orjson makes floats of integers beyond 64 bits


def recognised(source: Source) -> bool:
    """Whether a JSON file is one of a Wikibase, told by its beginning."""
    with source.open() as stream:
        head = stream.read(HEAD)
    values = _first_object(head)
    if b'"entities"' in values and values[b'"entities"'] == b"{":
        return _is_entity(_first_object(head, depth=3), head)
    return _is_entity(values, head)


def _is_entity(values: dict[bytes, bytes], head: bytes) -> bool:
    """Whether these are the keys of an entity. The head may have cut them off after the first few."""
    if values.get(b'"type"') not in TYPES:
        return False
    if b'"id"' in values and not _ID.fullmatch(values[b'"id"']):
        return False
    held = [key for key in HOLDERS & values.keys() if values[key] in (b"{", b"[")]
    return len(held) > 1 or (bool(held) and b'"language"' in head)


def _first_object(head: bytes, depth: int = 1) -> dict[bytes, bytes]:
    """The keys of the first object that lies so deep in objects, each with the first token of its value."""
    values: dict[bytes, bytes] = {}
    level = lists = 0
    key = last = b""
    for found in _TOKEN.finditer(head):
        token = found[0]
        if last == b":" and level == depth and not lists and found.end() < len(head):
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
    """Refused: see above."""
    raise WriteError(format, NO_REWRITE)


class WikibaseJson(KB):
    """Entities of a Wikibase's JSON."""

    source: Source

    def read(self) -> Iterator[Entity]:
        reader = Reader(self.options.language, self.odd)
        wanted = set(self.options.classes)
        for position, where, data in self._objects():
            try:
                entities = reader.entities(data, where)
            except ValueError as error:
                self.skip(self._fault(str(error) + ". Check the file.", where))
                continue
            for entity in entities:
                if not wanted or wanted.intersection(entity.classes):
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
        """Every entity as plain JSON: its position, where it stands, and what it says."""
        if not self._is_dump():
            yield from self._whole()
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
        """Whether every line is an entity: the first two lines tell."""
        with self.source.open() as stream:
            lines = [line.removeprefix(b"\xef\xbb\xbf").strip() for line in (stream.readline(), stream.readline())]
        if lines[0] == b"[":
            return lines[1] not in (b"", b"{")
        return lines[0].startswith(b"{") and lines[0].endswith(b"}") and lines[1].startswith(b"{")

    def _whole(self) -> Iterator[tuple[int, str, Any]]:
        """A file that has to be parsed in one: an entity, several by their ids, or a list."""
        try:
            data = _parsed(self.source.read().removeprefix(b"\xef\xbb\xbf"))
        except ValueError as error:
            line = getattr(error, "lineno", None)
            raise LoadError(self.name, f"expected entities in JSON: {getattr(error, 'msg', error)}.", line) from None
        if isinstance(data, dict) and isinstance(data.get("entities"), dict | list):
            data = data["entities"]
            data = list(data.values()) if isinstance(data, dict) else data
        for position, one in enumerate(data if isinstance(data, list) else [data]):
            yield position, self.name, one

    def _fault(self, problem: str, where: str) -> LoadError:
        line = where.removeprefix(self.name + ":")
        return LoadError(self.name, problem, int(line) if line.isdigit() else None)


def _parsed(text: bytes) -> Any:
    if _LONG.search(text) is None:
        return orjson.loads(text)
    return load_json(text)


def _shown(text: bytes) -> str:
    shown = text[:40].decode("utf-8", "replace")
    return repr(shown + ("..." if len(text) > 40 else ""))
