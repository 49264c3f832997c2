"""Ids, classes and labels of entities that are trees: which keys hold them, and which key would do as an id.

The id is the value of `--id`, or of the first of "@id", "id", "_id" that the first entity has as a string or a whole
number; "@id" counts in every entity. Where there is none, the id is the number of the entity: entities count from 1, in
the order of their source, in every format; headers and blank lines do not count. The classes are in "@type"; the label
is the first of "name", "label", "title" that is a string.

Where entities have no ids, `Identifiers` looks for a key that would do: each entity has a value there, and all differ.
It takes one pass and keeps a hash of each value of the few keys that still qualify.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

from kbdisk.entity import Entity, Path, Tree, at, show
from kbdisk.schemas.text.numerals import show_digits

ID_KEYS = ("@id", "id", "_id")
LABEL_KEYS = ("name", "label", "title")
ENTITY_KEYS = ("@id", "@type")
NO_PROPERTY = "stands under a key that begins with @, which only JSON can say"
UNNAMED = "an entity without an id where the others have one; its number is its id"


class Naming:
    """The key of the ids of one source; settled by its first entity."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.key: str | None = None
        self.settled = False

    def settle(self, tree: Tree) -> None:
        """Look at the first entity."""
        if not self.settled:
            self.settled = True
            given_key = self.path[0] if self.path is not None and len(self.path) == 1 else None
            usual_key = next((key for key in ID_KEYS if _as_id(tree.get(key)) is not None), None)
            self.key = given_key if isinstance(given_key, str) else usual_key if self.path is None else None

    def id_of(self, tree: Tree) -> str | None:
        """An entity's id, or None; ValueError where there is none at the path that the user gave."""
        if self.path is None:
            id = _as_id(tree.get("@id"))
            return id if id is not None or self.key is None else _as_id(tree.get(self.key))
        try:
            value = at(tree, self.path)
        except KeyError:
            raise ValueError(f"expected an id at {show(self.path)}, got nothing. Add it, or leave --id out.") from None
        id = _as_id(value)
        if id is None:
            raise ValueError(f"expected an id at {show(self.path)}, got {value!r}. Ids are strings or whole numbers.")
        return id

    def ids(self, trees: list[Any], first: int) -> list[str] | None:
        """All their ids, fast: None where not each is an object with a plain string under the key.

        No tree may have a key that begins with "@". Where there is no key, the numbers from `first` on.
        """
        if self.key is None:
            is_numbered = self.path is None and set(map(type, trees)) == {dict}
            return list(map(str, range(first, first + len(trees)))) if is_numbered else None
        try:
            ids = list(map(itemgetter(self.key), trees))
            "".join(ids)  # fails unless all are strings
        except (KeyError, TypeError):
            return None
        return ids if all(ids) else None


def labels(trees: list[Tree]) -> Iterable[str]:
    """The label of each, fast."""
    try:
        texts = list(map(itemgetter(LABEL_KEYS[0]), trees))
        "".join(texts)  # fails unless all are strings
    except (KeyError, TypeError):
        return map(label_of, trees)
    return texts


def label_of(tree: Tree) -> str:
    """The first of the usual keys that is a string, or nothing."""
    for key in LABEL_KEYS:
        label = tree.get(key)
        if type(label) is str:
            return label
    return ""


def classes_of(tree: Tree) -> tuple[str, ...]:
    """The classes in "@type": one, or a list of them."""
    names = tree.get("@type")
    if type(names) is str:
        names = [names]
    return tuple(name for name in names if type(name) is str and name) if type(names) is list else ()


def no_properties(tree: Tree) -> Iterator[Path]:
    """The paths of values that `walk` leaves out: their keys begin with "@", and are neither "@id" nor "@type"."""
    stack: list[tuple[Path, Any]] = [((), tree)]
    while stack:
        path, value = stack.pop()
        if type(value) is list:
            stack.extend(((*path, i), item) for i, item in enumerate(value))
        elif type(value) is dict:
            stack.extend(((*path, key), item) for key, item in value.items() if key[:1] != "@")
            yield from (
                (*path, key) for key in value if key[:1] == "@" and key not in ENTITY_KEYS and value[key] is not None
            )


def _as_id(value: object) -> str | None:
    if type(value) is str:
        return value or None
    return show_digits(value) if type(value) is int else None


# ---------------------------------------------------------------- keys that would do as an id


IDENTIFYING = re.compile(
    r"(?:.*[_. -])?(?:id|key|code|sku|isbn|issn|ean|gtin|upc|doi|iri|uri|url|uuid|guid|slug|symbol|ref|number|no|nr)",
    re.ASCII,
)  # names of keys that usually hold identifiers
MAX_ID_KEYS = 16
MAX_ID_LENGTH = 200  # characters of an id
MIN_ENTITIES_FOR_ID = 2


class Identifiers:
    """Looks for a key whose values identify the entities, while they are read."""

    def __init__(self) -> None:
        self.entities = 0
        self.numbered = 0  # those without an id
        self._hashes: dict[str, set[int]] = {}

    def take(self, entity: Entity) -> None:
        """Take in an entity."""
        self.entities += 1
        if not entity.nameless:
            return
        self.numbered += 1
        if self.numbered == 1:
            ranked = sorted((key for key, value in entity.tree.items() if _is_id(key, value)), key=_rank)
            self._hashes = {key: set() for key in ranked[:MAX_ID_KEYS]}
        for key, hashes in list(self._hashes.items()):
            value = entity.tree.get(key)
            size = len(hashes)
            if _is_id(key, value):
                hashes.add(hash(value))
            if len(hashes) == size:
                del self._hashes[key]

    @property
    def best(self) -> str | None:
        """The best key as a path; None where there is none."""
        enough = self.numbered == self.entities >= MIN_ENTITIES_FOR_ID
        return show((next(iter(self._hashes)),)) if enough and self._hashes else None

    @property
    def hint(self) -> str | None:
        """A hint for the user; None where entities have ids."""
        if not self.numbered:
            return None
        hint = "no id: items are numbered from 1"
        return hint if self.best is None else f"{hint}; --id {self.best} would name them"


def identifiers(entities: Iterable[Entity]) -> Identifiers:
    """The keys that would do as an id for some entities."""
    result = Identifiers()
    for entity in entities:
        result.take(entity)
    return result


def tells_apart(entities: Iterable[Entity], path: Path) -> bool:
    """Whether every entity has a string or a whole number at a path, no two the same, and none has an id already."""
    ids: set[str] = set()
    for entity in entities:
        try:
            value = at(entity.tree, path)
        except KeyError:
            return False
        id = show_digits(value) if type(value) is int else value
        if not entity.nameless or not isinstance(id, str) or not id or id in ids:
            return False
        ids.add(id)
    return bool(ids)


def _rank(key: str) -> int:
    return 0 if IDENTIFYING.fullmatch(key.lower()) else 2 if key in LABEL_KEYS else 1


def _is_id(key: str, value: Any) -> bool:
    rank = _rank(key)
    if type(value) is int:
        return rank == 0
    if type(value) is not str or key[:1] == "@" or not 0 < len(value) <= MAX_ID_LENGTH or "\n" in value:
        return False
    return rank != 1 or " " not in value
