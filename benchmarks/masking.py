"""Masks of a knowledge base: which values are hidden, what they were, and the entities without them.

A mask draws the values, or a file names them (`read_hidden`). Hidden are single values: numbers, quantities (the unit stays), dates, coordinates, links, and strings with few labels;
never ids, types or names. A mask is a hash of its seed, the entity's id and the path: it is the same on every machine.
The inverse of a hidden link is hidden, too, where the knowledge base states it. A property is a path, pooled over all classes; `prizes[].year` stands for
the year of every prize.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kbdisk.entity import Coordinate, Date, Entity, Link, Path, Quantity, Text, read_path, show, walk
from kbdisk.errors import LoadError

if TYPE_CHECKING:
    from kbdisk.loaders import KB

Kind: TypeAlias = Literal["number", "label"]
Scalar: TypeAlias = Any  # a float of a number, else a label, which is hashable
Property: TypeAlias = tuple[Path, str, Kind]  # pattern, half of a coordinate or nothing, kind

ANY = "[]"  # stands for the places of a list in a pattern
MIN_VALUES = 10  # of a property, from which on its values are hidden
MAX_STRING_LABELS = 300  # of a property of strings; with more of them it is text
MIN_REPEATED = 0.3  # the share of a property's labels that another entity has, too; below it they are names or nodes
MIN_PARSED = 0.9  # the share of strings that must read as numbers, or as dates, so that all are taken for such
MIN_INVERSE = 0.5  # the share of links that the other property states backwards, in both directions
MIN_LINKS = 5  # of a pair of properties, from which on they may be inverses

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_DATE = re.compile(r"(\d{4})-(\d\d)(?:-(\d\d))?(?:T.*)?")
_PREFIX = re.compile(r"^\s*@?prefix\s+\S*:\s*<[^>]*>", re.IGNORECASE)
TEXTUAL_RDF = frozenset({"turtle", "trig", "n3", "ntriples", "nquads"})


@dataclass(frozen=True)
class Cell:
    """A hidden value, or one half of a hidden coordinate, as it is scored."""

    entity: int  # its place among the entities
    path: Path
    property: Property
    truth: Scalar
    whole_year: bool = False  # a date of which only the year is known


@dataclass(frozen=True)
class Masked:
    """The entities without the hidden values, and what is hidden."""

    entities: list[Entity]
    cells: list[Cell]


class Values:
    """The single values of entities as scalars, and the properties that they are of.

    Strings are numbers or dates where those of their property read as such.
    """

    def __init__(self, entities: Sequence[Entity]) -> None:
        self.formats = _formats(entities)

    def of(self, entity: Entity) -> Iterator[tuple[Path, Property, Scalar]]:
        """Path, property and scalar of every single value of an entity, those in the parts of lists included."""
        for path, value in walk(entity.tree):
            if path and isinstance(path[-1], str) and value is not None:
                for half, kind, scalar in self.scalars(pattern(path), value):
                    yield path, (pattern(path), half, kind), scalar

    def scalars(self, of: Path, value: Any) -> list[tuple[str, Kind, Scalar]]:
        """What a value of a pattern comes to: (half of a coordinate, kind, scalar); nothing where it is not scored."""
        if isinstance(value, Text):
            value = value.text
        if isinstance(value, str):
            if not value.strip():  # blank, which is a gap
                return []
            reader = self.formats.get(of)
            number = reader(value) if reader is not None else None
            if reader is None:
                return [("", "label", value)]
            return [] if number is None else [("", "number", number)]
        if isinstance(value, bool):
            return [("", "label", value)]
        if isinstance(value, Link):
            return [("", "label", value.id)]
        if isinstance(value, Quantity):
            value = value.value
        if isinstance(value, int | float | Decimal):
            return [("", "number", float(value))]
        if isinstance(value, Date):
            return [] if value.year is None else [("", "number", decimal_year(value.year, value.month, value.day))]
        if isinstance(value, Coordinate):
            halves = (("latitude", value.latitude), ("longitude", value.longitude))
            return [(half, "number", float(number)) for half, number in halves if number is not None]
        return []


def pattern(path: Path) -> Path:
    """A path with every place of a list replaced."""
    return tuple(ANY if isinstance(key, int) else key for key in path)


def property_name(of: Property) -> str:
    """A property as tables show it: born.year, prizes[].year, place (latitude)."""
    path, half, _ = of
    text = ""
    for key in path:
        text += ANY if key == ANY else ("." if text else "") + show((key,))
    return f"{text} ({half})" if half else text


def decimal_year(year: int, month: int | None, day: int | None) -> float:
    """A date as a number of years; of a year alone its beginning."""
    months = (min(month, 12) - 1) if month else 0
    return year + months / 12 + ((day - 1) / 365.25 if day else 0.0)


def _formats(entities: Sequence[Entity]) -> dict[Path, Any]:
    """How the strings of a pattern are read, where nearly all of them are numbers or dates."""
    strings: dict[Path, list[str]] = {}
    for entity in entities:
        for path, value in walk(entity.tree):
            if isinstance(value, str):
                strings.setdefault(pattern(path), []).append(value)
    formats: dict[Path, Any] = {}
    for path, texts in strings.items():
        for read, expression in ((_read_number, _NUMBER), (_read_date, _DATE)):
            if sum(expression.fullmatch(text) is not None for text in texts) >= MIN_PARSED * len(texts):
                formats[path] = read
                break
    return formats


def _read_number(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


def _read_date(text: str) -> float | None:
    match = _DATE.fullmatch(text)
    year, month, day = (int(part) if part else None for part in match.groups()) if match else (None, None, None)
    return decimal_year(year, month, day) if year else None  # year 0 stands for an unknown date


# ---------------------------------------------------------------- what may be hidden


def hideable(entities: Sequence[Entity], values: Values) -> set[Property]:
    """The properties whose values may be hidden."""
    labels: dict[Property, Counter[Scalar]] = {}
    names: Counter[Property] = Counter()  # how often a value is the entity's id, one of its classes or its name
    is_string: set[Property] = set()
    for entity in entities:
        names_of_entity = {entity.id, entity.label, *entity.classes}
        for path, of, scalar in values.of(entity):
            labels.setdefault(of, Counter())[scalar] += 1
            raw = _at(entity.tree, path)
            text = raw.id if isinstance(raw, Link) else raw.text if isinstance(raw, Text) else str(raw)
            names[of] += text in names_of_entity
            if isinstance(raw, str | Text):
                is_string.add(of)
    allowed = set()
    for of, counts in labels.items():
        total = counts.total()
        if total < MIN_VALUES or len(counts) < 2 or 2 * names[of] >= total:
            continue
        repeated = sum(count for count in counts.values() if count > 1)
        is_text = of in is_string and (len(counts) > MAX_STRING_LABELS or 2 * len(counts) > total)
        if of[2] == "number" or (repeated >= MIN_REPEATED * total and not is_text):
            allowed.add(of)
    return allowed


def _at(tree: Any, path: Path) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def is_drawn(seed: str, entity: str, path: Path, share: float) -> bool:
    """Whether a value falls into a mask."""
    digest = hashlib.blake2b(f"{seed}\n{entity}\n{show(path)}".encode(errors="surrogatepass"), digest_size=6).digest()
    return int.from_bytes(digest, "big") < share * (1 << 48)


# ---------------------------------------------------------------- hiding


def mask(entities: Sequence[Entity], share: float, seed: str, blank: bool = False) -> Masked:
    """Hide a share of the single values; with `blank` their places stay, as in a table."""
    values = Values(entities)
    allowed = hideable(entities, values)
    cells: list[Cell] = []
    for place, entity in enumerate(entities):
        drawn: dict[Path, bool] = {}
        for path, of, scalar in values.of(entity):
            if of in allowed and drawn.setdefault(path, is_drawn(seed, entity.id, path, share)):
                cells.append(Cell(place, path, of, scalar, _is_year(_at(entity.tree, path))))
    return Masked(without(entities, cells, blank), cells)


def _is_year(value: Any) -> bool:
    return isinstance(value, Date) and value.month is None


def without(entities: Sequence[Entity], cells: Iterable[Cell], blank: bool = False) -> list[Entity]:
    """The entities without the values of cells, and without the inverses of their links."""
    gone: dict[int, set[Path]] = {}
    for cell in cells:
        gone.setdefault(cell.entity, set()).add(cell.path)
    for place, path in _inverses(entities, gone):
        gone.setdefault(place, set()).add(path)
    return [
        replace(entity, tree=_without(entity.tree, (), gone[place], blank)) if place in gone else entity
        for place, entity in enumerate(entities)
    ]


def _without(tree: Any, at: Path, gone: Collection[Path], blank: bool) -> Any:
    if isinstance(tree, dict):
        kept = {}
        for key, value in tree.items():
            if (*at, key) not in gone:
                kept[key] = _without(value, (*at, key), gone, blank)
            elif isinstance(value, Quantity) and value.unit is not None:
                kept[key] = Quantity(None, value.unit)
            elif blank:
                kept[key] = None
        return {key: value for key, value in kept.items() if value != []}
    if isinstance(tree, list):
        members = [_without(value, (*at, i), gone, blank) for i, value in enumerate(tree) if (*at, i) not in gone]
        return members[0] if len(members) == 1 < len(tree) else members
    return tree


def _inverses(entities: Sequence[Entity], gone: Mapping[int, Collection[Path]]) -> list[tuple[int, Path]]:
    """Where the inverses of hidden links stand."""
    places = {entity.id: place for place, entity in enumerate(entities)}
    links = [_links(entity) for entity in entities]  # of each entity: target -> paths
    pairs = inverse_properties(entities, links, places)
    inverses = []
    for place, paths in gone.items():
        source = entities[place]
        for target, paths_to_target in links[place].items():
            other = places.get(target)
            for path in paths_to_target if other is not None else ():
                if path in paths:
                    back = links[places[target]].get(source.id, ())
                    inverses += [
                        (places[target], inverse)
                        for inverse in back
                        if (pattern_of(path), pattern_of(inverse)) in pairs
                    ]
    return inverses


def _links(entity: Entity) -> dict[str, list[Path]]:
    by_target: dict[str, list[Path]] = {}
    for path, value in walk(entity.tree):
        if isinstance(value, Link):
            by_target.setdefault(value.id, []).append(path)
    return by_target


def pattern_of(path: Path) -> Path:
    """The pattern of a link, alike whether it is alone or one of several."""
    return pattern(path[:-1] if isinstance(path[-1], int) else path)


def inverse_properties(
    entities: Sequence[Entity], links: Sequence[Mapping[str, Sequence[Path]]], places: Mapping[str, int]
) -> set[tuple[Path, Path]]:
    """Pairs of properties that state each other's links backwards, a symmetric one with itself."""
    answered: Counter[tuple[Path, Path]] = Counter()  # p's links whose target states q backwards
    able: Counter[tuple[Path, Path]] = Counter()  # p's links whose target has q at all
    has = [{pattern_of(path) for paths in by_target.values() for path in paths} for by_target in links]
    for place, entity in enumerate(entities):
        for target, paths in links[place].items():
            other = places.get(target)
            if other is None:
                continue
            back = {pattern_of(path) for path in links[other].get(entity.id, ())}
            for path in paths:
                able.update((pattern_of(path), q) for q in has[other])
                answered.update((pattern_of(path), q) for q in back)
    likely = {pair for pair, n in answered.items() if n >= max(MIN_LINKS, MIN_INVERSE * able[pair])}
    return {(p, q) for p, q in likely if (q, p) in likely}


