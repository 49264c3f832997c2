"""To which class links go, where the targets are entities of the same source.

The classes of a sample of the entities are kept: those whose ids have small hashes. Links to just these are looked up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kbdisk.schemas.inference.decision import FITS, percent
from kbdisk.schemas.inference.sketch import SPAN, Labels, hash_of

KEPT = 1 << 16


class Targets:
    """Ids and the classes of these entities."""

    def __init__(self) -> None:
        self.below = SPAN
        self.classes: dict[str, str] = {}
        self.names: Mapping[str, str] = {}  # what classes are called in the schema, of which links can tell

    def add(self, ids: Iterable[str], of: str) -> None:
        """Entities of a class."""
        if self.below == SPAN:
            self.classes.update(dict.fromkeys(ids, of))
        else:
            self.classes.update((id, of) for id in ids if hash_of(id) < self.below)
        while len(self.classes) > KEPT:
            self.below //= 2
            self.classes = {id: name for id, name in self.classes.items() if hash_of(id) < self.below}

    def of(self, labels: Labels) -> tuple[str | None, str]:
        """The class that nearly all links go to, or None; and what there is to say of it."""
        asked = 0
        found: Counter[str] = Counter()
        for id, count in labels.weighted():
            if self.below == SPAN or hash_of(id) < self.below:
                asked += count
                if id in self.classes:
                    found[self.classes[id]] += count
        known = found.total()
        if not known:
            return None, "to entities that are not in this source"
        name, most = found.most_common(1)[0]
        if most >= FITS * known and known >= asked / 2 and name in self.names:
            return self.names[name], f"{percent(most / asked)} of them to {self.names[name]}"
        several = ", ".join(
            f"{self.names.get(one, one)} {percent(count / known)}" for one, count in found.most_common(4)
        )
        return None, f"to {several}" + (f"; {percent(1 - known / asked)} not in this source" if known < asked else "")
