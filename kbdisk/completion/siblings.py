"""What says how the values of a part are meant, where all parts beside it say the same: its type, unit, currency.

Such a word is nothing to learn, so no model fills it; but an amount of a new part is of no use without its currency.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kbdisk.completion.fields import meets
from kbdisk.completion.placing import Told
from kbdisk.entity import Filled, Link, Path, Tree, at, walk
from kbdisk.graph import pattern
from kbdisk.schemas.schema import Schema

MEANING = re.compile(r"@?type|.*(unit|currency|language|calendar|crs|datatype|encoding).*", re.IGNORECASE)
FEW = 5  # parts, that have to say it


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
            if key not in self.broken and MEANING.fullmatch(key):
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

    def __init__(self, schema: Schema, only: Collection[Path] = ()) -> None:
        self.schema, self.only = schema, only
        self._parts: dict[tuple[str, Path], Part] = {}

    def see(self, of: str, tree: Tree) -> None:
        """Take note of the parts of an entity."""
        waiting: list[tuple[Path, Any]] = [((key,), value) for key, value in tree.items()]
        while waiting:
            path, value = waiting.pop()
            if type(value) is dict:
                self._parts.setdefault((of, pattern(path)), Part()).see(value)
                waiting += [((*path, key), one) for key, one in value.items()]
            elif type(value) is list:
                waiting += [((*path, i), one) for i, one in enumerate(value)]

    def beside(self, of: str, tree: Tree, filled: Mapping[Path, Filled]) -> dict[Path, Filled]:
        """What was filled, with what goes with it where a part is new, in the order of other parts."""
        places = dict.fromkeys(path[:length] for path in filled for length in range(1, len(path)))
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
        for key, word in part.shared():
            path = (*place, key)
            known = self.schema.classes[of].properties.get(pattern(path))
            if (known is None or known.role != "given") and (
                not self.only or any(meets(one, path) for one in self.only)
            ):
                told = Told(of, pattern(path), path, estimate="shared")
                yield path, Filled(word, (part.seen + 1) / (part.seen + 2), told)

    def _rank(self, of: str, place: Path, key: str | int) -> int:
        """Where a key stands among those of other parts; behind them if they do not have it."""
        keys = list(self._parts[of, pattern(place)].keys) if (of, pattern(place)) in self._parts else []
        return key if isinstance(key, int) else keys.index(key) if key in keys else len(keys)


def _is_blank(tree: Tree, place: Path) -> bool:
    """Whether nothing stands there."""
    try:
        value = at(tree, place)
    except KeyError:
        return True
    return all(one is None for _, one in walk({"": value}))