# ---------------------------------------------------------------- a file of hidden values


def read_hidden(file: FilePath, kb: KB, entities: Sequence[Entity]) -> list[Cell]:
    """The hidden values that a file names, of those entities that the source has: entity, property and value, with tabs.

    Beside RDF all three are in Turtle's words, with the prefixes of the source; an entity may be the last part of its IRI.
    Beside other formats they are an id, a path such as prizes[0].year, and a value in JSON.
    """
    rows = _rows(file)
    places = {entity.id: place for place, entity in enumerate(entities)}
    places = {re.split(r"[/#]", id)[-1]: place for id, place in places.items()} | places
    if kb.format in TEXTUAL_RDF:
        hidden = _from_turtle(file, rows, kb, entities, places)
    else:
        hidden = _from_json(file, rows, places)
    values = Values(entities)
    cells = []
    for place, path, value in hidden:
        for half, kind, scalar in values.scalars(pattern(path), value):
            is_year = isinstance(value, Date) and value.month is None
            cells.append(Cell(place, path, (pattern(path), half, kind), scalar, is_year))
    if not cells:
        raise LoadError(str(file), f"expected values of entities of {kb.name}, got none of them.")
    return cells


def _rows(file: FilePath) -> list[list[str]]:
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
    file: FilePath, rows: Sequence[Sequence[str]], kb: KB, entities: Sequence[Entity], places: Mapping[str, int]
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
    known = [row for row in rows if row[0] in places]
    lines = [f"<{entities[places[id]].id}> {name} {value} ." for id, name, value in known]
    text = "\n".join([*prefixes, *lines])
    hidden = []
    for entity in kbdisk.load(text.encode(), format="turtle") if known else ():
        if entity.id in places:
            hidden += [(places[entity.id], path, value) for path, value in walk(entity.tree)]
    return hidden


def _from_json(file: FilePath, rows: Sequence[Sequence[str]], places: Mapping[str, int]) -> list[tuple[int, Any, Any]]:
    hidden = []
    for number, (id, path, value) in enumerate(rows, 1):
        if id in places:
            try:
                hidden.append((places[id], read_path(path), json.loads(value)))
            except ValueError as error:
                raise LoadError(str(file), f"expected a path and a value in JSON: {error}.", number) from None
    return hidden
