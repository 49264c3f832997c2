"""Values taken out of the text of one JSON entity again, and what stood there put back: the inverse of jsonfill.

A value that was put in the place of a text gives way to it. A new member or item goes with the comma that came with it,
and what was only made to hold it goes, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kbdisk.entity import Path, read_path
from kbdisk.loaders.edits import Change, spliced
from kbdisk.loaders.kb import Was
from kbdisk.loaders.outline import Place, outline

UNKNOWN = "an older kbdisk did not note what stood there"
ELSEWHERE = "is written in another way than kbdisk wrote it"
OLD = "null"  # what a single value gives way to where nothing tells what stood there


def restore(text: bytes, values: Mapping[Path, Was | None]) -> tuple[bytes, dict[Path, str]]:
    """The text without the values at these paths, each with what its row tells of what stood there; and those that stay."""
    root = outline(text)
    wanted, left = _Wanted(), dict[Path, str]()
    for path, was in values.items():
        problem = wanted.add(root, path, was)
        if problem:
            left[path] = problem
    return spliced(text, _Restoring(wanted).changes_of(root)), left


@dataclass
class _Wanted:
    """What is to become of places: the text that is put back there, or None where they go."""

    gone: dict[Path, str | None] = field(default_factory=dict)  # places of values
    made: dict[Path, str | None] = field(
        default_factory=dict
    )  # places that were made to hold values, once they hold none

    def add(self, root: Place, path: Path, was: Was | None) -> str:
        """Take out a value; returns why it stays, if it does."""
        here = _place(root, path)
        if here is None:
            return ELSEWHERE
        if was is None:
            if here.kind in ("part", "list"):
                return UNKNOWN
            self.gone[path] = OLD
            return ""
        before = {read_path(text) if text else (): old for text, old in was.items()}
        within = {place: old for place, old in before.items() if place[: len(path)] == path}
        if any(_place(root, place) is None for place in within):
            return ELSEWHERE
        self.gone |= within or {path: None}
        self.made |= {place: old for place, old in before.items() if place not in within}
        return ""

    def made_at(self, path: Path) -> tuple[bool, str | None]:
        """Whether what stands at a path was made to hold values, and what stood there before."""
        is_within = any(path[:length] in self.made for length in range(1, len(path)))
        if path in self.made and not (
            is_within and isinstance(path[-1], int)
        ):  # a null in a list that was made is no gap
            return True, self.made[path]
        return is_within, None


class _Restoring:
    """Gathers the changes to one text."""

    def __init__(self, wanted: _Wanted) -> None:
        self.wanted = wanted
        self.changes: list[Change] = []

    def changes_of(self, root: Place) -> list[Change]:
        """All changes to the text of an entity."""
        if self.wanted.gone and self._within(root, ()) and () in self.wanted.made:
            self.changes.clear()
            self._put_back(root, self.wanted.made[()])
        return self.changes

    def _within(self, place: Place, path: Path) -> bool:
        """Take out what is to go from a part or a list; whether nothing is left in it."""
        names = {id(inner): key for key, inner in place.named.items()}
        goes = [False] * len(place.inner)
        for i in reversed(range(len(place.inner))):
            inner = place.inner[i].place
            key = i if place.kind == "list" else names.get(id(inner))
            if key is not None:  # another of the same name counts
                is_last = all(goes[i + 1 :])
                goes[i] = self._goes(inner, (*path, key), is_last)
                if goes[i] and place.kind == "list" and not is_last:  # those behind it keep their places
                    goes[i] = self._put_back(inner, OLD)
        self._take_out(place, goes)
        return bool(goes) and all(goes)

    def _goes(self, place: Place, path: Path, is_last: bool) -> bool:
        """Put back what stood at a place; whether that is nothing."""
        if path in self.wanted.gone:
            is_within = isinstance(path[-1], int) and self.wanted.made_at(path)[0]
            return self._put_back(place, None if is_within else self.wanted.gone[path])
        is_made, before = self.wanted.made_at(path)
        if place.kind == "null":  # where it was made, it stands between the last item of a list and a new one
            return is_made and is_last and self._put_back(place, before)
        if place.kind == "value" or not (is_made or self._leads_on(path)):
            return False
        changes = len(self.changes)
        is_empty = self._within(place, path)
        if is_empty and is_made:
            del self.changes[changes:]
            return self._put_back(place, before)
        return False

    def _leads_on(self, path: Path) -> bool:
        return any(place[: len(path)] == path for place in (*self.wanted.gone, *self.wanted.made))

    def _put_back(self, place: Place, before: str | None) -> bool:
        if before is not None:
            self.changes.append((place.start, place.end, before.encode()))
        return before is None

    def _take_out(self, place: Place, goes: list[bool]) -> None:
        """Take out entries, each with the comma before it, or those at the start with the comma behind them."""
        entries = place.inner
        if goes and all(goes):
            self.changes.append((place.start + 1, place.end - 1, b""))
            return
        first = goes.index(False) if False in goes else 0
        if first:
            self.changes.append((entries[0].start, entries[first].start, b""))
        for i in range(first + 1, len(entries)):
            if goes[i]:
                self.changes.append((entries[i - 1].place.end, entries[i].place.end, b""))


def _place(root: Place, path: Path) -> Place | None:
    """What stands at a path of the text."""
    here: Place | None = root
    for key in path:
        if here is None:
            return None
        if isinstance(key, int):
            here = here.inner[key].place if here.kind == "list" and key < len(here.inner) else None
        else:
            here = here.named.get(key) if here.kind == "part" else None
    return here
