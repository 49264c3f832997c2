"""Entities: an id, classes, and a tree of plain values. Imports nothing of ours.

A tree is a dict; its values are

    int, float, Decimal   a number (a Decimal where a float would lose digits); always finite
    str, bool             a string, a truth
    Text                  a string in a language
    Date, Quantity, Coordinate
    Link                  another entity, by its id
    list                  several values
    dict                  a nested part
    None                  asked for: a blank cell or a JSON null, the place for a value without one
    SOMEVALUE, NOVALUE    known to exist but not what it is; known not to exist. Neither is a gap

What is not there takes no space. Keys that begin with "@" are not properties: in a part, "@id" is
the node it was read from and "@type" its classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from kbdisk.notebook import html_table

Path: TypeAlias = tuple[str | int, ...]  # keys from the root to a value; an int counts within a list
CLASSES: Path = ("@type",)  # in the place of a property: the classes of an entity

Precision: TypeAlias = Literal[
    "second", "minute", "hour", "day", "month", "season", "year", "decade", "century", "millennium",
    "10ka", "100ka", "1Ma", "10Ma", "100Ma", "1Ga",
]  # fmt: skip


class Known(Enum):
    """The knowledge of a property without a value: there is none, or an unknown one."""

    SOMEVALUE = "somevalue"
    NOVALUE = "novalue"


SOMEVALUE, NOVALUE = Known.SOMEVALUE, Known.NOVALUE


@dataclass(frozen=True, slots=True)
class Link:
    """Another entity, by its id: an IRI, a blank node `_:b0`, or any string that names one."""

    id: str


@dataclass(frozen=True, slots=True)
class Text:
    """A string in a language, such as Text("Albanien", "de")."""

    text: str
    language: str


@dataclass(frozen=True, slots=True)
class Date:
    """A day, or as much of one as is known: year 0 is 1 BCE, any number of digits; 21 to 24 are seasons.

    `precision` is empty where the parts say it all; `time` is what follows the day, as it was written
    (time of day, zone); `calendar` is empty for the (proleptic) Gregorian; `note` is EDTF's ? ~ or %.
    """

    year: int | None = None
    month: int | None = None
    day: int | None = None
    precision: Precision | Literal[""] = ""
    time: str = ""
    calendar: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of some unit, spelt as the knowledge base spells it. A part that is not known is None."""

    value: int | float | Decimal | None
    unit: str | None


@dataclass(frozen=True, slots=True)
class Coordinate:
    """A place in degrees, on the Earth unless `globe` names another. A part that is not known is None."""

    latitude: int | float | Decimal | None
    longitude: int | float | Decimal | None
    globe: str = ""


Value: TypeAlias = "int | float | Decimal | str | bool | Text | Date | Quantity | Coordinate | Link | Known | list[Value] | dict[str, Value] | None"
Tree: TypeAlias = dict[str, Any]  # str -> Value; Any spares every reader a cast


@dataclass(slots=True)
class Entity:
    """One thing: an id, its classes, and a tree of named values.

    `label` is its name in the wanted language, `graph` its named graph, `position` its place in the source (a line, a row, a
    count), `source` and `besides` the objects that it was read from. `made` holds the values that an earlier completion wrote
    into the source: they are neither given, so never evidence, nor gaps. The id of a `nameless` entity is its place in the
    source, and means nothing in another source.
    """

    id: str
    tree: Tree = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    label: str = ""
    graph: str = ""
    position: int = field(default=0, compare=False)
    source: Any = field(default=None, compare=False, repr=False)
    made: Mapping[Path, Any] | None = field(default=None, compare=False, repr=False)
    nameless: bool = field(default=False, compare=False, repr=False)
    besides: tuple[Any, ...] = field(default=(), compare=False, repr=False)

    def properties(self) -> Iterator[tuple[Path, Any]]:
        """Every (path, value) with a value, in the tree's order; lists and parts are walked into."""
        return (pair for pair in walk(self.tree) if pair[1] is not None)

    def asked(self) -> Iterator[Path]:
        """The paths of gaps: places for a value without one."""
        return (path for path, value in walk(self.tree) if is_gap(value))

    def get(self, path: Path) -> Any:
        """The value at a path; KeyError where there is none."""
        return at(self.tree, path)


@dataclass(frozen=True, slots=True)
class Filled:
    """A filled value, with its confidence and the belief that it was taken from.

    With `blank` an empty string in its place is no value by the schema, and is replaced.
    """

    value: Any
    confidence: float | None = None
    belief: Any = None
    blank: bool = False


@dataclass(slots=True)
class Completion:
    """An entity as it was read, and the values filled in."""

    entity: Entity
    filled: dict[Path, Filled] = field(default_factory=dict)
    held_back: dict[Path, tuple[Filled, str]] = field(default_factory=dict)  # values that are not written, and why
    unlike: tuple[str, ...] = ()  # the reasons why it is unlike the training entities, in words

    def tree(self) -> Tree:
        """The entity's tree with the filled values. The entity itself is not changed."""
        return with_made(self.entity, {path: filled.value for path, filled in self.filled.items()}).tree

    def __repr__(self) -> str:
        """The filled values, each with its confidence."""
        values = (f"{show(path)} = {filled.value!r} ({filled.confidence:.0%})" for path, filled in self.filled.items())
        return f"<Completion of {self.entity.id!r}: {', '.join(values) or 'nothing filled'}>"

    def _repr_html_(self) -> str:
        rows = [(show(path), repr(filled.value), f"{filled.confidence:.0%}") for path, filled in self.filled.items()]
        return html_table(f"Completion of {self.entity.id}", ("path", "value", ">confidence"), rows)


