"""Which key would do as an id where entities have none: each has a value there, and no two have the same.

One pass. What is kept is a hash of each value of the few keys that still would do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kbdisk.entity import Entity, Path, at, show
from kbdisk.loaders.naming import LABEL_KEYS
from kbdisk.schemas.text.numerals import show_digits

IDENTIFYING = re.compile(
    r"(?:.*[_. -])?(?:id|key|code|sku|isbn|issn|ean|gtin|upc|doi|iri|uri|url|uuid|guid|slug|symbol|ref|number|no|nr)",
    re.ASCII,
)  # names of keys whose values are made to tell things apart
MAX_KEYS = 16
MAX_LENGTH = 200  # characters of an id
MIN_ENTITIES = 2


class Identifiers:
    """Looks for such a key while entities go by."""

    def __init__(self) -> None:
        self.entities = 0
        self.numbered = 0  # those without an id
        self._hashes: dict[str, set[int]] = {}

    def take(self, entity: Entity) -> None:
        """Another entity."""
        self.entities += 1
        if not entity.nameless:
            return
        self.numbered += 1
        if self.numbered == 1:
            ranked = sorted((key for key, value in entity.tree.items() if _is_id(key, value)), key=_rank)
            self._hashes = {key: set() for key in ranked[:MAX_KEYS]}
        for key, hashes in list(self._hashes.items()):
            value = entity.tree.get(key)
            size = len(hashes)
            if _is_id(key, value):
                hashes.add(hash(value))
            if len(hashes) == size:
                del self._hashes[key]

    @property
    def best(self) -> str | None:
        """The key that does best, as a path; None where none does."""
        enough = self.numbered == self.entities >= MIN_ENTITIES
        return show((next(iter(self._hashes)),)) if enough and self._hashes else None

    @property
    def hint(self) -> str | None:
        """What to tell a user; None where entities have ids."""
        if not self.numbered:
            return None
        told = "no id: items are numbered from 1"
        return told if self.best is None else f"{told}; --id {self.best} would name them"


def identifiers(entities: Iterable[Entity]) -> Identifiers:
    """What is found in some entities."""
    found = Identifiers()
    for entity in entities:
        found.take(entity)
    return found


def tells_apart(entities: Iterable[Entity], path: Path) -> bool:
    """Whether every entity has a string or a whole number at a path, no two the same, and none has an id already."""
    met: set[str] = set()
    for entity in entities:
        try:
            value = at(entity.tree, path)
        except KeyError:
            return False
        id = show_digits(value) if type(value) is int else value
        if not entity.nameless or not isinstance(id, str) or not id or id in met:
            return False
        met.add(id)
    return bool(met)


def _rank(key: str) -> int:
    return 0 if IDENTIFYING.fullmatch(key.lower()) else 2 if key in LABEL_KEYS else 1


def _is_id(key: str, value: Any) -> bool:
    rank = _rank(key)
    if type(value) is int:
        return rank == 0
    if type(value) is not str or key[:1] == "@" or not 0 < len(value) <= MAX_LENGTH or "\n" in value:
        return False
    return rank != 1 or " " not in value
