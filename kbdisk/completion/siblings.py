"""Types, units and currencies that all parts in one place share: a new part there gets the same one.

Such a word is always the same, so the model learns nothing about it; but the amount in a new part is of no use without its
currency.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from kbdisk.completion.fields import meets
from kbdisk.completion.placing import Told
from kbdisk.data.graph import pattern
from kbdisk.entity import Entity, Filled, Link, Path, Tree, at, walk, with_values
from kbdisk.schemas.schema import Schema
from kbdisk.schemas.text.names import last_word

WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
MEANING = re.compile(
    r"type|(.* )?(units?|currency|language|calendar|crs|datatype|encoding)"
    r"( (code|text|name|symbol|id|model|format|of measure|of measurement))?"
)
FEW = 5  # parts, that have to say it
MOST = 10_000  # places that are looked at: keys of maps make more of them than anything says something of


@dataclass(slots=True)
class Part:
    """What the parts at one place have in common."""

    seen: int = 0
    keys: dict[str, None] = field(default_factory=dict)  # in the order of the fullest
    words: dict[str, Any] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    broken: set[str] = field(default_factory=set)  # keys of different words

    def see(self, part: Tree) -> None:
        """Take note of a part that has anything."""
        if all(value is None for key, value in part.items() if key[:1] != "@"):
            return
        self.seen += 1
        if len(part) > len(self.keys):
            self.keys = dict.fromkeys([*part, *self.keys])
        for key, value in part.items():
            if key not in self.broken and _says_meaning(key):
                if value == self.words.setdefault(key, value) and type(value) in (str, Link) and value:
                    self.counts[key] += 1
                elif value is not None:
                    self.broken.add(key)

    def shared(self) -> Iterator[tuple[str, Any]]:
        """The words that all of them have."""
        for key, word in self.words.items():
            if self.counts[key] == self.seen >= FEW and key not in self.broken:
                yield key, word


class Siblings:
    """The parts of entities, by their class and place."""

    def __init__(self, schema: Schema, only: Collection[Path] = (), least: float | None = None) -> None:
        self.schema, self.only, self.least = schema, only, least  # how sure a word has to be
        self._parts: dict[tuple[str, Path], Part] = {}

    def see(self, of: str, tree: Tree) -> None:
        """Take note of the parts of an entity."""
        waiting = _within((), tree.items())
        while waiting:
            path, value = waiting.pop()
            if type(value) is list:
                waiting += _within(path, enumerate(value))
                continue
            place = of, pattern(path)
            if place in self._parts or len(self._parts) < MOST:
                self._parts.setdefault(place, Part()).see(value)
            waiting += _within(path, value.items())

    def beside(self, of: str, entity: Entity, filled: Mapping[Path, Filled]) -> dict[Path, Filled]:
        """What was filled, with what goes with it where a part is new, in the order of other parts."""
        places = dict.fromkeys(path[:length] for path in filled for length in range(1, len(path)))
        tree = with_values(entity.tree, entity.made) if places and entity.made else entity.tree
        new = {
            path: one
            for place in places
            if (part := self._parts.get((of, pattern(place)))) and _is_blank(tree, place)
            for path, one in self._shared(of, place, part)
            if path not in filled and _is_blank(tree, path)
        }
        if not new:
            return dict(filled)
        tops = {path[0]: n for n, path in reversed([*enumerate(filled)])}
        ranks = {
            path: [tops[path[0]], *(self._rank(of, path[:i], path[i]) for i in range(1, len(path)))]
            for path in (*filled, *new)
        }
        return dict(sorted({**filled, **new}.items(), key=lambda one: ranks[one[0]]))

    def _shared(self, of: str, place: Path, part: Part) -> Iterator[tuple[Path, Filled]]:
        sure = (part.seen + 1) / (part.seen + 2)
        for key, word in part.shared() if self.least is None or sure >= self.least else ():
            path = (*place, key)
            known = self.schema.classes[of].properties.get(pattern(path))
            unlearnt = known is None or known.role == "ignore"  # of any other the model has a say
            if unlearnt and (not self.only or any(meets(one, path) for one in self.only)):
                yield path, Filled(word, sure, Told(of, pattern(path), path, estimate="shared"))

    def _rank(self, of: str, place: Path, key: str | int) -> int:
        """Where a key stands among those of other parts; behind them if they do not have it."""
        keys = list(self._parts[of, pattern(place)].keys) if (of, pattern(place)) in self._parts else []
        return key if isinstance(key, int) else keys.index(key) if key in keys else len(keys)


@lru_cache(4096)
def _says_meaning(key: str) -> bool:
    """Whether a key is called as what says how a value is meant: priceCurrency and unit_code, not unitPrice."""
    words = WORD.findall(last_word(key))
    return MEANING.fullmatch(" ".join(words).lower()) is not None


def _within(path: Path, items: Iterable[tuple[Any, Any]]) -> list[tuple[Path, Any]]:
    """The parts and lists in one."""
    return [((*path, key), value) for key, value in items if type(value) in (dict, list)]


def _is_blank(tree: Tree, place: Path) -> bool:
    """Whether nothing stands there."""
    try:
        value = at(tree, place)
    except KeyError:
        return True
    return all(one is None for _, one in walk({"": value}))