def walk(tree: Tree) -> Iterator[tuple[Path, Any]]:
    """Every (path, leaf) of a tree in order, None included. Not recursive: a tree may be deep."""
    stack: list[tuple[Path, Any]] = [((), tree)]
    while stack:
        path, value = stack.pop()
        kind = type(value)
        if kind is dict:
            stack += [((*path, key), value[key]) for key in reversed(value) if key[:1] != "@"]
        elif kind is list:
            stack += [((*path, i), value[i]) for i in reversed(range(len(value)))]
        else:
            yield path, value


def is_gap(value: Any) -> bool:
    """Whether a leaf is a place without a value; a quantity may have its unit already."""
    return value is None or (type(value) is Quantity and value.value is None)


def is_fillable(tree: Tree, path: Path, value: Any, blank: bool = False) -> bool:
    """Whether a path leads to a gap that a value may fill, so that nothing given is changed; with `blank` "" is one, too.

    A place behind a single value is a gap, too, as this value is the first one then.
    """
    standing: Any = tree
    for key in path:
        if isinstance(standing, list) and isinstance(key, int):
            standing = standing[key] if key < len(standing) else None
        elif isinstance(standing, dict) and isinstance(key, str):
            standing = standing.get(key)
        else:
            return isinstance(key, int) and key > 0 and not isinstance(standing, list | dict)
        if standing is None:
            return True
    if blank and standing == "":
        return True
    if type(standing) is not type(value) or not isinstance(standing, Quantity | Coordinate):
        return False
    parts = [(getattr(standing, name), getattr(value, name)) for name in standing.__slots__]
    halves = [given for given, _ in parts[:2]]
    return None in halves and all(given is None or given == filled for given, filled in parts)


def at(tree: Tree, path: Path) -> Any:
    """The value at a path; KeyError where there is none."""
    value: Any = tree
    for key in path:
        listed = isinstance(value, list) and isinstance(key, int) and key < len(value)
        if not listed and not (isinstance(value, dict) and key in value):
            raise KeyError(show(path))
        value = value[key]
    return value


def without_places(path: Iterable[str | int]) -> Path:
    """A path without the places of lists, prizes.share for prizes[].share; itself where it goes through none."""
    return tuple(key for key in path if not isinstance(key, int))


def with_values(tree: Tree, values: Mapping[Path, Any]) -> Tree:
    """A copy of a tree with values set at paths; parts and lists on the way are made or extended."""
    copy: Tree = _copied(tree)
    for path, value in values.items():
        place: Any = copy
        for key, following in pairwise(path):
            place = _step(place, key, [] if isinstance(following, int) else {})
        _put(place, path[-1], value)
    return copy


def with_made(entity: Entity, values: Mapping[Path, Any]) -> Entity:
    """An entity with values set at paths of its tree, and with further classes."""
    new_classes = [value.id for path, value in values.items() if path[:1] == CLASSES]
    tree = with_values(entity.tree, {path: value for path, value in values.items() if path[:1] != CLASSES})
    return replace(entity, tree=tree, classes=(*entity.classes, *new_classes))


def _step(place: Any, key: str | int, new_container: Any) -> Any:
    """The container under a key of a part or a list; `new_container` is put there where there is none."""
    standing = place[key] if (key < len(place) if isinstance(key, int) else key in place) else None
    if standing is None:
        _put(place, key, new_container)
        return new_container
    if isinstance(new_container, list) and not isinstance(standing, list):  # one value, and another is put beside it
        place[key] = standing = [standing]
    return standing


def _put(place: Any, key: str | int, value: Any) -> None:
    if isinstance(place, list) and isinstance(key, int) and key >= len(place):
        place.extend([None] * (key + 1 - len(place)))
    place[key] = value


def _copied(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _copied(value) for key, value in tree.items()}
    return [_copied(value) for value in tree] if isinstance(tree, list) else tree


# ---------------------------------------------------------------- paths as text

_PLAIN = re.compile(r'[^.\[\]"\s](?:[^.\[\]"]*[^.\[\]"\s])?')  # no blank at either end, which a reader would strip
_NAME = r'(?:"((?:[^"\\]|\\.)*)"|([^.\[\]"]+))'
_FIRST = re.compile("()" + _NAME)
_NEXT = re.compile(r"\[(\d+)\]|\." + _NAME)


def show(path: Path) -> str:
    """A path as text: launch.year, prizes[0].share, translations."a.b"."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            plain = _PLAIN.fullmatch(key)
            text += ("." if text else "") + (key if plain else '"' + re.sub(r'(["\\])', r"\\\1", key) + '"')
    return text


def read_property(text: str) -> Path:
    """The path of a property that a user names; rdf:type names the classes of entities."""
    return CLASSES if text == "rdf:type" else read_path(text)


def read_path(text: str) -> Path:
    """The path of a text that `show` has written; ValueError for other texts."""
    path: list[str | int] = []
    place = 0
    while place < len(text) or not path:
        step = (_NEXT if path else _FIRST).match(text, place)
        if step is None:
            raise ValueError(f'expected a path such as launch.year, prizes[0].share or "odd (name)", got {text!r}')
        index, quoted, plain = step.groups()
        path.append(int(index) if index else re.sub(r"\\(.)", r"\1", quoted) if plain is None else plain)
        place = step.end()
    return tuple(path)
