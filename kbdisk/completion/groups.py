"""Properties that belong together: the parts of an object that are there together or not at all, and a min with its max.

Groups are learnt from the entities: nearly all that have any property of a group have all of it. Such a group is filled whole or
not at all, so that no object is left half-made.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from kbdisk.entity import Path
from kbdisk.schemas.schema import Schema
from kbdisk.schemas.text.names import last_word

ALWAYS = 0.95  # of the entities that have any property of a group, those that have all of them
MIN_SEEN = 10  # entities that show it
HALF_MADE = "what it belongs together with is not written"
WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\-\s]+")
LIMITS = {
    "min": "min", "minimum": "min", "lower": "min", "from": "min", "start": "min", "begin": "min",
    "max": "min", "maximum": "min", "upper": "min", "to": "min", "end": "min",
}  # fmt: skip


class Groups:
    """The groups of each class of a schema, as far as its entities show them."""

    def __init__(self, schema: Schema, fillable: Mapping[str, Collection[Path]]) -> None:
        """`fillable` are the properties of each class that a value may be written for."""
        self.members: dict[str, dict[Path, list[Path]]] = {}  # by class, a key of the group -> its properties
        for name, of_class in schema.classes.items():
            found: dict[Path, list[Path]] = defaultdict(list)
            for path in of_class.properties:
                if path in fillable.get(name, ()):
                    found[_key(path)].append(path)
            self.members[name] = {key: paths for key, paths in found.items() if len(paths) > 1}
        self._any: dict[tuple[str, Path], int] = defaultdict(int)
        self._all: dict[tuple[str, Path], int] = defaultdict(int)

    def paths(self, of: str) -> Iterator[Path]:
        """The properties of a class that are in a group."""
        return (path for paths in self.members.get(of, {}).values() for path in paths)

    def see(self, of: str, known: Collection[Path]) -> None:
        """Count the properties that an entity of a class has."""
        for key, paths in self.members.get(of, {}).items():
            count = sum(path in known for path in paths)
            self._any[of, key] += count > 0
            self._all[of, key] += count == len(paths)

    def half_made(self, of: str, missing: Iterable[Path], written: Collection[Path]) -> set[Path]:
        """Which of the properties that were to be written for an entity stay unwritten, as others of their group do."""
        lacking = set(missing)
        found: set[Path] = set()
        for key, paths in self.members.get(of, {}).items():
            if self._any[of, key] >= MIN_SEEN and self._all[of, key] >= ALWAYS * self._any[of, key]:
                own = lacking.intersection(paths)
                if not own <= set(written):
                    found |= own
        return found


def _key(path: Path) -> Path:
    """What the properties of a group have in common: the object that they are in, or a name without its min or max."""
    if len(path) > 1:
        return path[:-1]
    words = [word.lower() for word in WORDS.split(last_word(str(path[0]))) if word]
    return ("", *(LIMITS.get(word, word) for word in words)) if any(word in LIMITS for word in words) else path
