"""Reads a file of values that were taken out of a source: entity, property and value, with tabs between them.

Beside RDF all three are in Turtle's words, with the prefixes of the source; an entity may be the last part of its IRI.
Beside other formats they are an id, a path such as prizes[0].year, and a value in JSON.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbdisk.bench.masking import Cell, Values, pattern
from kbdisk.entity import Date, Entity, read_path, walk
from kbdisk.errors import LoadError

if TYPE_CHECKING:
    from kbdisk.loaders import KB

_PREFIX = re.compile(r"^\s*@?prefix\s+\S*:\s*<[^>]*>", re.IGNORECASE)
TEXTUAL_RDF = frozenset({"turtle", "trig", "n3", "ntriples", "nquads"})


def read_hidden(file: Path, kb: KB, entities: Sequence[Entity]) -> list[Cell]:
    """The hidden values of those entities that the source has."""
    rows = _rows(file)
    places = {entity.id: place for place, entity in enumerate(entities)}
    places = {re.split(r"[/#]", id)[-1]: place for id, place in places.items()} | places
    if kb.format in TEXTUAL_RDF:
        found = _from_turtle(file, rows, kb, entities, places)
    else:
        found = _from_json(file, rows, places)
    values = Values(entities)
    cells = []
    for place, path, value in found:
        for half, kind, scalar in values.scalars(pattern(path), value):
            is_year = isinstance(value, Date) and value.month is None
            cells.append(Cell(place, path, (pattern(path), half, kind), scalar, is_year))
    if not cells:
        raise LoadError(str(file), f"expected values of entities of {kb.name}, got none of them.")
    return cells


def _rows(file: Path) -> list[list[str]]:
    try:
        raw = file.read_bytes()
        text = (gzip.decompress(raw) if file.suffix == ".gz" else raw).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise LoadError(str(file), f"cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    rows = [line.split("\t") for line in text.splitlines() if line]
    for number, row in enumerate(rows, 1):
        if len(row) != 3:
            raise LoadError(str(file), f"expected entity, property and value, got {len(row)} fields.", number)
    return rows


def _from_turtle(
    file: Path, rows: Sequence[Sequence[str]], kb: KB, entities: Sequence[Entity], places: Mapping[str, int]
) -> list[tuple[int, Any, Any]]:
    import kbdisk

    prefixes = []
    if kb.source is not None:
        with kb.source.open() as stream:
            for raw in stream:
                line = raw.decode(errors="replace") if isinstance(raw, bytes) else raw
                match = _PREFIX.match(line)
                if match:
                    prefixes.append(match[0] + (" ." if match[0].lstrip().startswith("@") else ""))
                elif line.strip() and not line.lstrip().startswith(("#", "@base", "BASE")):
                    break
    own = [row for row in rows if row[0] in places]
    lines = [f"<{entities[places[id]].id}> {name} {value} ." for id, name, value in own]
    text = "\n".join([*prefixes, *lines])
    found = []
    for entity in kbdisk.load(text.encode(), format="turtle") if own else ():
        if entity.id in places:
            found += [(places[entity.id], path, value) for path, value in walk(entity.tree)]
    return found


def _from_json(file: Path, rows: Sequence[Sequence[str]], places: Mapping[str, int]) -> list[tuple[int, Any, Any]]:
    found = []
    for number, (id, path, value) in enumerate(rows, 1):
        if id in places:
            try:
                found.append((places[id], read_path(path), json.loads(value)))
            except ValueError as error:
                raise LoadError(str(file), f"expected a path and a value in JSON: {error}.", number) from None
    return found
