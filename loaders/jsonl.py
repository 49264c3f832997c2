"""JSON Lines: one JSON object a line. Blank lines are skipped, and do not count in the number
of an entity; its position is the number of its line.

Read by blocks: orjson takes a whole block at once, cheap looks at its bytes tell whether that lost anything,
and only then every line of it is read by itself (`jsontext`). What is written keeps id and classes: under
"@id" and "@type" where the tree does not hold them.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from itertools import chain, count, repeat
from typing import Any, BinaryIO

import orjson

from kbdisk.entity import Completion, Entity
from kbdisk.errors import LoadError
from kbdisk.loaders import jsontext
from kbdisk.loaders.files import Source
from kbdisk.loaders.jsonrecords import Piece, Records, dumped, serialised
from kbdisk.loaders.jsontext import BOM, Exactness, Fault
from kbdisk.loaders.kb import KB, Options, Report
from kbdisk.loaders.naming import Naming, labels
from kbdisk.loaders.values.tagged_json import MAX_DEPTH

BLOCK = 1 << 14  # bytes: small enough for what is read to stay in the processor's cache

_MARK = secrets.randbelow(900) + 100  # stands between the lines: no two broken ones make a whole, but by luck
_BETWEEN = b",%d," % _MARK


def load(source: Source, format: str, options: Options) -> KB:
    """Entities from JSON Lines."""
    return Lines(source, format, options)


def write(items: Iterable[Entity | Completion], stream: BinaryIO, format: str, only_new: bool) -> Report:
    """One line for each entity."""
    report = Report()
    for tree in serialised(items, only_new, report):
        stream.write(dumped(tree, orjson.OPT_APPEND_NEWLINE))
    return report


class Lines(Records):
    """Entities that stand in a line each."""

    def read(self) -> Iterator[Entity]:
        return chain.from_iterable(self._batches())

    def _batches(self) -> Iterator[Iterable[Entity]]:
        """The entities of each block; no Python code runs for one where the whole block is plain."""
        naming = Naming(self.options.id)
        exactness, number = Exactness(), 1  # of the next entity
        for first, lines in self._blocks():
            trees = None if self.options.classes else _whole(lines, exactness)
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
        """Some lines at a time, with the number of the first."""
        with self._opened() as stream:
            number = 1
            while lines := stream.readlines(BLOCK):
                if number == 1:
                    lines[0] = lines[0].removeprefix(BOM)
                yield number, lines
                number += len(lines)

    def _opened(self) -> BinaryIO:
        assert self.source is not None
        jsontext.check_encoding(self.source)
        return self.source.open()

    def error(self, fault: Fault, piece: Piece) -> LoadError:
        listed = piece.text.lstrip().startswith(b"[") and "levels" not in fault.problem
        if not listed and "the end of the text" not in fault.problem:
            return super().error(fault, piece)
        found = ("a list" if "a list" in fault.problem else "'['") if listed else "one that does not end in its line"
        problem = f"expected a JSON object, got {found}. If the file is one JSON document, say --format json."
        return LoadError(self.name, problem, piece.line)


def _is_record(line: bytes) -> bool:
    return bool(line.strip())


def _whole(lines: list[bytes], exactness: Exactness) -> list[Any] | None:
    """The values of some lines where orjson reads each of them, and all of it; else None."""
    if max(map(len, lines)) > 2 * MAX_DEPTH and any(map(jsontext.too_deep, lines)):
        return None
    text = b"[%b]" % _BETWEEN.join(lines)
    if jsontext.may_be_tagged(text):
        return None
    try:
        found: list[Any] = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if len(found) != 2 * len(lines) - 1 or found[1::2].count(_MARK) != len(lines) - 1:
        return None
    return found[::2] if exactness.holds(text, found) else None
